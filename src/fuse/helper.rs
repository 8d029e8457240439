//! `fusermount3`, which mounts and unmounts for an ordinary user.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Where it may be. A service manager may start us without a search path.
const NAMES: [&str; 4] = [
    "fusermount3",
    "/usr/bin/fusermount3",
    "/bin/fusermount3",
    "fusermount",
];

/// A mount whose process hangs can make the helper hang; nobody shall wait for that.
const LIMIT: Duration = Duration::from_millis(1500);

/// What unmounting through the helper came to.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Somebody uses the mount.
    Busy,
    /// Anything else, in words.
    Other(String),
}

/// Unmounts; `lazily` also while the mount is in use.
pub(super) fn unmount(point: &Path, lazily: bool) -> Result<(), Refusal> {
    let flags = if lazily { "-uz" } else { "-u" };
    let arguments = [OsStr::new(flags), OsStr::new("--"), point.as_os_str()];
    let (status, said) = run(&arguments).map_err(|error| Refusal::Other(error.to_string()))?;
    if status.success() {
        Ok(())
    } else if said.contains("busy") {
        Err(Refusal::Busy)
    } else {
        Err(Refusal::Other(said.trim().to_owned()))
    }
}

/// Whether it is installed and runs.
pub(super) fn is_there() -> bool {
    run(&[OsStr::new("-V")]).is_ok_and(|(status, _)| status.success())
}

fn run(arguments: &[&OsStr]) -> io::Result<(ExitStatus, String)> {
    let mut child = start(arguments)?;
    let Some(status) = wait(&mut child)? else {
        child.kill()?;
        return Err(io::Error::other("fusermount3 does not come to an end"));
    };
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(4096).read_to_end(&mut said)?;
    }
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

fn start(arguments: &[&OsStr]) -> io::Result<Child> {
    let given = std::env::var_os("FUSERMOUNT_PATH");
    let names = given
        .iter()
        .map(AsRef::as_ref)
        .chain(NAMES.iter().map(OsStr::new));
    for name in names {
        let started = Command::new(name)
            .args(arguments)
            // Its messages are compared.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match started {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            started => return started,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "fusermount3 is not installed",
    ))
}

/// Waits for the end; nothing if it takes too long.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}
