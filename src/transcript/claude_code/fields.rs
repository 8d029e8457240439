//! The fields of one record that mean something here, and how a value of any type becomes one of them.

use std::ops::Range;

use super::{Reader, Scan};
use crate::transcript::json::Kind;
use crate::transcript::line::TitleBy;
use crate::transcript::text::{Form, Text};
use crate::transcript::thread::{Block, Origin, Usage};

/// The fields of one record that mean something here.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the record's own flags"
)]
pub(super) struct Fields {
    pub(super) kind: Option<Text>,
    pub(super) subtype: Option<Text>,
    pub(super) uuid: Option<Text>,
    pub(super) parent: Option<Text>,
    pub(super) timestamp: Option<Text>,
    pub(super) session: Option<Text>,
    pub(super) sidechain: bool,
    pub(super) meta: bool,
    pub(super) compact_summary: bool,
    pub(super) api_error: bool,
    pub(super) directory: Option<Text>,
    pub(super) version: Option<Text>,
    pub(super) request: Option<Text>,
    pub(super) message: Option<Message>,
    pub(super) result: Option<StructuredResult>,
    pub(super) attachment: Option<Attachment>,
    pub(super) content: Option<Text>,
    pub(super) error: Option<Text>,
    pub(super) title: Option<(TitleBy, Text)>,
    pub(super) leaf: Option<Text>,
    pub(super) origin: Option<Origin>,
    pub(super) prompt_source: Option<Text>,
    pub(super) progress: Option<Progress>,
    pub(super) parent_call: Option<Text>,
    pub(super) compaction: Option<Compaction>,
    pub(super) forked_from: Option<Text>,
}

/// `message` of a user or assistant line.
#[derive(Default)]
pub(super) struct Message {
    pub(super) id: Option<Text>,
    pub(super) model: Option<Text>,
    pub(super) usage: Option<Usage>,
    pub(super) has_stop_reason: bool,
    pub(super) blocks: Vec<Block>,
}

/// `toolUseResult`, where it is an object that names an agent or a task.
#[derive(Default)]
pub(super) struct StructuredResult {
    pub(super) agent: Option<Text>,
    pub(super) status: Option<Text>,
    pub(super) is_async: bool,
    pub(super) task: Option<Text>,
    pub(super) task_kind: Option<Text>,
    pub(super) task_status: Option<Text>,
    pub(super) run: Option<Text>,
    pub(super) run_task: Option<Text>,
    pub(super) teammate: Option<Text>,
    /// The whole of it.
    pub(super) value: Option<Text>,
}

#[derive(Default)]
pub(super) struct Attachment {
    pub(super) kind: Option<Text>,
    pub(super) mode: Option<Text>,
    pub(super) meta: bool,
    pub(super) origin: Option<Origin>,
    pub(super) prompt: Vec<Block>,
}

#[derive(Default)]
pub(super) struct Progress {
    pub(super) kind: Option<Text>,
    pub(super) agent: Option<Text>,
}

#[derive(Default)]
pub(super) struct Compaction {
    pub(super) trigger: Option<Text>,
    pub(super) pre_tokens: Option<u64>,
    pub(super) post_tokens: Option<u64>,
}

impl Reader<'_> {
    pub(super) fn fields(&mut self) -> Scan<Fields> {
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

    /// The next value if it is a string.
    pub(super) fn string(&mut self) -> Scan<Option<Text>> {
        if self.scanner.kind()? == Kind::String {
            let range = self.scanner.string()?;
            Ok(Some(text(&range, Form::JsonString)))
        } else {
            self.scanner.skip()?;
            Ok(None)
        }
    }

    /// The next value, whatever it is, unless it is `null`.
    pub(super) fn value(&mut self) -> Scan<Option<Text>> {
        let range = self.scanner.skip()?;
        let null = self.scanner.bytes(&range) == b"null";
        Ok((!null).then(|| text(&range, Form::JsonValue)))
    }

    pub(super) fn flag(&mut self) -> Scan<bool> {
        let range = self.scanner.skip()?;
        Ok(self.scanner.bytes(&range) == b"true")
    }

    /// Takes the next value by `take` if the slot is still empty: of a key that stands twice the first holds, and it is counted.
    pub(super) fn once<T>(
        &mut self,
        slot: &mut Option<T>,
        take: fn(&mut Self) -> Scan<Option<T>>,
    ) -> Scan<()> {
        if slot.is_some() {
            self.scanner.skip()?;
            self.file.out.duplicate_keys += 1;
        } else {
            *slot = take(self)?;
        }
        Ok(())
    }

    pub(super) fn text_into(&mut self, slot: &mut Option<Text>) -> Scan<()> {
        self.once(slot, Self::string)
    }

    pub(super) fn title_into(
        &mut self,
        slot: &mut Option<(TitleBy, Text)>,
        by: TitleBy,
    ) -> Scan<()> {
        let text = self.string()?;
        if slot.is_some_and(|(before, _)| before == by) {
            self.file.out.duplicate_keys += 1;
        } else if let Some(text) = text {
            *slot = Some((by, text));
        }
        Ok(())
    }

    pub(super) fn origin_into(&mut self, slot: &mut Option<Origin>) -> Scan<()> {
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
    pub(super) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &[u8]) -> Scan<()>,
    ) -> Scan<()> {
        if self.scanner.kind()? != Kind::Object {
            return self.scanner.skip().map(drop);
        }
        let mut members = self.scanner.object()?;
        while let Some(key) = self.scanner.key(&mut members)? {
            each(self, &key)?;
        }
        Ok(())
    }

    pub(super) fn structured_result(&mut self) -> Scan<Option<StructuredResult>> {
        let mut r = StructuredResult::default();
        self.scanner.kind()?;
        let start = self.scanner.offset();
        self.members(|reader, key| match key {
            b"agentId" => reader.text_into(&mut r.agent),
            b"status" => reader.text_into(&mut r.status),
            b"isAsync" => reader.flag().map(|flag| r.is_async = flag),
            b"runId" => reader.text_into(&mut r.run),
            b"taskId" => reader.text_into(&mut r.run_task),
            b"name" => reader.text_into(&mut r.teammate),
            b"task" => reader.members(|reader, key| match key {
                b"task_id" => reader.text_into(&mut r.task),
                b"task_type" => reader.text_into(&mut r.task_kind),
                b"status" => reader.text_into(&mut r.task_status),
                _ => reader.scanner.skip().map(drop),
            }),
            _ => reader.scanner.skip().map(drop),
        })?;
        let range = start..self.scanner.offset();
        let null = self.scanner.bytes(&range) == b"null";
        r.value = (!null).then(|| text(&range, Form::JsonValue));
        Ok(Some(r))
    }

    pub(super) fn attachment(&mut self) -> Scan<Option<Attachment>> {
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

    pub(super) fn progress(&mut self) -> Scan<Option<Progress>> {
        let mut p = Progress::default();
        self.members(|reader, key| match key {
            b"type" => reader.text_into(&mut p.kind),
            b"agentId" => reader.text_into(&mut p.agent),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(p))
    }

    pub(super) fn compaction(&mut self) -> Scan<Option<Compaction>> {
        let mut c = Compaction::default();
        self.members(|reader, key| match key {
            b"trigger" => reader.text_into(&mut c.trigger),
            b"preTokens" => reader.count().map(|count| c.pre_tokens = count),
            b"postTokens" => reader.count().map(|count| c.post_tokens = count),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(Some(c))
    }

    pub(super) fn forked_from(&mut self) -> Scan<Option<Text>> {
        let mut session = None;
        self.members(|reader, key| match key {
            b"sessionId" => reader.text_into(&mut session),
            _ => reader.scanner.skip().map(drop),
        })?;
        Ok(session)
    }
}

/// A range of this record as a text, which points into the piece until its line is kept. A record is at most 4 GiB long (`lines`),
/// so its length fits.
pub(super) fn text(range: &Range<usize>, form: Form) -> Text {
    Text {
        start: range.start as u64,
        len: range.len() as u32,
        buffer: 0,
        form,
    }
}
