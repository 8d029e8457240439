//! The tree over invented stores, as a mount, an export and a test see it: names, sizes, versions, freshness.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/corpus.rs"]
mod corpus;

use common::world::{S, T, World, agent_prompt, is_not_found, place, prompt, read, time};
use corpus::corpus;
use nix::sys::stat::Mode;
use sessionfs::store::{Source, Store};
use sessionfs::tree::export::{ExportError, export, open};
use sessionfs::tree::{NodeKind, Options, Place, Tree, TreeError, View};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier};
use std::time::SystemTime;

#[test]
fn agents_are_called_what_the_telemetry_calls_them() {
    let world = World::new();
    world.session(S);
    let agent = |place: &str, uuid: &str| {
        let line = agent_prompt("Look.").replace("\"b1\"", &format!("\"{uuid}\""));
        world.write(&format!("{S}/subagents/{place}.jsonl"), &(line + "\n"));
    };
    // Two of one ID, and one whose own ID is what the second could be called.
    agent("agent-ax", "c1");
    agent("workflows/wf_1/agent-ax", "c2");
    agent("agent-ax~2", "c3");
    let names = world.names(&format!("sessions/{S}/agents"));
    assert_eq!(names, ["a7", "ax", "ax~2", "ax~3"]);
    let telemetry = world.text(&format!("sessions/{S}/telemetry.json"));
    let artefact = world.text(&format!("sessions/{S}/artefact.md"));
    for name in &names {
        assert!(
            telemetry.contains(&format!("\"{name}\"")),
            "{name}: {telemetry}"
        );
        assert!(artefact.contains(name), "{name}: {artefact}");
        let own = world.text(&format!("sessions/{S}/agents/{name}/telemetry.json"));
        assert!(own.contains(&format!("\"{name}\"")), "{name}: {own}");
    }
}

#[test]
fn a_session_is_a_directory() {
    let world = World::new();
    assert_eq!(world.names(""), ["README.md", "sessions", "sessions.tsv"]);
    assert!(is_not_found(&world.tree.kind(&place("latest"))));
    world.session(S);
    let top = [
        "README.md",
        "by-date",
        "by-project",
        "latest",
        "sessions",
        "sessions.tsv",
    ];
    assert_eq!(world.names(""), top);
    assert_eq!(world.names("sessions"), [S]);
    let session = format!("sessions/{S}");
    let derived = [
        "artefact.full.md",
        "artefact.md",
        "artefact.spine.md",
        "telemetry.json",
        "turns",
        "turns.ndjson",
    ];
    let mut all = derived.to_vec();
    all.extend(["agents", "source"]);
    all.sort_unstable();
    assert_eq!(world.names(&session), all);
    assert_eq!(
        world.names(&format!("{session}/turns")),
        [
            "000001-user.md",
            "000002-assistant.md",
            "000003-tool-result.md"
        ]
    );
    assert_eq!(world.names(&format!("{session}/agents")), ["a7"]);
    assert_eq!(world.names(&format!("{session}/agents/a7")), derived);
    assert_eq!(
        world.names(&format!("{session}/agents/a7/turns")),
        ["000001-task.md"]
    );
    assert_eq!(
        world.names(&format!("{session}/source/{S}/subagents")),
        ["agent-a7.jsonl"]
    );
    let target = world.tree.target(&place("latest")).unwrap();
    assert_eq!(target, Path::new(&session));
    assert!(world.text("README.md").contains("sessions/<session id>/"));
    assert!(
        world
            .text(&format!("{session}/artefact.md"))
            .starts_with("# Session")
    );
}

#[test]
fn a_turn_is_its_section_of_the_full_artefact() {
    let world = World::new();
    world.session(S);
    for owner in [format!("sessions/{S}"), format!("sessions/{S}/agents/a7")] {
        let full = world.text(&format!("{owner}/artefact.full.md"));
        let mut from = 0;
        for (i, name) in world.names(&format!("{owner}/turns")).iter().enumerate() {
            let turn = world.text(&format!("{owner}/turns/{name}"));
            assert!(turn.starts_with(&format!("### Turn {} ", i + 1)), "{turn}");
            let at = full[from..].find(&turn).expect("in the order of the turns");
            from += at + turn.len();
        }
    }
    let turn = format!("sessions/{S}/turns/000001-user.md");
    assert!(world.text(&turn).contains("Look into the parser."));
    // A turn has its own time, everything else that of the newest source.
    let at: SystemTime = time(0)
        .parse::<jiff::Timestamp>()
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(world.attributes(&turn).modified, at);
    let artefact = world
        .attributes(&format!("sessions/{S}/artefact.md"))
        .modified;
    let newest = fs::metadata(world.path(&format!("{S}/subagents/agent-a7.jsonl")));
    assert_eq!(artefact, newest.unwrap().modified().unwrap());
    let main = fs::metadata(world.path(&format!("{S}.jsonl"))).unwrap();
    let session = world.attributes(&format!("sessions/{S}"));
    assert_eq!(session.modified, main.modified().unwrap());
}

#[test]
fn names_and_directories_render_nothing() {
    let world = World::new();
    world.session(S);
    world.session(T);
    let all = world.everything();
    for (path, kind) in &all {
        let place = place(path.to_str().unwrap());
        if *kind == NodeKind::File {
            world.tree.known(&place);
            world.tree.version(&place);
            assert!(world.tree.at_hand(&place, 1).is_none());
        } else {
            let attributes = world.tree.attributes(&place).unwrap();
            assert_eq!((attributes.kind, attributes.version), (*kind, 0));
            assert_eq!(world.tree.known(&place), Some(attributes));
        }
    }
    let known = |file: &str| world.tree.known(&place(&format!("sessions/{S}/{file}")));
    assert_eq!(known("artefact.md"), None);
    assert!(known(&format!("source/{S}.jsonl")).is_some());
    assert_eq!(world.tree.renderings(), 0);

    let attributes = world.attributes(&format!("sessions/{S}/artefact.md"));
    assert_eq!(known("artefact.md"), Some(attributes));
    assert_eq!(world.tree.renderings(), 1);
    // A turn is a slice of the full artefact: all of them cost one rendering.
    for name in world.names(&format!("sessions/{S}/turns")) {
        world.text(&format!("sessions/{S}/turns/{name}"));
    }
    assert_eq!(world.tree.renderings(), 2);
}

#[test]
fn what_eight_ask_for_at_once_is_rendered_once() {
    let world = World::new();
    world.session(S);
    let start = Barrier::new(8);
    let artefact = place(&format!("sessions/{S}/artefact.md"));
    let texts: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    read(&*open(&world.tree, &artefact).unwrap().1)
                })
            })
            .collect();
        readers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    assert_eq!(world.tree.renderings(), 1);
    assert!(
        texts
            .iter()
            .all(|text| *text == texts[0] && !text.is_empty())
    );
}

#[test]
fn an_open_file_is_one_version_from_first_byte_to_last() {
    let world = World::new();
    world.session(S);
    let files = [
        "artefact.md",
        "telemetry.json",
        "turns/000001-user.md",
        "agents/a7/artefact.full.md",
    ];
    let main = format!("{S}.jsonl");
    let before: Vec<_> = files
        .iter()
        .map(|file| {
            let place = place(&format!("sessions/{S}/{file}"));
            let (attributes, content) = open(&world.tree, &place).unwrap();
            let text = read(&*content);
            (place, attributes, content, text)
        })
        .collect();
    world.append(&main, &(prompt("u2", 9, "And the printer?") + "\n"));
    for (place, attributes, content, text) in &before {
        // Half read before, half after, and once more from the start.
        assert_eq!(content.size(), attributes.size);
        assert_eq!(read(&**content), *text, "{place:?}");
        let now = world.tree.attributes(place).unwrap();
        assert_ne!(now.version, attributes.version, "{place:?}");
        // The old version reads as it did as long as it is kept.
        let old = world.tree.open(place, attributes.version).unwrap();
        assert_eq!(read(&*old), *text);
        let hand = world.tree.at_hand(place, attributes.version).unwrap();
        assert_eq!(read(&*hand), *text);
        assert!(matches!(
            world.tree.open(place, 1),
            Err(TreeError::Stale(_))
        ));
    }
    assert!(
        world
            .text(&format!("sessions/{S}/artefact.md"))
            .contains("And the printer?")
    );
    assert!(
        world
            .names(&format!("sessions/{S}/turns"))
            .contains(&"000004-user.md".to_owned())
    );
    // An unfinished line is not shown.
    world.append(
        &main,
        r#"{"type":"user","uuid":"u3","message":{"role":"user","content":"Half"#,
    );
    assert!(
        !world
            .text(&format!("sessions/{S}/artefact.full.md"))
            .contains("Half")
    );
}

#[test]
fn a_rewritten_or_cut_source_is_a_new_version() {
    let world = World::new();
    let main = format!("{S}.jsonl");
    let artefact = format!("sessions/{S}/artefact.md");
    let mut seen = Vec::new();
    for text in ["First words.", "Other words, and more.", "Short."] {
        world.write(&main, &(prompt("u1", 1, text) + "\n"));
        let attributes = world.attributes(&artefact);
        assert!(!seen.contains(&attributes.version));
        seen.push(attributes.version);
        assert!(world.text(&artefact).contains(text));
    }
    // A new file under the old name.
    world.write("other", &(prompt("u1", 1, "Moved in.") + "\n"));
    fs::rename(world.path("other"), world.path(&main)).unwrap();
    assert!(world.text(&artefact).contains("Moved in."));
    world.write(&main, "");
    assert_eq!(
        world.names(&format!("sessions/{S}")).len(),
        5,
        "no turns are left"
    );
    assert!(!world.text(&artefact).contains("Moved in."));
}

#[test]
fn sessions_come_and_go() {
    let world = World::new();
    world.session(S);
    let artefact = place(&format!("sessions/{S}/artefact.md"));
    let (attributes, content) = open(&world.tree, &artefact).unwrap();
    world.session(T);
    assert_eq!(world.names("sessions"), [S, T]);
    fs::remove_file(world.path(&format!("{S}.jsonl"))).unwrap();
    // The folder is left: the session is, without its main thread.
    assert!(is_not_found(
        &world.tree.kind(&place(&format!("sessions/{S}/turns")))
    ));
    assert_eq!(world.names(&format!("sessions/{S}/agents")), ["a7"]);
    fs::remove_dir_all(world.path(S)).unwrap();
    assert_eq!(world.names("sessions"), [T]);
    for path in ["", "/artefact.md", "/turns", "/agents/a7", "/source"] {
        let place = place(&format!("sessions/{S}{path}"));
        assert!(is_not_found(&world.tree.kind(&place)), "{path}");
        assert!(is_not_found(&world.tree.list(&place)), "{path}");
        assert!(is_not_found(&world.tree.attributes(&place)), "{path}");
        assert!(
            is_not_found(&world.tree.open(&place, attributes.version)),
            "{path}"
        );
        assert_eq!(world.tree.known(&place), None);
    }
    assert_eq!(content.size(), attributes.size);
    assert_eq!(read(&*content).len() as u64, attributes.size);
    assert_eq!(
        world.tree.target(&place("latest")).unwrap(),
        Path::new("sessions").join(T)
    );
}

#[test]
fn source_files_are_live() {
    let world = World::new();
    world.session(S);
    let source = format!("sessions/{S}/source/{S}.jsonl");
    let (attributes, content) = open(&world.tree, &place(&source)).unwrap();
    assert!(attributes.live);
    let main = format!("{S}.jsonl");
    assert_eq!(
        world.text(&source),
        fs::read_to_string(world.path(&main)).unwrap()
    );
    world.append(&main, "more\n");
    let grown = world.attributes(&source);
    assert_eq!(grown.version, attributes.version);
    assert_eq!(grown.size, attributes.size + 5);
    assert_eq!(content.read(attributes.size, 100).unwrap(), b"more\n");
    // It shrinks while it is open: what is there is read, and no more.
    world.write(&main, "short\n");
    assert_ne!(world.attributes(&source).version, attributes.version);
    assert_eq!(read(&*content), b"short\n");
    let old = world.tree.open(&place(&source), attributes.version);
    assert!(matches!(old, Err(TreeError::Stale(_))));
}

#[test]
fn what_stands_at_a_place_is_asked_for_as_what_it_is() {
    let world = World::new();
    world.session(S);
    let not_directory = |place: &str| {
        let place = self::place(place);
        matches!(world.tree.list(&place), Err(TreeError::NotDirectory(_)))
    };
    let no_file = |place: &str| {
        let place = self::place(place);
        matches!(world.tree.open(&place, 0), Err(TreeError::NotDirectory(_)))
    };
    for file in [
        "artefact.md",
        "turns/000001-user.md",
        "agents/a7/telemetry.json",
    ] {
        assert!(not_directory(&format!("sessions/{S}/{file}")), "{file}");
    }
    assert!(not_directory(&format!("sessions/{S}/source/{S}.jsonl")));
    assert!(not_directory("README.md") && not_directory("latest"));
    for directory in [
        "",
        "sessions",
        &format!("sessions/{S}"),
        &format!("sessions/{S}/source"),
    ] {
        assert!(no_file(directory), "{directory}");
    }
    for nothing in [
        "sessions/nothing",
        &format!("sessions/{S}/nothing"),
        &format!("sessions/{S}/turns/000001-assistant.md"),
        &format!("sessions/{S}/turns/1-user.md"),
        &format!("sessions/{S}/turns/000000-user.md"),
        &format!("sessions/{S}/turns/000009-user.md"),
        &format!("sessions/{S}/agents/b"),
        &format!("sessions/{S}/source/nothing"),
        &format!("sessions/{S}/source/../../README.md"),
    ] {
        let place = place(nothing);
        assert!(is_not_found(&world.tree.kind(&place)), "{nothing}");
        assert!(is_not_found(&world.tree.attributes(&place)), "{nothing}");
    }
}

#[test]
fn hostile_names_are_safe_and_stay_apart() {
    let world = World::new();
    world.session(S);
    let long = "x".repeat(240);
    for id in ["-rf", "a\u{202e}b", "a\nb", "..", &long, "A~2"] {
        let line = agent_prompt("Look.").replace("\"b1\"", &format!("\"{}\"", id.escape_default()));
        world.write(&format!("{S}/subagents/agent-{id}.jsonl"), &line);
    }
    world.write(&format!("{S}/odd\u{7}name%0A"), "x");
    let agents = world.names(&format!("sessions/{S}/agents"));
    assert_eq!(agents.len(), 7, "{agents:?}");
    for file in world.everything().keys() {
        for name in file {
            let name = name.to_str().unwrap();
            assert!(name.len() <= 255 && !name.starts_with('-') && name != "..");
            assert!(
                !name.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{name:?}"
            );
        }
    }
    assert!(agents.contains(&"A~2".to_owned()) && agents.contains(&"%2E%2E".to_owned()));
    assert_eq!(
        world.text(&format!("sessions/{S}/source/{S}/odd%07name%250A")),
        "x"
    );
    world.files();
}

#[test]
fn faults_stay_where_they_are() {
    let world = World::new();
    world.session(S);
    world.session(T);
    let fine = format!("sessions/{T}/artefact.md");
    let before = world.text(&fine);
    nix::unistd::mkfifo(&world.path("x.jsonl"), Mode::S_IRWXU).unwrap();
    let agents = world.path(&format!("{S}/subagents"));
    nix::unistd::mkfifo(&agents.join("agent-f.jsonl"), Mode::S_IRWXU).unwrap();
    symlink("nowhere", agents.join("agent-gone.jsonl")).unwrap();
    symlink("..", agents.join("loop")).unwrap();
    fs::create_dir(agents.join("agent-d.jsonl")).unwrap();
    fs::write(
        agents.join("agent-a8.jsonl"),
        b"\xff\xfe{{{\nnull\n\0\0\0\n",
    )
    .unwrap();
    fs::create_dir(world.path("1ab2c3d4-0000-4000-8000-000000000009.jsonl")).unwrap();
    let files = world.files();
    assert_eq!(world.text(&fine), before);
    let telemetry = &files[Path::new(&format!("sessions/{S}/telemetry.json"))];
    let telemetry = String::from_utf8(telemetry.clone()).unwrap();
    assert!(
        telemetry.contains("a FIFO, which is never opened"),
        "{telemetry}"
    );
    assert!(telemetry.contains("a symbolic link that leads nowhere"));
    assert_eq!(world.names("sessions"), [S, T]);
    assert_eq!(world.tree.store().problems().len(), 2);
}

#[test]
fn fragments_lie_side_by_side() {
    let world = World::new();
    world.session(S);
    let other = world.dir.path().join("projects/-home-user-example-tree");
    fs::create_dir(&other).unwrap();
    fs::write(
        other.join(format!("{S}.jsonl")),
        prompt("u9", 20, "Elsewhere.") + "\n",
    )
    .unwrap();
    assert_eq!(
        world.names(&format!("sessions/{S}/source")),
        [S, &format!("{S}.jsonl"), "fragment-2"]
    );
    let second = world.text(&format!("sessions/{S}/source/fragment-2/{S}.jsonl"));
    assert!(second.contains("Elsewhere."));
    assert!(
        world
            .text(&format!("sessions/{S}/artefact.md"))
            .contains("Elsewhere.")
    );
}

#[test]
fn a_cache_without_room_changes_nothing_but_cost() {
    let small = World::with(Options {
        cache_bytes: 0,
        ..Options::default()
    });
    let large = World::new();
    for world in [&small, &large] {
        world.session(S);
        world.session(T);
    }
    // Nothing that a document shows depends on where its store lies.
    let (a, b) = (small.files(), large.files());
    assert!(a.len() > 20);
    assert_eq!(a, b);
    let again = small.files();
    assert_eq!(a, again);
}

#[test]
fn export_writes_what_the_tree_shows() {
    let world = World::new();
    world.session(S);
    world.session(T);
    let files = world.files();
    let to = tempfile::tempdir().unwrap();
    let root = to.path().join("new/out");
    let go_on = AtomicBool::new(false);
    // Twice: the second time over the first.
    for _ in 0..2 {
        let exported = export(&world.tree, &Place::root(), &root, &go_on).unwrap();
        assert!(exported.failed.is_empty(), "{:?}", exported.failed);
        assert_eq!(exported.files, files.len() as u64);
        assert_eq!(exported.links, 5);
    }
    for (path, kind) in world.everything() {
        let there = root.join(&path);
        let metadata = fs::symlink_metadata(&there).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        match kind {
            NodeKind::File => {
                assert_eq!(fs::read(&there).unwrap(), files[&path]);
                assert_eq!(mode, 0o600, "{}", path.display());
                let modified = world.attributes(path.to_str().unwrap()).modified;
                assert_eq!(metadata.modified().unwrap(), modified, "{}", path.display());
            }
            NodeKind::Directory => assert_eq!(mode, 0o700, "{}", path.display()),
            NodeKind::Link => {
                let target = world.tree.target(&place(path.to_str().unwrap())).unwrap();
                assert_eq!(fs::read_link(&there).unwrap(), target);
            }
        }
    }
    let left: Vec<_> = fs::read_dir(&root).unwrap().collect();
    assert_eq!(left.len(), 6, "no temporary file is left");
}

#[test]
fn export_of_one_session_goes_on_past_what_fails() {
    let world = World::new();
    world.session(S);
    world.session(T);
    let to = tempfile::tempdir().unwrap();
    let root = to.path();
    // A directory where a file should be, and a file where a directory should be.
    let there = root.join("sessions").join(S);
    fs::create_dir_all(there.join("telemetry.json/in the way")).unwrap();
    fs::write(there.join("agents"), "in the way").unwrap();
    let go_on = AtomicBool::new(false);
    let exported = export(&world.tree, &place(&format!("sessions/{S}")), root, &go_on).unwrap();
    let failed: Vec<_> = exported
        .failed
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    let session = Path::new("sessions").join(S);
    assert_eq!(
        failed,
        [session.join("agents"), session.join("telemetry.json")]
    );
    assert!(there.join("artefact.md").is_file());
    assert!(!root.join("sessions").join(T).exists());
    let missing = export(&world.tree, &place("sessions/nothing"), root, &go_on);
    assert!(missing.is_err());
}

#[test]
fn a_stopped_export_leaves_no_part_of_a_file() {
    let world = World::new();
    world.session(S);
    let to = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(true);
    let stopped = export(&world.tree, &Place::root(), to.path(), &stop);
    assert!(matches!(stopped, Err(ExportError::Stopped)));
    let mut waiting = vec![to.path().to_path_buf()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.is_dir(), "{} is left", path.display());
            waiting.push(path);
        }
    }
}

/// Real structure: whatever the corpus has, every file is as long as it says, sources are byte for byte, and nothing in
/// the sources changes.
#[test]
fn every_session_of_the_corpus_reads_as_it_says() {
    let source = Source::recognise(&corpus()).unwrap();
    let store = Arc::new(Store::new(vec![source]));
    let world = World {
        dir: tempfile::tempdir().unwrap(),
        tree: Tree::new(store.clone(), Options::default()),
    };
    let sessions = world.names("sessions");
    assert!(!sessions.is_empty());
    let files = world.files();
    for id in &sessions {
        let fragment = &store.files(id).unwrap().fragments[0];
        for file in &fragment.files {
            let shown = Path::new("sessions")
                .join(id)
                .join("source")
                .join(&file.name);
            assert_eq!(
                files[&shown],
                fs::read(&file.path).unwrap(),
                "{}",
                shown.display()
            );
        }
    }
    let turns = files
        .keys()
        .filter(|path| path.iter().any(|part| part == "turns"));
    assert!(turns.count() > sessions.len());
}
