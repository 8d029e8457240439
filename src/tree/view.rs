//! The tree over a store.

use super::content::{Bytes, Slice};
use super::live::Live;
use super::overview::{self, Overviews, Shown, There};
use super::place::{
    AGENTS, BY_DATE, BY_PROJECT, Derived, LATEST, Node, OBJECTS, Owner, PROBLEMS, Part, README,
    SESSIONS, Stored, TABLE, TURNS,
};
use super::problems::Problems;
use super::rendering::{Contents, Renderings, Version, Whose};
use super::state::{State, States};
use super::target::{self, Target};
use super::version::{self, Versioner};
use super::{Attributes, Content, Entry, NodeKind, Place, TreeError, View, readme};
use crate::cache::{Cache, Table};
use crate::session::look::Look;
use crate::store::{SessionFiles, SourceFile, Store, StoreError};
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
    overviews: Overviews,
    readme: Arc<Bytes>,
    readme_version: u64,
    made: SystemTime,
}

/// Bytes that are read, and rendered, within the time of a few requests.
const SMALL: u64 = 256 << 10;

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
            overviews: Overviews::new(Table::none()),
            readme: Arc::new(Bytes::new(vec![readme::TEXT.as_bytes().to_vec().into()])),
            readme_version: version.finish(),
            made: SystemTime::now(),
        }
    }

    /// The same, with what earlier runs remembered: how sessions begin and end, and the sizes of what is made of them.
    #[must_use]
    pub fn remembering(mut self, cache: &Cache) -> Self {
        let cut = self.options.max_block_bytes.unwrap_or_default();
        let sizes = cache.table(&format!("sizes-{cut}"));
        let sizes = sizes.within(self.options.cache_bytes / 8);
        self.renderings = self.renderings.remembering(sizes);
        self.overviews = Overviews::new(cache.table(Look::TABLE));
        let ends = ["heads", "tails"].map(|end| cache.table(end));
        let [heads, tails] = ends;
        self.store.remember_in(heads, tails);
        self
    }

    /// Writes what was learned since it was last written, for later runs. Where it cannot be written, only the log says so.
    pub fn remember(&self) {
        self.store.remember();
        let index = self.store.index();
        self.overviews.looks().write(|id| index.contains(id));
        self.renderings.remember(|id| index.contains(id));
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
        let version = |files: &SessionFiles| {
            let version = version::of_session(files, self.options.max_block_bytes);
            self.renderings.corrected(version)
        };
        let state = self.states.state(&self.store, id, version);
        state.ok_or_else(|| not_found(place))
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

    fn contents(&self, place: &Place, id: &str) -> Result<Arc<Contents>, TreeError> {
        self.with_state(place, id, |state| self.listed_in(state))
    }

    /// What the directories of a session list: as far as it is kept or remembered, without a look at its files.
    fn listed_in(&self, state: &State) -> Result<Arc<Contents>, TreeError> {
        match self.renderings.kept_contents(state.version()) {
            Some(contents) => Ok(contents),
            None => self.renderings.contents(state),
        }
    }

    /// The attributes of a part of a session, if they are kept or remembered.
    fn known_part(&self, state: &State, part: Part<'_>) -> Option<Attributes> {
        let of = state.version();
        let contents = || self.renderings.kept_contents(of).ok_or(());
        let target = Target::of(part, contents).ok()??;
        let outline = match target {
            Target::Directory | Target::Object(..) => None,
            Target::File(whose, file, _) => self.renderings.kept_outline(of, whose, file),
        };
        target.attributes(state, outline.as_deref())
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
        target::file(self.readme.len(), self.made, self.readme_version)
    }
}

impl View for Tree {
    fn kind(&self, place: &Place) -> Result<NodeKind, TreeError> {
        let there = |there: bool, kind| there.then_some(kind).ok_or_else(|| not_found(place));
        match node(place)? {
            Node::Root | Node::Sessions => Ok(NodeKind::Directory),
            Node::Readme => Ok(NodeKind::File),
            Node::Problems => there(!self.store.index().problems().is_empty(), NodeKind::File),
            Node::Overview(path) => match self.kind_of_top(place, path)? {
                Some(kind) => Ok(kind),
                None => match self.overviews.look(&self.store).at(path) {
                    Some(at) => Ok(at.kind()),
                    None => Err(not_found(place)),
                },
            },
            Node::Latest => there(!self.store.index().is_empty(), NodeKind::Link),
            Node::Session(id) => there(self.store.index().contains(id), NodeKind::Directory),
            Node::Part(id, part) => self.with_state(place, id, |state| {
                let target = Target::of(part, || self.listed_in(state))?;
                target.map(Target::kind).ok_or_else(|| not_found(place))
            }),
            Node::Stored(id, which, path) => {
                let kind = self.state(place, id)?.stored(which).kind(path);
                kind.ok_or_else(|| not_found(place))
            }
        }
    }

    fn list(&self, place: &Place) -> Result<Vec<Entry>, TreeError> {
        if self.kind(place)? != NodeKind::Directory {
            return Err(not_directory(place));
        }
        let mut entries = match node(place)? {
            Node::Root => {
                let mut entries = vec![file(README), directory(SESSIONS), file(TABLE)];
                let index = self.store.index();
                if !index.is_empty() {
                    entries.push(entry(LATEST, NodeKind::Link));
                    entries.extend([directory(BY_DATE), directory(BY_PROJECT)]);
                }
                if !index.problems().is_empty() {
                    entries.push(file(PROBLEMS));
                }
                entries
            }
            Node::Sessions => self.store.index().ids().map(directory).collect(),
            Node::Session(id) => {
                let contents = self.contents(place, id)?;
                let mut entries = parts(&contents, Whose::Session);
                if !contents.agents.is_empty() {
                    entries.push(directory(AGENTS));
                }
                if !contents.objects.is_empty() {
                    entries.push(directory(OBJECTS));
                }
                let state = self.state(place, id)?;
                let stored = Stored::ALL.into_iter();
                let stored = stored.filter(|which| !state.stored(*which).is_empty());
                entries.extend(stored.map(|which| directory(which.name())));
                entries
            }
            Node::Part(id, part) => {
                let contents = self.contents(place, id)?;
                list_part(&contents, part).ok_or_else(|| not_found(place))?
            }
            Node::Stored(id, which, path) => {
                let entries = self.state(place, id)?.stored(which).list(path);
                entries.ok_or_else(|| not_found(place))?
            }
            Node::Overview(path) => {
                let overview = self.overviews.look(&self.store);
                let entries = overview.at(path).and_then(|at| at.entries());
                entries.ok_or_else(|| not_found(place))?
            }
            Node::Readme | Node::Latest | Node::Problems => return Err(not_directory(place)),
        };
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn known(&self, place: &Place) -> Option<Attributes> {
        let (id, part) = match Node::of(place)? {
            Node::Part(id, part) => (id, part),
            Node::Overview(path) => {
                self.kind_of_top(place, path).ok()?;
                let of = self.overviews.with_link(&self.store, path);
                let of = of.or_else(|| self.overviews.glance(&self.store))?;
                return of.attributes(path);
            }
            node => return self.attributes_of(place, node).ok(),
        };
        let state = self.state(place, id).ok()?;
        self.known_part(&state, part)
    }

    fn attributes(&self, place: &Place) -> Result<Attributes, TreeError> {
        self.attributes_of(place, node(place)?)
    }

    fn is_small(&self, place: &Place) -> bool {
        let Some(Node::Part(id, _)) = Node::of(place) else {
            return false;
        };
        let state = self.state(place, id);
        state.is_ok_and(|state| state.files.size() <= SMALL)
    }

    fn version(&self, place: &Place) -> Option<u64> {
        match Node::of(place)? {
            Node::Readme => Some(self.readme_version),
            Node::Problems => Some(Problems::of(&self.store)?.version),
            Node::Overview(path) if Shown::of(path) == Shown::Table => {
                Some(self.overviews.table_version(&self.store)?)
            }
            Node::Part(id, Part::File(..) | Part::Turn(..) | Part::Object(_)) => {
                Some(self.state(place, id).ok()?.version)
            }
            Node::Stored(id, which, path) => {
                let state = self.state(place, id).ok()?;
                let file = state.file(which, path)?;
                Some(self.live.look(&file.path).ok()?.0)
            }
            _ => None,
        }
    }

    fn at_hand(&self, place: &Place, version: u64) -> Option<Arc<dyn Content>> {
        let (id, part) = match Node::of(place)? {
            Node::Part(id, part) => (id, part),
            Node::Overview(_) => {
                let table = self.overviews.table(version)?;
                return Some(Arc::new(Slice::whole(table)));
            }
            _ => return None,
        };
        let session = &Arc::from(id);
        self.kept(place, part, Version { session, version }).ok()
    }

    fn open(&self, place: &Place, version: u64) -> Result<Arc<dyn Content>, TreeError> {
        match node(place)? {
            Node::Readme if version == self.readme_version => {
                Ok(Arc::new(Slice::whole(self.readme.clone())))
            }
            Node::Readme => Err(stale(place)),
            Node::Problems => {
                let problems = Problems::of(&self.store).ok_or_else(|| not_found(place))?;
                if problems.version != version {
                    return Err(stale(place));
                }
                Ok(Arc::new(Slice::whole(problems.bytes)))
            }
            Node::Overview(path) if Shown::of(path) == Shown::Table => {
                let table = self.overviews.table(version);
                let table = table.ok_or_else(|| stale(place))?;
                Ok(Arc::new(Slice::whole(table)))
            }
            Node::Stored(id, which, path) => {
                let state = self.state(place, id)?;
                let Some(file) = state.file(which, path) else {
                    self.kind(place)?;
                    return Err(not_directory(place));
                };
                let opened = self.live.open(&file.path, version);
                let opened = opened.map_err(|error| gone_or(place, error))?;
                Ok(Arc::new(opened.ok_or_else(|| stale(place))?))
            }
            Node::Part(id, part) => {
                let state = self.state(place, id)?;
                if version != state.version {
                    let session = &state.id;
                    return self.kept(place, part, Version { session, version });
                }
                let target = Target::of(part, || self.renderings.contents(&state));
                let content = target.and_then(|t| self.content(place, t, Of::Now(&state)));
                // Who looks the name up again, as after such an answer, must not be told the same.
                content.inspect_err(|error| {
                    if matches!(error, TreeError::Stale(_)) {
                        self.states.forget(id);
                    }
                })
            }
            Node::Root | Node::Sessions | Node::Session(_) | Node::Latest | Node::Overview(_) => {
                self.kind(place)?;
                Err(not_directory(place))
            }
        }
    }

    fn target(&self, place: &Place) -> Result<PathBuf, TreeError> {
        match node(place)? {
            Node::Latest => Ok(self.latest(place)?.0),
            Node::Overview(path) => {
                let of = self.overviews.with_link(&self.store, path);
                let of = of.unwrap_or_else(|| self.overviews.look(&self.store));
                match of.at(path) {
                    Some(There::Link(session, _)) => Ok(overview::target(session)),
                    _ => Err(not_found(place)),
                }
            }
            _ => Err(not_found(place)),
        }
    }
}

impl Tree {
    /// The attributes of the node that a place names.
    fn attributes_of(&self, place: &Place, node: Node<'_>) -> Result<Attributes, TreeError> {
        match node {
            Node::Root | Node::Sessions => Ok(target::directory(self.listed())),
            Node::Readme => Ok(self.readme_attributes()),
            Node::Problems => {
                let problems = Problems::of(&self.store).ok_or_else(|| not_found(place))?;
                let size = problems.bytes.len();
                Ok(target::file(size, self.listed(), problems.version))
            }
            Node::Overview(path) => {
                self.kind_of_top(place, path)?;
                let overview = self.overviews.look(&self.store);
                overview.attributes(path).ok_or_else(|| not_found(place))
            }
            Node::Latest => {
                let (target, modified) = self.latest(place)?;
                Ok(target::link(&target, modified))
            }
            Node::Session(id) => {
                let modified = self.store.modified(id).ok_or_else(|| not_found(place))?;
                Ok(target::directory(modified))
            }
            Node::Stored(id, which, path) => {
                let state = self.state(place, id)?;
                match state.stored(which).kind(path) {
                    Some(NodeKind::Directory) => Ok(target::directory(state.modified)),
                    _ => self.stored_attributes(place, state.file(which, path)),
                }
            }
            Node::Part(id, part) => self.with_state(place, id, |state| {
                if let Some(known) = self.known_part(state, part) {
                    return Ok(known);
                }
                let target = Target::of(part, || self.renderings.contents(state))?;
                let target = target.ok_or_else(|| not_found(place))?;
                let outline = match target {
                    Target::Directory | Target::Object(..) => None,
                    Target::File(whose, file, _) => {
                        Some(self.renderings.outline(state, whose, file)?)
                    }
                };
                let attributes = target.attributes(state, outline.as_deref());
                attributes.ok_or_else(|| not_found(place))
            }),
        }
    }

    /// What `sessions.tsv`, `by-date` or `by-project` is, which takes no look at the sessions; none for what is below.
    fn kind_of_top(&self, place: &Place, path: &Path) -> Result<Option<NodeKind>, TreeError> {
        match Shown::of(path) {
            Shown::Table => Ok(Some(NodeKind::File)),
            Shown::Top if self.store.index().is_empty() => Err(not_found(place)),
            Shown::Top => Ok(Some(NodeKind::Directory)),
            Shown::Below => Ok(None),
        }
    }

    fn stored_attributes(
        &self,
        place: &Place,
        file: Option<&SourceFile>,
    ) -> Result<Attributes, TreeError> {
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

    /// The content of a file in a version that need not be the current one, if it is kept.
    fn kept(
        &self,
        place: &Place,
        part: Part<'_>,
        of: Version<'_>,
    ) -> Result<Arc<dyn Content>, TreeError> {
        let contents = || self.renderings.kept_contents(of);
        let target = Target::of(part, || contents().ok_or_else(|| stale(place)))?;
        self.content(place, target, Of::Kept(of))
    }

    /// The content of what stands at a place.
    fn content(
        &self,
        place: &Place,
        target: Option<Target>,
        of: Of<'_>,
    ) -> Result<Arc<dyn Content>, TreeError> {
        let target = target.ok_or_else(|| not_found(place))?;
        let kept = |kept: Option<_>| kept.ok_or_else(|| stale(place));
        match target {
            Target::Directory => Err(not_directory(place)),
            Target::File(whose, file, _) => {
                let rendered = match of {
                    Of::Now(state) => self.renderings.file(state, whose, file)?,
                    Of::Kept(of) => kept(self.renderings.kept_file(of, whose, file))?,
                };
                let content = target.content(&rendered);
                Ok(Arc::new(content.ok_or_else(|| not_found(place))?))
            }
            Target::Object(key, object) => {
                let bytes = match of {
                    Of::Now(state) => self.renderings.object(state, key, object)?,
                    Of::Kept(of) => self
                        .renderings
                        .kept_object(of.session, key)
                        .ok_or_else(|| stale(place))?,
                };
                Ok(Arc::new(Slice::whole(bytes)))
            }
        }
    }
}

/// Which version's content.
#[derive(Clone, Copy)]
enum Of<'a> {
    /// The current one's, made if need be.
    Now(&'a State),
    /// This one's, if it is kept.
    Kept(Version<'a>),
}

/// The names in a directory that a session's contents make.
fn list_part(contents: &Contents, part: Part<'_>) -> Option<Vec<Entry>> {
    match part {
        Part::Agents => Some(contents.agents.keys().map(|name| directory(name)).collect()),
        Part::Agent(name) => Some(parts(contents, contents.whose(Owner::Agent(name))?)),
        Part::Turns(owner) => {
            let (_, turns) = contents.turns(contents.whose(owner)?)?;
            let names = turns.iter().enumerate();
            Some(names.map(|(turn, line)| file(&line.name(turn))).collect())
        }
        Part::Objects => Some(contents.objects.keys().map(|name| file(name)).collect()),
        Part::File(..) | Part::Turn(..) | Part::Object(_) => None,
    }
}

/// What a session and each of its agents has, as far as there is something.
fn parts(contents: &Contents, whose: Whose) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Derived::ALWAYS.iter().map(|d| file(d.name())).collect();
    if contents.turns(whose).is_some() {
        entries.push(directory(TURNS));
        entries.push(file(Derived::Turns.name()));
    }
    if whose == Whose::Session && contents.has_messages {
        entries.push(file(Derived::Messages.name()));
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

fn node(place: &Place) -> Result<Node<'_>, TreeError> {
    Node::of(place).ok_or_else(|| not_found(place))
}

fn stale(place: &Place) -> TreeError {
    TreeError::Stale(place.path().to_path_buf())
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
