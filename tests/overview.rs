//! What shows all sessions at once: `sessions.tsv`, `by-date`, `by-project`, `problems.tsv`.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{S, T, World, is_not_found, place, prompt, read, time};
use sessionfs::store::{Source, Store};
use sessionfs::tree::export::open;
use sessionfs::tree::{NodeKind, Options, Tree, View};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A session whose ID shares no eight characters with another's.
const U: &str = "99999999-0000-4000-8000-000000000003";

/// The rows of `sessions.tsv` by column.
fn rows(world: &World) -> Vec<Vec<String>> {
    let text = world.text("sessions.tsv");
    assert!(text.ends_with('\n'));
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().map(cells).collect()
}

/// Every link below a directory of links: its path, and the session that it leads to.
fn links(world: &World, top: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for directory in world.names(top) {
        for name in world.names(&format!("{top}/{directory}")) {
            let path = format!("{top}/{directory}/{name}");
            let attributes = world.attributes(&path);
            assert_eq!(attributes.kind, NodeKind::Link);
            let target = world.tree.target(&place(&path)).unwrap();
            assert_eq!(attributes.size, target.as_os_str().len() as u64);
            let session = target
                .strip_prefix("../../sessions")
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            assert!(world.names("sessions").contains(&session));
            found.push((format!("{directory}/{name}"), session));
        }
    }
    found
}

fn project(path: &str) -> String {
    let digest = Sha256::digest(path);
    format!(
        "{}~{:02x}{:02x}",
        path.rsplit('/').next().unwrap(),
        digest[0],
        digest[1]
    )
}

fn with_directory(line: &str, directory: &str) -> String {
    line.replacen('{', &format!(r#"{{"cwd":"{directory}","#), 1)
}

#[test]
fn the_table_has_a_row_a_session_newest_first() {
    let world = World::new();
    let header = [
        "id", "started", "ended", "project", "title", "agents", "bytes", "sources",
    ];
    assert_eq!(rows(&world), [header]);
    assert!(is_not_found(&world.tree.kind(&place("by-date"))));
    assert!(is_not_found(&world.tree.attributes(&place("by-project"))));
    world.session(S);
    let later = with_directory(&prompt("u1", 30, r"Tab\there"), "/home/user/tally");
    world.write(
        &format!("{T}.jsonl"),
        &format!("{later}\n{{\"type\":\"ai-title\",\"aiTitle\":\"a\\tb\\\\c\\nd\"}}\n"),
    );
    let size = |name: &str| fs::metadata(world.path(name)).unwrap().len();
    let main = size(&format!("{T}.jsonl")).to_string();
    let all = size(&format!("{S}.jsonl")) + size(&format!("{S}/subagents/agent-a7.jsonl"));
    let found = rows(&world);
    assert_eq!(
        found[1],
        [
            T,
            &time(30),
            &time(30),
            "tally",
            r"a\tb\\c\nd",
            "0",
            &main,
            "1"
        ]
    );
    assert_eq!(
        found[2],
        [
            S,
            &time(0),
            &time(5),
            "",
            "Look into the parser.",
            "1",
            &all.to_string(),
            "2"
        ]
    );
    assert_eq!(found.len(), 3);
    assert_eq!(world.tree.renderings(), 0);
}

#[test]
fn a_title_between_two_looks_is_marked() {
    let world = World::new();
    let filler = format!(
        "{{\"type\":\"mode\",\"mode\":\"{}\"}}\n",
        "x".repeat(100_000)
    );
    world.write(
        &format!("{S}.jsonl"),
        &format!("{}\n{filler}{filler}", prompt("u1", 0, "Fix it")),
    );
    assert_eq!(rows(&world)[1][4], "~Fix it");
}

#[test]
fn sessions_without_a_time_stand_behind_the_others_by_their_ids() {
    let world = World::new();
    let undated = "{\"type\":\"mode\",\"mode\":\"normal\"}\n";
    world.write(&format!("{S}.jsonl"), &(prompt("u1", 0, "older") + "\n"));
    world.write(&format!("{U}.jsonl"), &(prompt("u1", 9, "newer") + "\n"));
    let ids = || {
        rows(&world)[1..]
            .iter()
            .map(|row| row[0].clone())
            .collect::<Vec<_>>()
    };
    let second = "1ab2c3d4-0000-4000-8000-00000000000f";
    world.write(&format!("{second}.jsonl"), undated);
    world.write(&format!("{T}.jsonl"), undated);
    assert_eq!(ids(), [U, S, T, second]);
    // Nor does one move because something is written to it.
    world.append(&format!("{second}.jsonl"), undated);
    assert_eq!(ids(), [U, S, T, second]);
}

#[test]
fn sessions_are_found_by_day_and_by_project() {
    let world = World::new();
    let parser = with_directory(
        &prompt("u1", 0, "Fix the parser, don't break it again!"),
        "/home/user/tally",
    );
    world.write(&format!("{S}.jsonl"), &(parser + "\n"));
    let dash = with_directory(&prompt("u1", 1, "-/.. \u{4e2d}"), "/home/user/other/tally");
    world.write(&format!("{U}.jsonl"), &(dash + "\n"));
    world.write(&format!("{T}.jsonl"), r#"{"type":"mode","mode":"normal"}"#);
    let (s, t, u) = (S.to_owned(), T.to_owned(), U.to_owned());
    // S and T begin alike up to their last character.
    assert_eq!(
        links(&world, "by-date"),
        [
            ("2026-11-30/20.40-99999999".to_owned(), u.clone()),
            (
                format!("2026-11-30/20.40-fix-the-parser-dont-break-{S}"),
                s.clone()
            ),
            (format!("undated/{T}"), t.clone()),
        ]
    );
    let folder = project("-home-user-example").replacen('-', "%2D", 1);
    let mut expected = [
        (format!("{folder}/undated-{T}"), t),
        (
            format!(
                "{}/2026-11-30-20.40-99999999",
                project("/home/user/other/tally")
            ),
            u,
        ),
        (
            format!(
                "{}/2026-11-30-20.40-fix-the-parser-dont-break-{S}",
                project("/home/user/tally")
            ),
            s,
        ),
    ];
    expected.sort();
    assert_eq!(links(&world, "by-project"), expected);
    for nothing in [
        "by-date/x",
        "by-date/2026-11-30/x",
        "by-date/undated/x/y",
        "by-project/x",
    ] {
        assert!(
            is_not_found(&world.tree.attributes(&place(nothing))),
            "{nothing}"
        );
    }
    let main = fs::metadata(world.path(&format!("{U}.jsonl"))).unwrap();
    let link = world.attributes("by-date/2026-11-30/20.40-99999999");
    assert_eq!(link.modified, main.modified().unwrap());
}

#[test]
fn a_name_stays_while_its_session_grows_and_others_come() {
    let world = World::new();
    let untold = format!(
        r#"{{"type":"system","subtype":"informational","timestamp":"{}"}}"#,
        time(0)
    );
    world.write(&format!("{S}.jsonl"), &(untold + "\n"));
    world.write(&format!("{U}.jsonl"), &(prompt("u1", 0, "Look") + "\n"));
    let before = links(&world, "by-date");
    assert_eq!(before[0].0, "2026-11-30/20.40-1ab2c3d4");
    assert_eq!(before[1].0, "2026-11-30/20.40-look-99999999");
    // A prompt that came after the session was first shown; a title; a session whose ID begins alike.
    world.append(
        &format!("{S}.jsonl"),
        &(prompt("u2", 9, "And the printer?") + "\n"),
    );
    world.append(
        &format!("{U}.jsonl"),
        "{\"type\":\"custom-title\",\"customTitle\":\"Mine\"}\n",
    );
    world.write(&format!("{T}.jsonl"), &(prompt("u1", 0, "Other") + "\n"));
    let mut after = links(&world, "by-date");
    let new = after.remove(2);
    assert_eq!(after, before);
    assert_eq!(new, (format!("2026-11-30/20.40-other-{T}"), T.to_owned()));
    assert_eq!(
        rows(&world).iter().find(|row| row[0] == U).unwrap()[4],
        "Mine"
    );
    fs::remove_file(world.path(&format!("{S}.jsonl"))).unwrap();
    assert_eq!(links(&world, "by-date").len(), 2);
}

#[test]
fn a_session_in_two_folders_is_listed_under_both_projects() {
    let world = World::new();
    world.write(
        &format!("{S}.jsonl"),
        &(with_directory(&prompt("u1", 1, "Fix"), "/home/user/a") + "\n"),
    );
    let other = world.path("").parent().unwrap().join("-home-user-b");
    fs::create_dir(&other).unwrap();
    fs::write(
        other.join(format!("{S}.jsonl")),
        with_directory(&prompt("u2", 5, "Go"), "/home/user/b") + "\n",
    )
    .unwrap();
    let projects: Vec<String> = links(&world, "by-project")
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    let name = "2026-11-30-20.40-fix-1ab2c3d4";
    let mut expected =
        ["/home/user/a", "/home/user/b"].map(|path| format!("{}/{name}", project(path)));
    expected.sort();
    assert_eq!(projects, expected);
    assert_eq!(rows(&world)[1][1], time(1), "the earliest of both");
}

#[test]
fn an_open_table_is_one_version_and_a_new_one_shows() {
    let world = World::new();
    world.session(S);
    let (before, content) = open(&world.tree, &place("sessions.tsv")).unwrap();
    let text = read(&*content);
    world.session(T);
    let now = world.attributes("sessions.tsv");
    assert_ne!(now.version, before.version);
    assert_eq!(read(&*content), text);
    let old = world
        .tree
        .at_hand(&place("sessions.tsv"), before.version)
        .unwrap();
    assert_eq!(read(&*old), text, "kept for who asked a moment ago");
    assert_eq!(now.size, world.text("sessions.tsv").len() as u64);
    assert_eq!(
        world.attributes("sessions.tsv"),
        now,
        "the same as long as nothing changes"
    );
}

#[test]
fn faults_of_no_session_are_a_table_that_says_no_path_of_the_machine() {
    let world = World::new();
    world.session(S);
    assert!(is_not_found(&world.tree.kind(&place("problems.tsv"))));
    world.write("agent-lost.jsonl", "{\"type\":\"user\"}\n");
    let text = world.text("problems.tsv");
    assert_eq!(
        text,
        "source\tpath\tproblem\nprojects\t-home-user-example/agent-lost.jsonl\tan agent's transcript that names no session\n"
    );
    assert_eq!(world.attributes("problems.tsv").size, text.len() as u64);
    assert!(world.names("").contains(&"problems.tsv".to_owned()));
    fs::remove_file(world.path("agent-lost.jsonl")).unwrap();
    assert!(is_not_found(&world.tree.attributes(&place("problems.tsv"))));
}

/// Sessions of a size that a person has after some years.
const MANY: usize = 10_000;

#[test]
fn ten_thousand_sessions_are_listed_without_rendering_or_much_memory() {
    let folder = tempfile::tempdir().unwrap();
    for project in 0..20 {
        let path = folder
            .path()
            .join(format!("projects/-home-user-p{project}"));
        fs::create_dir_all(&path).unwrap();
        for i in (project..MANY).step_by(20) {
            let line = with_directory(
                &prompt("u1", (i % 60) as u32, &format!("Task number {i}")),
                &format!("/home/user/p{project}"),
            );
            fs::write(
                path.join(format!("{i:08x}-0000-4000-8000-{i:012x}.jsonl")),
                line + "\n",
            )
            .unwrap();
        }
    }
    let before = memory();
    let source = Source::recognise(&folder.path().join("projects")).unwrap();
    let store = Store::new(vec![source]).recheck_after(Duration::from_secs(1));
    let tree = Tree::new(Arc::new(store), Options::default());
    let names = |path: &str| tree.list(&place(path)).unwrap();
    assert_eq!(names("sessions").len(), MANY);
    assert_eq!(names("by-date/2026-11-30").len(), MANY);
    assert_eq!(names("by-project").len(), 20);
    let table = read(&*open(&tree, &place("sessions.tsv")).unwrap().1);
    assert_eq!(memchr::memchr_iter(b'\n', &table).count(), MANY + 1);
    for entry in names("by-date/2026-11-30") {
        let link = place("by-date/2026-11-30").join(&entry.name);
        assert_eq!(tree.attributes(&link).unwrap().kind, NodeKind::Link);
    }
    assert_eq!(tree.renderings(), 0);
    let used = memory().saturating_sub(before);
    assert!(used < 100 << 20, "{used} bytes for the lists");
}

/// Resident bytes of this process.
fn memory() -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

#[test]
fn what_sessions_say_of_themselves_makes_safe_names_only() {
    let world = World::new();
    let long = "x".repeat(5000);
    let directories = [
        r"/a/\u202e\u0000b",
        "/",
        "..",
        r"C:\\work\\..",
        "/a/-rf",
        &long,
        r"/a/~0000",
        "",
    ];
    for (i, directory) in directories.into_iter().enumerate() {
        let said = with_directory(
            &prompt("u1", i as u32, &format!("../../{long} \\u001b[2J/x")),
            directory,
        );
        world.write(
            &format!("{i:08x}-0000-4000-8000-000000000000.jsonl"),
            &(said + "\n"),
        );
    }
    let old = prompt("u1", 0, "Old").replace("2026-11-30", "-000044-03-15");
    world.write(&format!("{S}.jsonl"), &(old + "\n"));
    for top in ["by-date", "by-project"] {
        let found = links(&world, top);
        assert!(found.len() > directories.len(), "{found:?}");
        for part in found.iter().flat_map(|(path, _)| path.split('/')) {
            assert!(
                part.len() <= 255 && part != "." && part != ".." && !part.starts_with('-'),
                "{part}"
            );
            assert!(
                !part.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{part}"
            );
        }
    }
    let text = world.text("sessions.tsv");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}') && !text.contains('\0'));
    assert!(rows(&world).iter().all(|row| row.len() == 8));
}

#[test]
fn listings_number_a_table_as_its_status_does() {
    let world = World::new();
    world.session(S);
    world.write("agent-lost.jsonl", "{\"type\":\"user\"}\n");
    for name in ["sessions.tsv", "problems.tsv", "README.md"] {
        let attributes = world.attributes(name);
        assert_eq!(
            world.tree.version(&place(name)),
            Some(attributes.version),
            "{name}"
        );
    }
}
