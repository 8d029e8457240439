//! Which sessions there are, over all sources.

use super::folder::{Folder, Folders, Piece};
use super::listing::Listings;
use super::logs::{LogPlace, Logs};
use super::name::safe_id;
use super::record::{self, Found, Records};
use super::source::{Holds, Source};
use super::walk::Walk;
use super::{Fingerprint, Problem, SessionFiles, SourceFile, open};
use quick_cache::sync::Cache;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of two files compared at a time.
const CHUNK: usize = 256 << 10;

/// The sessions that are there at one time, by names alone: no transcript was read.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) sessions: BTreeMap<Arc<str>, Located>,
    problems: Vec<Problem>,
    /// Those that were seen before the sessions were put together.
    problems_of_folders: Vec<Problem>,
    folders: Vec<Arc<Folder>>,
    records: Records,
    logs: Logs,
    /// Whether two sources have a session of the same ID, so that contents decide what is listed.
    contested: bool,
}

/// Where the parts of one session lie, in little memory: there may be very many.
#[derive(Debug)]
pub(super) struct Located {
    /// What stands before `.jsonl`. Its folders share it.
    pub(super) stem: Arc<OsStr>,
    pub(super) folders: Box<[Arc<Folder>]>,
    /// Its folder in a record directory.
    pub(super) record: Option<Box<Path>>,
    /// The framed log that it is; it then has no folders.
    pub(super) log: Option<Box<LogPlace>>,
}

impl Located {
    /// The folders that have a part of it, with that part.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&Folder, &Piece)> {
        self.folders
            .iter()
            .filter_map(|folder| Some((&**folder, folder.pieces.get(&self.stem)?)))
    }

    /// Whether it is one main file and nothing else.
    fn is_main_alone(&self) -> bool {
        self.folders.len() == 1 && self.pieces().all(|(_, piece)| piece.is_main_alone())
    }

    /// Where its main file lies in this folder.
    pub(super) fn main(&self, folder: &Folder) -> PathBuf {
        let length = folder.path.as_os_str().len() + self.stem.len();
        let mut path = PathBuf::with_capacity(length + "/.jsonl".len());
        path.push(&folder.path);
        path.push(&*self.stem);
        path.as_mut_os_string().push(".jsonl");
        path
    }

    /// The session's own directories, those in a record included. The ID of a session that has none may come from an agent's lines, and is no path.
    pub(super) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let pieces = self.pieces().filter(|(_, piece)| piece.folder);
        let own = pieces.map(|(folder, _)| folder.path.join(&*self.stem));
        own.chain(self.record())
    }

    /// When its main file, or the list of its agents or of its entries, last changed.
    pub(super) fn touched(&self) -> Option<SystemTime> {
        if let Some(log) = &self.log {
            return super::modified(&log.path());
        }
        let files = self.pieces().flat_map(|(folder, piece)| {
            let main = piece.main.map(|_| self.main(folder));
            let beside = piece.beside().iter().map(|name| folder.path.join(name));
            main.into_iter().chain(beside)
        });
        let agents = self.directories().map(|path| path.join("subagents"));
        files
            .chain(agents)
            .chain(self.record())
            .filter_map(|path| super::modified(&path))
            .max()
    }

    fn record(&self) -> Option<PathBuf> {
        self.record.as_deref().map(Path::to_path_buf)
    }
}

impl Index {
    /// The IDs, sorted.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.sessions.keys().map(|id| &**id)
    }

    /// The same, for who keeps them: all share one value.
    pub fn shared_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sessions.keys()
    }

    /// Whether there is a session with this ID.
    pub fn contains(&self, id: &str) -> bool {
        self.sessions.contains_key(id)
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The folders in which they lie, as the sources name them.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        let holding = self.folders.iter().filter(|f| !f.pieces.is_empty());
        holding.map(|folder| folder.path.as_path())
    }

    /// When a folder with sessions last got or lost an entry; none if there is no folder.
    pub fn modified(&self) -> Option<SystemTime> {
        let folders = self.folders.iter().map(|folder| folder.modified);
        let folders = folders.chain(self.logs.modified());
        folders.chain(self.records.modified()).max()
    }

    /// Faults that belong to no session: an unreadable folder, an agent's file that names no session, a `.jsonl` that is
    /// no transcript, a second name of a main file. Sorted by path.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl Index {
    /// Leaves out a session that is nothing but a second name of another one's main file, and says so. Of several names
    /// one that is no symbolic link stays, else the first.
    fn leave_out_second_names(&mut self) {
        let mut mains = Vec::new();
        for (id, located) in &self.sessions {
            for (folder, piece) in located.pieces() {
                mains.extend(piece.main.map(|main| (main, id, (located, folder))));
            }
        }
        mains.sort_by_key(|(main, ..)| main.inode);
        let mut second = Vec::new();
        for alike in mains.chunk_by(|(a, ..), (b, ..)| a.inode == b.inode) {
            if alike.len() == 1 {
                continue;
            }
            // Two file systems may use one number, so the status decides.
            let files = alike.iter();
            let mut files: Vec<_> = files
                .filter_map(|(main, id, (located, folder))| {
                    let path = located.main(folder);
                    Some((identity(&path)?, main.linked, *id, path))
                })
                .collect();
            files.sort();
            for names in files.chunk_by(|(a, ..), (b, ..)| a == b) {
                let (_, _, first, kept) = &names[0];
                let others = names
                    .iter()
                    .filter(|(_, _, id, _)| id != first && self.sessions[*id].is_main_alone());
                second.extend(
                    others.map(|(_, _, id, path)| ((*id).clone(), path.clone(), kept.clone())),
                );
            }
        }
        for (id, path, kept) in second {
            self.sessions.remove(&id);
            let why = format!("the same file as {}", kept.display());
            self.problems.push(Problem::new(&path, why));
        }
        self.problems.sort();
    }
}

/// Device and inode number: which file it is.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let status = std::fs::metadata(path).ok()?;
    Some(Fingerprint::of(&status).identity())
}

/// What is remembered from one index to the next.
pub(super) struct Indexer {
    folders: Folders,
    last: Arc<Index>,
    /// Whether files of equal sizes hold equal bytes, by the states of both sides.
    equal: Cache<(Vec<Fingerprint>, Vec<Fingerprint>), bool>,
}

impl Indexer {
    pub(super) fn new() -> Self {
        Self {
            folders: Folders::new(),
            last: Arc::default(),
            equal: Cache::new(4096),
        }
    }

    /// The index as of now; the same value (by pointer) as last time if nothing was added, removed or renamed.
    pub(super) fn index(
        &mut self,
        sources: &[Source],
        excluded: &HashSet<String>,
        listings: &Listings,
    ) -> Arc<Index> {
        let mut problems = Vec::new();
        let found = self.folders(sources, listings, &mut problems);
        let logs = Logs::look(sources, listings, &self.last.logs, &mut problems);
        let records = Records::look(sources, listings, &mut problems);
        let folders: Vec<_> = found.iter().flat_map(|(_, list)| list).cloned().collect();
        let same = |a: &[Arc<Folder>], b: &[Arc<Folder>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        problems.extend(folders.iter().flat_map(|f| f.problems.iter().cloned()));
        problems.sort();
        problems.dedup();
        if !self.last.contested
            && same(&self.last.folders, &folders)
            && self.last.logs.is_same(&logs)
            && self.last.records.is_same(&records)
            && self.last.problems_of_folders == problems
        {
            return self.last.clone();
        }
        self.folders.keep(&folders);
        let mut index = Index {
            problems: problems.clone(),
            problems_of_folders: problems,
            folders,
            ..Index::default()
        };
        let mut whole = HashSet::new();
        let mut single = HashSet::new();
        for (source, folders) in found {
            let mut sessions: BTreeMap<Arc<OsStr>, Vec<Arc<Folder>>> = BTreeMap::new();
            for folder in folders {
                if whole.contains(&folder.identity) {
                    continue;
                }
                let wanted = |stem: &Arc<OsStr>| match &source.only {
                    Some(only) => **stem == **only,
                    None => !single.contains(&(folder.identity, stem.clone())),
                };
                for stem in folder.pieces.keys().filter(|stem| wanted(stem)) {
                    sessions
                        .entry(stem.clone())
                        .or_default()
                        .push(folder.clone());
                }
                match &source.only {
                    Some(only) => {
                        single.insert((folder.identity, Arc::from(only.as_os_str())));
                    }
                    None => {
                        whole.insert(folder.identity);
                    }
                }
            }
            for (stem, folders) in sessions {
                let id = safe_id(stem.as_bytes());
                let found = Located {
                    stem,
                    folders: folders.into(),
                    log: None,
                    record: None,
                };
                self.add(&mut index, &id, found, sources, listings);
            }
        }
        index.leave_out_second_names();
        for log in logs.places() {
            // The ID belongs to the transcript, if there is one, in whatever order the sources were given.
            let has_transcript = |other: &Located| other.log.is_none();
            let id = safe_id(log.id.as_bytes());
            let is_taken = index.sessions.get(&*id).is_some_and(has_transcript);
            let id = if is_taken { format!("{id}~log") } else { id };
            let found = Located {
                stem: Arc::from(OsStr::new(&log.id)),
                folders: Box::default(),
                log: Some(Box::new(log)),
                record: None,
            };
            self.add(&mut index, &id, found, sources, listings);
        }
        index.logs = logs;
        for (id, folders) in &records.sessions {
            self.add_record(&mut index, id, folders, listings);
        }
        index.records = records;
        // Put in one by one they lie in nodes that are half empty, all at once in full ones.
        let sessions = std::mem::take(&mut index.sessions).into_iter();
        let is_wanted = |(id, _): &(Arc<str>, _)| !excluded.contains(&**id);
        index.sessions = sessions.filter(is_wanted).collect();
        self.last = Arc::new(index);
        self.last.clone()
    }

    /// Each source with the folders in which its sessions lie.
    fn folders<'s>(
        &mut self,
        sources: &'s [Source],
        listings: &Listings,
        problems: &mut Vec<Problem>,
    ) -> Vec<(&'s Source, Vec<Arc<Folder>>)> {
        let mut found = Vec::new();
        let transcripts = |source: &&Source| source.holds == Holds::Transcripts;
        for source in sources.iter().filter(transcripts) {
            let mut list = Vec::new();
            let is_root = source.only.is_none();
            let mut look = |path, root| {
                let inside = |target: &_| super::inside(sources, path, target);
                match self.folders.look(path, root, listings, &inside) {
                    Ok(folder) => Some(folder),
                    Err(problem) => {
                        problems.push(problem);
                        None
                    }
                }
            };
            if let Some(root) = look(source.root.as_path(), is_root) {
                let mut seen = HashSet::from([root.identity]);
                let projects = root.projects.iter().filter_map(|path| look(path, false));
                let projects: Vec<_> = projects.filter(|f| seen.insert(f.identity)).collect();
                list.push(root);
                list.extend(projects);
            }
            found.push((source, list));
        }
        found
    }

    /// Adds a session under this ID, or under the next free `<id>~2`, `<id>~3` if another source has something else under
    /// that ID; leaves it out if it has the same.
    fn add(
        &self,
        index: &mut Index,
        id: &str,
        found: Located,
        sources: &[Source],
        listings: &Listings,
    ) {
        let mut name = id.to_owned();
        for ordinal in 2_u64.. {
            let Some(other) = index.sessions.get(&*name) else {
                break;
            };
            index.contested = true;
            if self.same(other, &found, sources, listings) {
                return;
            }
            name = format!("{id}~{ordinal}");
        }
        index.sessions.insert(name.into(), found);
    }

    /// Gives the first of a session's records to the session of this ID. Another one that says something else is the next free
    /// `<id>~2`, `<id>~3`; one that says nothing else, a copy that lags behind included, is left out.
    fn add_record(&self, index: &mut Index, id: &str, folders: &[PathBuf], listings: &Listings) {
        let mut kept: Vec<Found> = Vec::new();
        for folder in folders {
            if folders.len() > 1 {
                index.contested = true;
                let found = record::entries(folder, listings);
                if kept.iter().any(|known| self.holds(known, &found)) {
                    continue;
                }
                kept.push(found);
            }
            let alone = || Located {
                stem: OsStr::new(id).into(),
                folders: Box::default(),
                log: None,
                record: None,
            };
            let names = std::iter::once(id.to_owned());
            let mut names = names.chain((2_u64..).map(|ordinal| format!("{id}~{ordinal}")));
            let is_first = kept.len() < 2;
            let free = |name: &String| is_first || !index.sessions.contains_key(&**name);
            if let Some(name) = names.find(free) {
                let located = index.sessions.entry(name.into()).or_insert_with(alone);
                located.record = Some(folder.as_path().into());
            }
        }
    }

    /// Whether every entry of the other record is in this one with the same bytes.
    fn holds(&self, record: &Found, other: &Found) -> bool {
        let Some(pairs) = record.pairs(other) else {
            return false;
        };
        let states = |files: Vec<&SourceFile>| files.iter().map(|f| f.fingerprint).collect();
        let (mine, others) = pairs.iter().copied().unzip();
        let key = (states(mine), states(others));
        if key.0 == key.1 {
            return true;
        }
        if let Some(answer) = self.equal.get(&key) {
            return answer;
        }
        let answer = pairs.iter().all(|(a, b)| equal(a, b).unwrap_or(false));
        self.equal.insert(key, answer);
        answer
    }

    /// Whether two sessions have the same files with the same bytes.
    fn same(&self, a: &Located, b: &Located, sources: &[Source], listings: &Listings) -> bool {
        let walk = Walk { sources, listings };
        let (a, b) = (walk.session("", a), walk.session("", b));
        let files = |session: &SessionFiles| {
            let files = session.fragments.iter().flat_map(|f| f.files.clone());
            files.collect::<Vec<_>>()
        };
        let (a, b) = (files(&a), files(&b));
        let pairs = || a.iter().zip(&b);
        if a.len() != b.len()
            || pairs().any(|(a, b)| a.name != b.name || a.fingerprint.size != b.fingerprint.size)
        {
            return false;
        }
        let states = |files: &[SourceFile]| files.iter().map(|f| f.fingerprint).collect();
        let key = (states(&a), states(&b));
        if key.0 == key.1 {
            return true;
        }
        if let Some(answer) = self.equal.get(&key) {
            return answer;
        }
        let answer = pairs().all(|(a, b)| equal(a, b).unwrap_or(false));
        self.equal.insert(key, answer);
        answer
    }
}

/// Whether two files of one size hold the same bytes.
fn equal(a: &SourceFile, b: &SourceFile) -> Result<bool, super::StoreError> {
    let reader = |file: &SourceFile| Ok(open::open(&file.path)?.take(file.fingerprint.size));
    let io = |source| super::StoreError::io(&a.path, "compare", source);
    let (mut left, mut right): (std::io::Take<_>, std::io::Take<_>) = (reader(a)?, reader(b)?);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    loop {
        x.clear();
        y.clear();
        left.by_ref()
            .take(CHUNK as u64)
            .read_to_end(&mut x)
            .map_err(io)?;
        right
            .by_ref()
            .take(CHUNK as u64)
            .read_to_end(&mut y)
            .map_err(io)?;
        if x != y {
            return Ok(false);
        }
        if x.is_empty() {
            return Ok(true);
        }
    }
}
