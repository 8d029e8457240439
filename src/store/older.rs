//! Which sessions another one may be a copy of: harnesses begin a forked session with the lines of the older one, and end a
//! session that goes on under another ID with a line that names it.

use super::folder::Folder;
use super::index::{Index, Located};
use super::probe::{Head, Peeked, Probes, Tail, look_at_head, look_at_tail};
use super::{FileRole, Fingerprint, Older, SourceFile, StoreError, safe_id};
use crate::cache::{Recalled, Table};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What is remembered of how main files begin and end.
pub(super) struct Relations {
    heads: Ends<Head>,
    tails: Ends<Tail>,
    /// What each project folder's main files said of each other when they were last looked at. A session is forked and
    /// continued within its project.
    folders: Mutex<HashMap<PathBuf, Arc<Mutex<Option<Known>>>>>,
}

/// What is known of one folder, and how old that is.
struct Known {
    folder: Arc<Folder>,
    at: Instant,
    took: Duration,
    ties: Arc<Ties>,
}

/// What the main files of one folder say of each other.
#[derive(Default)]
struct Ties {
    /// The IDs of sessions that begin alike, by the first `uuid` of their main files.
    alike: HashMap<String, Vec<String>>,
    /// The IDs of sessions that were continued, by the ID in which they say so.
    continued: HashMap<String, Vec<String>>,
}

impl Relations {
    pub(super) fn new() -> Self {
        Self {
            heads: Ends::new(),
            tails: Ends::new(),
            folders: Mutex::default(),
        }
    }

    /// Recalls what earlier runs put into these tables, and puts there what it learns. Only the first tables count.
    pub(super) fn remember_in(&self, heads: Table, tails: Table) {
        // Second ones would be of the same sources.
        let _ = self.heads.table.set(heads);
        let _ = self.tails.table.set(tails);
    }

    /// Writes what was learned of the sessions that are there.
    pub(super) fn remember(&self, index: &Index) {
        for table in [&self.heads.table, &self.tails.table] {
            if let Some(table) = table.get() {
                table.write(|id| index.contains(id));
            }
        }
    }

    /// The sessions that this one's first lines name, those whose last lines name this one, and those that begin with the
    /// same line.
    ///
    /// Of each main file of the same project folders this reads the head and the tail alone, up to the bounds of
    /// [`super::probe`], and those only when the file changed. The answer is as old as `recheck`, or older where a look takes
    /// so long that it would otherwise be more than a twentieth of the time.
    pub(super) fn older(
        &self,
        index: &Index,
        recheck: Duration,
        id: &str,
        located: &Located,
    ) -> Vec<Older> {
        // Whether it is certain that each is the older one.
        let mut others: BTreeMap<String, bool> = BTreeMap::new();
        for folder in &located.folders {
            let Some(head) = self.head(folder, &located.stem) else {
                continue;
            };
            let ties = self.ties(index, recheck, folder);
            let first = head.first.as_ref();
            let alike = first.and_then(|first| ties.alike.get(first));
            for other in alike.into_iter().flatten() {
                others.entry(other.clone()).or_default();
            }
            for other in ties.continued_in(&located.stem) {
                let is_older = !ties.leads(index, id, other) && !self.is_copy(index, other, id);
                *others.entry(other.clone()).or_default() |= is_older;
            }
            for named in [head.session, head.forked_from].into_iter().flatten() {
                others.insert(named, true);
            }
        }
        others.remove(id);
        let older = others.into_iter().filter_map(|(id, named)| {
            let located = index.sessions.get(&*id)?;
            let mains = located.folders.iter();
            let mains = mains.filter_map(|folder| file(folder, &located.stem));
            let mains: Vec<_> = mains.collect();
            (!mains.is_empty()).then_some(Older { id, mains, named })
        });
        older.collect()
    }

    /// What is known of a folder. Those who ask at the same time share one look.
    fn ties(&self, index: &Index, recheck: Duration, folder: &Arc<Folder>) -> Arc<Ties> {
        let slot = {
            let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.entry(folder.path.clone()).or_default().clone()
        };
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.folder, folder)
            && !recheck.is_zero()
            && known.at.elapsed() < recheck.max(known.took * 19)
        {
            return known.ties.clone();
        }
        let start = Instant::now();
        let mut made = Ties::default();
        let mut bytes = Vec::new();
        for (id, located) in &index.sessions {
            if !located.folders.iter().any(|of| Arc::ptr_eq(of, folder)) {
                continue;
            }
            let Some(main) = file(folder, &located.stem) else {
                continue;
            };
            let mut peeked = Peeked::new(&main.path, &mut bytes);
            let look = || look_at_head(&mut peeked);
            let head = self.heads.of(&located.stem, &main, look);
            if let Some(first) = head.ok().and_then(|head| head.first) {
                made.alike.entry(first).or_default().push(id.to_string());
            }
            let look = || look_at_tail(&mut peeked, main.fingerprint.size);
            let tail = self.tails.of(&located.stem, &main, look);
            for next in tail.into_iter().flat_map(|tail| tail.continued_in) {
                made.continued.entry(next).or_default().push(id.to_string());
            }
        }
        made.alike.retain(|_, ids| ids.len() > 1);
        let ties = Arc::new(made);
        *known = Some(Known {
            folder: folder.clone(),
            at: Instant::now(),
            took: start.elapsed(),
            ties: ties.clone(),
        });
        ties
    }

    /// How a session's main file in this folder begins.
    fn head(&self, folder: &Folder, stem: &OsStr) -> Option<Head> {
        let main = file(folder, stem)?;
        let look = || look_at_head(&mut Peeked::new(&main.path, &mut Vec::new()));
        self.heads.of(stem, &main, look).ok()
    }

    /// Whether the first lines of a session name another one as their origin.
    fn is_copy(&self, index: &Index, id: &str, of: &str) -> bool {
        let Some(located) = index.sessions.get(id) else {
            return false;
        };
        let heads = located.folders.iter();
        let mut heads = heads.filter_map(|folder| self.head(folder, &located.stem));
        heads.any(|head| {
            let named = [head.session, head.forked_from];
            named.iter().flatten().any(|named| named == of)
        })
    }
}

/// What was seen of one end of main files, by this run and by earlier ones.
struct Ends<T> {
    probes: Probes<T>,
    table: OnceLock<Table>,
    recalled: OnceLock<Recalled>,
}

impl<T: Clone + Serialize + DeserializeOwned> Ends<T> {
    fn new() -> Self {
        Self {
            probes: Probes::new(),
            table: OnceLock::new(),
            recalled: OnceLock::new(),
        }
    }

    /// What a session's main file says in this state.
    fn of(
        &self,
        stem: &OsStr,
        main: &SourceFile,
        look: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.probes.ask(&main.path, main.fingerprint, || {
            let Some(table) = self.table.get() else {
                return look();
            };
            let recalled = self.recalled.get_or_init(|| table.recall());
            let (id, state) = (safe_id(stem.as_bytes()), state(main));
            if let Some(end) = recalled.get(&id, state) {
                return Ok(end);
            }
            let is_settled = main.fingerprint.is_unchanged_since(table.settled());
            let end = look()?;
            if is_settled {
                table.learn(&Arc::from(id), state, &end);
            }
            Ok(end)
        })
    }
}

/// Which state of which file an end is of; never 0.
fn state(file: &SourceFile) -> u64 {
    let digest = Sha256::new()
        .chain_update(file.fingerprint.to_bytes())
        .chain_update(file.path.as_os_str().as_bytes())
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first).max(1)
}

impl Ties {
    /// The IDs of sessions that say that they were continued in this one.
    fn continued_in(&self, stem: &OsStr) -> &[String] {
        let named = std::str::from_utf8(stem.as_bytes()).ok();
        named
            .and_then(|named| self.continued.get(named))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether a session was continued, over however many others, in this later one. Where two were continued in each other,
    /// that says of neither that it is the older.
    fn leads(&self, index: &Index, id: &str, later: &str) -> bool {
        let mut seen = HashSet::from([later]);
        let mut waiting = vec![later];
        while let Some(at) = waiting.pop() {
            let Some(located) = index.sessions.get(at) else {
                continue;
            };
            for older in self.continued_in(&located.stem) {
                if older == id {
                    return true;
                }
                if seen.insert(older) {
                    waiting.push(older);
                }
            }
        }
        false
    }
}

/// A session's main file in this folder, in its present state.
fn file(folder: &Folder, stem: &OsStr) -> Option<SourceFile> {
    let main = folder.pieces.get(stem)?.main?;
    let mut name = stem.to_owned();
    name.push(".jsonl");
    let mut path = folder.path.join(&name);
    if main.linked {
        // Where it leads was looked at when the folder was.
        path = path.canonicalize().ok()?;
    }
    let metadata = std::fs::symlink_metadata(&path).ok()?;
    metadata.is_file().then(|| SourceFile {
        role: FileRole::Main,
        path,
        name: PathBuf::from(name),
        fingerprint: Fingerprint::of(&metadata),
    })
}
