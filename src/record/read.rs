//! The reader: what a session's folder of entries says now.

use super::RecordError;
use super::entry::{Entry, Kind, Side};
use super::name::EntryName;
use crate::store;
use jiff::Timestamp;
use std::ffi::OsStr;
use std::path::Path;

/// The entries of one session, in order: by time and then by the sequence as a number.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// Those that could be read.
    pub list: Vec<Entry>,
    /// Those that could not: each may have been anything. It is read again whenever the folder is.
    pub damaged: Vec<DamagedEntry>,
}

/// A file that should be an entry and is none, or not a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEntry {
    /// Its name.
    pub file: String,
    /// The time in its name, where there is one.
    pub at: Option<Timestamp>,
    /// Why it is no entry.
    pub why: String,
}

impl Entries {
    /// Reads a session's folder. Entries that are written meanwhile are seen whole or not at all, or, where the file system knows
    /// no other way, as damaged until the next reading.
    pub fn of_folder(folder: &Path) -> Result<Self, RecordError> {
        let io = |error| RecordError::io(folder, "list this folder of entries", error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let path = folder.join(&name);
            let name = name.to_string_lossy();
            if is_entry_file(&name) {
                let bytes = store::status(&path).and_then(|state| store::read(&path, state.size));
                files.push((name.into_owned(), bytes.map_err(|error| error.reason())));
            }
        }
        let session = folder.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self::of(&session, files))
    }

    /// Puts together what these files in this session's folder hold: names, and bytes or why there are none.
    pub fn of(
        session: &str,
        files: impl IntoIterator<Item = (String, Result<Vec<u8>, String>)>,
    ) -> Self {
        let mut entries = Self::default();
        for (file, bytes) in files {
            match bytes.and_then(|bytes| Entry::read(session, &file, bytes)) {
                Ok(entry) => entries.list.push(entry),
                Err(why) => entries.damaged.push(DamagedEntry {
                    at: EntryName::parse(&file).map(|name| name.at()),
                    file,
                    why,
                }),
            }
        }
        entries
            .list
            .sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
        entries
            .damaged
            .sort_by(|a, b| (a.at.is_none(), a.at, &a.file).cmp(&(b.at.is_none(), b.at, &b.file)));
        entries
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.damaged.is_empty()
    }

    /// When coverage begins: the first start entry's time. It has no known end.
    pub fn coverage_from(&self) -> Option<Timestamp> {
        let starts = self.list.iter().filter(|e| matches!(e.kind, Kind::Start));
        starts.map(|entry| entry.at).min()
    }

    /// The messages that the session received, with their places in [`Self::list`].
    pub fn received(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let received = |entry: &Entry| {
            let side = entry.message().map(|message| &message.side);
            matches!(side, Some(Side::Received { .. }))
        };
        let all = self.list.iter().enumerate();
        all.filter(move |(_, entry)| received(entry))
    }

    /// The working directory that the entries name first.
    pub fn working_directory(&self) -> Option<String> {
        let named = self.list.iter().filter_map(|entry| entry.string("cwd"));
        named.into_iter().find(|cwd| !cwd.is_empty())
    }

    /// About how many bytes are held.
    pub fn len_in_memory(&self) -> usize {
        let bytes = |entry: &Entry| entry.object.bytes().len() + entry.file.len();
        self.list
            .iter()
            .map(|e| bytes(e) + size_of::<Entry>())
            .sum()
    }
}

/// Whether a file of this name in a session's folder is read as an entry.
pub fn is_entry_file(name: &str) -> bool {
    Path::new(name).extension() == Some(OsStr::new("json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> (String, Result<Vec<u8>, String>) {
        (name.to_owned(), Ok(text.as_bytes().to_vec()))
    }

    #[test]
    fn entries_stand_in_order_and_damaged_ones_apart() {
        let start = r#"{"kind":"start","sessionId":"s","at":"2026-11-30T20:40:29.123Z","cwd":"/home/user/parser"}"#;
        let chain = start.replace("start", "chain").replace(".123Z", ".100Z");
        let later = r#"{"kind":"later"}"#;
        let files = [
            file("2026-11-30T204029.123Z-10.json", start),
            file("2026-11-30T204029.123Z-9.json", later),
            file("2026-11-30T204029.100Z-000011.json", &chain),
            file("2026-11-30T204029.100Z-000010.json", r#"{"kind":"chain""#),
            file("notes.json", &chain),
        ];
        let entries = Entries::of("s", files);
        let names: Vec<_> = entries.list.iter().map(|e| e.file.as_str()).collect();
        let expected = [
            "2026-11-30T204029.100Z-000011.json",
            "2026-11-30T204029.123Z-9.json",
            "2026-11-30T204029.123Z-10.json",
        ];
        assert_eq!(names, expected);
        assert_eq!(entries.damaged.len(), 2);
        assert_eq!(entries.damaged[1].at, None);
        let from: Timestamp = "2026-11-30T20:40:29.123Z".parse().unwrap();
        assert_eq!(entries.coverage_from(), Some(from));
        assert_eq!(
            entries.working_directory().as_deref(),
            Some("/home/user/parser")
        );
    }
}
