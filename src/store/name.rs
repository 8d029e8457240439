//! Names out of hostile bytes: one path component each, and two different ones never meet.
//!
//! `spec/mount-tree.md`, "Names are safe", is the source of the rules. Every changed byte is shown as `%XX`. A `%` of the
//! original is itself changed where it would read as such an escape, so the original can be told from the result.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The longest name in bytes that file systems take.
const LONGEST: usize = 255;

/// What stands in front of the digest of a name that was cut. The escape of a character that is never escaped, so no
/// other name holds it.
const CUT: &str = "%3D";

/// A name as one safe path component of at most 255 bytes: valid UTF-8, no separator, no NUL, no control, line-breaking
/// or bidirectional-formatting character, not `.` or `..`, no `-` in front, not empty.
///
/// A name that is safe already stays as it is. A name that is too long is cut, and its digest stands for the rest.
pub fn safe_name(name: &[u8]) -> String {
    escape(name, LONGEST, |_| false)
}

/// [`safe_name`] that leaves room for what is put behind it: at most `longest` bytes, which must be at least 64.
pub fn safe_name_within(name: &[u8], longest: usize) -> String {
    escape(name, longest, |_| false)
}

/// [`safe_name`] for an ID that this program may put a suffix such as `~2` to: `~` is escaped too, so that no ID looks
/// like one that has the suffix.
pub fn safe_id(id: &[u8]) -> String {
    escape(id, LONGEST, |c| c == '~')
}

fn escape(name: &[u8], longest: usize, reserved: impl Fn(char) -> bool) -> String {
    let dots = name == b"." || name == b"..";
    let mut safe = String::with_capacity(name.len());
    for (at, chunk) in chunks(name) {
        match chunk {
            Ok(c) => {
                let percent = c == '%' && reads_as_escape(&name[at..]);
                let dash = c == '-' && at == 0;
                if unsafe_in_name(c) || reserved(c) || percent || dash || dots {
                    push_escaped(&mut safe, c.encode_utf8(&mut [0; 4]).as_bytes());
                } else {
                    safe.push(c);
                }
            }
            Err(bytes) => push_escaped(&mut safe, bytes),
        }
    }
    if safe.is_empty() {
        return CUT.to_owned();
    }
    if safe.len() > longest {
        let digest = hex(&Sha256::digest(name)[..16]);
        let room = longest.saturating_sub(CUT.len() + digest.len());
        safe.truncate(safe.floor_char_boundary(room));
        safe.push_str(CUT);
        safe.push_str(&digest);
    }
    safe
}

/// The characters of a name with their offsets; bytes that are no UTF-8 as they are.
fn chunks(name: &[u8]) -> impl Iterator<Item = (usize, Result<char, &[u8]>)> {
    let mut at = 0;
    name.utf8_chunks().flat_map(move |chunk| {
        let start = at;
        let end = start + chunk.valid().len();
        at = end + chunk.invalid().len();
        let valid = chunk.valid().char_indices();
        let invalid = Some(chunk.invalid()).filter(|bytes| !bytes.is_empty());
        valid
            .map(move |(i, c)| (start + i, Ok(c)))
            .chain(invalid.map(move |bytes| (end, Err(bytes))))
    })
}

/// Characters that no name holds: a terminal, a person or a path would take them for something else.
fn unsafe_in_name(c: char) -> bool {
    c == '/'
        || c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}')
}

fn reads_as_escape(from_percent: &[u8]) -> bool {
    matches!(from_percent.get(1..3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

fn push_escaped(safe: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(safe, "%{byte:02X}");
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay() {
        for name in [
            "a",
            "1ab2c3d4-0000-4000-8000-000000000000",
            "a b",
            "ünï.md",
            "100%",
            "%zz",
            "a~2",
            ".hidden",
        ] {
            assert_eq!(safe_name(name.as_bytes()), name);
        }
        assert_eq!(safe_id(b"a~2"), "a%7E2");
    }

    #[test]
    fn hostile_names_are_changed_visibly() {
        let cases: [(&[u8], &str); 10] = [
            (b"../../etc/passwd", "..%2F..%2Fetc%2Fpasswd"),
            (b".", "%2E"),
            (b"..", "%2E%2E"),
            (b"-rf", "%2Drf"),
            (b"a\nb", "a%0Ab"),
            (b"a\0", "a%00"),
            (b"\xff.jsonl", "%FF.jsonl"),
            ("a\u{202e}b".as_bytes(), "a%E2%80%AEb"),
            (b"100%25", "100%2525"),
            (b"", "%3D"),
        ];
        for (name, safe) in cases {
            assert_eq!(safe_name(name), safe);
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = |end: &str| "ä".repeat(200) + end;
        let (a, b) = (
            safe_name(long("a").as_bytes()),
            safe_name(long("b").as_bytes()),
        );
        assert!(a.len() <= LONGEST && b.len() <= LONGEST);
        assert_ne!(a, b);
        // A name that is literally what another one became is a third.
        assert_ne!(safe_name(a.as_bytes()), a);
    }

    /// Bytes in which the cases that matter are likely.
    fn names() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"%".to_vec()),
            Just(b"%2".to_vec()),
            Just(b"5".to_vec()),
            Just(b"-".to_vec()),
            Just(b".".to_vec()),
            Just(b"~2".to_vec()),
            Just(b"%3D".to_vec()),
            Just("é".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_name_is_one_component(name in names(), times in 1_usize..200) {
            let safe = safe_name(&name.repeat(times));
            prop_assert!((1..=LONGEST).contains(&safe.len()));
            prop_assert!(!safe.contains('/') && !safe.chars().any(char::is_control));
            prop_assert!(safe != "." && safe != ".." && !safe.starts_with('-'));
        }

        #[test]
        fn different_names_never_meet(a in names(), b in names()) {
            if a != b {
                prop_assert_ne!(safe_name(&a), safe_name(&b));
                prop_assert_ne!(safe_id(&a), safe_id(&b));
            }
        }
    }
}
