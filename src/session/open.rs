//! A session from its files to its last total.

use std::collections::{BTreeMap, HashSet};

use crate::store::SessionFiles;
use crate::transcript::group::{Compaction, Grouped, group};
use crate::transcript::line::{Aside, FileLines, Line, TitleBy, What};
use crate::transcript::text::{Buffers, Text};
use crate::transcript::thread::{Block, Stamp};

use super::account::{Accounts, account, add_totals};
use super::assemble::{Assembled, Draft, Part, assemble, span};
use super::link::{Linked, link};
use super::read::{Files, read};
use super::stored::{Taken, take_in};
use super::{
    Agent, Completeness, MainThread, Marker, MarkerKind, Role, Session, Span, Thread, ThreadIndex,
    Totals,
};

/// Reads all files of a session, each once, and puts the session together. Never fails: what cannot be read or placed is a fact
/// in [`Completeness`].
pub fn open(session: &SessionFiles) -> Session {
    let mut files = read(session);
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
    let mut grouped: Vec<Grouped> = drafts
        .iter_mut()
        .map(|draft| {
            group(
                std::mem::take(&mut draft.lines),
                &buffers,
                draft.part != Part::Main,
            )
        })
        .collect();
    let mut linked = link(&drafts, &grouped, &buffers, &files.sidecars);
    let owners = owning_order(&drafts, &spans);
    let mut accounts = account(
        &owners.iter().map(|&i| &grouped[i]).collect::<Vec<_>>(),
        &buffers,
    );
    let mut totals: Vec<Totals> = vec![Totals::default(); drafts.len()];
    for (&thread, part) in owners.iter().zip(std::mem::take(&mut accounts.threads)) {
        totals[thread] = Totals {
            usage_lines_seen: drafts[thread].usage_lines_seen,
            ..part
        };
    }
    note_gaps(&linked, &accounts, &mut completeness);
    let Taken { missing, ambiguous } = take_in(&mut grouped, &buffers, &files.stored);
    completeness.stored_results_missing = missing;
    if ambiguous > 0 {
        completeness.notes.push(format!(
            "{ambiguous} stored tool result(s) are not taken in: several files have the name that the line gives"
        ));
    }

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
        threads.push(thread(
            draft,
            grouped,
            span,
            totals,
            agent,
            &files.sources,
            &buffers,
        ));
    }
    place_markers(&mut threads);
    let whole = finish(
        session,
        about,
        buffers,
        files.sources,
        threads,
        completeness,
        accounts.saturated,
    );
    Session {
        stored: files.stored,
        ..whole
    }
}

/// What the files say of the session as a whole.
struct About {
    versions: Vec<String>,
    project: Option<String>,
    title: Option<String>,
}

impl About {
    fn of(files: &Files) -> Self {
        let text = |text: &Text| files.buffers.raw(*text).to_text();
        let mains: Vec<&FileLines> = files
            .threads
            .iter()
            .filter(|f| f.agent.is_none())
            .map(|f| &f.lines)
            .collect();
        let all: Vec<&FileLines> = mains
            .iter()
            .copied()
            .chain(files.threads.iter().map(|f| &f.lines))
            .collect();
        let mut seen = HashSet::new();
        let versions = all
            .iter()
            .flat_map(|f| &f.versions)
            .map(text)
            .filter(|v| seen.insert(v.clone()))
            .collect();
        let project = all
            .iter()
            .find_map(|f| f.working_directories.first())
            .map(text);
        let project = project.as_deref().and_then(last_part).map(str::to_owned);
        Self {
            versions,
            project,
            title: title(&mains, &files.buffers),
        }
    }
}

/// The person's title, else the harness's, each the last one; else the last summary of a line of this session; else the first
/// line of the first prompt.
pub(crate) fn title(mains: &[&FileLines], buffers: &Buffers) -> Option<String> {
    let own: HashSet<_> = mains
        .iter()
        .flat_map(|f| &f.lines)
        .filter_map(|l| l.uuid)
        .map(|u| buffers.raw(u).decode())
        .collect();
    let titles = mains.iter().flat_map(|f| &f.titles).filter(|title| {
        title.by != TitleBy::Summary
            || title
                .leaf
                .is_some_and(|leaf| own.contains(&buffers.raw(leaf).decode()))
    });
    let best = titles
        .max_by_key(|title| title.by)
        .map(|title| buffers.raw(title.text).to_text());
    best.map(|title| title.trim().to_owned())
        .filter(|title| !title.is_empty())
        .or_else(|| first_prompt(mains, buffers))
}

fn first_prompt(mains: &[&FileLines], buffers: &Buffers) -> Option<String> {
    use crate::transcript::thread::TurnKind;
    const LONGEST: usize = 80;
    let prompts = mains
        .iter()
        .flat_map(|f| &f.lines)
        .filter(|line| !line.sidechain);
    let mut texts = prompts.filter_map(|line| match &line.what {
        What::Turn {
            kind: TurnKind::User,
            blocks,
            ..
        } => blocks.iter().find_map(|block| match block {
            Block::Text(text) => Some(buffers.raw(*text).to_text()),
            _ => None,
        }),
        _ => None,
    });
    let text = texts.find(|text| !text.trim().is_empty())?;
    let line = text.trim().lines().next()?.trim_end();
    let cut: String = line.chars().take(LONGEST).collect();
    Some(if cut.len() < line.len() {
        format!("{cut}…")
    } else {
        cut
    })
}

/// The last part of a path of either kind.
pub(crate) fn last_part(path: &str) -> Option<&str> {
    path.split(['/', '\\']).rfind(|part| !part.is_empty())
}

fn note_files(files: &Files, completeness: &mut Completeness) {
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
fn note_lines(lines: &[Line], buffers: &Buffers, completeness: &mut Completeness) {
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

fn note_gaps(linked: &Linked, accounts: &Accounts, completeness: &mut Completeness) {
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
    if accounts.saturated {
        notes.push(
            "a sum of tokens is larger than can be counted and stands at its largest value"
                .to_owned(),
        );
    }
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

fn finish(
    session: &SessionFiles,
    about: About,
    buffers: Buffers,
    sources: Vec<String>,
    threads: Vec<Thread>,
    mut completeness: Completeness,
    mut saturated: bool,
) -> Session {
    let mut totals = Totals::default();
    let mut agent_types: BTreeMap<String, u64> = BTreeMap::new();
    let mut whole = Span::default();
    for thread in &threads {
        let service = matches!(thread.role, Role::Service(_));
        let was = saturated;
        saturated |= add_totals(&mut totals, &thread.totals, !service);
        if saturated && !was {
            let note =
                "a sum of tokens is larger than can be counted and stands at its largest value";
            completeness.notes.push(note.to_owned());
        }
        if let Role::Agent(agent) = &thread.role {
            let kind = agent
                .agent_type
                .clone()
                .unwrap_or_else(|| "(unknown)".to_owned());
            *agent_types.entry(kind).or_default() += 1;
        }
        if matches!(thread.role, Role::Main) {
            whole.active_ms = thread.span.active_ms;
        }
        whole.started = [whole.started, thread.span.started]
            .into_iter()
            .flatten()
            .min();
        whole.ended = [whole.ended, thread.span.ended].into_iter().flatten().max();
    }
    Session {
        id: session.id.clone(),
        harness: "claude-code",
        versions: about.versions,
        project: about.project,
        title: about.title,
        buffers,
        stored: Vec::new(),
        sources,
        threads,
        totals,
        agent_types,
        span: whole,
        completeness,
    }
}
