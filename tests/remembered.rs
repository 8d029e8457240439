//! What one run remembers for the next: it saves work, is never believed over the files, and holds nothing of a record of messages.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{S, T, agent_prompt, place, prompt, read, time};
use common::{Home, PARSER};
use sessionfs::cache::Cache;
use sessionfs::fuse::mount::{Mount, MountOptions};
use sessionfs::store::{Source, Store};
use sessionfs::tree::export::open;
use sessionfs::tree::{Attributes, NodeKind, Options, Place, Tree, TreeError, View};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Sources and a cache folder, over which one run after another makes its tree.
struct Runs {
    dir: tempfile::TempDir,
}

impl Runs {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("projects/-p")).unwrap();
        let runs = Self { dir };
        runs.session(S);
        runs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path("projects/-p").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A session with a prompt, an agent, an answer with a picture, and a stored tool result.
    fn session(&self, id: &str) {
        let lines = [
            prompt("u1", 0, "Look into the parser."),
            format!(
                r#"{{"type":"assistant","uuid":"a1","timestamp":"{}","message":{{"id":"m1","model":"x-1","content":[{{"type":"tool_use","id":"tu1","name":"Agent","input":{{"description":"look","prompt":"Look."}}}}],"usage":{{"input_tokens":1,"output_tokens":2}}}}}}"#,
                time(1)
            ),
            format!(
                r#"{{"type":"user","uuid":"r1","timestamp":"{}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"tu1","content":[{{"type":"text","text":"Fine."}},{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"aGk/"}}}}]}}]}},"toolUseResult":{{"agentId":"a7","status":"completed"}}}}"#,
                time(5)
            ),
            // Out of order, and before the epoch.
            r#"{"type":"user","uuid":"u2","timestamp":"1969-12-31T23:59:59.123456789Z","message":{"role":"user","content":"Thanks \u00e4."}}"#.to_owned(),
            r#"{"type":"user","uuid":"u3","message":{"role":"user","content":"Unstamped."}}"#
                .to_owned(),
        ];
        self.write(&format!("{id}.jsonl"), &(lines.join("\n") + "\n"));
        self.write(
            &format!("{id}/subagents/agent-a7.jsonl"),
            &(agent_prompt("Look.") + "\n"),
        );
        self.write(&format!("{id}/tool-results/b1.txt"), "stored\n");
    }

    fn cache_folder(&self) -> PathBuf {
        self.path("cache")
    }

    /// The tree of a new run.
    fn tree(&self) -> Tree {
        self.tree_of(&["projects"], Options::default())
    }

    fn tree_of(&self, sources: &[&str], options: Options) -> Tree {
        let sources = sources.iter();
        let sources = sources.map(|name| Source::recognise(&self.path(name)).unwrap());
        // Every question is answered by a new look, and nothing is too young to be remembered, so that no test waits.
        let store = Store::new(sources.collect()).recheck_after(Duration::ZERO);
        let cache = Cache::at(&self.cache_folder(), &store.identity()).unwrap();
        let cache = cache.settled_after(Duration::ZERO);
        Tree::new(Arc::new(store), options).remembering(&cache)
    }

    /// The one file of this kind in the cache folder.
    fn file(&self, kind: &str) -> PathBuf {
        let names = fs::read_dir(self.cache_folder()).unwrap();
        let paths = names.map(|name| name.unwrap().path());
        let is_one = |path: &PathBuf| {
            path.extension()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(kind)
        };
        let mut paths: Vec<_> = paths.filter(is_one).collect();
        assert_eq!(paths.len(), 1, "{kind}: {paths:?}");
        paths.remove(0)
    }

    /// All bytes of the cache folder.
    fn remembered(&self) -> Vec<u8> {
        let names = fs::read_dir(self.cache_folder()).unwrap();
        let files = names.map(|name| fs::read(name.unwrap().path()).unwrap());
        files.flatten().collect()
    }
}

/// The attributes of everything below a place, as `ls -lR` and `du` ask for them.
fn walk(tree: &Tree, top: &str) -> BTreeMap<PathBuf, Attributes> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![place(top)];
    while let Some(at) = waiting.pop() {
        for entry in tree.list(&at).unwrap() {
            let below: Place = at.join(&entry.name);
            let attributes = tree.attributes(&below).unwrap();
            assert_eq!(attributes.kind, entry.kind);
            all.insert(below.path().to_path_buf(), attributes);
            if entry.kind == NodeKind::Directory {
                waiting.push(below);
            }
        }
    }
    all
}

fn size(tree: &Tree, path: &str) -> u64 {
    tree.attributes(&place(path)).unwrap().size
}

fn text(tree: &Tree, path: &str) -> String {
    let (attributes, content) = open(tree, &place(path)).unwrap();
    let bytes = read(&*content);
    assert_eq!(attributes.size, bytes.len() as u64, "{path}");
    String::from_utf8(bytes).unwrap()
}

/// How a session's row of the table begins, without what only a look at its files tells.
fn row(tree: &Tree, id: &str) -> String {
    let table = text(tree, "sessions.tsv");
    let row = table.lines().find(|line| line.starts_with(id));
    row.unwrap().to_owned()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

#[test]
fn a_walk_over_an_unchanged_corpus_renders_nothing_and_says_what_reading_gives() {
    let runs = Runs::new();
    runs.session(T);
    let first = runs.tree();
    let before = walk(&first, "");
    assert!(first.renderings() > 0);
    first.remember();

    let second = runs.tree();
    let mut after = walk(&second, "");
    assert_eq!(second.renderings(), 0, "everything is remembered");
    // The one file that is of this run alone.
    let own = Path::new("README.md");
    after.insert(own.into(), before[own]);
    assert_eq!(after, before);
    let of_kind = |end: &str| after.keys().filter(|path| path.ends_with(end)).count();
    assert_eq!(of_kind("telemetry.json"), 4, "agents' too");
    assert_eq!(of_kind("000001-user.md"), 2);
    assert_eq!(
        after
            .keys()
            .filter(|p| p.parent().unwrap().ends_with("objects"))
            .count(),
        4
    );
    for (path, attributes) in &after {
        if attributes.kind == NodeKind::File {
            text(&second, path.to_str().unwrap());
        }
    }
    assert!(second.renderings() > 0, "reading renders");
}

#[test]
fn a_listing_alone_parses_nothing_that_is_remembered() {
    let runs = Runs::new();
    let first = runs.tree();
    walk(&first, "");
    first.remember();
    // What is remembered answers although the file cannot be read any more; its state is the same.
    let second = runs.tree();
    let main = runs.path(&format!("projects/-p/{S}.jsonl"));
    let turns = second.list(&place(&format!("sessions/{S}/turns"))).unwrap();
    assert_eq!(turns.len(), 5);
    // And it is the files that decide: with another state nothing is believed.
    let longer = fs::read_to_string(&main).unwrap() + &prompt("u9", 9, "More.") + "\n";
    fs::write(&main, longer).unwrap();
    let turns = second.list(&place(&format!("sessions/{S}/turns"))).unwrap();
    assert_eq!(turns.len(), 6);
}

#[test]
fn a_changed_file_is_not_answered_from_memory_though_size_and_time_are_the_same() {
    let runs = Runs::new();
    let main = runs.path(&format!("projects/-p/{S}.jsonl"));
    let path = format!("sessions/{S}/artefact.md");
    let first = runs.tree();
    assert!(row(&first, S).contains("Look into the parser."));
    assert!(text(&first, &path).contains("Look into the parser."));
    first.remember();

    let status = fs::metadata(&main).unwrap();
    let old = fs::read_to_string(&main).unwrap();
    // As long when stored, shorter when shown.
    let new = old.replace("Look into the parser.", r"Read the \u0070arser.");
    assert_eq!(old.len(), new.len());
    fs::write(&main, new).unwrap();
    let file = fs::File::options().append(true).open(&main).unwrap();
    file.set_modified(status.modified().unwrap()).unwrap();
    let now = fs::metadata(&main).unwrap();
    assert_eq!(
        (now.len(), now.mtime_nsec(), now.ino()),
        (status.len(), status.mtime_nsec(), status.ino())
    );

    let second = runs.tree();
    assert!(row(&second, S).contains("Read the parser."));
    assert!(text(&second, &path).contains("Read the parser."));
    let renderings = second.renderings();
    assert!(renderings > 0);
    second.remember();
    let third = runs.tree();
    assert_eq!(size(&third, &path), size(&second, &path));
    assert_eq!(third.renderings(), 0);
}

#[test]
fn titles_and_dates_come_from_memory_as_long_as_the_files_are_the_same() {
    let runs = Runs::new();
    runs.session(T);
    let first = runs.tree();
    let table = text(&first, "sessions.tsv");
    first.remember();
    // Nothing is opened for the table: the names in the remembered file are swapped for others, and the table shows these.
    let second = runs.tree();
    assert_eq!(text(&second, "sessions.tsv"), table);
    assert_eq!(walk(&second, "by-date"), walk(&first, "by-date"));
    assert_eq!(walk(&second, "by-project"), walk(&first, "by-project"));
    let looks = fs::metadata(runs.file("looks")).unwrap();
    assert!(looks.len() > 100);
}

/// Damages a file's bytes.
type Damage = fn(&mut Vec<u8>);

#[test]
fn a_deleted_damaged_cut_or_foreign_cache_costs_time_only() {
    let runs = Runs::new();
    let first = runs.tree();
    let before = walk(&first, "sessions");
    let table = text(&first, "sessions.tsv");
    first.remember();
    let damages: [(&str, Damage); 5] = [
        ("last byte", |bytes| *bytes.last_mut().unwrap() ^= 1),
        ("format", |bytes| bytes[11] += 1),
        ("program", |bytes| bytes[16] ^= 1),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
        ("empty", Vec::clear),
    ];
    for (what, damage) in damages {
        for kind in ["sizes", "looks", "heads", "tails"] {
            let path = runs.file(kind);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
        let tree = runs.tree();
        assert_eq!(walk(&tree, "sessions"), before, "{what}");
        assert!(tree.renderings() > 0, "{what}: it was not believed");
        assert_eq!(text(&tree, "sessions.tsv"), table, "{what}");
        tree.remember();
        // It is whole again.
        let next = runs.tree();
        assert_eq!(walk(&next, "sessions"), before);
        assert_eq!(next.renderings(), 0, "after {what}");
    }
    fs::remove_dir_all(runs.cache_folder()).unwrap();
    let tree = runs.tree();
    assert_eq!(walk(&tree, "sessions"), before);
    assert!(tree.renderings() > 0);
}

#[test]
fn two_at_once_keep_what_the_other_learned() {
    let runs = Runs::new();
    runs.session(T);
    let (one, two) = (runs.tree(), runs.tree());
    walk(&one, &format!("sessions/{S}"));
    walk(&two, &format!("sessions/{T}"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| one.remember());
        }
    });
    two.remember();
    let next = runs.tree();
    walk(&next, "sessions");
    assert_eq!(next.renderings(), 0);
    // Whoever learned first believes the other's file too.
    assert_eq!(walk(&one, "sessions"), walk(&next, "sessions"));
}

#[test]
fn what_is_gone_is_dropped_when_something_new_is_written() {
    let runs = Runs::new();
    runs.session(T);
    let first = runs.tree();
    walk(&first, "");
    first.remember();
    assert!(contains(&runs.remembered(), T));
    fs::remove_file(runs.path(&format!("projects/-p/{T}.jsonl"))).unwrap();
    fs::remove_dir_all(runs.path(&format!("projects/-p/{T}"))).unwrap();
    let main = runs.path(&format!("projects/-p/{S}.jsonl"));
    let longer = fs::read_to_string(&main).unwrap() + &prompt("u9", 9, "More.") + "\n";
    fs::write(&main, longer).unwrap();
    let second = runs.tree();
    walk(&second, "");
    text(&second, "sessions.tsv");
    second.remember();
    assert!(contains(&runs.remembered(), S));
    assert!(!contains(&runs.remembered(), T));
}

#[test]
fn other_sources_and_other_cuts_have_memories_of_their_own() {
    let runs = Runs::new();
    fs::create_dir_all(runs.path("others/-q")).unwrap();
    fs::copy(
        runs.path(&format!("projects/-p/{S}.jsonl")),
        runs.path(&format!("others/-q/{T}.jsonl")),
    )
    .unwrap();
    let uncut = Options {
        max_block_bytes: None,
        ..Options::default()
    };
    let trees = || {
        [
            runs.tree(),
            runs.tree_of(&["others"], Options::default()),
            runs.tree_of(&["projects", "others"], Options::default()),
            runs.tree_of(&["projects"], uncut),
        ]
    };
    for tree in trees() {
        walk(&tree, "");
        assert!(tree.renderings() > 0);
        tree.remember();
    }
    for tree in trees() {
        walk(&tree, "");
        assert_eq!(tree.renderings(), 0);
    }
}

/// A session that only a record knows.
const ALONE: &str = "99999999-0000-4000-8000-000000000003";

#[test]
fn nothing_of_a_record_of_messages_is_remembered() {
    let runs = Runs::new();
    runs.session(T);
    let record = |id: &str, name: &str, text: &str| {
        let path = runs.path("record").join(id).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let start = |id: &str| {
        format!(
            r#"{{"version":1,"kind":"session_start","at":"2026-11-30T20:40:00.100Z","session_id":"{id}","cwd":"/home/user/secretplace","socket":"uds:/tmp/secret.sock"}}"#
        )
    };
    for id in [S, ALONE] {
        record(id, "2026-11-30T204000.100Z-000001.json", &start(id));
    }
    let sources = ["projects", "record"];
    let first = runs.tree_of(&sources, Options::default());
    let before = walk(&first, "");
    assert!(before.contains_key(Path::new(&format!("sessions/{S}/messages.md"))));
    let table = text(&first, "sessions.tsv");
    assert!(table.contains("secretplace"), "{table}");
    first.remember();

    let remembered = runs.remembered();
    for of_record in ["secret", "204000", ALONE] {
        assert!(!contains(&remembered, of_record), "{of_record}");
    }
    assert!(!contains(&fs::read(runs.file("sizes")).unwrap(), S));
    let second = runs.tree_of(&sources, Options::default());
    assert_eq!(text(&second, "sessions.tsv"), table);
    walk(&second, &format!("sessions/{T}"));
    assert_eq!(second.renderings(), 0);
    walk(&second, &format!("sessions/{S}"));
    assert!(
        second.renderings() > 0,
        "a session with a record is rendered"
    );
}

#[test]
fn a_place_that_cannot_be_written_costs_time_only() {
    let runs = Runs::new();
    fs::write(runs.cache_folder(), "in the way").unwrap();
    let first = runs.tree();
    let before = walk(&first, "sessions");
    first.remember();
    let second = runs.tree();
    assert_eq!(walk(&second, "sessions"), before);
    assert!(second.renderings() > 0);
    assert_eq!(fs::read(runs.cache_folder()).unwrap(), b"in the way");
}

/// Gives two sessions each what was remembered of the other, so that it is whole and wrong.
fn swap(path: &Path, ids: [&str; 2]) {
    const HEAD: usize = 16 + 32 + 32;
    let bytes = fs::read(path).unwrap();
    let mut rows = BTreeMap::new();
    let mut rest = &bytes[HEAD..];
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (id, value) = (16 + number(0), number(4));
        let (row, after) = rest.split_at(id + value);
        let name = String::from_utf8(row[16..id].to_vec()).unwrap();
        rows.insert(name, (row[8..16].to_vec(), row[id..].to_vec()));
        rest = after;
    }
    let [one, other] = ids.map(|id| rows[id].1.clone());
    rows.get_mut(ids[0]).unwrap().1 = other;
    rows.get_mut(ids[1]).unwrap().1 = one;
    let mut content = Vec::new();
    for (id, (state, value)) in rows {
        content.extend((id.len() as u32).to_le_bytes());
        content.extend((value.len() as u32).to_le_bytes());
        content.extend(state);
        content.extend(id.as_bytes());
        content.extend(value);
    }
    let digest = Sha256::digest(&content);
    let whole = [&bytes[..HEAD - 32], &digest[..], &content[..]].concat();
    fs::write(path, whole).unwrap();
}

#[test]
fn a_memory_that_is_wrong_is_found_out_when_the_file_is_opened() {
    let runs = Runs::new();
    runs.session(T);
    let main = format!("{T}.jsonl");
    runs.write(&main, &(prompt("v1", 0, "Another one.") + "\n"));
    let first = runs.tree();
    let right = walk(&first, "sessions");
    first.remember();
    swap(&runs.file("sizes"), [S, T]);

    let lied = runs.tree();
    for path in [
        format!("sessions/{S}/artefact.md"),
        format!("sessions/{S}/turns/000001-user.md"),
        format!("sessions/{T}/agents/a7/telemetry.json"),
    ] {
        let said = lied.attributes(&place(&path)).unwrap();
        let opened = lied.open(&place(&path), said.version);
        let now = lied.attributes(&place(&path)).unwrap();
        assert_eq!(now.size, right[Path::new(&path)].size, "{path}");
        if said.size == now.size {
            // What is right is not taken back.
            continue;
        }
        assert!(matches!(opened, Err(TreeError::Stale(_))), "{path}");
        assert_ne!(now.version, said.version, "no kernel keeps the wrong size");
        assert_eq!(text(&lied, &path).len() as u64, now.size);
    }
    lied.remember();
    let next = runs.tree();
    let sizes = |all: &BTreeMap<PathBuf, Attributes>| -> Vec<u64> {
        all.values().map(|attributes| attributes.size).collect()
    };
    assert_eq!(sizes(&walk(&next, "sessions")), sizes(&right));

    // Whoever reads through a mount sees none of it.
    next.remember();
    swap(&runs.file("sizes"), [S, T]);
    let tree = Arc::new(runs.tree());
    let point = runs.path("mnt");
    fs::create_dir(&point).unwrap();
    let options = MountOptions {
        point: sessionfs::fuse::point::check(&point, &[runs.path("projects")]).unwrap(),
        source: "x".to_owned(),
        allow_other: false,
    };
    let mount = Mount::new(tree, &options).unwrap();
    let path = mount.point().join(format!("sessions/{S}/artefact.md"));
    let wrong = fs::metadata(&path).unwrap().len();
    let bytes = fs::read(&path).unwrap();
    assert_ne!(bytes.len() as u64, wrong);
    assert_eq!(
        bytes.len() as u64,
        right[Path::new(&format!("sessions/{S}/artefact.md"))].size
    );
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
}

/// Waits until nothing in this folder is too young to be remembered.
fn settle(folder: &Path) {
    let end = Instant::now() + Duration::from_mins(1);
    let file = folder.join("now");
    fs::write(&file, "").unwrap();
    let status = fs::metadata(&file).unwrap();
    let age = || SystemTime::now().duration_since(status.modified().unwrap());
    while !age().is_ok_and(|age| age > Duration::from_secs(4)) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn nothing_is_remembered_below_a_source_or_where_it_cannot_be() {
    let home = Home::new();
    let store = home.demo("store");
    settle(&home.path(""));
    let before = common::snapshot(&store);
    let file = home.path("file");
    fs::write(&file, "").unwrap();
    let list = |cache: &Path| {
        let mut list = home.sessionfs(["list", "-q", "--source", "store"]);
        let done = list.env("XDG_CACHE_HOME", cache).assert().success();
        let output = done.get_output().clone();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let usual = list(&home.path("cache"));
    assert!(home.path("cache/sessionfs").is_dir());
    for cache in [store.join("cache"), file.clone(), "/proc/none".into()] {
        assert_eq!(list(&cache), usual, "{}", cache.display());
    }
    assert_eq!(common::snapshot(&store), before);
    assert_eq!(fs::read(file).unwrap(), b"");
}

#[test]
fn list_and_mount_remember_privately_and_nothing_else_does() {
    let home = Home::new();
    let store = home.demo("store");
    let store = store.to_str().unwrap();
    settle(&home.path(""));
    let cache = home.path(".cache/sessionfs");
    for args in [
        vec!["cat", PARSER, "--source", store],
        vec!["export", PARSER, "--source", store, "-o", "out"],
        vec!["reconstruct", PARSER, "--source", store, "-o", "."],
        vec!["verify", store],
    ] {
        home.sessionfs(args).assert().success();
    }
    assert!(!home.path(".cache").exists());
    let first = home.output(["list", "--source", store]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&cache), 0o700);
    let files = || {
        let names = fs::read_dir(&cache).unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().path()).collect();
        names.sort();
        names
    };
    let looks = files();
    assert_eq!(looks.len(), 1);
    assert_eq!(mode(&looks[0]), 0o600);
    assert_eq!(home.output(["list", "--source", store]), first);

    // A mount writes at its end what it learned, and believes what `list` did.
    fs::create_dir(home.path("mnt")).unwrap();
    let mount = || {
        home.sessionfs(["mount", "-q", store, "mnt"])
            .assert()
            .success()
    };
    let unmount = || home.sessionfs(["unmount", "mnt"]).assert().success();
    let sizes = || {
        let walked = common::tool(
            "find",
            ["mnt/sessions", "-printf", "%p %s %T@\n"]
                .map(|a| a.replace("mnt", home.path("mnt").to_str().unwrap())),
        );
        String::from_utf8(walked).unwrap()
    };
    mount();
    let before = sizes();
    unmount();
    let end = Instant::now() + Duration::from_mins(1);
    while files().len() < 4 {
        assert!(Instant::now() < end, "the mount wrote nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(files().iter().all(|path| mode(path) == 0o600));
    mount();
    assert_eq!(sizes(), before);
    for line in before.lines().filter(|line| line.contains(".md ")) {
        let mut words = line.split(' ');
        let (path, size) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(fs::read(path).unwrap().len().to_string(), size, "{path}");
    }
    unmount();
}
