//! The tool calls of a session's threads and the results that answer them.

use foldhash::{HashMap, HashMapExt as _, HashSet};
use std::borrow::Cow;
use std::cell::OnceCell;

use super::Scene;
use crate::session::assemble::Part;
use crate::session::strand::Strand;
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
    threads: Vec<(ThreadIndex, &'a Strand)>,
    agents_results: OnceCell<Answers<'a>>,
    other_results: OnceCell<Answers<'a>>,
}

/// The results of calls, by the calls' places in the list.
type Answers<'a> = HashMap<usize, &'a ToolResult>;

/// One tool call.
pub(super) struct Call<'a> {
    pub(super) id: Text,
    pub(super) thread: ThreadIndex,
    pub(super) turn: TurnIndex,
    pub(super) tool: Tool,
    hash: u64,
    asked: &'a ToolCall,
}

impl<'a> Calls<'a> {
    /// Of calls with one ID the first owner's holds: the main thread, then the agents in order.
    pub(super) fn of(scene: &Scene<'a>) -> Self {
        let strands = scene.strands.iter().map(|strand| &**strand).enumerate();
        let normal = strands.filter(|(_, strand)| !matches!(strand.who.part, Part::Service(_)));
        let threads: Vec<_> = normal.collect();
        let count = threads.iter().map(|(_, s)| s.tools.calls.len()).sum();
        let mut calls = Self {
            list: Vec::with_capacity(count),
            messages: Vec::new(),
            by_id: HashMap::with_capacity(count),
            threads: Vec::new(),
            agents_results: OnceCell::new(),
            other_results: OnceCell::new(),
        };
        for (thread, strand) in &threads {
            for call in &strand.tools.calls {
                calls.add_call(scene.buffers, *thread, call);
            }
        }
        calls.threads = threads;
        calls
    }

    /// The result that answers a call first, in the thread of the call.
    pub(super) fn result(&self, buffers: &Buffers, call: usize) -> Option<&'a ToolResult> {
        // Most calls have nothing to do with agents, and hardly ever does anybody ask for the result of one.
        let is_other = self.list[call].tool == Tool::Other;
        let results = if is_other {
            &self.other_results
        } else {
            &self.agents_results
        };
        let results = results.get_or_init(|| self.results(buffers, is_other));
        results.get(&call).copied()
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
            hash: id.hash(),
            asked: call,
        });
    }

    /// The results of the calls that have to do with agents, or of the others.
    fn results(&self, buffers: &Buffers, other: bool) -> Answers<'a> {
        let is_wanted = |call: &Call<'_>| (call.tool == Tool::Other) == other;
        let wanted = self.list.iter().filter(|call| is_wanted(call));
        let wanted: HashSet<u64> = wanted.map(|call| call.hash).collect();
        let mut answers = Answers::new();
        for (thread, strand) in &self.threads {
            let results = strand.tools.results.iter();
            for (result, id) in results.filter_map(|result| Some((result, result.call?))) {
                if !wanted.contains(&id.hash()) {
                    continue;
                }
                let call = self.by_id.get(&id.identity(buffers)).copied();
                let call = call.filter(|&call| self.list[call].thread == *thread);
                if let Some(call) = call.filter(|&call| is_wanted(&self.list[call])) {
                    answers.entry(call).or_insert(result);
                }
            }
        }
        answers
    }
}

impl<'a> Call<'a> {
    /// A top-level text field of the call's input.
    pub(super) fn input_field(&self, buffers: &Buffers, field: &str) -> Option<String> {
        self.asked.input_field(buffers, field)
    }

    /// The same without a copy, of a call that has to do with agents.
    pub(super) fn agent_field(&self, field: &str) -> Option<&'a str> {
        self.asked.agent_field(field)
    }
}
