//! Which sessions another one may be a copy of: harnesses begin a forked session with the lines of the older one.

use super::folder::Folder;
use super::index::{Index, Located};
use super::probe::{self, Head, Probes};
use super::{FileRole, Fingerprint, Older, SourceFile, StoreError};
use crate::cache::{Recalled, Table};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is remembered of how main files begin.
pub(super) struct Beginnings {
    probes: Probes,
    /// What each project folder's sessions begin with, as of its last listing. A session is forked within its project.
    folders: Mutex<HashMap<PathBuf, Known>>,
    table: OnceLock<Table>,
    recalled: OnceLock<Recalled>,
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
            table: OnceLock::new(),
            recalled: OnceLock::new(),
        }
    }

    /// Recalls what earlier runs put into this table, and puts there what it learns. Only the first table counts.
    pub(super) fn remember_in(&self, table: Table) {
        // A second one would be of the same sources.
        let _ = self.table.set(table);
    }

    /// Writes what was learned of the sessions that are there.
    pub(super) fn remember(&self, index: &Index) {
        if let Some(table) = self.table.get() {
            table.write(|id| index.contains(id));
        }
    }

    /// The sessions that this one's first lines name, and those that begin with the same line.
    pub(super) fn older(&self, index: &Arc<Index>, id: &str, located: &Located) -> Vec<Older> {
        let Some((_, _, head)) = self.main(id, located) else {
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
            let (path, fingerprint, _) = self.main(&other, index.sessions.get(&other)?)?;
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
            if let Some(first) = self.main(id, located).and_then(|(_, _, head)| head.first) {
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
    fn main(&self, id: &str, located: &Located) -> Option<(PathBuf, Fingerprint, Head)> {
        let (folder, _) = located.pieces().find(|(_, piece)| piece.main.is_some())?;
        let path = located.main(folder);
        let metadata = std::fs::metadata(&path)
            .ok()
            .filter(std::fs::Metadata::is_file)?;
        let state = Fingerprint::of(&metadata);
        let look = || self.recalled_or(id, &path, state);
        let head = self.probes.head_or(&path, state, look).ok()?;
        Some((path, state, head))
    }

    fn recalled_or(&self, id: &str, path: &Path, state: Fingerprint) -> Result<Head, StoreError> {
        let Some(table) = self.table.get() else {
            return probe::look(path);
        };
        let recalled = self.recalled.get_or_init(|| table.recall());
        let key = key(path, &state);
        if let Some(head) = recalled.get(id, key) {
            return Ok(head);
        }
        let is_settled = state.is_unchanged_since(table.settled());
        let head = probe::look(path)?;
        if is_settled {
            table.learn(&Arc::from(id), key, &head);
        }
        Ok(head)
    }
}

/// Which state of which file a head is of; never 0.
fn key(path: &Path, state: &Fingerprint) -> u64 {
    let digest = Sha256::new()
        .chain_update(state.to_bytes())
        .chain_update(path.as_os_str().as_bytes())
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first).max(1)
}
