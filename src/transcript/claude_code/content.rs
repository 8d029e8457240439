//! `message` and its content blocks, and counts of tokens.

use super::fields::{Message, text};
use super::{Reader, Scan};
use crate::transcript::json::Kind;
use crate::transcript::text::{Form, Text};
use crate::transcript::thread::{Block, MediaKind, Usage};

/// The fields of one content block, whatever its type.
#[derive(Default)]
struct Fields {
    kind: Option<Text>,
    text: Option<Text>,
    thinking: Option<Text>,
    id: Option<Text>,
    name: Option<Text>,
    input: Option<Text>,
    call: Option<Text>,
    content: Vec<Block>,
    is_error: bool,
    title: Option<Text>,
    source_kind: Option<Text>,
    media_type: Option<Text>,
    data: Option<Text>,
}

impl Reader<'_> {
    pub(super) fn message(&mut self) -> Scan<Option<Message>> {
        let start = self.start()?;
        let mut m = Message::default();
        let mut content = None;
        self.members(|reader, key| match key {
            b"id" => reader.text_into(&mut m.id),
            b"model" => reader.text_into(&mut m.model),
            b"content" => reader.once(&mut content, |reader| reader.content(false).map(Some)),
            b"usage" => reader.once(&mut m.usage, Self::usage),
            b"stop_reason" => reader
                .string()
                .map(|reason| m.has_stop_reason |= reason.is_some()),
            _ => reader.scanner.skip().map(drop),
        })?;
        // A message of another shape is shown as the JSON that it is, so that nothing of it is lost.
        let value = text(&(start..self.scanner.offset()), Form::JsonValue);
        let shapeless = content.is_none() && m.id.is_none() && self.raw(value).bytes != b"null";
        m.blocks = content.unwrap_or_default();
        if shapeless {
            m.blocks.push(Block::Other { kind: None, value });
        }
        Ok(Some(m))
    }

    /// Content: a string, or an array of blocks. `nested` content is that of a tool's result, which holds no results of its own.
    pub(super) fn content(&mut self, nested: bool) -> Scan<Vec<Block>> {
        let mut blocks = Vec::new();
        match self.scanner.kind()? {
            Kind::Array => {
                let mut members = self.scanner.array()?;
                while self.scanner.item(&mut members)? {
                    blocks.push(self.block(nested)?);
                }
            }
            Kind::String => blocks.extend(self.string()?.map(Block::Text)),
            Kind::Object => blocks.push(self.block(nested)?),
            Kind::Scalar => blocks.extend(
                self.value()?
                    .map(|value| Block::Other { kind: None, value }),
            ),
        }
        Ok(blocks)
    }

    fn block(&mut self, nested: bool) -> Scan<Block> {
        let start = self.start()?;
        if self.scanner.kind()? == Kind::String {
            let range = self.scanner.string()?;
            return Ok(Block::Text(text(&range, Form::JsonString)));
        }
        let mut f = Fields::default();
        self.members(|reader, key| match key {
            b"type" => reader.text_into(&mut f.kind),
            b"text" => reader.text_into(&mut f.text),
            b"thinking" => reader.text_into(&mut f.thinking),
            b"id" => reader.text_into(&mut f.id),
            b"name" => reader.text_into(&mut f.name),
            b"input" => reader.once(&mut f.input, Self::value),
            b"tool_use_id" => reader.text_into(&mut f.call),
            b"is_error" => reader.flag().map(|flag| f.is_error = flag),
            b"title" => reader.text_into(&mut f.title),
            b"content" if !nested => reader.content(true).map(|content| f.content = content),
            b"source" => reader.members(|reader, key| match key {
                b"type" => reader.text_into(&mut f.source_kind),
                b"media_type" => reader.text_into(&mut f.media_type),
                b"data" => reader.text_into(&mut f.data),
                _ => reader.scanner.skip().map(drop),
            }),
            _ => reader.scanner.skip().map(drop),
        })?;
        let value = text(&(start..self.scanner.offset()), Form::JsonValue);
        Ok(self.typed(f, value, nested))
    }

    fn typed(&self, f: Fields, value: Text, nested: bool) -> Block {
        let kind = f.kind.map(|kind| self.raw(kind).bytes).unwrap_or_default();
        let is_text = f
            .source_kind
            .is_some_and(|kind| self.raw(kind).bytes == b"text");
        match (kind, f.text, f.data) {
            (b"text", Some(text), _) => Block::Text(text),
            (b"thinking" | b"redacted_thinking", _, _) => Block::Thinking {
                text: f.thinking.filter(|thinking| thinking.len > 0),
            },
            (b"tool_use" | b"server_tool_use", _, _) => Block::ToolCall {
                id: f.id,
                name: f.name,
                input: f.input,
            },
            (b"tool_result", _, _) if !nested => Block::ToolResult {
                call: f.call,
                is_error: f.is_error,
                content: f.content,
            },
            (b"image" | b"document", _, Some(data)) => Block::Media {
                kind: if kind == b"image" {
                    MediaKind::Picture
                } else {
                    MediaKind::Document
                },
                media_type: f.media_type,
                data: Some(data),
                base64: !is_text,
                title: f.title,
            },
            _ => Block::Other {
                kind: f.kind,
                value,
            },
        }
    }

    fn usage(&mut self) -> Scan<Option<Usage>> {
        if self.scanner.kind()? != Kind::Object {
            self.scanner.skip()?;
            return Ok(None);
        }
        let (mut input, mut output, mut created, mut read) = (None, None, None, None);
        let (mut five, mut hour) = (None, None);
        self.members(|reader, key| match key {
            b"input_tokens" => reader.once(&mut input, Self::count),
            b"output_tokens" => reader.once(&mut output, Self::count),
            b"cache_creation_input_tokens" => reader.once(&mut created, Self::count),
            b"cache_read_input_tokens" => reader.once(&mut read, Self::count),
            b"cache_creation" => reader.members(|reader, key| match key {
                b"ephemeral_5m_input_tokens" => reader.once(&mut five, Self::count),
                b"ephemeral_1h_input_tokens" => reader.once(&mut hour, Self::count),
                _ => reader.scanner.skip().map(drop),
            }),
            _ => reader.scanner.skip().map(drop),
        })?;
        let split = (five.is_some() || hour.is_some())
            .then(|| five.unwrap_or(0).saturating_add(hour.unwrap_or(0)));
        Ok(Some(Usage {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            cache_creation: created.or(split).unwrap_or(0),
            cache_creation_5m: five.unwrap_or(0),
            cache_creation_1h: hour.unwrap_or(0),
            cache_read: read.unwrap_or(0),
        }))
    }

    /// A count of tokens. A string of digits and a float without a fraction count and are noted; `null` is absent; anything
    /// else is no count and is noted.
    pub(super) fn count(&mut self) -> Scan<Option<u64>> {
        let kind = self.scanner.kind()?;
        let range = self.scanner.skip()?;
        let mut bytes = self.scanner.bytes(&range);
        if kind == Kind::String {
            bytes = &bytes[1..bytes.len() - 1];
        } else if bytes == b"null" {
            return Ok(None);
        }
        let digits = std::str::from_utf8(bytes)
            .ok()
            .filter(|s| s.bytes().all(|b| b.is_ascii_digit()));
        if let (Kind::Scalar, Some(count)) = (kind, digits.and_then(|s| s.parse().ok())) {
            return Ok(Some(count));
        }
        self.file.out.counts_not_numbers += 1;
        let float = || {
            if kind == Kind::Scalar {
                std::str::from_utf8(bytes).ok()?.parse::<f64>().ok()
            } else {
                None
            }
        };
        Ok(match digits.and_then(|s| s.parse().ok()) {
            Some(count) => Some(count),
            // Exact: a float below 2^53 without a fraction is an integer.
            None => float()
                .filter(|f| f.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(f))
                .map(|f| {
                    #[expect(
                        clippy::cast_sign_loss,
                        reason = "the range above has no negative number"
                    )]
                    let count = f as u64;
                    count
                }),
        })
    }

    fn start(&mut self) -> Scan<usize> {
        self.scanner.kind()?;
        Ok(self.scanner.offset())
    }
}
