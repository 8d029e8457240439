//! One thread by itself: everything that its own lines say, whatever stands in other threads.
//!
//! A strand is made line by line. As long as no line is added to it, nothing in it changes: so a session that grows has most of
//! its strands in common with what it was.

use jiff::Timestamp;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::transcript::group::Grouped;
use crate::transcript::line::{Line, What};
use crate::transcript::text::Buffers;
use crate::transcript::thread::{Block, Stamp, Turn, TurnKind};

use super::account::{Accounts, Counted, account, add_turn};
use super::assemble::{Draft, Part, Who};
use super::gaps::Beside;
use super::stored::{Results, Taken};
use super::tools::Tools;
use super::{Span, TurnCounts};

/// A thread's lines, grouped, and what is known from them alone.
#[derive(Clone, Debug)]
pub(super) struct Strand {
    pub(super) who: Who,
    pub(super) grouped: Grouped,
    pub(super) turn_counts: TurnCounts,
    /// How many blocks the turns have, with those inside results.
    pub(super) blocks: usize,
    pub(super) tools: Tools,
    /// Whether a line with a uuid is in it, and one that is a turn by itself: what the thread is depends on the first of each.
    begun: (bool, bool),
    /// What the agent was told to do first.
    pub(super) first_task: Option<Arc<str>>,
    pub(super) clock: Clock,
    pub(super) beside: Beside,
    pub(super) taken: Taken,
    /// What it comes to if nothing else is counted, once somebody has asked.
    alone: OnceLock<Accounts>,
}

/// What all strands of a session are made from beside lines.
#[derive(Clone, Copy)]
pub(super) struct Material<'a> {
    pub(super) buffers: &'a Buffers,
    pub(super) results: &'a Results<'a>,
}

/// A thread's task is its first prompt; what stands before it is what the harness put in.
const FIRST_TURNS: usize = 8;

impl Strand {
    pub(super) fn of(draft: Draft, from: Material<'_>) -> Self {
        let mut strand = Self {
            who: draft.who,
            grouped: Grouped::expecting(draft.lines.len()),
            turn_counts: TurnCounts::default(),
            blocks: 0,
            tools: Tools::default(),
            begun: (false, false),
            first_task: None,
            clock: Clock::default(),
            beside: Beside::default(),
            taken: Taken::default(),
            alone: OnceLock::new(),
        };
        strand.add(draft.lines.into_iter(), from);
        strand
    }

    /// Takes in the next lines.
    pub(super) fn add(&mut self, lines: impl Iterator<Item = Line>, from: Material<'_>) {
        self.alone = OnceLock::new();
        for line in lines {
            self.push(line, from);
        }
        self.tools.put_in_order();
    }

    /// What of it is counted.
    pub(super) fn counted(&self) -> Counted<'_> {
        Counted {
            responses: &self.grouped.responses,
            turns: self.turn_counts,
            tools: &self.tools,
        }
    }

    /// Whether it is what it is whatever lines it gets, in a session whose threads are not entangled.
    pub(super) fn may_grow(&self) -> bool {
        match self.who.part {
            Part::Main => true,
            Part::Agent => self.begun == (true, true),
            Part::Service(_) => false,
        }
    }

    /// The uuids of its lines.
    pub(super) fn uuids<'a>(&'a self, buffers: &'a Buffers) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let uuids = self.grouped.lines.iter().filter_map(|line| line.uuid);
        uuids.map(|uuid| buffers.raw(uuid).decode())
    }

    /// What it comes to if nothing else is counted.
    pub(super) fn account(&self, buffers: &Buffers) -> &Accounts {
        self.alone
            .get_or_init(|| account(&[self.counted()], buffers))
    }

    fn push(&mut self, mut line: Line, from: Material<'_>) {
        let buffers = from.buffers;
        self.clock.tick(line.at);
        self.beside.note(&line, buffers);
        self.begun.0 |= line.uuid.is_some();
        self.begun.1 |= matches!(line.what, What::Turn { .. });
        if let Some(blocks) = line.what.blocks_mut() {
            from.results.take_in(blocks, buffers, &mut self.taken);
        }
        let turns = self.grouped.turns.len();
        let is_agent = self.who.part != Part::Main;
        let Some(added) = self.grouped.push(line, buffers, is_agent) else {
            return;
        };
        let turn = &self.grouped.turns[added.turn];
        self.blocks += count_blocks(&turn.blocks[added.from..]);
        self.tools
            .add(&turn.blocks[added.from..], added.turn, buffers);
        if added.turn == turns {
            add_turn(&mut self.turn_counts, turn.kind);
            if added.turn < FIRST_TURNS && self.first_task.is_none() {
                self.first_task = said_to(turn, buffers).map(Arc::from);
            }
        }
    }
}

/// Blocks with those inside results, which hold no further ones.
pub(super) fn count_blocks(blocks: &[Block]) -> usize {
    let inside = blocks.iter().map(|block| match block {
        Block::ToolResult { content, .. } => content.len(),
        _ => 0,
    });
    blocks.len() + inside.sum::<usize>()
}

/// First and last stamped line, and the active time: each stamped line counts the time since the latest one before it, up to
/// a cap. A step back counts nothing, and neither does the way forward again: no second is counted twice, so the active time
/// never exceeds the time from first to last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    pub(super) span: Span,
    /// Lines stamped earlier than the line before them.
    pub(super) backwards: u64,
    before: Option<Timestamp>,
}

impl Clock {
    fn tick(&mut self, stamp: Stamp) {
        const LONGEST_GAP_MS: i64 = 300_000;
        let Some(at) = stamp.at() else { return };
        self.backwards += u64::from(self.before.is_some_and(|before| at < before));
        self.before = Some(at);
        let span = &mut self.span;
        let latest = span.ended.unwrap_or(at);
        let gap = at.as_millisecond() - latest.as_millisecond();
        span.active_ms += gap.clamp(0, LONGEST_GAP_MS).unsigned_abs();
        span.started = Some(span.started.map_or(at, |s| s.min(at)));
        span.ended = Some(latest.max(at));
    }
}

/// What a turn of an agent's thread tells the agent to do: a task, or a team member's message without its tag.
pub(super) fn said_to(turn: &Turn, buffers: &Buffers) -> Option<String> {
    if !matches!(turn.kind, TurnKind::Task | TurnKind::Peer) {
        return None;
    }
    let text = turn.blocks.iter().find_map(|block| match block {
        Block::Text(text) => Some(buffers.raw(*text).to_text()),
        _ => None,
    })?;
    let text = text.trim();
    let inside = text
        .strip_prefix("<teammate-message ")
        .and_then(|rest| rest.split_once('>'))
        .map(|(_, said)| said.trim_end().trim_end_matches("</teammate-message>"));
    Some(inside.unwrap_or(text).trim().to_owned())
}
