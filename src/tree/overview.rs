//! What shows all sessions at once: `sessions.tsv`, `by-date` and `by-project`.
//!
//! It is made of bounded looks at the ends of the main files, each done once a state of the session's files; nothing is parsed
//! whole or rendered for it. One value holds everything as of one time. `spec/mount-tree.md` is the source of the names.

mod links;
mod names;

use super::content::Bytes;
use super::place::{BY_DATE, BY_PROJECT, SESSIONS, TABLE};
use super::table;
use super::{Attributes, Entry, NodeKind, version};
use crate::cache::{Recalled, Table};
use crate::session::look::Look;
use crate::session::summary::Summary;
use crate::store::{Index, SessionFiles, Store, safe_name, safe_name_within};
use crate::transcript::Segment;
use jiff::Timestamp;
use links::{Directories, Links, Session};
use names::{project, short, slug};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a version of the table is kept for who was told its attributes: longer than a kernel believes them.
const KEPT: Duration = Duration::from_secs(3);

/// How old an overview may be that says where a link leads.
const LINKS_BELIEVED: Duration = Duration::from_millis(500);

/// Sessions that are looked at again for whoever asks; more only for who cannot do without.
const FEW: usize = 64;

/// All sessions as of one time.
#[derive(Debug)]
pub(super) struct Overview {
    /// `sessions.tsv`.
    pub(super) table: Arc<Bytes>,
    /// Of its content.
    pub(super) version: u64,
    /// When the newest session was written.
    pub(super) modified: Option<SystemTime>,
    /// What the table says, which is held once for both.
    text: Segment,
    /// The sessions that links lead to, and when each was written.
    sessions: Box<[(Arc<str>, SystemTime)]>,
    by_date: Directories,
    by_project: Directories,
}

/// Which of the nodes that show all sessions, as far as the path tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// `sessions.tsv`.
    Table,
    /// `by-date` or `by-project`.
    Top,
    /// What is below these.
    Below,
}

impl Shown {
    pub(super) fn of(path: &Path) -> Self {
        match path.components().count() {
            1 if path == Path::new(TABLE) => Self::Table,
            1 => Self::Top,
            _ => Self::Below,
        }
    }
}

/// What is at a place below `by-date` or `by-project`.
pub(super) enum There<'a> {
    /// One of these two.
    Top(&'a Directories),
    /// A directory of links.
    Directory(&'a Links),
    /// A link: the session that it leads to, and when that was written.
    Link(&'a str, SystemTime),
}

impl There<'_> {
    pub(super) fn kind(&self) -> NodeKind {
        match self {
            Self::Top(_) | Self::Directory(_) => NodeKind::Directory,
            Self::Link(..) => NodeKind::Link,
        }
    }

    /// What a directory lists.
    pub(super) fn entries(&self) -> Option<Vec<Entry>> {
        let entry = |name: &str, kind| Entry {
            name: name.into(),
            kind,
        };
        let directory = |name: &Arc<str>| entry(name, NodeKind::Directory);
        match self {
            Self::Top(directories) => Some(directories.keys().map(directory).collect()),
            Self::Directory(links) => {
                let names = links.names();
                Some(names.map(|name| entry(name, NodeKind::Link)).collect())
            }
            Self::Link(..) => None,
        }
    }
}

impl Overview {
    /// The attributes of what is at this path from the root of the tree.
    pub(super) fn attributes(&self, path: &Path) -> Option<Attributes> {
        let or_epoch = |at: Option<SystemTime>| at.unwrap_or(SystemTime::UNIX_EPOCH);
        if Shown::of(path) == Shown::Table {
            let modified = or_epoch(self.modified);
            return Some(super::target::file(
                self.table.len(),
                modified,
                self.version,
            ));
        }
        Some(match self.at(path)? {
            There::Top(_) => super::target::directory(or_epoch(self.modified)),
            There::Directory(links) => {
                let newest = links.sessions().map(|session| self.session(session).1);
                super::target::directory(or_epoch(newest.max()))
            }
            There::Link(session, at) => super::target::link(&target(session), at),
        })
    }

    /// What is at this path from the root of the tree, which begins with `by-date` or `by-project`.
    pub(super) fn at(&self, path: &Path) -> Option<There<'_>> {
        let mut parts = path.iter().map(|part| part.to_str());
        let directories = match parts.next()?? {
            BY_DATE => &self.by_date,
            BY_PROJECT => &self.by_project,
            _ => return None,
        };
        let Some(directory) = parts.next() else {
            return Some(There::Top(directories));
        };
        let links = directories.get(directory?)?;
        let Some(link) = parts.next() else {
            return Some(There::Directory(links));
        };
        if parts.next().is_some() {
            return None;
        }
        let (session, modified) = self.session(links.find(link?)?);
        Some(There::Link(session, *modified))
    }

    fn session(&self, session: Session) -> &(Arc<str>, SystemTime) {
        &self.sessions[session as usize]
    }
}

/// The latest overview, and what is remembered from one to the next.
pub(super) struct Overviews {
    seen: Mutex<Seen>,
    looks: Table,
}

#[derive(Default)]
struct Seen {
    last: Option<(Instant, Duration, Arc<Overview>)>,
    /// What was seen of each session, by ID.
    sessions: Sessions,
    /// Earlier versions of the table, and when each was the latest.
    earlier: VecDeque<(Instant, u64, Arc<Bytes>)>,
}

type Sessions = HashMap<Arc<str>, Known>;

/// Whether these are the same sessions, and the very same is known of each.
fn are_same(before: &Sessions, now: &Sessions) -> bool {
    let is_same = |(id, known): (&Arc<str>, &Known)| {
        let before = before.get(id);
        before.is_some_and(|before| Arc::ptr_eq(&before.facts, &known.facts))
    };
    before.len() == now.len() && now.iter().all(is_same)
}

/// One session as it was seen last, in little memory: there may be very many.
#[derive(Clone, Debug)]
struct Known {
    row: Row,
    facts: Arc<Facts>,
}

/// A session's row of the table.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// In no table yet. It begins here among those that were made since the latest one.
    New(usize),
    /// It begins here in the latest one.
    At(usize),
}

/// What is known of a session beside its row.
#[derive(Debug)]
struct Facts {
    /// Of the states of all its files.
    state: u64,
    started: Option<Timestamp>,
    modified: Option<SystemTime>,
    /// The names below `by-project` under which it is.
    projects: Box<[Arc<str>]>,
    /// How much of its ID stands in names: what was unique when it was first seen.
    id: usize,
    /// The words of its first prompt in names.
    slug: Option<Box<str>>,
}

impl Overviews {
    /// Without a look yet. What looks say is remembered in this table.
    pub(super) fn new(looks: Table) -> Self {
        Self {
            seen: Mutex::default(),
            looks,
        }
    }

    /// What is remembered of looks.
    pub(super) fn looks(&self) -> &Table {
        &self.looks
    }

    /// The overview as of now. Those who ask while a look is made wait for it, and nobody else does. Asked again only so
    /// often that looking takes a fifth of the time at most.
    pub(super) fn look(&self, store: &Store) -> Arc<Overview> {
        let mut seen = self.seen();
        if let Some(fresh) = seen.fresh(store) {
            return fresh;
        }
        let start = Instant::now();
        let index = store.index();
        let (mut sessions, new_rows) = seen.meet(store, &index, &self.looks);
        self.looks.write_much(|id| index.contains(id));
        let overview = match &seen.last {
            Some((_, _, last)) if are_same(&seen.sessions, &sessions) => last.clone(),
            Some((_, _, last)) => Arc::new(make(&mut sessions, &new_rows, &last.text)),
            None => Arc::new(make(&mut sessions, &new_rows, b"")),
        };
        seen.sessions = sessions;
        // The same content keeps its value, so that who holds it shares it.
        let before = seen.last.take().map(|(_, _, before)| before);
        seen.earlier.retain(|(until, ..)| until.elapsed() < KEPT);
        if let Some(before) = before.filter(|before| before.version != overview.version) {
            let table = before.table.clone();
            seen.earlier
                .push_front((Instant::now(), before.version, table));
        }
        seen.last = Some((Instant::now(), start.elapsed(), overview.clone()));
        overview
    }

    /// The overview if it is at hand or quickly made.
    pub(super) fn glance(&self, store: &Store) -> Option<Arc<Overview>> {
        let quick = {
            let seen = self.seen();
            if let Some(fresh) = seen.fresh(store) {
                return Some(fresh);
            }
            seen.last.is_some() && seen.sessions.len() <= FEW
        };
        quick.then(|| self.look(store))
    }

    /// The overview that was made last, if it has a link at this path to a session that is still there: a little older than
    /// a list may be, because where a link leads is as it was.
    pub(super) fn with_link(&self, store: &Store, path: &Path) -> Option<Arc<Overview>> {
        let (at, _, last) = self.seen().last.clone()?;
        if at.elapsed() > LINKS_BELIEVED {
            return None;
        }
        let is_there = match last.at(path)? {
            There::Link(session, _) => store.index().contains(session),
            There::Top(_) | There::Directory(_) => false,
        };
        is_there.then_some(last)
    }

    /// The version of the table, as of the last look where another one would take long.
    pub(super) fn table_version(&self, store: &Store) -> Option<u64> {
        let now = self.glance(store);
        let last = now.or_else(|| Some(self.seen().last.as_ref()?.2.clone()))?;
        Some(last.version)
    }

    /// The table in this version, if it is kept.
    pub(super) fn table(&self, version: u64) -> Option<Arc<Bytes>> {
        let seen = self.seen();
        let last = seen.last.iter();
        let last = last.map(|(_, _, last)| (last.version, &last.table));
        let earlier = seen.earlier.iter();
        let mut all = last.chain(earlier.map(|(_, version, table)| (*version, table)));
        let (_, table) = all.find(|(of, _)| *of == version)?;
        Some(table.clone())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn fresh(&self, store: &Store) -> Option<Arc<Overview>> {
        let (at, took, overview) = self.last.as_ref()?;
        let recheck = store.recheck();
        let fresh = !recheck.is_zero() && at.elapsed() < recheck.max(*took * 4);
        fresh.then(|| overview.clone())
    }

    /// Looks at all sessions of the index, side by side. Gives also the rows of those that are new or changed: one text of all
    /// goes back to the system as a whole.
    fn meet(&self, store: &Store, index: &Index, looks: &Table) -> (Sessions, Vec<u8>) {
        // What earlier runs saw is in `sessions` after the first look.
        let recalled = if self.sessions.is_empty() && !index.is_empty() {
            looks.recall()
        } else {
            Recalled::default()
        };
        let ids: Vec<&Arc<str>> = index.shared_ids().collect();
        let (projects, rows) = (Mutex::default(), Mutex::new(Vec::new()));
        let looked = ids.par_iter().enumerate().filter_map(|(i, id)| {
            let files = store.files_alone(index, id)?;
            let state = state(&files);
            let before = self.sessions.get(*id);
            if let Some(known) = before
                && known.facts.state == state
            {
                return Some(((*id).clone(), known.clone()));
            }
            let look = Look::at_or_recalled(&files, looks, &recalled);
            let summary = Summary::of(&files, look);
            let slug = match before {
                // A name stays as long as the session begins as it did, also where the prompt came after it.
                Some(Known { facts, .. })
                    if facts.started == summary.started && summary.started.is_some() =>
                {
                    facts.slug.clone()
                }
                _ => summary.prompt.as_deref().and_then(slug).map(Box::from),
            };
            let places = summary.places.iter();
            let facts = Facts {
                state,
                started: summary.started,
                modified: summary.modified,
                projects: places.map(|p| held_once(&projects, &project(p))).collect(),
                id: before.map_or_else(|| short(&ids, i).len(), |known| known.facts.id),
                slug,
            };
            let row = row(id, &summary);
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            let known = Known {
                row: Row::New(rows.len()),
                facts: Arc::new(facts),
            };
            rows.extend(row.as_bytes());
            Some(((*id).clone(), known))
        });
        let sessions = looked.collect();
        let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        (sessions, rows)
    }
}

/// The states of all files of a session as one number.
fn state(files: &SessionFiles) -> u64 {
    version::of_session(files, None)
}

/// The one value that is held of a name which many have.
fn held_once(names: &Mutex<HashSet<Arc<str>>>, name: &str) -> Arc<str> {
    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(name) {
        return name.clone();
    }
    let name: Arc<str> = name.into();
    names.insert(name.clone());
    name
}

/// The overview of these sessions, whose rows are in its table then and not in the one before.
fn make(sessions: &mut Sessions, new_rows: &[u8], text_before: &[u8]) -> Overview {
    let mut newest_first: Vec<(&Arc<str>, &mut Known)> = sessions.iter_mut().collect();
    // A session without a time is neither new nor old: it stands behind the others, by its ID, and so never moves.
    newest_first.sort_unstable_by_key(|(id, known)| (Reverse(known.facts.started), *id));
    let table = table::Table::new(&[
        "id", "started", "ended", "project", "title", "agents", "bytes", "sources",
    ]);
    let mut text = table.into_bytes();
    for (_, known) in &mut newest_first {
        let at = text.len();
        text.extend(match known.row {
            Row::New(at) => table::row_at(new_rows, at),
            Row::At(at) => table::row_at(text_before, at),
        });
        known.row = Row::At(at);
    }
    text.shrink_to_fit();
    let (mut days, mut projects) = (Growing::new(), Growing::new());
    for (session, (_, known)) in (0..).zip(&newest_first) {
        days.entry(day(known)).or_default().push(session);
        for project in &known.facts.projects {
            let sessions = projects.entry(project.clone()).or_default();
            sessions.push(session);
        }
    }
    let named = |session: Session, is_dated| {
        let (id, known) = &newest_first[session as usize];
        (name(id, &known.facts, is_dated), session)
    };
    let grown = |directories: Growing, is_dated: bool| {
        let directories = directories.into_iter();
        let links = |sessions: Vec<Session>| {
            Links::of(sessions.into_iter().map(|session| named(session, is_dated)))
        };
        directories
            .map(|(name, sessions)| (name, links(sessions)))
            .collect()
    };
    let (by_date, by_project) = (grown(days, false), grown(projects, true));
    let session = |(id, known): &(&Arc<str>, &mut Known)| {
        let modified = known.facts.modified.unwrap_or(SystemTime::UNIX_EPOCH);
        ((*id).clone(), modified)
    };
    let text = Segment::from(text);
    Overview {
        version: version::of_bytes("sessions", &text),
        // However large: the next one is made of it.
        table: Arc::new(Bytes::in_memory_only(vec![text.clone()])),
        text,
        modified: newest_first
            .iter()
            .filter_map(|(_, known)| known.facts.modified)
            .max(),
        sessions: newest_first.iter().map(session).collect(),
        by_date,
        by_project,
    }
}

/// Directories while they are made, each with its sessions, the newest first.
type Growing = BTreeMap<Arc<str>, Vec<Session>>;

/// The name below `by-date` under which a session is.
fn day(known: &Known) -> Arc<str> {
    match known.facts.started {
        Some(at) => safe_name(at.strftime("%Y-%m-%d").to_string().as_bytes()).into(),
        None => UNDATED.into(),
    }
}

/// The name of a link to a session, with its day where that is not its directory's name.
fn name(id: &str, facts: &Facts, is_dated: bool) -> String {
    let slug = facts.slug.as_deref().into_iter();
    let rest: Vec<&str> = slug.chain(id.get(..facts.id)).collect();
    let rest = rest.join("-");
    let name = match facts.started {
        Some(at) if is_dated => format!("{}-{rest}", at.strftime("%Y-%m-%d-%H.%M")),
        Some(at) => format!("{}-{rest}", at.strftime("%H.%M")),
        None if is_dated => format!("{UNDATED}-{rest}"),
        None => rest,
    };
    safe_name_within(name.as_bytes(), 240)
}

const UNDATED: &str = "undated";

fn row(id: &str, summary: &Summary) -> Box<str> {
    let time = |at: Option<Timestamp>| at.map(|at| format!("{at:.3}")).unwrap_or_default();
    let title = summary.title.as_deref().unwrap_or_default();
    let mark = if summary.title_is_bounded && !title.is_empty() {
        "~"
    } else {
        ""
    };
    table::Table::row_of([
        id,
        &time(summary.started),
        &time(summary.ended),
        summary.project.as_deref().unwrap_or_default(),
        &format!("{mark}{title}"),
        &summary.agents.to_string(),
        &summary.bytes.to_string(),
        &summary.sources.to_string(),
    ])
}

/// Where a link to a session below `by-date` or `by-project` leads.
pub(super) fn target(session: &str) -> PathBuf {
    Path::new("../..").join(SESSIONS).join(session)
}
