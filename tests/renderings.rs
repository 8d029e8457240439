//! Listing costs nothing: a counter of renderings, read while the real kernel and real tools walk a mount of this process.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, PARSER, tool};
use sessionfs::fuse::mount::{Mount, MountOptions};
use sessionfs::store::{Source, Store};
use sessionfs::tree::{Options, Tree};
use std::path::PathBuf;
use std::sync::{Arc, Barrier};

/// The sample store, mounted by this very process, so that its counter can be read.
struct Own {
    tree: Arc<Tree>,
    mount: Mount,
    _home: Home,
}

impl Own {
    fn new() -> Self {
        let home = Home::new();
        let source = Source::recognise(&home.demo("store")).unwrap();
        let tree = Arc::new(Tree::new(
            Arc::new(Store::new(vec![source])),
            Options::default(),
        ));
        let point = home.path("mnt");
        std::fs::create_dir(&point).unwrap();
        let point = sessionfs::fuse::point::check(&point, &[home.path("store")]).unwrap();
        let options = MountOptions {
            point,
            source: "sample".to_owned(),
            allow_other: false,
        };
        let mount = Mount::new(tree.clone(), &options).unwrap();
        Self {
            tree,
            mount,
            _home: home,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mount.point().join(name)
    }
}

#[test]
fn names_alone_render_nothing() {
    let own = Own::new();
    let root = own.path("");
    let root = root.to_str().unwrap();
    let sessions = format!("{root}/sessions");
    for (name, args) in [
        ("ls", vec![root]),
        ("ls", vec!["-a", sessions.as_str()]),
        ("ls", vec!["-l", sessions.as_str()]),
        ("ls", vec!["-R", root]),
        ("find", vec![root]),
        ("find", vec![root, "-type", "f", "-name", "*.md"]),
        ("rg", vec!["--files", "--no-ignore", root]),
    ] {
        let printed = tool(name, args.iter().copied());
        assert!(!printed.is_empty(), "{name} {args:?}");
        assert_eq!(own.tree.renderings(), 0, "after {name} {args:?}");
    }
    let found = tool("rg", ["--files", "--no-ignore", root]);
    assert!(
        String::from_utf8(found).unwrap().contains("telemetry.json"),
        "the files were seen"
    );
}

#[test]
fn eight_readers_at_once_share_one_rendering() {
    let own = Own::new();
    let path = own.path(&format!("sessions/{PARSER}/artefact.md"));
    let start = Barrier::new(8);
    let read = || {
        start.wait();
        tool("cat", [&path])
    };
    let texts: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect()
    });
    assert!(texts[0].starts_with(b"# Session"));
    assert!(texts.iter().all(|text| *text == texts[0]));
    assert_eq!(own.tree.renderings(), 1);

    // What is kept is not made again.
    tool("cat", [&path]);
    assert_eq!(own.tree.renderings(), 1);
}
