//! The tool calls of a session's threads and the results that answer them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::session::assemble::{Draft, Part};
use crate::session::{Agent, ThreadIndex, TurnIndex};
use crate::transcript::group::Grouped;
use crate::transcript::json::{Kind, Scanner};
use crate::transcript::text::{Buffers, Form, Raw, Text};
use crate::transcript::thread::Block;

/// The tools that start a sub-agent. Others that only have such a word in their name are to-do lists or serve shells.
const AGENT_TOOLS: [&str; 2] = ["Task", "Agent"];

/// One tool call of the main thread or an agent's.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) thread: ThreadIndex,
    pub(super) turn: TurnIndex,
    pub(super) is_agent_tool: bool,
    pub(super) input: Option<Text>,
    pub(super) result: Option<CallResult>,
}

/// The result that answers a call, in the thread of the call.
pub(super) struct CallResult {
    pub(super) turn: TurnIndex,
    pub(super) is_error: bool,
    pub(super) last_text: Option<Text>,
    pub(super) first_text: Option<Text>,
}

pub(super) struct Calls {
    pub(super) list: Vec<Call>,
    pub(super) by_id: HashMap<String, usize>,
}

impl Calls {
    /// Of calls with one ID the first owner's holds: the main thread, then the agents in order.
    pub(super) fn of(drafts: &[Draft], threads: &[Grouped], buffers: &Buffers) -> Self {
        let mut calls = Self {
            list: Vec::new(),
            by_id: HashMap::new(),
        };
        let normal = || (0..drafts.len()).filter(|&i| !matches!(drafts[i].part, Part::Service(_)));
        for thread in normal() {
            for (turn, block) in blocks(&threads[thread]) {
                let Block::ToolCall {
                    id: Some(id),
                    name,
                    input,
                } = block
                else {
                    continue;
                };
                let id = buffers.raw(*id).to_text();
                let index = calls.list.len();
                if *calls.by_id.entry(id.clone()).or_insert(index) != index {
                    continue;
                }
                let is_agent_tool = name.is_some_and(|name| {
                    let name = buffers.raw(name).decode();
                    AGENT_TOOLS.iter().any(|tool| tool.as_bytes() == &*name)
                });
                calls.list.push(Call {
                    id,
                    thread,
                    turn,
                    is_agent_tool,
                    input: *input,
                    result: None,
                });
            }
        }
        for thread in normal() {
            for (turn, block) in blocks(&threads[thread]) {
                let Block::ToolResult {
                    call: Some(call),
                    is_error,
                    content,
                } = block
                else {
                    continue;
                };
                let Some(call) = calls.find(buffers, *call).map(|i| &mut calls.list[i]) else {
                    continue;
                };
                if call.thread == thread && call.result.is_none() {
                    let mut texts = content.iter().filter_map(|block| match block {
                        Block::Text(text) => Some(*text),
                        _ => None,
                    });
                    let first_text = texts.next();
                    let last_text = texts.next_back().or(first_text);
                    call.result = Some(CallResult {
                        turn,
                        is_error: *is_error,
                        last_text,
                        first_text,
                    });
                }
            }
        }
        calls
    }

    pub(super) fn find(&self, buffers: &Buffers, id: Text) -> Option<usize> {
        self.by_id
            .get(&*String::from_utf8_lossy(&buffers.raw(id).decode()))
            .copied()
    }

    /// Calls of an agent tool that started something and that no agent's run belongs to.
    pub(super) fn spawns_without(&self, agents: &BTreeMap<ThreadIndex, Agent>) -> u64 {
        let told: BTreeSet<&str> = agents
            .values()
            .flat_map(|agent| &agent.runs)
            .map(|run| run.spawned.tool_use_id.as_str())
            .collect();
        // A refused or failed call started nothing.
        let started =
            |call: &&Call| call.is_agent_tool && !call.result.as_ref().is_some_and(|r| r.is_error);
        self.list
            .iter()
            .filter(started)
            .filter(|call| !told.contains(call.id.as_str()))
            .count() as u64
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
                return Some(
                    Raw {
                        bytes: &raw.bytes[range],
                        form: Form::JsonString,
                    }
                    .to_text(),
                );
            }
            scanner.skip().ok()?;
        }
        None
    }
}

fn blocks(grouped: &Grouped) -> impl Iterator<Item = (TurnIndex, &Block)> {
    grouped
        .turns
        .iter()
        .enumerate()
        .flat_map(|(i, turn)| turn.blocks.iter().map(move |block| (i, block)))
}
