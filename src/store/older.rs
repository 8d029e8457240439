//! Which sessions another one may be a copy of: harnesses begin a forked session with the lines of the older one, and end a
//! session that goes on under another ID with a line that names it.

use super::folder::Folder;
use super::index::{Index, Located};
use super::probe::{Head, Probes, Tail};
use super::{FileRole, Fingerprint, Older, SourceFile};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is remembered of how main files begin and end.
pub(super) struct Relations {
    heads: Probes<Head>,
    tails: Probes<Tail>,
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
            heads: Probes::new(),
            tails: Probes::new(),
            folders: Mutex::default(),
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
            let located = index.sessions.get(&id)?;
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
        for (id, located) in &index.sessions {
            if !located.folders.iter().any(|of| Arc::ptr_eq(of, folder)) {
                continue;
            }
            let Some(main) = file(folder, &located.stem) else {
                continue;
            };
            let head = self.heads.head(&main.path, main.fingerprint);
            if let Some(first) = head.ok().and_then(|head| head.first) {
                made.alike.entry(first).or_default().push(id.clone());
            }
            let tail = self.tails.tail(&main.path, main.fingerprint);
            for next in tail.into_iter().flat_map(|tail| tail.continued_in) {
                made.continued.entry(next).or_default().push(id.clone());
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
        self.heads.head(&main.path, main.fingerprint).ok()
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
