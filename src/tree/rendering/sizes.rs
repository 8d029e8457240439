//! Tables of contents and sizes of derived files as earlier runs found them, so that `stat` of a session that did not change
//! renders nothing.
//!
//! They answer `list` and `stat` only. Whoever opens a file gets it from the session itself; what is parsed and rendered then is
//! compared with what was remembered, and where it differs, which must not happen, the session gets another version and is
//! never asked from here again. Nothing of a session that has a record of messages is remembered.

use super::super::kept::{Kept, Weighs};
use super::{Contents, Outline, TurnLine, Version, Whose, weight};
use crate::cache::{Recalled, Table};
use crate::session::ThreadIndex;
use crate::session::objects::Object;
use crate::transcript::TurnKind;
use crate::tree::place::Derived;
use crate::tree::state::State;
use crate::tree::version;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Bytes of what is at hand of what was remembered.
const AT_HAND: u64 = 8 << 20;

/// Sessions of which something new is held before it is put into the fewer bytes of the table.
const MOST_NEW: usize = 1024;

/// What earlier runs found, and what this one did.
pub(super) struct Sizes {
    table: Table,
    recalled: Mutex<Option<Arc<Recalled>>>,
    /// By session, version, and how often more was remembered before.
    at_hand: Kept<(Arc<str>, u64, u64), Option<Arc<Known>>>,
    folds: AtomicU64,
    new: Mutex<HashMap<Arc<str>, New>>,
    wrong: Mutex<HashSet<u64>>,
}

/// What is known of one version of a session.
#[derive(Debug, Default)]
struct Known {
    contents: Option<Arc<Contents>>,
    outlines: HashMap<(Whose, Derived), Arc<Outline>>,
}

/// What this run found of a session's version, which it parsed when no file had changed for a while.
struct New {
    version: u64,
    known: Known,
}

impl Sizes {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            recalled: Mutex::default(),
            at_hand: Kept::new(AT_HAND),
            folds: AtomicU64::new(0),
            new: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    /// The table of contents that was remembered of this version.
    pub(super) fn contents(&self, of: Version<'_>) -> Option<Arc<Contents>> {
        self.known(of)?.contents.clone()
    }

    /// Size and sections that were remembered of a file.
    pub(super) fn outline(
        &self,
        of: Version<'_>,
        whose: Whose,
        file: Derived,
    ) -> Option<Arc<Outline>> {
        self.known(of)?.outlines.get(&(whose, file)).cloned()
    }

    /// A session is about to be read.
    pub(super) fn parsing(&self, state: &State) {
        if !self.table.is_on()
            || !state.files.record.is_empty()
            || !state.files.record_unread.is_empty()
            || !state.files.is_unchanged_since(self.table.settled())
        {
            return;
        }
        let new = New {
            version: state.version,
            known: Known::default(),
        };
        lock(&self.new).insert(state.id.clone(), new);
    }

    /// Takes in a table of contents that was made. Says whether it is as remembered.
    #[must_use]
    pub(super) fn meet_contents(&self, state: &State, contents: &Arc<Contents>) -> bool {
        let of = state.version();
        match self.contents(of) {
            Some(remembered) if remembered != *contents => self.distrust(of),
            Some(_) => true,
            None => {
                self.learn(of, |known| known.contents = Some(contents.clone()));
                true
            }
        }
    }

    /// Takes in what is known of a file that was rendered. Says whether it is as remembered.
    #[must_use]
    pub(super) fn meet_outline(
        &self,
        state: &State,
        whose: Whose,
        file: Derived,
        outline: &Arc<Outline>,
    ) -> bool {
        let of = state.version();
        match self.outline(of, whose, file) {
            Some(remembered) if remembered != *outline => self.distrust(of),
            Some(_) => true,
            None => {
                self.learn(of, |known| {
                    known.outlines.insert((whose, file), outline.clone());
                });
                true
            }
        }
    }

    /// The version that goes out instead of this one: another one where something wrong was said of it.
    pub(super) fn corrected(&self, version: u64) -> u64 {
        if lock(&self.wrong).contains(&version) {
            version::of_bytes("corrected", &version.to_le_bytes())
        } else {
            version
        }
    }

    /// Writes what is new, with what was remembered of the sessions that are still there.
    pub(super) fn write(&self, is_there: impl Fn(&str) -> bool) {
        self.fold(&mut lock(&self.new));
        self.table.write(is_there);
        *lock(&self.recalled) = None;
    }

    fn known(&self, of: Version<'_>) -> Option<Arc<Known>> {
        if !self.table.is_on() || lock(&self.wrong).contains(&of.version) {
            return None;
        }
        let folds = self.folds.load(Ordering::Relaxed);
        let key = (of.session.clone(), of.version, folds);
        if let Some(known) = self.at_hand.peek(&key) {
            return known;
        }
        let remembered = self.remembered(of)?;
        let Ok(known) = self.at_hand.get(&key, || {
            let known = Known::of(remembered);
            Ok::<_, Infallible>(known.map(Arc::new))
        });
        known
    }

    fn remembered(&self, Version { session, version }: Version<'_>) -> Option<Remembered> {
        let learned = self.table.learned_of(session, version);
        learned.or_else(|| self.recalled().get(session, version))
    }

    fn recalled(&self) -> Arc<Recalled> {
        let mut recalled = lock(&self.recalled);
        let recalled = recalled.get_or_insert_with(|| Arc::new(self.table.recall()));
        recalled.clone()
    }

    fn learn(&self, of: Version<'_>, what: impl FnOnce(&mut Known)) {
        let mut all = lock(&self.new);
        let new = all.get_mut(of.session);
        if let Some(new) = new.filter(|new| new.version == of.version) {
            what(&mut new.known);
        }
        if all.len() > MOST_NEW {
            self.fold(&mut all);
            // What is still parsed may tell more, but it need not be remembered.
            all.clear();
        }
    }

    /// Puts what is new into the table.
    fn fold(&self, all: &mut HashMap<Arc<str>, New>) {
        for (session, new) in all {
            let known = std::mem::take(&mut new.known);
            if known.contents.is_none() && known.outlines.is_empty() {
                continue;
            }
            let version = new.version;
            let before = self.remembered(Version { session, version });
            let mut remembered = before.unwrap_or_default();
            remembered.add(&known);
            self.table.learn(session, version, &remembered);
        }
        self.folds.fetch_add(1, Ordering::Relaxed);
    }

    /// Something wrong was remembered. Says so to whoever asked whether it was right.
    fn distrust(&self, of: Version<'_>) -> bool {
        tracing::warn!(
            "sessions/{}: what was remembered of its files is not what they are, and is forgotten",
            of.session
        );
        lock(&self.wrong).insert(of.version);
        lock(&self.new).remove(of.session);
        self.table.forget(of.session);
        false
    }
}

/// No code of others runs under these locks, so a poisoned one is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is remembered of one version of a session. Times and places of turns are distances from the turn before, which are short
/// numbers.
#[derive(Default, Serialize, Deserialize)]
struct Remembered {
    contents: Option<RememberedContents>,
    files: Vec<(Whose, Derived, RememberedFile)>,
}

#[derive(Serialize, Deserialize)]
struct RememberedContents {
    main: Option<ThreadIndex>,
    agents: BTreeMap<String, ThreadIndex>,
    turns: Vec<Vec<(TurnKind, Option<i64>)>>,
    objects: BTreeMap<String, Object>,
}

#[derive(Serialize, Deserialize)]
struct RememberedFile {
    size: u64,
    /// How far each turn's section begins after the end of the one before, and its length.
    turns: Vec<Option<(i64, u64)>>,
}

impl Remembered {
    fn add(&mut self, known: &Known) {
        if let Some(contents) = &known.contents {
            self.contents = RememberedContents::of(contents);
        }
        for ((whose, file), outline) in &known.outlines {
            self.files
                .push((*whose, *file, RememberedFile::of(outline)));
        }
    }
}

impl Known {
    /// None where a number is out of its range, which no number that was written is.
    fn of(remembered: Remembered) -> Option<Self> {
        let files = remembered.files.into_iter();
        let outlines =
            files.map(|(whose, file, of)| Some(((whose, file), Arc::new(of.outline()?))));
        let contents = match remembered.contents {
            Some(contents) => Some(Arc::new(contents.contents()?)),
            None => None,
        };
        Some(Self {
            contents,
            outlines: outlines.collect::<Option<_>>()?,
        })
    }
}

impl RememberedContents {
    /// None where a time is too far from ours to be written.
    fn of(contents: &Contents) -> Option<Self> {
        let mut turns = Vec::with_capacity(contents.turns.len());
        for thread in &contents.turns {
            let mut before = 0;
            let mut lines = Vec::with_capacity(thread.len());
            for line in thread {
                let distance = match line.at {
                    Some(at) => {
                        let at = nanoseconds(at)?;
                        let distance = at.checked_sub(std::mem::replace(&mut before, at))?;
                        Some(distance)
                    }
                    None => None,
                };
                lines.push((line.kind, distance));
            }
            turns.push(lines);
        }
        Some(Self {
            main: contents.main,
            agents: contents.agents.clone(),
            turns,
            objects: contents.objects.clone(),
        })
    }

    fn contents(self) -> Option<Contents> {
        let mut turns = Vec::with_capacity(self.turns.len());
        for thread in self.turns {
            let mut before = 0_i64;
            let mut lines = Vec::with_capacity(thread.len());
            for (kind, distance) in thread {
                let at = match distance {
                    Some(distance) => {
                        before = before.checked_add(distance)?;
                        Some(time(before)?)
                    }
                    None => None,
                };
                lines.push(TurnLine { kind, at });
            }
            turns.push(lines);
        }
        Some(Contents {
            main: self.main,
            agents: self.agents,
            turns,
            objects: self.objects,
            // A session that has some is not remembered.
            has_messages: false,
        })
    }
}

impl RememberedFile {
    fn of(outline: &Outline) -> Self {
        let mut end = 0;
        let turns = outline.turns.iter().map(|range| {
            let range = range.as_ref()?;
            let gap = range
                .start
                .wrapping_sub(std::mem::replace(&mut end, range.end));
            Some((gap.cast_signed(), range.end - range.start))
        });
        Self {
            size: outline.size,
            turns: turns.collect(),
        }
    }

    fn outline(self) -> Option<Outline> {
        let mut end = 0_u64;
        let mut turns: Vec<Option<Range<u64>>> = Vec::with_capacity(self.turns.len());
        for turn in self.turns {
            let Some((gap, length)) = turn else {
                turns.push(None);
                continue;
            };
            let start = end.checked_add_signed(gap)?;
            end = start.checked_add(length).filter(|end| *end <= self.size)?;
            turns.push(Some(start..end));
        }
        Some(Outline {
            size: self.size,
            turns,
        })
    }
}

/// Since the epoch, negative before it.
fn nanoseconds(at: SystemTime) -> Option<i64> {
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos())
            .ok()?
            .checked_neg(),
    }
}

fn time(nanoseconds: i64) -> Option<SystemTime> {
    let since = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(since)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

impl Weighs for Option<Arc<Known>> {
    fn weight(&self) -> u64 {
        let Some(known) = self else {
            return weight::ENTRY;
        };
        let contents = known.contents.iter();
        let contents: u64 = contents.map(|contents| weight::contents(contents)).sum();
        let outlines = known.outlines.values();
        let outlines: u64 = outlines.map(|o| weight::ENTRY + weight::outline(o)).sum();
        weight::ENTRY + contents + outlines
    }
}
