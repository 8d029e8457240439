//! Directories of framed logs: which sessions lie there, and which files each of them has (`spec/session-log.md`).

use super::listing::{Kind, Listing, Listings};
use super::log_name::{LOG_SUFFIX, Sidecar, log_id, sidecar};
use super::open::kind_of;
use super::source::Holds;
use super::walk::Walk;
use super::{FileRole, Fingerprint, Fragment, Problem, SessionFiles, Source, SourceFile, inside};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The directories of framed logs at one time.
#[derive(Debug, Default)]
pub(super) struct Logs(Vec<(PathBuf, Arc<Listing>)>);

/// Where one framed log lies.
#[derive(Clone, Debug)]
pub(super) struct LogPlace {
    pub(super) id: String,
    directory: PathBuf,
}

/// Whether a directory is one of framed logs by the names in it: it has a log, and no transcript.
pub(super) fn are_in(listing: &Listing) -> bool {
    let names = || listing.entries.iter().map(|entry| entry.name.as_os_str());
    names().any(|name| id(name).is_some())
        && !names().any(|name| super::folder::stem(name).is_some())
}

impl Logs {
    /// What the directories hold now; one that cannot be listed is a problem.
    pub(super) fn look(
        sources: &[Source],
        listings: &Listings,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut logs = Self::default();
        let wanted = |source: &&Source| source.holds == Holds::Logs;
        for source in sources.iter().filter(wanted) {
            match listings.list(&source.root) {
                // One directory that is given twice is one.
                Ok(listing) if logs.0.iter().any(|(_, l)| l.identity == listing.identity) => {}
                Ok(listing) => {
                    if listing.cut {
                        let why = "has more names than are read; the rest are left out";
                        problems.push(Problem::new(&source.root, why.into()));
                    }
                    logs.0.push((source.root.clone(), listing));
                }
                Err(error) => {
                    let why = format!("cannot be listed: {error}");
                    problems.push(Problem::new(&source.root, why));
                }
            }
        }
        logs
    }

    /// Whether these are the very same directories in the same state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs.all(|((_, a), (_, b))| Arc::ptr_eq(a, b))
    }

    /// When one of the directories last got or lost a file.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.0.iter().map(|(_, listing)| listing.modified).max()
    }

    /// Every log, in the order of the sources and of the names.
    pub(super) fn places(&self) -> impl Iterator<Item = LogPlace> {
        self.0.iter().flat_map(|(directory, listing)| {
            let entries = listing.entries.iter();
            let files = entries.filter(|entry| entry.kind != Kind::Directory);
            files.map(|entry| &entry.name).filter_map(|name| {
                Some(LogPlace {
                    id: id(name)?.to_owned(),
                    directory: directory.clone(),
                })
            })
        })
    }
}

impl LogPlace {
    /// The log's file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{LOG_SUFFIX}", self.id))
    }

    /// The log and its finished objects now.
    pub(super) fn files(&self, walk: &Walk<'_>, session: &mut SessionFiles) {
        let mut files = Vec::new();
        let mut take = |name: &str, role| match self.look(walk, name) {
            Ok(Some((path, metadata))) => files.push(SourceFile {
                role,
                path,
                name: PathBuf::from(name),
                fingerprint: Fingerprint::of(&metadata),
            }),
            // It went away since the directory was listed.
            Ok(None) => {}
            Err(why) => session.unused.push((name.to_owned(), why)),
        };
        // The log first: an object is there before the event that names it.
        take(&format!("{}{LOG_SUFFIX}", self.id), FileRole::Log);
        match walk.listings.list(&self.directory) {
            Ok(listing) => {
                for (name, position) in self.objects(&listing) {
                    take(name, FileRole::PendingObject(position));
                }
            }
            Err(error) => {
                let why = format!("its directory cannot be listed: {error}");
                session.unused.push((self.id.clone(), why));
            }
        }
        let folder = self.directory.file_name().unwrap_or_default();
        session.fragments.push(Fragment {
            folder: folder.to_string_lossy().into_owned(),
            files,
        });
    }

    /// The names and positions of its objects; they stand together in a sorted listing.
    fn objects<'a>(&'a self, listing: &'a Listing) -> impl Iterator<Item = (&'a str, u64)> {
        let prefix = format!("{}-", self.id);
        let from = listing
            .entries
            .partition_point(|entry| entry.name.as_bytes() < prefix.as_bytes());
        let rest = listing.entries[from..].iter().map(|entry| &entry.name);
        rest.take_while(move |name| name.as_bytes().starts_with(prefix.as_bytes()))
            .filter_map(|name| {
                let name = name.to_str()?;
                match sidecar(&self.id, name)? {
                    Sidecar::Object(position) => Some((name, position)),
                    Sidecar::Temporary => None,
                }
            })
    }

    /// The path of a file without links and its state; none if it is not there, or why it cannot be used.
    fn look(&self, walk: &Walk<'_>, name: &str) -> Result<Option<(PathBuf, Metadata)>, String> {
        let path = self.directory.join(name);
        let metadata = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(|error| format!("cannot be looked at: {error}"))?,
        };
        let (path, metadata) = if metadata.is_symlink() {
            self.follow(walk, &path)?
        } else {
            (path, metadata)
        };
        if metadata.is_file() {
            Ok(Some((path, metadata)))
        } else {
            Err(format!("{}, which is never opened", kind_of(&metadata)))
        }
    }

    fn follow(&self, walk: &Walk<'_>, path: &Path) -> Result<(PathBuf, Metadata), String> {
        let nowhere = |_| "a symbolic link that leads nowhere".to_owned();
        let target = path.canonicalize().map_err(nowhere)?;
        if !inside(walk.sources, &self.directory, &target) {
            return Err("a symbolic link that leads out of the source".to_owned());
        }
        let metadata = std::fs::metadata(&target).map_err(nowhere)?;
        Ok((target, metadata))
    }
}

fn id(name: &OsStr) -> Option<&str> {
    name.to_str().and_then(log_id)
}
