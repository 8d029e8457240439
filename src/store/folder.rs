//! One project folder: which sessions have something in it.
//!
//! Most names say what they are. A few do not (flat agent files, stems that are no UUID, links, odd directories) and are
//! looked at; as long as neither the names nor those looks say something new, the folder of last time is given again.

use super::Fingerprint;
use super::listing::{Kind, Listing, Listings, Named};
use super::open::kind_of;
use super::probe::{Head, Probes};
use super::source::is_uuid;
use super::{Problem, StoreError};
use nix::errno::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What lies in one folder, by the sessions that it belongs to.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Device and inode number.
    pub(super) identity: (u64, u64),
    /// When it last got or lost an entry.
    pub(super) modified: SystemTime,
    /// By what stands before `.jsonl`, or by the session ID that an agent's lines give.
    pub(super) pieces: HashMap<Arc<OsStr>, Piece>,
    /// Directories that may be project folders themselves, links last. Only of a source's root.
    pub(super) projects: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
}

impl Folder {
    fn piece(&mut self, stem: &OsStr) -> &mut Piece {
        self.pieces.entry(Arc::from(stem)).or_default()
    }
}

/// What one session has in one folder, in little memory: there may be very many.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// `<stem>.jsonl`, if it is there.
    pub(super) main: Option<Main>,
    /// Whether `<stem>/` is there.
    pub(super) folder: bool,
    /// What few have.
    rest: Option<Box<Rest>>,
}

#[derive(Debug, Default)]
struct Rest {
    beside: Vec<OsString>,
    unused: Vec<(String, String)>,
}

impl Piece {
    /// Files of its agents that lie in the folder itself.
    pub(super) fn beside(&self) -> &[OsString] {
        self.rest.as_ref().map_or(&[], |rest| &rest.beside)
    }

    /// Files that cannot be used: base name and why.
    pub(super) fn unused(&self) -> &[(String, String)] {
        self.rest.as_ref().map_or(&[], |rest| &rest.unused)
    }

    /// Whether there is nothing but the main file.
    pub(super) fn is_main_alone(&self) -> bool {
        !self.folder && self.rest.is_none()
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }
}

/// Which file a main file is, as far as its folder tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Main {
    pub(super) inode: u64,
    /// Whether its name here is a symbolic link.
    pub(super) linked: bool,
}

/// Folders as they were seen last.
pub(super) struct Folders {
    seen: HashMap<PathBuf, Seen>,
    probes: Probes<Head>,
}

struct Seen {
    listing: Arc<Listing>,
    root: bool,
    /// Indexes of the entries that names do not decide, and what a look at each said.
    doubtful: Vec<usize>,
    facts: Vec<Fact>,
    folder: Arc<Folder>,
}

/// What an entry of a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fact {
    /// The main file of the session of its stem.
    Main(Main),
    /// The folder of the session of its name.
    Session,
    /// An agent's transcript that names its session.
    Agent(String),
    /// A directory that may be a project folder.
    Project,
    /// None of the store's business.
    Nothing,
    /// What should have been a transcript or a folder, and why it is not.
    Fault(Fault),
}

/// Why an entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    why: String,
    /// Whether the file system refused, so that nobody knows what is there.
    failed: bool,
}

impl Fact {
    fn unusable(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Fault(Fault { why, failed: false })
    }

    fn failed(why: String) -> Self {
        Self::Fault(Fault { why, failed: true })
    }
}

impl Folders {
    pub(super) fn new() -> Self {
        Self {
            seen: HashMap::new(),
            probes: Probes::new(),
        }
    }

    /// What lies in this folder now; the same value (by pointer) as last time if that is the same. `inside` says whether
    /// a link may lead to a path without links.
    pub(super) fn look(
        &mut self,
        path: &Path,
        root: bool,
        listings: &Listings,
        inside: &dyn Fn(&Path) -> bool,
    ) -> Result<Arc<Folder>, Problem> {
        let listing = listings
            .list(path)
            .map_err(|error| Problem::failed(path, format!("cannot be listed: {error}")))?;
        let look = Look {
            path,
            root,
            listing: &listing,
            listings,
            probes: &self.probes,
            inside,
        };
        let facts = |doubtful: &[usize]| doubtful.iter().map(|&i| look.closely(i)).collect();
        if let Some(seen) = self.seen.get(path)
            && Arc::ptr_eq(&seen.listing, &listing)
            && seen.root == root
        {
            let now: Vec<Fact> = facts(&seen.doubtful);
            if now == seen.facts {
                return Ok(seen.folder.clone());
            }
        }
        let doubtful: Vec<usize> = (0..listing.entries.len())
            .filter(|&i| look.by_name(i).is_none())
            .collect();
        let facts: Vec<Fact> = facts(&doubtful);
        let folder = Arc::new(look.folder(&facts));
        let seen = Seen {
            listing,
            root,
            doubtful,
            facts,
            folder: folder.clone(),
        };
        self.seen.insert(path.to_path_buf(), seen);
        Ok(folder)
    }

    /// Forgets the folders that are not among these.
    pub(super) fn keep(&mut self, folders: &[Arc<Folder>]) {
        if self.seen.len() > folders.len() {
            self.seen
                .retain(|_, seen| folders.iter().any(|f| Arc::ptr_eq(f, &seen.folder)));
        }
    }
}

/// A folder being looked at.
struct Look<'a> {
    path: &'a Path,
    root: bool,
    listing: &'a Arc<Listing>,
    listings: &'a Listings,
    probes: &'a Probes<Head>,
    inside: &'a dyn Fn(&Path) -> bool,
}

impl Look<'_> {
    /// What the entry is, if its name and kind decide it.
    fn by_name(&self, entry: usize) -> Option<Fact> {
        let Named { name, kind, inode } = &self.listing.entries[entry];
        let main = Fact::Main(Main {
            inode: *inode,
            linked: false,
        });
        match (kind, stem(name)) {
            (Kind::File, Some(stem)) => is_uuid(stem).then_some(main),
            (Kind::File | Kind::Special, None) => Some(Fact::Nothing),
            (Kind::Directory, Some(_)) => Some(Fact::unusable("a directory, no transcript")),
            (Kind::Directory, None) if self.has_main(name) => Some(Fact::Session),
            (Kind::Directory, None) if is_uuid(name) && !self.root => Some(Fact::Session),
            (Kind::Directory, None) | (Kind::Special, Some(_)) | (Kind::Link, _) => None,
        }
    }

    /// What an entry is whose name does not decide it.
    fn closely(&self, entry: usize) -> Fact {
        let Named { name, kind, .. } = &self.listing.entries[entry];
        let path = self.path.join(name);
        let expected = stem(name).is_some() || self.root;
        let fault = |fact: Fact| if expected { fact } else { Fact::Nothing };
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if *kind == Kind::Link && leads_nowhere(&error) => {
                return fault(Fact::unusable("a symbolic link that leads nowhere"));
            }
            // It went away since its folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Fact::Nothing,
            Err(error) => return fault(Fact::failed(format!("cannot be looked at: {error}"))),
        };
        if metadata.is_dir() {
            let fact = match stem(name) {
                Some(_) => Fact::unusable("a directory, no transcript"),
                None => self.directory(name, &path),
            };
            // A project folder may lie anywhere; what belongs to one session must not be somebody else's.
            return match fact {
                Fact::Session if *kind == Kind::Link => {
                    self.target(&path).map_or_else(|why| why, |_| fact)
                }
                fact => fact,
            };
        }
        let Some(stem) = stem(name) else {
            return Fact::Nothing;
        };
        if !metadata.is_file() {
            return Fact::unusable(format!("{}, which is never opened", kind_of(&metadata)));
        }
        let target = if *kind == Kind::Link {
            match self.target(&path) {
                Ok(target) => target,
                Err(why) => return why,
            }
        } else {
            path
        };
        let is_agent = agent_id(name).is_some();
        let main = Fact::Main(Main {
            inode: metadata.ino(),
            linked: *kind == Kind::Link,
        });
        if !is_agent && is_uuid(stem) {
            return main;
        }
        match self.probes.head(&target, Fingerprint::of(&metadata)) {
            Err(error @ StoreError::NotRegular { .. }) => Fact::unusable(error.reason()),
            Err(error) => Fact::failed(error.reason()),
            Ok(head) if is_agent => head.session.map_or_else(
                || Fact::unusable("an agent's transcript that names no session"),
                Fact::Agent,
            ),
            Ok(head) if head.transcript => main,
            Ok(_) => Fact::unusable("no line in its head is a transcript's"),
        }
    }

    /// Where a link leads, if that is where it may lead.
    fn target(&self, link: &Path) -> Result<PathBuf, Fact> {
        match link.canonicalize() {
            Ok(target) if (self.inside)(&target) => Ok(target),
            Ok(_) => Err(Fact::unusable(
                "a symbolic link that leads out of the source",
            )),
            Err(error) => Err(Fact::failed(format!("cannot be followed: {error}"))),
        }
    }

    fn directory(&self, name: &OsStr, path: &Path) -> Fact {
        if self.has_main(name) || (is_uuid(name) && !self.root) {
            return Fact::Session;
        }
        let listing = match self.listings.list(path) {
            Ok(listing) => listing,
            Err(error) => return Fact::failed(format!("cannot be listed: {error}")),
        };
        // An export may keep each session in a folder of its own, which is then a small project folder.
        let holds_main = || {
            let mut names = listing.entries.iter().map(|entry| &entry.name);
            names.any(|name| stem(name).is_some() && agent_id(name).is_none())
        };
        let has_agents = listing.kind(OsStr::new("subagents")) == Some(Kind::Directory);
        match (self.root, is_uuid(name) || has_agents) {
            (true, true) if holds_main() => Fact::Project,
            (_, true) => Fact::Session,
            (true, false) => Fact::Project,
            (false, false) => Fact::Nothing,
        }
    }

    fn has_main(&self, name: &OsStr) -> bool {
        let mut main = name.to_owned();
        main.push(".jsonl");
        matches!(self.listing.kind(&main), Some(Kind::File | Kind::Link))
    }

    /// Puts the folder together; `facts` are of the doubtful entries, in order.
    fn folder(&self, facts: &[Fact]) -> Folder {
        let mut folder = Folder {
            path: self.path.to_path_buf(),
            identity: self.listing.identity,
            modified: self.listing.modified,
            pieces: HashMap::new(),
            projects: Vec::new(),
            problems: Vec::new(),
        };
        if self.listing.cut {
            let why = "has more names than are read; the rest are left out";
            folder.problems.push(Problem::failed(self.path, why.into()));
        }
        let mut facts = facts.iter();
        let mut faults = Vec::new();
        let mut linked = Vec::new();
        for (i, Named { name, kind, .. }) in self.listing.entries.iter().enumerate() {
            let fact = self.by_name(i).or_else(|| facts.next().cloned());
            match fact.unwrap_or(Fact::Nothing) {
                Fact::Main(main) => folder.piece(stem(name).unwrap_or(name)).main = Some(main),
                Fact::Session => folder.piece(name).folder = true,
                Fact::Agent(session) => {
                    let beside = &mut folder.piece(OsStr::new(&session)).rest().beside;
                    beside.push(name.clone());
                    beside.extend(self.sidecar(name));
                }
                Fact::Project if *kind == Kind::Link => linked.push(self.path.join(name)),
                Fact::Project => folder.projects.push(self.path.join(name)),
                Fact::Nothing => {}
                Fact::Fault(fault) => faults.push((name, fault)),
            }
        }
        folder.projects.append(&mut linked);
        for (name, Fault { why, failed }) in faults {
            // A fault of a session that has something else here is that session's to tell.
            match folder.pieces.get_mut(stem(name).unwrap_or(name)) {
                Some(piece) => piece
                    .rest()
                    .unused
                    .push((name.to_string_lossy().into_owned(), why)),
                None => folder.problems.push(Problem {
                    path: self.path.join(name),
                    why,
                    failed,
                }),
            }
        }
        folder
    }

    /// The sidecar that lies beside an agent's transcript.
    fn sidecar(&self, transcript: &OsStr) -> Option<OsString> {
        let mut name = stem(transcript)?.to_owned();
        name.push(".meta.json");
        matches!(self.listing.kind(&name), Some(Kind::File | Kind::Link)).then_some(name)
    }
}

/// Whether a link that cannot be looked through ends at nothing, or at itself.
fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ELOOP as i32)
}

/// What stands before `.jsonl`.
pub(super) fn stem(name: &OsStr) -> Option<&OsStr> {
    name.as_bytes()
        .strip_suffix(b".jsonl")
        .map(OsStr::from_bytes)
}

/// What stands between `agent-` and `.jsonl`.
pub(super) fn agent_id(name: &OsStr) -> Option<&OsStr> {
    let id = stem(name)?.as_bytes().strip_prefix(b"agent-")?;
    (!id.is_empty()).then(|| OsStr::from_bytes(id))
}
