//! Framed session logs: append-ordered events, each frame with its checksum, and the objects attached to them.
//!
//! The format is public; the published crate `kcode-session-log` 0.2.1 writes the same bytes and reads ours. The source of
//! every rule is `spec/session-log.md`. [`SessionLogStore`] is one flat directory of logs; [`SessionLog`] is a log open for
//! writing; [`Snapshot`] is a log as it is read, which never writes, takes no lock and shows the verified beginning of a
//! log that is damaged.
//!
//! What is written goes through one small layer of operations (`files`), so that the tests can make each step fail. What is
//! read goes through one scanner (`scan`), so that opening, reading, following and checking cannot disagree.

mod error;
mod files;
mod frame;
mod lock;
mod name;
mod object;
mod payload;
mod reader;
mod recover;
mod scan;
mod tail;
mod window;
mod writer;

#[cfg(test)]
mod faults;

pub use error::{Fault, LogError, ObjectFault};
pub use name::EventPosition;
pub(crate) use object::verify as verify_object;
pub use object::{ObjectHead, PendingObject, read_object_head};
pub use payload::{Event, FORMAT_VERSION, Header, Role};
pub use reader::{Events, Mark, Problem, Snapshot, State};
pub use recover::Recovery;
pub(crate) use scan::{Found, Scan, Stop};
pub use writer::SessionLog;

use crate::store::log_name::log_id;
use files::{Files, RealFiles};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One flat directory of framed logs and their pending objects.
///
/// ```
/// use sessionfs::session_log::{Role, SessionLogStore, State};
///
/// # let directory = tempfile::tempdir()?;
/// let store = SessionLogStore::new(directory.path());
/// let mut log = store.create("notes", "2026-11-30T20:40:29Z")?;
/// log.append(Role::UserMessage, "What is left to do?")?;
/// let position = log.attach("the plan", "plan.txt", "text/plain", b"write the tests")?;
/// log.seal()?;
///
/// let snapshot = store.read("notes")?;
/// assert_eq!(snapshot.state(), State::Sealed);
/// assert_eq!(snapshot.events().count(), 2);
/// assert_eq!(snapshot.object(position)?.bytes, b"write the tests");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionLogStore {
    directory: PathBuf,
    files: Arc<dyn Files>,
}

impl SessionLogStore {
    /// The store of this directory, which need not be there yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::with_files(directory, Arc::new(RealFiles))
    }

    fn with_files(directory: impl Into<PathBuf>, files: Arc<dyn Files>) -> Self {
        Self {
            directory: directory.into(),
            files,
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates an empty log, durable when this returns. `created_at` is kept exactly as it is given and must not be blank.
    /// Never overwrites: a log that is there already is [`LogError::Exists`].
    pub fn create(&self, id: &str, created_at: &str) -> Result<SessionLog, LogError> {
        SessionLog::create(self, id, created_at)
    }

    /// Opens a log for writing: verifies all of it and of its objects, and only then cuts an incomplete last frame and removes
    /// objects that no event names. [`SessionLog::recovery`] says what that was. An opening that fails changes nothing.
    pub fn open(&self, id: &str) -> Result<SessionLog, LogError> {
        recover::open(self, id)
    }

    /// Reads a log as it is now. Never writes; a damaged log is no error here but a [`Problem`] of the snapshot.
    pub fn read(&self, id: &str) -> Result<Snapshot, LogError> {
        self.read_watched(id, &mut |_| {})
    }

    /// [`Self::read`] that tells how far it is: the byte up to which the log is verified.
    pub fn read_watched(
        &self,
        id: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Snapshot, LogError> {
        Snapshot::open(&self.directory, id, progress)
    }

    /// Removes a log, in whatever state, with the objects that are exactly its own, and makes that durable.
    pub fn delete(&self, id: &str) -> Result<(), LogError> {
        writer::delete(self, id)
    }

    /// The IDs of all logs in the directory, sorted. A directory that is not there has none.
    pub fn session_ids(&self) -> Result<Vec<String>, LogError> {
        let io = |source| LogError::io(&self.directory, "list", source);
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(io)?.file_name();
            ids.extend(name.to_str().and_then(log_id).map(str::to_owned));
        }
        ids.sort_unstable();
        Ok(ids)
    }
}
