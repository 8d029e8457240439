//! What lies below `source/` and `messages/`: stored files under safe names, each where it lies below its folder.

use super::{Entry, NodeKind};
use crate::store::{SourceFile, safe_name};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories below one of them, by path from there; the empty path is the directory itself.
#[derive(Debug, Default)]
pub(super) struct SourceTree {
    directories: BTreeMap<PathBuf, BTreeMap<String, Child>>,
}

/// What a name in one of them is.
#[derive(Clone, Copy, Debug)]
enum Child {
    Directory,
    /// Which file of which fragment.
    File(usize, usize),
}

impl SourceTree {
    /// Lays out the files. Those of the second fragment lie below `fragment-2/`, and so on.
    pub(super) fn new<'f>(fragments: impl IntoIterator<Item = &'f [SourceFile]>) -> Self {
        let mut tree = Self::default();
        for (i, files) in fragments.into_iter().enumerate() {
            for (j, file) in files.iter().enumerate() {
                let mut at = PathBuf::new();
                if i > 0 {
                    at = tree.enter(&at, &format!("fragment-{}", i + 1));
                }
                for part in file.name.parent().into_iter().flat_map(Path::iter) {
                    at = tree.enter(&at, &safe_name(part.as_bytes()));
                }
                let name = file.name.file_name().unwrap_or_default();
                tree.put(&at, &safe_name(name.as_bytes()), Child::File(i, j));
            }
        }
        tree
    }

    pub(super) fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// What is at a path.
    pub(super) fn kind(&self, path: &Path) -> Option<NodeKind> {
        if self.directories.contains_key(path) {
            return Some(NodeKind::Directory);
        }
        self.child(path).map(|_| NodeKind::File)
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, path: &Path) -> Option<Vec<Entry>> {
        let children = self.directories.get(path)?.iter();
        let entries = children.map(|(name, child)| Entry {
            name: name.into(),
            kind: match child {
                Child::Directory => NodeKind::Directory,
                Child::File(..) => NodeKind::File,
            },
        });
        Some(entries.collect())
    }

    /// The stored file at a path: which file of which fragment.
    pub(super) fn file(&self, path: &Path) -> Option<(usize, usize)> {
        match self.child(path)? {
            Child::File(i, j) => Some((i, j)),
            Child::Directory => None,
        }
    }

    fn child(&self, path: &Path) -> Option<Child> {
        let children = self.directories.get(path.parent()?)?;
        children.get(path.file_name()?.to_str()?).copied()
    }

    /// The path of the directory with this name, made if it is not there.
    fn enter(&mut self, at: &Path, name: &str) -> PathBuf {
        let there = self.directories.get(at).and_then(|c| c.get(name));
        let name = match there {
            Some(Child::Directory) => name.to_owned(),
            _ => self.put(at, name, Child::Directory),
        };
        let path = at.join(name);
        self.directories.entry(path.clone()).or_default();
        path
    }

    /// Puts a child under this name, or where a file of another fragment has it, under the first free `~2`, `~3`.
    fn put(&mut self, at: &Path, name: &str, child: Child) -> String {
        let children = self.directories.entry(at.to_path_buf()).or_default();
        let mut free = name.to_owned();
        for ordinal in 2_u64.. {
            if !children.contains_key(&free) {
                break;
            }
            free = format!("{name}~{ordinal}");
        }
        children.insert(free.clone(), child);
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FileRole, Fingerprint};

    fn fragment(names: &[&str]) -> Vec<SourceFile> {
        let file = |name: &&str| SourceFile {
            role: FileRole::Other,
            path: PathBuf::from("/elsewhere").join(name),
            name: PathBuf::from(name),
            fingerprint: Fingerprint::default(),
        };
        names.iter().map(file).collect()
    }

    fn names(tree: &SourceTree, path: &str) -> Vec<String> {
        let entries = tree.list(Path::new(path)).unwrap();
        entries
            .iter()
            .map(|entry| entry.name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn files_lie_where_they_lie_under_safe_names() {
        let fragments = [
            fragment(&["s/subagents/agent-a.jsonl", "s/-odd\n.txt", "s.jsonl"]),
            fragment(&["s.jsonl"]),
        ];
        let tree = SourceTree::new(fragments.iter().map(Vec::as_slice));
        assert_eq!(names(&tree, ""), ["fragment-2", "s", "s.jsonl"]);
        assert_eq!(names(&tree, "s"), ["%2Dodd%0A.txt", "subagents"]);
        assert_eq!(names(&tree, "fragment-2"), ["s.jsonl"]);
        let path = |path: &str| {
            tree.file(Path::new(path))
                .map(|(i, j)| &*fragments[i][j].name)
        };
        assert_eq!(path("s/%2Dodd%0A.txt"), Some(Path::new("s/-odd\n.txt")));
        assert_eq!(path("s"), None);
        assert_eq!(path("s/nothing"), None);
        assert_eq!(path("s.jsonl/x"), None);
        assert_eq!(tree.kind(Path::new("")), Some(NodeKind::Directory));
        assert!(SourceTree::new([]).is_empty());
    }

    #[test]
    fn a_file_that_has_the_name_of_a_fragment_does_not_hide_it() {
        let fragments = [fragment(&["fragment-2"]), fragment(&["s.jsonl"])];
        let tree = SourceTree::new(fragments.iter().map(Vec::as_slice));
        assert_eq!(names(&tree, ""), ["fragment-2", "fragment-2~2"]);
        assert_eq!(names(&tree, "fragment-2~2"), ["s.jsonl"]);
    }
}
