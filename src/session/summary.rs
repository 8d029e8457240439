//! A session in one row of a table: what its files' names and a bounded look at its main thread tell, whatever its size.

use super::last_part;
use super::look::{Look, main_of};
use crate::record::Entries;
use crate::store::{self, FileRole, SessionFiles, SourceFile};
use jiff::Timestamp;
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

/// Entries that are looked at where there is nothing else.
const MOST_ENTRIES: usize = 8;

impl Summary {
    /// What the files of a session tell by their states, together with what a look at its transcripts said.
    pub fn of(session: &SessionFiles, look: Look) -> Self {
        let mut summary = Self {
            started: look.started,
            ended: look.ended,
            title: look.title,
            title_is_bounded: look.title_is_bounded,
            prompt: look.prompt,
            agents: look.agents,
            agents_is_bounded: look.agents_is_bounded,
            entries: (session.record.len() + session.record_unread.len()) as u64,
            ..Self::default()
        };
        let files = session.fragments.iter().flat_map(|f| &f.files);
        for file in files.chain(&session.record) {
            summary.bytes += file.fingerprint.size;
            summary.sources += 1;
            summary.changed = summary.changed.max(Some(file.fingerprint.modified()));
        }
        let mains = session.fragments.iter().filter_map(main_of);
        let newest = mains.map(|main| main.fingerprint.modified()).max();
        summary.modified = newest.or(summary.changed);
        let mut directories = look.directories;
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
