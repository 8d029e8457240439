//! Where sessions lie on disk: sources, discovery, fingerprints, safe read-only opening.
//!
//! The store knows file names and file status; it does not know what a line means. Nothing here writes, and nothing
//! watches: what changed is found by looking again, which costs one look at each folder and, for one session, at each of
//! its files.
//!
//! Discovery has two levels. [`Store::index`] says which sessions there are, by names. [`Store::files`] says which files
//! one of them has.

mod folder;
mod index;
mod listing;
pub mod log_name;
mod logs;
mod name;
mod older;
mod open;
mod probe;
mod record;
mod source;
mod walk;

pub use index::Index;
pub use name::{safe_id, safe_name, safe_name_within};
pub use open::{open, read, read_at, read_by, status, status_of};
pub use source::{Source, SourceError};

use crate::cache::Table;
use index::Indexer;
use listing::Listings;
use older::Relations;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use walk::Walk;

/// How old an answer about what is there may be, unless [`Store::recheck_after`] says otherwise. Together with the 0.9
/// seconds for which the kernel trusts a name, a change shows within a second.
pub const RECHECK: Duration = Duration::from_millis(100);

/// What a file of a session is, by its name and place alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileRole {
    /// The main thread: `<session>.jsonl`.
    Main,
    /// A sub-agent's thread: what stands between `agent-` and `.jsonl` is its ID.
    Agent(String),
    /// A sub-agent's sidecar: `agent-<id>.meta.json`.
    Sidecar(String),
    /// A stored tool result: a file below `tool-results/`.
    ToolResult,
    /// A workflow's journal or run record.
    Workflow,
    /// An entry of the record of messages.
    Entry,
    /// A framed log: `<session>.session-log`.
    Log,
    /// A pending object of a framed log: `<session>-<position>.pending-object`.
    PendingObject(u64),
    /// Anything else that lies in the session's folder.
    Other,
}

/// One stored file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// What it is.
    pub role: FileRole,
    /// Where it lies. For opening only; never shown.
    pub path: PathBuf,
    /// Its path below the session's project folder; what `source/` shows.
    pub name: PathBuf,
    /// Its state when it was discovered.
    pub fingerprint: Fingerprint,
}

impl SourceFile {
    /// The last part of its name, for documents.
    pub fn base_name(&self) -> String {
        self.name
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// The name of the folder in which it lies: of an entry, its session's ID.
    pub fn folder_name(&self) -> String {
        let folder = self.path.parent().and_then(Path::file_name);
        folder.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A file's state: two equal fingerprints mean the same bytes, as far as a file system can say (`spec/architecture.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint {
    /// Device.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last modification in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Last status change in nanoseconds since the epoch.
    pub ctime_ns: i64,
}

impl Fingerprint {
    /// The state that a file's status tells.
    pub fn of(metadata: &Metadata) -> Self {
        let ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// All of it as bytes, for a digest.
    pub fn to_bytes(&self) -> [u8; 40] {
        let times = [self.mtime_ns, self.ctime_ns].map(i64::cast_unsigned);
        let numbers = [self.device, self.inode, self.size, times[0], times[1]];
        let mut bytes = [0; 40];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Whether the file did not change since this time. Only the status change counts: a modification can be dated back.
    pub fn is_unchanged_since(&self, at: SystemTime) -> bool {
        let since = at.duration_since(SystemTime::UNIX_EPOCH);
        since.is_ok_and(|since| i128::from(self.ctime_ns) < since.as_nanos().cast_signed())
    }

    /// Device and inode number: which file it is.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// When the file was last modified.
    pub fn modified(&self) -> SystemTime {
        let since = Duration::from_nanos(self.mtime_ns.unsigned_abs());
        let moved = if self.mtime_ns < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(since)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(since)
        };
        moved.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// The files of one session in one project folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The project folder's name, as the harness encoded it.
    pub folder: String,
    /// Its files, sorted by name.
    pub files: Vec<SourceFile>,
}

/// The files of one session, as they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    /// The session's ID.
    pub id: String,
    /// One a project folder, in the order of the sources and of the folders' names.
    pub fragments: Vec<Fragment>,
    /// The entries of its record of messages, sorted by name. Their names are file names.
    pub record: Vec<SourceFile>,
    /// What stands under an entry's name and cannot be opened, or more of its record that cannot be looked at: base name and why.
    /// Each may have been any entry.
    pub record_unread: Vec<(String, String)>,
    /// Files that could not be used, with why: base name and reason.
    pub unused: Vec<(String, String)>,
    /// Sessions that this one may be a copy of, sorted by ID.
    pub older: Vec<Older>,
}

impl SessionFiles {
    /// Whether none of its files changed since this time.
    pub fn is_unchanged_since(&self, at: SystemTime) -> bool {
        self.all()
            .all(|file| file.fingerprint.is_unchanged_since(at))
    }

    /// How many bytes all its files have.
    pub fn size(&self) -> u64 {
        self.all().map(|file| file.fingerprint.size).sum()
    }

    /// Its files, and those of what it may be a copy of.
    fn all(&self) -> impl Iterator<Item = &SourceFile> {
        let files = self.fragments.iter().flat_map(|fragment| &fragment.files);
        files
            .chain(&self.record)
            .chain(self.older.iter().flat_map(|older| &older.mains))
    }
}

/// A session that another one may be a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    /// Its ID.
    pub id: String,
    /// Its main files, one a project folder; at least one.
    pub mains: Vec<SourceFile>,
    /// Whether lines name it as the older one: the other's as their origin, or its own the other as its continuation.
    /// Otherwise both begin with the same line or were continued in each other, which does not say which is the older.
    pub named: bool,
}

/// Something that could not be used and belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// Whether it could not be read, so that nobody knows what is there; else it is known to be nothing that is shown.
    pub failed: bool,
}

impl Problem {
    fn new(path: &Path, why: String) -> Self {
        let path = path.to_path_buf();
        let failed = false;
        Self { path, why, failed }
    }

    fn failed(path: &Path, why: String) -> Self {
        let failed = true;
        Self {
            failed,
            ..Self::new(path, why)
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// What could not be read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system refused.
    #[error("{}: cannot {doing} it: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as `open`.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// It is no regular file, and only those are read.
    #[error("{}: {kind}, which is never opened", path.display())]
    NotRegular {
        /// The thing.
        path: PathBuf,
        /// What it is, with its article.
        kind: &'static str,
    },
}

impl StoreError {
    fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            doing,
            source,
        }
    }

    /// Why, without the path.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { doing, source, .. } => format!("cannot {doing} it: {source}"),
            Self::NotRegular { kind, .. } => format!("{kind}, which is never opened"),
        }
    }
}

/// All sources together.
pub struct Store {
    sources: Vec<Source>,
    excluded: HashSet<String>,
    recheck: Duration,
    listings: Listings,
    indexed: Mutex<Indexed>,
    latest: Mutex<Option<Latest>>,
    relations: Relations,
}

struct Indexed {
    indexer: Indexer,
    last: Option<(Instant, Arc<Index>)>,
}

struct Latest {
    at: Instant,
    took: Duration,
    answer: Option<(String, SystemTime)>,
}

impl Store {
    /// A store over these sources, in this order.
    pub fn new(sources: Vec<Source>) -> Self {
        Self {
            sources,
            excluded: HashSet::new(),
            recheck: RECHECK,
            listings: Listings::new(),
            indexed: Mutex::new(Indexed {
                indexer: Indexer::new(),
                last: None,
            }),
            latest: Mutex::new(None),
            relations: Relations::new(),
        }
    }

    /// Keeps these sessions out, by their IDs.
    #[must_use]
    pub fn excluding(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.excluded.extend(ids);
        self
    }

    /// Recalls how sessions begin and end from what earlier runs put into these tables, and puts there what it learns.
    pub fn remember_in(&self, heads: Table, tails: Table) {
        self.relations.remember_in(heads, tails);
    }

    /// Writes what was learned for later runs.
    pub fn remember(&self) {
        self.relations.remember(&self.index());
    }

    /// How old an answer about what is there may be; nothing means to look at every question.
    #[must_use]
    pub fn recheck_after(mut self, age: Duration) -> Self {
        self.recheck = age;
        self
    }

    /// How old an answer may be before it is asked for again.
    pub fn recheck(&self) -> Duration {
        self.recheck
    }

    /// The sources.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Which sources these are, in 16 hexadecimal digits: the same for every run over them.
    pub fn identity(&self) -> String {
        let mut digest = Sha256::new();
        for source in &self.sources {
            source.identify(&mut |bytes| {
                digest.update((bytes.len() as u64).to_le_bytes());
                digest.update(bytes);
            });
        }
        let digest = digest.finalize();
        digest[..8].iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The directories in which the sessions lie: the roots of the sources, and the project folders outside of them to which
    /// links lead from there.
    pub fn places(&self) -> Vec<PathBuf> {
        let roots = self.sources.iter().map(|source| source.root.clone());
        let index = self.index();
        let folders = index.folders().map(Path::to_path_buf);
        let is_outside = |folder: &PathBuf| {
            let held = |canonical: PathBuf| self.sources.iter().any(|s| s.holds(&canonical));
            !folder.canonicalize().is_ok_and(held)
        };
        roots.chain(folders.filter(is_outside)).collect()
    }

    /// Which sessions there are. Reads again only the folders that changed; those who ask at the same time share one look.
    ///
    /// Opens nothing but the heads of files whose names do not say what they are, and, where two sources have a session of
    /// one ID with files of the same sizes, those files, to compare them; each only once a state.
    pub fn index(&self) -> Arc<Index> {
        let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, index)) = &indexed.last
            && at.elapsed() < self.recheck
        {
            return index.clone();
        }
        let index = indexed
            .indexer
            .index(&self.sources, &self.excluded, &self.listings);
        indexed.last = Some((Instant::now(), index.clone()));
        index
    }

    /// The faults that belong to no session.
    pub fn problems(&self) -> Vec<Problem> {
        self.index().problems().to_vec()
    }

    /// The files that a session has now; none if there is no such session.
    pub fn files(&self, id: &str) -> Option<SessionFiles> {
        let index = self.index();
        let mut files = self.files_alone(&index, id)?;
        let located = index.sessions.get(id)?;
        files.older = self.relations.older(&index, self.recheck, id, located);
        Some(files)
    }

    /// The files that a session of this index has now, without a look at which other sessions it may be a copy of: for who
    /// looks at all of them.
    pub fn files_alone(&self, index: &Index, id: &str) -> Option<SessionFiles> {
        let located = index.sessions.get(id)?;
        let files = self.walk().session(id, located);
        let is_there = files.fragments.iter().any(|f| !f.files.is_empty())
            || !files.record.is_empty()
            || located.directories().any(|path| path.is_dir())
            // A log that cannot be used is there, and says why.
            || (located.log.is_some() && !files.unused.is_empty());
        is_there.then_some(files)
    }

    /// When a session was last written: its main file, else the newest file of its agents, else its folder. None if there
    /// is no such session. Opens nothing.
    pub fn modified(&self, id: &str) -> Option<SystemTime> {
        let index = self.index();
        let located = index.sessions.get(id)?;
        if let Some(log) = &located.log {
            return modified(&log.path());
        }
        let mains = located.pieces().filter(|(_, piece)| piece.main.is_some());
        if let Some(newest) = mains
            .filter_map(|(folder, _)| modified(&located.main(folder)))
            .max()
        {
            return Some(newest);
        }
        let session = self.walk().session(id, located);
        let files = session
            .fragments
            .iter()
            .flat_map(|fragment| &fragment.files);
        let agents = files.filter(|file| matches!(file.role, FileRole::Agent(_)));
        let newest = agents.map(|file| file.fingerprint.modified()).max();
        newest.or_else(|| {
            located
                .directories()
                .filter_map(|path| modified(&path))
                .max()
        })
    }

    /// The session whose files changed last, and when: by its main file and by when its folder of agents got or lost one.
    /// None if there is no session. Asked again only so often that looking takes a fifth of the time at most.
    pub fn latest(&self) -> Option<(String, SystemTime)> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = &*latest
            && !self.recheck.is_zero()
            && latest.at.elapsed() < self.recheck.max(latest.took * 4)
        {
            return latest.answer.clone();
        }
        let start = Instant::now();
        let index = self.index();
        let sessions = index.sessions.iter();
        let answer = sessions
            .map(|(id, located)| (located.touched().unwrap_or(SystemTime::UNIX_EPOCH), id))
            .max()
            .map(|(at, id)| (id.to_string(), at));
        *latest = Some(Latest {
            at: Instant::now(),
            took: start.elapsed(),
            answer: answer.clone(),
        });
        answer
    }

    fn walk(&self) -> Walk<'_> {
        Walk {
            sources: &self.sources,
            listings: &self.listings,
        }
    }
}

/// Whether a link in this folder may lead to this path without links: into a source, or into the folder itself, which may
/// be somewhere else when a link led to it.
fn inside(sources: &[Source], folder: &Path, target: &Path) -> bool {
    sources.iter().any(|source| source.holds(target))
        || folder
            .canonicalize()
            .is_ok_and(|folder| target.starts_with(folder))
}

fn modified(path: &Path) -> Option<SystemTime> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Fingerprint::of(&metadata).modified())
}
