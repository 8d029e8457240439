//! Where each agent was spawned and where its result came back.
//!
//! Nothing places an agent but evidence (`spec/turns.md`, "Spawn and join"): not order, not nearness in time, not a parent that is
//! missing. Every kind of evidence is collected; the best kind that names a call decides, and a kind that names only other
//! calls is a conflict.

mod calls;
mod depth;
mod evidence;
mod join;

use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::transcript::group::Grouped;
use crate::transcript::text::{Buffers, Text};

use super::assemble::{Part, Who};
use super::sidecar::{RunRecord, Sidecar};
use super::strand::Strand;
use super::tools::Tool;
use super::{Agent, Evidence, ThreadIndex};
use calls::Calls;
use evidence::{continued, gather};

/// What linking found, for the threads in the order of the drafts.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// One for each draft that is an agent.
    pub agents: BTreeMap<ThreadIndex, Agent>,
    pub parents_absent: u64,
    pub spawns_without_transcript: u64,
    pub evidence_conflicts: u64,
}

/// Everything that places agents.
pub(super) struct Scene<'a> {
    pub strands: &'a [Arc<Strand>],
    pub buffers: &'a Buffers,
    /// By agent ID.
    pub sidecars: &'a HashMap<String, Sidecar>,
    /// By the workflow run's ID.
    pub runs: &'a BTreeMap<String, RunRecord>,
}

impl Scene<'_> {
    fn agents(&self) -> impl Iterator<Item = ThreadIndex> + '_ {
        (0..self.strands.len()).filter(|&i| self.who(i).part == Part::Agent)
    }

    fn who(&self, thread: ThreadIndex) -> &Who {
        &self.strands[thread].who
    }

    fn grouped(&self, thread: ThreadIndex) -> &Grouped {
        &self.strands[thread].grouped
    }

    fn sidecar(&self, agent: ThreadIndex) -> Option<&Sidecar> {
        self.sidecars.get(&self.who(agent).id)
    }

    /// Whether a stored text says just this.
    fn says(&self, text: Text, words: &str) -> bool {
        *self.buffers.raw(text).decode() == *words.as_bytes()
    }

    /// Whether two stored texts say the same.
    fn same(&self, one: Text, other: Text) -> bool {
        self.buffers.raw(one).decode() == self.buffers.raw(other).decode()
    }

    fn text(&self, text: Text) -> String {
        self.buffers.raw(text).to_text()
    }
}

/// The calls that started or continued one agent, each with all evidence for it, in order of place.
type Chosen = Vec<(usize, BTreeSet<Evidence>)>;

pub(super) fn link(scene: &Scene<'_>) -> Linked {
    let calls = Calls::of(scene);
    let mut linked = Linked::default();
    let named = gather(scene, &calls, &mut linked.parents_absent);
    for thread in scene.agents() {
        let mut kinds = named.get(&thread).cloned().unwrap_or_default();
        let mut continued = continued(scene, &calls, thread);
        // What is said of a call that continued the agent says nothing of the one that started it.
        for (kind, indexes) in &mut kinds {
            indexes.retain(|index| match continued.get_mut(index) {
                Some(evidence) => {
                    evidence.insert(*kind);
                    false
                }
                None => true,
            });
        }
        kinds.retain(|_, indexes| !indexes.is_empty());
        continued.retain(|_, evidence| !evidence.is_empty());
        let (mut chosen, conflict) = choose(&kinds, &calls, thread);
        linked.evidence_conflicts += u64::from(conflict);
        if !chosen.is_empty() {
            chosen.extend(continued);
            chosen.sort_by_key(|(i, _)| (calls.list[*i].thread, calls.list[*i].turn, *i));
        }
        let mut agent = described(scene, &calls, thread, &chosen);
        agent.runs = join::runs(scene, &calls, thread, &chosen);
        agent.parent = agent.runs.first().map(|run| run.spawned.thread);
        linked.agents.insert(thread, agent);
    }
    linked.evidence_conflicts += depth::set(&mut linked.agents);
    linked.spawns_without_transcript = spawns_without_transcript(scene, &calls, &linked.agents);
    linked
}

/// The agent's type and description: as its sidecar has them, else its run's record, else the call that started it.
fn described(scene: &Scene<'_>, calls: &Calls<'_>, agent: ThreadIndex, chosen: &Chosen) -> Agent {
    let sidecar = scene.sidecar(agent);
    let who = scene.who(agent);
    let record = who.run.as_ref().and_then(|run| scene.runs.get(run));
    let label = record.and_then(|record| record.labels.get(&who.id));
    let first = chosen.first().map(|(call, _)| &calls.list[*call]);
    let asked = |field: &str| first.and_then(|call| call.input_field(scene.buffers, field));
    let spawned_plainly = first.is_some_and(|call| call.tool == Tool::Agent);
    Agent {
        agent_type: sidecar
            .and_then(|s| s.agent_type.clone())
            .or_else(|| asked("subagent_type"))
            // The harness's own default for a call without a type (`formats/claude-code.md` 6.1).
            .or_else(|| spawned_plainly.then(|| "general-purpose".to_owned())),
        description: sidecar
            .and_then(|s| s.description.clone())
            .or_else(|| label.cloned())
            .or_else(|| asked("description")),
        ..Agent::default()
    }
}

/// The calls that started an agent, and whether some kind of evidence names only other calls. A call inside the agent's own
/// thread cannot have started it.
///
/// A kind as good as an ID that names a chosen call names further runs with its other calls. What stands in a result's text, or
/// is only equal, never adds a call to those that an ID names.
fn choose(
    named: &BTreeMap<Evidence, BTreeSet<usize>>,
    calls: &Calls<'_>,
    agent: ThreadIndex,
) -> (Chosen, bool) {
    let mut conflict = false;
    let mut chosen: BTreeMap<usize, BTreeSet<Evidence>> = BTreeMap::new();
    for (&kind, indexes) in named {
        let is_own = |index: &&usize| calls.list[**index].thread == agent;
        conflict |= indexes.iter().any(|index| is_own(&index));
        let others: Vec<usize> = indexes.iter().filter(|i| !is_own(i)).copied().collect();
        let agrees = others.iter().any(|index| chosen.contains_key(index));
        if chosen.is_empty() || (agrees && kind < Evidence::Text) {
            for index in others {
                chosen.entry(index).or_default().insert(kind);
            }
        } else if agrees {
            for index in others {
                chosen.entry(index).and_modify(|kinds| {
                    kinds.insert(kind);
                });
            }
        } else {
            conflict |= !others.is_empty();
        }
    }
    (chosen.into_iter().collect(), conflict)
}

/// Calls that started something of which there is no thread: calls of an agent tool that no agent's run belongs to, and
/// workflow agents that the run's record or journal names.
fn spawns_without_transcript(
    scene: &Scene<'_>,
    calls: &Calls<'_>,
    agents: &BTreeMap<ThreadIndex, Agent>,
) -> u64 {
    let runs = agents.values().flat_map(|agent| &agent.runs);
    let told: BTreeSet<&str> = runs.map(|run| run.spawned.tool_use_id.as_str()).collect();
    // A refused or failed call started nothing.
    let failed = |call| {
        let result = calls.result(scene.buffers, call);
        result.is_some_and(|result| result.is_error)
    };
    let spawns = calls.list.iter().enumerate();
    let started = spawns.filter(|(i, call)| call.tool == Tool::Agent && !failed(*i));
    let untold = started.filter(|(_, call)| !told.contains(scene.text(call.id).as_str()));
    let there: BTreeSet<&str> = scene.agents().map(|i| scene.who(i).id.as_str()).collect();
    let recorded = scene.runs.values().flat_map(|record| &record.agents);
    let gone = recorded.filter(|agent| !there.contains(agent.as_str()));
    (untold.count() + gone.count()) as u64
}
