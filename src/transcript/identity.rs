//! What a line is called, to be looked for among the names of many.
//!
//! To put a session together each line's uuid is looked for several times, and most times it is not there. A hash that was taken
//! while the line was read answers that without going back to the text.

use super::line::Line;
use super::text::{Buffers, Text};
use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::LazyLock;

/// A line's uuid, or another name, decoded, with its hash.
#[derive(Clone, Debug)]
pub struct Identity<'a> {
    hash: u64,
    /// The uuid or name.
    pub uuid: Cow<'a, [u8]>,
}

impl<'a> Identity<'a> {
    /// What this line is called, if it has a uuid.
    pub fn of(line: &Line, buffers: &'a Buffers) -> Option<Self> {
        let uuid = buffers.raw(line.uuid?).decode();
        Some(Self {
            hash: line.uuid_hash,
            uuid,
        })
    }

    /// What a line is called that this text names.
    pub fn named(text: Text, buffers: &'a Buffers) -> Self {
        Self::from(buffers.raw(text).decode())
    }
}

impl<'a> From<Cow<'a, [u8]>> for Identity<'a> {
    fn from(uuid: Cow<'a, [u8]>) -> Self {
        let hash = hash(&uuid);
        Self { hash, uuid }
    }
}

/// The name that a text is, with its hash: where the text stands need not be looked at to tell two names apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The text.
    pub text: Text,
    hash: u64,
}

impl Name {
    /// The name that this text is.
    pub fn of(text: Text, buffers: &Buffers) -> Self {
        let hash = hash(&buffers.raw(text).decode());
        Self { text, hash }
    }

    /// The hash of the name.
    pub fn hash(self) -> u64 {
        self.hash
    }

    /// What is looked for among names.
    pub fn identity(self, buffers: &Buffers) -> Identity<'_> {
        Identity {
            hash: self.hash,
            uuid: buffers.raw(self.text).decode(),
        }
    }
}

/// The hash of a decoded uuid. It is another one in each process, so that nobody can choose uuids that are slow to look for.
pub fn hash(uuid: &[u8]) -> u64 {
    static STATE: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    STATE.hash_one(uuid)
}

impl PartialEq for Identity<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.uuid == other.uuid
    }
}

impl Eq for Identity<'_> {}

impl Hash for Identity<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
