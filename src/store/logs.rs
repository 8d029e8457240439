//! Directories of framed logs: which sessions lie there, and which files each of them has (`spec/session-log.md`).

use super::listing::{Kind, Listing, Listings};
use super::log_name::{
    LOG_SUFFIX, OBJECT_SUFFIX, Sidecar, TEMPORARY_SUFFIX, log_id, sidecar, sidecar_id, wrong_id,
};
use super::open::kind_of;
use super::source::Holds;
use super::walk::Walk;
use super::{FileRole, Fingerprint, Fragment, Problem, SessionFiles, Source, SourceFile, inside};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The directories of framed logs at one time.
#[derive(Debug, Default)]
pub(super) struct Logs(Vec<Directory>);

/// One directory of framed logs.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    listing: Arc<Listing>,
    names: Arc<Names>,
    /// Which of the doubtful entries are no logs now.
    unusable: BTreeSet<usize>,
}

/// What the names in a directory tell.
#[derive(Debug)]
struct Names {
    /// Indexes of entries with a log's name that are neither a file nor a directory: only a look says what they are.
    doubtful: Vec<usize>,
    /// Entries that belong to no session.
    problems: Vec<Problem>,
}

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
    /// What the directories hold now; one that cannot be listed is a problem, and so is a file in one that looks like a
    /// part of a log and is none. `last` are the directories as they were seen last.
    pub(super) fn look(
        sources: &[Source],
        listings: &Listings,
        last: &Self,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut logs = Self::default();
        let wanted = |source: &&Source| source.holds == Holds::Logs;
        for source in sources.iter().filter(wanted) {
            let path = &source.root;
            match listings.list(path) {
                // One directory that is given twice is one.
                Ok(listing)
                    if logs
                        .0
                        .iter()
                        .any(|d| d.listing.identity == listing.identity) => {}
                Ok(listing) => {
                    if listing.cut {
                        let why = "has more names than are read; the rest are left out";
                        problems.push(Problem::new(path, why.into()));
                    }
                    let mut same = last.0.iter();
                    let same = same.find(|d| d.path == *path && Arc::ptr_eq(&d.listing, &listing));
                    let names = match same {
                        Some(same) => same.names.clone(),
                        None => Arc::new(Names::of(path, &listing)),
                    };
                    problems.extend(names.problems.iter().cloned());
                    let mut unusable = BTreeSet::new();
                    for &entry in &names.doubtful {
                        let name = &listing.entries[entry].name;
                        match look(sources, path, name) {
                            Ok(Some(_)) => {}
                            // It went away since the directory was listed.
                            Ok(None) => _ = unusable.insert(entry),
                            Err(why) => {
                                problems.push(Problem::new(&path.join(name), why));
                                unusable.insert(entry);
                            }
                        }
                    }
                    logs.0.push(Directory {
                        path: path.clone(),
                        listing,
                        names,
                        unusable,
                    });
                }
                Err(error) => {
                    let why = format!("cannot be listed: {error}");
                    problems.push(Problem::failed(path, why));
                }
            }
        }
        logs
    }

    /// Whether these are the very same directories in the same state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|(a, b)| {
                Arc::ptr_eq(&a.listing, &b.listing) && a.path == b.path && a.unusable == b.unusable
            })
    }

    /// When one of the directories last got or lost a file.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.0.iter().map(|d| d.listing.modified).max()
    }

    /// Every log, in the order of the sources and of the names.
    pub(super) fn places(&self) -> impl Iterator<Item = LogPlace> {
        self.0.iter().flat_map(|directory| {
            let entries = directory.listing.entries.iter().enumerate();
            let files = entries.filter(|(i, entry)| {
                entry.kind != Kind::Directory && !directory.unusable.contains(i)
            });
            files.filter_map(|(_, entry)| {
                Some(LogPlace {
                    id: id(&entry.name)?.to_owned(),
                    directory: directory.path.clone(),
                })
            })
        })
    }
}

impl Names {
    fn of(path: &Path, listing: &Listing) -> Self {
        let mut names = Self {
            doubtful: Vec::new(),
            problems: Vec::new(),
        };
        for (i, entry) in listing.entries.iter().enumerate() {
            if id(&entry.name).is_some() && matches!(entry.kind, Kind::Link | Kind::Special) {
                names.doubtful.push(i);
            }
            if let Some(why) = of_no_session(listing, &entry.name, entry.kind) {
                names
                    .problems
                    .push(Problem::new(&path.join(&entry.name), why));
            }
        }
        names
    }
}

/// Why an entry that is called like a part of a log belongs to no session; none if it does, or is called otherwise.
fn of_no_session(listing: &Listing, name: &OsStr, kind: Kind) -> Option<String> {
    let bytes = name.as_bytes();
    if let Some(id) = bytes.strip_suffix(LOG_SUFFIX.as_bytes()) {
        return match std::str::from_utf8(id).map(wrong_id) {
            Ok(None) => (kind == Kind::Directory).then(|| "a directory, no log".to_owned()),
            Ok(Some(why)) => Some(format!("what its name gives as an ID is none: {why}")),
            Err(_) => Some("what its name gives as an ID is none: it is not UTF-8".to_owned()),
        };
    }
    let is_object = [OBJECT_SUFFIX, TEMPORARY_SUFFIX]
        .iter()
        .any(|suffix| bytes.ends_with(suffix.as_bytes()));
    if !is_object {
        return None;
    }
    match name.to_str().and_then(sidecar_id) {
        None => Some("an object whose name gives no session and position".to_owned()),
        Some(id) => {
            let log = format!("{id}{LOG_SUFFIX}");
            let is_there = listing.kind(OsStr::new(&log)).is_some();
            (!is_there).then(|| format!("an object without its log, {log}"))
        }
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
        let mut take = |name: &str, role| match look(walk.sources, &self.directory, name.as_ref()) {
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
}

/// The path of a file of this directory without links and its state; none if it is not there, or why it cannot be used.
fn look(
    sources: &[Source],
    directory: &Path,
    name: &OsStr,
) -> Result<Option<(PathBuf, Metadata)>, String> {
    let path = directory.join(name);
    let metadata = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(|error| format!("cannot be looked at: {error}"))?,
    };
    let (path, metadata) = if metadata.is_symlink() {
        follow(sources, directory, &path)?
    } else {
        (path, metadata)
    };
    if metadata.is_file() {
        Ok(Some((path, metadata)))
    } else {
        Err(format!("{}, which is never opened", kind_of(&metadata)))
    }
}

fn follow(
    sources: &[Source],
    directory: &Path,
    path: &Path,
) -> Result<(PathBuf, Metadata), String> {
    let nowhere = |_| "a symbolic link that leads nowhere".to_owned();
    let target = path.canonicalize().map_err(nowhere)?;
    if !inside(sources, directory, &target) {
        return Err("a symbolic link that leads out of the source".to_owned());
    }
    let metadata = std::fs::metadata(&target).map_err(nowhere)?;
    Ok((target, metadata))
}

fn id(name: &OsStr) -> Option<&str> {
    name.to_str().and_then(log_id)
}
