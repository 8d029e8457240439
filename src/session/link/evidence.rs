//! Which calls each kind of evidence names for an agent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Linked;
use super::calls::{Call, Calls};
use crate::session::assemble::{Draft, Part};
use crate::session::read::Sidecar;
use crate::session::{Evidence, ThreadIndex};
use crate::transcript::group::{Grouped, PlacedFact};
use crate::transcript::line::Fact;
use crate::transcript::text::{Buffers, Text};
use crate::transcript::thread::{Block, TurnKind};

/// By agent, by kind of evidence, the calls that it names, as indexes into [`Calls::list`].
pub(super) type Named = HashMap<ThreadIndex, BTreeMap<Evidence, BTreeSet<usize>>>;

/// Structured results, progress lines, notifications, and the agent's ID at the end of a result's text.
pub(super) fn gather_explicit(
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

pub(super) fn gather_sidecars(
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
pub(super) fn gather_equal(
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
