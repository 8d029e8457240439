//! File names of framed logs and of their objects: which ones are exactly a session's own (`spec/session-log.md`).

/// How the name of a log ends; what stands before it is the session's ID.
pub const LOG_SUFFIX: &str = ".session-log";
/// How the name of an object ends.
pub const OBJECT_SUFFIX: &str = ".pending-object";
/// How the name of an object ends while it is written.
pub const TEMPORARY_SUFFIX: &str = ".pending-object.tmp";

/// The longest session ID of a framed log, in bytes.
const LONGEST_ID: usize = 255;

/// A file beside a log that is exactly of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    /// The object of the event at this position.
    Object(u64),
    /// An object that was being written.
    Temporary,
}

/// Why a session of a framed log cannot have this ID; none if it can: 1 to 255 bytes, each an ASCII letter or digit, `-` or `_`.
pub fn wrong_id(id: &str) -> Option<&'static str> {
    let is_right = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if id.is_empty() {
        Some("it is empty")
    } else if id.len() > LONGEST_ID {
        Some("it is longer than 255 bytes")
    } else if !id.bytes().all(is_right) {
        Some("it holds something other than ASCII letters, digits, `-` and `_`")
    } else {
        None
    }
}

/// The session's ID, if this is the name of a log.
pub fn log_id(name: &str) -> Option<&str> {
    let id = name.strip_suffix(LOG_SUFFIX)?;
    wrong_id(id).is_none().then_some(id)
}

/// What this file is to the session; none if its name does not match exactly.
pub fn sidecar(id: &str, name: &str) -> Option<Sidecar> {
    let rest = name.strip_prefix(id)?.strip_prefix('-')?;
    if let Some(digits) = rest.strip_suffix(OBJECT_SUFFIX) {
        return canonical(digits).map(Sidecar::Object);
    }
    canonical(rest.strip_suffix(TEMPORARY_SUFFIX)?).map(|_| Sidecar::Temporary)
}

/// The session whose object this is, finished or being written; none if it is no such name.
pub fn sidecar_id(name: &str) -> Option<&str> {
    let rest = name
        .strip_suffix(OBJECT_SUFFIX)
        .or_else(|| name.strip_suffix(TEMPORARY_SUFFIX))?;
    let (id, _) = rest.rsplit_once('-')?;
    (wrong_id(id).is_none() && sidecar(id, name).is_some()).then_some(id)
}

fn canonical(digits: &str) -> Option<u64> {
    let position: u64 = digits.parse().ok()?;
    // Parsing takes `+1` and `01` too.
    (position.to_string() == digits).then_some(position)
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
            let whose = what.map(|_| "s");
            assert_eq!(sidecar_id(name).filter(|id| *id == "s"), whose, "{name}");
        }
        assert_eq!(sidecar_id("s-other-0.pending-object"), Some("s-other"));
        assert_eq!(sidecar_id("a b-0.pending-object"), None);
    }

    #[test]
    fn an_id_is_checked_before_it_is_a_name() {
        assert!(wrong_id("aZ9-_").is_none());
        assert!(wrong_id(&"a".repeat(255)).is_none());
        for id in ["", "a/b", "..", "a.b", "ä", "a\0", &"a".repeat(256)] {
            assert!(wrong_id(id).is_some(), "{id}");
        }
        assert_eq!(log_id("a.session-log"), Some("a"));
        assert_eq!(log_id("a b.session-log"), None);
        assert_eq!(log_id(".session-log"), None);
    }
}
