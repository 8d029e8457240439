//! What is not known of a session, counted where it is met.

use std::collections::HashSet;

use crate::transcript::group::Grouped;
use crate::transcript::line::{Aside, Line, What};
use crate::transcript::text::Buffers;
use crate::transcript::thread::{Block, Stamp};

use super::about::last_part;
use super::account::Accounts;
use super::link::Linked;
use super::read::Files;
use super::{Agent, Completeness};

pub(super) fn note_files(files: &Files, completeness: &mut Completeness) {
    completeness.sources_unused.clone_from(&files.unused);
    let mut duplicate_keys = 0;
    for file in &files.threads {
        let lines = &file.lines;
        completeness
            .lines_unparseable
            .extend(lines.found.damage.iter().cloned());
        completeness.incomplete_tail_bytes += lines.found.tail_bytes;
        completeness.counts_not_numbers += lines.counts_not_numbers;
        duplicate_keys += lines.duplicate_keys;
    }
    if duplicate_keys > 0 {
        completeness.notes.push(format!(
            "{duplicate_keys} key(s) stood twice in one record; the first one holds"
        ));
    }
}

/// What the lines of one thread, each counted once, hold beside turns.
pub(super) fn note_lines(lines: &[Line], buffers: &Buffers, completeness: &mut Completeness) {
    for line in lines {
        match &line.what {
            What::Aside(Aside {
                family,
                kind,
                known,
            }) => {
                let kind =
                    kind.map_or_else(|| "(none)".to_owned(), |kind| buffers.raw(kind).to_text());
                let map = if *known {
                    &mut completeness.line_types_not_shown
                } else {
                    &mut completeness.line_types_unknown
                };
                *map.entry(format!("{family}{kind}")).or_default() += 1;
            }
            What::Turn { .. } | What::Response(_) => {
                completeness.timestamps_missing += u64::from(!matches!(line.at, Stamp::At(_)));
            }
            What::Compaction { .. } => {}
        }
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

/// Names of stored tool results that a result's text refers to and that do not lie in the session's folder.
pub(super) fn stored_results_missing(
    threads: &[Grouped],
    buffers: &Buffers,
    there: &[String],
) -> u64 {
    const TAG: &[u8] = b"<persisted-output>";
    const FOLDER: &str = "tool-results";
    let there: HashSet<&str> = there.iter().map(String::as_str).collect();
    let results = threads
        .iter()
        .flat_map(|g| &g.turns)
        .flat_map(|t| &t.blocks)
        .filter_map(|block| match block {
            Block::ToolResult { content, .. } => Some(content),
            _ => None,
        });
    let mut missing = HashSet::new();
    for text in results.flatten().filter_map(|block| {
        if let Block::Text(text) = block {
            Some(*text)
        } else {
            None
        }
    }) {
        let raw = buffers.raw(text);
        if !raw.bytes.starts_with(TAG) {
            continue;
        }
        let text = raw.to_text();
        let Some((_, name)) = text.split_once(FOLDER) else {
            continue;
        };
        let name: String = name[1.min(name.len())..]
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '<')
            .collect();
        let base = last_part(&name).unwrap_or_default().to_owned();
        if !there.contains(base.as_str()) {
            missing.insert(base);
        }
    }
    missing.len() as u64
}
