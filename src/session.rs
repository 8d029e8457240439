//! One whole session out of its parts.
//!
//! [`Session`] is what every derived file is made from: the main thread and each agent's, where each was spawned and where
//! its result came back, what it all used, and what is not known. It knows neither Markdown nor FUSE, and holds no path but base names.
//!
//! The way inside of [`open`]: `read` reads each file once, and `follow` says how far; `assemble` decides which line belongs to which
//! thread, and `weave` makes a `strand` of each thread's lines, or adds new lines to the strands of before where `ties` allows it;
//! `link` places the agents by all strands, and `account` counts.

mod about;
mod account;
mod assemble;
mod attribution;
mod copied;
mod follow;
mod from_log;
mod gaps;
mod glance;
mod link;
pub mod look;
pub mod objects;
mod open;
mod read;
mod rewind;
mod sidecar;
mod stored;
mod strand;
pub mod summary;
mod ties;
mod tools;
mod weave;

use crate::record::Entries;
use crate::session_log::State;
use crate::transcript::{Buffers, Damage, Stamp, Turns, Usage};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use about::last_part;
pub use attribution::{Attribution, Candidates, EntryIndex, Why};
pub use follow::Reads;
use open::sum_up;
pub use open::{open, open_again};

/// One session, complete in memory: its files' bytes, its threads, its totals, its gaps.
#[derive(Debug)]
pub struct Session {
    /// The session's ID, as the harness gave it.
    pub id: String,
    /// Which harness wrote it: `claude-code`, or `framed-log`; `unknown` where only a record of messages tells of the session.
    pub harness: &'static str,
    /// Versions of the harness, in order of appearance.
    pub versions: Vec<String>,
    /// The last part of the main thread's first working directory.
    pub project: Option<String>,
    /// The session's title: the person's own, else the harness's, else a summary, else none.
    pub title: Option<String>,
    /// The bytes that every [`crate::transcript::Text`] of this session points into.
    pub buffers: Buffers,
    /// The tool results that lie in files of their own, in the order of the files.
    pub stored: Vec<objects::Stored>,
    /// Base names of the files, with an ordinal where two are equal; `source` indexes of turns and damage point here.
    pub sources: Vec<String>,
    /// The main thread if there is one, then the agents in order of spawning, then the service threads.
    pub threads: Vec<Thread>,
    /// The sum over the main thread, the agents and the service threads.
    pub totals: Totals,
    /// The part of the totals that is also in an older session; none where nothing says that it is a copy or a continuation of one.
    pub copied: Option<Copied>,
    /// Agents by type, service threads apart.
    pub agent_types: BTreeMap<String, u64>,
    /// First to last stamped line over all threads; active time is the main thread's.
    pub span: Span,
    /// The record of messages between sessions, as far as this session kept one.
    pub entries: Entries,
    /// What that record says of each `user` turn of the main thread.
    pub attributions: BTreeMap<TurnIndex, Attribution>,
    /// The framed log that the session was read from; none where it was none.
    pub log: Option<LogState>,
    /// How far its files were read, if it is followed.
    pub reads: Arc<Reads>,
    /// What is not known.
    pub completeness: Completeness,
}

/// A framed log as it was read (`spec/session-log.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// What it is like.
    pub state: State,
    /// When it was created, in the words of whoever created it; none if it is damaged before its header's end.
    pub created_at: Option<String>,
    /// Verified events.
    pub events: u64,
    /// Verified objects that they name.
    pub objects: u64,
    /// Bytes of the log.
    pub bytes: u64,
}

/// Where a framed log stops being readable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProblem {
    /// The byte at which the frame begins that is wrong, or that of the event whose object is.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// The part of a session that it has from older ones, of which it is a copy or a continuation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// IDs of the older sessions.
    pub sessions: Vec<String>,
    /// Tokens of the responses that are in them too.
    pub tokens: Usage,
    /// How many responses that are.
    pub api_responses: u64,
    /// Assistant lines with usage of those responses, as in this session.
    pub usage_lines_seen: u64,
}

/// Index into [`Session::threads`].
pub type ThreadIndex = usize;
/// Index into [`Thread::turns`]; the turn's number is one more.
pub type TurnIndex = usize;

/// One thread of a session.
#[derive(Debug)]
pub struct Thread {
    /// What part it has in the session.
    pub role: Role,
    /// `main`, or the agent's ID.
    pub id: String,
    /// Base name of the file that it was read from (the newest of several).
    pub source: String,
    /// Its turns, in the order of each one's first line.
    pub turns: Turns,
    /// How many blocks they have, with those inside results.
    pub blocks: usize,
    /// What happened between or at turns, in order.
    pub markers: Vec<Marker>,
    /// Its own totals: only the responses that it owns.
    pub totals: Totals,
    /// Its times.
    pub span: Span,
}

/// The part that a thread has in its session.
#[derive(Debug)]
pub enum Role {
    /// The thread that the person talked to.
    Main,
    /// A sub-agent.
    Agent(Agent),
    /// Work of the harness itself, which nobody spawned.
    Service(ServiceKind),
}

/// What is known of a sub-agent beside its turns.
#[derive(Debug, Default)]
pub struct Agent {
    /// Its type, such as `Explore`.
    pub agent_type: Option<String>,
    /// What its spawner called its work.
    pub description: Option<String>,
    /// 1 under the main thread; none where its chain is broken or circular.
    pub depth: Option<u32>,
    /// The thread that spawned it; none where nothing says.
    pub parent: Option<ThreadIndex>,
    /// Each time it was started or continued, in order. Empty where nothing places it.
    pub runs: Vec<Run>,
    /// Base names of earlier files of the same agent.
    pub generations: Vec<String>,
}

/// One run of an agent: a spawn and, where it came, the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The call that started it.
    pub spawned: Spawn,
    /// Where its result came back; none where nothing shows it.
    pub joined: Option<Join>,
    /// Assistant turns of the spawning thread strictly between the spawn's turn and the join's. None without a join's turn.
    pub concurrent_turns: Option<u64>,
}

/// The tool call that started an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// The thread of the call.
    pub thread: ThreadIndex,
    /// The turn of the call.
    pub turn: TurnIndex,
    /// When that turn was written.
    pub at: Stamp,
    /// The call's ID.
    pub tool_use_id: String,
    /// Every kind of evidence that names this call.
    pub evidence: BTreeSet<Evidence>,
}

/// Where an agent's result entered the spawning thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The turn; none where only a queue line shows it.
    pub turn: Option<TurnIndex>,
    /// When.
    pub at: Stamp,
    /// By what.
    pub how: JoinHow,
}

/// What names an agent's spawn, best first. The order is `spec/turns.md`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The sidecar's tool use ID.
    Sidecar,
    /// A structured result's agent ID.
    Result,
    /// A progress line with the call's ID.
    Progress,
    /// A notification or queue line with the call's ID.
    Notification,
    /// The agent ID in a result's text.
    Text,
    /// A prompt that is equal and unique on both sides.
    Prompt,
    /// A description that is equal and unique on both sides.
    Description,
}

impl Evidence {
    /// Its name in the telemetry and the artefact.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Result => "result",
            Self::Progress => "progress",
            Self::Notification => "notification",
            Self::Text => "text",
            Self::Prompt => "prompt",
            Self::Description => "description",
        }
    }
}

/// By what an agent's result came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinHow {
    /// The spawning call's own result.
    Result,
    /// A notification of the end of background work.
    Notification,
    /// A poll for background work.
    Poll,
    /// A queue line, and nothing in the thread itself.
    Queue,
    /// A team member's message.
    Message,
}

impl JoinHow {
    /// Its name in the telemetry and the artefact.
    pub fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Notification => "notification",
            Self::Poll => "poll",
            Self::Queue => "queue",
            Self::Message => "message",
        }
    }
}

/// A kind of service thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// The request that made a compaction's summary.
    Compaction,
    /// A side question.
    SideQuestion,
    /// A suggestion for the next prompt.
    PromptSuggestion,
    /// A run that only warms a cache.
    WarmUp,
    /// A copy of a thread with work behind it of which nothing says what it is.
    Copy,
}

impl ServiceKind {
    /// Its name in the telemetry and the artefact.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compaction => "compaction",
            Self::SideQuestion => "side-question",
            Self::PromptSuggestion => "prompt-suggestion",
            Self::WarmUp => "warm-up",
            Self::Copy => "copy",
        }
    }
}

/// Something that the document says at a turn. A marker stands at the end of its turn's section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The turn at whose end it stands; none for before the first turn.
    pub turn: Option<TurnIndex>,
    /// What it says.
    pub what: MarkerKind,
}

/// What a [`Marker`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerKind {
    /// This turn's call started the agent.
    Spawned(ThreadIndex),
    /// The agent's result arrived at this turn.
    Joined(ThreadIndex),
    /// The context was compacted after this turn; what stood before it stays.
    Compacted {
        /// `auto` or `manual`, as recorded.
        trigger: Option<String>,
        /// Tokens before, as recorded.
        pre_tokens: Option<u64>,
        /// Tokens after, as recorded.
        post_tokens: Option<u64>,
        /// Whether only tool output was dropped.
        micro: bool,
    },
    /// The person went back to before the turn numbered here and went on from there; the turns from it up to this marker were left.
    Rewound {
        /// First turn of the branch that was left.
        from: TurnIndex,
    },
}

/// First and last stamped line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Earliest time stamped on a line.
    pub started: Option<Timestamp>,
    /// Latest time stamped on a line.
    pub ended: Option<Timestamp>,
    /// Active time in milliseconds: what each stamped line, in file order, adds to the latest time before it, at most 300 seconds.
    pub active_ms: u64,
}

impl Span {
    /// Milliseconds from the first stamped line to the last; none where no line is stamped.
    pub fn wall_clock_ms(&self) -> Option<u64> {
        let ms = self
            .ended?
            .as_millisecond()
            .saturating_sub(self.started?.as_millisecond());
        Some(ms.max(0).unsigned_abs())
    }
}

/// What a thread or session used and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Turns by the groups of `spec/turns.md`.
    pub turns: TurnCounts,
    /// Tokens, each response once.
    pub tokens: Usage,
    /// Responses counted.
    pub api_responses: u64,
    /// Assistant lines with usage before anything was removed.
    pub usage_lines_seen: u64,
    /// By tool name.
    pub tool_calls: BTreeMap<String, ToolCount>,
    /// By model.
    pub models: BTreeMap<String, ModelCount>,
}

/// Turns by group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// All of them.
    pub total: u64,
    /// [`crate::transcript::TurnKind::User`].
    pub user: u64,
    /// [`crate::transcript::TurnKind::Task`].
    pub task: u64,
    /// [`crate::transcript::TurnKind::Peer`].
    pub peer: u64,
    /// [`crate::transcript::TurnKind::Assistant`].
    pub assistant: u64,
    /// [`crate::transcript::TurnKind::ToolResult`].
    pub tool_result: u64,
    /// Every other kind.
    pub other: u64,
}

/// Calls of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolCount {
    /// Distinct tool use IDs.
    pub calls: u64,
    /// Those whose result is an error.
    pub errors: u64,
}

/// Responses of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCount {
    /// Responses.
    pub responses: u64,
    /// Their tokens.
    pub tokens: Usage,
}

/// What is not known of a session, each gap with a count. What depends on how the session is shown (cut blocks, escaped
/// characters) is counted where it is shown: [`crate::artefact::Shown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// The main thread's state.
    pub main_thread: MainThread,
    /// Agents that nothing places.
    pub agents_unattributed: u64,
    /// Placed agents whose result is nowhere.
    pub agents_without_join: u64,
    /// Parents that a sidecar or a chain names and that are not there.
    pub parents_absent: u64,
    /// Calls of an agent tool whose agent has no transcript here.
    pub spawns_without_transcript: u64,
    /// Agents of which two kinds of evidence name different calls.
    pub evidence_conflicts: u64,
    /// Lines that are not one whole record.
    pub lines_unparseable: Vec<Damage>,
    /// Bytes of unfinished last lines.
    pub incomplete_tail_bytes: u64,
    /// Lines that repeat the uuid of an earlier one.
    pub lines_duplicate: u64,
    /// Lines that are no turn, by type.
    pub line_types_not_shown: BTreeMap<String, u64>,
    /// Lines of a type that this program does not know, by type.
    pub line_types_unknown: BTreeMap<String, u64>,
    /// Responses with usage that no message ID names; totals are an upper bound by that much.
    pub usage_without_message_id: u64,
    /// Responses whose lines disagree about usage.
    pub responses_with_differing_usage: u64,
    /// Responses of which no line has a stop reason: a lower bound.
    pub responses_without_stop_reason: u64,
    /// Token counts that were not plain numbers.
    pub counts_not_numbers: u64,
    /// Turn lines without a readable timestamp.
    pub timestamps_missing: u64,
    /// Lines stamped earlier than the line before them.
    pub timestamps_backwards: u64,
    /// Calls that nothing answers.
    pub tool_calls_without_result: u64,
    /// Results that answer no call.
    pub tool_results_without_call: u64,
    /// Stored tool results that a line names and that are not there.
    pub stored_results_missing: u64,
    /// Files of the session that nothing was made of.
    pub sources_unused: Vec<SourceUnused>,
    /// Entries of the record of messages that cannot be read.
    pub record_entries_damaged: u64,
    /// What is wrong with the framed log.
    pub log_problem: Option<LogProblem>,
    /// Other sessions of which it is not known what this one has copied from them; each has a note.
    pub copies_unknown: u64,
    /// What else a reader must know, in our words.
    pub notes: Vec<String>,
}

impl Completeness {
    /// Notes another session of which it is not known what this one has from it.
    pub(crate) fn unknown_copy(&mut self, note: String) {
        self.copies_unknown += 1;
        self.notes.push(note);
    }

    /// Whether something is missing or not known. Copies, resolved differences and lines that are known to be no turn are no gaps.
    pub fn has_gap(&self) -> bool {
        self.main_thread != MainThread::Present
            || !self.lines_unparseable.is_empty()
            || !self.line_types_unknown.is_empty()
            || !self.sources_unused.is_empty()
            || self.log_problem.is_some()
            || [
                self.agents_unattributed,
                self.agents_without_join,
                self.parents_absent,
                self.spawns_without_transcript,
                self.evidence_conflicts,
                self.incomplete_tail_bytes,
                self.usage_without_message_id,
                self.responses_without_stop_reason,
                self.counts_not_numbers,
                self.timestamps_missing,
                self.tool_calls_without_result,
                self.tool_results_without_call,
                self.stored_results_missing,
                self.copies_unknown,
                self.record_entries_damaged,
            ]
            .iter()
            .any(|&count| count > 0)
    }
}

/// A file of the session that nothing was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUnused {
    /// Its base name.
    pub source: String,
    /// Why.
    pub why: String,
}

/// Whether the main thread is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MainThread {
    /// It is.
    #[default]
    Present,
    /// Its file is not there.
    Missing,
    /// Its file could not be read.
    Unreadable,
}

impl MainThread {
    /// Its name in the telemetry and the artefact.
    pub fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
        }
    }
}
