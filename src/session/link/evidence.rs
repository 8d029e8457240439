//! Which calls each kind of evidence names for an agent.

use foldhash::{HashMap, HashMapExt as _};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use super::Scene;
use super::calls::{Call, Calls};
use super::join::is_launch_message;
use crate::session::assemble::Part;
use crate::session::strand::said_to;
use crate::session::tools::Tool;
use crate::session::{Evidence, ThreadIndex};
use crate::transcript::line::Fact;
use crate::transcript::text::{Raw, Text};

/// By agent, by kind of evidence, the calls that it names, as places in the list of calls.
pub(super) type Named = HashMap<ThreadIndex, BTreeMap<Evidence, BTreeSet<usize>>>;

/// All evidence of a session, and how many parents or calls a sidecar names that are not there.
pub(super) fn gather<'s>(scene: &Scene<'s>, calls: &Calls<'s>, parents_absent: &mut u64) -> Named {
    let agents = scene.agents().map(|i| (scene.who(i).id.as_str(), i));
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
    let first_task = |agent: ThreadIndex| scene.strands[agent].first_task.as_deref();
    gathering.equal(Evidence::Prompt, first_task, "prompt");
    let describe = |agent| scene.sidecar(agent)?.description.as_deref();
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
    let id = &scene.who(agent).id;
    let messages = calls
        .messages
        .iter()
        .map(|&index| (index, &calls.list[index]));
    let messages: Vec<(usize, &Call<'_>)> = messages
        .filter(|(_, call)| {
            let to = |field| call.input_field(scene.buffers, field);
            call.thread != agent && to("to").or_else(|| to("recipient")).as_ref() == Some(id)
        })
        .collect();
    if messages.is_empty() {
        return BTreeMap::new();
    }
    let turns = scene.grouped(agent).turns.iter();
    let tasks: Vec<String> = turns
        .filter_map(|turn| said_to(turn, scene.buffers))
        .skip(1)
        .collect();
    let evidence = |index: usize, call: &Call<'_>| {
        let mut kinds = BTreeSet::new();
        let facts = scene.grouped(call.thread).facts.iter();
        if facts.map(|placed| &placed.fact).any(|fact| {
            matches!(fact, Fact::AgentResult { call: c, agent, .. }
                if scene.same(*c, call.id) && scene.says(*agent, id))
        }) {
            kinds.insert(Evidence::Result);
        }
        if trailing_agent_id(scene, calls, index) == Some(id) {
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
        .map(|(index, call)| (index, evidence(index, call)))
        .collect()
}

struct Gathering<'a, 's> {
    scene: &'a Scene<'s>,
    calls: &'a Calls<'s>,
    by_id: HashMap<&'a str, ThreadIndex>,
    named: Named,
}

impl<'a> Gathering<'a, '_> {
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
        let strands = scene.strands.iter();
        let normal = strands.filter(|strand| !matches!(strand.who.part, Part::Service(_)));
        for placed in normal.flat_map(|strand| &strand.grouped.facts) {
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
                        let run_of = scene.who(agent).run.as_ref();
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
        let facts = scene
            .strands
            .iter()
            .flat_map(|strand| &strand.grouped.facts);
        let given = unique(facts.filter_map(|placed| match &placed.fact {
            Fact::TeammateSpawned { name, .. } => Some((scene.text(*name), ())),
            _ => None,
        }));
        let agents = scene.agents().filter_map(|agent| {
            let sidecar = scene.sidecar(agent);
            let name = sidecar.and_then(|s| s.name.clone());
            let name = name.or_else(|| name_in_id(&scene.who(agent).id));
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
                let id = trailing_agent_id(self.scene, self.calls, index);
                let agent = id.and_then(|id| self.by_id.get(id).copied());
                self.add(agent, Evidence::Text, Some(index));
            }
        }
    }

    /// A text that is equal, but for white space around it, and unique on both sides.
    fn equal(
        &mut self,
        kind: Evidence,
        ours: impl Fn(ThreadIndex) -> Option<&'a str>,
        field: &str,
    ) {
        let scene = self.scene;
        let ours = unique(scene.agents().filter_map(|i| Some((ours(i)?.trim(), i))));
        let calls = self.calls.list.iter().enumerate();
        let spawns = calls.filter(|(_, call)| call.tool == Tool::Agent);
        let theirs = unique(
            spawns.filter_map(|(index, call)| Some((call.agent_field(field)?.trim(), index))),
        );
        for (text, agent) in ours {
            if !text.is_empty() {
                self.add(Some(agent), kind, theirs.get(text).copied());
            }
        }
    }
}

/// The name in the ID of a named agent: `a<name>-<16 hex digits>`.
fn name_in_id(id: &str) -> Option<String> {
    let (name, hex) = id.strip_prefix('a')?.rsplit_once('-')?;
    let is_hex = hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex && !name.is_empty()).then(|| name.to_owned())
}

/// The agent's ID that the harness writes at the end of a result's text, or into its launch message.
fn trailing_agent_id<'a>(scene: &Scene<'_>, calls: &Calls<'a>, call: usize) -> Option<&'a str> {
    let result = calls.result(scene.buffers, call)?;
    let find = || agent_id_in(scene.buffers.raw(result.last_text?));
    result.agent_id.get_or_init(find).as_deref()
}

/// `agentId: <id> (...)` on a line of its own, with nothing but the harness's figures behind it. The same words anywhere else are
/// somebody's.
fn agent_id_in(text: Raw<'_>) -> Option<String> {
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
fn unique<K: Eq + Hash, T>(pairs: impl Iterator<Item = (K, T)>) -> HashMap<K, T> {
    let mut map: HashMap<K, Option<T>> = HashMap::new();
    for (key, value) in pairs {
        map.entry(key)
            .and_modify(|seen| *seen = None)
            .or_insert(Some(value));
    }
    let once = map.into_iter();
    once.filter_map(|(key, value)| Some((key, value?)))
        .collect()
}
