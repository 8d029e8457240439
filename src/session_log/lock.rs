//! Who may change a log: one handle at a time, in this process and in others of ours.

use super::LogError;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// The lock that all handles of this process on one log share.
pub(super) type ProcessLock = Arc<Mutex<()>>;

static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// The lock of the log at this path, whose directory must be there.
pub(super) fn of_process(path: &Path) -> Result<ProcessLock, LogError> {
    let key = canonical(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LogError::Missing {
            path: path.to_path_buf(),
        },
        _ => LogError::io(path, "find it", source),
    })?;
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
        return Ok(lock);
    }
    locks.retain(|_, lock| lock.strong_count() > 0);
    let lock = ProcessLock::default();
    locks.insert(key, Arc::downgrade(&lock));
    Ok(lock)
}

fn canonical(path: &Path) -> io::Result<PathBuf> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    Ok(directory.canonicalize()?.join(name))
}

/// The lock on a log's file that keeps other processes of ours out, until it is dropped.
#[derive(Debug)]
pub(super) struct FileLock(Arc<File>);

impl FileLock {
    /// Waits for the lock. `path` is for the error.
    pub(super) fn wait(file: &Arc<File>, path: &Path) -> Result<Self, LogError> {
        loop {
            match file.lock() {
                Ok(()) => return Ok(Self(file.clone())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LogError::io(path, "lock it", source)),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It fails for a file that is not open only, and this one is.
        let _ = self.0.unlock();
    }
}
