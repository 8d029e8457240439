//! How deep under the main thread each agent is.

use foldhash::{HashMap, HashMapExt as _};
use std::collections::{BTreeMap, BTreeSet};

use crate::session::{Agent, ThreadIndex};

/// Depth by walking up, each thread once, without recursion. What is no agent here is the main thread, with depth 0. An agent
/// whose chain is broken or circular has no depth: nothing places it. In a circle no spawn can be true, so its runs go
/// too; the result is how many agents stood in one.
pub(super) fn set(agents: &mut BTreeMap<ThreadIndex, Agent>) -> u64 {
    let parents: BTreeMap<ThreadIndex, Option<ThreadIndex>> =
        agents.iter().map(|(&i, a)| (i, a.parent)).collect();
    let mut depths: HashMap<ThreadIndex, Option<u32>> = HashMap::new();
    let mut circular: BTreeSet<ThreadIndex> = BTreeSet::new();
    for &start in parents.keys() {
        let mut chain: Vec<ThreadIndex> = Vec::new();
        let mut on_chain = BTreeSet::new();
        let mut at = start;
        let base = loop {
            if let Some(&known) = depths.get(&at) {
                break known;
            }
            let Some(&parent) = parents.get(&at) else {
                break Some(0);
            };
            chain.push(at);
            on_chain.insert(at);
            match parent {
                Some(parent) if on_chain.contains(&parent) => {
                    circular.extend(chain.iter().skip_while(|&&thread| thread != parent));
                    break None;
                }
                Some(parent) => at = parent,
                None => break None,
            }
        };
        for (steps, thread) in chain.into_iter().rev().enumerate() {
            depths.insert(thread, base.map(|base| base + steps as u32 + 1));
        }
    }
    for (thread, agent) in agents {
        agent.depth = depths.get(thread).copied().flatten();
        if circular.contains(thread) {
            agent.runs.clear();
            agent.parent = None;
        }
    }
    circular.len() as u64
}
