//! What a session is made of now, looked at again when the last look is too old.

use super::place::Stored;
use super::rendering::Version;
use super::sources::SourceTree;
use crate::store::{SessionFiles, SourceFile, Store};
use quick_cache::sync::Cache;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

/// Sessions whose state is remembered.
const REMEMBERED: usize = 4096;

/// One session's files at one time.
#[derive(Debug)]
pub(super) struct State {
    /// The session's ID.
    pub(super) id: Arc<str>,
    pub(super) files: SessionFiles,
    /// Of everything that is made from them.
    pub(super) version: u64,
    /// When the newest of them was written.
    pub(super) modified: SystemTime,
    sources: SourceTree,
    messages: SourceTree,
}

impl State {
    /// Which version of which session this is.
    pub(super) fn version(&self) -> Version<'_> {
        Version {
            session: &self.id,
            version: self.version,
        }
    }

    /// How its stored files are laid out.
    pub(super) fn stored(&self, which: Stored) -> &SourceTree {
        match which {
            Stored::Source => &self.sources,
            Stored::Messages => &self.messages,
        }
    }

    /// The stored file at a path.
    pub(super) fn file(&self, which: Stored, path: &Path) -> Option<&SourceFile> {
        let (fragment, file) = self.stored(which).file(path)?;
        match which {
            Stored::Source => self.files.fragments.get(fragment)?.files.get(file),
            Stored::Messages => self.files.record.get(file),
        }
    }
}

/// The latest state of each session.
pub(super) struct States(Cache<String, Arc<Mutex<Option<Seen>>>>);

struct Seen {
    at: Instant,
    state: Arc<State>,
}

impl States {
    pub(super) fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// Makes the next question look again.
    pub(super) fn forget(&self, id: &str) {
        self.0.remove(id);
    }

    /// The state of a session, no older than the store's limit; none if there is no such session. The same value (by
    /// pointer) as long as its files are the same. Those who ask at the same time share one look. `version` says which version
    /// these files make.
    pub(super) fn state(
        &self,
        store: &Store,
        id: &str,
        version: impl FnOnce(&SessionFiles) -> u64,
    ) -> Option<Arc<State>> {
        if !store.index().contains(id) {
            self.0.remove(id);
            return None;
        }
        let slot = || Ok::<_, std::convert::Infallible>(Arc::default());
        let Ok(slot) = self.0.get_or_insert_with(id, slot);
        let mut seen = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = &*seen
            && seen.at.elapsed() < store.recheck()
        {
            return Some(seen.state.clone());
        }
        let files = store.files(id)?;
        let state = match seen.take() {
            Some(seen) if seen.state.files == files => seen.state,
            _ => {
                let all = files.fragments.iter().flat_map(|fragment| &fragment.files);
                let all = all.chain(&files.record);
                let newest = all.map(|file| file.fingerprint.modified()).max();
                Arc::new(State {
                    id: Arc::from(id),
                    version: version(&files),
                    modified: newest
                        .or_else(|| store.modified(id))
                        .unwrap_or(SystemTime::UNIX_EPOCH),
                    sources: SourceTree::new(files.fragments.iter().map(|f| &*f.files)),
                    messages: SourceTree::new([&*files.record]),
                    files,
                })
            }
        };
        let at = Instant::now();
        *seen = Some(Seen {
            at,
            state: state.clone(),
        });
        Some(state)
    }
}
