//! The strands of a session out of its files' lines: all of them anew, or those of before with the lines that are new.
//!
//! Which thread a line belongs to is decided where all lines are seen ([`super::assemble`]). Most lines that a live session gets
//! change nothing of that: they stand at the end of one thread, and no other thread has anything to do with what they are called.
//! Where that is certain, they are added to the thread's strand, and all other strands stay the ones that they were. Where
//! it is not, everything is put together anew, with the same result.

use foldhash::{HashSet, HashSetExt as _};
use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

use crate::parallel;
use crate::transcript::identity::Name;
use crate::transcript::line::{Line, What};
use crate::transcript::text::Buffers;

use super::Session;
use super::assemble::{Assembled, Draft, Part, assemble, has_usage};
use super::follow::Followed;
use super::open::WORTH;
use super::read::Files;
use super::stored::Results;
use super::strand::{Material, Strand};

/// The strands of a session.
#[derive(Clone, Debug)]
pub(super) struct Woven {
    pub(super) strands: Vec<Arc<Strand>>,
    pub(super) lines_duplicate: u64,
    /// What new lines must not be called; none where a new line may change anything.
    names: Option<Names>,
}

impl Woven {
    /// Whether new lines can be added to the strands.
    pub(super) fn may_grow(&self) -> bool {
        self.names.is_some()
    }
}

/// Hashes of names that tie threads together. A name that is not among them is new; one that is may be another's. It is shared by
/// the versions of a session: what a later one adds can only make an earlier one more careful.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Mutex<HashSet<u64>>>);

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
    let buffers = &files.buffers;
    let followed = || files.threads.iter().map(|file| file.followed.as_ref());
    let may_grow = !entangled && followed().all(|file| file.is_some_and(Followed::is_settled));
    let names = may_grow.then(|| Names::of(&drafts, buffers));
    let results = Results::of(&files.stored);
    let material = Material {
        buffers,
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
        names,
    }
}

/// The strands of before, with the new lines of each file at the end of the strand that is made of it.
fn grow(files: &Files, before: &Session) -> Option<Woven> {
    let woven = before.reads.woven.as_ref()?;
    let names = woven.names.as_ref()?;
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
    let inside = all().any(|(line, is_main)| is_main && line.sidechain);
    if inside || !names.add(all().map(|(line, _)| line), &files.buffers) {
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
    }
    Some(Woven {
        strands,
        lines_duplicate: woven.lines_duplicate,
        names: Some(names.clone()),
    })
}

impl Names {
    /// Every line's uuid, what an agent's first line follows, and the responses of service threads, of which a line is dropped
    /// where another thread has its response.
    fn of(drafts: &[Draft], buffers: &Buffers) -> Self {
        let mut names = HashSet::with_capacity(drafts.iter().map(|d| d.lines.len()).sum());
        for draft in drafts {
            names.extend(draft.lines.iter().filter_map(uuid));
            let first = draft.lines.iter().find(|line| line.uuid.is_some());
            let parent = first.and_then(|line| line.parent);
            names.extend(parent.map(|parent| Name::of(parent, buffers).hash()));
            if matches!(draft.who.part, Part::Service(_)) {
                names.extend(
                    draft
                        .lines
                        .iter()
                        .filter_map(|line| response(line, buffers)),
                );
            }
        }
        Self(Arc::new(Mutex::new(names)))
    }

    /// Takes up what these lines are called, if all of it is new.
    fn add<'a>(&self, lines: impl Iterator<Item = &'a Line> + Clone, buffers: &Buffers) -> bool {
        // A poisoned set has at most too many names.
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = lines.clone().filter_map(|line| response(line, buffers));
        if others.any(|name| names.contains(&name)) {
            return false;
        }
        lines.filter_map(uuid).all(|name| names.insert(name))
    }
}

fn uuid(line: &Line) -> Option<u64> {
    line.uuid.map(|_| line.uuid_hash)
}

fn response(line: &Line, buffers: &Buffers) -> Option<u64> {
    match &line.what {
        What::Response(response) => Some(Name::of(response.message_id?, buffers).hash()),
        _ => None,
    }
}
