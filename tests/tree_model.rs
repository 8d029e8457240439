//! The tree while its sources do whatever files can do: each reader sees one version from first byte to last, each version
//! is one content for good, and sizes are those that reading gives.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sessionfs::store::{Source, Store};
use sessionfs::tree::{Content, NodeKind, Options, Place, Tree, TreeError, View};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The files that things happen to: two sessions, one of them in two projects and with agents.
const FILES: [&str; 6] = [
    "-p/1ab2c3d4-0000-4000-8000-000000000001.jsonl",
    "-p/1ab2c3d4-0000-4000-8000-000000000001/subagents/agent-a1.jsonl",
    "-p/1ab2c3d4-0000-4000-8000-000000000001/subagents/agent-a2.jsonl",
    "-p/agent-1a2b3c4d.jsonl",
    "-p/1ab2c3d4-0000-4000-8000-000000000002.jsonl",
    "-q/1ab2c3d4-0000-4000-8000-000000000001.jsonl",
];

#[derive(Clone, Debug)]
enum Step {
    /// Appends some lines, perhaps without the last line break.
    Grow(usize, u8, bool),
    /// Cuts the file to this share of its length.
    Cut(usize, u8),
    /// Writes other lines over it.
    Rewrite(usize, u8),
    /// Overwrites some bytes with what is no line.
    Damage(usize, u8),
    Delete(usize),
    /// Moves one file over another.
    Move(usize, usize),
    /// Opens everything that is there and keeps it open.
    Open,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..FILES.len();
    let step = prop_oneof![
        4 => (file.clone(), 1_u8..5, any::<bool>()).prop_map(|(f, n, whole)| Step::Grow(f, n, whole)),
        1 => (file.clone(), any::<u8>()).prop_map(|(f, share)| Step::Cut(f, share)),
        1 => (file.clone(), 0_u8..5).prop_map(|(f, n)| Step::Rewrite(f, n)),
        1 => (file.clone(), any::<u8>()).prop_map(|(f, at)| Step::Damage(f, at)),
        1 => file.clone().prop_map(Step::Delete),
        1 => (file.clone(), file).prop_map(|(a, b)| Step::Move(a, b)),
        2 => Just(Step::Open),
    ];
    proptest::collection::vec(step, 1..24)
}

struct Model {
    dir: tempfile::TempDir,
    tree: Tree,
    /// What each version of each derived file was when it was first read.
    versions: HashMap<(PathBuf, u64), Vec<u8>>,
    open: Vec<(Arc<dyn Content>, Vec<u8>)>,
    clock: u64,
}

impl Model {
    fn new(cache_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in FILES {
            fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
        }
        let source = Source::recognise(dir.path()).unwrap();
        let store = Store::new(vec![source]).recheck_after(Duration::ZERO);
        let options = Options {
            cache_bytes,
            ..Options::default()
        };
        Self {
            dir,
            tree: Tree::new(Arc::new(store), options),
            versions: HashMap::new(),
            open: Vec::new(),
            clock: 0,
        }
    }

    fn lines(&mut self, count: u8) -> String {
        let line = |i: u64| {
            format!(
                r#"{{"type":"user","uuid":"u{i}","sessionId":"1ab2c3d4-0000-4000-8000-000000000001","timestamp":"2026-11-30T20:40:29.{:03}Z","message":{{"role":"user","content":"Line {i}."}}}}"#,
                i % 1000
            ) + "\n"
        };
        let first = self.clock * 100;
        (first..first + u64::from(count)).map(line).collect()
    }

    fn step(&mut self, step: &Step) {
        self.clock += 1;
        let path = |file: usize| self.dir.path().join(FILES[file]);
        match *step {
            Step::Grow(file, count, whole) => {
                let path = path(file);
                let lines = self.lines(count);
                let end = lines.len() - usize::from(!whole) * 7;
                let file = fs::File::options().append(true).create(true).open(path);
                file.unwrap().write_all(&lines.as_bytes()[..end]).unwrap();
            }
            Step::Cut(file, share) => {
                if let Ok(file) = fs::File::options().write(true).open(path(file)) {
                    let length = file.metadata().unwrap().len();
                    file.set_len(length * u64::from(share) / 256).unwrap();
                }
            }
            Step::Rewrite(file, count) => {
                let path = path(file);
                let lines = self.lines(count);
                fs::write(path, lines).unwrap();
            }
            Step::Damage(file, at) => {
                if let Ok(mut bytes) = fs::read(path(file)) {
                    let start = bytes.len() * usize::from(at) / 256;
                    let end = bytes.len().min(start + 9);
                    bytes[start..end].copy_from_slice(&b"\0\xff{\"}]\n\\u"[..end - start]);
                    fs::write(path(file), bytes).unwrap();
                }
            }
            Step::Delete(file) => {
                let _ = fs::remove_file(path(file));
            }
            Step::Move(from, to) => {
                let _ = fs::rename(path(from), path(to));
            }
            Step::Open => {}
        }
        if let Step::Grow(file, ..)
        | Step::Cut(file, _)
        | Step::Rewrite(file, _)
        | Step::Damage(file, _) = *step
        {
            self.touch(file);
        }
    }

    /// Two changes within one tick of the file system's clock leave one time; here each leaves its own.
    fn touch(&self, file: usize) {
        if let Ok(file) = fs::File::options()
            .append(true)
            .open(self.dir.path().join(FILES[file]))
        {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(self.clock);
            file.set_modified(at).unwrap();
        }
    }

    /// Looks at everything, reads everything, and compares with all that was read before.
    fn check(&mut self, keep_open: bool) {
        let mut waiting = vec![(Place::root(), NodeKind::Directory)];
        while let Some((place, kind)) = waiting.pop() {
            assert_eq!(self.tree.kind(&place).unwrap(), kind);
            let attributes = self.tree.attributes(&place).unwrap();
            assert_eq!(attributes.kind, kind);
            match kind {
                NodeKind::Directory => {
                    let entries = self.tree.list(&place).unwrap();
                    waiting.extend(entries.iter().map(|e| (place.join(&e.name), e.kind)));
                }
                NodeKind::Link => {
                    let mut target = place.path().parent().unwrap().to_path_buf();
                    for part in &self.tree.target(&place).unwrap() {
                        if part == ".." {
                            assert!(target.pop(), "it leads out of the mount");
                        } else {
                            target.push(part);
                        }
                    }
                    let target = target
                        .iter()
                        .fold(Place::root(), |place, part| place.join(part));
                    assert_eq!(self.tree.kind(&target).unwrap(), NodeKind::Directory);
                }
                NodeKind::File => {
                    let content = self.tree.open(&place, attributes.version).unwrap();
                    let bytes = read(&*content);
                    assert_eq!(bytes.len() as u64, attributes.size, "{place:?}");
                    if attributes.live {
                        continue;
                    }
                    let key = (place.path().to_path_buf(), attributes.version);
                    let first = self.versions.entry(key).or_insert_with(|| bytes.clone());
                    assert!(*first == bytes, "{place:?} is not what this version was");
                    if keep_open {
                        self.open.push((content, bytes));
                    }
                }
            }
        }
        for (content, bytes) in &self.open {
            assert!(read(&**content) == *bytes, "an open file changed");
        }
        for ((path, version), bytes) in &self.versions {
            match self.tree.open(&place(path), *version) {
                Ok(content) => assert!(
                    read(&*content) == *bytes,
                    "{} in an old version",
                    path.display()
                ),
                Err(TreeError::Stale(_) | TreeError::NotFound(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn place(path: &Path) -> Place {
    path.iter()
        .fold(Place::root(), |place, part| place.join(part))
}

fn read(content: &dyn Content) -> Vec<u8> {
    content.read(0, usize::MAX).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_sees_one_version(steps in steps(), small in any::<bool>()) {
        let mut model = Model::new(if small { 20_000 } else { 64 << 20 });
        for step in &steps {
            model.step(step);
            model.check(matches!(step, Step::Open));
        }
    }
}
