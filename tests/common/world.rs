//! An invented store with the tree over it, for tests that need no mount.

use sessionfs::store::{Source, Store};
use sessionfs::tree::export::open;
use sessionfs::tree::{Attributes, Content, NodeKind, Options, Place, Tree, TreeError, View};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub const S: &str = "1ab2c3d4-0000-4000-8000-000000000001";
pub const T: &str = "1ab2c3d4-0000-4000-8000-000000000002";

/// A store in a directory of its own, with the tree over it.
pub struct World {
    pub dir: tempfile::TempDir,
    pub tree: Tree,
}

impl World {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("projects")).unwrap();
        let source = Source::recognise(&dir.path().join("projects")).unwrap();
        // Every question is answered by a new look, so that no test waits.
        let store = Store::new(vec![source]).recheck_after(Duration::ZERO);
        let tree = Tree::new(Arc::new(store), options);
        Self { dir, tree }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir
            .path()
            .join("projects/-home-user-example")
            .join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub fn append(&self, name: &str, text: &str) {
        let file = fs::File::options().append(true).open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// A session with a prompt, an answer that spawned an agent, its result, and the agent's own thread.
    pub fn session(&self, id: &str) {
        let lines = [
            prompt("u1", 0, "Look into the parser."),
            format!(
                r#"{{"type":"assistant","uuid":"a1","timestamp":"{}","message":{{"id":"m1","model":"x-1","content":[{{"type":"tool_use","id":"tu1","name":"Agent","input":{{"description":"look","prompt":"Look."}}}}],"stop_reason":"tool_use","usage":{{"input_tokens":1,"output_tokens":2}}}}}}"#,
                time(1)
            ),
            format!(
                r#"{{"type":"user","uuid":"r1","timestamp":"{}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"tu1","content":"It is fine."}}]}},"toolUseResult":{{"agentId":"a7","status":"completed"}}}}"#,
                time(5)
            ),
        ];
        self.write(&format!("{id}.jsonl"), &(lines.join("\n") + "\n"));
        self.write(
            &format!("{id}/subagents/agent-a7.jsonl"),
            &(agent_prompt("Look.") + "\n"),
        );
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(read(&*open(&self.tree, &place(path)).unwrap().1)).unwrap()
    }

    pub fn attributes(&self, path: &str) -> Attributes {
        self.tree.attributes(&place(path)).unwrap()
    }

    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = self.tree.list(&place(path)).unwrap();
        let names = entries.iter().map(|e| e.name.to_str().unwrap().to_owned());
        names.collect()
    }

    /// Every place in the tree, listed as `find` does.
    pub fn everything(&self) -> BTreeMap<PathBuf, NodeKind> {
        let mut all = BTreeMap::new();
        let mut waiting = vec![(Place::root(), NodeKind::Directory)];
        while let Some((place, kind)) = waiting.pop() {
            assert_eq!(self.tree.kind(&place).unwrap(), kind, "{place:?}");
            if kind == NodeKind::Directory {
                let entries = self.tree.list(&place).unwrap();
                assert!(entries.is_sorted_by(|a, b| a.name < b.name));
                waiting.extend(entries.iter().map(|e| (place.join(&e.name), e.kind)));
            }
            all.insert(place.path().to_path_buf(), kind);
        }
        all
    }

    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let all = self.everything().into_iter();
        let files = all.filter(|(_, kind)| *kind == NodeKind::File);
        let read = |path: PathBuf| {
            let (attributes, content) = open(&self.tree, &place(path.to_str().unwrap())).unwrap();
            let bytes = read(&*content);
            assert_eq!(attributes.size, bytes.len() as u64, "{}", path.display());
            (path, bytes)
        };
        files.map(|(path, _)| read(path)).collect()
    }
}

pub fn time(second: u32) -> String {
    format!("2026-11-30T20:40:{second:02}.000Z")
}

pub fn prompt(uuid: &str, second: u32, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","timestamp":"{}","message":{{"role":"user","content":"{text}"}}}}"#,
        time(second)
    )
}

pub fn agent_prompt(text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"b1","isSidechain":true,"agentId":"a7","sessionId":"{S}","timestamp":"{}","message":{{"role":"user","content":"{text}"}}}}"#,
        time(2)
    )
}

pub fn place(path: &str) -> Place {
    let parts = Path::new(path).iter();
    parts.fold(Place::root(), |place, part| place.join(part))
}

/// Reads in odd pieces, as a kernel may ask.
pub fn read(content: &dyn Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let piece = content.read(bytes.len() as u64, 4099).unwrap();
        if piece.is_empty() {
            return bytes;
        }
        bytes.extend(piece);
    }
}

pub fn is_not_found<T>(result: &Result<T, TreeError>) -> bool {
    matches!(result, Err(TreeError::NotFound(_)))
}
