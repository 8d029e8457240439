//! A bounded look at a session's transcripts: the part of its row in a table that opens files.

use super::assemble::service_by_name;
use super::glance::{Glance, first_uuid, glance};
use crate::cache::{Recalled, Table};
use crate::store::{FileRole, Fragment, SessionFiles, SourceFile};
use crate::transcript::display;
use jiff::Timestamp;
use jiff::fmt::serde::timestamp::nanosecond::optional as time;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// What bounded looks at the transcripts of a session say. Nothing of a record of messages is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// First time that the main thread's beginning shows; without a main thread, an agent's.
    #[serde(with = "time")]
    pub(super) started: Option<Timestamp>,
    /// Latest time that the main thread's end shows.
    #[serde(with = "time")]
    pub(super) ended: Option<Timestamp>,
    /// The best title seen.
    pub(super) title: Option<String>,
    /// Whether there may be a better title between the two ends that were looked at.
    pub(super) title_is_bounded: bool,
    /// The first line of the first prompt.
    pub(super) prompt: Option<String>,
    /// Sub-agents, and threads of the harness's own whose names do not tell.
    pub(super) agents: u64,
    /// Whether only their whole files would tell how many there are.
    pub(super) agents_is_bounded: bool,
    /// The first working directory of each fragment.
    pub(super) directories: Vec<Option<String>>,
    /// Whether some file could not be read, so that the next look may say more.
    #[serde(skip)]
    failed: bool,
}

/// Files of one session that are looked at, beside its main files, until one tells a time.
const MOST_LOOKS: usize = 4;

impl Look {
    /// What the table of remembered looks is called.
    pub const TABLE: &str = "looks";

    /// Looks at a session. What cannot be read is said in the log and left out.
    pub fn at(session: &SessionFiles) -> Self {
        let mut look = Self::default();
        let mains = session.fragments.iter().map(main_of);
        let mains: Vec<Option<Glance>> = mains
            .map(|main| main.and_then(|main| look.looked(main)))
            .collect();
        let files = session.fragments.iter().flat_map(|f| &f.files);
        let agents: Vec<&SourceFile> = files
            .filter(
                |file| matches!(&file.role, FileRole::Agent(id) if service_by_name(id).is_none()),
            )
            .collect();
        let begin = distinct_beginnings(&agents);
        let inside = mains.iter().flatten();
        look.agents = begin + inside.clone().map(|main| main.inline_agents).sum::<u64>();
        look.agents_is_bounded =
            begin < agents.len() as u64 || inside.clone().any(|main| main.may_hide_agents);
        // What began first speaks for the session.
        let mut seen: Vec<&Glance> = inside.collect();
        seen.sort_by_key(|seen| (seen.started.is_none(), seen.started));
        for seen in seen {
            look.started = look.started.or(seen.started);
            look.ended = look.ended.max(seen.ended);
            if look.title.is_none() {
                look.title.clone_from(&seen.title);
                look.title_is_bounded = !seen.whole;
            }
            look.prompt = look.prompt.or_else(|| seen.prompt.clone());
        }
        look.directories = mains
            .into_iter()
            .map(|seen| seen.and_then(|seen| seen.directory))
            .collect();
        if look.started.is_none() {
            look.at_agents(&session.fragments);
        }
        look
    }

    /// An agent has no title of the session, but it tells when and where.
    fn at_agents(&mut self, fragments: &[Fragment]) {
        let agents = fragments.iter().enumerate().flat_map(|(i, fragment)| {
            let agents = fragment.files.iter();
            agents
                .filter(|file| matches!(file.role, FileRole::Agent(_)))
                .map(move |file| (i, file))
        });
        for (i, file) in agents.take(MOST_LOOKS) {
            let Some(seen) = self.looked(file) else {
                continue;
            };
            self.directories[i] = self.directories[i].take().or(seen.directory);
            self.started = seen.started;
            self.ended = self.ended.max(seen.ended);
            if self.started.is_some() {
                break;
            }
        }
    }

    fn looked(&mut self, file: &SourceFile) -> Option<Glance> {
        match glance(file) {
            Ok(seen) => Some(seen),
            Err(error) => {
                tracing::warn!("{}", display::line(&error.to_string()));
                self.failed = true;
                None
            }
        }
    }

    /// Looks at a session, or recalls what was seen when its transcripts were in the same state.
    pub fn at_or_recalled(session: &SessionFiles, table: &Table, recalled: &Recalled) -> Self {
        if !table.is_on() || session.fragments.is_empty() {
            return Self::at(session);
        }
        let state = state(session);
        if let Some(look) = recalled.get(&session.id, state) {
            return look;
        }
        let settled = table.settled();
        let look = Self::at(session);
        if !look.failed && session.is_unchanged_since(settled) {
            table.learn(&Arc::from(session.id.as_str()), state, &look);
        }
        look
    }
}

/// Which state of which transcripts a look is of; never 0.
fn state(session: &SessionFiles) -> u64 {
    let mut digest = Sha256::new();
    let mut part = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    part(session.id.as_bytes());
    for fragment in &session.fragments {
        part(fragment.folder.as_bytes());
        for file in &fragment.files {
            part(file.name.as_os_str().as_bytes());
            part(&file.fingerprint.to_bytes());
        }
    }
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    u64::from_le_bytes(first).max(1)
}

/// The main file of a fragment, or the framed log that it is.
pub(super) fn main_of(fragment: &Fragment) -> Option<&SourceFile> {
    let mut files = fragment.files.iter();
    files.find(|file| matches!(file.role, FileRole::Main | FileRole::Log))
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
