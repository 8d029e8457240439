//! Where the result of each run entered the spawning thread.

use std::collections::BTreeSet;

use super::calls::{Call, Calls};
use crate::session::{Evidence, Join, JoinHow, Run, Spawn, TurnIndex};
use crate::transcript::group::{Grouped, PlacedFact};
use crate::transcript::line::Fact;
use crate::transcript::text::{Buffers, Raw, Text};
use crate::transcript::thread::TurnKind;

/// The runs that the chosen calls started, in the order of the calls.
pub(super) fn runs(
    chosen: &[(usize, BTreeSet<Evidence>)],
    calls: &Calls,
    agent_id: &str,
    threads: &[Grouped],
    buffers: &Buffers,
) -> Vec<Run> {
    let mut runs = Vec::with_capacity(chosen.len());
    for (n, (index, evidence)) in chosen.iter().enumerate() {
        let call = &calls.list[*index];
        let grouped = &threads[call.thread];
        // Until the agent is started again, every notice of its end is this run's.
        let until = chosen
            .get(n + 1)
            .map(|(i, _)| &calls.list[*i])
            .filter(|c| c.thread == call.thread)
            .map(|c| c.turn);
        let joined = join(call, agent_id, grouped, until, buffers);
        let concurrent_turns = joined.as_ref().and_then(|join| join.turn).map(|join| {
            let between = grouped.turns.get(call.turn + 1..join).unwrap_or_default();
            between
                .iter()
                .filter(|turn| turn.kind == TurnKind::Assistant)
                .count() as u64
        });
        let spawned = Spawn {
            thread: call.thread,
            turn: call.turn,
            at: grouped.turns[call.turn].at,
            tool_use_id: call.id.clone(),
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

/// Where a run's result entered the thread: the spawn's own result if it was in the foreground; else the earliest line of the
/// thread that carries the final notification or poll result; a queue line only if there is nothing else.
fn join(
    call: &Call,
    agent_id: &str,
    grouped: &Grouped,
    until: Option<TurnIndex>,
    buffers: &Buffers,
) -> Option<Join> {
    let result = call.result.as_ref();
    let is_call = |id: Text| *buffers.raw(id).decode() == *call.id.as_bytes();
    let structured = grouped.facts.iter().find_map(|placed| match &placed.fact {
        Fact::AgentResult { call, launched, .. } if is_call(*call) => Some(*launched),
        _ => None,
    });
    let says_launched = result
        .and_then(|r| r.first_text)
        .is_some_and(|text| is_launch_message(buffers.raw(text)));
    if let Some(result) = result {
        let answered = match structured {
            Some(launched) => !launched,
            // A refused or interrupted call has an error and no agent in it.
            None => !result.is_error && !says_launched,
        };
        if answered {
            let at = grouped.turns[result.turn].at;
            return Some(Join {
                turn: Some(result.turn),
                at,
                how: JoinHow::Result,
            });
        }
    }
    let within = |placed: &&PlacedFact| {
        placed.after > call.turn && until.is_none_or(|until| placed.after <= until)
    };
    let how = |fact: &Fact| match fact {
        Fact::Notification(news) => {
            let ours = news.call.as_deref() == Some(&call.id)
                || (news.call.is_none() && news.task == agent_id);
            (ours && news.status.is_some()).then_some(JoinHow::Notification)
        }
        Fact::Poll { task } => {
            (*buffers.raw(*task).decode() == *agent_id.as_bytes()).then_some(JoinHow::Poll)
        }
        Fact::AgentResult { .. } | Fact::Progress { .. } => None,
    };
    let news: Vec<_> = grouped
        .facts
        .iter()
        .filter(within)
        .filter_map(|p| Some((p, how(&p.fact)?)))
        .collect();
    let in_thread = news.iter().find(|(placed, _)| placed.turn.is_some());
    let (placed, how) = in_thread.or(news.first())?;
    let how = if placed.turn.is_some() {
        *how
    } else {
        JoinHow::Queue
    };
    Some(Join {
        turn: placed.turn,
        at: placed.at,
        how,
    })
}

/// What a tool says that only started an agent: it is no answer.
fn is_launch_message(raw: Raw<'_>) -> bool {
    let text = raw.decode();
    let text = text.trim_ascii_start();
    text.starts_with(b"Async agent launched") || text.starts_with(b"Spawned successfully")
}
