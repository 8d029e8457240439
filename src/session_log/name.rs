//! Where the files of a session lie, and whether a file system can hold their names.

use super::LogError;
use crate::store::log_name::{LOG_SUFFIX, OBJECT_SUFFIX, TEMPORARY_SUFFIX, wrong_id};
use std::fmt;
use std::path::{Path, PathBuf};

/// The longest file name that Linux takes, in bytes (`limits.h`, `NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// The place of an event in its log, counted from 0; its identity, which is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition(pub u64);

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Refuses what is no session ID.
pub(super) fn check_id(id: &str) -> Result<(), LogError> {
    match wrong_id(id) {
        None => Ok(()),
        Some(why) => Err(LogError::InvalidId {
            id: id.to_owned(),
            why,
        }),
    }
}

/// Where a session's log lies.
pub(super) fn log_path(directory: &Path, id: &str) -> Result<PathBuf, LogError> {
    check_id(id)?;
    place(directory, format!("{id}{LOG_SUFFIX}"))
}

/// Where an object lies.
pub(super) fn object_path(directory: &Path, id: &str, position: u64) -> Result<PathBuf, LogError> {
    place(directory, format!("{id}-{position}{OBJECT_SUFFIX}"))
}

/// Where an object lies while it is written.
pub(super) fn temporary_path(
    directory: &Path,
    id: &str,
    position: u64,
) -> Result<PathBuf, LogError> {
    place(directory, format!("{id}-{position}{TEMPORARY_SUFFIX}"))
}

fn place(directory: &Path, name: String) -> Result<PathBuf, LogError> {
    if name.len() > LONGEST_NAME {
        return Err(LogError::NameTooLong { name });
    }
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_file_system_takes_is_an_error() {
        let longest = "a".repeat(243);
        assert!(log_path(Path::new(""), &longest).is_ok());
        let error = log_path(Path::new(""), &"a".repeat(244)).unwrap_err();
        assert!(matches!(error, LogError::NameTooLong { .. }));
        assert!(temporary_path(Path::new(""), &longest, 0).is_err());
    }
}
