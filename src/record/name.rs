//! Names in a record directory: sessions' folders and entries.

use jiff::Timestamp;
use std::cmp::Ordering;

/// Whether this may be the name of a session's folder: 1 to 255 ASCII letters, digits, `-` and `_`. The error says why not.
pub fn is_session_id(id: &[u8]) -> Result<(), &'static str> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if id.is_empty() {
        Err("it is empty")
    } else if id.len() > 255 {
        Err("it is longer than a file name may be")
    } else if id.contains(&b'/') || id.contains(&b'\\') {
        Err("it holds a separator")
    } else if id.contains(&0) {
        Err("it holds a NUL")
    } else if id.iter().all(|&byte| byte == b'.') {
        Err("it names a directory above")
    } else if id.iter().all(allowed) {
        Ok(())
    } else {
        Err("it holds another character")
    }
}

/// A time as entries have it: UTC, to the millisecond, ISO 8601.
pub fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// An entry's file name: `<UTC time to the millisecond, without colons>-<sequence>.json`. Names order by time, then by the sequence
/// as a number, of any number of digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryName {
    at: Timestamp,
    /// Without leading zeros.
    sequence: String,
}

impl EntryName {
    /// The name with this sequence number, from 1, at this time.
    pub fn new(at: Timestamp, sequence: u64) -> Self {
        Self {
            at,
            sequence: sequence.to_string(),
        }
    }

    /// Reads a file name; none if it is not an entry's.
    pub fn parse(name: &str) -> Option<Self> {
        let (time, sequence) = name.strip_suffix(".json")?.rsplit_once('-')?;
        if sequence.is_empty() || !sequence.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // 2026-11-30T204029.123Z
        let (date, clock) = time.split_once('T')?;
        let (hours, minutes, seconds) = (clock.get(..2)?, clock.get(2..4)?, clock.get(4..)?);
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if !digits(hours) || !digits(minutes) || !clock.ends_with('Z') {
            return None;
        }
        let at = format!("{date}T{hours}:{minutes}:{seconds}").parse().ok()?;
        let sequence = sequence.trim_start_matches('0').to_owned();
        Some(Self { at, sequence })
    }

    /// The time in it.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The file name, the sequence with at least six digits.
    pub fn file_name(&self) -> String {
        let time = stamp(self.at).replace(':', "");
        format!("{time}-{:0>6}.json", self.sequence)
    }
}

impl Ord for EntryName {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |name: &Self| (name.sequence.len(), name.sequence.clone());
        self.at
            .cmp(&other.at)
            .then_with(|| number(self).cmp(&number(other)))
    }
}

impl PartialOrd for EntryName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_time_and_number() {
        let at: Timestamp = "2026-11-30T20:40:29.123Z".parse().unwrap();
        let name = EntryName::new(at, 1);
        assert_eq!(name.file_name(), "2026-11-30T204029.123Z-000001.json");
        assert_eq!(EntryName::parse(&name.file_name()), Some(name));
        let whole: Timestamp = "2026-11-30T20:40:29Z".parse().unwrap();
        let name = EntryName::new(whole, 1_234_567);
        assert_eq!(name.file_name(), "2026-11-30T204029.000Z-1234567.json");
    }

    #[test]
    fn names_order_by_time_and_then_by_number_of_any_length() {
        let names = [
            "2026-11-30T204029.122Z-99999999999999999999999999.json",
            "2026-11-30T204029.123Z-0.json",
            "2026-11-30T204029.123Z-2.json",
            "2026-11-30T204029.123Z-000010.json",
            "2026-11-30T204029.123Z-1000000.json",
            "2026-11-30T204029.123Z-18446744073709551616.json",
            "2026-11-30T204029.2Z-1.json",
        ];
        let read: Vec<_> = names
            .iter()
            .map(|n| EntryName::parse(n).expect(n))
            .collect();
        assert!(read.is_sorted());
        assert!(read.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn other_names_are_no_entries() {
        for name in [
            "",
            "a.json",
            "-1.json",
            "2026-11-30T204029.123Z-.json",
            "2026-11-30T204029.123Z-1a.json",
            "2026-11-30T204029.123Z-+1.json",
            "2026-11-30T204029.123Z-1",
            "2026-11-30T204029.123-1.json",
            "2026-11-30T204029.123+01-1.json",
            "2026-13-30T204029.123Z-1.json",
            "2026-11-30T2é4029.123Z-1.json",
        ] {
            assert_eq!(EntryName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn ids_that_would_leave_the_folder_are_refused() {
        let long = "a".repeat(256);
        let refused = [
            "", ".", "..", "../x", "a/b", "a\\b", "a\0b", "a b", "é", "a.json", &long,
        ];
        for id in refused {
            assert!(is_session_id(id.as_bytes()).is_err(), "{id}");
        }
        for id in ["a", "1ab2c3d4-0000-4000-8000-000000000001", &long[..255]] {
            assert!(is_session_id(id.as_bytes()).is_ok(), "{id}");
        }
    }
}
