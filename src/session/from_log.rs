//! A session out of a framed log: each event is a turn, and the objects that events name are the session's objects.
//!
//! `spec/turns.md` is the source of what each role is. A log holds no times of events, no models, no tokens and no IDs of calls;
//! what follows from that is said once, in a note. Reading never changes the log: its verified beginning is shown, an incomplete
//! last frame is counted, and where it is damaged it says so.

use super::account::{Counted, account, add_turn};
use super::glance::Glance;
use super::{
    Completeness, LogProblem, LogState, MainThread, Role, Session, SourceUnused, Span, Thread,
    Totals, sum_up,
};
use crate::record::Entries;
use crate::session::TurnCounts;
use crate::session::about::shortened;
use crate::session::objects::Stored;
use crate::session::strand::count_blocks;
use crate::session::tools::Tools;
use crate::session_log::{
    Event, Fault, Found, ObjectFault, Role as Speaker, Scan, State, Stop, verify_object,
};
use crate::store::log_name::log_id;
use crate::store::{self, FileRole, SessionFiles, SourceFile};
use crate::transcript::json::{Kind, Scanner};
use crate::transcript::text::{Buffers, Form, Text};
use crate::transcript::{Block, Stamp, Turn, TurnKind, Turns};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// What every session of a log does not know.
const NOTE: &str = "a framed log records no time, model or tokens of an event, and not which call a result answers";

/// The session of a framed log; none if the files are not those of a log.
pub(super) fn open(session: &SessionFiles) -> Option<Session> {
    let files = || session.fragments.iter().flat_map(|f| &f.files);
    let log = files().find(|file| file.role == FileRole::Log)?;
    let mut completeness = Completeness {
        notes: vec![NOTE.to_owned()],
        ..Completeness::default()
    };
    let unused = session.unused.iter();
    completeness.sources_unused = unused.map(|(base, why)| unused_file(base, why)).collect();
    let bytes = store::read(&log.path, log.fingerprint.size).unwrap_or_else(|error| {
        completeness.main_thread = MainThread::Unreadable;
        let why = unused_file(&log.base_name(), &error.reason());
        completeness.sources_unused.push(why);
        Vec::new()
    });
    let bytes = Arc::new(bytes);
    let mut reading = Reading::new(&log.base_name(), &bytes);
    if completeness.main_thread == MainThread::Present {
        reading.scan(&mut completeness);
    }
    let objects = files().filter_map(|file| match file.role {
        FileRole::PendingObject(position) => Some((position, file)),
        _ => None,
    });
    reading.attach(&objects.collect(), &mut completeness);
    completeness.timestamps_missing = reading.turns.len() as u64;
    Some(reading.into_session(session, log, completeness))
}

/// A log while it is read.
struct Reading {
    id: String,
    /// The log, then the texts that could not be pointed to, then the objects.
    buffers: Vec<Arc<Vec<u8>>>,
    /// Decoded texts of events that are not written as an object with a plain `text` key.
    decoded: Vec<u8>,
    turns: Turns,
    /// Positions and frames of the events that name an object.
    pending: Vec<(u64, u64)>,
    stored: Vec<Stored>,
    title: Option<String>,
    state: State,
    created_at: Option<String>,
}

/// Which buffer holds the log.
const LOG: u32 = 0;
/// Which buffer holds the decoded texts.
const DECODED: u32 = 1;

impl Reading {
    fn new(base_name: &str, bytes: &Arc<Vec<u8>>) -> Self {
        Self {
            id: log_id(base_name).unwrap_or_default().to_owned(),
            buffers: vec![Arc::clone(bytes), Arc::default()],
            decoded: Vec::new(),
            turns: Turns::default(),
            pending: Vec::new(),
            stored: Vec::new(),
            title: None,
            state: State::Open,
            created_at: None,
        }
    }

    /// Makes turns of all verified events.
    fn scan(&mut self, completeness: &mut Completeness) {
        let bytes = Arc::clone(&self.buffers[LOG as usize]);
        let id = self.id.clone();
        let mut scan = Scan::new(bytes.as_slice(), &id, bytes.len() as u64);
        let problem = loop {
            match scan.next() {
                Ok(None) => break None,
                Ok(Some(Found::Header | Found::Footer)) => {}
                Ok(Some(Found::Event {
                    event,
                    offset,
                    payload,
                })) => self.event(&event, offset, payload, &bytes, completeness),
                Err(Stop::Fault { offset, fault }) => break Some((offset, fault)),
                // Bytes in memory can always be read, up to their end.
                Err(Stop::Read { offset, .. }) => break Some((offset, Fault::Checksum)),
            }
        };
        self.created_at = scan.header().map(|header| header.created_at.clone());
        self.state = match problem {
            Some(_) => State::Corrupt,
            None if scan.rest() > 0 => State::InProgress,
            None if scan.sealed() => State::Sealed,
            None => State::Open,
        };
        if let Some((offset, fault)) = problem {
            let reason = fault.to_string();
            completeness.log_problem = Some(LogProblem { offset, reason });
        } else {
            completeness.incomplete_tail_bytes = scan.rest();
        }
    }

    fn event(
        &mut self,
        event: &Event,
        offset: u64,
        payload: Range<u64>,
        bytes: &[u8],
        completeness: &mut Completeness,
    ) {
        let position = self.turns.len() as u64;
        if event.role == Speaker::PendingObject {
            self.pending.push((position, offset));
        }
        if event.role == Speaker::UserMessage && self.title.is_none() {
            self.title = shortened(&event.text);
        }
        let text = self.text(event, payload, bytes);
        if text.is_none() {
            let note = format!("the text of event {position} is 4 GiB or longer and is not shown");
            completeness.notes.push(note);
        }
        let (kind, blocks) = shown(event.role, text);
        self.turns.push(Turn {
            kind,
            at: Stamp::Missing,
            message_id: None,
            model: None,
            origin: None,
            blocks,
            source: 0,
            line: position + 1,
        });
    }

    /// Where the text of an event stands; none if it is longer than can be pointed to.
    fn text(&mut self, event: &Event, payload: Range<u64>, bytes: &[u8]) -> Option<Text> {
        let payload = payload.start as usize..payload.end as usize;
        let (start, length, buffer, form) = if let Some(range) = text_of(bytes, payload) {
            (range.start, range.len(), LOG, Form::JsonString)
        } else {
            let start = self.decoded.len();
            self.decoded.extend(event.text.as_bytes());
            (start, event.text.len(), DECODED, Form::Plain)
        };
        Some(Text {
            start: start as u64,
            len: u32::try_from(length).ok()?,
            buffer,
            form,
        })
    }

    /// Verifies the objects that events name, and puts each into its event's turn.
    fn attach(&mut self, files: &HashMap<u64, &SourceFile>, completeness: &mut Completeness) {
        self.buffers[DECODED as usize] = Arc::new(std::mem::take(&mut self.decoded));
        for (position, offset) in std::mem::take(&mut self.pending) {
            let file = files.get(&position).copied();
            let why = match file.map(|file| self.object(file)) {
                Some(Ok(stored)) => {
                    let result = self.stored.len() as u32;
                    self.stored.push(stored);
                    if let Some(turn) = self.turns.get_mut(position as usize) {
                        turn.blocks.push(Block::Stored { result });
                    }
                    continue;
                }
                Some(Err(why)) => why,
                None => ObjectFault::Missing.to_string(),
            };
            let missing = || format!("{}-{position}.pending-object", self.id);
            let name = file.map_or_else(missing, SourceFile::base_name);
            if completeness.log_problem.is_none() {
                let reason = format!("the object {name} {why}");
                completeness.log_problem = Some(LogProblem { offset, reason });
                self.state = State::Corrupt;
            }
            completeness.sources_unused.push(unused_file(&name, &why));
            if let Some(turn) = self.turns.get_mut(position as usize) {
                turn.blocks.push(Block::NotStored { name, why });
            }
        }
        let named = |position: &u64| {
            let turn = self.turns.get(*position as usize);
            turn.is_some_and(|turn| turn.kind == TurnKind::Object)
        };
        let mut orphans: Vec<_> = files.iter().filter(|(at, _)| !named(at)).collect();
        orphans.sort_unstable_by_key(|(position, _)| **position);
        for (_, file) in orphans {
            let unused = unused_file(&file.base_name(), "an object that no event names");
            completeness.sources_unused.push(unused);
        }
    }

    fn object(&mut self, file: &SourceFile) -> Result<Stored, String> {
        let bytes = store::read(&file.path, file.fingerprint.size);
        let bytes = bytes.map_err(|error| error.reason())?;
        let head = verify_object(bytes.as_slice(), bytes.len() as u64);
        let head = head.map_err(|fault| fault.to_string())?;
        let at = Text {
            start: head.offset,
            len: u32::try_from(head.length).map_err(|_| "is 4 GiB or larger")?,
            buffer: self.buffers.len() as u32,
            form: Form::Plain,
        };
        let own = &bytes[head.offset as usize..];
        let stored = Stored {
            media_type: Some(head.media_type),
            name: head.file_name.clone(),
            ..Stored::new(&head.file_name, own, at)
        };
        self.buffers.push(Arc::new(bytes));
        Ok(stored)
    }

    fn into_session(
        self,
        files: &SessionFiles,
        log: &SourceFile,
        completeness: Completeness,
    ) -> Session {
        let buffers = Buffers::new(self.buffers);
        let (mut turn_counts, mut tools) = (TurnCounts::default(), Tools::default());
        for (place, turn) in self.turns.iter().enumerate() {
            add_turn(&mut turn_counts, turn.kind);
            tools.add(&turn.blocks, place, &buffers);
        }
        let counted = Counted {
            responses: &[],
            turns: turn_counts,
            tools: &tools,
        };
        let totals = account(&[counted], &buffers).threads.pop();
        // When it was created is the only time that a log tells, if its writer's words are one.
        let created: Option<Timestamp> = self.created_at.as_deref().and_then(|at| at.parse().ok());
        let span = Span {
            started: created,
            ..Span::default()
        };
        let log_state = LogState {
            state: self.state,
            created_at: self.created_at,
            events: self.turns.len() as u64,
            objects: self.stored.len() as u64,
            bytes: log.fingerprint.size,
        };
        let main = Thread {
            role: Role::Main,
            id: "main".to_owned(),
            source: log.base_name(),
            blocks: self
                .turns
                .iter()
                .map(|turn| count_blocks(&turn.blocks))
                .sum(),
            turns: self.turns,
            markers: Vec::new(),
            totals: totals.unwrap_or_default(),
            span,
        };
        let is_readable = completeness.main_thread == MainThread::Present;
        let mut session = Session {
            id: files.id.clone(),
            harness: "framed-log",
            versions: Vec::new(),
            project: None,
            title: self.title,
            buffers,
            stored: self.stored,
            sources: vec![log.base_name()],
            threads: if is_readable { vec![main] } else { Vec::new() },
            totals: Totals::default(),
            copied: None,
            agent_types: BTreeMap::new(),
            span: Span::default(),
            log: is_readable.then_some(log_state),
            entries: Entries::default(),
            attributions: BTreeMap::new(),
            reads: Arc::default(),
            completeness,
        };
        sum_up(&mut session);
        session
    }
}

/// Bytes of a log that are looked at for its first prompt.
const LOOK: u64 = 1 << 20;

/// What the beginning of a log says: when it was created, and the first prompt. What cannot be read is left out; opening the
/// session says it.
pub(super) fn glance(file: &File, log: &SourceFile) -> Glance {
    let size = log.fingerprint.size;
    let base_name = log.base_name();
    let mut scan = Scan::new(file, log_id(&base_name).unwrap_or_default(), size);
    let mut prompt = None;
    let mut ended = false;
    while prompt.is_none() && scan.at() < LOOK.min(size) {
        match scan.next() {
            Ok(Some(Found::Event { event, .. })) if event.role == Speaker::UserMessage => {
                prompt = shortened(&event.text);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                ended = true;
                break;
            }
        }
    }
    let created = scan.header().map(|header| header.created_at.as_str());
    Glance {
        started: created.and_then(|at| at.parse().ok()),
        title: prompt.clone(),
        whole: ended || prompt.is_some() || scan.rest() == 0,
        prompt,
        ..Glance::default()
    }
}

/// What a role is, and its text as a block.
fn shown(role: Speaker, text: Option<Text>) -> (TurnKind, Vec<Block>) {
    let kind = match role {
        Speaker::UserMessage => TurnKind::User,
        Speaker::AssistantMessage | Speaker::AssistantToolCall => TurnKind::Assistant,
        Speaker::ToolResult | Speaker::ToolError => TurnKind::ToolResult,
        Speaker::SystemMessage => TurnKind::Injected,
        Speaker::SystemError => TurnKind::Error,
        Speaker::Object | Speaker::PendingObject => TurnKind::Object,
    };
    let said = text.map(Block::Text);
    let block = match role {
        Speaker::AssistantToolCall => Some(Block::ToolCall {
            id: None,
            name: None,
            input: text,
        }),
        Speaker::ToolResult | Speaker::ToolError => Some(Block::ToolResult {
            call: None,
            is_error: role == Speaker::ToolError,
            content: said.into_iter().collect(),
        }),
        _ => said,
    };
    (kind, block.into_iter().collect())
}

/// The inside of the string under the key `text`, in an event that is an object.
fn text_of(bytes: &[u8], payload: Range<usize>) -> Option<Range<usize>> {
    let mut scanner = Scanner::new(bytes, payload);
    let mut members = scanner.object().ok()?;
    while let Some(key) = scanner.key(&mut members).ok()? {
        if *key == *b"text" && scanner.kind().ok()? == Kind::String {
            return scanner.string().ok();
        }
        scanner.skip().ok()?;
    }
    None
}

fn unused_file(source: &str, why: &str) -> SourceUnused {
    SourceUnused {
        source: source.to_owned(),
        why: why.to_owned(),
    }
}
