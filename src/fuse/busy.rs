//! Who keeps a mount busy, as far as the process list shows it. The mount itself is never touched.

use super::mountinfo;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to look at most.
const LIMIT: Duration = Duration::from_secs(2);

/// The kernel's function in which a process waits for the answer of a FUSE mount.
const WAIT: &str = "request_wait_answer";

/// How many to name at most.
const NAMED: usize = 10;

/// A process that uses the mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its process ID.
    pub pid: u32,
    /// Its name, shortened by the kernel.
    pub name: String,
    /// What of the mount it uses.
    pub what: Use,
}

/// What a process uses of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its working directory is there.
    WorkingDirectory,
    /// Its root directory is there.
    RootDirectory,
    /// It holds this open.
    Open(PathBuf),
    /// It waits for the answer of a FUSE mount, and nobody can see of which.
    Waiting,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, what } = self;
        match what {
            Use::WorkingDirectory => write!(f, "{name} (process {pid}) works in it"),
            Use::RootDirectory => write!(f, "{name} (process {pid}) has its root directory in it"),
            Use::Waiting => write!(
                f,
                "{name} (process {pid}) waits for an answer, of this mount or another"
            ),
            Use::Open(path) => write!(f, "{name} (process {pid}) holds {} open", path.display()),
        }
    }
}

/// The first processes found that use what lies at or below `point`. Those of other users can only be seen by root.
pub(super) fn users(point: &Path) -> Vec<User> {
    let end = Instant::now() + LIMIT;
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .take_while(|_| Instant::now() < end)
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter_map(|pid| user(pid, point))
        .take(NAMED)
        .collect()
}

fn user(pid: u32, point: &Path) -> Option<User> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let what = usage(&process, point)?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(User {
        pid,
        name: name.trim_end().to_owned(),
        what,
    })
}

fn usage(process: &Path, point: &Path) -> Option<Use> {
    // A link of these gives the path as text; nothing at the path is asked.
    let below = |link: &Path| {
        fs::read_link(link)
            .ok()
            .filter(|path| mountinfo::is_below(path, point))
    };
    if below(&process.join("cwd")).is_some() {
        return Some(Use::WorkingDirectory);
    }
    if below(&process.join("root")).is_some() {
        return Some(Use::RootDirectory);
    }
    let open = fs::read_dir(process.join("fd"))
        .ok()?
        .filter_map(Result::ok)
        .find_map(|handle| below(&handle.path()));
    match open {
        Some(path) => Some(Use::Open(path)),
        None => waits(process).then_some(Use::Waiting),
    }
}

/// Whether one of its threads waits in the kernel for a FUSE mount: who asks for a status holds nothing open meanwhile.
fn waits(process: &Path) -> bool {
    let waits = |thread: fs::DirEntry| {
        fs::read_to_string(thread.path().join("wchan")).is_ok_and(|place| place == WAIT)
    };
    fs::read_dir(process.join("task"))
        .is_ok_and(|threads| threads.filter_map(Result::ok).any(waits))
}
