//! Claude Code's transcripts: the fields of one record, and what they mean.
//!
//! `formats/claude-code.md` is the source: sections 3 and 4 for the fields, 5.2 for what a `user` line really is. Every field is
//! optional, any may be of another type than it should, and keys come in any order.

mod content;
mod kinds;

use std::collections::HashSet;
use std::ops::Range;

use super::json::{Kind, Malformed, Scanner};
use super::line::{Aside, Fact, FileLines, Line, ResponseLine, Title, TitleBy, What};
use super::lines::{Reading, Record, records};
use super::text::{Form, Raw, Text};
use super::thread::{Block, Origin, Stamp, TurnKind, Usage};

type Scan<T> = Result<T, Malformed>;

/// Reads one file. `buffer` and `source` are the numbers that its texts and lines carry.
pub fn read(bytes: &[u8], buffer: u32, source: u32) -> FileLines {
    let mut reader = Reader {
        bytes,
        buffer,
        source,
        scanner: Scanner::new(bytes, 0..0),
        out: FileLines::default(),
        versions: HashSet::new(),
        directories: HashSet::new(),
        sessions: HashSet::new(),
    };
    let found = records(bytes, source, |record| reader.record(&record));
    FileLines {
        found,
        ..reader.out
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    buffer: u32,
    source: u32,
    scanner: Scanner<'a>,
    out: FileLines,
    versions: HashSet<&'a [u8]>,
    directories: HashSet<&'a [u8]>,
    sessions: HashSet<&'a [u8]>,
}

/// The fields of one record that mean something here.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the record's own flags"
)]
struct Fields {
    kind: Option<Text>,
    subtype: Option<Text>,
    uuid: Option<Text>,
    parent: Option<Text>,
    timestamp: Option<Text>,
    session: Option<Text>,
    sidechain: bool,
    meta: bool,
    compact_summary: bool,
    api_error: bool,
    directory: Option<Text>,
    version: Option<Text>,
    request: Option<Text>,
    message: Option<Message>,
    result: Option<StructuredResult>,
    attachment: Option<Attachment>,
    content: Option<Text>,
    error: Option<Text>,
    title: Option<(TitleBy, Text)>,
    leaf: Option<Text>,
    origin: Option<Origin>,
    prompt_source: Option<Text>,
    progress: Option<Progress>,
    parent_call: Option<Text>,
    compaction: Option<Compaction>,
    forked_from: Option<Text>,
    continued_in: Option<Text>,
}

/// `message` of a user or assistant line.
#[derive(Default)]
struct Message {
    id: Option<Text>,
    model: Option<Text>,
    usage: Option<Usage>,
    has_stop_reason: bool,
    blocks: Vec<Block>,
}

/// `toolUseResult`, where it is an object that names an agent or a task.
#[derive(Default)]
struct StructuredResult {
    agent: Option<Text>,
    status: Option<Text>,
    is_async: bool,
    task: Option<Text>,
    task_kind: Option<Text>,
    task_status: Option<Text>,
}

#[derive(Default)]
struct Attachment {
    kind: Option<Text>,
    mode: Option<Text>,
    meta: bool,
    origin: Option<Origin>,
    prompt: Vec<Block>,
}

#[derive(Default)]
struct Progress {
    kind: Option<Text>,
    agent: Option<Text>,
}

#[derive(Default)]
struct Compaction {
    trigger: Option<Text>,
    pre_tokens: Option<u64>,
    post_tokens: Option<u64>,
}

impl<'a> Reader<'a> {
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

    fn fields(&mut self) -> Scan<Fields> {
        let mut f = Fields::default();
        let mut members = self.scanner.object()?;
        while let Some(key) = self.scanner.key(&mut members)? {
            match &*key {
                b"type" => self.text_into(&mut f.kind)?,
                b"subtype" => self.text_into(&mut f.subtype)?,
                b"uuid" => self.text_into(&mut f.uuid)?,
                b"parentUuid" => self.text_into(&mut f.parent)?,
                b"timestamp" => self.text_into(&mut f.timestamp)?,
                b"sessionId" => self.text_into(&mut f.session)?,
                b"isSidechain" => f.sidechain = self.flag()?,
                b"isMeta" => f.meta = self.flag()?,
                b"isCompactSummary" => f.compact_summary = self.flag()?,
                b"isApiErrorMessage" => f.api_error = self.flag()?,
                b"cwd" => self.text_into(&mut f.directory)?,
                b"version" => self.text_into(&mut f.version)?,
                b"requestId" => self.text_into(&mut f.request)?,
                b"content" => self.text_into(&mut f.content)?,
                b"leafUuid" => self.text_into(&mut f.leaf)?,
                b"promptSource" => self.text_into(&mut f.prompt_source)?,
                b"parentToolUseID" => self.text_into(&mut f.parent_call)?,
                b"continuedInSessionId" => self.text_into(&mut f.continued_in)?,
                b"summary" => self.title_into(&mut f.title, TitleBy::Summary)?,
                b"aiTitle" => self.title_into(&mut f.title, TitleBy::Harness)?,
                b"customTitle" => self.title_into(&mut f.title, TitleBy::Person)?,
                b"message" => self.once(&mut f.message, Self::message)?,
                b"toolUseResult" => self.once(&mut f.result, Self::structured_result)?,
                b"attachment" => self.once(&mut f.attachment, Self::attachment)?,
                b"data" => self.once(&mut f.progress, Self::progress)?,
                b"compactMetadata" | b"microcompactMetadata" => {
                    self.once(&mut f.compaction, Self::compaction)?;
                }
                b"origin" => self.origin_into(&mut f.origin)?,
                b"forkedFrom" => self.once(&mut f.forked_from, Self::forked_from)?,
                b"error" => self.once(&mut f.error, Self::value)?,
                _ => {
                    self.scanner.skip()?;
                }
            }
        }
        Ok(f)
    }

    /// Keeps what a record says of its file and session, and the record as a line.
    fn keep(&mut self, number: u64, fields: Fields) {
        Self::distinct(
            self.bytes,
            fields.version,
            &mut self.versions,
            &mut self.out.versions,
        );
        Self::distinct(
            self.bytes,
            fields.directory,
            &mut self.directories,
            &mut self.out.working_directories,
        );
        Self::distinct(
            self.bytes,
            fields.session,
            &mut self.sessions,
            &mut self.out.session_ids,
        );
        if let Some((by, text)) = fields.title {
            self.out.titles.push(Title {
                by,
                text,
                leaf: fields.leaf,
            });
        } else if fields.leaf.is_some() {
            self.out.live_leaf = fields.leaf;
        }
        self.out.forked_from = self.out.forked_from.or(fields.forked_from);
        self.out.continued_in = self.out.continued_in.or(fields.continued_in);
        let at = fields
            .timestamp
            .map_or(Stamp::Missing, |text| self.stamp(text));
        let (source, uuid, parent, sidechain) =
            (self.source, fields.uuid, fields.parent, fields.sidechain);
        let mut facts = Vec::new();
        let what = self.what(fields, &mut facts);
        self.out.lines.push(Line {
            source,
            number,
            uuid,
            parent,
            at,
            sidechain,
            what,
            facts,
        });
    }

    fn what(&self, fields: Fields, facts: &mut Vec<Fact>) -> What {
        match fields.kind.map(|kind| self.raw(kind).bytes) {
            Some(b"assistant") => self.response(fields),
            Some(b"user") => self.user(fields, facts),
            Some(b"system") => self.system(&fields),
            Some(b"attachment") => self.attached(fields, facts),
            Some(b"progress") => {
                let progress = fields.progress.unwrap_or_default();
                if let (Some(agent), Some(call)) = (progress.agent, fields.parent_call) {
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
                    facts.extend(
                        kinds::notifications(self.raw(content))
                            .into_iter()
                            .map(Fact::Notification),
                    );
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
        let (kind, tagged) = if fields.compact_summary {
            (TurnKind::Summary, None)
        } else if fields.meta {
            (TurnKind::Injected, None)
        } else {
            kinds::of_prompt(
                self.bytes,
                &mut blocks,
                origin.as_ref().map(|o| self.raw(o.kind).bytes),
            )
        };
        if kind == TurnKind::Notification {
            self.notification_facts(&blocks, facts);
        }
        What::Turn {
            kind,
            blocks,
            origin: origin.or(tagged),
        }
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
        let mut blocks = attachment.prompt;
        let origin = attachment.origin.or(fields.origin);
        let notification = attachment
            .mode
            .is_some_and(|mode| self.raw(mode).bytes == b"task-notification");
        let (kind, tagged) = if notification {
            (TurnKind::Notification, None)
        } else if attachment.meta || fields.meta {
            (TurnKind::Injected, None)
        } else {
            kinds::of_prompt(
                self.bytes,
                &mut blocks,
                origin.as_ref().map(|o| self.raw(o.kind).bytes),
            )
        };
        if kind == TurnKind::Notification {
            self.notification_facts(&blocks, facts);
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
        let over = !is(result.task_status, b"running") && !is(result.task_status, b"pending");
        if let (Some(task), true, true) = (result.task, is(result.task_kind, b"local_agent"), over)
        {
            facts.push(Fact::Poll { task });
        }
    }

    fn notification_facts(&self, blocks: &[Block], facts: &mut Vec<Fact>) {
        for block in blocks {
            if let Block::Text(text) = block {
                facts.extend(
                    kinds::notifications(self.raw(*text))
                        .into_iter()
                        .map(Fact::Notification),
                );
            }
        }
    }

    fn stamp(&self, text: Text) -> Stamp {
        let read = || std::str::from_utf8(self.raw(text).bytes).ok()?.parse().ok();
        read().map_or(Stamp::Unreadable(text), Stamp::At)
    }

    fn distinct(
        bytes: &'a [u8],
        text: Option<Text>,
        seen: &mut HashSet<&'a [u8]>,
        list: &mut Vec<Text>,
    ) {
        let Some(text) = text else { return };
        if seen.insert(&bytes[text.start as usize..][..text.len as usize]) {
            list.push(text);
        }
    }

    fn raw(&self, text: Text) -> Raw<'a> {
        Raw {
            bytes: &self.bytes[text.start as usize..][..text.len as usize],
            form: text.form,
        }
    }

    /// A range of this record as a text. A record is at most 4 GiB long (`lines`), so its length fits.
    fn text(&self, range: &Range<usize>, form: Form) -> Text {
        Text {
            start: range.start as u64,
            len: range.len() as u32,
            buffer: self.buffer,
            form,
        }
    }

    /// The next value if it is a string.
    fn string(&mut self) -> Scan<Option<Text>> {
        if self.scanner.kind()? == Kind::String {
            let range = self.scanner.string()?;
            Ok(Some(self.text(&range, Form::JsonString)))
        } else {
            self.scanner.skip()?;
            Ok(None)
        }
    }

    /// The next value, whatever it is, unless it is `null`.
    fn value(&mut self) -> Scan<Option<Text>> {
        let range = self.scanner.skip()?;
        let null = self.scanner.bytes(&range) == b"null";
        Ok((!null).then(|| self.text(&range, Form::JsonValue)))
    }

    fn flag(&mut self) -> Scan<bool> {
        let range = self.scanner.skip()?;
        Ok(self.scanner.bytes(&range) == b"true")
    }

    /// Takes the next value by `take` if the slot is still empty: of a key that stands twice the first holds, and it is counted.
    fn once<T>(
        &mut self,
        slot: &mut Option<T>,
        take: fn(&mut Self) -> Scan<Option<T>>,
    ) -> Scan<()> {
        if slot.is_some() {
            self.scanner.skip()?;
            self.out.duplicate_keys += 1;
        } else {
            *slot = take(self)?;
        }
        Ok(())
    }

    fn text_into(&mut self, slot: &mut Option<Text>) -> Scan<()> {
        self.once(slot, Self::string)
    }

    fn title_into(&mut self, slot: &mut Option<(TitleBy, Text)>, by: TitleBy) -> Scan<()> {
        if let Some(text) = self.string()? {
            *slot = Some((by, text));
        }
        Ok(())
    }

    fn origin_into(&mut self, slot: &mut Option<Origin>) -> Scan<()> {
        self.once(slot, |reader| {
            let (mut kind, mut from, mut name) = (None, None, None);
            reader.members(|reader, key| match key {
                b"kind" => reader.text_into(&mut kind),
                b"from" => reader.text_into(&mut from),
                b"name" => reader.text_into(&mut name),
                _ => reader.scanner.skip().map(drop),
            })?;
            Ok(kind.map(|kind| Origin {
                kind,
                from: from.or(name),
            }))
        })
    }

    /// Walks the members of the next value if it is an object; anything else is skipped.
    fn members(&mut self, mut each: impl FnMut(&mut Self, &[u8]) -> Scan<()>) -> Scan<()> {
        if self.scanner.kind()? != Kind::Object {
            return self.scanner.skip().map(drop);
        }
        let mut members = self.scanner.object()?;
        while let Some(key) = self.scanner.key(&mut members)? {
            each(self, &key)?;
        }
        Ok(())
    }

    fn structured_result(&mut self) -> Scan<Option<StructuredResult>> {
        let mut r = StructuredResult::default();
        self.members(|reader, key| match key {
            b"agentId" => reader.text_into(&mut r.agent),
            b"status" => reader.text_into(&mut r.status),
            b"isAsync" => reader.flag().map(|flag| r.is_async = flag),
            b"task" => reader.members(|reader, key| match key {
                b"task_id" => reader.text_into(&mut r.task),
                b"task_type" => reader.text_into(&mut r.task_kind),
                b"status" => reader.text_into(&mut r.task_status),
                _ => reader.scanner.skip().map(drop),
            }),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(r))
    }

    fn attachment(&mut self) -> Scan<Option<Attachment>> {
        let mut a = Attachment::default();
        self.members(|reader, key| match key {
            b"type" => reader.text_into(&mut a.kind),
            b"commandMode" => reader.text_into(&mut a.mode),
            b"isMeta" => reader.flag().map(|flag| a.meta = flag),
            b"origin" => reader.origin_into(&mut a.origin),
            b"prompt" => reader.content(false).map(|blocks| a.prompt = blocks),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(a))
    }

    fn progress(&mut self) -> Scan<Option<Progress>> {
        let mut p = Progress::default();
        self.members(|reader, key| match key {
            b"type" => reader.text_into(&mut p.kind),
            b"agentId" => reader.text_into(&mut p.agent),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(p))
    }

    fn compaction(&mut self) -> Scan<Option<Compaction>> {
        let mut c = Compaction::default();
        self.members(|reader, key| match key {
            b"trigger" => reader.text_into(&mut c.trigger),
            b"preTokens" => reader.count().map(|count| c.pre_tokens = count),
            b"postTokens" => reader.count().map(|count| c.post_tokens = count),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(c))
    }

    fn forked_from(&mut self) -> Scan<Option<Text>> {
        let mut session = None;
        self.members(|reader, key| match key {
            b"sessionId" => reader.text_into(&mut session),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(session)
    }
}
