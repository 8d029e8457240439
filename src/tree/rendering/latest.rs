//! Which versions of a session, or of a document, were made last: what the next one is made from where it is the same, and
//! what those open who were told of an earlier one.

use super::{Version, What};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sessions and documents of which it is known. Only those of sessions that change while they are read are noted, and
/// forgetting one costs time, and room in the cache for a while, and nothing else.
const MOST: usize = 16_384;

/// How long an earlier version may still be asked for after a later one was made: it is believed to be the latest for up to a
/// second (`spec/mount-tree.md`), and who believes it then takes a moment to open it.
const TOLD: Duration = Duration::from_secs(2);

/// The versions of each that were made last.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<HashMap<(Arc<str>, What), Versions>>);

/// With the time at which each was made, the latest first.
type Versions = VecDeque<(u64, Instant)>;

/// The versions that a later one puts out of use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outdated {
    /// The one that nothing new is made from any more.
    pub(super) unused: Option<u64>,
    /// Those that nobody opens any more either.
    pub(super) untold: Vec<u64>,
}

impl Latest {
    /// The version of which this was made last.
    pub(super) fn of(&self, session: &Arc<str>, what: What) -> Option<u64> {
        let versions = self.versions();
        let (latest, _) = versions.get(&(session.clone(), what))?.front()?;
        Some(*latest)
    }

    /// Notes that this was made in this version now, and says which ones that puts out of use.
    pub(super) fn note(&self, of: Version<'_>, what: What, now: Instant) -> Outdated {
        let mut versions = self.versions();
        let key = (of.session.clone(), what);
        if versions.len() >= MOST && !versions.contains_key(&key) {
            versions.clear();
        }
        let known = versions.entry(key).or_default();
        if known.front().is_some_and(|(v, _)| *v == of.version) {
            return Outdated::default();
        }
        known.retain(|(version, _)| *version != of.version);
        // Each was the latest until the one that stands before it was made; the first is so until now.
        let later = known.iter().map(|(_, made)| now.duration_since(*made));
        let told = 1 + later.take_while(|since| *since < TOLD).count();
        let untold = known.split_off(told.min(known.len()));
        known.push_front((of.version, now));
        Outdated {
            unused: known.get(2).map(|(version, _)| *version),
            untold: untold.into_iter().map(|(version, _)| version).collect(),
        }
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn versions(&self) -> MutexGuard<'_, HashMap<(Arc<str>, What), Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_untold_two_seconds_after_the_next_was_made() {
        let latest = Latest::default();
        let session = &Arc::from("s");
        let start = Instant::now();
        let note = |version, at| {
            let at = start + Duration::from_millis(at);
            let outdated = latest.note(Version { session, version }, What::Session, at);
            (outdated.unused, outdated.untold)
        };
        assert_eq!(note(1, 0), (None, vec![]));
        // Long the latest, and so told of until now.
        assert_eq!(note(2, 60_000), (None, vec![]));
        assert_eq!(note(2, 60_500), (None, vec![]));
        assert_eq!(note(3, 61_000), (Some(1), vec![]));
        assert_eq!(note(4, 61_999), (Some(2), vec![]));
        assert_eq!(note(5, 62_000), (Some(3), vec![1]));
        assert_eq!(note(6, 63_500), (Some(4), vec![2]));
        // As it was before: told of again.
        assert_eq!(note(4, 63_600), (Some(5), vec![]));
        assert_eq!(latest.of(session, What::Session), Some(4));
        assert_eq!(note(7, 70_000), (None, vec![6, 5, 3]));
    }
}
