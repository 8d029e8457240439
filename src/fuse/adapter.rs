//! Kernel requests to the tree and its answers back.
//!
//! Three rules keep one session from harming another. Every handler runs in a shield: a panic costs its own call, which
//! answers EIO, and nothing else. What must render, or may, hands its reply to the [`Pool`]. What only looks or reads, or renders
//! a small session, is done by the thread that took the request, but never by the last one that is free.
//!
//! A request of this process itself would wait for itself, so it is refused: a link in a source may lead into the mount.

use super::attr::{self, NAME_MAX, Owner};
use super::handles::Handles;
use super::inodes::{Identity, Inodes, Node};
use super::listing::{Ahead, OpenDirectory};
use super::own::OwnThreads;
use super::pool::{Lane, Pool};
use crate::tree::{Attributes, Content, NodeKind, Place, TreeError, View};
use fuser::{Errno, FileAttr, Generation, Request};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Threads that take requests.
pub(super) const WORKERS: usize = 4;

/// Most open files, and most open directories (`spec/architecture.md`).
const OPEN_LIMIT: usize = 1024;

/// An inode's generation. Numbers stand for one thing only, so there never is a second one.
pub(super) const GENERATION: Generation = Generation(0);

/// Shows a [`View`] to the kernel. Cheap to clone; clones show the same.
#[derive(Clone)]
pub(super) struct Adapter(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) view: Arc<dyn View>,
    pub(super) inodes: Inodes,
    pub(super) files: Handles<OpenFile>,
    pub(super) directories: Handles<OpenDirectory>,
    pub(super) owner: Owner,
    /// What was told of the directory that was closed last.
    pub(super) recent: Mutex<Option<(Place, Arc<Ahead>)>>,
    pool: Pool,
    /// Whether the kernel maps files of which it keeps no pages.
    pub(super) maps_without_pages: AtomicBool,
    /// Workers that do something themselves that may take a while.
    busy: AtomicUsize,
    /// The threads of this process; nothing where its own requests are answered like all others.
    own_threads: Option<OwnThreads>,
}

/// An open file: one version, whatever the tree does meanwhile.
pub(super) struct OpenFile {
    pub(super) number: u64,
    pub(super) lane: Lane,
    pub(super) content: Arc<dyn Content>,
}

impl Adapter {
    /// Shows this tree as the current user's. `own_threads` are those whose requests are refused.
    pub(super) fn new(
        view: Arc<dyn View>,
        allow_other: bool,
        own_threads: Option<OwnThreads>,
    ) -> Self {
        Self(Arc::new(Shared {
            view,
            inodes: Inodes::new(),
            files: Handles::new(OPEN_LIMIT),
            directories: Handles::new(OPEN_LIMIT),
            owner: Owner::current(allow_other),
            recent: Mutex::new(None),
            pool: Pool::new(),
            maps_without_pages: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            own_threads,
        }))
    }

    /// Answers here and now. A panic drops the reply unsent, and that answers EIO.
    pub(super) fn answer(&self, answer: impl FnOnce(&Shared)) {
        // The panic hook has said what happened and where.
        let _ = catch_unwind(AssertUnwindSafe(|| answer(&self.0)));
    }

    /// Answers on the pool.
    pub(super) fn answer_later(&self, lane: Lane, answer: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(&self.0);
        self.0.pool.run(lane, move || answer(&shared));
    }

    /// Answers by rendering: on the pool, but what is small is rendered sooner than it is handed over. To be called where it may
    /// be answered here.
    pub(super) fn answer_rendering(
        &self,
        is_small: bool,
        lane: Lane,
        answer: impl FnOnce(&Shared) + Send + 'static,
    ) {
        if is_small {
            answer(&self.0);
        } else {
            self.answer_later(lane, answer);
        }
    }

    /// Answers here if another worker is free meanwhile, else on the pool.
    pub(super) fn answer_if_spare(
        &self,
        lane: Lane,
        answer: impl FnOnce(&Shared) + Send + 'static,
    ) {
        let busy = Busy::new(&self.0.busy);
        if busy.before < WORKERS - 1 {
            self.answer(answer);
        } else {
            drop(busy);
            self.answer_later(lane, answer);
        }
    }
}

impl Shared {
    /// Refuses a request of this process itself.
    pub(super) fn admit(&self, request: &Request) -> Result<(), Errno> {
        match &self.own_threads {
            Some(own) if own.has(request.pid()) => Err(Errno::EDEADLK),
            _ => Ok(()),
        }
    }

    /// What stands behind a number. The kernel asks for none that it was not told of.
    pub(super) fn node(&self, number: u64) -> Result<Node, Errno> {
        self.inodes.get(number).ok_or(Errno::ESTALE)
    }

    /// The place of this name in a directory.
    pub(super) fn child(&self, directory: u64, name: &OsStr) -> Result<Place, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(self.node(directory)?.identity.place.join(name))
    }

    /// Counts the node as told to the kernel and gives its attributes.
    pub(super) fn look_up(&self, place: Place, attributes: &Attributes) -> FileAttr {
        let identity = identity(place, attributes);
        let number = self.inodes.look_up(identity, Some(*attributes));
        self.owner.attr(number, attributes)
    }

    /// The attributes of an inode as far as they are known without rendering.
    pub(super) fn known(&self, node: &Node) -> Option<Result<Attributes, Errno>> {
        // A version never changes, and it outlives what the tree has: its size holds as long as the kernel knows the inode.
        if let Some(attributes) = node.attributes.filter(attr::fixed) {
            return Some(Ok(attributes));
        }
        let now = self.view.known(&node.identity.place)?;
        Some(current(node, now))
    }

    /// The attributes of an inode, rendered if need be.
    pub(super) fn attributes(&self, node: &Node) -> Result<Attributes, Errno> {
        match self.view.attributes(&node.identity.place) {
            Ok(now) => current(node, now),
            // What is open or just looked up reads on though its place is gone.
            Err(TreeError::NotFound(_)) if node.identity.kind == NodeKind::File => {
                node.attributes.ok_or(Errno::ENOENT)
            }
            Err(error) => Err(Self::failed(&node.identity.place, &error)),
        }
    }

    /// The error number for an answer, and a word in the log if it is not an everyday one.
    pub(super) fn failed(place: &Place, error: &TreeError) -> Errno {
        if let TreeError::Store(_) = error {
            tracing::warn!("{}: {error}", place.path().display());
        }
        attr::errno(error)
    }

    /// A handle for this content of an inode.
    pub(super) fn open(
        &self,
        number: u64,
        node: &Node,
        content: Arc<dyn Content>,
    ) -> Result<u64, Errno> {
        let place = &node.identity.place;
        if let Some(said) = node.attributes.filter(attr::fixed)
            && said.size != content.size()
        {
            // The kernel would cut it off or pad it with zeros; no answer is better than a wrong one.
            tracing::error!(
                "{}: {} bytes were promised and {} are there",
                place.path().display(),
                said.size,
                content.size()
            );
            return Err(Errno::EIO);
        }
        let file = OpenFile {
            number,
            lane: lane(place),
            content,
        };
        let handle = self.files.open(file).ok_or(Errno::EMFILE)?;
        self.inodes.opened(number);
        Ok(handle)
    }

    /// What a name stands for now, as far as is known without rendering.
    pub(super) fn named(&self, place: Place, kind: NodeKind) -> Identity {
        let version = match kind {
            NodeKind::File => self.view.version(&place).unwrap_or(0),
            NodeKind::Directory | NodeKind::Link => 0,
        };
        Identity {
            place,
            kind,
            version,
        }
    }
}

/// One part of the tree that may be slow by itself: what lies two levels below the root, as `sessions/<id>` does.
pub(super) fn lane(place: &Place) -> Lane {
    let path = place.path().as_os_str().as_bytes();
    let mut ends = memchr::memchr_iter(b'/', path);
    let part = ends.nth(1).map_or(path, |end| &path[..end]);
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn identity(place: Place, attributes: &Attributes) -> Identity {
    Identity {
        place,
        kind: attributes.kind,
        version: match attributes.kind {
            NodeKind::File => attributes.version,
            NodeKind::Directory | NodeKind::Link => 0,
        },
    }
}

/// The attributes at a place, if they are still those of this inode.
fn current(node: &Node, now: Attributes) -> Result<Attributes, Errno> {
    let identity = &node.identity;
    let same = now.kind == identity.kind
        && (now.kind != NodeKind::File || now.version == identity.version);
    if same {
        Ok(now)
    } else {
        node.attributes.ok_or(Errno::ESTALE)
    }
}

/// Counts a worker as busy as long as it lives.
struct Busy<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count, before }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
