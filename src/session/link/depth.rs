//! How deep under the main thread each agent is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::session::{Agent, ThreadIndex};

/// Depth by walking up, each thread once, without recursion. The main thread is thread 0 with depth 0 if it is there. An agent
/// whose chain is broken or circular has no depth and no runs: nothing places it.
pub(super) fn set(agents: &mut BTreeMap<ThreadIndex, Agent>) {
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
