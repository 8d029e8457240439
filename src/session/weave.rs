//! The strands of a session out of its files' lines: all of them anew, or those of before with the lines that are new.
//!
//! Which thread a line belongs to is decided where all lines are seen ([`super::assemble`]). Most lines that a live session gets
//! change nothing of that: they stand at the end of one thread, and no other thread has anything to do with what they are called.
//! Where that is certain, they are added to the thread's strand, or make that of a new agent, and all other strands stay the ones
//! that they were. Where it is not, everything is put together anew, with the same result.

use foldhash::{HashMap, HashSet, HashSetExt as _};
use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

use crate::parallel;
use crate::transcript::line::{Line, What};
use crate::transcript::text::Buffers;

use super::Session;
use super::assemble::{Assembled, Draft, Part, assemble, has_usage, is_warm_up, service_by_name};
use super::follow::Followed;
use super::open::WORTH;
use super::read::{Files, ThreadFile};
use super::stored::Results;
use super::strand::{Material, Strand};
use super::ties::Ties;

/// The strands of a session.
#[derive(Clone, Debug)]
pub(super) struct Woven {
    pub(super) strands: Vec<Arc<Strand>>,
    pub(super) lines_duplicate: u64,
    /// Whether no response, call or result of one strand is known to have to do with another strand.
    pub(super) apart: bool,
    /// None where a new line may change any strand.
    ties: Option<SharedTies>,
    /// As assembled.
    replayed: Arc<[u64]>,
}

/// Found when a session grows for the first time, and shared by its versions: what a later one adds can only make an earlier one
/// more careful.
type SharedTies = Arc<Mutex<Option<Ties>>>;

impl Woven {
    /// Whether new lines can be added to the strands.
    pub(super) fn may_grow(&self) -> bool {
        self.ties.is_some()
    }

    /// Looks at the ties, which are found first if need be; none if there are none. Strands are made before or after, not meanwhile.
    fn with_ties<T>(&self, buffers: &Buffers, look: impl FnOnce(&mut Ties) -> T) -> Option<T> {
        // Poisoned ties know at most too many names.
        let mut ties = self
            .ties
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = || Ties::of(&self.strands, &self.replayed, buffers);
        Some(look(ties.get_or_insert_with(found)))
    }
}

/// The strands of these files: those of the session before where it only grew.
pub(super) fn weave(files: &mut Files, before: Option<&Session>) -> Woven {
    let grown = before.and_then(|before| grow(files, before));
    grown.unwrap_or_else(|| anew(files))
}

fn anew(files: &mut Files) -> Woven {
    let Assembled {
        drafts,
        lines_duplicate,
        entangled,
        replayed,
    } = assemble(files);
    let mut followed = files.threads.iter().map(|file| file.followed.as_ref());
    let may_grow = !entangled && followed.all(|file| file.is_some_and(Followed::is_settled));
    let results = Results::of(&files.stored);
    let material = Material {
        buffers: &files.buffers,
        results: &results,
    };
    let lines = drafts.iter().map(|draft| draft.lines.len()).sum();
    let least = parallel::least(drafts.len(), lines, WORTH);
    let strands = drafts
        .into_par_iter()
        .with_min_len(least)
        .map(|draft| Arc::new(Strand::of(draft, material)));
    Woven {
        strands: strands.collect(),
        lines_duplicate,
        apart: false,
        ties: may_grow.then(SharedTies::default),
        replayed: replayed.into(),
    }
}

/// The strands of before, with the new lines of each file at the end of the strand that is made of it.
fn grow(files: &Files, before: &Session) -> Option<Woven> {
    let woven = before.reads.woven.as_ref()?;
    let same_results = files.stored.len() == before.stored.len()
        && (files.stored.iter().zip(&before.stored)).all(|(now, then)| now.is_same(then));
    if !same_results {
        return None;
    }
    let places = woven.strands.iter().enumerate();
    let places: HashMap<u32, usize> = places.map(|(i, strand)| (strand.who.source, i)).collect();
    let (mut fresh, mut grown) = (Vec::new(), Vec::new());
    for file in &files.threads {
        let followed = file.followed.as_ref().filter(|file| file.is_settled())?;
        let Some(lines) = followed.new_lines() else {
            let is_new = file.source as usize >= before.reads.sources;
            fresh.push(is_new.then(|| new_agent(file, followed, &files.buffers))??);
            continue;
        };
        if lines.clone().next().is_some() {
            let place = *places.get(&file.source)?;
            grown.push((woven.strands[place].may_grow().then_some(place)?, lines));
        }
    }
    // Of what is gone, or cannot be read, nothing may stay.
    if files.threads.len() - fresh.len() != before.reads.files() {
        return None;
    }
    let all = || {
        grown.iter().flat_map(|(place, lines)| {
            let is_main = woven.strands[*place].who.part == Part::Main;
            lines.clone().map(move |line| (line, is_main))
        })
    };
    if all().any(|(line, is_main)| is_main && line.sidechain) {
        return None;
    }
    let mut firsts = fresh.iter().filter_map(|agent| first_named(&agent.lines));
    let new = all().map(|(line, _)| line);
    let new = new.chain(fresh.iter().flat_map(|agent| &agent.lines));
    let buffers = &files.buffers;
    let are_new = woven.with_ties(buffers, |ties| {
        firsts.all(|first| ties.add_parent(first, buffers)) && ties.add_new(new, buffers)
    });
    if are_new != Some(true) {
        return None;
    }
    let results = Results::of(&files.stored);
    let material = Material {
        buffers: &files.buffers,
        results: &results,
    };
    let mut strands = woven.strands.clone();
    let mut changed = Vec::new();
    for (place, lines) in grown {
        let strand = Arc::make_mut(&mut strands[place]);
        let with_usage = lines.clone().filter(|line| has_usage(line));
        strand.who.usage_lines_seen += with_usage.count() as u64;
        strand.add(lines.cloned(), material);
        changed.push(strands[place].clone());
    }
    let mut ids: HashSet<String> = HashSet::new();
    if !fresh.is_empty() {
        ids.extend(strands.iter().map(|strand| strand.who.id.clone()));
    }
    for agent in fresh {
        // Of two with one ID another one is called otherwise.
        if !ids.insert(agent.who.id.clone()) {
            return None;
        }
        let strand = Arc::new(Strand::of(agent, material));
        let place = strands.partition_point(|other| order(other) < order(&strand));
        strands.insert(place, strand.clone());
        changed.push(strand);
    }
    let apart = woven.with_ties(buffers, |ties| {
        for strand in &changed {
            ties.add_owned(strand);
        }
        ties.are_apart()
    })?;
    Some(Woven {
        strands,
        lines_duplicate: woven.lines_duplicate,
        apart,
        ties: woven.ties.clone(),
        replayed: woven.replayed.clone(),
    })
}

/// The thread of a file that was not there before, if it is an agent's and nothing but its own lines makes it one.
fn new_agent(file: &ThreadFile, followed: &Followed, buffers: &Buffers) -> Option<Draft> {
    let agent = file.agent.as_ref()?;
    let draft = Draft::of_agent(
        agent.clone(),
        file.source,
        file.run.clone(),
        followed.lines(),
    );
    let is_plain = service_by_name(agent).is_none() && !is_warm_up(&draft.lines, buffers);
    let mut lines = draft.lines.iter();
    let is_known = lines.any(|line| matches!(line.what, What::Turn { .. }))
        && first_named(&draft.lines).is_some();
    (is_plain && is_known).then_some(draft)
}

/// The main thread comes first, then the others by their IDs, as they are assembled.
fn order(strand: &Strand) -> (bool, &str) {
    (strand.who.part != Part::Main, &strand.who.id)
}

/// The first line that has a uuid.
fn first_named(lines: &[Line]) -> Option<&Line> {
    lines.iter().find(|line| line.uuid.is_some())
}
