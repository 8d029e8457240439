//! File names of a session: which ones are its own, and whether a file system can hold them.

use super::LogError;
use std::fmt;
use std::path::{Path, PathBuf};

/// How the name of a log ends; what stands before it is the session's ID.
pub const LOG_SUFFIX: &str = ".session-log";
const OBJECT_SUFFIX: &str = ".pending-object";
const TEMPORARY_SUFFIX: &str = ".pending-object.tmp";

/// The longest session ID, in bytes.
const LONGEST_ID: usize = 255;
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

/// A file beside a log that is exactly of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sidecar {
    /// The object of the event at this position.
    Object(u64),
    /// An object that was being written.
    Temporary,
}

/// Refuses what is no session ID: 1 to 255 bytes, each an ASCII letter or digit, `-` or `_`.
pub(super) fn check_id(id: &str) -> Result<(), LogError> {
    let why = if id.is_empty() {
        "it is empty"
    } else if id.len() > LONGEST_ID {
        "it is longer than 255 bytes"
    } else if !id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    {
        "it holds something other than ASCII letters, digits, `-` and `_`"
    } else {
        return Ok(());
    };
    Err(LogError::InvalidId {
        id: id.to_owned(),
        why,
    })
}

/// The session's ID, if this is the name of a log.
pub fn log_id(name: &str) -> Option<&str> {
    let id = name.strip_suffix(LOG_SUFFIX)?;
    check_id(id).is_ok().then_some(id)
}

/// The position of the event that names this object, if this is exactly the name of a finished object of the session.
pub fn object_position(id: &str, name: &str) -> Option<EventPosition> {
    match sidecar(id, name)? {
        Sidecar::Object(position) => Some(EventPosition(position)),
        Sidecar::Temporary => None,
    }
}

/// What this file is to the session; none if its name does not match exactly.
pub(super) fn sidecar(id: &str, name: &str) -> Option<Sidecar> {
    let rest = name.strip_prefix(id)?.strip_prefix('-')?;
    if let Some(digits) = rest.strip_suffix(OBJECT_SUFFIX) {
        return canonical(digits).map(Sidecar::Object);
    }
    canonical(rest.strip_suffix(TEMPORARY_SUFFIX)?).map(|_| Sidecar::Temporary)
}

fn canonical(digits: &str) -> Option<u64> {
    let position: u64 = digits.parse().ok()?;
    // Parsing takes `+1` and `01` too.
    (position.to_string() == digits).then_some(position)
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
    fn only_exact_names_are_of_a_session() {
        let cases = [
            ("s-0.pending-object", Some(Sidecar::Object(0))),
            (
                "s-18446744073709551615.pending-object",
                Some(Sidecar::Object(u64::MAX)),
            ),
            ("s-7.pending-object.tmp", Some(Sidecar::Temporary)),
            ("s-18446744073709551616.pending-object", None),
            ("s-01.pending-object", None),
            ("s-+1.pending-object", None),
            ("s-.pending-object", None),
            ("s-other-0.pending-object", None),
            ("s-01.pending-object.tmp", None),
            ("s0.pending-object", None),
            ("s-0.pending-object.old", None),
        ];
        for (name, what) in cases {
            assert_eq!(sidecar("s", name), what, "{name}");
        }
    }

    #[test]
    fn an_id_is_checked_before_it_is_a_name() {
        assert!(check_id("aZ9-_").is_ok());
        assert!(check_id(&"a".repeat(255)).is_ok());
        for id in ["", "a/b", "..", "a.b", "ä", "a\0", &"a".repeat(256)] {
            assert!(check_id(id).is_err(), "{id}");
        }
        assert_eq!(log_id("a.session-log"), Some("a"));
        assert_eq!(log_id("a b.session-log"), None);
        assert_eq!(log_id(".session-log"), None);
    }

    #[test]
    fn a_name_that_no_file_system_takes_is_an_error() {
        let longest = "a".repeat(243);
        assert!(log_path(Path::new(""), &longest).is_ok());
        let error = log_path(Path::new(""), &"a".repeat(244)).unwrap_err();
        assert!(matches!(error, LogError::NameTooLong { .. }));
        assert!(temporary_path(Path::new(""), &longest, 0).is_err());
    }
}
