//! Claude Code's transcripts: the fields of one record, and what they mean.
//!
//! `formats/claude-code.md` is the source: sections 3 and 4 for the fields, 5.2 for what a `user` line really is. Every field is
//! optional, any may be of another type than it should, and keys come in any order.

mod content;
mod fields;
mod kinds;
mod time;
mod wrapper;

use foldhash::{HashSet, HashSetExt as _};

use super::identity;
use super::json::{Malformed, Scanner};
use super::keep::Keeper;
use super::line::{Aside, Fact, FileLines, Line, ResponseLine, Title, What};
use super::lines::{Reading, Record, Records};
use super::text::{Raw, Text};
use super::thread::{Block, Origin, Stamp, TurnKind};
use std::sync::Arc;

pub use wrapper::unwrapped;

use fields::{Compaction, Fields, StructuredResult};

type Scan<T> = Result<T, Malformed>;

/// Reads a whole file. `buffer` and `source` are the numbers that its texts and lines carry.
pub fn read(bytes: &[u8], buffer: u32, source: u32) -> FileLines {
    let mut file = File::new(buffer, source);
    let read = file.take(bytes);
    file.end(&bytes[read..])
}

/// A file that is read piece by piece.
#[derive(Debug)]
pub struct File {
    records: Records,
    kept: Kept,
    /// The lines that pauses have taken.
    earlier: Vec<Arc<Vec<Line>>>,
}

impl File {
    /// Nothing read yet. `buffer` and `source` are the numbers that the file's texts and lines carry.
    pub fn new(buffer: u32, source: u32) -> Self {
        Self {
            records: Records::new(source),
            kept: Kept {
                source,
                keeper: Keeper::new(buffer),
                out: FileLines::default(),
                versions: HashSet::new(),
                directories: HashSet::new(),
                sessions: HashSet::new(),
                progress: HashSet::new(),
            },
            earlier: Vec::new(),
        }
    }

    /// Says how long the file is, so that room for what is kept of it is made at once. A guess will do.
    pub fn expect(&mut self, length: u64) {
        // In most large transcripts less than half is kept, and what is more makes its own room. A small one is kept as a whole
        // sooner than it is moved.
        let room = if length < LARGE { length } else { length / 2 };
        let room = usize::try_from(room).unwrap_or(0).min(MOST_ROOM);
        self.kept.keeper.reserve(room);
    }

    /// Reads the whole lines of a piece and says how many bytes they are; the next piece begins with what follows them.
    /// Nothing refers to the piece afterwards.
    pub fn take(&mut self, piece: &[u8]) -> usize {
        let mut reader = Reader::new(piece, &mut self.kept);
        self.records.take(piece, |record| reader.record(&record))
    }

    /// Where the reading stands after the whole lines so far, to go on from there when the file has grown. It takes the lines.
    pub fn pause(&mut self) -> Paused {
        let lines = std::mem::take(&mut self.kept.out.lines);
        if !lines.is_empty() {
            self.earlier.push(Arc::new(lines));
        }
        let Kept {
            source,
            out,
            versions,
            directories,
            sessions,
            progress,
            keeper: _,
        } = &self.kept;
        Paused {
            records: self.records.clone(),
            kept: Kept {
                source: *source,
                keeper: Keeper::default(),
                out: out.clone(),
                versions: versions.clone(),
                directories: directories.clone(),
                sessions: sessions.clone(),
                progress: progress.clone(),
            },
            lines: self.earlier.clone(),
        }
    }

    /// Reads what is left at the end of the file, and gives all that it says, but for the lines that a pause has taken.
    pub fn end(mut self, rest: &[u8]) -> FileLines {
        let mut reader = Reader::new(rest, &mut self.kept);
        self.records.end(rest, |record| reader.record(&record));
        FileLines {
            found: self.records.found,
            texts: self.kept.keeper.into_bytes(),
            ..self.kept.out
        }
    }
}

/// A file that was read to the end of its last whole line. What was kept of it stays in the buffers that it went to.
#[derive(Debug)]
pub struct Paused {
    records: Records,
    kept: Kept,
    lines: Vec<Arc<Vec<Line>>>,
}

impl Paused {
    /// How many bytes of the file were read.
    pub fn offset(&self) -> u64 {
        self.records.offset
    }

    /// All lines so far: what each stretch of reading found, in order.
    pub fn lines(&self) -> &[Arc<Vec<Line>>] {
        &self.lines
    }

    /// Goes on behind what was read. `buffer` is the number of the texts that are new.
    pub fn resume(&self, buffer: u32) -> File {
        File {
            records: self.records.clone(),
            kept: Kept {
                keeper: Keeper::new(buffer),
                ..self.kept.clone()
            },
            earlier: self.lines.clone(),
        }
    }
}

/// Bytes of a file of which it pays to make less room than all of it takes.
const LARGE: u64 = 256 << 10;

/// Bytes of room that are made before anything is read.
const MOST_ROOM: usize = 256 << 20;

/// What stays of a file.
#[derive(Clone, Debug)]
struct Kept {
    source: u32,
    keeper: Keeper,
    out: FileLines,
    versions: HashSet<Vec<u8>>,
    directories: HashSet<Vec<u8>>,
    sessions: HashSet<Vec<u8>>,
    /// The call and agent of progress lines: thousands say the same.
    progress: HashSet<(Vec<u8>, Vec<u8>)>,
}

/// Reads the records of one piece. Until a line is kept, its texts point into the piece.
struct Reader<'a> {
    bytes: &'a [u8],
    scanner: Scanner<'a>,
    file: &'a mut Kept,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], file: &'a mut Kept) -> Self {
        Self {
            bytes,
            scanner: Scanner::new(bytes, 0..0),
            file,
        }
    }

    fn record(&mut self, record: &Record) -> Reading {
        self.scanner.reset(record.range.clone());
        let Ok(fields) = self.fields() else {
            return Reading::Malformed;
        };
        if !self.scanner.at_end() {
            return Reading::Malformed;
        }
        let named = fields.uuid.is_some() || fields.session.is_some() || fields.timestamp.is_some();
        if record.salvaged && !(fields.kind.is_some() && named) {
            return Reading::Foreign;
        }
        self.keep(record.line, fields);
        Reading::Read
    }

    /// Keeps what a record says of its file and session, and the record as a line.
    fn keep(&mut self, number: u64, fields: Fields) {
        let Kept {
            out,
            keeper,
            versions,
            directories,
            sessions,
            ..
        } = &mut *self.file;
        for (text, seen, list) in [
            (fields.version, versions, &mut out.versions),
            (fields.directory, directories, &mut out.working_directories),
            (fields.session, sessions, &mut out.session_ids),
        ] {
            distinct(self.bytes, text, keeper, seen, list);
        }
        let mut keep = |text: Text| keeper.keep(self.bytes, text);
        if let Some((by, text)) = fields.title {
            out.titles.push(Title {
                by,
                text: keep(text),
                leaf: fields.leaf.map(&mut keep),
            });
        } else if let Some(leaf) = fields.leaf {
            out.live_leaf = Some(keep(leaf));
        }
        out.forked_from = out
            .forked_from
            .or_else(|| fields.forked_from.map(&mut keep));
        let at = fields
            .timestamp
            .map_or(Stamp::Missing, |text| self.stamp(text));
        let (uuid, parent, sidechain) = (fields.uuid, fields.parent, fields.sidechain);
        let uuid_hash = uuid.map_or(0, |uuid| identity::hash(&self.raw(uuid).decode()));
        let mut facts = Vec::new();
        let what = self.what(fields, &mut facts);
        let is_first_prompt = !sidechain
            && self.file.out.first_prompt.is_none()
            && prompt(&what).is_some_and(|text| !self.raw(text).to_text().trim().is_empty());
        let mut line = Line {
            source: self.file.source,
            number,
            uuid,
            uuid_hash,
            parent,
            at,
            sidechain,
            what,
            facts,
        };
        let keeper = &mut self.file.keeper;
        line.each_text(|text| *text = keeper.keep(self.bytes, *text));
        if is_first_prompt {
            self.file.out.first_prompt = prompt(&line.what);
        }
        self.file.out.lines.push(line);
    }

    fn what(&mut self, fields: Fields, facts: &mut Vec<Fact>) -> What {
        match fields.kind.map(|kind| self.raw(kind).bytes) {
            Some(b"assistant") => self.response(fields),
            Some(b"user") => self.user(fields, facts),
            Some(b"system") => self.system(&fields),
            Some(b"attachment") => self.attached(fields, facts),
            Some(b"progress") => {
                let progress = fields.progress.unwrap_or_default();
                if let (Some(agent), Some(call)) = (progress.agent, fields.parent_call)
                    && self.file.progress.insert((
                        self.raw(call).bytes.to_vec(),
                        self.raw(agent).bytes.to_vec(),
                    ))
                {
                    facts.push(Fact::Progress { call, agent });
                }
                What::Aside(Aside {
                    family: "progress/",
                    kind: progress.kind,
                    known: true,
                })
            }
            Some(b"queue-operation") => {
                if let Some(content) = fields.content {
                    facts.extend(kinds::notification(self.raw(content)).map(Fact::Notification));
                }
                What::Aside(Aside {
                    family: "",
                    kind: fields.kind,
                    known: true,
                })
            }
            kind => {
                let known = kind.is_some_and(kinds::is_known_aside);
                What::Aside(Aside {
                    family: "",
                    kind: fields.kind,
                    known,
                })
            }
        }
    }

    fn response(&self, fields: Fields) -> What {
        let message = fields.message.unwrap_or_default();
        let synthetic = message
            .model
            .is_some_and(|model| self.raw(model).bytes == b"<synthetic>");
        What::Response(ResponseLine {
            error: synthetic || fields.api_error,
            message_id: message.id,
            request_id: fields.request,
            model: message.model,
            usage: message.usage,
            has_stop_reason: message.has_stop_reason,
            blocks: message.blocks,
        })
    }

    fn user(&self, fields: Fields, facts: &mut Vec<Fact>) -> What {
        let mut blocks = fields.message.unwrap_or_default().blocks;
        let value = fields.result.as_ref().and_then(|result| result.value);
        give_content(&mut blocks, value);
        let mut calls = blocks.iter().filter_map(|block| match block {
            Block::ToolResult { call, .. } => Some(*call),
            _ => None,
        });
        if let Some(first) = calls.next() {
            // A structured result belongs to the line's one result; with several, nothing says to which.
            let alone = calls.next().is_none();
            if let (true, Some(call), Some(result)) = (alone, first, fields.result) {
                self.structured_facts(call, &result, facts);
            }
            return What::Turn {
                kind: TurnKind::ToolResult,
                blocks,
                origin: None,
            };
        }
        let origin = fields
            .origin
            .or_else(|| fields.prompt_source.map(|kind| Origin { kind, from: None }));
        let settled = if fields.compact_summary {
            Some(TurnKind::Summary)
        } else {
            fields.meta.then_some(TurnKind::Injected)
        };
        self.prompt(settled, blocks, origin, facts)
    }

    fn system(&self, fields: &Fields) -> What {
        let subtype = fields.subtype.map(|subtype| self.raw(subtype).bytes);
        let compaction = |micro| {
            let Compaction {
                trigger,
                pre_tokens,
                post_tokens,
            } = fields
                .compaction
                .as_ref()
                .map_or_else(Compaction::default, |c| Compaction { ..*c });
            What::Compaction {
                trigger,
                pre_tokens,
                post_tokens,
                micro,
            }
        };
        match subtype {
            Some(b"compact_boundary") => compaction(false),
            Some(b"microcompact_boundary") => compaction(true),
            Some(b"local_command") => What::Turn {
                kind: TurnKind::Command,
                blocks: fields.content.map(Block::Text).into_iter().collect(),
                origin: None,
            },
            Some(b"api_error") => What::Turn {
                kind: TurnKind::Error,
                blocks: fields
                    .error
                    .map(|value| Block::Other {
                        kind: fields.subtype,
                        value,
                    })
                    .into_iter()
                    .collect(),
                origin: None,
            },
            _ => {
                let known = subtype.is_none_or(kinds::is_known_system);
                What::Aside(Aside {
                    family: "system/",
                    kind: fields.subtype,
                    known,
                })
            }
        }
    }

    fn attached(&self, fields: Fields, facts: &mut Vec<Fact>) -> What {
        let attachment = fields.attachment.unwrap_or_default();
        let kind = attachment.kind.map(|kind| self.raw(kind).bytes);
        if kind != Some(b"queued_command") {
            let known = kind.is_some_and(kinds::is_known_attachment);
            return What::Aside(Aside {
                family: "attachment/",
                kind: attachment.kind,
                known,
            });
        }
        let origin = attachment.origin.or(fields.origin);
        let is_notification = attachment
            .mode
            .is_some_and(|mode| self.raw(mode).bytes == b"task-notification");
        let settled = if is_notification {
            Some(TurnKind::Notification)
        } else {
            (attachment.meta || fields.meta).then_some(TurnKind::Injected)
        };
        self.prompt(settled, attachment.prompt, origin, facts)
    }

    /// A line that reached the model as a prompt does; its text says what it is unless a flag has settled that.
    fn prompt(
        &self,
        settled: Option<TurnKind>,
        mut blocks: Vec<Block>,
        origin: Option<Origin>,
        facts: &mut Vec<Fact>,
    ) -> What {
        let (kind, tagged) = match settled {
            Some(kind) => (kind, None),
            None => kinds::of_prompt(
                self.bytes,
                &mut blocks,
                origin.as_ref().map(|o| self.raw(o.kind).bytes),
            ),
        };
        for block in &blocks {
            match (kind, block) {
                (TurnKind::Notification, Block::Text(text)) => {
                    facts.extend(kinds::notification(self.raw(*text)).map(Fact::Notification));
                }
                (TurnKind::Peer, Block::Text(text)) => {
                    facts.extend(kinds::teammate_messages(self.bytes, *text));
                }
                _ => {}
            }
        }
        What::Turn {
            kind,
            blocks,
            origin: origin.or(tagged),
        }
    }

    fn structured_facts(&self, call: Text, result: &StructuredResult, facts: &mut Vec<Fact>) {
        let is = |text: Option<Text>, word: &[u8]| text.is_some_and(|t| self.raw(t).bytes == word);
        if let Some(agent) = result.agent {
            let launched = result.is_async || is(result.status, b"async_launched");
            facts.push(Fact::AgentResult {
                call,
                agent,
                launched,
            });
        }
        if let Some(run) = result.run {
            facts.push(Fact::RunLaunched {
                call,
                run,
                task: result.run_task,
            });
        }
        if let (Some(name), true) = (result.teammate, is(result.status, b"teammate_spawned")) {
            facts.push(Fact::TeammateSpawned { call, name });
        }
        let over = !is(result.task_status, b"running") && !is(result.task_status, b"pending");
        if let (Some(task), true, true) = (result.task, is(result.task_kind, b"local_agent"), over)
        {
            facts.push(Fact::Poll { task });
        }
    }

    fn stamp(&self, text: Text) -> Stamp {
        let bytes = self.raw(text).bytes;
        let read = || std::str::from_utf8(bytes).ok()?.parse().ok();
        let at = time::usual(bytes).or_else(read);
        at.map_or(Stamp::Unreadable(text), Stamp::At)
    }

    fn raw(&self, text: Text) -> Raw<'a> {
        Raw {
            bytes: &self.bytes[text.start as usize..][..text.len as usize],
            form: text.form,
        }
    }
}

/// The first text of a prompt.
fn prompt(what: &What) -> Option<Text> {
    let What::Turn {
        kind: TurnKind::User,
        blocks,
        ..
    } = what
    else {
        return None;
    };
    blocks.iter().find_map(|block| match block {
        Block::Text(text) => Some(*text),
        _ => None,
    })
}

/// Keeps a text if no line before said the same. Most lines say what the line before them says.
fn distinct(
    bytes: &[u8],
    text: Option<Text>,
    keeper: &mut Keeper,
    seen: &mut HashSet<Vec<u8>>,
    list: &mut Vec<Text>,
) {
    let Some(text) = text else { return };
    let raw = &bytes[text.start as usize..][..text.len as usize];
    if !seen.contains(raw) {
        seen.insert(raw.to_vec());
        list.push(keeper.keep(bytes, text));
    }
}

/// Where the line's one result has no content, or there is not even a result, the structured result is all that tells it.
fn give_content(blocks: &mut Vec<Block>, structured: Option<Text>) {
    let Some(value) = structured else { return };
    let told = Block::Other { kind: None, value };
    match blocks.as_mut_slice() {
        [] => blocks.push(Block::ToolResult {
            call: None,
            is_error: false,
            content: vec![told],
        }),
        [Block::ToolResult { content, .. }] if content.is_empty() => content.push(told),
        _ => {}
    }
}
