//! Inode numbers, and what stands behind each one that the kernel knows.
//!
//! A file's inode belongs to a (place, version), so that what the kernel caches of an inode never changes; a directory or
//! link keeps its own. Numbers are made of what they stand for, not counted, so they are the same again after a remount.

use crate::tree::{Attributes, NodeKind, Place};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The root's number, fixed by the kernel.
pub(super) const ROOT: u64 = 1;

/// Numbers stay below 2^53: some programs keep them in a floating-point number.
const LARGEST: u64 = (1 << 53) - 1;

/// What one inode stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// Where.
    pub(super) place: Place,
    /// What.
    pub(super) kind: NodeKind,
    /// Which content; 0 for a directory or link.
    pub(super) version: u64,
}

/// A node that the kernel knows or that is open.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// What the inode stands for.
    pub(super) identity: Arc<Identity>,
    /// Its attributes as last said to the kernel; nothing where a listing named it before they were known.
    pub(super) attributes: Option<Attributes>,
}

/// An inode that the kernel was told of.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) number: u64,
    identity: Arc<Identity>,
}

/// All inodes that the kernel knows or that are open, and the root.
pub(super) struct Inodes {
    rows: Mutex<Rows>,
    number: fn(&Identity) -> u64,
}

#[derive(Default)]
struct Rows {
    by_number: HashMap<u64, Row, BuildHasherDefault<Spread>>,
    /// The numbers of those whose own number another one had.
    moved: HashMap<Arc<Identity>, u64>,
}

/// Numbers are made by a digest, so their bits need no more than to be spread over all that a table looks at.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number without a pattern, from the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Row {
    node: Node,
    /// How often the kernel was told of it and has not yet forgotten.
    lookups: u64,
    /// Open handles. The kernel may forget an inode before it closes the last one: two threads serve two requests.
    open: u32,
}

impl Inodes {
    /// Only the root.
    pub(super) fn new() -> Self {
        Self::numbered(hash)
    }

    fn numbered(number: fn(&Identity) -> u64) -> Self {
        let root = Arc::new(Identity {
            place: Place::root(),
            kind: NodeKind::Directory,
            version: 0,
        });
        let mut rows = Rows::default();
        rows.by_number.insert(ROOT, Row::new(root));
        Self {
            rows: Mutex::new(rows),
            number,
        }
    }

    /// What stands behind a number.
    pub(super) fn get(&self, number: u64) -> Option<Node> {
        self.rows().by_number.get(&number).map(|r| r.node.clone())
    }

    /// The node of this identity if the kernel knows it.
    pub(super) fn known(&self, identity: &Identity) -> Option<Node> {
        let own = self.own(identity);
        let rows = self.rows();
        let number = rows.find(own, identity)?;
        rows.by_number.get(&number).map(|r| r.node.clone())
    }

    /// The number that stands for this identity now or would if the kernel were told of it.
    pub(super) fn number(&self, identity: &Identity) -> u64 {
        let own = self.own(identity);
        let rows = self.rows();
        let number = rows.find(own, identity);
        number.unwrap_or_else(|| rows.vacant(own))
    }

    /// The number of this identity, which the kernel is about to be told: counts it, before the reply goes out.
    ///
    /// Attributes that are given replace those remembered.
    pub(super) fn look_up(&self, identity: Identity, attributes: Option<Attributes>) -> u64 {
        self.tell(identity, attributes).number
    }

    /// The same, for who will tell the kernel of the inode again soon.
    pub(super) fn tell(&self, identity: Identity, attributes: Option<Attributes>) -> Told {
        let own = self.own(&identity);
        let mut rows = self.rows();
        let number = rows.find(own, &identity);
        let number = number.unwrap_or_else(|| rows.vacant(own));
        let row = rows.by_number.entry(number);
        let row = row.or_insert_with(|| Row::new(Arc::new(identity)));
        row.tell(attributes);
        let identity = Arc::clone(&row.node.identity);
        if number != own {
            rows.moved.insert(Arc::clone(&identity), number);
        }
        Told { number, identity }
    }

    /// The kernel is about to be told once more of an inode: counts it, unless the kernel has forgotten the inode meanwhile.
    pub(super) fn tell_again(&self, told: &Told, attributes: Attributes) -> bool {
        let mut rows = self.rows();
        let row = rows.by_number.get_mut(&told.number);
        let row = row.filter(|row| row.is_of(told));
        row.map(|row| row.tell(Some(attributes))).is_some()
    }

    /// Whether the kernel knows an inode that it was told of.
    pub(super) fn is_known(&self, told: &Told) -> bool {
        let rows = self.rows();
        let row = rows.by_number.get(&told.number);
        row.is_some_and(|row| row.is_of(told))
    }

    /// Remembers what the kernel is told about an inode that it knows.
    pub(super) fn remember(&self, number: u64, attributes: Attributes) {
        if let Some(row) = self.rows().by_number.get_mut(&number) {
            row.node.attributes = Some(attributes);
        }
    }

    /// The kernel forgets `count` of the times it was told.
    pub(super) fn forget(&self, number: u64, count: u64) {
        let mut rows = self.rows();
        if let Some(row) = rows.by_number.get_mut(&number) {
            row.lookups = row.lookups.saturating_sub(count);
        }
        rows.drop_if_unused(number);
    }

    /// A handle on it was opened.
    pub(super) fn opened(&self, number: u64) {
        if let Some(row) = self.rows().by_number.get_mut(&number) {
            row.open += 1;
        }
    }

    /// A handle on it was closed.
    pub(super) fn closed(&self, number: u64) {
        let mut rows = self.rows();
        if let Some(row) = rows.by_number.get_mut(&number) {
            row.open = row.open.saturating_sub(1);
        }
        rows.drop_if_unused(number);
    }

    /// How many there are, the root included.
    pub(super) fn len(&self) -> usize {
        self.rows().by_number.len()
    }

    /// The number that is made of an identity.
    fn own(&self, identity: &Identity) -> u64 {
        if identity.place.is_root() {
            return ROOT;
        }
        ((self.number)(identity) & LARGEST).max(ROOT + 1)
    }

    /// No code of others runs under the lock, and every change is complete in one statement, so a poisoned one is whole.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// The number of an identity whose own is this, if the kernel knows it.
    fn find(&self, own: u64, identity: &Identity) -> Option<u64> {
        let row = self.by_number.get(&own);
        if row.is_some_and(|row| *row.node.identity == *identity) {
            return Some(own);
        }
        self.moved.get(identity).copied()
    }

    /// This number, or the next that no other has.
    fn vacant(&self, own: u64) -> u64 {
        let mut number = own;
        while number <= ROOT || self.by_number.contains_key(&number) {
            number = (number + 1) & LARGEST;
        }
        number
    }

    fn drop_if_unused(&mut self, number: u64) {
        let unused = |row: &Row| row.lookups == 0 && row.open == 0;
        if number != ROOT
            && self.by_number.get(&number).is_some_and(unused)
            && let Some(row) = self.by_number.remove(&number)
        {
            self.moved.remove(&row.node.identity);
        }
    }
}

impl Row {
    fn new(identity: Arc<Identity>) -> Self {
        Self {
            node: Node {
                identity,
                attributes: None,
            },
            lookups: 0,
            open: 0,
        }
    }

    /// Whether it is the very inode: its number may stand for something else by now.
    fn is_of(&self, told: &Told) -> bool {
        Arc::ptr_eq(&self.node.identity, &told.identity)
    }

    /// The kernel is about to be told of it. Attributes that are given replace those remembered.
    fn tell(&mut self, attributes: Option<Attributes>) {
        self.lookups += 1;
        if attributes.is_some() {
            self.node.attributes = attributes;
        }
    }
}

/// The first bits of a SHA-256 over all that makes an identity.
fn hash(identity: &Identity) -> u64 {
    let kind: u8 = match identity.kind {
        NodeKind::Directory => 0,
        NodeKind::File => 1,
        NodeKind::Link => 2,
    };
    let digest = Sha256::new()
        .chain_update([kind])
        .chain_update(identity.version.to_le_bytes())
        .chain_update(identity.place.path().as_os_str().as_bytes())
        .finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::time::SystemTime;

    fn file(name: &str, version: u64) -> Identity {
        Identity {
            place: Place::root().join(OsStr::new(name)),
            kind: NodeKind::File,
            version,
        }
    }

    fn attributes(size: u64) -> Attributes {
        Attributes {
            kind: NodeKind::File,
            size,
            modified: SystemTime::UNIX_EPOCH,
            version: 1,
            live: false,
        }
    }

    #[test]
    fn a_number_is_small_stable_and_one_a_version() {
        let (a, b) = (Inodes::new(), Inodes::new());
        b.look_up(file("other", 1), None);
        let first = a.look_up(file("x", 1), None);
        assert_eq!(first, b.look_up(file("x", 1), None));
        assert_ne!(first, a.look_up(file("x", 2), None));
        assert!(first > ROOT && first <= LARGEST);
        assert_eq!(a.number(&file("x", 1)), first);
    }

    #[test]
    fn what_collides_is_told_apart() {
        let all = Inodes::numbered(|_| LARGEST);
        let numbers: Vec<_> = (0..4).map(|v| all.look_up(file("x", v), None)).collect();
        assert_eq!(numbers, [LARGEST, 2, 3, 4]);
        all.forget(2, 1);
        // The third keeps its number though a number nearer to its own is vacant again.
        assert_eq!(all.number(&file("x", 2)), 3);
        assert_eq!(all.look_up(file("x", 2), None), 3);
        assert_eq!(all.number(&file("x", 1)), 2);
    }

    #[test]
    fn it_stays_until_forgotten_and_closed() {
        let all = Inodes::new();
        let number = all.look_up(file("x", 1), Some(attributes(5)));
        all.look_up(file("x", 1), None);
        all.opened(number);
        all.forget(number, 2);
        assert_eq!(all.get(number).unwrap().attributes.unwrap().size, 5);
        all.closed(number);
        assert!(all.get(number).is_none());
        assert!(all.known(&file("x", 1)).is_none());
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn what_is_told_again_is_what_was_told() {
        let all = Inodes::numbered(|_| 7);
        let told = all.tell(file("x", 1), None);
        assert!(all.tell_again(&told, attributes(5)));
        all.forget(told.number, 1);
        let node = all.get(told.number).unwrap();
        assert_eq!(node.attributes.unwrap().size, 5);
        all.forget(told.number, 1);
        assert!(!all.tell_again(&told, attributes(6)), "it is forgotten");
        assert!(!all.is_known(&told));
        assert_eq!(all.look_up(file("y", 1), None), told.number);
        assert!(!all.tell_again(&told, attributes(6)), "it is another one");
    }

    #[test]
    fn the_root_is_never_forgotten() {
        let all = Inodes::new();
        all.forget(ROOT, 7);
        all.opened(ROOT);
        all.closed(ROOT);
        assert_eq!(all.get(ROOT).unwrap().identity.place, Place::root());
    }
}
