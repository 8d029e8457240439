//! A session from its files to its last total.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::parallel;
use crate::record::Entries;
use crate::store::SessionFiles;
use crate::transcript::group::Compaction;
use crate::transcript::text::Buffers;

use super::about::About;
use super::account::{Counted, account, account_apart, add_totals};
use super::assemble::Part;
use super::attribution::take_in_record;
use super::copied::copied;
use super::from_log;
use super::gaps::{note_files, note_gaps, note_strands};
use super::link::{Linked, Scene, link};
use super::read::read;
use super::rewind::rewinds;
use super::strand::Strand;
use super::weave::{Woven, weave};
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
    let mut files = read(session, before.map(|before| &*before.reads), follow);
    let mut reads = std::mem::take(&mut files.reads);
    let mut completeness = Completeness::default();
    note_files(&files, &mut completeness);
    let woven = weave(&mut files, before);
    let strands = &*woven.strands;
    completeness.lines_duplicate = woven.lines_duplicate;
    let mut all = strands.iter();
    let main = all.find(|strand| strand.who.part == Part::Main);
    let about = About::of(&files, strands);
    let buffers = files.buffers;
    completeness.main_thread = match main {
        Some(_) => MainThread::Present,
        None if files.main_unreadable => MainThread::Unreadable,
        None => MainThread::Missing,
    };
    let owners = owning_order(strands);
    let scene = Scene {
        strands,
        buffers: &buffers,
        sidecars: &files.sidecars,
        runs: &files.runs,
    };
    let owned = owners.iter().map(|&i| &strands[i]);
    let lines = strands.iter().map(|strand| strand.grouped.lines.len());
    let (mut linked, mut accounts) = if woven.apart {
        let accounts = owned.map(|strand| strand.account(&buffers));
        (link(&scene), account_apart(accounts))
    } else {
        let counted: Vec<Counted<'_>> = owned.map(|strand| strand.counted()).collect();
        let account = || account(&counted, &buffers);
        parallel::both(lines.sum(), WORTH, || link(&scene), account)
    };
    let mut totals: Vec<Totals> = vec![Totals::default(); strands.len()];
    for (&thread, part) in owners.iter().zip(std::mem::take(&mut accounts.threads)) {
        totals[thread] = Totals {
            usage_lines_seen: strands[thread].who.usage_lines_seen,
            ..part
        };
    }
    note_gaps(&linked, &accounts, &mut completeness);
    let copied = main.and_then(|main| {
        copied(
            &main.grouped,
            &buffers,
            &session.older,
            &about.copied_from,
            &mut completeness,
        )
    });
    note_strands(strands, &mut completeness);

    let order = document_order(strands, &linked);
    let mut place = vec![0; strands.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    let mut threads = Vec::with_capacity(strands.len());
    for old in order {
        let strand = &strands[old];
        let agent = linked.agents.remove(&old).map(|agent| moved(agent, &place));
        let totals = std::mem::take(&mut totals[old]);
        let mut made = thread(strand, totals, agent, &files.sources, &buffers);
        if strand.who.part == Part::Main {
            let rewinds = rewinds(&strand.grouped, &buffers, about.live_leaf);
            made.markers.extend(rewinds);
        }
        threads.push(made);
    }
    place_markers(&mut threads);
    reads.woven = Some(woven).filter(Woven::may_grow);
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
        reads: Arc::new(reads),
        completeness,
    };
    sum_up(&mut session);
    session
}

/// The order in which threads may own a response: the main thread, the normal agents by start, the service threads.
fn owning_order(strands: &[Arc<Strand>]) -> Vec<ThreadIndex> {
    let mut order: Vec<ThreadIndex> = (0..strands.len()).collect();
    order.sort_by_key(|&i| {
        let Strand { who, clock, .. } = &*strands[i];
        let started = clock.span.started;
        (rank(who.part), started.is_none(), started, &who.id)
    });
    order
}

/// The order of the document: the main thread, the agents in order of spawning (time, then ID; one that nothing places by its
/// start), the service threads.
fn document_order(strands: &[Arc<Strand>], linked: &Linked) -> Vec<ThreadIndex> {
    let spawned = |i: ThreadIndex| {
        let first = linked.agents.get(&i).and_then(|agent| agent.runs.first());
        first
            .and_then(|run| run.spawned.at.at())
            .or(strands[i].clock.span.started)
    };
    let mut order: Vec<ThreadIndex> = (0..strands.len()).collect();
    order.sort_by_key(|&i| {
        let who = &strands[i].who;
        let spawned = spawned(i);
        (rank(who.part), spawned.is_none(), spawned, &who.id)
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
    strand: &Strand,
    totals: Totals,
    agent: Option<Agent>,
    sources: &[String],
    buffers: &Buffers,
) -> Thread {
    let name = |source: u32| sources.get(source as usize).cloned().unwrap_or_default();
    let Strand { who, grouped, .. } = strand;
    let role = match (who.part, agent) {
        (Part::Main, _) => Role::Main,
        (Part::Service(kind), _) => Role::Service(kind),
        (Part::Agent, agent) => {
            let generations = who.generations.iter().map(|&source| name(source));
            Role::Agent(Agent {
                generations: generations.collect(),
                ..agent.unwrap_or_default()
            })
        }
    };
    let markers = grouped.compactions.iter().map(|(turn, compaction)| {
        let Compaction {
            trigger,
            pre_tokens,
            post_tokens,
            micro,
        } = *compaction;
        let trigger = trigger.map(|text| buffers.raw(text).to_text());
        Marker {
            turn: *turn,
            what: MarkerKind::Compacted {
                trigger,
                pre_tokens,
                post_tokens,
                micro,
            },
        }
    });
    Thread {
        role,
        id: who.id.clone(),
        source: name(who.source),
        turns: grouped.turns.clone(),
        blocks: strand.blocks,
        markers: markers.collect(),
        totals,
        span: strand.clock.span,
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
