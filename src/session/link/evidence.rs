//! Which calls each kind of evidence names for an agent.

use foldhash::{HashMap, HashMapExt as _};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

use super::Scene;
use super::calls::{Call, Calls, Tool};
use super::join::is_launch_message;
use crate::session::assemble::Part;
use crate::session::{Evidence, ThreadIndex};
use crate::transcript::line::Fact;
use crate::transcript::text::{Raw, Text};
use crate::transcript::thread::{Block, Turn, TurnKind};

/// By agent, by kind of evidence, the calls that it names, as places in the list of calls.
pub(super) type Named = HashMap<ThreadIndex, BTreeMap<Evidence, BTreeSet<usize>>>;

/// All evidence of a session, and how many parents or calls a sidecar names that are not there.
pub(super) fn gather(scene: &Scene<'_>, calls: &Calls<'_>, parents_absent: &mut u64) -> Named {
    let agents = scene.agents().map(|i| (scene.drafts[i].id.as_str(), i));
    let by_id: HashMap<&str, ThreadIndex> = agents.collect();
    let mut gathering = Gathering {
        scene,
        calls,
        by_id,
        named: Named::new(),
    };
    gathering.sidecars(parents_absent);
    gathering.facts();
    gathering.result_texts();
    gathering.equal(Evidence::Prompt, |agent| first_task(scene, agent), "prompt");
    let describe = |agent| scene.sidecar(agent)?.description.clone();
    gathering.equal(Evidence::Description, describe, "description");
    gathering.named
}

/// The messages to an agent's very ID, each with the evidence that it continued the agent: that its thread took it up, or that
/// the message's result names it. One without evidence continued nothing, unless something else names it.
pub(super) fn continued(
    scene: &Scene<'_>,
    calls: &Calls<'_>,
    agent: ThreadIndex,
) -> BTreeMap<usize, BTreeSet<Evidence>> {
    let id = &scene.drafts[agent].id;
    let messages = calls
        .messages
        .iter()
        .map(|&index| (index, &calls.list[index]));
    let messages: Vec<(usize, &Call)> = messages
        .filter(|(_, call)| {
            let to = |field| call.input_field(scene.buffers, field);
            call.thread != agent && to("to").or_else(|| to("recipient")).as_ref() == Some(id)
        })
        .collect();
    if messages.is_empty() {
        return BTreeMap::new();
    }
    let tasks: Vec<String> = scene.threads[agent]
        .turns
        .iter()
        .filter_map(|turn| said_to(scene, turn))
        .skip(1)
        .collect();
    let evidence = |call: &Call| {
        let mut kinds = BTreeSet::new();
        let facts = scene.threads[call.thread].facts.iter();
        if facts.map(|placed| &placed.fact).any(|fact| {
            matches!(fact, Fact::AgentResult { call: c, agent, .. }
                if scene.same(*c, call.id) && scene.says(*agent, id))
        }) {
            kinds.insert(Evidence::Result);
        }
        if trailing_agent_id(scene, call).as_ref() == Some(id) {
            kinds.insert(Evidence::Text);
        }
        let words = |field| call.input_field(scene.buffers, field);
        let message = words("message").or_else(|| words("content"));
        if message.is_some_and(|message| tasks.iter().any(|task| *task == message.trim())) {
            kinds.insert(Evidence::Prompt);
        }
        kinds
    };
    messages
        .into_iter()
        .map(|(index, call)| (index, evidence(call)))
        .collect()
}

struct Gathering<'a> {
    scene: &'a Scene<'a>,
    calls: &'a Calls<'a>,
    by_id: HashMap<&'a str, ThreadIndex>,
    named: Named,
}

impl Gathering<'_> {
    fn add(&mut self, agent: Option<ThreadIndex>, kind: Evidence, call: Option<usize>) {
        if let (Some(agent), Some(call)) = (agent, call) {
            let kinds = self.named.entry(agent).or_default();
            kinds.entry(kind).or_default().insert(call);
        }
    }

    fn agent(&self, id: Text) -> Option<ThreadIndex> {
        self.by_id.get(self.scene.text(id).as_str()).copied()
    }

    /// The call of this ID if it is of this tool.
    fn call(&self, id: Text, tool: Tool) -> Option<usize> {
        let call = self.calls.find(self.scene.buffers, id)?;
        (self.calls.list[call].tool == tool).then_some(call)
    }

    fn sidecars(&mut self, parents_absent: &mut u64) {
        for agent in self.scene.agents() {
            let Some(sidecar) = self.scene.sidecar(agent) else {
                continue;
            };
            let call = sidecar.tool_use_id.as_ref();
            let found = call.and_then(|id| self.calls.named(id.as_bytes()));
            let parent = sidecar.parent_agent.as_ref();
            let orphan = parent.is_some_and(|id| !self.by_id.contains_key(id.as_str()));
            *parents_absent += u64::from(orphan || (call.is_some() && found.is_none()));
            self.add(Some(agent), Evidence::Sidecar, found);
        }
    }

    /// Structured results, progress lines and notifications.
    fn facts(&mut self) {
        let scene = self.scene;
        let members = self.members();
        let threads = scene.drafts.iter().zip(scene.threads);
        let threads = threads.filter(|(draft, _)| !matches!(draft.part, Part::Service(_)));
        for placed in threads.flat_map(|(_, grouped)| &grouped.facts) {
            match &placed.fact {
                // Only a tool that starts agents says with an agent's ID that it started one.
                Fact::AgentResult { call, agent, .. } => {
                    self.add(
                        self.agent(*agent),
                        Evidence::Result,
                        self.call(*call, Tool::Agent),
                    );
                }
                Fact::RunLaunched { call, run, .. } => {
                    let call = self.call(*call, Tool::Workflow);
                    for agent in scene.agents() {
                        let run_of = scene.drafts[agent].run.as_ref();
                        if run_of.is_some_and(|name| scene.says(*run, name)) {
                            self.add(Some(agent), Evidence::Result, call);
                        }
                    }
                }
                Fact::TeammateSpawned { call, name } => {
                    let member = members.get(&scene.text(*name)).copied();
                    self.add(member, Evidence::Result, self.call(*call, Tool::Agent));
                }
                Fact::Progress { call, agent } => {
                    let call = self.calls.find(scene.buffers, *call);
                    self.add(self.agent(*agent), Evidence::Progress, call);
                }
                Fact::Notification(news) => {
                    let call = news.call.as_ref();
                    let call = call.and_then(|id| self.calls.named(id.as_bytes()));
                    let agent = self.by_id.get(news.task.as_str()).copied();
                    self.add(agent, Evidence::Notification, call);
                }
                Fact::Poll { .. } | Fact::TeammateMessage { .. } => {}
            }
        }
    }

    /// Team members by name, where one agent alone has the name and one call alone gave it: a structured result names a member
    /// by name only.
    fn members(&self) -> HashMap<String, ThreadIndex> {
        let scene = self.scene;
        let facts = scene.threads.iter().flat_map(|grouped| &grouped.facts);
        let given = unique(facts.filter_map(|placed| match &placed.fact {
            Fact::TeammateSpawned { name, .. } => Some((scene.text(*name), ())),
            _ => None,
        }));
        let agents = scene.agents().filter_map(|agent| {
            let sidecar = scene.sidecar(agent);
            let name = sidecar.and_then(|s| s.name.clone());
            let name = name.or_else(|| name_in_id(&scene.drafts[agent].id));
            // The oldest form has the member's name where the type stands.
            Some((name.or_else(|| sidecar?.agent_type.clone())?, agent))
        });
        let mut members = unique(agents);
        members.retain(|name, _| given.contains_key(name));
        members
    }

    fn result_texts(&mut self) {
        for (index, call) in self.calls.list.iter().enumerate() {
            if call.tool == Tool::Agent {
                let id = trailing_agent_id(self.scene, call);
                let agent = id.and_then(|id| self.by_id.get(id.as_str()).copied());
                self.add(agent, Evidence::Text, Some(index));
            }
        }
    }

    /// A text that is equal, but for white space around it, and unique on both sides.
    fn equal(&mut self, kind: Evidence, ours: impl Fn(ThreadIndex) -> Option<String>, field: &str) {
        let trimmed = |text: String| text.trim().to_owned();
        let scene = self.scene;
        let ours = unique(scene.agents().filter_map(|i| Some((trimmed(ours(i)?), i))));
        let calls = self.calls.list.iter().enumerate();
        let spawns = calls.filter(|(_, call)| call.tool == Tool::Agent);
        let theirs = unique(spawns.filter_map(|(index, call)| {
            let text = call.input_field(scene.buffers, field)?;
            Some((trimmed(text), index))
        }));
        for (text, agent) in ours {
            if !text.is_empty() {
                self.add(Some(agent), kind, theirs.get(&text).copied());
            }
        }
    }
}

fn first_task(scene: &Scene<'_>, agent: ThreadIndex) -> Option<String> {
    let turns = scene.threads[agent].turns.iter();
    turns
        .take(FIRST_TURNS)
        .find_map(|turn| said_to(scene, turn))
}

/// A thread's task is its first prompt; what stands before it is what the harness put in.
const FIRST_TURNS: usize = 8;

/// What a turn of an agent's thread tells the agent to do: a task, or a team member's message without its tag.
fn said_to(scene: &Scene<'_>, turn: &Turn) -> Option<String> {
    if !matches!(turn.kind, TurnKind::Task | TurnKind::Peer) {
        return None;
    }
    let text = turn.blocks.iter().find_map(|block| match block {
        Block::Text(text) => Some(scene.text(*text)),
        _ => None,
    })?;
    let text = text.trim();
    let inside = text
        .strip_prefix("<teammate-message ")
        .and_then(|rest| rest.split_once('>'))
        .map(|(_, said)| said.trim_end().trim_end_matches("</teammate-message>"));
    Some(inside.unwrap_or(text).trim().to_owned())
}

/// The name in the ID of a named agent: `a<name>-<16 hex digits>`.
fn name_in_id(id: &str) -> Option<String> {
    let (name, hex) = id.strip_prefix('a')?.rsplit_once('-')?;
    let is_hex = hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex && !name.is_empty()).then(|| name.to_owned())
}

/// The agent's ID that the harness writes at the end of a result's text, or into its launch message: `agentId: <id> (...)` on a
/// line of its own, with nothing but its figures behind it. The same words anywhere else are somebody's.
fn trailing_agent_id(scene: &Scene<'_>, call: &Call) -> Option<String> {
    let text = scene.buffers.raw(call.result.as_ref()?.last_text?);
    let text = text.decode();
    let text = String::from_utf8_lossy(&text);
    // The start of its line: behind the last line feed that such a line follows, else the text's own.
    let start = memmem::rfind(text.as_bytes(), b"\nagentId: ").map_or(0, |at| at + 1);
    let (before, line) = text.split_at(start);
    let (line, after) = line.split_once('\n').unwrap_or((line, ""));
    let (id, rest) = line.strip_prefix("agentId: ")?.split_once(' ')?;
    let is_id = !id.is_empty()
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let after = after.trim();
    let figures = after.is_empty() || (after.starts_with("<usage>") && after.ends_with("</usage>"));
    let is_the_harness = figures || is_launch_message(Raw::plain(before.as_bytes()));
    (is_id && rest.starts_with('(') && is_the_harness).then(|| id.to_owned())
}

/// Only those keys that occur once.
fn unique<T>(pairs: impl Iterator<Item = (String, T)>) -> HashMap<String, T> {
    let mut map: HashMap<String, Option<T>> = HashMap::new();
    for (key, value) in pairs {
        map.entry(key)
            .and_modify(|seen| *seen = None)
            .or_insert(Some(value));
    }
    let once = map.into_iter();
    once.filter_map(|(key, value)| Some((key, value?)))
        .collect()
}
