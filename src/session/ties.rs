//! What ties the threads of a session together: names that stand in more than one of them.
//!
//! Names are known here by their hashes alone. A hash that is not known is a new name; one that is may be another's, and then
//! whoever asks is only more careful than need be.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::sync::Arc;

use crate::transcript::identity::{self, Name};
use crate::transcript::line::{Line, What};
use crate::transcript::text::Buffers;
use crate::transcript::thread::ResponseKey;

use super::assemble::Part;
use super::strand::Strand;

/// The names of a session that grows.
#[derive(Debug)]
pub(super) struct Ties {
    /// What a line must not be called, or the response that it is of, if it is to change its own thread alone.
    names: HashSet<u64>,
    /// Of each response and call the source of the strand that it stands in.
    owners: HashMap<u64, u32>,
    /// Whether none of those stands in two.
    apart: bool,
}

impl Ties {
    /// `replayed` are the uuids of lines that stand in no strand.
    pub(super) fn of(strands: &[Arc<Strand>], replayed: &[u64], buffers: &Buffers) -> Self {
        let count = strands.iter().map(|strand| strand.grouped.lines.len());
        let mut ties = Self {
            names: HashSet::with_capacity(count.sum()),
            owners: HashMap::new(),
            apart: true,
        };
        ties.names.extend(replayed);
        for strand in strands {
            ties.add_lines(strand, buffers);
            ties.add_owned(strand);
        }
        ties
    }

    /// Every line's uuid; what the first line with one follows, which may make the thread a copy of another; and the responses of
    /// a service thread, which drops a line where another thread has its response.
    fn add_lines(&mut self, strand: &Strand, buffers: &Buffers) {
        let hash = |text| Name::of(text, buffers).hash();
        let lines = &strand.grouped.lines;
        self.names
            .extend(lines.iter().filter_map(|line| line.uuid).map(hash));
        let first = lines.iter().find(|line| line.uuid.is_some());
        self.names
            .extend(first.and_then(|line| line.parent).map(hash));
        if matches!(strand.who.part, Part::Service(_)) {
            let turns = strand.grouped.turns.iter();
            self.names
                .extend(turns.filter_map(|turn| turn.message_id).map(hash));
        }
    }

    /// Takes up what these lines are called. Says whether all of it is new, and no response of theirs is one that ties threads.
    pub(super) fn add_new<'a>(
        &mut self,
        lines: impl Iterator<Item = &'a Line> + Clone,
        buffers: &Buffers,
    ) -> bool {
        let responses = lines.clone().filter_map(|line| match &line.what {
            What::Response(response) => response.message_id,
            _ => None,
        });
        let mut responses = responses.map(|id| Name::of(id, buffers).hash());
        let uuids = lines.filter(|line| line.uuid.is_some());
        let mut uuids = uuids.map(|line| line.uuid_hash);
        !responses.any(|name| self.names.contains(&name))
            && uuids.all(|name| self.names.insert(name))
    }

    /// Takes up what a line follows that is the first of its thread, if no line is called so.
    pub(super) fn add_parent(&mut self, first: &Line, buffers: &Buffers) -> bool {
        let parent = first.parent.map(|parent| Name::of(parent, buffers).hash());
        parent.is_none_or(|parent| self.names.insert(parent))
    }

    /// Takes up whose the responses and calls of a strand are.
    pub(super) fn add_owned(&mut self, strand: &Strand) {
        let source = strand.who.source;
        let responses = strand.grouped.responses.iter();
        let responses = responses.filter_map(|response| match &response.key {
            ResponseKey::Message(name)
            | ResponseKey::Request(name)
            | ResponseKey::LineUuid(name) => Some(identity::hash(name.as_bytes())),
            // No other strand has this line.
            ResponseKey::Line { .. } => None,
        });
        let calls = strand.tools.calls.iter().filter_map(|call| call.id);
        let results = strand.tools.results.iter().filter_map(|result| result.call);
        let tools = calls.chain(results).map(Name::hash);
        for name in responses.chain(tools) {
            self.apart &= *self.owners.entry(name).or_insert(source) == source;
        }
    }

    /// Whether no response, call or result of one strand has to do with another strand.
    pub(super) fn are_apart(&self) -> bool {
        self.apart
    }
}
