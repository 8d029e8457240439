//! A session from its files to its last total.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::parallel;
use crate::record::Entries;
use crate::store::SessionFiles;
use crate::transcript::group::{Compaction, Grouped, group};
use crate::transcript::text::{Buffers, Text};

use super::about::About;
use super::account::{account, add_totals};
use super::assemble::{Assembled, Draft, Part, assemble, span};
use super::attribution::take_in_record;
use super::copied::copied;
use super::from_log;
use super::gaps::{note_files, note_gaps, note_lines, note_stored};
use super::link::{Linked, Scene, link};
use super::read::read;
use super::rewind::rewinds;
use super::stored::take_in;
use super::{
    Agent, Completeness, MainThread, Marker, MarkerKind, Role, Session, Span, Thread, ThreadIndex,
    Totals,
};

/// Lines that are worth a worker.
pub(super) const WORTH: usize = 300;

/// Reads all files of a session, each once, and puts the session together. Never fails: what cannot be read or placed is a fact
/// in [`Completeness`].
pub fn open(files: &SessionFiles) -> Session {
    open_from(files, |files| of_transcripts(files, None, false))
}

/// As [`open`], and so that the session can be followed: `before` is what it was, as this opened it, and of what was read then
/// nothing is read again. The result is that of [`open`].
pub fn open_again(files: &SessionFiles, before: Option<&Session>) -> Session {
    open_from(files, |files| of_transcripts(files, before, true))
}

fn open_from(files: &SessionFiles, read: impl FnOnce(&SessionFiles) -> Session) -> Session {
    let mut session = from_log::open(files).unwrap_or_else(|| read(files));
    take_in_record(files, &mut session);
    session
}

fn of_transcripts(session: &SessionFiles, before: Option<&Session>, follow: bool) -> Session {
    let before = before.map(|before| &*before.reads);
    let mut files = read(session, before, follow);
    let reads = Arc::new(std::mem::take(&mut files.reads));
    let mut completeness = Completeness::default();
    note_files(&files, &mut completeness);
    let about = About::of(&files);
    let Assembled {
        mut drafts,
        lines_duplicate,
    } = assemble(&mut files);
    completeness.lines_duplicate = lines_duplicate;
    completeness.main_thread = match drafts.iter().any(|draft| draft.part == Part::Main) {
        true => MainThread::Present,
        false if files.main_unreadable => MainThread::Unreadable,
        false => MainThread::Missing,
    };
    let buffers = files.buffers;
    let spans: Vec<Span> = drafts
        .iter()
        .map(|d| span(&d.lines, &mut completeness.timestamps_backwards))
        .collect();
    for draft in &drafts {
        note_lines(&draft.lines, &buffers, &mut completeness);
    }
    let lines = drafts.iter().map(|draft| draft.lines.len()).sum();
    let least = parallel::least(drafts.len(), lines, WORTH);
    let mut grouped: Vec<Grouped> = drafts
        .par_iter_mut()
        .with_min_len(least)
        .map(|draft| {
            group(
                std::mem::take(&mut draft.lines),
                &buffers,
                draft.part != Part::Main,
            )
        })
        .collect();
    let owners = owning_order(&drafts, &spans);
    let scene = Scene {
        drafts: &drafts,
        threads: &grouped,
        buffers: &buffers,
        sidecars: &files.sidecars,
        runs: &files.runs,
    };
    let owned: Vec<&Grouped> = owners.iter().map(|&i| &grouped[i]).collect();
    let (mut linked, mut accounts) =
        parallel::both(lines, WORTH, || link(&scene), || account(&owned, &buffers));
    let mut totals: Vec<Totals> = vec![Totals::default(); drafts.len()];
    for (&thread, part) in owners.iter().zip(std::mem::take(&mut accounts.threads)) {
        totals[thread] = Totals {
            usage_lines_seen: drafts[thread].usage_lines_seen,
            ..part
        };
    }
    note_gaps(&linked, &accounts, &mut completeness);
    let main = drafts.iter().position(|draft| draft.part == Part::Main);
    let copied = main.and_then(|i| {
        copied(
            &grouped[i],
            &buffers,
            &session.older,
            &about.copied_from,
            &mut completeness,
        )
    });
    note_stored(
        take_in(&mut grouped, &buffers, &files.stored),
        &mut completeness,
    );

    let order = document_order(&drafts, &spans, &linked);
    let mut place = vec![0; drafts.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    let mut parts: Vec<_> = drafts
        .into_iter()
        .zip(grouped)
        .zip(spans)
        .zip(totals)
        .map(Some)
        .collect();
    let mut threads = Vec::with_capacity(parts.len());
    for old in order {
        let Some((((draft, grouped), span), totals)) = parts[old].take() else {
            continue;
        };
        let agent = linked.agents.remove(&old).map(|agent| moved(agent, &place));
        let is_main = draft.part == Part::Main;
        let rewinds = is_main.then(|| rewinds(&grouped, &buffers, about.live_leaf));
        let mut made = thread(
            draft,
            grouped,
            span,
            totals,
            agent,
            &files.sources,
            &buffers,
        );
        made.markers.extend(rewinds.into_iter().flatten());
        threads.push(made);
    }
    place_markers(&mut threads);
    let mut session = Session {
        id: session.id.clone(),
        // A session known only by its record may be any host's.
        harness: if session.fragments.is_empty() {
            "unknown"
        } else {
            "claude-code"
        },
        versions: about.versions,
        project: about.project,
        title: about.title,
        buffers,
        stored: files.stored,
        sources: files.sources,
        threads,
        totals: Totals::default(),
        copied,
        agent_types: BTreeMap::new(),
        span: Span::default(),
        entries: Entries::default(),
        attributions: BTreeMap::new(),
        log: None,
        reads,
        completeness,
    };
    sum_up(&mut session);
    session
}

/// The order in which threads may own a response: the main thread, the normal agents by start, the service threads.
fn owning_order(drafts: &[Draft], spans: &[Span]) -> Vec<ThreadIndex> {
    let mut order: Vec<ThreadIndex> = (0..drafts.len()).collect();
    order.sort_by_key(|&i| {
        (
            rank(drafts[i].part),
            spans[i].started.is_none(),
            spans[i].started,
            &drafts[i].id,
        )
    });
    order
}

/// The order of the document: the main thread, the agents in order of spawning (time, then ID; one that nothing places by its
/// start), the service threads.
fn document_order(drafts: &[Draft], spans: &[Span], linked: &Linked) -> Vec<ThreadIndex> {
    let spawned = |i: ThreadIndex| {
        let first = linked.agents.get(&i).and_then(|agent| agent.runs.first());
        first
            .and_then(|run| run.spawned.at.at())
            .or(spans[i].started)
    };
    let mut order: Vec<ThreadIndex> = (0..drafts.len()).collect();
    order.sort_by_key(|&i| {
        (
            rank(drafts[i].part),
            spawned(i).is_none(),
            spawned(i),
            &drafts[i].id,
        )
    });
    order
}

fn rank(part: Part) -> u8 {
    match part {
        Part::Main => 0,
        Part::Agent => 1,
        Part::Service(_) => 2,
    }
}

fn moved(mut agent: Agent, place: &[ThreadIndex]) -> Agent {
    agent.parent = agent.parent.map(|parent| place[parent]);
    for run in &mut agent.runs {
        run.spawned.thread = place[run.spawned.thread];
    }
    agent
}

fn thread(
    draft: Draft,
    grouped: Grouped,
    span: Span,
    totals: Totals,
    agent: Option<Agent>,
    sources: &[String],
    buffers: &Buffers,
) -> Thread {
    let name = |source: u32| sources.get(source as usize).cloned().unwrap_or_default();
    let role = match (draft.part, agent) {
        (Part::Main, _) => Role::Main,
        (Part::Service(kind), _) => Role::Service(kind),
        (Part::Agent, agent) => {
            let generations = draft
                .generations
                .iter()
                .map(|&source| name(source))
                .collect();
            Role::Agent(Agent {
                generations,
                ..agent.unwrap_or_default()
            })
        }
    };
    let text = |text: Text| buffers.raw(text).to_text();
    let markers = grouped.compactions.into_iter().map(
        |(
            turn,
            Compaction {
                trigger,
                pre_tokens,
                post_tokens,
                micro,
            },
        )| {
            let trigger = trigger.map(text);
            Marker {
                turn,
                what: MarkerKind::Compacted {
                    trigger,
                    pre_tokens,
                    post_tokens,
                    micro,
                },
            }
        },
    );
    Thread {
        role,
        id: draft.id,
        source: name(draft.source),
        turns: grouped.turns,
        markers: markers.collect(),
        totals,
        span,
    }
}

/// Puts a marker at each spawn and join of an agent into the spawning thread.
fn place_markers(threads: &mut [Thread]) {
    let mut placed: Vec<(ThreadIndex, Marker)> = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let Role::Agent(agent) = &thread.role else {
            continue;
        };
        for run in &agent.runs {
            let at = run.spawned.thread;
            placed.push((
                at,
                Marker {
                    turn: Some(run.spawned.turn),
                    what: MarkerKind::Spawned(index),
                },
            ));
            if let Some(turn) = run.joined.as_ref().and_then(|join| join.turn) {
                placed.push((
                    at,
                    Marker {
                        turn: Some(turn),
                        what: MarkerKind::Joined(index),
                    },
                ));
            }
        }
    }
    for (thread, marker) in placed {
        threads[thread].markers.push(marker);
    }
    for thread in threads {
        thread.markers.sort_by_key(|marker| marker.turn);
    }
}

/// Adds the threads up to the session.
pub(super) fn sum_up(session: &mut Session) {
    let mut saturated = false;
    for thread in &session.threads {
        let is_service = matches!(thread.role, Role::Service(_));
        saturated |= add_totals(&mut session.totals, &thread.totals, !is_service);
        if let Role::Agent(agent) = &thread.role {
            let kind = agent.agent_type.as_deref().unwrap_or("(unknown)");
            *session.agent_types.entry(kind.to_owned()).or_default() += 1;
        }
        let (whole, part) = (&mut session.span, &thread.span);
        if matches!(thread.role, Role::Main) {
            whole.active_ms = part.active_ms;
        }
        whole.started = [whole.started, part.started].into_iter().flatten().min();
        whole.ended = [whole.ended, part.ended].into_iter().flatten().max();
    }
    if let Some(searches) = session.totals.tool_calls.get("WebSearch") {
        let n = searches.calls;
        let note =
            format!("{n} web search(es): the harness stores no tokens of the calls behind them");
        session.completeness.notes.push(note);
    }
    // Within one thread the sum may have stopped already; then the whole has reached its largest value too.
    if saturated || session.totals.tokens.total() == u64::MAX {
        let note = "a sum of tokens is larger than can be counted and stands at its largest value";
        session.completeness.notes.push(note.to_owned());
    }
}
