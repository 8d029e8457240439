//! The files of one session, found by walking its folders.

use super::folder::{Folder, Piece, agent_id};
use super::index::Located;
use super::listing::{Kind, Listings};
use super::open::kind_of;
use super::{FileRole, Fingerprint, Fragment, SessionFiles, Source, SourceFile, inside, record};
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories below each other that are walked.
const DEEPEST: usize = 32;

/// Files of one session in one project folder that are used.
const MOST_FILES: usize = 100_000;

/// What a walk needs to know of the store.
pub(super) struct Walk<'a> {
    pub(super) sources: &'a [Source],
    pub(super) listings: &'a Listings,
}

impl Walk<'_> {
    /// All files of a session now, sorted by name within each fragment.
    pub(super) fn session(&self, id: &str, located: &Located) -> SessionFiles {
        let mut session = SessionFiles {
            id: id.to_owned(),
            fragments: Vec::new(),
            record: Vec::new(),
            record_unread: Vec::new(),
            unused: Vec::new(),
            older: Vec::new(),
        };
        if let Some(log) = &located.log {
            log.files(self, &mut session);
        }
        for folder in &located.folders {
            let Some(piece) = folder.pieces.get(&located.stem) else {
                continue;
            };
            let mut found = Found {
                walk: self,
                folder,
                files: Vec::new(),
                unused: piece.unused().to_vec(),
                full: false,
            };
            found.piece(&located.stem, piece);
            found.files.sort_by(|a, b| a.name.cmp(&b.name));
            found.unused.sort();
            session.unused.append(&mut found.unused);
            session.fragments.push(Fragment {
                folder: base_name(&folder.path),
                files: found.files,
            });
        }
        if let Some(folder) = &located.record {
            let mut found = record::entries(folder, self.listings);
            session.record = found.files;
            session.record_unread = found.unread;
            session.unused.append(&mut found.unused);
        }
        session
    }
}

/// What was found of one session in one project folder.
struct Found<'a> {
    walk: &'a Walk<'a>,
    folder: &'a Folder,
    files: Vec<SourceFile>,
    unused: Vec<(String, String)>,
    full: bool,
}

/// A directory to be walked, by its path below the project folder.
struct Directory {
    name: PathBuf,
    depth: usize,
}

impl Found<'_> {
    fn piece(&mut self, stem: &OsStr, piece: &Piece) {
        if piece.main.is_some() {
            let mut name = stem.to_owned();
            name.push(".jsonl");
            let name = PathBuf::from(name);
            if let Some(directory) = self.entry(&name, FileRole::Main) {
                self.unused(&directory, "a directory, no transcript".into());
            }
        }
        for name in piece.beside() {
            self.entry(Path::new(name), role(Path::new(name)));
        }
        if piece.folder {
            self.directory(Path::new(stem));
        }
    }

    /// Walks a directory and everything below. Directories that are reached by links come last, so that a file is known
    /// by its own place first; none is walked twice.
    fn directory(&mut self, top: &Path) {
        let mut walked = HashSet::new();
        let mut linked = VecDeque::new();
        let mut queue = VecDeque::from([Directory {
            name: top.to_path_buf(),
            depth: 0,
        }]);
        while let Some(directory) = queue.pop_front().or_else(|| linked.pop_front()) {
            let path = self.folder.path.join(&directory.name);
            let listing = match self.walk.listings.list(&path) {
                Ok(listing) => listing,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.unused(&directory.name, format!("cannot be listed: {error}"));
                    continue;
                }
            };
            if !walked.insert(listing.identity) {
                continue;
            }
            if listing.cut {
                self.unused(&directory.name, "has more names than are read".into());
            }
            for entry in &listing.entries {
                let name = directory.name.join(&entry.name);
                let below = match entry.kind {
                    Kind::Directory => Some(name),
                    Kind::File | Kind::Link | Kind::Special => {
                        let role = role(&name);
                        self.entry(&name, role)
                    }
                };
                let Some(name) = below else { continue };
                let depth = directory.depth + 1;
                if depth > DEEPEST {
                    self.unused(&name, format!("lies more than {DEEPEST} directories deep"));
                } else if entry.kind == Kind::Link {
                    linked.push_back(Directory { name, depth });
                } else {
                    queue.push_back(Directory { name, depth });
                }
            }
        }
    }

    /// What a link leads to, or why it is not followed.
    fn follow(&self, link: &Path) -> Result<(PathBuf, std::fs::Metadata), String> {
        let leads_nowhere = |_| "a symbolic link that leads nowhere".to_owned();
        let metadata = std::fs::metadata(link).map_err(leads_nowhere)?;
        let target = link.canonicalize();
        let target = target.map_err(|error| format!("cannot be followed: {error}"))?;
        if inside(self.walk.sources, &self.folder.path, &target) {
            Ok((target, metadata))
        } else {
            Err("a symbolic link that leads out of the source".to_owned())
        }
    }

    /// Takes in what is not a directory by its own word. Gives the name back if it is one after all, by a link.
    fn entry(&mut self, name: &Path, role: FileRole) -> Option<PathBuf> {
        let mut path = self.folder.path.join(name);
        let metadata = match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => match self.follow(&path) {
                Ok((target, metadata)) => {
                    path = target;
                    metadata
                }
                Err(why) => {
                    self.unused(name, why);
                    return None;
                }
            },
            Ok(metadata) => metadata,
            // It went away since its folder was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.unused(name, format!("cannot be looked at: {error}"));
                return None;
            }
        };
        if metadata.is_dir() {
            return Some(name.to_path_buf());
        }
        if !metadata.is_file() {
            self.unused(
                name,
                format!("{}, which is never opened", kind_of(&metadata)),
            );
        } else if self.files.len() < MOST_FILES {
            self.files.push(SourceFile {
                role,
                path,
                name: name.to_path_buf(),
                fingerprint: Fingerprint::of(&metadata),
            });
        } else if !std::mem::replace(&mut self.full, true) {
            let why =
                format!("and what follows it: the session has more than {MOST_FILES} files here");
            self.unused(name, why);
        }
        None
    }

    fn unused(&mut self, name: &Path, why: String) {
        self.unused.push((base_name(name), why));
    }
}

/// What a file is, by its path below the project folder. The harness's layout is the source of the rules.
fn role(name: &Path) -> FileRole {
    let base = name.file_name().unwrap_or_default();
    // Directories above it, without the session's own.
    let mut above = name.parent().into_iter().flat_map(Path::iter).skip(1);
    let first = above.next();
    if first == Some(OsStr::new("tool-results")) {
        return FileRole::ToolResult;
    }
    let id = |id: &OsStr| id.to_string_lossy().into_owned();
    if let Some(agent) = agent_id(base) {
        return FileRole::Agent(id(agent));
    }
    let bytes = base.as_bytes();
    let sidecar = bytes
        .strip_prefix(b"agent-")
        .and_then(|rest| rest.strip_suffix(b".meta.json"));
    if let Some(agent) = sidecar.filter(|agent| !agent.is_empty()) {
        return FileRole::Sidecar(id(OsStr::from_bytes(agent)));
    }
    let workflows = Some(OsStr::new("workflows"));
    let record = first == workflows && bytes.ends_with(b".json");
    let journal = first == Some(OsStr::new("subagents"))
        && above.next() == workflows
        && bytes == b"journal.jsonl";
    if record || journal {
        return FileRole::Workflow;
    }
    FileRole::Other
}

fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_are() {
        let agent = |id: &str| FileRole::Agent(id.to_owned());
        let sidecar = |id: &str| FileRole::Sidecar(id.to_owned());
        let cases = [
            ("agent-1a2b3c4d.jsonl", agent("1a2b3c4d")),
            ("s/subagents/agent-a1.jsonl", agent("a1")),
            ("s/subagents/agent-a1.meta.json", sidecar("a1")),
            ("s/subagents/workflows/wf_1/agent-a2.jsonl", agent("a2")),
            (
                "s/subagents/workflows/wf_1/journal.jsonl",
                FileRole::Workflow,
            ),
            ("s/workflows/wf_1.json", FileRole::Workflow),
            ("s/tool-results/b1.txt", FileRole::ToolResult),
            ("s/tool-results/pdf-1/page-01.jpg", FileRole::ToolResult),
            ("s/tool-results/agent-x.jsonl", FileRole::ToolResult),
            ("s/agent-a3.jsonl", agent("a3")),
            ("s/subagents/agent-.jsonl", FileRole::Other),
            ("s/notes.txt", FileRole::Other),
        ];
        for (name, expected) in cases {
            assert_eq!(role(Path::new(name)), expected, "{name}");
        }
    }
}
