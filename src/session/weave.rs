//! The strands of a session out of its files' lines: all of them anew, or those of before with the lines that are new.
//!
//! Which thread a line belongs to is decided where all lines are seen ([`super::assemble`]). Most lines that a live session gets
//! change nothing of that: they stand at the end of one thread, and no other thread has anything to do with what they are called.
//! Where that is certain, they are added to the thread's strand, and all other strands stay the ones that they were. Where
//! it is not, everything is put together anew, with the same result.

use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

use crate::parallel;

use super::Session;
use super::assemble::{Assembled, Part, assemble, has_usage};
use super::follow::Followed;
use super::open::WORTH;
use super::read::Files;
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
}

/// Found when a session grows for the first time, and shared by its versions: what a later one adds can only make an earlier one
/// more careful.
type SharedTies = Arc<Mutex<Option<Ties>>>;

impl Woven {
    /// Whether new lines can be added to the strands.
    pub(super) fn may_grow(&self) -> bool {
        self.ties.is_some()
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
    }
}

/// The strands of before, with the new lines of each file at the end of the strand that is made of it.
fn grow(files: &Files, before: &Session) -> Option<Woven> {
    let woven = before.reads.woven.as_ref()?;
    let shared = woven.ties.as_ref()?;
    let same_files = files.threads.len() == before.reads.threads.len();
    let same_results = files.stored.len() == before.stored.len()
        && (files.stored.iter().zip(&before.stored)).all(|(now, then)| now.is_same(then));
    if !same_files || !same_results {
        return None;
    }
    let mut grown = Vec::new();
    for file in &files.threads {
        let followed = file.followed.as_ref().filter(|file| file.is_settled())?;
        let lines = followed.new_lines()?;
        if lines.clone().next().is_some() {
            let strands = woven.strands.iter();
            let is_whole = |strand: &&Arc<Strand>| strand.may_grow(file.source);
            let place = strands.enumerate().find(|(_, strand)| is_whole(strand))?.0;
            grown.push((place, lines));
        }
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
    // Poisoned ties know at most too many names.
    let mut ties = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let ties = ties.get_or_insert_with(|| Ties::of(&woven.strands, &files.buffers));
    if !ties.add_new(all().map(|(line, _)| line), &files.buffers) {
        return None;
    }
    let results = Results::of(&files.stored);
    let material = Material {
        buffers: &files.buffers,
        results: &results,
    };
    let mut strands = woven.strands.clone();
    for (place, lines) in grown {
        let strand = Arc::make_mut(&mut strands[place]);
        for line in lines {
            strand.who.usage_lines_seen += u64::from(has_usage(line));
            strand.push(line.clone(), material);
        }
        ties.add_owned(place, strand);
    }
    Some(Woven {
        strands,
        lines_duplicate: woven.lines_duplicate,
        apart: ties.are_apart(),
        ties: Some(shared.clone()),
    })
}
