//! Which lines make which thread.
//!
//! A session's main thread may lie in several fragments, an old one holds its sub-agents inside, an agent may have been written
//! anew from its beginning at each wake-up, and the harness copies whole threads for its own work. A line's identity is its
//! uuid, never its file and number (`formats/claude-code.md` 6.4, 6.6, 6.7), so each line is kept once, in the thread that it belongs to.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::borrow::Cow;
use std::collections::VecDeque;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::parallel;
use crate::transcript::identity::Identity;
use crate::transcript::line::{Fact, Line, What};
use crate::transcript::text::{Buffers, Text};
use crate::transcript::thread::Block;

use super::ServiceKind;
use super::open::WORTH;
use super::read::Files;
use super::sidecar::Sidecar;

/// A thread's own lines, each once, and what it is.
#[derive(Debug)]
pub(super) struct Draft {
    pub who: Who,
    pub lines: Vec<Line>,
}

impl Draft {
    /// Of the one file of a sub-agent, as far as its lines alone say what it is.
    pub(super) fn of_agent(id: String, source: u32, run: Option<String>, lines: Vec<Line>) -> Self {
        let who = Who {
            part: Part::Agent,
            id,
            source,
            run,
            generations: Vec::new(),
            usage_lines_seen: lines.iter().filter(|line| has_usage(line)).count() as u64,
        };
        Self { who, lines }
    }
}

/// What a thread is, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub part: Part,
    /// `main` or the agent's ID.
    pub id: String,
    /// Index into the session's sources of the file that names it.
    pub source: u32,
    /// The workflow's run that it is part of.
    pub run: Option<String>,
    /// Earlier files of the same agent.
    pub generations: Vec<u32>,
    /// Assistant lines with usage in its files, copies included.
    pub usage_lines_seen: u64,
}

/// What a thread is before anything is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Agent,
    Service(ServiceKind),
}

/// The threads of a session, and what was dropped on the way.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    pub drafts: Vec<Draft>,
    pub lines_duplicate: u64,
    /// Whether a thread is made of several files, or of a part of one, or is what it is, or called what it is called, because of
    /// another: then one line more may change more than the thread in whose file it stands.
    pub entangled: bool,
    /// The hashes of the uuids of lines that a service thread lost because another thread has their response.
    pub replayed: Vec<u64>,
}

/// The lines of one file.
struct FileLines {
    agent: Option<String>,
    source: u32,
    run: Option<String>,
    lines: Vec<Line>,
}

/// By the number of each source, its place among the files.
type Places = HashMap<u32, usize>;

pub(super) fn assemble(files: &mut Files) -> Assembled {
    let buffers = &files.buffers;
    let lines = files.threads.par_iter_mut().map(|file| FileLines {
        agent: file.agent.clone(),
        source: file.source,
        run: file.run.clone(),
        lines: file.take_lines(),
    });
    let lines: Vec<FileLines> = lines.collect();
    let places: Places = lines
        .iter()
        .enumerate()
        .map(|(place, file)| (file.source, place))
        .collect();
    let (mains, agents): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|file| file.agent.is_none());
    let mut assembled = Assembled {
        entangled: mains.len() > 1,
        ..Assembled::default()
    };
    let (main, main_uuids) = merge_main(mains, buffers, &mut assembled);
    let mut drafts = merge_agents(agents, &places, buffers, &mut assembled);
    let spawned = spawned_ids(&drafts, main.as_ref(), &files.sidecars, buffers);
    let parts = drafts
        .iter()
        .map(|draft| part_of(draft, buffers, &main_uuids, &spawned));
    let parts: Vec<(Part, bool)> = parts.collect();
    assembled.entangled |= parts.iter().any(|(_, by_others)| *by_others);
    let parts = parts.into_iter().map(|(part, _)| part);
    for (draft, part) in drafts.iter_mut().zip(parts) {
        draft.who.part = part;
    }
    // A line that the main thread has is no agent's, and a service thread keeps only what no other thread has: neither a line, nor
    // a response, since a side question replays its thread's under uuids of its own.
    let (mut others, mut answered) = (HashSet::new(), HashSet::new());
    if drafts.iter().any(|draft| draft.who.part != Part::Agent) {
        let agents = || drafts.iter().filter(|draft| draft.who.part == Part::Agent);
        others.extend(agents().flat_map(|draft| uuids(buffers, draft)));
        let threads = main.iter().chain(agents());
        answered.extend(threads.flat_map(|draft| message_ids(draft, buffers)));
    }
    let lines = drafts.iter().map(|draft| draft.lines.len()).sum();
    let least = parallel::least(drafts.len(), lines, WORTH);
    let dropped = drafts.par_iter_mut().with_min_len(least).map(|draft| {
        let (before, mut replayed) = (draft.lines.len(), Vec::new());
        let is_service = matches!(draft.who.part, Part::Service(_));
        draft.lines.retain(|line| {
            let foreign = |u| main_uuids.contains(&u) || (is_service && others.contains(&u));
            let is_replayed =
                is_service && message_id(line, buffers).is_some_and(|id| answered.contains(&id));
            if is_replayed {
                replayed.push(line.uuid_hash);
            }
            !is_replayed && !Identity::of(line, buffers).is_some_and(foreign)
        });
        ((before - draft.lines.len()) as u64, replayed)
    });
    let (dropped, replayed): (Vec<u64>, Vec<Vec<u64>>) = dropped.unzip();
    assembled.lines_duplicate += dropped.iter().sum::<u64>();
    assembled.replayed = replayed.concat();
    drop((main_uuids, others, answered));
    if let Some(main) = main {
        let (main, inline) = split_inline(main, buffers);
        assembled.entangled |= !inline.is_empty();
        assembled.drafts.push(main);
        assembled.drafts.extend(inline);
    }
    assembled.drafts.extend(drafts);
    assembled.entangled |= name_apart(&mut assembled.drafts);
    assembled
}

/// The main thread of all fragments: each file keeps its own order, and the next line comes from the file whose next stamped
/// line is earliest (`spec/mount-tree.md`). Gives the uuids of its lines too.
fn merge_main<'a>(
    mut mains: Vec<FileLines>,
    buffers: &'a Buffers,
    assembled: &mut Assembled,
) -> (Option<Draft>, HashSet<Identity<'a>>) {
    let Some(source) = mains.first().map(|file| file.source) else {
        return (None, HashSet::new());
    };
    let usage_lines_seen = mains
        .iter()
        .flat_map(|file| &file.lines)
        .filter(|line| has_usage(line))
        .count() as u64;
    let (lines, uuids) = match mains.as_mut_slice() {
        [file] => {
            let mut lines = std::mem::take(&mut file.lines);
            let (seen, dropped) = drop_repeated(&mut lines, buffers);
            assembled.lines_duplicate += dropped;
            (lines, seen)
        }
        _ => interleave(mains, buffers, assembled),
    };
    let who = Who {
        part: Part::Main,
        id: "main".to_owned(),
        source,
        run: None,
        generations: Vec::new(),
        usage_lines_seen,
    };
    (Some(Draft { who, lines }), uuids)
}

/// Drops the lines whose uuid a line before them has. Gives the uuids, and how many lines were dropped.
fn drop_repeated<'a>(lines: &mut Vec<Line>, buffers: &'a Buffers) -> (HashSet<Identity<'a>>, u64) {
    let before = lines.len();
    let mut seen = HashSet::with_capacity(before);
    lines.retain(|line| Identity::of(line, buffers).is_none_or(|uuid| seen.insert(uuid)));
    let dropped = (before - lines.len()) as u64;
    (seen, dropped)
}

fn interleave<'a>(
    mains: Vec<FileLines>,
    buffers: &'a Buffers,
    assembled: &mut Assembled,
) -> (Vec<Line>, HashSet<Identity<'a>>) {
    let mut queues: Vec<VecDeque<Line>> = mains.into_iter().map(|file| file.lines.into()).collect();
    let mut stamps: Vec<Timestamp> = queues.iter().map(next_stamp).collect();
    let mut seen: HashSet<Identity<'_>> = HashSet::new();
    let mut lines = Vec::with_capacity(queues.iter().map(VecDeque::len).sum());
    while let Some(next) = (0..queues.len())
        .filter(|&i| !queues[i].is_empty())
        .min_by_key(|&i| (stamps[i], i))
    {
        // Up to and including the stamped line that made this file the next one.
        while let Some(line) = queues[next].pop_front() {
            let stamped = line.at.at().is_some();
            if Identity::of(&line, buffers).is_none_or(|uuid| seen.insert(uuid)) {
                lines.push(line);
            } else {
                assembled.lines_duplicate += 1;
            }
            if stamped {
                break;
            }
        }
        stamps[next] = next_stamp(&queues[next]);
    }
    (lines, seen)
}

/// When the next stamped line of a file was written; a file without one comes last.
fn next_stamp(queue: &VecDeque<Line>) -> Timestamp {
    queue
        .iter()
        .find_map(|line| line.at.at())
        .unwrap_or(Timestamp::MAX)
}

/// One draft an agent. Files of which one begins with all lines of another are generations of one agent; so are files of one ID
/// that share lines. A second agent with an equal ID stays a thread of its own.
fn merge_agents(
    files: Vec<FileLines>,
    places: &Places,
    buffers: &Buffers,
    assembled: &mut Assembled,
) -> Vec<Draft> {
    struct Candidate<'a> {
        draft: Draft,
        first: Option<Identity<'a>>,
        uuids: usize,
    }
    let lines = files.iter().map(|file| file.lines.len()).sum();
    let least = parallel::least(files.len(), lines, WORTH);
    let candidates = files.into_par_iter().with_min_len(least).map(|file| {
        let id = file.agent.unwrap_or_default();
        let mut draft = Draft::of_agent(id, file.source, file.run, file.lines);
        let (seen, dropped) = drop_repeated(&mut draft.lines, buffers);
        let first = uuids(buffers, &draft).next();
        let candidate = Candidate {
            draft,
            first,
            uuids: seen.len(),
        };
        (candidate, dropped)
    });
    let (mut candidates, dropped): (Vec<_>, Vec<u64>) = candidates.unzip();
    assembled.lines_duplicate += dropped.iter().sum::<u64>();
    // The longest first: it is the newest, since each wake-up wrote all that was there before; a shorter one joins it.
    candidates.sort_by(|a, b| {
        let longer = b.uuids.cmp(&a.uuids);
        longer.then_with(|| a.draft.who.id.cmp(&b.draft.who.id))
    });
    let mut by_first: HashMap<Identity<'_>, Vec<usize>> = HashMap::new();
    let mut merged: Vec<Candidate<'_>> = Vec::new();
    for candidate in candidates {
        let known = candidate
            .first
            .as_ref()
            .and_then(|first| by_first.get(first))
            .into_iter()
            .flatten()
            .copied();
        let home = known
            .into_iter()
            .find(|&i| begins_with(&merged[i].draft, &candidate.draft, buffers));
        if let Some(i) = home {
            let longest = &mut merged[i].draft;
            assembled.lines_duplicate += candidate.uuids as u64;
            longest.who.usage_lines_seen += candidate.draft.who.usage_lines_seen;
            assembled.entangled = true;
            longest.who.generations.push(candidate.draft.who.source);
            longest.who.generations.sort_by_key(|source| places[source]);
            continue;
        }
        if let Some(first) = &candidate.first {
            by_first
                .entry(first.clone())
                .or_default()
                .push(merged.len());
        }
        merged.push(candidate);
    }
    let mut drafts: Vec<Draft> = merged
        .into_iter()
        .map(|candidate| candidate.draft)
        .collect();
    drafts.sort_by(|a, b| {
        a.who
            .id
            .cmp(&b.who.id)
            .then_with(|| places[&a.who.source].cmp(&places[&b.who.source]))
    });
    drafts
}

/// Whether a thread begins with all lines of another, as far as they have uuids.
fn begins_with(long: &Draft, short: &Draft, buffers: &Buffers) -> bool {
    let mut all = uuids(buffers, long);
    uuids(buffers, short).all(|uuid| all.next() == Some(uuid))
}

/// Whether an agent's file is a sub-agent's or the harness's own work: by the name that the harness gives it, by the text of a
/// warm-up, or because it begins as a copy or continuation of the main thread and no ID says that it was spawned. Says too whether
/// it is so by what other threads say.
fn part_of(
    draft: &Draft,
    buffers: &Buffers,
    main: &HashSet<Identity<'_>>,
    spawned: &HashSet<Cow<'_, [u8]>>,
) -> (Part, bool) {
    if let Some(kind) = service_by_name(&draft.who.id) {
        return (Part::Service(kind), false);
    }
    if is_warm_up(&draft.lines, buffers) {
        return (Part::Service(ServiceKind::WarmUp), false);
    }
    let first = draft.lines.iter().find(|line| line.uuid.is_some());
    let in_main = |text: Option<Text>| {
        text.is_some_and(|text| main.contains(&Identity::named(text, buffers)))
    };
    let begins_in_main = first.is_some_and(|line| in_main(line.uuid) || in_main(line.parent));
    let part = if begins_in_main && !spawned.contains(draft.who.id.as_bytes()) {
        Part::Service(ServiceKind::Copy)
    } else {
        Part::Agent
    };
    (part, begins_in_main)
}

/// What work of its own the harness gives a thread this ID for (`formats/claude-code.md` 6.4).
pub(super) fn service_by_name(id: &str) -> Option<ServiceKind> {
    let kinds = [
        ("acompact-", ServiceKind::Compaction),
        ("aside_question-", ServiceKind::SideQuestion),
        ("aprompt_suggestion-", ServiceKind::PromptSuggestion),
    ];
    let named = kinds.into_iter().find(|(prefix, _)| id.starts_with(prefix));
    named.map(|(_, kind)| kind)
}

fn message_ids<'a>(draft: &Draft, buffers: &'a Buffers) -> Vec<Cow<'a, [u8]>> {
    let lines = draft.lines.iter();
    lines.filter_map(|line| message_id(line, buffers)).collect()
}

fn message_id<'a>(line: &Line, buffers: &'a Buffers) -> Option<Cow<'a, [u8]>> {
    match &line.what {
        What::Response(response) => Some(buffers.raw(response.message_id?).decode()),
        _ => None,
    }
}

/// The IDs of agents of which a sidecar, a structured result or a progress line says that a call spawned them.
fn spawned_ids<'a>(
    drafts: &'a [Draft],
    main: Option<&Draft>,
    sidecars: &'a HashMap<String, Sidecar>,
    buffers: &'a Buffers,
) -> HashSet<Cow<'a, [u8]>> {
    let named = sidecars
        .iter()
        .filter(|(_, sidecar)| sidecar.tool_use_id.is_some())
        .map(|(id, _)| Cow::Borrowed(id.as_bytes()));
    let lines = drafts.iter().chain(main).flat_map(|draft| &draft.lines);
    let facts = lines.flat_map(|line| &line.facts);
    let told = facts.filter_map(|fact| match fact {
        Fact::AgentResult { agent, .. } | Fact::Progress { agent, .. } => {
            Some(buffers.raw(*agent).decode())
        }
        _ => None,
    });
    named.chain(told).collect()
}

/// Whether a thread only warms a cache, by what it begins with.
pub(super) fn is_warm_up(lines: &[Line], buffers: &Buffers) -> bool {
    let first = lines.iter().find_map(|line| match &line.what {
        What::Turn { blocks, .. } => Some(blocks.as_slice()),
        _ => None,
    });
    matches!(first, Some([Block::Text(text)]) if buffers.raw(*text).decode().trim_ascii() == b"Warmup")
}

/// Takes the sub-agents out of a main file that holds them inside: sidechain lines that follow one another are one thread,
/// wherever in the file they stand.
fn split_inline(mut main: Draft, buffers: &Buffers) -> (Draft, Vec<Draft>) {
    if main.lines.iter().all(|line| !line.sidechain) {
        return (main, Vec::new());
    }
    let (side, kept): (Vec<Line>, Vec<Line>) = std::mem::take(&mut main.lines)
        .into_iter()
        .partition(|l| l.sidechain);
    main.lines = kept;
    let place: HashMap<Identity<'_>, usize> = side
        .iter()
        .enumerate()
        .filter_map(|(i, line)| Some((Identity::of(line, buffers)?, i)))
        .collect();
    // Disjoint sets, so that neither order nor a cycle of parents matters. The root of a set is its first line.
    let mut root: Vec<usize> = (0..side.len()).collect();
    for (i, line) in side.iter().enumerate() {
        let parent = line
            .parent
            .and_then(|parent| place.get(&Identity::named(parent, buffers)).copied());
        if let Some(parent) = parent {
            let (a, b) = (find(&mut root, i), find(&mut root, parent));
            root[a.max(b)] = a.min(b);
        }
    }
    drop(place);
    let mut inline: Vec<Draft> = Vec::new();
    let mut thread_of: HashMap<usize, usize> = HashMap::new();
    for (i, line) in side.into_iter().enumerate() {
        let thread = *thread_of.entry(find(&mut root, i)).or_insert_with(|| {
            let id = Identity::of(&line, buffers).map_or_else(
                || format!("inline-line{}", line.number),
                |uuid| {
                    format!(
                        "inline-{}",
                        String::from_utf8_lossy(&uuid.uuid)
                            .chars()
                            .take(8)
                            .collect::<String>()
                    )
                },
            );
            let (part, source) = (Part::Agent, line.source);
            let who = Who {
                part,
                id,
                source,
                run: None,
                generations: Vec::new(),
                usage_lines_seen: 0,
            };
            let lines = Vec::new();
            inline.push(Draft { who, lines });
            inline.len() - 1
        });
        let usage = u64::from(has_usage(&line));
        inline[thread].who.usage_lines_seen += usage;
        main.who.usage_lines_seen = main.who.usage_lines_seen.saturating_sub(usage);
        inline[thread].lines.push(line);
    }
    for draft in &mut inline {
        if is_warm_up(&draft.lines, buffers) {
            draft.who.part = Part::Service(ServiceKind::WarmUp);
        }
    }
    (main, inline)
}

/// The root of a set, the way to it halved for the next search.
fn find(root: &mut [usize], mut i: usize) -> usize {
    while root[i] != i {
        root[i] = root[root[i]];
        i = root[i];
    }
    i
}

/// A second thread with an equal ID gets `~2` behind it, or the next number that is free, so that each has a name of its own.
/// Says whether there was one.
fn name_apart(drafts: &mut [Draft]) -> bool {
    let mut renamed = false;
    let mut taken: HashSet<String> = drafts.iter().map(|draft| draft.who.id.clone()).collect();
    let mut seen: HashSet<String> = HashSet::new();
    for draft in drafts {
        if seen.insert(draft.who.id.clone()) {
            continue;
        }
        let names = (2_u64..).map(|n| format!("{}~{n}", draft.who.id));
        if let Some(free) = names.into_iter().find(|name| !taken.contains(name)) {
            taken.insert(free.clone());
            draft.who.id = free;
            renamed = true;
        }
    }
    renamed
}

/// Whether a line counts for [`Who::usage_lines_seen`].
pub(super) fn has_usage(line: &Line) -> bool {
    matches!(&line.what, What::Response(response) if response.usage.is_some())
}

fn uuids<'a, 'd>(
    buffers: &'a Buffers,
    draft: &'d Draft,
) -> impl Iterator<Item = Identity<'a>> + use<'a, 'd> {
    draft
        .lines
        .iter()
        .filter_map(|line| Identity::of(line, buffers))
}
