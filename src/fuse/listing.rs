//! What a directory's reader is told: names from one reading of the directory, and what is known of each.
//!
//! Who lists a directory asks for its names in parts, with what is known of each name. The next part is found ahead while the
//! reader still has to do with the one before, and what the last reader was told just now is told to the next.

use super::adapter::{Shared, identity};
use super::attr::{self, NAME_MAX};
use super::inodes::{ROOT, Told};
use crate::tree::{Attributes, Entry, NodeKind, Place, View};
use fuser::{Errno, FileAttr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old what was found ahead of a directory's reader may be. The kernel believes it for so much less long.
const AHEAD: Duration = Duration::from_millis(100);

/// How old what the last reader of a directory was told may be, to be told to the next. The kernel believes it for so much less
/// long, and who lists may take some time until it looks at what was listed.
const RECENT: Duration = Duration::from_millis(300);

/// More names than fit into one answer, with what is known of them.
const AT_ONCE: usize = 256;

/// An open directory. Its names are those at the time when it was last read from the start.
pub(super) struct OpenDirectory {
    pub(super) place: Place,
    names: Mutex<Option<Arc<[Entry]>>>,
    /// Where the reader of the list is.
    next: AtomicUsize,
    ahead: Mutex<Option<Arc<Ahead>>>,
    /// What its reader was told.
    told: Mutex<Option<Ahead>>,
}

/// What is known of some names of a directory before its reader comes to them: because the reader before was told, or it was found
/// while the reader still had to do with those before.
pub(super) struct Ahead {
    pub(super) since: Instant,
    /// The list that they stand in: after rewinding it is another one.
    names: Arc<[Entry]>,
    first: usize,
    found: Vec<Option<Found>>,
}

/// What is known of a name.
#[derive(Clone)]
pub(super) struct Found {
    attributes: Attributes,
    /// The inode, where the kernel was told of it.
    told: Option<Told>,
}

/// What a listing says of a name.
pub(super) struct Listed {
    pub(super) attr: FileAttr,
    /// How long it may be believed.
    pub(super) lifetime: Duration,
    /// The same for the next listing, as far as it may say so too.
    pub(super) found: Option<Found>,
}

impl Ahead {
    /// What is known of the name with this number.
    pub(super) fn of(&self, name: usize) -> Option<&Found> {
        let at = name.checked_sub(self.first)?;
        self.found.get(at)?.as_ref()
    }

    /// Whether the kernel was told of all names, and of so many that it does not ask for all of them at once.
    pub(super) fn is_told(&self) -> bool {
        let is_told =
            |found: &Option<Found>| found.as_ref().is_some_and(|found| found.told.is_some());
        self.is_whole() && self.found.len() > AT_ONCE && self.found.iter().all(is_told)
    }

    /// Whether it says something of all names.
    fn is_whole(&self) -> bool {
        self.first == 0 && self.found.len() == self.names.len()
    }

    fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Shared {
    /// The names of an open directory; from the start they are taken anew, so that rewinding shows what is there now.
    pub(super) fn names(
        &self,
        directory: &OpenDirectory,
        offset: u64,
    ) -> Result<Arc<[Entry]>, Errno> {
        let names = || {
            directory
                .names
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if offset > 0
            && let Some(names) = &*names()
        {
            return Ok(Arc::clone(names));
        }
        let listed = self.view.list(&directory.place);
        let mut entries = listed.map_err(|error| Self::failed(&directory.place, &error))?;
        entries.retain(|entry| listable(&directory.place, entry));
        let entries = match self.recent(&directory.place) {
            Some(recent) if *recent.names == *entries => {
                let names = Arc::clone(&recent.names);
                directory.know(recent);
                names
            }
            _ => entries.into(),
        };
        *names() = Some(Arc::clone(&entries));
        Ok(entries)
    }

    /// What the last reader of a directory was told, if that was just now.
    fn recent(&self, directory: &Place) -> Option<Arc<Ahead>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, told) = recent.as_ref()?;
        (place == directory && told.age() < RECENT).then(|| Arc::clone(told))
    }

    /// The reader of a directory is done with it.
    pub(super) fn closed(&self, directory: &OpenDirectory) {
        let told = directory
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let told = told.filter(|told| told.is_whole() && told.age() < RECENT);
        if let Some(told) = told {
            let recent = Some((directory.place.clone(), Arc::new(told)));
            *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = recent;
        }
    }

    /// The number that a listing gives for a name, without telling the kernel of the inode.
    pub(super) fn number(&self, place: Place, kind: NodeKind) -> u64 {
        self.inodes.number(&self.named(place, kind))
    }

    /// The number of what a listing said just now, if the kernel still knows it.
    pub(super) fn told(&self, found: &Found) -> Option<u64> {
        let told = found.told.as_ref()?;
        self.inodes.is_known(told).then_some(told.number)
    }

    /// The number of a directory itself and of the one above it.
    pub(super) fn dots(&self, place: &Place) -> (u64, u64) {
        let above = match place.path().parent() {
            Some(parent) => parent
                .iter()
                .fold(Place::root(), |place, name| place.join(name)),
            None => Place::root(),
        };
        let of = |place: &Place| {
            if *place == Place::root() {
                ROOT
            } else {
                self.number(place.clone(), NodeKind::Directory)
            }
        };
        (of(place), of(&above))
    }

    /// Counts a listed node as told to the kernel. Gives what to tell.
    pub(super) fn list(&self, directory: &Place, entry: &Entry, found: Option<&Found>) -> Listed {
        // One time holds for the name and for the attributes.
        let lifetime = |attributes| attr::lifetime(attributes).min(attr::NAME_LIFETIME);
        if let Some(found) = found
            && let Some(told) = &found.told
            && self.inodes.tell_again(told, found.attributes)
        {
            return Listed {
                attr: self.owner.attr(told.number, &found.attributes),
                lifetime: lifetime(&found.attributes),
                found: Some(found.clone()),
            };
        }
        let place = directory.join(&entry.name);
        let known = found.map(|found| found.attributes);
        if let Some(attributes) = known.or_else(|| self.view.known(&place)) {
            let told = self
                .inodes
                .tell(identity(place, &attributes), Some(attributes));
            let found = Found {
                attributes,
                told: Some(told.clone()),
            };
            return Listed {
                attr: self.owner.attr(told.number, &attributes),
                lifetime: lifetime(&attributes),
                found: Some(found).filter(Found::may_be_said_again),
            };
        }
        let identity = self.named(place, entry.kind);
        let version = identity.version;
        // The kernel takes over whatever a listing says, also for an inode that is open: it must be true.
        let told = self.inodes.known(&identity).and_then(|n| n.attributes);
        let number = self.inodes.look_up(identity, None);
        let (attributes, lifetime) = match &told {
            Some(attributes) => (*attributes, lifetime(attributes)),
            None => (attr::unknown(entry.kind, version), Duration::ZERO),
        };
        Listed {
            attr: self.owner.attr(number, &attributes),
            lifetime,
            found: None,
        }
    }
}

impl Found {
    /// What grows may be longer by then, and nobody is to be told that it became shorter.
    fn may_be_said_again(&self) -> bool {
        !self.attributes.live
    }
}

impl OpenDirectory {
    /// Not read yet.
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            names: Mutex::new(None),
            next: AtomicUsize::new(0),
            ahead: Mutex::new(None),
            told: Mutex::new(None),
        }
    }

    /// What is known of its names before it is read.
    fn know(&self, ahead: Arc<Ahead>) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
    }

    /// Notes what its reader was told of the names from this one on, and since when that is known.
    pub(super) fn tell(
        &self,
        names: &Arc<[Entry]>,
        first: usize,
        mut found: Vec<Option<Found>>,
        since: Instant,
    ) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *told {
            Some(told)
                if Arc::ptr_eq(&told.names, names)
                    && told.found.len() == first
                    && told.age() < RECENT =>
            {
                told.found.append(&mut found);
                told.since = told.since.min(since);
            }
            told if first == 0 => {
                *told = Some(Ahead {
                    since,
                    names: Arc::clone(names),
                    first,
                    found,
                });
            }
            // Its reader is too slow, or was not told like this of the names before: it is none who wants them all.
            told => *told = None,
        }
    }

    /// The reader of this list has come to this name. Gives what was found ahead of it, once that is done, if it is not too old.
    pub(super) fn arrive(&self, names: &Arc<[Entry]>, name: usize) -> Option<Arc<Ahead>> {
        self.next.store(name, Ordering::Relaxed);
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(whole) = &*ahead
            && whole.is_whole()
            && Arc::ptr_eq(&whole.names, names)
            && whole.age() < RECENT
        {
            return Some(Arc::clone(whole));
        }
        let found = ahead.take()?;
        let fits = Arc::ptr_eq(&found.names, names) && found.first == name;
        (fits && found.age() < AHEAD).then_some(found)
    }

    /// Finds what is known of so many names from this one on, unless their reader is there already.
    pub(super) fn look_ahead(
        &self,
        view: &dyn View,
        names: Arc<[Entry]>,
        first: usize,
        count: usize,
    ) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if self.next.load(Ordering::Relaxed) >= first {
            return;
        }
        let since = Instant::now();
        let some = names.iter().skip(first).take(count);
        let known = some.map(|entry| view.known(&self.place.join(&entry.name)));
        let found = known.map(|known| {
            let found = known.map(|attributes| Found {
                attributes,
                told: None,
            });
            found.filter(Found::may_be_said_again)
        });
        let found = found.collect();
        *ahead = Some(Arc::new(Ahead {
            since,
            names,
            first,
            found,
        }));
    }
}

/// Whether the kernel can list this name; one that it cannot would cost the whole directory.
fn listable(directory: &Place, entry: &Entry) -> bool {
    let name = entry.name.as_encoded_bytes();
    let fits = !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    if !fits {
        tracing::error!(
            "{}: cannot list the name {:?}",
            directory.path().display(),
            entry.name
        );
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Content, TreeError};
    use std::path::PathBuf;
    use std::time::SystemTime;

    /// A directory whose files are as large as their names are long.
    struct Names;

    impl View for Names {
        fn kind(&self, _: &Place) -> Result<NodeKind, TreeError> {
            Ok(NodeKind::Directory)
        }
        fn list(&self, _: &Place) -> Result<Vec<Entry>, TreeError> {
            Ok(Vec::new())
        }
        fn known(&self, place: &Place) -> Option<Attributes> {
            Some(Attributes {
                kind: NodeKind::File,
                size: place.path().as_os_str().len() as u64,
                modified: SystemTime::UNIX_EPOCH,
                version: 1,
                live: false,
            })
        }
        fn attributes(&self, place: &Place) -> Result<Attributes, TreeError> {
            Err(TreeError::NotFound(place.path().to_path_buf()))
        }
        fn open(&self, place: &Place, _: u64) -> Result<Arc<dyn Content>, TreeError> {
            Err(TreeError::NotFound(place.path().to_path_buf()))
        }
        fn target(&self, place: &Place) -> Result<PathBuf, TreeError> {
            Err(TreeError::NotFound(place.path().to_path_buf()))
        }
    }

    fn names(names: &[&str]) -> Arc<[Entry]> {
        let entry = |name: &&str| Entry {
            name: name.into(),
            kind: NodeKind::File,
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn what_was_found_ahead_is_of_the_names_that_come_next() {
        let directory = OpenDirectory::new(Place::root());
        let list = names(&["a", "bb", "ccc", "dddd"]);
        assert!(directory.arrive(&list, 0).is_none());
        directory.look_ahead(&Names, Arc::clone(&list), 1, 2);
        let ahead = directory.arrive(&list, 1).unwrap();
        let sizes = [0, 1, 2, 3].map(|name| ahead.of(name).map(|known| known.attributes.size));
        assert_eq!(sizes, [None, Some(2), Some(3), None]);
        assert!(directory.arrive(&list, 1).is_none(), "it is good once");
        // Whoever is there already is not waited for.
        directory.look_ahead(&Names, Arc::clone(&list), 1, 2);
        assert!(directory.arrive(&list, 1).is_none());
    }

    #[test]
    fn what_was_found_ahead_is_of_no_other_list_and_no_other_place() {
        let directory = OpenDirectory::new(Place::root());
        let list = names(&["a", "bb", "ccc"]);
        directory.look_ahead(&Names, Arc::clone(&list), 1, 1);
        assert!(directory.arrive(&list, 2).is_none());
        directory.arrive(&list, 0);
        directory.look_ahead(&Names, Arc::clone(&list), 1, 1);
        // Rewound meanwhile: other names have the same numbers.
        let rewound = names(&["a", "bbbbb", "ccc"]);
        assert!(directory.arrive(&rewound, 1).is_none());
    }
}
