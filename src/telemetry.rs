//! The telemetry: one JSON object that says what a session used and what is not known of it.
//!
//! `spec/telemetry.md` and `spec/telemetry.example.json` are the source of the keys and their order. Every recorded string in it is
//! in display form, on one line, with absolute paths shortened to their last part.

mod form;

use crate::record::{Entries, Kind, Outcome, Side};
use crate::session::{self, Role, Session, Thread, ThreadIndex, Totals};
use crate::transcript::Stamp;
use crate::transcript::display::Shown;
use form::{
    Agent, Completeness, Figures, Joined, Line, Main, Messages, Model, Own, Run, Safe, Schema,
    Service, Span, Spawned, Telemetry, Time, Tokens, ToolCalls, Turns, Unused, by_name,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The telemetry of a whole session; `shown` is what `artefact.md` of the same session changed and cut.
pub fn whole(session: &Session, shown: &Shown) -> Vec<u8> {
    let mut main = None;
    let (mut agents, mut service) = (Vec::new(), Vec::new());
    for thread in &session.threads {
        match Entry::of(session, thread) {
            Entry::Main(entry) => main = Some(entry),
            Entry::Agent(entry) => agents.push(*entry),
            Entry::Service(entry) => service.push(entry),
        }
    }
    to_json(&Telemetry {
        schema: Schema::One,
        session_id: Safe::of(&session.id),
        harness: session.harness,
        versions: safe(&session.versions),
        project: session.project.as_deref().map(Safe::of),
        title: session.title.as_deref().map(Safe::of),
        captured: false,
        span: span(&session.span),
        turns: turns(&session.totals),
        tokens: tokens(&session.totals),
        tool_calls: tool_calls(&session.totals),
        models: models(&session.totals),
        agent_types: counts(&session.agent_types),
        copied: session.copied.as_ref().map(|copied| form::Copied {
            sessions: safe(&copied.sessions),
            tokens: Tokens::of(
                &copied.tokens,
                copied.api_responses,
                copied.usage_lines_seen,
            ),
        }),
        main,
        agents,
        service,
        messages: messages(&session.entries),
        log: session.log.as_ref().map(|log| form::Log {
            state: log.state.name(),
            events: log.events,
            objects: log.objects,
            bytes: log.bytes,
            problem: log_problem(session),
        }),
        completeness: completeness(session, shown),
    })
}

/// What the record of messages counts. Of several chain entries the last one speaks.
fn messages(entries: &Entries) -> Messages {
    let count = |wanted: &dyn Fn(&Side) -> bool| {
        let sides = entries
            .list
            .iter()
            .filter_map(|entry| Some(&entry.message()?.side));
        sides.filter(|side| wanted(side)).count() as u64
    };
    let chain = entries
        .list
        .iter()
        .rev()
        .find(|entry| matches!(entry.kind, Kind::Chain));
    let says = |key| Some(Safe::of(&chain?.value(key)?.to_text()));
    Messages {
        sent: count(&|side| matches!(side, Side::Sent { .. })),
        not_queued: count(&|side| {
            matches!(
                side,
                Side::Sent {
                    is_queued: Some(false)
                }
            )
        }),
        received: count(&|side| matches!(side, Side::Received { .. })),
        rejected: count(&|side| {
            matches!(
                side,
                Side::Received {
                    outcome: Outcome::Rejected
                }
            )
        }),
        damaged: entries.damaged.len() as u64,
        coverage_from: entries
            .coverage_from()
            .and_then(|from| time(Stamp::At(from))),
        parent: says("parent"),
        part: says("part"),
    }
}

/// The telemetry of one thread, an agent's or a service thread's: its entry in the session's, with the completeness keys; `shown` is
/// what the thread's own `artefact.md` changed and cut. Empty for an index that the session does not have.
pub fn agent(session: &Session, thread: ThreadIndex, shown: &Shown) -> Vec<u8> {
    let Some(thread) = session.threads.get(thread) else {
        return Vec::new();
    };
    let completeness = completeness(session, shown);
    match Entry::of(session, thread) {
        Entry::Main(entry) => to_json(&Own {
            entry,
            completeness,
        }),
        Entry::Agent(entry) => to_json(&Own {
            entry: *entry,
            completeness,
        }),
        Entry::Service(entry) => to_json(&Own {
            entry,
            completeness,
        }),
    }
}

/// The JSON Schema of the telemetry, made of the types that write it. Under `$defs` it also has those of an agent's and of a service
/// thread's own file, `OwnAgent` and `OwnService`.
pub fn schema() -> String {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    generator.subschema_for::<Own<Agent>>();
    generator.subschema_for::<Own<Service>>();
    let schema = generator.into_root_schema_for::<Telemetry>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

fn to_json(telemetry: &impl Serialize) -> Vec<u8> {
    // Our own types have string keys only, and writing into memory cannot fail.
    let mut json = serde_json::to_vec_pretty(telemetry).unwrap_or_default();
    json.push(b'\n');
    json
}

/// A thread's entry.
enum Entry {
    Main(Main),
    Agent(Box<Agent>),
    Service(Service),
}

impl Entry {
    fn of(session: &Session, thread: &Thread) -> Self {
        let source = Safe::of(&thread.source);
        let figures = Figures {
            span: span(&thread.span),
            turns: turns(&thread.totals),
            tokens: tokens(&thread.totals),
            tool_calls: tool_calls(&thread.totals),
            models: models(&thread.totals),
        };
        let id = Safe::of(&thread.id);
        match &thread.role {
            Role::Main => Self::Main(Main { source, figures }),
            Role::Service(kind) => Self::Service(Service {
                id,
                kind: kind.name(),
                source,
                figures,
            }),
            Role::Agent(agent) => {
                let first = agent.runs.first();
                let parent = agent.parent.and_then(|parent| session.threads.get(parent));
                Self::Agent(Box::new(Agent {
                    id,
                    source,
                    kind: agent.agent_type.as_deref().map(Safe::of),
                    description: agent.description.as_deref().map(Safe::of),
                    depth: agent.depth,
                    parent: parent.map(|parent| Safe::of(&parent.id)),
                    spawned: first.map(|run| spawned(&run.spawned)),
                    joined: first.and_then(|run| run.joined.as_ref()).map(joined),
                    concurrent_turns: first.and_then(|run| run.concurrent_turns),
                    runs: agent.runs.iter().map(run).collect(),
                    generations: safe(&agent.generations),
                    figures,
                }))
            }
        }
    }
}

fn run(run: &session::Run) -> Run {
    Run {
        spawned: spawned(&run.spawned),
        joined: run.joined.as_ref().map(joined),
    }
}

fn spawned(spawn: &session::Spawn) -> Spawned {
    Spawned {
        turn: spawn.turn as u64 + 1,
        at: time(spawn.at),
        tool_use_id: Safe::of(&spawn.tool_use_id),
        evidence: spawn
            .evidence
            .iter()
            .map(|evidence| evidence.name())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}

fn joined(join: &session::Join) -> Joined {
    Joined {
        turn: join.turn.map(|turn| turn as u64 + 1),
        at: time(join.at),
        how: join.how.name(),
    }
}

fn completeness(session: &Session, shown: &Shown) -> Completeness {
    let known = &session.completeness;
    Completeness {
        complete: !known.has_gap() && !shown.has_gap(),
        main_thread: known.main_thread.name(),
        agents_unattributed: known.agents_unattributed,
        agents_without_join: known.agents_without_join,
        parents_absent: known.parents_absent,
        spawns_without_transcript: known.spawns_without_transcript,
        evidence_conflicts: known.evidence_conflicts,
        lines_unparseable: known
            .lines_unparseable
            .iter()
            .map(|damage| Line {
                source: Safe::of(
                    session
                        .sources
                        .get(damage.source as usize)
                        .map_or("", String::as_str),
                ),
                number: damage.line,
                offset: damage.offset,
                why: damage.why,
                recovered: damage.recovered,
            })
            .collect(),
        incomplete_tail_bytes: known.incomplete_tail_bytes,
        lines_duplicate: known.lines_duplicate,
        line_types_not_shown: counts(&known.line_types_not_shown),
        line_types_unknown: counts(&known.line_types_unknown),
        usage_without_message_id: known.usage_without_message_id,
        responses_with_differing_usage: known.responses_with_differing_usage,
        responses_without_stop_reason: known.responses_without_stop_reason,
        counts_not_numbers: known.counts_not_numbers,
        timestamps_missing: known.timestamps_missing,
        timestamps_backwards: known.timestamps_backwards,
        tool_calls_without_result: known.tool_calls_without_result,
        tool_results_without_call: known.tool_results_without_call,
        stored_results_missing: known.stored_results_missing,
        blocks_cut: shown.blocks_cut,
        bytes_cut: shown.bytes_cut,
        characters_shown_escaped: shown.characters_escaped,
        characters_replaced: shown.characters_replaced,
        crlf_shown_as_lf: shown.crlf,
        sources_unused: known
            .sources_unused
            .iter()
            .map(|unused| Unused {
                source: Safe::of(&unused.source),
                why: Safe::of(&unused.why),
            })
            .collect(),
        record_entries_damaged: known.record_entries_damaged,
        log_problem: log_problem(session),
        notes: safe(&known.notes),
    }
}

fn log_problem(session: &Session) -> Option<form::LogProblem> {
    let problem = session.completeness.log_problem.as_ref()?;
    Some(form::LogProblem {
        offset: problem.offset,
        reason: Safe::of(&problem.reason),
    })
}

fn span(span: &session::Span) -> Span {
    let ms = span.wall_clock_ms();
    let seconds = |ms: u64| ms as f64 / 1000.0;
    Span {
        started: span.started.map(Time::of),
        ended: span.ended.map(Time::of),
        wall_clock_seconds: ms.map(seconds),
        active_seconds: ms.map(|_| seconds(span.active_ms)),
    }
}

fn turns(totals: &Totals) -> Turns {
    let turns = &totals.turns;
    Turns {
        total: turns.total,
        user: turns.user,
        task: turns.task,
        peer: turns.peer,
        assistant: turns.assistant,
        tool_result: turns.tool_result,
        other: turns.other,
    }
}

fn tokens(totals: &Totals) -> Tokens {
    Tokens::of(
        &totals.tokens,
        totals.api_responses,
        totals.usage_lines_seen,
    )
}

fn tool_calls(totals: &Totals) -> BTreeMap<Safe, ToolCalls> {
    by_name(&totals.tool_calls, ToolCalls::add)
}

fn models(totals: &Totals) -> BTreeMap<Safe, Model> {
    by_name(&totals.models, Model::add)
}

fn counts(counts: &BTreeMap<String, u64>) -> BTreeMap<Safe, u64> {
    by_name(counts, |sum: &mut u64, count: &u64| {
        *sum = sum.saturating_add(*count);
    })
}

fn safe(texts: &[String]) -> Vec<Safe> {
    texts.iter().map(|text| Safe::of(text)).collect()
}

fn time(stamp: Stamp) -> Option<Time> {
    stamp.at().map(Time::of)
}
