//! Where the result of each run entered the spawning thread.

use super::calls::{Call, Calls};
use super::{Chosen, Scene};
use crate::session::tools::{Tool, ToolResult};
use crate::session::{Join, JoinHow, Run, Spawn, ThreadIndex, TurnIndex};
use crate::transcript::group::{Grouped, PlacedFact};
use crate::transcript::line::Fact;
use crate::transcript::text::Raw;
use crate::transcript::thread::TurnKind;

/// The runs that the chosen calls started, in the order of the calls.
pub(super) fn runs(
    scene: &Scene<'_>,
    calls: &Calls<'_>,
    agent: ThreadIndex,
    chosen: &Chosen,
) -> Vec<Run> {
    let mut runs = Vec::with_capacity(chosen.len());
    for (n, (index, evidence)) in chosen.iter().enumerate() {
        let call = &calls.list[*index];
        let grouped = scene.grouped(call.thread);
        // Until the agent is started again, every notice of its end is this run's.
        let next = chosen.get(n + 1).map(|(i, _)| &calls.list[*i]);
        let until = next.filter(|c| c.thread == call.thread).map(|c| c.turn);
        let result = calls.result(scene.buffers, *index);
        let run = RunOf {
            scene,
            call,
            result,
            agent,
        };
        let joined = run.join(until);
        let concurrent_turns = joined.as_ref().and_then(|join| join.turn).map(|join| {
            let between = grouped.turns.range(call.turn + 1..join);
            let answers = between.filter(|turn| turn.kind == TurnKind::Assistant);
            answers.count() as u64
        });
        let spawned = Spawn {
            thread: call.thread,
            turn: call.turn,
            at: grouped.turns[call.turn].at,
            tool_use_id: scene.text(call.id),
            evidence: evidence.clone(),
        };
        runs.push(Run {
            spawned,
            joined,
            concurrent_turns,
        });
    }
    runs
}

/// One run of an agent: the call that started it.
struct RunOf<'a> {
    scene: &'a Scene<'a>,
    call: &'a Call<'a>,
    result: Option<&'a ToolResult>,
    agent: ThreadIndex,
}

/// What the call's own result says of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is the agent's answer.
    Here,
    /// It only says that the agent was started; the answer comes later.
    Later,
    /// The call was refused or interrupted, or has no result.
    None,
}

/// How a run ended, as the thread was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End<'a> {
    /// Background work ended in this status.
    Status(&'a str),
    /// A team member said this.
    Message(usize),
}

impl RunOf<'_> {
    /// Where the result entered the thread: the spawn's own result if it was in the foreground; else the earliest line of the
    /// thread that carries the final notification or poll result, or a member's last message; a queue line only if there is
    /// nothing else.
    fn join(&self, until: Option<TurnIndex>) -> Option<Join> {
        let grouped = self.scene.grouped(self.call.thread);
        if let (Answer::Here, Some(result)) = (self.answer(grouped), self.result) {
            return Some(Join {
                turn: Some(result.turn),
                at: grouped.turns[result.turn].at,
                how: JoinHow::Result,
            });
        }
        let within = |placed: &&PlacedFact| {
            placed.after > self.call.turn && until.is_none_or(|until| placed.after <= until)
        };
        let task = self.run_task(grouped);
        let name = self.call.input_field(self.scene.buffers, "name");
        let facts = grouped.facts.iter().enumerate();
        let ends = facts.filter(|(_, placed)| within(placed));
        let ends = ends.filter_map(|(i, placed)| {
            let (end, how) = self.end(i, &placed.fact, task.as_deref(), name.as_deref())?;
            Some((placed, end, how))
        });
        let (in_thread, queued): (Vec<_>, Vec<_>) =
            ends.partition(|(placed, ..)| placed.turn.is_some());
        let is_queued = in_thread.is_empty();
        let ends = if is_queued { queued } else { in_thread };
        // Several notices may tell one end; what was told last is how the run ended.
        let (_, last, _) = ends.last()?;
        let (placed, _, how) = ends.iter().find(|(_, end, _)| end == last)?;
        Some(Join {
            turn: placed.turn,
            at: placed.at,
            how: if is_queued { JoinHow::Queue } else { *how },
        })
    }

    fn answer(&self, grouped: &Grouped) -> Answer {
        let Some(result) = self.result else {
            return Answer::None;
        };
        let is_ours = |id| self.scene.same(id, self.call.id);
        let structured = grouped.facts.iter().find_map(|placed| match &placed.fact {
            Fact::AgentResult { call, launched, .. } if is_ours(*call) => Some(*launched),
            Fact::RunLaunched { call, .. } | Fact::TeammateSpawned { call, .. }
                if is_ours(*call) =>
            {
                Some(true)
            }
            _ => None,
        });
        let first = result.first_text.map(|text| self.scene.buffers.raw(text));
        // A message that continues an agent is answered at once only by a structured result.
        let says_later =
            self.call.tool == Tool::SendMessage || first.is_some_and(is_launch_message);
        if structured.is_none() && result.is_error {
            Answer::None
        } else if structured.unwrap_or(says_later) {
            Answer::Later
        } else {
            Answer::Here
        }
    }

    /// What end of this run a fact tells, if it tells one. `place` is the fact's own, which makes each message an end of its own;
    /// a record of the host among a member's messages is nothing that the member said.
    fn end<'f>(
        &self,
        place: usize,
        fact: &'f Fact,
        task: Option<&str>,
        name: Option<&str>,
    ) -> Option<(End<'f>, JoinHow)> {
        let id = &self.scene.who(self.agent).id;
        match fact {
            Fact::Notification(news) => {
                let of_call = |named: &String| self.scene.says(self.call.id, named);
                let is_ours = news.call.as_ref().is_some_and(of_call)
                    || news.task == *id
                    || task == Some(&news.task);
                let status = news.status.as_deref().filter(|_| is_ours)?;
                Some((End::Status(status), JoinHow::Notification))
            }
            Fact::Poll { task } => {
                let is_ours = self.scene.says(*task, id);
                is_ours.then_some((End::Status("completed"), JoinHow::Poll))
            }
            Fact::TeammateMessage { from, is_record } => {
                let is_ours = name.is_some_and(|name| self.scene.says(*from, name));
                (is_ours && !is_record).then_some((End::Message(place), JoinHow::Message))
            }
            Fact::AgentResult { .. }
            | Fact::RunLaunched { .. }
            | Fact::TeammateSpawned { .. }
            | Fact::Progress { .. } => None,
        }
    }

    /// The ID under which the end of a workflow's run is notified.
    fn run_task(&self, grouped: &Grouped) -> Option<String> {
        grouped.facts.iter().find_map(|placed| match &placed.fact {
            Fact::RunLaunched { call, task, .. } if self.scene.same(*call, self.call.id) => {
                Some(self.scene.text((*task)?))
            }
            _ => None,
        })
    }
}

/// What a tool says that only started an agent: it is no answer.
pub(super) fn is_launch_message(raw: Raw<'_>) -> bool {
    let text = raw.decode();
    let text = text.trim_ascii_start();
    [
        &b"Async agent launched"[..],
        b"Spawned successfully",
        b"Workflow launched",
    ]
    .iter()
    .any(|words| text.starts_with(words))
}
