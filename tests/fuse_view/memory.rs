//! A tree in memory whose nodes are as slow, as growing and as broken as a test wants.

use sessionfs::tree::{Attributes, Content, Entry, NodeKind, Place, TreeError, View};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// The tree.
#[derive(Default)]
pub(crate) struct Memory {
    nodes: Mutex<BTreeMap<PathBuf, Node>>,
    rendered: Mutex<HashSet<(PathBuf, u64)>>,
    /// How often attributes or content were made.
    pub(crate) renderings: AtomicUsize,
    /// How many are held up by a slow node.
    pub(crate) waiting: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

/// What stands at a place.
#[derive(Clone)]
pub(crate) enum Node {
    /// A directory.
    Directory,
    /// A link with this target.
    Link(PathBuf),
    /// A file of this version; a new version is a new inode.
    File(u64, Arc<Vec<u8>>),
    /// A file that only grows and keeps its inode.
    Live(Arc<Mutex<Vec<u8>>>),
    /// A file that is not rendered before [`Memory::let_go`].
    Slow(Arc<Vec<u8>>),
    /// A file that is rendered at once and not read before [`Memory::let_go`].
    SlowToRead(Arc<Vec<u8>>),
    /// A directory that is not listed before [`Memory::let_go`].
    SlowToList,
    /// A file whose attributes panic.
    PanicsAtOnce,
    /// A file whose reading panics.
    PanicsWhenRead,
}

impl Memory {
    /// A tree with these nodes; the directories above them come along.
    pub(crate) fn new(nodes: impl IntoIterator<Item = (&'static str, Node)>) -> Arc<Self> {
        let memory = Self::default();
        for (path, node) in nodes {
            memory.put(path, node);
        }
        Arc::new(memory)
    }

    /// Puts a node at a path, over what is there.
    pub(crate) fn put(&self, path: impl AsRef<Path>, node: Node) {
        let mut nodes = self.nodes();
        for above in path.as_ref().ancestors().skip(1) {
            nodes.entry(above.to_path_buf()).or_insert(Node::Directory);
        }
        nodes.insert(path.as_ref().to_path_buf(), node);
    }

    /// Puts a file of version 1.
    pub(crate) fn put_file(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.put(path, Node::File(1, Arc::new(bytes.to_vec())));
    }

    /// Takes everything away but the root.
    pub(crate) fn clear(&self) {
        self.nodes().retain(|path, _| path == Path::new(""));
    }

    /// All paths but the root.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.nodes().keys().skip(1).cloned().collect()
    }

    /// Forgets what was rendered, as a full cache does.
    pub(crate) fn evict(&self) {
        self.rendered.lock().unwrap().clear();
    }

    /// Lets all slow nodes go on, now and from now on.
    pub(crate) fn let_go(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Node>> {
        self.nodes.lock().unwrap()
    }

    fn node(&self, place: &Place) -> Result<Node, TreeError> {
        let node = self.nodes().get(place.path()).cloned();
        node.ok_or_else(|| TreeError::NotFound(place.path().to_path_buf()))
    }

    fn is_rendered(&self, place: &Place, version: u64) -> bool {
        let rendered = self.rendered.lock().unwrap();
        rendered.contains(&(place.path().to_path_buf(), version))
    }

    fn render(&self, place: &Place, node: &Node) {
        let key = (place.path().to_path_buf(), attributes(node).version);
        if self.rendered.lock().unwrap().contains(&key) {
            return;
        }
        match node {
            Node::Slow(_) => self.wait(),
            Node::PanicsAtOnce => panic!("on purpose, when rendered"),
            _ => {}
        }
        self.renderings.fetch_add(1, Ordering::SeqCst);
        self.rendered.lock().unwrap().insert(key);
    }
}

/// A memory as a view of it.
pub(crate) struct Shown(pub(crate) Arc<Memory>);

impl View for Shown {
    fn kind(&self, place: &Place) -> Result<NodeKind, TreeError> {
        Ok(attributes(&self.0.node(place)?).kind)
    }

    fn list(&self, place: &Place) -> Result<Vec<Entry>, TreeError> {
        match self.0.node(place)? {
            Node::Directory => {}
            Node::SlowToList => self.0.wait(),
            _ => return Err(TreeError::NotDirectory(place.path().to_path_buf())),
        }
        let nodes = self.0.nodes();
        let inside = nodes
            .iter()
            .filter(|(path, _)| path.parent() == Some(place.path()));
        Ok(inside
            .map(|(path, node)| Entry {
                name: path.file_name().unwrap().to_os_string(),
                kind: attributes(node).kind,
            })
            .collect())
    }

    fn known(&self, place: &Place) -> Option<Attributes> {
        let node = self.0.node(place).ok()?;
        let attributes = attributes(&node);
        let cheap = attributes.kind != NodeKind::File
            || attributes.live
            || self.0.is_rendered(place, attributes.version);
        cheap.then_some(attributes)
    }

    fn version(&self, place: &Place) -> Option<u64> {
        Some(attributes(&self.0.node(place).ok()?).version)
    }

    fn attributes(&self, place: &Place) -> Result<Attributes, TreeError> {
        let node = self.0.node(place)?;
        let attributes = attributes(&node);
        if attributes.kind == NodeKind::File && !attributes.live {
            self.0.render(place, &node);
        }
        Ok(attributes)
    }

    fn at_hand(&self, place: &Place, version: u64) -> Option<Arc<dyn Content>> {
        let rendered = self.0.is_rendered(place, version);
        rendered.then(|| self.open(place, version).ok()).flatten()
    }

    fn open(&self, place: &Place, version: u64) -> Result<Arc<dyn Content>, TreeError> {
        let node = self.0.node(place)?;
        if attributes(&node).version != version {
            return Err(TreeError::Stale(place.path().to_path_buf()));
        }
        self.0.render(place, &node);
        Ok(Arc::new(Opened {
            memory: Arc::clone(&self.0),
            node,
        }))
    }

    fn target(&self, place: &Place) -> Result<PathBuf, TreeError> {
        match self.0.node(place)? {
            Node::Link(target) => Ok(target),
            _ => Err(TreeError::NotFound(place.path().to_path_buf())),
        }
    }
}

struct Opened {
    memory: Arc<Memory>,
    node: Node,
}

impl Content for Opened {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let part = |bytes: &[u8]| {
            let start = bytes.len().min(usize::try_from(offset).unwrap());
            let end = bytes.len().min(start + length);
            Ok(bytes[start..end].to_vec())
        };
        match &self.node {
            Node::File(_, bytes) | Node::Slow(bytes) => part(bytes),
            Node::SlowToRead(bytes) => {
                self.memory.wait();
                part(bytes)
            }
            Node::Live(bytes) => part(&bytes.lock().unwrap()),
            Node::PanicsWhenRead => panic!("on purpose, when read"),
            _ => Err(io::Error::other("not a file")),
        }
    }

    fn size(&self) -> u64 {
        attributes(&self.node).size
    }
}

/// When every node was last written.
pub(crate) const WRITTEN: Duration = Duration::new(1_795_000_000, 123_456_789);

fn attributes(node: &Node) -> Attributes {
    let (kind, size, version) = match node {
        Node::Directory | Node::SlowToList => (NodeKind::Directory, 0, 0),
        Node::Link(target) => (NodeKind::Link, target.as_os_str().len(), 0),
        Node::File(version, bytes) => (NodeKind::File, bytes.len(), *version),
        Node::Live(bytes) => (NodeKind::File, bytes.lock().unwrap().len(), 7),
        Node::Slow(bytes) | Node::SlowToRead(bytes) => (NodeKind::File, bytes.len(), 1),
        Node::PanicsAtOnce | Node::PanicsWhenRead => (NodeKind::File, 10, 1),
    };
    Attributes {
        kind,
        size: size as u64,
        modified: UNIX_EPOCH + WRITTEN,
        version,
        live: matches!(node, Node::Live(_)),
    }
}

/// Bytes of which no two pieces are alike, so that a shifted, cut or doubled one shows.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    let lines = (0_u64..).flat_map(|n| format!("{n:x}-{}\n", n * n % 9973).into_bytes());
    lines.take(length).collect()
}
