//! What is not known of a session, counted where it is met.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::transcript::display::paths;
use crate::transcript::line::{Aside, Line, What};
use crate::transcript::text::Buffers;
use crate::transcript::thread::Stamp;

use super::account::Accounts;
use super::link::Linked;
use super::read::Files;
use super::stored::Taken;
use super::strand::Strand;
use super::{Agent, Completeness};

pub(super) fn note_files(files: &Files, completeness: &mut Completeness) {
    completeness.sources_unused.clone_from(&files.unused);
    let mut duplicate_keys = 0;
    for file in &files.threads {
        let said = &file.said;
        completeness
            .lines_unparseable
            .extend(said.found.damage.iter().cloned());
        completeness.incomplete_tail_bytes += said.found.tail_bytes;
        completeness.counts_not_numbers += said.counts_not_numbers;
        duplicate_keys += said.duplicate_keys;
    }
    if duplicate_keys > 0 {
        completeness.notes.push(format!(
            "{duplicate_keys} key(s) stood twice in one record; the first one holds"
        ));
    }
}

/// What the lines of one thread, each counted once, hold beside turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    not_shown: BTreeMap<String, u64>,
    unknown: BTreeMap<String, u64>,
    timestamps_missing: u64,
}

impl Beside {
    pub(super) fn note(&mut self, line: &Line, buffers: &Buffers) {
        match &line.what {
            What::Aside(Aside {
                family,
                kind,
                known,
            }) => {
                let kind =
                    kind.map_or_else(|| "(none)".to_owned(), |kind| buffers.raw(kind).to_text());
                let map = if *known {
                    &mut self.not_shown
                } else {
                    &mut self.unknown
                };
                // Behind the family's slash the beginning of a path would not be seen any more.
                let kind = paths::shorten(&kind);
                *map.entry(format!("{family}{kind}")).or_default() += 1;
            }
            What::Turn { .. } | What::Response(_) => {
                self.timestamps_missing += u64::from(!matches!(line.at, Stamp::At(_)));
            }
            What::Compaction { .. } => {}
        }
    }
}

pub(super) fn note_strands(strands: &[Arc<Strand>], completeness: &mut Completeness) {
    let mut taken = Taken::default();
    for strand in strands {
        for (kind, count) in &strand.beside.not_shown {
            *completeness
                .line_types_not_shown
                .entry(kind.clone())
                .or_default() += count;
        }
        for (kind, count) in &strand.beside.unknown {
            *completeness
                .line_types_unknown
                .entry(kind.clone())
                .or_default() += count;
        }
        completeness.timestamps_missing += strand.beside.timestamps_missing;
        completeness.timestamps_backwards += strand.clock.backwards;
        taken.add(&strand.taken);
    }
    completeness.stored_results_missing = taken.missing.len() as u64;
    if !taken.ambiguous.is_empty() {
        completeness.notes.push(format!(
            "{} stored tool result(s) are not taken in: several files have the name that the line gives",
            taken.ambiguous.len()
        ));
    }
}

pub(super) fn note_gaps(linked: &Linked, accounts: &Accounts, completeness: &mut Completeness) {
    let agents = || linked.agents.values();
    completeness.agents_unattributed =
        agents().filter(|agent| agent.depth.is_none()).count() as u64;
    let unjoined =
        |agent: &&Agent| agent.depth.is_some() && agent.runs.iter().any(|run| run.joined.is_none());
    completeness.agents_without_join = agents().filter(unjoined).count() as u64;
    completeness.parents_absent = linked.parents_absent;
    completeness.spawns_without_transcript = linked.spawns_without_transcript;
    completeness.evidence_conflicts = linked.evidence_conflicts;
    completeness.usage_without_message_id = accounts.usage_without_message_id;
    completeness.responses_with_differing_usage = accounts.responses_with_differing_usage;
    completeness.responses_without_stop_reason = accounts.responses_without_stop_reason;
    completeness.tool_calls_without_result = accounts.tool_calls_without_result;
    completeness.tool_results_without_call = accounts.tool_results_without_call;
    let notes = &mut completeness.notes;
    if accounts.responses_without_stop_reason > 0 {
        let n = accounts.responses_without_stop_reason;
        notes.push(format!(
            "output of {n} response(s) is a lower bound: no line of theirs has a stop reason"
        ));
    }
    if accounts.usage_without_message_id > 0 {
        let n = accounts.usage_without_message_id;
        notes.push(format!(
            "{n} response(s) have no message ID: totals are an upper bound by that much"
        ));
    }
}
