//! The tool calls of a session's threads and the results that answer them.

use foldhash::{HashMap, HashMapExt as _};
use std::borrow::Cow;

use super::Scene;
use crate::session::assemble::Part;
use crate::session::{ThreadIndex, TurnIndex};
use crate::transcript::group::Grouped;
use crate::transcript::json::{Kind, Scanner};
use crate::transcript::text::{Buffers, Form, Raw, Text};
use crate::transcript::thread::Block;

/// The calls of the main thread and of every sub-agent.
pub(super) struct Calls<'a> {
    /// In the order of the threads and of their turns.
    pub(super) list: Vec<Call>,
    /// The places in the list of those that speak to an agent.
    pub(super) messages: Vec<usize>,
    /// The place of each in the list.
    by_id: HashMap<Cow<'a, [u8]>, usize>,
}

/// One tool call.
pub(super) struct Call {
    pub(super) id: Text,
    pub(super) thread: ThreadIndex,
    pub(super) turn: TurnIndex,
    pub(super) tool: Tool,
    pub(super) input: Option<Text>,
    pub(super) result: Option<CallResult>,
}

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

/// The result that answers a call, in the thread of the call.
pub(super) struct CallResult {
    pub(super) turn: TurnIndex,
    pub(super) is_error: bool,
    pub(super) first_text: Option<Text>,
    pub(super) last_text: Option<Text>,
}

impl<'a> Calls<'a> {
    /// Of calls with one ID the first owner's holds: the main thread, then the agents in order.
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let mut calls = Self {
            list: Vec::new(),
            messages: Vec::new(),
            by_id: HashMap::new(),
        };
        let drafts = scene.drafts.iter().enumerate();
        let normal = drafts.filter(|(_, draft)| !matches!(draft.part, Part::Service(_)));
        let threads: Vec<ThreadIndex> = normal.map(|(thread, _)| thread).collect();
        for &thread in &threads {
            calls.add_calls(scene, thread);
        }
        for &thread in &threads {
            calls.add_results(scene, thread);
        }
        calls
    }

    /// The place of the call with this ID.
    pub(super) fn find(&self, buffers: &Buffers, id: Text) -> Option<usize> {
        self.named(&buffers.raw(id).decode())
    }

    /// The place of the call whose ID is this.
    pub(super) fn named(&self, id: &[u8]) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    fn add_calls(&mut self, scene: &Scene<'a>, thread: ThreadIndex) {
        for (turn, block) in blocks(&scene.threads[thread]) {
            let Block::ToolCall {
                id: Some(id),
                name,
                input,
            } = block
            else {
                continue;
            };
            let index = self.list.len();
            let of_this_id = self.by_id.entry(scene.buffers.raw(*id).decode());
            if *of_this_id.or_insert(index) == index {
                let tool = name.map_or(Tool::Other, |name| Tool::named(scene.buffers.raw(name)));
                if tool == Tool::SendMessage {
                    self.messages.push(index);
                }
                let (input, result) = (*input, None);
                self.list.push(Call {
                    id: *id,
                    thread,
                    turn,
                    tool,
                    input,
                    result,
                });
            }
        }
    }

    fn add_results(&mut self, scene: &Scene<'a>, thread: ThreadIndex) {
        for (turn, block) in blocks(&scene.threads[thread]) {
            let Block::ToolResult {
                call: Some(call),
                is_error,
                content,
            } = block
            else {
                continue;
            };
            let Some(index) = self.find(scene.buffers, *call) else {
                continue;
            };
            let call = &mut self.list[index];
            if call.thread == thread && call.result.is_none() {
                let mut texts = content.iter().filter_map(|block| match block {
                    Block::Text(text) => Some(*text),
                    _ => None,
                });
                let first_text = texts.next();
                call.result = Some(CallResult {
                    turn,
                    is_error: *is_error,
                    first_text,
                    last_text: texts.next_back().or(first_text),
                });
            }
        }
    }
}

impl Call {
    /// A top-level text field of the call's input.
    pub(super) fn input_field(&self, buffers: &Buffers, field: &str) -> Option<String> {
        let raw = buffers.raw(self.input?);
        let mut scanner = Scanner::new(raw.bytes, 0..raw.bytes.len());
        let mut members = scanner.object().ok()?;
        while let Some(key) = scanner.key(&mut members).ok()? {
            if *key == *field.as_bytes() && scanner.kind().ok()? == Kind::String {
                let range = scanner.string().ok()?;
                let (bytes, form) = (&raw.bytes[range], Form::JsonString);
                return Some(Raw { bytes, form }.to_text());
            }
            scanner.skip().ok()?;
        }
        None
    }
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

fn blocks(grouped: &Grouped) -> impl Iterator<Item = (TurnIndex, &Block)> {
    let turns = grouped.turns.iter().enumerate();
    turns.flat_map(|(i, turn)| turn.blocks.iter().map(move |block| (i, block)))
}
