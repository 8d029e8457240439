//! The record of messages between sessions: what each session saw, one file an entry.
//!
//! A [`Recorder`] writes entries, each whole or not at all; [`Entries`] holds what a session's folder says. The record is
//! observational: a gap or a damaged file is *unknown*, never *nothing was sent*. Nothing here edits or deletes an entry.
//! `spec/record.md` is the source of the rules.
//!
//! ```
//! use sessionfs::record::{Entries, Party, Queued, Recorder, Sent};
//!
//! # let folder = tempfile::tempdir()?;
//! # let directory = folder.path();
//! let recorder = Recorder::new(directory, "1ab2c3d4")?.in_directory("/home/me/parser".into());
//! let path = recorder.sent(&Sent {
//!     at: None,
//!     peer: Party {
//!         named: Some("docs".into()),
//!         session_id: None,
//!     },
//!     text: "May I change the format?".into(),
//!     queued: Queued::Yes,
//!     more: Vec::new(),
//! })?;
//! assert!(path.starts_with(directory.join("1ab2c3d4")));
//! assert_eq!(Entries::of_folder(&directory.join("1ab2c3d4"))?.list.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod entry;
mod folder;
mod json;
mod name;
mod read;
mod settings;
mod verify;
mod withhold;
mod write;

pub use entry::{Digested, Entry, FIELDS, Kind, Message, Outcome, Peer, Said, Side};
pub use json::{Json, NotJson, Object};
pub use name::{EntryName, is_session_id, stamp};
pub use read::{DamagedEntry, Entries, is_entry_file};
pub use settings::TextMode;
pub use verify::{EntryFault, Verified, verify};
pub use write::{Chain, Field, Party, Queued, Received, Recorder, Sent, Start};

use std::path::{Path, PathBuf};

/// Why an entry was not recorded. The message itself is not concerned: whoever records may ignore it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The session's ID could not be a folder's name.
    #[error(
        "the session ID {id:?} is refused: {why}; an ID is 1 to 255 ASCII letters, digits, '-' and '_'"
    )]
    SessionId {
        /// The ID, its beginning if it is long.
        id: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What should be recorded does not say what an entry needs, or says it in a way that no entry does.
    #[error("{field}: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// What says whether texts are recorded cannot be understood, and no text is recorded on a guess.
    #[error("{}: {why}; mend it or remove it", path.display())]
    Settings {
        /// The settings file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something else than a folder stands where the session's entries belong. A symbolic link is not followed.
    #[error("{}: {kind} stands where the session's folder belongs, and nothing is written through it", path.display())]
    NotFolder {
        /// The place.
        path: PathBuf,
        /// What stands there, with its article.
        kind: &'static str,
    },
    /// The file system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// Every name of the entry's millisecond that was tried is taken.
    #[error("{}: no free name at {stamp} after {tried} tries", path.display())]
    NamesTaken {
        /// The session's folder.
        path: PathBuf,
        /// The millisecond, as names have it.
        stamp: String,
        /// How many names were tried.
        tried: u64,
    },
}

impl RecordError {
    /// Why, without the path where there is one.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { doing, source, .. } => format!("cannot {doing}: {source}"),
            other => other.to_string(),
        }
    }

    fn io(path: &Path, doing: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            doing,
            source: source.into(),
        }
    }
}
