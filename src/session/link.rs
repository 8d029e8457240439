//! Where each agent was spawned and where its result came back.
//!
//! Nothing places an agent but evidence (`spec/turns.md`, "Spawn and join"): not order, not nearness in time, not a parent that is
//! missing. Every kind of evidence is collected; the best kind that names a call decides, and a kind that names only other
//! calls is a conflict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::transcript::group::{Grouped, PlacedFact};
use crate::transcript::json::{Kind, Scanner};
use crate::transcript::line::Fact;
use crate::transcript::text::{Buffers, Form, Raw, Text};
use crate::transcript::thread::{Block, TurnKind};

use super::assemble::{Draft, Part};
use super::read::Sidecar;
use super::{Agent, Evidence, Join, JoinHow, Run, Spawn, ThreadIndex, TurnIndex};

/// What linking found, for the threads in the order of the drafts.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// One for each draft that is an agent.
    pub agents: BTreeMap<ThreadIndex, Agent>,
    pub parents_absent: u64,
    pub spawns_without_transcript: u64,
    pub evidence_conflicts: u64,
}

/// The tools that start a sub-agent. Others that only have such a word in their name are to-do lists or serve shells.
const AGENT_TOOLS: [&str; 2] = ["Task", "Agent"];

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
        agent.runs = runs(
            &chosen,
            &calls,
            thread,
            &drafts[thread].id,
            threads,
            buffers,
        );
        agent.parent = agent.runs.first().map(|run| run.spawned.thread);
        linked.agents.insert(thread, agent);
    }
    set_depths(&mut linked.agents);
    linked.spawns_without_transcript = calls.spawns_without(&linked.agents);
    linked
}

/// One tool call of the main thread or an agent's.
struct Call {
    id: String,
    thread: ThreadIndex,
    turn: TurnIndex,
    is_agent_tool: bool,
    input: Option<Text>,
    result: Option<CallResult>,
}

/// The result that answers a call, in the thread of the call.
struct CallResult {
    turn: TurnIndex,
    is_error: bool,
    last_text: Option<Text>,
    first_text: Option<Text>,
}

struct Calls {
    list: Vec<Call>,
    by_id: HashMap<String, usize>,
}

/// By agent, by kind of evidence, the calls that it names, as indexes into [`Calls::list`].
type Named = HashMap<ThreadIndex, BTreeMap<Evidence, BTreeSet<usize>>>;

impl Calls {
    /// Of calls with one ID the first owner's holds: the main thread, then the agents in order.
    fn of(drafts: &[Draft], threads: &[Grouped], buffers: &Buffers) -> Self {
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

    fn find(&self, buffers: &Buffers, id: Text) -> Option<usize> {
        self.by_id
            .get(&*String::from_utf8_lossy(&buffers.raw(id).decode()))
            .copied()
    }

    /// Calls of an agent tool that started something and that no agent's run belongs to.
    fn spawns_without(&self, agents: &BTreeMap<ThreadIndex, Agent>) -> u64 {
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
    fn input_field(&self, buffers: &Buffers, field: &str) -> Option<String> {
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

/// Structured results, progress lines, notifications, and the agent's ID at the end of a result's text.
fn gather_explicit(
    drafts: &[Draft],
    threads: &[Grouped],
    buffers: &Buffers,
    calls: &Calls,
    by_id: &HashMap<&str, ThreadIndex>,
    named: &mut Named,
) {
    let agent_of = |id: Text| {
        by_id
            .get(&*String::from_utf8_lossy(&buffers.raw(id).decode()))
            .copied()
    };
    let mut add = |agent: Option<ThreadIndex>, kind, call: Option<usize>| {
        if let (Some(agent), Some(call)) = (agent, call) {
            named
                .entry(agent)
                .or_default()
                .entry(kind)
                .or_default()
                .insert(call);
        }
    };
    for (thread, grouped) in threads.iter().enumerate() {
        if matches!(drafts[thread].part, Part::Service(_)) {
            continue;
        }
        for PlacedFact { fact, .. } in &grouped.facts {
            match fact {
                // Only a tool that starts agents says with an agent's ID that it started one.
                Fact::AgentResult { call, agent, .. } => {
                    let call = calls
                        .find(buffers, *call)
                        .filter(|&call| calls.list[call].is_agent_tool);
                    add(agent_of(*agent), Evidence::Result, call);
                }
                Fact::Progress { call, agent } => add(
                    agent_of(*agent),
                    Evidence::Progress,
                    calls.find(buffers, *call),
                ),
                Fact::Notification(news) => {
                    let call = news
                        .call
                        .as_ref()
                        .and_then(|call| calls.by_id.get(call))
                        .copied();
                    add(
                        by_id.get(news.task.as_str()).copied(),
                        Evidence::Notification,
                        call,
                    );
                }
                Fact::Poll { .. } => {}
            }
        }
    }
    for (index, call) in calls
        .list
        .iter()
        .enumerate()
        .filter(|(_, call)| call.is_agent_tool)
    {
        let text = call.result.as_ref().and_then(|result| result.last_text);
        let id = text.and_then(|text| trailing_agent_id(&buffers.raw(text).decode()));
        add(
            id.and_then(|id| by_id.get(id.as_str()).copied()),
            Evidence::Text,
            Some(index),
        );
    }
}

fn gather_sidecars(
    drafts: &[Draft],
    agents: &[ThreadIndex],
    sidecars: &HashMap<String, Sidecar>,
    calls: &Calls,
    by_id: &HashMap<&str, ThreadIndex>,
    named: &mut Named,
    linked: &mut Linked,
) {
    for &agent in agents {
        let Some(sidecar) = sidecars.get(&drafts[agent].id) else {
            continue;
        };
        let call = sidecar
            .tool_use_id
            .as_ref()
            .map(|id| calls.by_id.get(id).copied());
        if let Some(Some(call)) = call {
            named
                .entry(agent)
                .or_default()
                .entry(Evidence::Sidecar)
                .or_default()
                .insert(call);
        }
        let parent_absent = sidecar
            .parent_agent
            .as_ref()
            .is_some_and(|id| !by_id.contains_key(id.as_str()));
        linked.parents_absent += u64::from(parent_absent || call == Some(None));
    }
}

/// A prompt, then a description, that is equal and unique on both sides.
fn gather_equal(
    agents: &[ThreadIndex],
    threads: &[Grouped],
    buffers: &Buffers,
    sidecars: &HashMap<String, Sidecar>,
    drafts: &[Draft],
    calls: &Calls,
    named: &mut Named,
) {
    let first_task = |&agent: &ThreadIndex| {
        let turn = threads[agent]
            .turns
            .iter()
            .find(|turn| turn.kind == TurnKind::Task)?;
        let text = turn.blocks.iter().find_map(|block| match block {
            Block::Text(text) => Some(buffers.raw(*text).to_text().trim().to_owned()),
            _ => None,
        })?;
        Some((text, agent))
    };
    let describe = |&agent: &ThreadIndex| {
        let description = sidecars.get(&drafts[agent].id)?.description.as_ref()?;
        Some((description.trim().to_owned(), agent))
    };
    let spawns = calls
        .list
        .iter()
        .enumerate()
        .filter(|(_, call)| call.is_agent_tool);
    let field = |name: &'static str| {
        let trimmed = move |(i, call): (usize, &Call)| {
            Some((call.input_field(buffers, name)?.trim().to_owned(), i))
        };
        unique(spawns.clone().filter_map(trimmed))
    };
    for (kind, ours, theirs) in [
        (
            Evidence::Prompt,
            unique(agents.iter().filter_map(first_task)),
            field("prompt"),
        ),
        (
            Evidence::Description,
            unique(agents.iter().filter_map(describe)),
            field("description"),
        ),
    ] {
        for (text, agent) in ours {
            if let (false, Some(&call)) = (text.is_empty(), theirs.get(&text)) {
                named
                    .entry(agent)
                    .or_default()
                    .entry(kind)
                    .or_default()
                    .insert(call);
            }
        }
    }
}

/// Only those keys that occur once.
fn unique<T>(pairs: impl Iterator<Item = (String, T)>) -> HashMap<String, T> {
    let mut map: HashMap<String, Option<T>> = HashMap::new();
    for (key, value) in pairs {
        map.entry(key)
            .and_modify(|seen| *seen = None)
            .or_insert(Some(value));
    }
    map.into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
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

fn runs(
    chosen: &[(usize, BTreeSet<Evidence>)],
    calls: &Calls,
    agent: ThreadIndex,
    agent_id: &str,
    threads: &[Grouped],
    buffers: &Buffers,
) -> Vec<Run> {
    let _ = agent;
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

/// The agent's ID at the end of a result's text: `agentId: <id> (…)`, on a line of its own.
fn trailing_agent_id(text: &[u8]) -> Option<String> {
    const WORD: &[u8] = b"agentId: ";
    let at = memchr::memmem::rfind(text, WORD)?;
    if at > 0 && text[at - 1] != b'\n' && text[at - 1] != b' ' {
        return None;
    }
    let id = &text[at + WORD.len()..];
    let len = id
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        .count();
    (len > 0).then(|| String::from_utf8_lossy(&id[..len]).into_owned())
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

fn blocks(grouped: &Grouped) -> impl Iterator<Item = (TurnIndex, &Block)> {
    grouped
        .turns
        .iter()
        .enumerate()
        .flat_map(|(i, turn)| turn.blocks.iter().map(move |block| (i, block)))
}
