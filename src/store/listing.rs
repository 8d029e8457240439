//! Directory listings, remembered as long as the directory says that it did not change.

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Two changes within one tick of the file system's clock leave one time. A directory that changed less than this (nanoseconds)
/// before it was listed is listed again next time.
const SETTLED: i128 = 50_000_000;

/// Names that one directory may have; what is beyond is left out, and said.
const MOST_NAMES: usize = 1_000_000;

/// Names remembered over all directories.
const REMEMBERED: u64 = 2_000_000;

/// What stands in a directory, by its own word, no link followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    Special,
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: OsString,
    pub(super) kind: Kind,
    /// The inode number, as the directory gives it.
    pub(super) inode: u64,
}

/// The names in one directory at one time, sorted.
#[derive(Debug)]
pub(super) struct Listing {
    /// Device and inode number of the directory.
    pub(super) identity: (u64, u64),
    /// When the directory last got or lost an entry.
    pub(super) modified: SystemTime,
    pub(super) entries: Box<[Named]>,
    /// Whether the directory has more names than fit.
    pub(super) cut: bool,
    changed: Changed,
    settled: bool,
}

impl Listing {
    /// The kind of the entry with this name.
    pub(super) fn kind(&self, name: &OsStr) -> Option<Kind> {
        let at = self
            .entries
            .binary_search_by(|other| other.name.as_os_str().cmp(name))
            .ok()?;
        Some(self.entries[at].kind)
    }
}

/// Modification and status change, in nanoseconds since the epoch.
type Changed = [i128; 2];

fn changed(metadata: &Metadata) -> Changed {
    let ns = |s, ns| i128::from(s) * 1_000_000_000 + i128::from(ns);
    [
        ns(metadata.mtime(), metadata.mtime_nsec()),
        ns(metadata.ctime(), metadata.ctime_nsec()),
    ]
}

/// The listings that were made, up to a bound.
pub(super) struct Listings(Cache<PathBuf, Arc<Listing>, Names>);

impl Listings {
    pub(super) fn new() -> Self {
        // So few items are expected that all lie in one shard: a big listing may weigh more than a share of the bound.
        Self(Cache::with_weighter(32, REMEMBERED, Names))
    }

    /// The names in a directory now: those remembered if it did not change since, else read again. The very same
    /// listing (by pointer) means that nothing was added, removed or renamed.
    pub(super) fn list(&self, path: &Path) -> io::Result<Arc<Listing>> {
        let metadata = std::fs::metadata(path)?;
        let remembered = self.0.get(path).filter(|listing| {
            listing.settled
                && listing.identity == (metadata.dev(), metadata.ino())
                && listing.changed == changed(&metadata)
        });
        if let Some(listing) = remembered {
            return Ok(listing);
        }
        let listing = Arc::new(read(path, &metadata)?);
        self.0.insert(path.to_path_buf(), listing.clone());
        Ok(listing)
    }
}

#[derive(Clone)]
struct Names;

impl Weighter<PathBuf, Arc<Listing>> for Names {
    fn weight(&self, _: &PathBuf, listing: &Arc<Listing>) -> u64 {
        8 + listing.entries.len() as u64
    }
}

/// Reads a directory of which this is the status.
pub(super) fn read(path: &Path, metadata: &Metadata) -> io::Result<Listing> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos().cast_signed());
    let mut entries = Vec::new();
    let mut cut = false;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entries.len() == MOST_NAMES {
            cut = true;
            break;
        }
        // An entry that vanished since, or that cannot be looked at, is what nothing can be done with.
        let kind = entry.file_type().map_or(Kind::Special, |kind| {
            if kind.is_file() {
                Kind::File
            } else if kind.is_dir() {
                Kind::Directory
            } else if kind.is_symlink() {
                Kind::Link
            } else {
                Kind::Special
            }
        });
        entries.push(Named {
            name: entry.file_name(),
            kind,
            inode: entry.ino(),
        });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let changed = changed(metadata);
    Ok(Listing {
        identity: (metadata.dev(), metadata.ino()),
        modified: metadata.modified()?,
        entries: entries.into_boxed_slice(),
        cut,
        changed,
        settled: changed.into_iter().all(|at| now - at >= SETTLED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_again_when_the_directory_changed() {
        let dir = tempfile::tempdir().unwrap();
        let listings = Listings::new();
        assert!(listings.list(dir.path()).unwrap().entries.is_empty());
        // However soon after: two changes within a tick are both seen.
        for i in 0..50 {
            std::fs::write(dir.path().join(format!("{i:02}")), "").unwrap();
            assert_eq!(listings.list(dir.path()).unwrap().entries.len(), i + 1);
        }
        std::fs::remove_file(dir.path().join("07")).unwrap();
        let listing = listings.list(dir.path()).unwrap();
        assert_eq!(listing.kind(OsStr::new("07")), None);
        assert_eq!(listing.kind(OsStr::new("08")), Some(Kind::File));
    }

    #[test]
    fn an_old_directory_is_listed_once() {
        let listings = Listings::new();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        // The status change cannot be set back, so wait until it is old enough.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let first = listings.list(dir.path()).unwrap();
        assert!(Arc::ptr_eq(&first, &listings.list(dir.path()).unwrap()));
    }
}
