//! Sessions parsed and documents rendered, each once, and what stays known of them when they are not kept any more.
//!
//! Two caches share the bound. One holds sessions and documents. The other holds what answers `list` and `stat`: names,
//! sizes and times, a few bytes a turn. So a directory lists and a file has its size although the document is long gone,
//! and only reading renders it again, to the same bytes.

mod contents;
mod latest;
mod sizes;
mod weight;

pub(super) use contents::{Contents, Outline, TurnLine};

use super::content::Bytes;
use super::kept::Kept;
use super::place::Derived;
use super::state::State;
use super::{Options, TreeError, may_grow};
use crate::artefact::{self, Document, Stretch, Style};
use crate::cache::Table;
use crate::session::objects::Object;
use crate::session::{self, Role, Session, ThreadIndex};
use crate::store::{Fingerprint, SessionFiles, Store};
use crate::telemetry;
use crate::transcript::display::Shown;
use crate::turns;
use latest::Latest;
use serde::{Deserialize, Serialize};
use sizes::Sizes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Everything that is made from sessions.
pub(super) struct Renderings {
    store: Arc<Store>,
    max_block_bytes: Option<usize>,
    heavy: Kept<Key, Heavy>,
    light: Kept<Key, Light>,
    sizes: Sizes,
    latest: Latest,
    rendered: AtomicU64,
}

/// What a value is made from and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    session: Arc<str>,
    version: u64,
    what: What,
}

/// One version of one session.
#[derive(Clone, Copy)]
pub(super) struct Version<'a> {
    pub(super) session: &'a Arc<str>,
    pub(super) version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Session,
    File(Whose, Derived),
    /// An object, under the key that its name makes. It is of every version of the session.
    Object,
}

/// Whose file it is: the session's, or this thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Whose {
    Session,
    Thread(ThreadIndex),
}

#[derive(Clone)]
enum Heavy {
    Session(Arc<Session>),
    File(Arc<Rendered>),
    Object(Arc<Bytes>),
}

#[derive(Clone)]
enum Light {
    Contents(Arc<Contents>),
    Outline(Arc<Outline>),
}

/// A rendered file.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) bytes: Arc<Bytes>,
    pub(super) outline: Arc<Outline>,
    shown: Shown,
    /// What a later version of the same document is made of where it is the same.
    stretches: Vec<Arc<Stretch>>,
}

impl Renderings {
    pub(super) fn new(store: Arc<Store>, options: &Options) -> Self {
        let light = options.cache_bytes / 8;
        Self {
            store,
            max_block_bytes: options.max_block_bytes,
            heavy: Kept::new(options.cache_bytes - light),
            light: Kept::new(light),
            sizes: Sizes::new(Table::none()),
            latest: Latest::default(),
            rendered: AtomicU64::new(0),
        }
    }

    /// The same, with what earlier runs remembered in this table and later ones shall.
    pub(super) fn remembering(mut self, table: Table) -> Self {
        self.sizes = Sizes::new(table);
        self
    }

    /// Writes what is to be remembered of the sessions that are there.
    pub(super) fn remember(&self, is_there: impl Fn(&str) -> bool) {
        self.sizes.write(is_there);
    }

    /// The version that goes out instead of this one: another one where something wrong was remembered and said of it.
    pub(super) fn corrected(&self, version: u64) -> u64 {
        self.sizes.corrected(version)
    }

    /// How many files were rendered so far.
    pub(super) fn count(&self) -> u64 {
        self.rendered.load(Ordering::Relaxed)
    }

    /// The table of contents of a session. Parses it if it is not known; renders nothing.
    pub(super) fn contents(&self, state: &State) -> Result<Arc<Contents>, TreeError> {
        let key = state.version().key(What::Session);
        let light = self.light.get(&key, || {
            let session = self.session(state)?;
            let contents = Arc::new(Contents::of(&session));
            if !self.sizes.meet_contents(state, &contents) {
                return Err(stale(state));
            }
            Ok::<_, TreeError>(Light::Contents(contents))
        })?;
        match light {
            Light::Contents(contents) => Ok(contents),
            Light::Outline(_) => Err(stale(state)),
        }
    }

    /// Size and sections of a file, rendered if they are not known.
    pub(super) fn outline(
        &self,
        state: &State,
        whose: Whose,
        file: Derived,
    ) -> Result<Arc<Outline>, TreeError> {
        let key = state.version().key(What::File(whose, file));
        let light = self.light.get(&key, || {
            let rendered = self.file(state, whose, file)?;
            Ok::<_, TreeError>(Light::Outline(rendered.outline.clone()))
        })?;
        match light {
            Light::Outline(outline) => Ok(outline),
            Light::Contents(_) => Err(stale(state)),
        }
    }

    /// A file, rendered if it is not kept.
    pub(super) fn file(
        &self,
        state: &State,
        whose: Whose,
        file: Derived,
    ) -> Result<Arc<Rendered>, TreeError> {
        let key = state.version().key(What::File(whose, file));
        let heavy = self.heavy.get(&key, || {
            let rendered = self.render(state, whose, file)?;
            let outline = &rendered.outline;
            if !self.sizes.meet_outline(state, whose, file, outline) {
                return Err(stale(state));
            }
            Ok::<_, TreeError>(Heavy::File(Arc::new(rendered)))
        })?;
        match heavy {
            Heavy::File(rendered) => Ok(rendered),
            Heavy::Session(_) | Heavy::Object(_) => Err(stale(state)),
        }
    }

    /// An object's bytes, decoded if they are not kept.
    pub(super) fn object(
        &self,
        state: &State,
        key: u64,
        object: Object,
    ) -> Result<Arc<Bytes>, TreeError> {
        let heavy = self.heavy.get(&object_key(&state.id, key), || {
            let session = self.session(state)?;
            let bytes = Bytes::new(vec![object.bytes(&session.buffers).into()]);
            Ok::<_, TreeError>(Heavy::Object(Arc::new(bytes)))
        })?;
        match heavy {
            Heavy::Object(bytes) => Ok(bytes),
            Heavy::Session(_) | Heavy::File(_) => Err(stale(state)),
        }
    }

    /// An object's bytes, if they are kept.
    pub(super) fn kept_object(&self, session: &Arc<str>, key: u64) -> Option<Arc<Bytes>> {
        match self.heavy.peek(&object_key(session, key))? {
            Heavy::Object(bytes) => Some(bytes),
            Heavy::Session(_) | Heavy::File(_) => None,
        }
    }

    /// The table of contents of a session in this version, if it is kept or remembered.
    pub(super) fn kept_contents(&self, of: Version<'_>) -> Option<Arc<Contents>> {
        match self.light.peek(&of.key(What::Session)) {
            Some(Light::Contents(contents)) => Some(contents),
            Some(Light::Outline(_)) => None,
            None => self.sizes.contents(of),
        }
    }

    /// Size and sections of a file in this version, if they are kept or remembered.
    pub(super) fn kept_outline(
        &self,
        of: Version<'_>,
        whose: Whose,
        file: Derived,
    ) -> Option<Arc<Outline>> {
        match self.light.peek(&of.key(What::File(whose, file))) {
            Some(Light::Outline(outline)) => Some(outline),
            Some(Light::Contents(_)) => None,
            None => self.sizes.outline(of, whose, file),
        }
    }

    /// A file in this version, if it is kept.
    pub(super) fn kept_file(
        &self,
        of: Version<'_>,
        whose: Whose,
        file: Derived,
    ) -> Option<Arc<Rendered>> {
        match self.heavy.peek(&of.key(What::File(whose, file)))? {
            Heavy::File(rendered) => Some(rendered),
            Heavy::Session(_) | Heavy::Object(_) => None,
        }
    }

    fn session(&self, state: &State) -> Result<Arc<Session>, TreeError> {
        let heavy = self.heavy.get(&state.version().key(What::Session), || {
            self.sizes.parsing(state);
            let before = self.before(state.version(), What::Session);
            let session = if before.is_some() || may_grow(state.modified) {
                session::open_again(&state.files, before.as_deref())
            } else {
                session::open(&state.files)
            };
            // Only what grew meanwhile was read as it was found: up to the length seen. Anything else may have been
            // read half old and half new, and is not what this version says.
            match self.store.files(&state.files.id) {
                Some(now) if only_grew(&state.files, &now) => Ok(Heavy::Session(Arc::new(session))),
                _ => Err(stale(state)),
            }
        })?;
        match heavy {
            Heavy::Session(session) => {
                self.note(&session, state.version(), What::Session);
                Ok(session)
            }
            Heavy::File(_) | Heavy::Object(_) => Err(stale(state)),
        }
    }

    /// The session in the latest version of which this was made, if that is another version and still kept.
    fn before(&self, now: Version<'_>, what: What) -> Option<Arc<Session>> {
        let version = self.latest.of(now.session, what)?;
        let session = now.session;
        if version == now.version {
            return None;
        }
        match self
            .heavy
            .peek(&Version { session, version }.key(What::Session))?
        {
            Heavy::Session(session) => Some(session),
            Heavy::File(_) | Heavy::Object(_) => None,
        }
    }

    /// The artefact of a whole session, made of what is the same in its latest version that was made.
    fn artefact(&self, session: &Session, state: &State, file: Derived, style: Style) -> Document {
        let what = What::File(Whose::Session, file);
        let now = state.version();
        let before = self.before(now, what).and_then(|before| {
            let version = self.latest.of(now.session, what)?;
            let session = now.session;
            match self.heavy.peek(&Version { session, version }.key(what))? {
                Heavy::File(rendered) => Some((before, rendered)),
                Heavy::Session(_) | Heavy::Object(_) => None,
            }
        });
        let before = before
            .as_ref()
            .map(|(session, rendered)| (&**session, rendered.stretches.as_slice()));
        artefact::whole_again(session, style, before)
    }

    /// Notes that this was made of a session that is followed. What is out of use goes: else the many versions of one growing
    /// session would drive out everything else.
    fn note(&self, session: &Session, now: Version<'_>, what: What) {
        if session.reads.buffers() == 0 {
            return;
        }
        let outdated = self.latest.note(now, what, Instant::now());
        let session = now.session;
        let key = |version| Version { session, version }.key(what);
        // Files are opened, sessions are only used.
        if let (What::Session, Some(unused)) = (what, outdated.unused) {
            self.heavy.remove(&key(unused));
        }
        for untold in outdated.untold.into_iter().map(key) {
            self.light.remove(&untold);
            self.heavy.remove(&untold);
        }
    }

    fn render(&self, state: &State, whose: Whose, file: Derived) -> Result<Rendered, TreeError> {
        let session = self.session(state)?;
        let rendered = self.render_of(&session, state, whose, file)?;
        self.note(&session, state.version(), What::File(whose, file));
        Ok(rendered)
    }

    fn render_of(
        &self,
        session: &Session,
        state: &State,
        whose: Whose,
        file: Derived,
    ) -> Result<Rendered, TreeError> {
        // Nothing of a record of messages is written to a disk, not even to a file without a name.
        let keep = if session.entries.is_empty() {
            Bytes::new
        } else {
            Bytes::in_memory_only
        };
        let main = || {
            let mut roles = session.threads.iter().map(|thread| &thread.role);
            roles.position(|role| matches!(role, Role::Main))
        };
        let style = match file {
            Derived::Artefact => Style::Cut(self.max_block_bytes),
            Derived::Full => Style::Full,
            Derived::Spine => Style::Spine,
            Derived::Telemetry => {
                let shown = self.file(state, whose, Derived::Artefact)?.shown;
                self.rendered.fetch_add(1, Ordering::Relaxed);
                let bytes = match whose {
                    Whose::Session => telemetry::whole(session, &shown),
                    Whose::Thread(thread) => telemetry::agent(session, thread, &shown),
                };
                return Ok(Rendered::new(keep(vec![bytes.into()]), Vec::new(), shown));
            }
            Derived::Messages => {
                self.rendered.fetch_add(1, Ordering::Relaxed);
                let messages = keep(artefact::messages(session));
                return Ok(Rendered::new(messages, Vec::new(), Shown::default()));
            }
            Derived::Turns => {
                self.rendered.fetch_add(1, Ordering::Relaxed);
                let thread = match whose {
                    Whose::Session => main(),
                    Whose::Thread(thread) => Some(thread),
                };
                let lines = thread.map(|thread| turns::lines(session, thread));
                let lines = lines.unwrap_or_default();
                return Ok(Rendered::new(keep(lines), Vec::new(), Shown::default()));
            }
        };
        self.rendered.fetch_add(1, Ordering::Relaxed);
        let (document, thread) = match whose {
            Whose::Session => (self.artefact(session, state, file, style), main()),
            Whose::Thread(thread) => (artefact::agent(session, thread, style), Some(thread)),
        };
        let turns = match (file, thread) {
            (Derived::Full, Some(thread)) => {
                sections(&document, thread, session.threads[thread].turns.len())
            }
            _ => Vec::new(),
        };
        let mut rendered = Rendered::new(keep(document.segments), turns, document.shown);
        // What lies in a file because it is large is not kept in memory beside it.
        if rendered.bytes.in_memory() > 0 {
            rendered.stretches = document.stretches;
        }
        Ok(rendered)
    }
}

impl Version<'_> {
    fn key(self, what: What) -> Key {
        Key {
            session: self.session.clone(),
            version: self.version,
            what,
        }
    }
}

impl Rendered {
    fn new(bytes: Bytes, turns: Vec<Option<Range<u64>>>, shown: Shown) -> Self {
        let bytes = Arc::new(bytes);
        let outline = Arc::new(Outline {
            size: bytes.len(),
            turns,
        });
        Self {
            bytes,
            outline,
            shown,
            stretches: Vec::new(),
        }
    }
}

fn object_key(session: &Arc<str>, key: u64) -> Key {
    Key {
        session: session.clone(),
        version: key,
        what: What::Object,
    }
}

/// Where the sections of one thread's turns stand in the whole document, by turn.
fn sections(document: &Document, thread: ThreadIndex, turns: usize) -> Vec<Option<Range<u64>>> {
    let mut sections = vec![None; turns];
    for section in &document.sections {
        if section.thread == thread
            && let Some(place) = sections.get_mut(section.turn)
        {
            *place = Some(section.range.clone());
        }
    }
    sections
}

/// Whether the files of a session are those found before, each the same or longer.
fn only_grew(before: &SessionFiles, now: &SessionFiles) -> bool {
    fn states(session: &SessionFiles) -> BTreeMap<&Path, Fingerprint> {
        let files = session
            .fragments
            .iter()
            .flat_map(|fragment| &fragment.files);
        let files = files.chain(&session.record);
        files.map(|file| (&*file.path, file.fingerprint)).collect()
    }
    let now = states(now);
    states(before).into_iter().all(|(path, seen)| {
        now.get(path).is_some_and(|now| {
            *now == seen || (now.identity() == seen.identity() && now.size > seen.size)
        })
    })
}

fn stale(state: &State) -> TreeError {
    TreeError::Stale(PathBuf::from("sessions").join(&*state.id))
}
