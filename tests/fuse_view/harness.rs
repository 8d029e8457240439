//! A real mount of a tree in memory, and real tools on it.

use crate::memory::{Memory, Shown};
use nix::mount::{MntFlags, umount2};
use sessionfs::fuse::mount::{Mount, MountError, MountOptions};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// A mounted tree. Unmounts when it goes, also when a test fails.
pub(crate) struct Mounted {
    pub(crate) mount: Mount,
    pub(crate) memory: Arc<Memory>,
    /// Tells the watchdog that the test has come to its end.
    _watched: Sender<()>,
    /// An empty directory beside the mount, for copies.
    pub(crate) scratch: PathBuf,
    _folder: tempfile::TempDir,
}

impl Mounted {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self::with(memory, |_| {})
    }

    pub(crate) fn with(memory: Arc<Memory>, change: impl FnOnce(&mut MountOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        let point = folder.path().join("mount");
        std::fs::create_dir(&scratch).unwrap();
        std::fs::create_dir(&point).unwrap();
        let mut options = MountOptions {
            point: sessionfs::fuse::point::check(&point, &[]).unwrap(),
            source: "a tree, in memory".to_owned(),
            allow_other: false,
        };
        change(&mut options);
        let shown = Arc::new(Shown(Arc::clone(&memory)));
        let mount = Mount::new(shown, &options).unwrap_or_else(|error| cannot(&error));
        let watched = watch(&mount, &memory);
        Self {
            mount,
            memory,
            _watched: watched,
            scratch,
            _folder: folder,
        }
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.mount.point().join(path)
    }
}

/// Frees a test that hangs in its own mount, so that it fails. Otherwise its process could not even be killed: it would
/// wait for itself.
fn watch(mount: &Mount, memory: &Arc<Memory>) -> Sender<()> {
    let (watched, end) = channel();
    let point = mount.point().to_path_buf();
    let memory = Arc::clone(memory);
    std::thread::spawn(move || {
        if end.recv_timeout(3 * LIMIT) == Err(RecvTimeoutError::Timeout) {
            memory.let_go();
            abort(&point);
        }
    });
    watched
}

/// Makes every request of the mount fail, now and from now on.
fn abort(point: &Path) {
    // Root's way, and then the owner's.
    let _ = umount2(point, MntFlags::MNT_FORCE);
    let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let here = |line: &&str| line.split(' ').nth(4).map(Path::new) == Some(point);
    let device = list
        .lines()
        .filter(here)
        .filter_map(|line| line.split(' ').nth(2));
    for number in device.filter_map(|device| device.split(':').nth(1)) {
        let _ = std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
    }
}

fn cannot(error: &MountError) -> ! {
    let hint = error.hint().unwrap_or_default();
    panic!("the mount tests need a working /dev/fuse: {error}. {hint}");
}

/// Runs a tool to its end and gives what it wrote; it must succeed.
pub(crate) fn tool<S: AsRef<OsStr>>(words: &[S]) -> Vec<u8> {
    let output = try_tool(words);
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    assert!(
        output.status.success(),
        "{words:?}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Runs a tool to its end.
pub(crate) fn try_tool<S: AsRef<OsStr>>(words: &[S]) -> Output {
    // `timeout` says so if the tool is not installed, and ends one that hangs.
    Command::new("timeout")
        .arg(LIMIT.as_secs().to_string())
        .args(words)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Starts a tool that goes on by itself.
pub(crate) fn start<S: AsRef<OsStr>>(words: &[S]) -> Running {
    let child = Command::new(&words[0])
        .args(&words[1..])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Running(Some(child))
}

/// A tool that goes on by itself; ended when it goes.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// What it wrote, after it came to its end.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Not waited for: one that hangs in the mount ends only with the mount.
            let _ = child.kill();
        }
    }
}

/// Text of an output without the last line break.
pub(crate) fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end().to_owned()
}

/// What `stat` says in this format.
pub(crate) fn stat(format: &str, path: &Path) -> String {
    text(&tool(&[
        OsStr::new("stat"),
        OsStr::new("-c"),
        OsStr::new(format),
        path.as_os_str(),
    ]))
}

/// Waits until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number of an errno that a call gave.
pub(crate) fn errno<T>(result: std::io::Result<T>) -> nix::errno::Errno {
    let error = result.err().expect("the call must fail");
    nix::errno::Errno::from_raw(error.raw_os_error().unwrap())
}

/// A path as a word for a shell.
pub(crate) fn word(path: &Path) -> String {
    format!("'{}'", String::from_utf8_lossy(path.as_os_str().as_bytes()))
}
