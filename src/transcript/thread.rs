//! What a thread is made of, in words that no harness owns: lines, blocks, turns, responses.
//!
//! A reader of one harness fills [`super::line::Line`]s; [`super::group`] makes turns of those that belong to one thread. `spec/turns.md`
//! is the source of the kinds.

use super::text::Text;
use jiff::Timestamp;

/// What kind of turn a thread's line opens or continues. The closed list of `spec/turns.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum TurnKind {
    /// A prompt that the person typed, also one queued while the agent worked.
    User,
    /// In an agent's thread, the prompt that its spawner gave it, and each that continued it.
    Task,
    /// A message that the transcript itself marks as another session's or a team member's.
    Peer,
    /// One model response: all lines with one message ID.
    Assistant,
    /// One line of tool results.
    ToolResult,
    /// A slash command or its output, shell input or output of the person.
    Command,
    /// News of background work.
    Notification,
    /// A compaction's summary, written by the harness.
    Summary,
    /// What the harness put in: reminders, caveats, skill bodies, editor context that stands alone.
    Injected,
    /// The marker that the person stopped something.
    Interruption,
    /// An API error line or a synthetic answer.
    Error,
    /// A framed log's object or pending object.
    Object,
}

impl TurnKind {
    /// The kind's name in file names, headings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Task => "task",
            Self::Peer => "peer",
            Self::Assistant => "assistant",
            Self::ToolResult => "tool-result",
            Self::Command => "command",
            Self::Notification => "notification",
            Self::Summary => "summary",
            Self::Injected => "injected",
            Self::Interruption => "interruption",
            Self::Error => "error",
            Self::Object => "object",
        }
    }
}

/// When something happened, as the line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stamp {
    /// The line has no timestamp.
    #[default]
    Missing,
    /// An instant.
    At(Timestamp),
    /// The line has one that is no instant; shown as it stands.
    Unreadable(Text),
}

impl Stamp {
    /// The instant, if there is one.
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

/// One piece of a turn's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// What was said.
    Text(Text),
    /// What the model thought; `text` is empty where the harness kept only the signature.
    Thinking {
        /// The thought.
        text: Option<Text>,
    },
    /// The model calls a tool.
    ToolCall {
        /// The call's ID; the result names it.
        id: Option<Text>,
        /// The tool's name.
        name: Option<Text>,
        /// The input, a JSON value as stored.
        input: Option<Text>,
    },
    /// What a tool answered.
    ToolResult {
        /// The ID of the call that it answers.
        call: Option<Text>,
        /// Whether the result says of itself that it is an error.
        is_error: bool,
        /// The answer's pieces: text, media and others, never a tool call or another result.
        content: Vec<Block>,
    },
    /// A picture or document that stands in the line.
    Media {
        /// `image` or `document`, or what else the block calls itself.
        kind: MediaKind,
        /// The media type as recorded.
        media_type: Option<Text>,
        /// The bytes as recorded.
        data: Option<Text>,
        /// Whether `data` is base64; otherwise it is the document's text.
        base64: bool,
        /// The document's title.
        title: Option<Text>,
    },
    /// A tool's whole output, of which the piece before holds only a reference: a file that the harness stored beside the
    /// transcript. Only among the pieces of a result.
    Stored {
        /// Which of the session's stored results.
        result: u32,
    },
    /// An object that an event names and that cannot be shown.
    NotStored {
        /// The base name of its file.
        name: String,
        /// Why it cannot be shown, in our words.
        why: String,
    },
    /// A block of a type that this program does not know, shown as the JSON that it is.
    Other {
        /// The type that the block names.
        kind: Option<Text>,
        /// The whole block, a JSON value as stored.
        value: Text,
    },
}

impl Block {
    /// Calls `each` for every text of the block itself, not for those of a result's pieces.
    pub(super) fn each_text(&mut self, each: &mut impl FnMut(&mut Text)) {
        match self {
            Self::Text(text) => each(text),
            Self::Thinking { text } => text.iter_mut().for_each(each),
            Self::ToolCall { id, name, input } => {
                [id, name, input].into_iter().flatten().for_each(each);
            }
            Self::ToolResult { call, .. } => call.iter_mut().for_each(each),
            Self::Media {
                media_type,
                data,
                title,
                ..
            } => [media_type, data, title]
                .into_iter()
                .flatten()
                .for_each(each),
            Self::Stored { .. } | Self::NotStored { .. } => {}
            Self::Other { kind, value } => {
                kind.iter_mut().for_each(&mut *each);
                each(value);
            }
        }
    }
}

/// What a [`Block::Media`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Picture,
    /// A document.
    Document,
}

impl MediaKind {
    /// The word that documents use for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Picture => "picture",
            Self::Document => "document",
        }
    }
}

/// Tokens of one response as recorded, or a sum of such. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that came from no cache.
    pub input: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Tokens written to the cache.
    pub cache_creation: u64,
    /// Of those, the ones kept five minutes.
    pub cache_creation_5m: u64,
    /// Of those, the ones kept an hour.
    pub cache_creation_1h: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
}

impl Usage {
    /// Input, output, cache creation and cache read together.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_creation)
            .saturating_add(self.cache_read)
    }

    /// Adds another usage, counter by counter. A counter that would overflow stays at its largest value; the result says whether one did.
    pub fn add(&mut self, other: &Self) -> bool {
        let mut saturated = false;
        for (mine, theirs) in [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_creation, other.cache_creation),
            (&mut self.cache_creation_5m, other.cache_creation_5m),
            (&mut self.cache_creation_1h, other.cache_creation_1h),
            (&mut self.cache_read, other.cache_read),
        ] {
            let (sum, overflow) = mine.overflowing_add(theirs);
            *mine = if overflow { u64::MAX } else { sum };
            saturated |= overflow;
        }
        saturated
    }
}

/// What makes lines one response. See `spec/telemetry.md`: the message ID; without one the request ID, else the line's uuid, else the line itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResponseKey {
    /// The model provider's message ID.
    Message(String),
    /// The request ID.
    Request(String),
    /// The uuid of the only line.
    LineUuid(String),
    /// Nothing names the response; it is this line of this source.
    Line {
        /// Index into the session's list of sources.
        source: u32,
        /// Line number from 1.
        line: u64,
    },
}

/// One model response of a thread, out of all lines that carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// What its lines have in common.
    pub key: ResponseKey,
    /// The usage of the line that speaks for it: the one with the most output tokens, the later one at a tie. None where no line has usage.
    pub usage: Option<Usage>,
    /// The model of that line.
    pub model: Option<String>,
    /// Whether some line has a stop reason; without one the output is a lower bound.
    pub has_stop_reason: bool,
    /// Whether its lines disagree about usage.
    pub usage_differs: bool,
    /// Lines with usage.
    pub usage_lines: u64,
}

/// What the transcript itself says of where a user line came from: `origin`, `promptSource`, a teammate's tag. A fact of its own beside any attribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind as recorded, such as `human` or `peer`.
    pub kind: Text,
    /// From whom, where recorded.
    pub from: Option<Text>,
}

/// One turn: a prompt, a response, a line of results, a notice. Its number is its place in the thread's list, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What it is.
    pub kind: TurnKind,
    /// When its first line was written.
    pub at: Stamp,
    /// The response's message ID.
    pub message_id: Option<Text>,
    /// The model that answered.
    pub model: Option<Text>,
    /// What the transcript says of its origin.
    pub origin: Option<Origin>,
    /// Its content, in the order of its lines.
    pub blocks: Vec<Block>,
    /// Base name of the file where its first line stands, as an index into the session's list of sources.
    pub source: u32,
    /// Number, from 1, of its first line.
    pub line: u64,
}

/// Something in a source that could not be read as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Index into the session's list of sources.
    pub source: u32,
    /// Line number from 1.
    pub line: u64,
    /// Byte offset of the line in its file.
    pub offset: u64,
    /// What is wrong.
    pub why: &'static str,
    /// Whether the line's record, or a whole one inside it, was read all the same.
    pub recovered: bool,
}
