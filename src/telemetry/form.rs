//! The telemetry's keys, in their order, with what each of them means. The JSON Schema is made of these types and these comments.

use crate::session::{ModelCount, ToolCount};
use crate::transcript::Usage;
use crate::transcript::display::{self, paths};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What one session of a coding agent used and did, as its harness recorded it, and what is not known of it. It describes the record
/// and is not a billing record. A value that is not known is null, and `completeness` says why.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Telemetry {
    /// Name and version of this form.
    pub schema: Schema,
    /// The session's ID, as the harness gave it.
    pub session_id: Safe,
    /// Which harness wrote the session.
    pub harness: &'static str,
    /// The harness's versions, in order of appearance.
    pub versions: Vec<Safe>,
    /// The last part of the main thread's first working directory.
    pub project: Option<Safe>,
    /// The session's title: the person's own, else the harness's, else a summary, else the beginning of the first prompt's first line.
    pub title: Option<Safe>,
    /// Whether the session was read from a store of captured logs and not from the harness's own files.
    pub captured: bool,
    /// Times over all threads; the active time is the main thread's.
    pub span: Span,
    /// Turns of the main thread and of the agents.
    pub turns: Turns,
    /// Tokens of the main thread, the agents and the service threads, each response once.
    pub tokens: Tokens,
    /// Tool calls by tool name.
    pub tool_calls: BTreeMap<Safe, ToolCalls>,
    /// Responses and tokens by model.
    pub models: BTreeMap<Safe, Model>,
    /// Number of agents by type.
    pub agent_types: BTreeMap<Safe, u64>,
    /// The part of the tokens that is in an older session too; null where nothing says so.
    pub copied: Option<Copied>,
    /// The main thread; null where it is not there.
    pub main: Option<Main>,
    /// The agents, in order of spawning.
    pub agents: Vec<Agent>,
    /// Threads that the harness ran for itself.
    pub service: Vec<Service>,
    /// Messages to and from other sessions, as far as they were recorded.
    pub messages: Messages,
    /// The framed log that the session was read from; null where it was none.
    pub log: Option<Log>,
    /// What is not known and not shown.
    pub completeness: Completeness,
}

/// The form's name.
#[derive(Serialize, JsonSchema)]
pub(super) enum Schema {
    /// The first form.
    #[serde(rename = "sessionfs.telemetry/1")]
    One,
}

/// First and last stamped line, and the time between them.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Span {
    /// Earliest time stamped on a line, ISO 8601 in UTC.
    pub started: Option<Time>,
    /// Latest time stamped on a line, ISO 8601 in UTC.
    pub ended: Option<Time>,
    /// Seconds between the two.
    pub wall_clock_seconds: Option<f64>,
    /// Seconds of the gaps between stamped lines, each gap counted as at most 300 seconds and a step backwards as none.
    pub active_seconds: Option<f64>,
}

/// Turns by kind.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Turns {
    /// All turns.
    pub total: u64,
    /// Prompts that the person typed.
    pub user: u64,
    /// Prompts that an agent's spawner gave it.
    pub task: u64,
    /// Messages that the transcript marks as another session's or a team member's.
    pub peer: u64,
    /// Model responses.
    pub assistant: u64,
    /// Lines of tool results.
    pub tool_result: u64,
    /// Turns of every other kind: commands, notifications, summaries, injected text, interruptions, errors, objects.
    pub other: u64,
}

/// Tokens as recorded, each response counted once.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Tokens {
    /// Input tokens that came from no cache.
    pub input: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Tokens written to the cache.
    pub cache_creation: u64,
    /// Of those, the ones kept five minutes, where the harness says so.
    pub cache_creation_5m: u64,
    /// Of those, the ones kept an hour, where the harness says so.
    pub cache_creation_1h: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Input, output, cache creation and cache read together.
    pub total: u64,
    /// Model responses counted.
    pub api_responses: u64,
    /// Assistant lines with usage, before lines of the same response were taken together.
    pub usage_lines_seen: u64,
}

/// Calls of one tool.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ToolCalls {
    /// Distinct tool use IDs.
    pub calls: u64,
    /// Those whose result is an error.
    pub errors: u64,
}

/// Responses of one model and their tokens.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Model {
    /// Responses counted.
    pub responses: u64,
    /// Input tokens that came from no cache.
    pub input: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Tokens written to the cache.
    pub cache_creation: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
}

/// What is in an older session too.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Copied {
    /// IDs of the older sessions.
    pub sessions: Vec<Safe>,
    /// Tokens of the responses that are in them.
    pub tokens: Tokens,
}

/// What one thread used and did.
#[derive(Serialize, JsonSchema)]
pub(super) struct Figures {
    /// Its times.
    pub span: Span,
    /// Its turns.
    pub turns: Turns,
    /// Tokens of the responses that it owns.
    pub tokens: Tokens,
    /// Its tool calls by tool name.
    pub tool_calls: BTreeMap<Safe, ToolCalls>,
    /// Its responses and their tokens by model.
    pub models: BTreeMap<Safe, Model>,
}

/// The main thread.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Main {
    /// Base name of its file.
    pub source: Safe,
    #[serde(flatten)]
    pub figures: Figures,
}

/// A sub-agent.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Agent {
    /// Its ID.
    pub id: Safe,
    /// Base name of its file, of several the newest.
    pub source: Safe,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<Safe>,
    /// What its spawner called its work.
    pub description: Option<Safe>,
    /// 1 under the main thread; null where its chain of parents does not reach the main thread.
    pub depth: Option<u32>,
    /// `main`, or the ID of the agent that spawned it.
    pub parent: Option<Safe>,
    /// The call that first started it; null where nothing stored shows it.
    pub spawned: Option<Spawned>,
    /// Where the result of that call came back; null where nothing stored shows it.
    pub joined: Option<Joined>,
    /// Assistant turns of the parent strictly between the two; null without both.
    pub concurrent_turns: Option<u64>,
    /// Each time it was started or continued, in order.
    pub runs: Vec<Run>,
    /// Base names of earlier files of the same agent.
    pub generations: Vec<Safe>,
    #[serde(flatten)]
    pub figures: Figures,
}

/// One run of an agent.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Run {
    /// The call that started it.
    pub spawned: Spawned,
    /// Where its result came back; null where nothing stored shows it.
    pub joined: Option<Joined>,
}

/// The call that started an agent.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Spawned {
    /// Number of the turn in the parent, from 1.
    pub turn: u64,
    /// When that turn was written; null without a readable time.
    pub at: Option<Time>,
    /// The call's ID.
    pub tool_use_id: Safe,
    /// What names this call as the spawn, best first.
    pub evidence: Vec<&'static str>,
}

/// Where an agent's result came back.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Joined {
    /// Number of the turn in the parent, from 1; null where only a queue line shows it.
    pub turn: Option<u64>,
    /// When; null without a readable time.
    pub at: Option<Time>,
    /// By what the result came back.
    pub how: &'static str,
}

/// A thread that the harness ran for itself.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Service {
    /// Its ID.
    pub id: Safe,
    /// What it is: `compaction`, `side-question`, `prompt-suggestion` or `warm-up`.
    pub kind: &'static str,
    /// Base name of its file.
    pub source: Safe,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Messages between sessions, as far as they were recorded. The record is observational: no entry is no evidence that nothing was sent.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Messages {
    /// Messages that the session sent.
    pub sent: u64,
    /// Of those, the ones that the transport did not take.
    pub not_queued: u64,
    /// Messages that reached the session.
    pub received: u64,
    /// Of those, the ones that were rejected.
    pub rejected: u64,
    /// Entries that cannot be read.
    pub damaged: u64,
    /// When the record of this session begins; null where there is none.
    pub coverage_from: Option<Time>,
    /// The session that started this one, where a chain entry says so.
    pub parent: Option<Safe>,
    /// Its part in the chain, where a chain entry says so.
    pub part: Option<Safe>,
}

/// A framed log.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Log {
    /// `open`, `sealed`, `in progress` or `corrupt`.
    pub state: &'static str,
    /// Verified events in it.
    pub events: u64,
    /// Verified objects that they name.
    pub objects: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Where and why it stops being readable; null where it does not.
    pub problem: Option<LogProblem>,
}

/// What is not known of the session, and what its artefact does not show; each with its count.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Completeness {
    /// Whether nothing is missing, unknown or cut.
    pub complete: bool,
    /// `present`, `missing` or `unreadable`.
    pub main_thread: &'static str,
    /// Agents that nothing places.
    pub agents_unattributed: u64,
    /// Placed agents whose result is nowhere.
    pub agents_without_join: u64,
    /// Parents that are named and not there.
    pub parents_absent: u64,
    /// Calls of an agent tool whose agent has no transcript.
    pub spawns_without_transcript: u64,
    /// Agents of which two kinds of evidence name different calls.
    pub evidence_conflicts: u64,
    /// Lines that are not one whole record.
    pub lines_unparseable: Vec<Line>,
    /// Bytes of unfinished last lines.
    pub incomplete_tail_bytes: u64,
    /// Lines that repeat an earlier one and were left out.
    pub lines_duplicate: u64,
    /// Lines that are no turn, by type.
    pub line_types_not_shown: BTreeMap<Safe, u64>,
    /// Lines of a type that this program does not know, by type.
    pub line_types_unknown: BTreeMap<Safe, u64>,
    /// Responses with usage that no message ID names: the totals are an upper bound by that much.
    pub usage_without_message_id: u64,
    /// Responses whose lines differ in usage; the line with the most output tokens was taken.
    pub responses_with_differing_usage: u64,
    /// Responses of which no line has a stop reason: their output is a lower bound.
    pub responses_without_stop_reason: u64,
    /// Token counts that were no plain numbers.
    pub counts_not_numbers: u64,
    /// Turn lines without a readable time.
    pub timestamps_missing: u64,
    /// Lines stamped earlier than the line before them.
    pub timestamps_backwards: u64,
    /// Tool calls that nothing answers.
    pub tool_calls_without_result: u64,
    /// Tool results that answer no call.
    pub tool_results_without_call: u64,
    /// Stored tool results that a line names and that are not there.
    pub stored_results_missing: u64,
    /// Blocks that the artefact cuts or leaves out.
    pub blocks_cut: u64,
    /// Bytes that the artefact does not show.
    pub bytes_cut: u64,
    /// Characters that the artefact shows as `\u{…}`.
    pub characters_shown_escaped: u64,
    /// Places that are no UTF-8, which the artefact shows as U+FFFD.
    pub characters_replaced: u64,
    /// CR LF pairs that the artefact shows as a line break.
    pub crlf_shown_as_lf: u64,
    /// Files of the session that nothing was made of.
    pub sources_unused: Vec<Unused>,
    /// Entries of the record of messages that cannot be read.
    pub record_entries_damaged: u64,
    /// What is wrong with the framed log; null where nothing is or there is none.
    pub log_problem: Option<LogProblem>,
    /// What else a reader must know.
    pub notes: Vec<Safe>,
}

/// A line that is not one whole record.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Line {
    /// Base name of its file.
    pub source: Safe,
    /// Its number, from 1.
    #[serde(rename = "line")]
    pub number: u64,
    /// Byte offset of its beginning in the file.
    pub offset: u64,
    /// What is wrong with it.
    pub why: &'static str,
    /// Whether its record, or a whole one inside it, was read all the same.
    pub recovered: bool,
}

/// A file that nothing was made of.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Unused {
    /// Its base name.
    pub source: Safe,
    /// Why.
    pub why: Safe,
}

/// What is wrong with a framed log, and where.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LogProblem {
    /// Byte offset in the log.
    pub offset: u64,
    /// What is wrong.
    pub reason: Safe,
}

/// The telemetry of one thread by itself: its entry in the session's telemetry, and the session's completeness.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Own{Entry}", deny_unknown_fields)]
pub(super) struct Own<Entry> {
    #[serde(flatten)]
    pub entry: Entry,
    /// What is not known of the whole session, not of this thread alone; only `blocks_cut`, `bytes_cut`, `characters_shown_escaped`,
    /// `characters_replaced` and `crlf_shown_as_lf` are of the thread's own artefact, and `complete` is of both.
    pub completeness: Completeness,
}

/// A recorded string in display form on one line, absolute paths shortened to their last part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Safe(String);

impl Safe {
    pub(super) fn of(text: &str) -> Self {
        Self(display::line(&paths::shorten(text)))
    }
}

/// An instant, ISO 8601 in UTC with milliseconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(inline, extend("format" = "date-time"))]
pub(super) struct Time(String);

impl Time {
    pub(super) fn of(at: Timestamp) -> Self {
        Self(format!("{at:.3}"))
    }
}

/// A map with safe keys; what two keys that look the same when safe hold is added.
pub(super) fn by_name<'a, Count: 'a, Sum: Default>(
    counts: impl IntoIterator<Item = (&'a String, &'a Count)>,
    add: impl Fn(&mut Sum, &Count),
) -> BTreeMap<Safe, Sum> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        add(sums.entry(Safe::of(name)).or_default(), count);
    }
    sums
}

impl ToolCalls {
    pub(super) fn add(&mut self, count: &ToolCount) {
        self.calls = self.calls.saturating_add(count.calls);
        self.errors = self.errors.saturating_add(count.errors);
    }
}

impl Model {
    pub(super) fn add(&mut self, count: &ModelCount) {
        let ModelCount { responses, tokens } = count;
        self.responses = self.responses.saturating_add(*responses);
        self.input = self.input.saturating_add(tokens.input);
        self.output = self.output.saturating_add(tokens.output);
        self.cache_creation = self.cache_creation.saturating_add(tokens.cache_creation);
        self.cache_read = self.cache_read.saturating_add(tokens.cache_read);
    }
}

impl Tokens {
    pub(super) fn of(usage: &Usage, api_responses: u64, usage_lines_seen: u64) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_creation: usage.cache_creation,
            cache_creation_5m: usage.cache_creation_5m,
            cache_creation_1h: usage.cache_creation_1h,
            cache_read: usage.cache_read,
            total: usage.total(),
            api_responses,
            usage_lines_seen,
        }
    }
}
