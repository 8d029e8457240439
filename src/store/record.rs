//! Record directories: one folder a session, one file an entry (`spec/record.md`). No link in them is followed.

use super::listing::{Kind, Listing, Listings, Named};
use super::name::safe_id;
use super::{FileRole, Fingerprint, Problem, Source, SourceFile};
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
    /// Their folders by session ID.
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

/// The entries in these folders of one session, by name, and what is none: base name and why.
pub(super) fn entries(
    folders: &[PathBuf],
    listings: &Listings,
    unused: &mut Vec<(String, String)>,
) -> Vec<SourceFile> {
    let mut files = Vec::new();
    for folder in folders {
        let base = |name: &OsStr| name.to_string_lossy().into_owned();
        let listing = match listings.list(folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                let name = folder.file_name().unwrap_or_default();
                unused.push((base(name), format!("cannot be listed: {error}")));
                continue;
            }
        };
        for Named { name, kind, .. } in &listing.entries {
            let path = folder.join(name);
            let why = match kind {
                Kind::File if Path::new(name).extension() != Some(OsStr::new("json")) => {
                    "no entry of a record"
                }
                Kind::File if files.len() >= MOST_ENTRIES => {
                    unused.push((
                        base(name),
                        format!("the record has more than {MOST_ENTRIES} entries here"),
                    ));
                    break;
                }
                Kind::File => {
                    // One that went away since its folder was listed is none any more.
                    if let Ok(metadata) = std::fs::symlink_metadata(&path) {
                        // The same entry in two sources is one.
                        let alike = |file: &&SourceFile| {
                            file.name == Path::new(name) && file.fingerprint.size == metadata.len()
                        };
                        if folders.len() > 1
                            && files
                                .iter()
                                .find(alike)
                                .is_some_and(|file| same(&file.path, &path))
                        {
                            continue;
                        }
                        files.push(SourceFile {
                            role: FileRole::Entry,
                            name: PathBuf::from(name),
                            fingerprint: Fingerprint::of(&metadata),
                            path,
                        });
                    }
                    continue;
                }
                Kind::Link => "a symbolic link, which is not followed in a record",
                Kind::Directory | Kind::Special => "no entry of a record",
            };
            unused.push((base(name), why.to_owned()));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Whether two entries of one name and length hold the same bytes.
fn same(one: &Path, other: &Path) -> bool {
    let bytes = |path: &Path| std::fs::read(path).ok();
    bytes(one).is_some_and(|one| Some(one) == bytes(other))
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
