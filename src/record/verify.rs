//! Checks every entry of a record directory: whether [`Entry::read`], which every reader asks, takes it for one.

use super::entry::Entry;
use super::name::is_session_id;
use super::settings::{self, text_mode};
use super::{RecordError, is_entry_file};
use crate::store;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What was checked and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries that were looked at.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, by path.
    pub faults: Vec<EntryFault>,
}

/// Something wrong in a record directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryFault {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// Checks a record directory. Writes nothing; an entry that is written meanwhile is seen whole or not at all, or, where the file
/// system knows no other way, as damaged.
pub fn verify(directory: &Path) -> Result<Verified, RecordError> {
    let mut verified = Verified::default();
    let open = File::open(directory);
    let open = open.map_err(|error| RecordError::io(directory, "open this record", error))?;
    if let Err(RecordError::Settings { path, why }) = text_mode(&OwnedFd::from(open), directory, "")
    {
        verified.fault(path, why);
    }
    for (path, kind) in list(directory)? {
        let name = path.file_name().unwrap_or_default();
        if name == settings::FILE {
            continue;
        }
        if !kind.is_dir() {
            verified.fault(path, "no session's folder, and it is not followed".into());
        } else if let Err(why) = is_session_id(name.as_bytes()) {
            verified.fault(path, format!("its name is no session's ID: {why}"));
        } else {
            verified.folder(&path);
        }
    }
    verified.faults.sort();
    Ok(verified)
}

impl Verified {
    /// Checks a session's folder. What cannot be read costs itself alone.
    fn folder(&mut self, folder: &Path) {
        let listed = match list(folder) {
            Ok(listed) => listed,
            Err(error) => return self.fault(folder.to_path_buf(), error.reason()),
        };
        let session = folder.file_name().unwrap_or_default().to_string_lossy();
        for (path, _) in listed {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !is_entry_file(&name) {
                self.fault(path, "no entry's name".into());
                continue;
            }
            self.entries += 1;
            let bytes = store::status(&path).and_then(|state| store::read(&path, state.size));
            let entry = bytes.map_err(|error| error.reason()).and_then(|bytes| {
                self.bytes += bytes.len() as u64;
                Entry::read(&session, &name, bytes)
            });
            if let Err(why) = entry {
                self.fault(path, why);
            }
        }
    }

    fn fault(&mut self, path: PathBuf, why: String) {
        self.faults.push(EntryFault { path, why });
    }
}

fn list(folder: &Path) -> Result<Vec<(PathBuf, std::fs::FileType)>, RecordError> {
    let io = |error| RecordError::io(folder, "list this folder of a record", error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        found.push((entry.path(), entry.file_type().map_err(io)?));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entries, Recorder, Start};
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_of_fault_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), "s1").unwrap();
        let at = "2026-11-30T20:40:29.123Z".parse().ok();
        let start = Start {
            at,
            ..Start::default()
        };
        let entry = recorder.start(&start).unwrap();
        std::fs::write(folder.path().join("settings.json"), "{}").unwrap();
        let good = verify(folder.path()).unwrap();
        assert_eq!((good.entries, good.faults.len()), (1, 0));
        assert_eq!(good.bytes, std::fs::metadata(&entry).unwrap().len());

        let text = std::fs::read_to_string(&entry).unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("s2")).unwrap();
        std::fs::create_dir(folder.path().join("s 3")).unwrap();
        std::os::unix::fs::symlink("s1", folder.path().join("s4")).unwrap();
        std::os::unix::fs::symlink(
            &entry,
            folder.path().join("s1/2026-11-30T204029.123Z-9.json"),
        )
        .unwrap();
        put("settings.json", "[]");
        put("s1/2026-11-30T204029.124Z-1.json", &text);
        put("s1/2026-11-30T204029.123Z-2.json", &text[..20]);
        put("s1/entry.json", &text);
        put("s1/notes.txt", "");
        put("s2/2026-11-30T204029.123Z-1.json", &text);
        let found = verify(folder.path()).unwrap();
        let faults: Vec<String> = found
            .faults
            .iter()
            .map(|fault| {
                let name = fault.path.strip_prefix(folder.path()).unwrap();
                format!("{}: {}", name.display(), fault.why)
            })
            .collect();
        let expected = [
            ("s 3", "no session's ID"),
            ("s1/2026-11-30T204029.123Z-2.json", "no JSON object"),
            ("s1/2026-11-30T204029.123Z-9.json", "symbolic link"),
            ("s1/2026-11-30T204029.124Z-1.json", "not its name's"),
            ("s1/entry.json", "its name is no entry's"),
            ("s1/notes.txt", "no entry's name"),
            ("s2/2026-11-30T204029.123Z-1.json", "not its folder's"),
            ("s4", "not followed"),
            ("settings.json", "no JSON object"),
        ];
        assert_eq!(faults.len(), expected.len(), "{faults:#?}");
        for (fault, (name, why)) in faults.iter().zip(expected) {
            assert!(fault.starts_with(name) && fault.contains(why), "{fault}");
        }
        // What is wrong with an entry here is what a reader takes as damaged, in the same words.
        for session in ["s1", "s2"] {
            let read = Entries::of_folder(&folder.path().join(session)).unwrap();
            let damaged: BTreeSet<_> = read
                .damaged
                .iter()
                .map(|entry| format!("{session}/{}: {}", entry.file, entry.why))
                .collect();
            let within = |fault: &&String| fault.starts_with(session) && fault.contains(".json: ");
            let found: BTreeSet<_> = faults.iter().filter(within).cloned().collect();
            assert_eq!(damaged, found);
            assert!(!damaged.is_empty());
        }
    }
}
