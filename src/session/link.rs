//! Where each agent was spawned and where its result came back.
//!
//! Nothing places an agent but evidence (`spec/turns.md`, "Spawn and join"): not order, not nearness in time, not a parent that is
//! missing. Every kind of evidence is collected; the best kind that names a call decides, and a kind that names only other
//! calls is a conflict.

mod calls;
mod evidence;
mod join;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::transcript::group::Grouped;
use crate::transcript::text::Buffers;

use super::assemble::{Draft, Part};
use super::read::Sidecar;
use super::{Agent, Evidence, ThreadIndex};
use calls::Calls;
use evidence::{Named, gather_equal, gather_explicit, gather_sidecars};
use join::runs;

/// What linking found, for the threads in the order of the drafts.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// One for each draft that is an agent.
    pub agents: BTreeMap<ThreadIndex, Agent>,
    pub parents_absent: u64,
    pub spawns_without_transcript: u64,
    pub evidence_conflicts: u64,
}

pub(super) fn link(
    drafts: &[Draft],
    threads: &[Grouped],
    buffers: &Buffers,
    sidecars: &HashMap<String, Sidecar>,
) -> Linked {
    let calls = Calls::of(drafts, threads, buffers);
    let agents: Vec<ThreadIndex> = (0..drafts.len())
        .filter(|&i| drafts[i].part == Part::Agent)
        .collect();
    let by_id: HashMap<&str, ThreadIndex> =
        agents.iter().map(|&i| (drafts[i].id.as_str(), i)).collect();
    let mut linked = Linked::default();
    let mut named = Named::new();
    gather_explicit(drafts, threads, buffers, &calls, &by_id, &mut named);
    gather_sidecars(
        drafts,
        &agents,
        sidecars,
        &calls,
        &by_id,
        &mut named,
        &mut linked,
    );
    gather_equal(
        &agents, threads, buffers, sidecars, drafts, &calls, &mut named,
    );

    for &thread in &agents {
        let empty = BTreeMap::new();
        let (chosen, conflict) = choose(named.get(&thread).unwrap_or(&empty), &calls, thread);
        linked.evidence_conflicts += u64::from(conflict);
        let sidecar = sidecars.get(&drafts[thread].id);
        let first = chosen.first().map(|(call, _)| &calls.list[*call]);
        let described = |field: &str| first.and_then(|call| call.input_field(buffers, field));
        let agent_type = sidecar
            .and_then(|s| s.agent_type.clone())
            .or_else(|| described("subagent_type"))
            // The harness's own default for a call without a type (`formats/claude-code.md` 6.1).
            .or_else(|| first.map(|_| "general-purpose".to_owned()));
        let description = sidecar
            .and_then(|s| s.description.clone())
            .or_else(|| described("description"));
        let mut agent = Agent {
            agent_type,
            description,
            ..Agent::default()
        };
        agent.runs = runs(&chosen, &calls, &drafts[thread].id, threads, buffers);
        agent.parent = agent.runs.first().map(|run| run.spawned.thread);
        linked.agents.insert(thread, agent);
    }
    set_depths(&mut linked.agents);
    linked.spawns_without_transcript = calls.spawns_without(&linked.agents);
    linked
}

/// The calls that started an agent, each with all evidence for it, in order of place; and whether some kind of evidence names
/// only other calls. A call inside the agent's own thread cannot have started it.
///
/// A call that only an equal prompt or description names started the agent only if nothing better names any.
fn choose(
    named: &BTreeMap<Evidence, BTreeSet<usize>>,
    calls: &Calls,
    agent: ThreadIndex,
) -> (Vec<(usize, BTreeSet<Evidence>)>, bool) {
    let mut conflict = false;
    let mut chosen: BTreeMap<usize, BTreeSet<Evidence>> = BTreeMap::new();
    for (&kind, indexes) in named {
        let own = indexes
            .iter()
            .filter(|&&i| calls.list[i].thread == agent)
            .count();
        conflict |= own > 0;
        let others = || indexes.iter().filter(|&&i| calls.list[i].thread != agent);
        let explicit = kind < Evidence::Text;
        if chosen.is_empty() || (explicit && others().any(|i| chosen.contains_key(i))) {
            for &index in others() {
                chosen.entry(index).or_default().insert(kind);
            }
        } else if others().any(|i| chosen.contains_key(i)) {
            for index in others() {
                if let Some(kinds) = chosen.get_mut(index) {
                    kinds.insert(kind);
                }
            }
        } else if others().next().is_some() {
            conflict = true;
        }
    }
    let mut chosen: Vec<_> = chosen.into_iter().collect();
    chosen.sort_by_key(|(index, _)| (calls.list[*index].thread, calls.list[*index].turn, *index));
    (chosen, conflict)
}

/// Depth by walking up, each thread once, without recursion. The main thread is thread 0 with depth 0 if it is there. An agent
/// whose chain is broken or circular has no depth and no runs: nothing places it.
fn set_depths(agents: &mut BTreeMap<ThreadIndex, Agent>) {
    let parents: BTreeMap<ThreadIndex, Option<ThreadIndex>> =
        agents.iter().map(|(&i, a)| (i, a.parent)).collect();
    let mut depths: HashMap<ThreadIndex, Option<u32>> = HashMap::new();
    for &start in parents.keys() {
        let mut chain = Vec::new();
        let mut on_chain = BTreeSet::new();
        let mut at = start;
        let base = loop {
            if let Some(&known) = depths.get(&at) {
                break known;
            }
            match parents.get(&at) {
                // Not an agent: the main thread.
                None => break Some(0),
                Some(_) if !on_chain.insert(at) => break None,
                Some(&parent) => {
                    chain.push(at);
                    match parent {
                        Some(parent) => at = parent,
                        None => break None,
                    }
                }
            }
        };
        for (steps, thread) in chain.into_iter().rev().enumerate() {
            depths.insert(thread, base.map(|base| base + steps as u32 + 1));
        }
    }
    for (thread, agent) in agents {
        agent.depth = depths.get(thread).copied().flatten();
    }
}
