//! Which version of a session, or of a document, was made last: what the next one is made from where it is the same.

use super::{Version, What};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions and documents of which it is known. Only those of sessions that change while they are read are noted, and
/// forgetting one costs time and nothing else.
const MOST: usize = 1024;

/// The two versions of each that were made last, the later one first.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<Versions>);

type Versions = HashMap<(Arc<str>, What), [Option<u64>; 2]>;

impl Latest {
    /// The version of which this was made last.
    pub(super) fn of(&self, session: &Arc<str>, what: What) -> Option<u64> {
        self.versions().get(&(session.clone(), what))?[0]
    }

    /// Notes that this was made in this version, and gives the version that serves nobody any more.
    pub(super) fn note(&self, of: Version<'_>, what: What) -> Option<u64> {
        let mut versions = self.versions();
        let key = (of.session.clone(), what);
        if versions.len() >= MOST && !versions.contains_key(&key) {
            versions.clear();
        }
        let known = versions.entry(key).or_default();
        if known[0] == Some(of.version) {
            return None;
        }
        let [latest, before] = *known;
        *known = [Some(of.version), latest];
        before.filter(|&before| before != of.version)
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn versions(&self) -> MutexGuard<'_, Versions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
