//! The virtual tree: what is at a path now, with its exact size and version.
//!
//! [`View`] is all that `fuse`, `export` and `cat` see of it. A [`Place`] is a path in the tree; a node's content is an
//! immutable value with a version, so that one (place, version) always reads the same.

mod content;
pub mod export;
mod kept;
mod live;
mod overview;
mod place;
mod problems;
mod readme;
mod rendering;
mod sources;
mod state;
mod table;
mod target;
mod version;
mod view;

pub use view::{Options, Tree};

use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A path in the tree, relative to its root; the root is empty.
#[derive(Clone, Debug)]
pub struct Place(Arc<Path>);

impl Place {
    /// The root.
    pub fn root() -> Self {
        Self(Arc::from(Path::new("")))
    }

    /// The place of this name in this directory. The name is one component.
    #[must_use]
    pub fn join(&self, name: &OsStr) -> Self {
        let mut path = PathBuf::with_capacity(self.bytes().len() + 1 + name.len());
        path.push(&*self.0);
        path.push(name);
        Self(Arc::from(path))
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.bytes().is_empty()
    }

    /// As a path relative to the root.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_os_str().as_encoded_bytes()
    }
}

// A place is made of names by joining them, so two are one if their bytes are: taking them apart again would take longer than all
// else that is done for a name in a list.

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

/// What kind of node stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link.
    Link,
}

/// A node's attributes. For a given place and version they never change, but for a live file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: NodeKind,
    /// Length in bytes that reading gives; of a link, of its target.
    pub size: u64,
    /// When what it shows was last written.
    pub modified: SystemTime,
    /// Which version of the content this is; 0 for a directory or link, which keep their identity.
    pub version: u64,
    /// A stored file that only grows: it keeps its version and serves what is there.
    pub live: bool,
}

/// How long after it was last written something may still be written to.
const GOES_ON: Duration = Duration::from_mins(15);

/// Whether what was last written at this time may still grow. A time that is still to come is a clock's error, and says as much.
pub(crate) fn may_grow(modified: SystemTime) -> bool {
    modified.elapsed().unwrap_or_default() < GOES_ON
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, one safe path component.
    pub name: std::ffi::OsString,
    /// What it is.
    pub kind: NodeKind,
}

/// What an open file reads: one version, from first byte to last.
pub trait Content: Send + Sync {
    /// Bytes from `offset`, up to `length` of them; fewer only at the end.
    fn read(&self, offset: u64, length: usize) -> std::io::Result<Vec<u8>>;
    /// Length in bytes.
    fn size(&self) -> u64;
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Nothing is at this place.
    #[error("{}: not found", .0.display())]
    NotFound(PathBuf),
    /// A directory was asked for what only a file has, or the other way round.
    #[error("{}: not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// The version that was asked for is not the current one and is not kept any more.
    #[error("{}: has changed", .0.display())]
    Stale(PathBuf),
    /// A stored file could not be read.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// The tree, as everything that shows it sees it.
///
/// `list` and `kind` may parse a session, and render nothing; `known`, `version` and `at_hand` do neither.
pub trait View: Send + Sync + 'static {
    /// What kind of node is at this place, as far as names tell. Renders nothing.
    fn kind(&self, place: &Place) -> Result<NodeKind, TreeError>;
    /// The names in a directory, sorted. Renders nothing.
    fn list(&self, place: &Place) -> Result<Vec<Entry>, TreeError>;
    /// The attributes if they are known without rendering.
    fn known(&self, place: &Place) -> Option<Attributes>;
    /// The attributes, rendered if need be.
    fn attributes(&self, place: &Place) -> Result<Attributes, TreeError>;
    /// Whether rendering what is at this place takes so little that nobody minds to wait for it.
    fn is_small(&self, _place: &Place) -> bool {
        false
    }
    /// The version that a file has now, if that is known without rendering. Listings number their entries by it.
    fn version(&self, place: &Place) -> Option<u64> {
        self.known(place).map(|attributes| attributes.version)
    }
    /// The content of a file in this version if it is at hand: nothing is read or rendered for it.
    fn at_hand(&self, _place: &Place, _version: u64) -> Option<Arc<dyn Content>> {
        None
    }
    /// The content of a file in this version.
    fn open(&self, place: &Place, version: u64) -> Result<Arc<dyn Content>, TreeError>;
    /// A link's target, relative.
    fn target(&self, place: &Place) -> Result<PathBuf, TreeError>;
}
