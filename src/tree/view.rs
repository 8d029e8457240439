//! The tree over a store.

use super::content::{Bytes, Slice};
use super::live::Live;
use super::place::{AGENTS, Derived, LATEST, Node, Owner, README, SESSIONS, SOURCE, TURNS};
use super::rendering::{Contents, Outline, Rendered, Renderings, TurnLine, Version, Whose};
use super::state::{State, States};
use super::version::Versioner;
use super::{Attributes, Content, Entry, NodeKind, Place, TreeError, View, readme};
use crate::session::TurnIndex;
use crate::store::{Store, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// How a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The bound in bytes of what is kept of parsed sessions and rendered documents.
    pub cache_bytes: u64,
    /// Blocks over this many bytes are cut in `artefact.md`; none cuts nothing.
    pub max_block_bytes: Option<usize>,
}

impl Default for Options {
    /// The defaults of `spec/commands.md`: 256 MiB kept, blocks cut at 8 KiB.
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            max_block_bytes: Some(8 << 10),
        }
    }
}

/// The tree of all sessions of a store.
///
/// Its answers are at most [`Store::recheck`] old. No lock is held while a session is parsed or rendered; who asks for
/// what is being made waits for it, and nobody else does. It must not be asked from a worker of the thread pool that
/// parsing uses: such a worker could be given the very work that it waits for.
pub struct Tree {
    store: Arc<Store>,
    options: Options,
    states: States,
    renderings: Renderings,
    live: Live,
    readme: Arc<Bytes>,
    readme_version: u64,
    made: SystemTime,
}

/// How often attributes are asked for anew when the files change while they are made.
const ATTEMPTS: usize = 5;

impl Tree {
    /// The tree over this store.
    pub fn new(store: Arc<Store>, options: Options) -> Self {
        let mut version = Versioner::new("readme");
        version.bytes(readme::TEXT.as_bytes());
        Self {
            renderings: Renderings::new(store.clone(), &options),
            store,
            options,
            states: States::new(),
            live: Live::new(),
            readme: Arc::new(Bytes::new(vec![Arc::new(readme::TEXT.into())])),
            readme_version: version.finish(),
            made: SystemTime::now(),
        }
    }

    /// The store below it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How many derived files were rendered so far. Listing renders none, and asking again for what is kept does not.
    pub fn renderings(&self) -> u64 {
        self.renderings.count()
    }

    fn state(&self, place: &Place, id: &str) -> Result<Arc<State>, TreeError> {
        self.states
            .state(&self.store, id, self.options.max_block_bytes)
            .ok_or_else(|| not_found(place))
    }

    /// Does what needs a session's state, again with a new one if its files were rewritten meanwhile.
    fn with_state<T>(
        &self,
        place: &Place,
        id: &str,
        work: impl Fn(&State) -> Result<T, TreeError>,
    ) -> Result<T, TreeError> {
        let mut attempt = 1;
        loop {
            match work(&*self.state(place, id)?) {
                Err(TreeError::Stale(_)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    self.states.forget(id);
                }
                done => return done,
            }
        }
    }

    fn source<T>(
        &self,
        place: &Place,
        id: &str,
        found: impl FnOnce(&State) -> Option<T>,
    ) -> Result<T, TreeError> {
        let state = self.state(place, id)?;
        found(&state).ok_or_else(|| not_found(place))
    }

    fn latest(&self, place: &Place) -> Result<(PathBuf, SystemTime), TreeError> {
        let (id, at) = self.store.latest().ok_or_else(|| not_found(place))?;
        Ok((Path::new(SESSIONS).join(id), at))
    }

    /// When the list of sessions last changed.
    fn listed(&self) -> SystemTime {
        self.store.index().modified().unwrap_or(self.made)
    }

    fn readme_attributes(&self) -> Attributes {
        Attributes {
            kind: NodeKind::File,
            size: self.readme.len(),
            modified: self.made,
            version: self.readme_version,
            live: false,
        }
    }
}

impl View for Tree {
    fn kind(&self, place: &Place) -> Result<NodeKind, TreeError> {
        let node = Node::of(place).ok_or_else(|| not_found(place))?;
        let index = || self.store.index();
        let there = |there: bool| there.then_some(()).ok_or_else(|| not_found(place));
        match node {
            Node::Root | Node::Sessions | Node::Readme => {}
            Node::Latest => there(!index().is_empty())?,
            Node::Session(id) | Node::Derived(id, Owner::Whole, _) => there(index().contains(id))?,
            Node::Agents(id)
            | Node::Agent(id, _)
            | Node::Derived(id, ..)
            | Node::Turns(id, _)
            | Node::Turn(id, ..) => {
                let contents = |state: &State| self.renderings.contents(state);
                let found =
                    self.with_state(place, id, |state| Target::of(node, || contents(state)))?;
                there(found.is_some())?;
            }
            Node::Source(id, path) => {
                return self.source(place, id, |state| state.sources.kind(path));
            }
        }
        Ok(node.kind())
    }

    fn list(&self, place: &Place) -> Result<Vec<Entry>, TreeError> {
        let node = Node::of(place).ok_or_else(|| not_found(place))?;
        let contents = |id| self.with_state(place, id, |state| self.renderings.contents(state));
        let mut entries = match node {
            Node::Root => {
                let mut entries = vec![file(README), directory(SESSIONS)];
                if !self.store.index().is_empty() {
                    entries.push(entry(LATEST, NodeKind::Link));
                }
                entries
            }
            Node::Sessions => self.store.index().ids().map(directory).collect(),
            Node::Session(id) => {
                let contents = contents(id)?;
                let state = self.state(place, id)?;
                let mut entries = parts(&contents, Whose::Session);
                if !contents.agents.is_empty() {
                    entries.push(directory(AGENTS));
                }
                if !state.sources.is_empty() {
                    entries.push(directory(SOURCE));
                }
                entries
            }
            Node::Agents(id) => {
                let contents = contents(id)?;
                let agents = contents.agents.keys().map(|name| directory(name));
                agents.collect()
            }
            Node::Agent(id, name) => {
                let contents = contents(id)?;
                let whose = contents.whose(Owner::Agent(name));
                parts(&contents, whose.ok_or_else(|| not_found(place))?)
            }
            Node::Turns(id, owner) => {
                let contents = contents(id)?;
                let turns = contents.whose(owner).and_then(|w| contents.turns(w));
                let (_, turns) = turns.ok_or_else(|| not_found(place))?;
                let names = turns.iter().enumerate();
                names.map(|(turn, line)| file(&line.name(turn))).collect()
            }
            Node::Source(id, path) => {
                let kind = self.source(place, id, |state| state.sources.kind(path))?;
                if kind != NodeKind::Directory {
                    return Err(not_directory(place));
                }
                self.source(place, id, |state| state.sources.list(path))?
            }
            Node::Readme | Node::Latest | Node::Derived(..) | Node::Turn(..) => {
                self.kind(place)?;
                return Err(not_directory(place));
            }
        };
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        // An empty directory that is listed is one that is there.
        if entries.is_empty() {
            self.kind(place)?;
        }
        Ok(entries)
    }

    fn known(&self, place: &Place) -> Option<Attributes> {
        let node = Node::of(place)?;
        let (Node::Agents(id)
        | Node::Agent(id, _)
        | Node::Derived(id, ..)
        | Node::Turns(id, _)
        | Node::Turn(id, ..)) = node
        else {
            return self.attributes(place).ok();
        };
        let state = self.state(place, id).ok()?;
        let of = state.version();
        let kept = || self.renderings.kept_contents(of).ok_or(());
        let Ok(target) = Target::of(node, kept) else {
            return None;
        };
        match target? {
            Target::Directory => Some(directory_attributes(state.modified)),
            Target::File(whose, file, turn) => {
                let outline = self.renderings.kept_outline(of, whose, file)?;
                file_attributes(&state, &outline, turn)
            }
        }
    }

    fn attributes(&self, place: &Place) -> Result<Attributes, TreeError> {
        let node = Node::of(place).ok_or_else(|| not_found(place))?;
        match node {
            Node::Root | Node::Sessions => Ok(directory_attributes(self.listed())),
            Node::Readme => Ok(self.readme_attributes()),
            Node::Latest => {
                let (target, modified) = self.latest(place)?;
                Ok(Attributes {
                    kind: NodeKind::Link,
                    size: target.as_os_str().len() as u64,
                    modified,
                    version: 0,
                    live: false,
                })
            }
            Node::Session(id) => {
                let modified = self.store.modified(id).ok_or_else(|| not_found(place))?;
                Ok(directory_attributes(modified))
            }
            Node::Source(id, path) => {
                let state = self.state(place, id)?;
                match state.sources.kind(path).ok_or_else(|| not_found(place))? {
                    NodeKind::File => self.stored_attributes(place, &state, path),
                    _ => Ok(directory_attributes(state.modified)),
                }
            }
            Node::Agents(id)
            | Node::Agent(id, _)
            | Node::Derived(id, ..)
            | Node::Turns(id, _)
            | Node::Turn(id, ..) => self.with_state(place, id, |state| {
                let contents = || self.renderings.contents(state);
                let target = Target::of(node, contents)?.ok_or_else(|| not_found(place))?;
                match target {
                    Target::Directory => Ok(directory_attributes(state.modified)),
                    Target::File(whose, file, turn) => {
                        let outline = self.renderings.outline(state, whose, file)?;
                        file_attributes(state, &outline, turn).ok_or_else(|| not_found(place))
                    }
                }
            }),
        }
    }

    fn open(&self, place: &Place, version: u64) -> Result<Arc<dyn Content>, TreeError> {
        let node = Node::of(place).ok_or_else(|| not_found(place))?;
        let changed = || TreeError::Stale(place.path().to_path_buf());
        let id = match node {
            Node::Readme if version == self.readme_version => {
                return Ok(Arc::new(Slice::whole(self.readme.clone())));
            }
            Node::Readme => return Err(changed()),
            Node::Source(id, path) => {
                let state = self.state(place, id)?;
                let file = state.sources.file(&state.files.fragments, path);
                let file = file.ok_or_else(|| self.no_file(place))?;
                let opened = self.live.open(&file.path, version);
                let opened = opened.map_err(|error| gone_or(place, error))?;
                return Ok(Arc::new(opened.ok_or_else(changed)?));
            }
            Node::Derived(id, ..) | Node::Turn(id, ..) => id,
            _ => return Err(self.no_file(place)),
        };
        let state = self.state(place, id)?;
        if version == state.version {
            let target = Target::of(node, || self.renderings.contents(&state))?;
            let target = target.ok_or_else(|| not_found(place))?;
            let make = |whose, file| self.renderings.file(&state, whose, file);
            return content(place, target, make);
        }
        let of = Version {
            version,
            ..state.version()
        };
        let target = Target::of(node, || {
            self.renderings.kept_contents(of).ok_or_else(changed)
        })?;
        let target = target.ok_or_else(|| not_found(place))?;
        let kept = |whose, file| {
            self.renderings
                .kept_file(of, whose, file)
                .ok_or_else(changed)
        };
        content(place, target, kept)
    }

    fn target(&self, place: &Place) -> Result<PathBuf, TreeError> {
        match Node::of(place) {
            Some(Node::Latest) => Ok(self.latest(place)?.0),
            _ => Err(not_found(place)),
        }
    }
}

impl Tree {
    fn stored_attributes(
        &self,
        place: &Place,
        state: &State,
        path: &Path,
    ) -> Result<Attributes, TreeError> {
        let file = state.sources.file(&state.files.fragments, path);
        let file = file.ok_or_else(|| not_found(place))?;
        let looked = self.live.look(&file.path);
        let (version, now) = looked.map_err(|error| gone_or(place, error))?;
        Ok(Attributes {
            kind: NodeKind::File,
            size: now.size,
            modified: now.modified(),
            version,
            live: true,
        })
    }

    /// Why something that is no file cannot be opened.
    fn no_file(&self, place: &Place) -> TreeError {
        match self.kind(place) {
            Ok(_) => not_directory(place),
            Err(error) => error,
        }
    }
}

/// What a path below a session names that depends on the session's contents.
#[derive(Clone, Copy)]
enum Target {
    Directory,
    File(Whose, Derived, Option<(TurnIndex, TurnLine)>),
}

impl Target {
    /// The target of a node, none if nothing is there. Asks for the contents only if they decide it.
    fn of<E>(
        node: Node<'_>,
        contents: impl FnOnce() -> Result<Arc<Contents>, E>,
    ) -> Result<Option<Self>, E> {
        if let Node::Derived(_, Owner::Whole, file) = node {
            return Ok(Some(Self::File(Whose::Session, file, None)));
        }
        let contents = contents()?;
        let found = |owner| contents.whose(owner);
        Ok(match node {
            Node::Agents(_) => (!contents.agents.is_empty()).then_some(Self::Directory),
            Node::Agent(_, name) => found(Owner::Agent(name)).map(|_| Self::Directory),
            Node::Turns(_, owner) => {
                let turns = found(owner).and_then(|whose| contents.turns(whose));
                turns.map(|_| Self::Directory)
            }
            Node::Derived(_, owner, file) => {
                found(owner).map(|whose| Self::File(whose, file, None))
            }
            Node::Turn(_, owner, name) => found(owner).and_then(|whose| {
                let turn = contents.turn(whose, name)?;
                Some(Self::File(whose, Derived::Full, Some(turn)))
            }),
            _ => None,
        })
    }
}

fn file_attributes(
    state: &State,
    outline: &Outline,
    turn: Option<(TurnIndex, TurnLine)>,
) -> Option<Attributes> {
    let (size, at) = match turn {
        None => (outline.size, None),
        Some((turn, line)) => {
            let range = outline.turn(turn)?;
            (range.end - range.start, line.at)
        }
    };
    Some(Attributes {
        kind: NodeKind::File,
        size,
        modified: at.unwrap_or(state.modified),
        version: state.version,
        live: false,
    })
}

/// The content of a file, or of the section of it that a turn is.
fn content(
    place: &Place,
    target: Target,
    rendered: impl FnOnce(Whose, Derived) -> Result<Arc<Rendered>, TreeError>,
) -> Result<Arc<dyn Content>, TreeError> {
    let Target::File(whose, file, turn) = target else {
        return Err(not_directory(place));
    };
    let rendered = rendered(whose, file)?;
    let bytes = rendered.bytes.clone();
    let Some((turn, _)) = turn else {
        return Ok(Arc::new(Slice::whole(bytes)));
    };
    let range = rendered.outline.turn(turn);
    let range = range.ok_or_else(|| not_found(place))?;
    Ok(Arc::new(Slice { bytes, range }))
}

fn directory_attributes(modified: SystemTime) -> Attributes {
    Attributes {
        kind: NodeKind::Directory,
        size: 0,
        modified,
        version: 0,
        live: false,
    }
}

/// What a session and each of its agents has, as far as there is something.
fn parts(contents: &Contents, whose: Whose) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Derived::ALL.iter().map(|d| file(d.name())).collect();
    if contents.turns(whose).is_some() {
        entries.push(directory(TURNS));
    }
    entries
}

fn entry(name: &str, kind: NodeKind) -> Entry {
    Entry {
        name: name.into(),
        kind,
    }
}

fn file(name: &str) -> Entry {
    entry(name, NodeKind::File)
}

fn directory(name: &str) -> Entry {
    entry(name, NodeKind::Directory)
}

fn not_found(place: &Place) -> TreeError {
    TreeError::NotFound(place.path().to_path_buf())
}

fn not_directory(place: &Place) -> TreeError {
    TreeError::NotDirectory(place.path().to_path_buf())
}

/// A stored file that vanished is not there; any other fault is the file's.
fn gone_or(place: &Place, error: StoreError) -> TreeError {
    match error {
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            not_found(place)
        }
        error => error.into(),
    }
}
