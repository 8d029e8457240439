//! What shows all sessions at once: `sessions.tsv`, `by-date` and `by-project`.
//!
//! It is made of bounded looks at the ends of the main files, each done once a state of the session's files; nothing is parsed
//! whole or rendered for it. One value holds everything as of one time. `spec/mount-tree.md` is the source of the names.

mod names;

use super::content::Bytes;
use super::place::{BY_DATE, BY_PROJECT, SESSIONS, TABLE};
use super::table;
use super::{Attributes, Entry, NodeKind, version};
use crate::cache::{Recalled, Table};
use crate::session::look::Look;
use crate::session::summary::Summary;
use crate::store::{Index, SessionFiles, Store, safe_name, safe_name_within};
use jiff::Timestamp;
use names::{project, short, slug};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
    by_date: Directories,
    by_project: Directories,
}

/// Directories of links by name, with their links sorted by name.
type Directories = BTreeMap<Arc<str>, Box<[(Box<str>, Link)]>>;

/// The same while it is made.
type Growing = BTreeMap<Arc<str>, BTreeMap<Box<str>, Link>>;

/// A link to a session.
#[derive(Clone, Debug)]
struct Link {
    session: Arc<str>,
    modified: SystemTime,
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
    /// A directory, and when the newest of what it holds was written.
    Directory(Vec<Entry>, Option<SystemTime>),
    /// A link: the session that it leads to, and when that was written.
    Link(&'a str, SystemTime),
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
            There::Directory(_, newest) => super::target::directory(or_epoch(newest)),
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
        let entries = |names: &mut dyn Iterator<Item = &str>, kind| {
            names
                .map(|name| Entry {
                    name: name.into(),
                    kind,
                })
                .collect()
        };
        let Some(directory) = parts.next() else {
            let mut names = directories.keys().map(|name| &**name);
            let entries = entries(&mut names, NodeKind::Directory);
            return Some(There::Directory(entries, self.modified));
        };
        let links = directories.get(directory?)?;
        let Some(link) = parts.next() else {
            let newest = links.iter().map(|(_, link)| link.modified).max();
            let mut names = links.iter().map(|(name, _)| &**name);
            let entries = entries(&mut names, NodeKind::Link);
            return Some(There::Directory(entries, newest));
        };
        if parts.next().is_some() {
            return None;
        }
        let link = link?;
        let at = links
            .binary_search_by(|(name, _)| (**name).cmp(link))
            .ok()?;
        let (_, link) = &links[at];
        Some(There::Link(&link.session, link.modified))
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

type Sessions = HashMap<Arc<str>, Arc<Known>>;

/// Whether these are the same sessions, of each the very same value.
fn are_same(before: &Sessions, now: &Sessions) -> bool {
    let is_same = |(id, known): (&Arc<str>, &Arc<Known>)| {
        let before = before.get(id);
        before.is_some_and(|before| Arc::ptr_eq(before, known))
    };
    before.len() == now.len() && now.iter().all(is_same)
}

/// One session as it was seen last, in little memory: there may be very many.
#[derive(Debug)]
struct Known {
    /// Of the states of all its files.
    state: u64,
    /// Its row of the table.
    row: Box<str>,
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
        let sessions = seen.meet(store, &index, &self.looks);
        let overview = match &seen.last {
            Some((_, _, last)) if are_same(&seen.sessions, &sessions) => last.clone(),
            _ => Arc::new(make(&sessions)),
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
            There::Directory(..) => false,
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

    /// Looks at all sessions of the index, side by side.
    fn meet(&self, store: &Store, index: &Index, looks: &Table) -> Sessions {
        // What earlier runs saw is in `sessions` after the first look.
        let recalled = if self.sessions.is_empty() && !index.is_empty() {
            looks.recall()
        } else {
            Recalled::default()
        };
        let ids: Vec<&str> = index.ids().collect();
        let looked = ids.par_iter().enumerate().filter_map(|(i, id)| {
            let files = store.files_alone(index, id)?;
            let state = state(&files);
            let before = self.sessions.get_key_value(*id);
            if let Some((id, known)) = before
                && known.state == state
            {
                return Some((id.clone(), known.clone()));
            }
            let look = Look::at_or_recalled(&files, looks, &recalled);
            let summary = Summary::of(&files, look);
            let slug = match before {
                // A name stays as long as the session begins as it did, also where the prompt came after it.
                Some((_, known))
                    if known.started == summary.started && summary.started.is_some() =>
                {
                    known.slug.clone()
                }
                _ => summary.prompt.as_deref().and_then(slug).map(Box::from),
            };
            let known = Known {
                state,
                row: row(id, &summary),
                started: summary.started,
                modified: summary.modified,
                projects: summary.places.iter().map(|p| project(p).into()).collect(),
                id: before.map_or_else(|| short(&ids, i).len(), |(_, known)| known.id),
                slug,
            };
            let id = before.map_or_else(|| Arc::from(*id), |(id, _)| id.clone());
            Some((id, Arc::new(known)))
        });
        looked.collect()
    }
}

/// The states of all files of a session as one number.
fn state(files: &SessionFiles) -> u64 {
    version::of_session(files, None)
}

fn make(sessions: &Sessions) -> Overview {
    let mut newest_first: Vec<(&Arc<str>, &Arc<Known>)> = sessions.iter().collect();
    // A session without a time is neither new nor old: it stands behind the others, by its ID, and so never moves.
    newest_first.sort_unstable_by_key(|(id, known)| (Reverse(known.started), *id));
    let mut text = table::Table::new(&[
        "id", "started", "ended", "project", "title", "agents", "bytes", "sources",
    ]);
    text.rows(newest_first.iter().map(|(_, known)| &*known.row));
    let (mut by_date, mut by_project) = (Growing::new(), Growing::new());
    for (id, known) in &newest_first {
        let link = Link {
            session: (*id).clone(),
            modified: known.modified.unwrap_or(SystemTime::UNIX_EPOCH),
        };
        let slug = known.slug.as_deref().into_iter();
        let rest: Vec<&str> = slug.chain(id.get(..known.id)).collect();
        let rest = rest.join("-");
        let (day, name, dated) = match known.started {
            Some(at) => {
                let (day, time) = (at.strftime("%Y-%m-%d"), at.strftime("%H.%M"));
                (
                    safe_name(day.to_string().as_bytes()),
                    format!("{time}-{rest}"),
                    format!("{day}-{time}-{rest}"),
                )
            }
            None => (
                UNDATED.to_owned(),
                rest.clone(),
                format!("{UNDATED}-{rest}"),
            ),
        };
        put(by_date.entry(day.into()).or_default(), &name, link.clone());
        for project in &known.projects {
            let links = by_project.entry(project.clone()).or_default();
            put(links, &dated, link.clone());
        }
    }
    let bytes = text.into_bytes();
    Overview {
        version: version::of_bytes("sessions", &bytes),
        table: Arc::new(Bytes::new(vec![bytes.into()])),
        modified: newest_first
            .iter()
            .filter_map(|(_, known)| known.modified)
            .max(),
        by_date: grown(by_date),
        by_project: grown(by_project),
    }
}

fn grown(directories: Growing) -> Directories {
    let directories = directories.into_iter();
    directories
        .map(|(name, links)| (name, links.into_iter().collect()))
        .collect()
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

/// Puts a link under its name, or under the first free `~2`, `~3`.
fn put(links: &mut BTreeMap<Box<str>, Link>, name: &str, link: Link) {
    let name = safe_name_within(name.as_bytes(), 240);
    let mut free = name.clone();
    for ordinal in 2_u64.. {
        if !links.contains_key(free.as_str()) {
            break;
        }
        free = format!("{name}~{ordinal}");
    }
    links.insert(free.into(), link);
}

/// Where a link to a session below `by-date` or `by-project` leads.
pub(super) fn target(session: &str) -> PathBuf {
    Path::new("../..").join(SESSIONS).join(session)
}
