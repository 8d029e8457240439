//! A turn's blocks: each a line of ours that says what it is, and fences with what was said.

use super::contain::{Hex, Or, Page, QUOTED, SafeValue};
use super::input::{Readable, readable};
use crate::session::objects::{Media, Stored};
use crate::transcript::text::{Form, Raw};
use crate::transcript::{Block, Buffers, MediaKind, Text};

/// How blocks are shown.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// The bytes that the blocks' texts point into.
    pub(super) buffers: &'a Buffers,
    /// The session's stored tool results.
    pub(super) stored: &'a [Stored],
    /// Fences over this many bytes are cut.
    pub(super) limit: Option<usize>,
}

impl<'a> Blocks<'a> {
    /// Appends blocks, in order; the pieces of a tool result follow its line.
    pub(super) fn write(self, blocks: &'a [Block], page: &mut Page) {
        // The lists that are still open, so that a result inside a result would cost no stack.
        let mut open = vec![blocks.iter()];
        while let Some(list) = open.last_mut() {
            let Some(block) = list.next() else {
                open.pop();
                continue;
            };
            match block {
                Block::Text(text) => self.kept("Text", *text, page),
                Block::Thinking { text: Some(text) } => {
                    self.kept("Thinking", *text, page);
                }
                Block::Thinking { text: None } => {
                    page.paragraph("Thinking: the transcript does not hold its text.");
                }
                Block::ToolCall { id, name, input } => self.call(*id, *name, *input, page),
                Block::ToolResult {
                    call,
                    is_error,
                    content,
                } => {
                    page.paragraph((
                        "Result of tool call ",
                        Or(self.value(*call), "without ID"),
                        is_error.then_some(", an error"),
                        content.is_empty().then_some(": empty"),
                    ));
                    open.push(content.iter());
                }
                Block::Media {
                    kind,
                    media_type,
                    data,
                    base64,
                    title,
                } => self.media(*kind, *media_type, *data, *base64, *title, page),
                Block::Stored { result } => {
                    if let Some(stored) = self.stored.get(*result as usize) {
                        self.stored(stored, page);
                    }
                }
                Block::NotStored { name, why } => page.paragraph((
                    ("Object ", SafeValue::of(name)),
                    (", not shown: ", SafeValue::of(why)),
                )),
                Block::Other { kind, value } => {
                    page.paragraph(("Other block, type ", Or(self.value(*kind), "not recorded")));
                    page.fence(Raw::plain(&readable(self.raw(*value).bytes)), self.limit);
                }
            }
        }
    }

    fn call(self, id: Option<Text>, name: Option<Text>, input: Option<Text>, page: &mut Page) {
        page.paragraph((
            "Tool call ",
            Or(self.value(name), "without name"),
            ", ID ",
            Or(self.value(id), "not recorded"),
            input.is_none().then_some(", no input"),
        ));
        let Some(input) = input else { return };
        let readable = Readable::of(self.raw(input));
        if let Some(text) = readable.text {
            self.labelled("Input", text, page);
        }
        if let Some(json) = readable.json {
            self.labelled("Input", Raw::plain(&json), page);
        }
        for (name, text) in &readable.fields {
            page.paragraph(("Input ", SafeValue::raw(Raw::plain(name))));
            page.fence(*text, self.limit);
        }
    }

    fn media(
        self,
        kind: MediaKind,
        media_type: Option<Text>,
        data: Option<Text>,
        base64: bool,
        title: Option<Text>,
        page: &mut Page,
    ) {
        let head = (
            match kind {
                MediaKind::Picture => "Picture",
                MediaKind::Document => "Document",
            },
            title.map(|title| (" ", SafeValue::raw(self.raw(title)))),
            ", media type ",
            Or(self.value(media_type), "not recorded"),
        );
        let Some(data) = data.map(|data| self.raw(data)) else {
            page.paragraph((head, ": the transcript does not hold its bytes."));
            return;
        };
        let Some(media) = Media::of(
            data,
            base64,
            media_type.map(|media_type| self.raw(media_type)),
        ) else {
            page.paragraph((
                head,
                ": ",
                data.bytes.len() as u64,
                " characters that are no base64.",
            ));
            return;
        };
        page.paragraph((
            head,
            (", ", media.bytes.len() as u64, " bytes"),
            (", SHA-256 ", Hex(&media.sha256)),
            (", objects/", Hex(&media.sha256[..8]), ".", media.extension),
        ));
        if !base64 {
            page.fence(data, self.limit);
        }
    }

    fn stored(self, stored: &Stored, page: &mut Page) {
        page.paragraph((
            (
                match &stored.media_type {
                    Some(_) => "Object ",
                    None => "Stored result ",
                },
                SafeValue::of(&stored.name),
            ),
            stored
                .media_type
                .as_deref()
                .map(|media_type| (", media type ", SafeValue::of(media_type))),
            (", ", u64::from(stored.bytes.len), " bytes"),
            (", SHA-256 ", Hex(&stored.sha256)),
            (", objects/", SafeValue::of(&stored.object())),
        ));
        if stored.is_text {
            page.fence_kept(stored.bytes, self.buffers, self.limit);
        }
    }

    fn labelled(self, label: &'static str, text: Raw<'_>, page: &mut Page) {
        page.paragraph(label);
        page.fence(text, self.limit);
    }

    fn kept(self, label: &'static str, text: Text, page: &mut Page) {
        page.paragraph(label);
        page.fence_kept(text, self.buffers, self.limit);
    }

    fn raw(self, text: Text) -> Raw<'a> {
        self.buffers.raw(text)
    }

    fn value(self, text: Option<Text>) -> Option<SafeValue<'a>> {
        text.map(|text| SafeValue::raw(self.raw(text)))
    }
}

/// About how many bytes blocks take when they are shown with this limit: room to make beforehand, no more.
pub(super) fn estimate(blocks: &[Block], limit: Option<usize>) -> usize {
    let written = |text: &Text| (text.len as usize).min(limit.unwrap_or(usize::MAX)) + 96;
    let fence = |text: &Text| match text.form {
        Form::Shown if text.len as usize >= QUOTED => 96,
        _ => written(text),
    };
    blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) | Block::Thinking { text: Some(text) } => fence(text),
            Block::ToolCall {
                input: Some(input), ..
            } => written(input) + written(input) / 8,
            Block::Other { value, .. } => written(value) + written(value) / 8,
            Block::ToolResult { content, .. } => content
                .iter()
                .map(|piece| {
                    if let Block::Text(text) = piece {
                        fence(text)
                    } else {
                        256
                    }
                })
                .sum(),
            Block::Thinking { text: None }
            | Block::ToolCall { input: None, .. }
            | Block::Stored { .. }
            | Block::NotStored { .. }
            | Block::Media { .. } => 256,
        })
        .sum()
}
