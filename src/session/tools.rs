//! The tool calls and tool results of one thread, each with its place: what links agents and counts tools, without going through
//! all blocks of all turns again.

use crate::transcript::identity::Name;
use crate::transcript::json::{Kind, Scanner};
use crate::transcript::text::{Buffers, Form, Raw, Text};
use crate::transcript::thread::Block;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::TurnIndex;

/// In the order of the turns, once they were put in order; those of one turn in the order of its blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    pub(super) calls: Vec<ToolCall>,
    pub(super) results: Vec<ToolResult>,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct ToolCall {
    pub(super) turn: TurnIndex,
    pub(super) id: Option<Name>,
    /// The tool's name as recorded.
    pub(super) name: Option<Text>,
    pub(super) tool: Tool,
    input: Option<Text>,
    /// Of a tool that has to do with agents, the fields of its input that say something of them: they are asked for often.
    fields: Option<Arc<Fields>>,
}

/// Text fields of an input, by name.
type Fields = BTreeMap<&'static str, String>;

/// What a tool has to do with sub-agents, by its name. Tools that only have such a word in their name are to-do lists or serve
/// shells (`formats/claude-code.md` 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Starts an agent, or a team member.
    Agent,
    /// Starts a run of several agents.
    Workflow,
    /// Speaks to a team member, or continues an agent.
    SendMessage,
    /// Nothing.
    Other,
}

/// One result.
#[derive(Clone, Debug)]
pub(super) struct ToolResult {
    pub(super) turn: TurnIndex,
    /// The ID of the call that it answers.
    pub(super) call: Option<Name>,
    pub(super) is_error: bool,
    pub(super) first_text: Option<Text>,
    pub(super) last_text: Option<Text>,
    /// The ID of the agent that the harness names in the text, once somebody has looked for it.
    pub(super) agent_id: OnceLock<Option<String>>,
}

impl Tools {
    /// Takes in the calls and results among these blocks, which stand behind all others of their turn.
    pub(super) fn add(&mut self, blocks: &[Block], turn: TurnIndex, buffers: &Buffers) {
        for block in blocks {
            match block {
                Block::ToolCall { id, name, input } => {
                    let call = ToolCall::new(turn, *id, *name, *input, buffers);
                    self.calls.push(call);
                }
                Block::ToolResult {
                    call,
                    is_error,
                    content,
                } => {
                    let mut texts = content.iter().filter_map(|block| match block {
                        Block::Text(text) => Some(*text),
                        _ => None,
                    });
                    let first_text = texts.next();
                    let result = ToolResult {
                        turn,
                        call: call.map(|call| Name::of(call, buffers)),
                        is_error: *is_error,
                        first_text,
                        last_text: texts.next_back().or(first_text),
                        agent_id: OnceLock::new(),
                    };
                    self.results.push(result);
                }
                _ => {}
            }
        }
    }

    /// A late line of an earlier response stands with its turn.
    pub(super) fn put_in_order(&mut self) {
        self.calls.sort_by_key(|call| call.turn);
        self.results.sort_by_key(|result| result.turn);
    }
}

/// The fields that say something of agents.
const FIELDS: [&str; 8] = [
    "prompt",
    "description",
    "subagent_type",
    "name",
    "to",
    "recipient",
    "message",
    "content",
];

impl ToolCall {
    fn new(
        turn: TurnIndex,
        id: Option<Text>,
        name: Option<Text>,
        input: Option<Text>,
        buffers: &Buffers,
    ) -> Self {
        let tool = name.map_or(Tool::Other, |name| Tool::named(buffers.raw(name)));
        let fields = match input {
            Some(input) if tool != Tool::Other => Some(Arc::new(fields(buffers.raw(input)))),
            _ => None,
        };
        Self {
            turn,
            id: id.map(|id| Name::of(id, buffers)),
            name,
            tool,
            input,
            fields,
        }
    }

    /// The first top-level text field of the call's input with this name, which is one of those that say something of agents.
    pub(super) fn input_field(&self, buffers: &Buffers, field: &str) -> Option<String> {
        match &self.fields {
            Some(fields) => fields.get(field).cloned(),
            None => fields(buffers.raw(self.input?)).remove(field),
        }
    }

    /// As [`Self::input_field`], without a copy; none of a tool that has nothing to do with agents.
    pub(super) fn agent_field(&self, field: &str) -> Option<&str> {
        self.fields.as_ref()?.get(field).map(String::as_str)
    }
}

/// The fields up to where the input is no JSON any more.
fn fields(input: Raw<'_>) -> Fields {
    let mut fields = Fields::new();
    let mut scanner = Scanner::new(input.bytes, 0..input.bytes.len());
    let Ok(mut members) = scanner.object() else {
        return fields;
    };
    while let Ok(Some(key)) = scanner.key(&mut members) {
        let wanted = FIELDS.into_iter().find(|field| *key == *field.as_bytes());
        let Ok(kind) = scanner.kind() else { break };
        match wanted {
            Some(field) if kind == Kind::String => {
                let Ok(range) = scanner.string() else { break };
                let (bytes, form) = (&input.bytes[range], Form::JsonString);
                fields
                    .entry(field)
                    .or_insert_with(|| Raw { bytes, form }.to_text());
            }
            _ => {
                if scanner.skip().is_err() {
                    break;
                }
            }
        }
    }
    fields
}

impl Tool {
    fn named(name: Raw<'_>) -> Self {
        match &*name.decode() {
            b"Task" | b"Agent" => Self::Agent,
            b"Workflow" => Self::Workflow,
            b"SendMessage" => Self::SendMessage,
            _ => Self::Other,
        }
    }
}
