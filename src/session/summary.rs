//! A session in one row of a table: what its files' names and a bounded look at its main thread tell, whatever its size.

use super::assemble::service_by_name;
use super::glance::{Glance, first_uuid, glance};
use super::last_part;
use crate::record::Entries;
use crate::store::{self, FileRole, Fragment, SessionFiles, SourceFile};
use crate::transcript::display;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// What is known of a session without reading it whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// First time that the main thread's beginning shows; without a main thread, an agent's.
    pub started: Option<Timestamp>,
    /// Latest time that the main thread's end shows.
    pub ended: Option<Timestamp>,
    /// When one of its files was last written.
    pub changed: Option<SystemTime>,
    /// When its main file was last written, else the newest of its files.
    pub modified: Option<SystemTime>,
    /// The last part of the first working directory.
    pub project: Option<String>,
    /// The best title seen.
    pub title: Option<String>,
    /// Whether there may be a better title between the two ends that were looked at.
    pub title_is_bounded: bool,
    /// The first line of the first prompt.
    pub prompt: Option<String>,
    /// Sub-agents, and threads of the harness's own whose names do not tell.
    pub agents: u64,
    /// Whether only their whole files would tell how many there are: some begin alike, as one that was written anew
    /// does, or an old main file may hold some in the part that was not looked at.
    pub agents_is_bounded: bool,
    /// Entries of its record of messages.
    pub entries: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub sources: u64,
    /// Where it was worked on: one a project folder.
    pub places: Vec<WorkPlace>,
}

/// Where a session was worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkPlace {
    /// The working directory, as the lines of a fragment give it.
    Directory(String),
    /// The project folder's name, where no line gives a directory.
    Folder(String),
}

/// Files of one session that are looked at, beside its main files, until one tells a time.
const MOST_LOOKS: usize = 4;

/// Entries that are looked at where there is nothing else.
const MOST_ENTRIES: usize = 8;

/// Looks at a session. What cannot be read is said in the log and left out.
pub fn summarize(session: &SessionFiles) -> Summary {
    let files = || {
        let fragments = session.fragments.iter();
        fragments.flat_map(|fragment| &fragment.files)
    };
    let mut summary = Summary::default();
    let mut mains: Vec<Option<Glance>> = Vec::new();
    for fragment in &session.fragments {
        let main = main_of(fragment);
        summary.modified = summary.modified.max(main.map(|m| m.fingerprint.modified()));
        mains.push(main.and_then(looked));
    }
    summary.entries = (session.record.len() + session.record_unread.len()) as u64;
    for file in files().chain(&session.record) {
        summary.bytes += file.fingerprint.size;
        summary.sources += 1;
        summary.changed = summary.changed.max(Some(file.fingerprint.modified()));
    }
    summary.modified = summary.modified.or(summary.changed);
    let agents: Vec<&SourceFile> = files()
        .filter(|file| matches!(&file.role, FileRole::Agent(id) if service_by_name(id).is_none()))
        .collect();
    let begin = distinct_beginnings(&agents);
    let inside = mains.iter().flatten();
    summary.agents = begin + inside.clone().map(|main| main.inline_agents).sum::<u64>();
    summary.agents_is_bounded =
        begin < agents.len() as u64 || inside.clone().any(|main| main.may_hide_agents);
    // What began first speaks for the session.
    let mut seen: Vec<&Glance> = mains.iter().flatten().collect();
    seen.sort_by_key(|seen| (seen.started.is_none(), seen.started));
    for seen in seen {
        summary.started = summary.started.or(seen.started);
        summary.ended = summary.ended.max(seen.ended);
        if summary.title.is_none() {
            summary.title.clone_from(&seen.title);
            summary.title_is_bounded = !seen.whole;
        }
        summary.prompt = summary.prompt.or_else(|| seen.prompt.clone());
    }
    let mut directories: Vec<Option<String>> = mains
        .into_iter()
        .map(|seen| seen.and_then(|seen| seen.directory))
        .collect();
    if summary.started.is_none() {
        // An agent has no title of the session, but it tells when and where.
        let agents = session
            .fragments
            .iter()
            .enumerate()
            .flat_map(|(i, fragment)| {
                let agents = fragment.files.iter();
                agents
                    .filter(|file| matches!(file.role, FileRole::Agent(_)))
                    .map(move |file| (i, file))
            });
        for (i, file) in agents.take(MOST_LOOKS) {
            let Some(seen) = looked(file) else { continue };
            directories[i] = directories[i].take().or(seen.directory);
            summary.started = seen.started;
            summary.ended = summary.ended.max(seen.ended);
            if summary.started.is_some() {
                break;
            }
        }
    }
    if session.fragments.is_empty() {
        directories.push(of_record(&session.record, &mut summary));
    }
    let first = directories.iter().flatten().next();
    summary.project = first.and_then(|d| last_part(d)).map(str::to_owned);
    // A framed log was worked on nowhere that it tells.
    let is_log = |f| main_of(f).is_some_and(|main| main.role == FileRole::Log);
    let folders = session.fragments.iter();
    let folders = folders.map(|f| (!is_log(f)).then(|| f.folder.clone()));
    summary.places = directories
        .into_iter()
        .zip(folders.chain([None]))
        .filter_map(|(directory, folder)| {
            let directory = directory.map(WorkPlace::Directory);
            directory.or_else(|| folder.map(WorkPlace::Folder))
        })
        .collect();
    summary.places.sort();
    summary.places.dedup();
    summary
}

/// Looks at the first entries of a record of messages, where a session is known only by it: they say when and where it began.
fn of_record(files: &[SourceFile], summary: &mut Summary) -> Option<String> {
    let read = |file: &SourceFile| {
        let bytes = store::read(&file.path, file.fingerprint.size);
        (file.base_name(), bytes.map_err(|error| error.reason()))
    };
    let session = files.first().map(SourceFile::folder_name);
    let read = files.iter().take(MOST_ENTRIES).map(read);
    let entries = Entries::of(&session.unwrap_or_default(), read);
    summary.started = entries.list.first().map(|entry| entry.at);
    entries.working_directory()
}

/// How many of these files begin with a line that no other one begins with.
fn distinct_beginnings(agents: &[&SourceFile]) -> u64 {
    if agents.len() < 2 {
        return agents.len() as u64;
    }
    let mut firsts = BTreeSet::new();
    let mut without = 0;
    for file in agents {
        match first_uuid(file) {
            Some(uuid) => _ = firsts.insert(uuid),
            None => without += 1,
        }
    }
    firsts.len() as u64 + without
}

fn main_of(fragment: &Fragment) -> Option<&SourceFile> {
    let mut files = fragment.files.iter();
    files.find(|file| matches!(file.role, FileRole::Main | FileRole::Log))
}

fn looked(file: &SourceFile) -> Option<Glance> {
    match glance(file) {
        Ok(seen) => Some(seen),
        Err(error) => {
            tracing::warn!("{}", display::line(&error.to_string()));
            None
        }
    }
}
