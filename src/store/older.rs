//! Which sessions another one may be a copy of: harnesses begin a forked session with the lines of the older one.

use super::folder::Folder;
use super::index::{Index, Located};
use super::probe::{Head, Probes};
use super::{FileRole, Fingerprint, Older, SourceFile};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What is remembered of how main files begin.
pub(super) struct Beginnings {
    probes: Probes,
    /// What each project folder's sessions begin with, as of its last listing. A session is forked within its project.
    folders: Mutex<HashMap<PathBuf, Known>>,
}

/// The IDs of sessions that begin alike, by the first `uuid` of their main files.
type ByFirst = HashMap<String, Vec<String>>;

/// What is known of one listing of a folder.
type Known = (Arc<Folder>, Arc<ByFirst>);

impl Beginnings {
    pub(super) fn new() -> Self {
        Self {
            probes: Probes::new(),
            folders: Mutex::default(),
        }
    }

    /// The sessions that this one's first lines name, and those that begin with the same line.
    pub(super) fn older(&self, index: &Arc<Index>, id: &str, located: &Located) -> Vec<Older> {
        let Some((_, _, head)) = self.main(located) else {
            return Vec::new();
        };
        let mut others: BTreeMap<String, bool> = BTreeMap::new();
        if let Some(first) = &head.first {
            for folder in &located.folders {
                let alike = self.beginnings(index, folder);
                let same = alike.get(first).into_iter().flatten();
                others.extend(same.map(|other| (other.clone(), false)));
            }
        }
        for named in [head.session, head.forked_from].into_iter().flatten() {
            others.insert(named, true);
        }
        others.remove(id);
        let older = others.into_iter().filter_map(|(other, named)| {
            let (path, fingerprint, _) = self.main(index.sessions.get(&other)?)?;
            let name = PathBuf::from(path.file_name()?);
            let role = FileRole::Main;
            let main = SourceFile {
                role,
                path,
                name,
                fingerprint,
            };
            Some(Older {
                id: other,
                main,
                named,
            })
        });
        older.collect()
    }

    fn beginnings(&self, index: &Index, folder: &Arc<Folder>) -> Arc<ByFirst> {
        {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((of, known)) = folders.get(&folder.path)
                && Arc::ptr_eq(of, folder)
            {
                return known.clone();
            }
        }
        // Made without the lock: heads are read here.
        let mut made = ByFirst::new();
        for (id, located) in &index.sessions {
            if !located.folders.iter().any(|of| Arc::ptr_eq(of, folder)) {
                continue;
            }
            if let Some(first) = self.main(located).and_then(|(_, _, head)| head.first) {
                made.entry(first).or_default().push(id.clone());
            }
        }
        made.retain(|_, ids| ids.len() > 1);
        let made = Arc::new(made);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.insert(folder.path.clone(), (folder.clone(), made.clone()));
        made
    }

    /// A session's first main file, its state, and how it begins.
    fn main(&self, located: &Located) -> Option<(PathBuf, Fingerprint, Head)> {
        let (folder, _) = located.pieces().find(|(_, piece)| piece.main.is_some())?;
        let path = located.main(folder);
        let metadata = std::fs::metadata(&path)
            .ok()
            .filter(std::fs::Metadata::is_file)?;
        let state = Fingerprint::of(&metadata);
        let head = self.probes.head(&path, state).ok()?;
        Some((path, state, head))
    }
}
