//! Record directories: one folder a session, one file an entry (`spec/record.md`). No link in them is followed.

use super::listing::{Kind, Listing, Listings, Named};
use super::name::safe_id;
use super::{FileRole, Problem, Source, SourceFile, StoreError};
use crate::record::is_entry_file;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Folders that are looked into to see whether a directory is a record's.
const MOST_LOOKS: usize = 64;

/// Entries of one session that are read.
const MOST_ENTRIES: usize = 1_000_000;

/// The sessions that have a folder in the record directories of one time.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Their folders by session ID, in the order of the sources.
    pub(super) sessions: BTreeMap<String, Vec<PathBuf>>,
    listings: Vec<Arc<Listing>>,
}

impl Records {
    /// What lies in the record directories now; what cannot be used is a problem.
    pub(super) fn look(
        sources: &[Source],
        listings: &Listings,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut records = Self::default();
        for source in sources.iter().filter(|source| source.is_record()) {
            match listings.list(&source.root) {
                Ok(listing) if records.has(&listing) => {}
                Ok(listing) => records.add(&source.root, listing, problems),
                Err(error) => {
                    let why = format!("cannot be listed: {error}");
                    problems.push(Problem::new(&source.root, why));
                }
            }
        }
        records
    }

    /// Whether these are the very same directories in the same state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let pairs = || self.listings.iter().zip(&other.listings);
        self.listings.len() == other.listings.len() && pairs().all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// When one of the directories last got or lost a folder.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.listings.iter().map(|listing| listing.modified).max()
    }

    fn has(&self, listing: &Listing) -> bool {
        let mut all = self.listings.iter();
        all.any(|other| other.identity == listing.identity)
    }

    fn add(&mut self, root: &Path, listing: Arc<Listing>, problems: &mut Vec<Problem>) {
        for Named { name, kind, .. } in &listing.entries {
            let path = root.join(name);
            match kind {
                Kind::Directory => {
                    let id = safe_id(name.as_bytes());
                    self.sessions.entry(id).or_default().push(path);
                }
                Kind::Link => {
                    let why = "a symbolic link, which is not followed in a record";
                    problems.push(Problem::new(&path, why.into()));
                }
                Kind::File | Kind::Special => {}
            }
        }
        self.listings.push(listing);
    }
}

/// The entries in this folder of one session, by name.
pub(super) fn entries(folder: &Path, listings: &Listings) -> Found {
    let mut found = Found::default();
    let base = |name: &OsStr| name.to_string_lossy().into_owned();
    let listing = match listings.list(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => {
            // Whatever it holds is unknown evidence, as each damaged entry is.
            let name = base(folder.file_name().unwrap_or_default());
            found
                .unread
                .push((name, format!("cannot be listed: {error}")));
            return found;
        }
    };
    for Named { name, .. } in &listing.entries {
        if !is_entry_file(&base(name)) {
            found
                .unused
                .push((base(name), "no entry of a record".to_owned()));
            continue;
        }
        let path = folder.join(name);
        match super::status(&path) {
            Ok(_) if found.files.len() >= MOST_ENTRIES => {
                let why = format!("the record has more than {MOST_ENTRIES} entries here");
                found.unread.push((base(name), why));
                break;
            }
            Ok(fingerprint) => found.files.push(SourceFile {
                role: FileRole::Entry,
                name: PathBuf::from(name),
                fingerprint,
                path,
            }),
            // One that went away since its folder was listed is none any more.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            }
            Err(error) => found.unread.push((base(name), error.reason())),
        }
    }
    found.files.sort_by(|a, b| a.name.cmp(&b.name));
    found.unread.sort();
    found
}

/// What lies in a session's folder of a record.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Its entries, by name.
    pub(super) files: Vec<SourceFile>,
    /// What stands under an entry's name and cannot be opened, which may be any entry: base name and why.
    pub(super) unread: Vec<(String, String)>,
    /// What is no entry: base name and why.
    pub(super) unused: Vec<(String, String)>,
}

impl Found {
    /// The files of the other one with their equals here, by name and size; none if it has one that is not here.
    pub(super) fn pairs<'a>(
        &'a self,
        other: &'a Self,
    ) -> Option<Vec<(&'a SourceFile, &'a SourceFile)>> {
        let like = |file: &'a SourceFile| {
            let at = self
                .files
                .binary_search_by(|mine| mine.name.cmp(&file.name));
            let mine = &self.files[at.ok()?];
            (mine.fingerprint.size == file.fingerprint.size).then_some((mine, file))
        };
        let known = other
            .unread
            .iter()
            .all(|unread| self.unread.contains(unread));
        known.then(|| other.files.iter().map(like).collect())?
    }
}

/// Whether a directory is a record's: a folder in it holds a file with an entry's name, or it holds a record's settings and nothing else.
pub(super) fn is_record(path: &Path, listing: &Listing) -> bool {
    let folders = listing
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Directory);
    let settings = OsStr::new("settings.json");
    let only_settings = listing.entries.len() == 1 && listing.kind(settings) == Some(Kind::File);
    only_settings
        || folders.take(MOST_LOOKS).any(|entry| {
            let folder = path.join(&entry.name);
            std::fs::read_dir(folder).is_ok_and(|mut entries| {
                // Whatever else lies in a session's folder, its first names tell.
                entries
                    .by_ref()
                    .take(MOST_LOOKS)
                    .flatten()
                    .any(|entry| is_entry_name(entry.file_name().as_bytes()))
            })
        })
}

/// Whether a name begins and ends as those of entries do: `2026-11-30T204029.123Z-000001.json`.
fn is_entry_name(name: &[u8]) -> bool {
    const FORM: &[u8] = b"dddd-dd-ddTdddddd.";
    let Some(before) = name.strip_suffix(b".json") else {
        return false;
    };
    let like = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        form => byte == form,
    };
    before.len() > FORM.len()
        && before.iter().zip(FORM).all(like)
        && before.windows(2).any(|pair| pair == b"Z-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_known_by_their_names() {
        assert!(is_entry_name(b"2026-11-30T204029.123Z-000001.json"));
        for name in ["a.json", "2026-11-30T204029.123Z-000001", "2026-11-30.json"] {
            assert!(!is_entry_name(name.as_bytes()), "{name}");
        }
    }
}
