//! The tool calls of a session's threads and the results that answer them.

use foldhash::{HashMap, HashMapExt as _};
use std::borrow::Cow;

use super::Scene;
use crate::session::assemble::Part;
use crate::session::tools::{Tool, ToolCall, ToolResult};
use crate::session::{ThreadIndex, TurnIndex};
use crate::transcript::identity::Identity;
use crate::transcript::text::{Buffers, Text};

/// The calls of the main thread and of every sub-agent.
pub(super) struct Calls<'a> {
    /// In the order of the threads and of their turns.
    pub(super) list: Vec<Call<'a>>,
    /// The places in the list of those that speak to an agent.
    pub(super) messages: Vec<usize>,
    /// The place of each in the list.
    by_id: HashMap<Identity<'a>, usize>,
}

/// One tool call, and the result that answers it in the thread of the call.
pub(super) struct Call<'a> {
    pub(super) id: Text,
    pub(super) thread: ThreadIndex,
    pub(super) turn: TurnIndex,
    pub(super) tool: Tool,
    pub(super) result: Option<&'a ToolResult>,
    call: &'a ToolCall,
}

impl<'a> Calls<'a> {
    /// Of calls with one ID the first owner's holds: the main thread, then the agents in order.
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let strands = scene.strands.iter().enumerate();
        let normal = strands.filter(|(_, strand)| !matches!(strand.who.part, Part::Service(_)));
        let normal: Vec<_> = normal.collect();
        let count = normal.iter().map(|(_, s)| s.tools.calls.len()).sum();
        let mut calls = Self {
            list: Vec::with_capacity(count),
            messages: Vec::new(),
            by_id: HashMap::with_capacity(count),
        };
        for (thread, strand) in &normal {
            for call in &strand.tools.calls {
                calls.add_call(scene.buffers, *thread, call);
            }
        }
        for (thread, strand) in &normal {
            for result in &strand.tools.results {
                calls.add_result(scene.buffers, *thread, result);
            }
        }
        calls
    }

    /// The place of the call with this ID.
    pub(super) fn find(&self, buffers: &Buffers, id: Text) -> Option<usize> {
        self.by_id.get(&Identity::named(id, buffers)).copied()
    }

    /// The place of the call whose ID is this.
    pub(super) fn named(&self, id: &[u8]) -> Option<usize> {
        self.by_id.get(&Identity::from(Cow::Borrowed(id))).copied()
    }

    fn add_call(&mut self, buffers: &'a Buffers, thread: ThreadIndex, call: &'a ToolCall) {
        let Some(id) = call.id else { return };
        let index = self.list.len();
        if *self.by_id.entry(id.identity(buffers)).or_insert(index) != index {
            return;
        }
        if call.tool == Tool::SendMessage {
            self.messages.push(index);
        }
        self.list.push(Call {
            id: id.text,
            thread,
            turn: call.turn,
            tool: call.tool,
            result: None,
            call,
        });
    }

    fn add_result(&mut self, buffers: &Buffers, thread: ThreadIndex, result: &'a ToolResult) {
        let answered = result.call.map(|call| call.identity(buffers));
        let Some(&index) = answered.and_then(|call| self.by_id.get(&call)) else {
            return;
        };
        let call = &mut self.list[index];
        if call.thread == thread && call.result.is_none() {
            call.result = Some(result);
        }
    }
}

impl<'a> Call<'a> {
    /// A top-level text field of the call's input.
    pub(super) fn input_field(&self, buffers: &Buffers, field: &str) -> Option<String> {
        self.call.input_field(buffers, field)
    }

    /// The same without a copy, of a call that has to do with agents.
    pub(super) fn agent_field(&self, field: &str) -> Option<&'a str> {
        self.call.agent_field(field)
    }
}
