//! Where the person went back and went on from an earlier line.
//!
//! Two prompts that follow the same line at different times are a rewind; results of parallel calls, attachments and other
//! lines that share a parent are how a harness records, and no branch (`formats/claude-code.md` 5.4, `formats/hard-cases.md`
//! T21). The branch that was left stays where it stands, and a marker says so.

use foldhash::{HashMap, HashSet, HashSetExt as _};
use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::transcript::group::Grouped;
use crate::transcript::text::{Buffers, Text};
use crate::transcript::thread::TurnKind;

use super::{Marker, MarkerKind, TurnIndex};

/// A marker for each branch that was left. `live_leaf` is the line that the harness last called the end of the conversation;
/// without it the last branch is the live one.
pub(super) fn rewinds(
    grouped: &Grouped,
    buffers: &Buffers,
    live_leaf: Option<Text>,
) -> Vec<Marker> {
    let tree = Tree::of(grouped, buffers);
    let live = live_leaf.map_or_else(HashSet::new, |leaf| {
        tree.ancestors(&buffers.raw(leaf).decode())
    });
    let mut markers = Vec::new();
    for prompts in tree.branches(grouped).into_values() {
        let last = prompts.len() - 1;
        let kept = prompts
            .iter()
            .position(|line| live.contains(line))
            .unwrap_or(last);
        for (n, &line) in prompts.iter().enumerate().filter(|(n, _)| *n != kept) {
            let Some(from) = grouped.lines[line].turn else {
                continue;
            };
            let next = prompts
                .get(n + 1)
                .and_then(|&next| grouped.lines[next].turn);
            // A branch before the live one ends where the next prompt goes back; one behind it has its own end.
            let end = match next {
                Some(next) if n < kept => next.saturating_sub(1),
                _ => tree.last_turn(grouped, line).unwrap_or(from),
            };
            let what = MarkerKind::Rewound { from };
            markers.push(Marker {
                turn: Some(end.max(from)),
                what,
            });
        }
    }
    markers
}

/// Which line follows which, as places in the thread.
struct Tree<'a> {
    place: HashMap<Cow<'a, [u8]>, usize>,
    parent: Vec<Option<usize>>,
}

impl<'a> Tree<'a> {
    fn of(grouped: &Grouped, buffers: &'a Buffers) -> Self {
        let uuids = grouped.lines.iter().enumerate();
        let place: HashMap<_, _> = uuids
            .filter_map(|(i, line)| Some((buffers.raw(line.uuid?).decode(), i)))
            .collect();
        let parents = grouped.lines.iter().map(|line| line.parent);
        let parent = parents
            .map(|parent| place.get(&buffers.raw(parent?).decode()).copied())
            .collect();
        Self { place, parent }
    }

    /// A line and all that it follows, each once, so that a circle ends.
    fn ancestors(&self, uuid: &[u8]) -> HashSet<usize> {
        let mut chain = HashSet::new();
        let mut at = self.place.get(uuid).copied();
        while let Some(line) = at.filter(|&line| chain.insert(line)) {
            at = self.parent[line];
        }
        chain
    }

    /// The prompts of each rewind, in file order, by the line that they follow.
    fn branches(&self, grouped: &Grouped) -> BTreeMap<usize, Vec<usize>> {
        let mut prompts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, line) in grouped.lines.iter().enumerate() {
            let is_prompt = line.turn.is_some_and(|turn| {
                let kind = grouped.turns[turn].kind;
                kind == TurnKind::User && line.uuid.is_some()
            });
            if let (true, Some(parent)) = (is_prompt, self.parent[i]) {
                prompts.entry(parent).or_default().push(i);
            }
        }
        prompts.retain(|_, lines| {
            let times: HashSet<_> = lines.iter().map(|&i| grouped.lines[i].at.at()).collect();
            lines.len() > 1 && times.len() > 1
        });
        prompts
    }

    /// The last turn of what follows a line. A line stands behind what it follows, but for a few that are only no part of it then.
    fn last_turn(&self, grouped: &Grouped, from: usize) -> Option<TurnIndex> {
        let mut inside = HashSet::from_iter([from]);
        let mut last = grouped.lines[from].turn;
        for (i, line) in grouped.lines.iter().enumerate().skip(from + 1) {
            if self.parent[i].is_some_and(|parent| inside.contains(&parent)) {
                inside.insert(i);
                last = last.max(line.turn);
            }
        }
        last
    }
}
