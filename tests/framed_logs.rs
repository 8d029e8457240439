//! A framed log is a session (`spec/mount-tree.md`, `spec/turns.md`): found, listed, rendered, and never changed.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::Home;
use serde_json::{Value, json};
use sessionfs::session::{self, Session};
use sessionfs::session_log::{Role, SessionLogStore, State};
use sessionfs::store::{Source, Store};
use sessionfs::telemetry;
use sessionfs::transcript::TurnKind;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn store(sources: &[&Path]) -> Store {
    let sources = sources.iter().map(|path| Source::recognise(path).unwrap());
    Store::new(sources.collect()).recheck_after(Duration::ZERO)
}

fn ids(store: &Store) -> Vec<String> {
    store.index().ids().map(str::to_owned).collect()
}

/// The base names of what belongs to no session, and why.
fn problems(store: &Store) -> Vec<(String, String)> {
    let problems = store.problems().into_iter();
    let row = |problem: sessionfs::store::Problem| {
        let name = problem.path.file_name().unwrap().to_str().unwrap();
        (name.to_owned(), problem.why)
    };
    problems.map(row).collect()
}

fn open(directory: &Path, id: &str) -> Session {
    session::open(&store(&[directory]).files(id).unwrap())
}

fn telemetry_of(session: &Session) -> Value {
    let shown = sessionfs::transcript::display::Shown::default();
    let value = serde_json::from_slice(&telemetry::whole(session, &shown)).unwrap();
    let schema: Value = serde_json::from_str(&telemetry::schema()).unwrap();
    jsonschema::validate(&schema, &value).unwrap();
    value
}

/// A log with an event of every role; the last two have an object.
fn every_role(directory: &Path) -> sessionfs::session_log::SessionLog {
    let mut log = SessionLogStore::new(directory)
        .create("a", "2026-11-30T20:40:29.123Z")
        .unwrap();
    for role in Role::ALL
        .into_iter()
        .filter(|role| *role != Role::PendingObject)
    {
        log.append(role, &format!("text \"of\"\n{}", role.name()))
            .unwrap();
    }
    log.attach("see", "notes.txt", "text/plain", b"some notes\n")
        .unwrap();
    log.attach("see", "p.png", "image/png", b"\x89PNG\0")
        .unwrap();
    log
}

#[test]
fn each_event_is_a_turn_of_its_roles_kind() {
    let dir = tempfile::tempdir().unwrap();
    drop(every_role(dir.path()));
    let session = open(dir.path(), "a");
    let kinds: Vec<TurnKind> = session.threads[0].turns.iter().map(|t| t.kind).collect();
    let expected = [
        TurnKind::Injected,
        TurnKind::Error,
        TurnKind::User,
        TurnKind::Assistant,
        TurnKind::Assistant,
        TurnKind::ToolResult,
        TurnKind::ToolResult,
        TurnKind::Object,
        TurnKind::Object,
        TurnKind::Object,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(session.title.as_deref(), Some("text \"of\""));
    assert_eq!(
        session.span.started.unwrap().to_string(),
        "2026-11-30T20:40:29.123Z"
    );
    let full = sessionfs::artefact::whole(&session, sessionfs::artefact::Style::Full);
    let full = full.to_vec();
    let full = String::from_utf8(full).unwrap();
    for role in Role::ALL
        .into_iter()
        .filter(|role| *role != Role::PendingObject)
    {
        assert!(
            full.contains(&format!("\ntext \"of\"\n{}\n", role.name())),
            "{full}"
        );
    }
    assert!(
        full.contains("Object `notes.txt`, media type `text/plain`, 11 bytes"),
        "{full}"
    );

    let telemetry = telemetry_of(&session);
    let bytes = fs::metadata(dir.path().join("a.session-log"))
        .unwrap()
        .len();
    assert_eq!(
        telemetry["log"],
        json!({"state": "open", "events": 10, "objects": 2, "bytes": bytes, "problem": null})
    );
    assert_eq!(telemetry["turns"]["user"], 1);
    assert_eq!(telemetry["turns"]["tool_result"], 2);
    assert_eq!(telemetry["tokens"]["total"], 0);
    assert_eq!(telemetry["span"]["ended"], Value::Null);
}

#[test]
fn an_event_written_another_way_is_read_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    drop(SessionLogStore::new(dir.path()).create("a", "now").unwrap());
    let payloads = [
        r#"{"text" : "one\u0021", "x": {"text": "no"}, "role":"user-message"}"#,
        r#"{"role":"user-message","te\u0078t":"two"}"#,
        r#"["user-message","three"]"#,
    ];
    let path = dir.path().join("a.session-log");
    let mut log = fs::read(&path).unwrap();
    for payload in payloads {
        log.push(2);
        log.extend((payload.len() as u64).to_le_bytes());
        log.extend(<sha2::Sha256 as sha2::Digest>::digest(payload));
        log.extend(payload.bytes());
    }
    fs::write(&path, log).unwrap();
    let session = open(dir.path(), "a");
    let lines = sessionfs::turns::lines(&session, 0).into_iter();
    let lines: Vec<u8> = lines.flat_map(|part| part.to_vec()).collect();
    let texts: Vec<String> = String::from_utf8(lines)
        .unwrap()
        .lines()
        .map(|line| {
            let turn: Value = serde_json::from_str(line).unwrap();
            turn["blocks"][0]["text"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(texts, ["one!", "two", "three"]);
}

#[test]
fn an_id_that_a_transcript_has_too_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let [projects, logs, more] = ["projects", "logs", "more"].map(|name| dir.path().join(name));
    fs::create_dir_all(projects.join("-p")).unwrap();
    let line =
        r#"{"type":"user","uuid":"u","sessionId":"a","message":{"role":"user","content":"x"}}"#;
    fs::write(projects.join("-p/a.jsonl"), format!("{line}\n")).unwrap();
    drop(every_role(&logs));
    SessionLogStore::new(&logs).create("b", "now").unwrap();
    // In whatever order they are given.
    for sources in [[&*projects, &*logs], [&*logs, &*projects]] {
        assert_eq!(ids(&store(&sources)), ["a", "a~log", "b"]);
    }
    let all = store(&[&logs, &projects]);
    assert!(session::open(&all.files("a~log").unwrap()).log.is_some());
    assert!(session::open(&all.files("a").unwrap()).log.is_none());
    assert!(all.files("b").is_some() && all.files("b~log").is_none());

    // Another directory: the same log once, another one of the same ID under the next name.
    fs::create_dir(&more).unwrap();
    fs::copy(logs.join("b.session-log"), more.join("b.session-log")).unwrap();
    assert_eq!(ids(&store(&[&logs, &more, &logs])), ["a", "b"]);
    fs::remove_file(more.join("b.session-log")).unwrap();
    let mut other = SessionLogStore::new(&more).create("b", "later").unwrap();
    assert_eq!(ids(&store(&[&logs, &more])), ["a", "b", "b~2"]);
    other.append(Role::UserMessage, "x").unwrap();
    let second = session::open(&store(&[&logs, &more]).files("b~2").unwrap());
    assert_eq!(second.log.unwrap().events, 1);
}

#[test]
fn a_damaged_log_shows_its_verified_beginning_and_where_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let log = every_role(dir.path());
    let path = log.path().to_path_buf();
    let last = log.events().count();
    assert_eq!(last, 10);
    let mut bytes = fs::read(&path).unwrap();
    let damaged = bytes.len() - 1;
    bytes[damaged] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let session = open(dir.path(), "a");
    assert_eq!(session.threads[0].turns.len(), 9);
    let telemetry = telemetry_of(&session);
    assert_eq!(telemetry["log"]["state"], "corrupt");
    assert_eq!(telemetry["log"]["events"], 9);
    let offset = telemetry["log"]["problem"]["offset"].as_u64().unwrap() as usize;
    assert_eq!(bytes[offset], 2, "a frame begins there");
    assert_eq!(
        telemetry["completeness"]["log_problem"],
        telemetry["log"]["problem"]
    );
    assert_eq!(telemetry["completeness"]["complete"], false);

    for nonsense in [
        &b""[..],
        b"KSESS",
        b"KSESSIONLOG\n",
        b"something else entirely",
    ] {
        fs::write(&path, nonsense).unwrap();
        let session = open(dir.path(), "a");
        assert_eq!(session.log.as_ref().unwrap().state, State::Corrupt);
        assert!(session.threads[0].turns.is_empty());
        telemetry_of(&session);
    }
}

#[test]
fn an_unfinished_frame_is_counted_and_the_next_event_shows() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = every_role(dir.path());
    let store = store(&[dir.path()]);
    let whole = fs::read(log.path()).unwrap();
    fs::write(log.path(), [&whole[..], &[2, 7, 0]].concat()).unwrap();
    let session = session::open(&store.files("a").unwrap());
    let telemetry = telemetry_of(&session);
    assert_eq!(telemetry["log"]["state"], "in progress");
    assert_eq!(telemetry["completeness"]["incomplete_tail_bytes"], 3);
    log.append(Role::UserMessage, "more").unwrap();
    let session = session::open(&store.files("a").unwrap());
    assert_eq!(session.threads[0].turns.len(), 11);
    log.seal().unwrap();
    let session = session::open(&store.files("a").unwrap());
    assert_eq!(session.log.unwrap().state, State::Sealed);
    log.delete().unwrap();
    assert!(store.files("a").is_none());
    assert!(ids(&store).is_empty());
}

#[test]
fn objects_are_verified_and_lie_under_their_own_names() {
    let home = Home::new();
    drop(every_role(&home.path("logs")));
    home.output(["export", "a", "--source", "logs", "-o", "out"]);
    let objects = home.path("out/sessions/a/objects");
    let mut names: Vec<String> = fs::read_dir(&objects)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names[0].starts_with("notes.txt-") && names[0].len() == "notes.txt-".len() + 16);
    assert!(names[1].starts_with("p.png-"), "{names:?}");
    assert_eq!(names.len(), 2);
    assert_eq!(fs::read(objects.join(&names[0])).unwrap(), b"some notes\n");

    let damaged = home.path("logs/a-8.pending-object");
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    fs::remove_file(home.path("logs/a-9.pending-object")).unwrap();
    fs::write(home.path("logs/a-3.pending-object"), "of no event").unwrap();
    let session = open(&home.path("logs"), "a");
    assert!(session.stored.is_empty());
    assert_eq!(session.threads[0].turns.len(), 10, "the events are there");
    // Each turn whose object is not here says so itself.
    let text = home.output(["cat", "a/artefact.md", "--source", "logs"]);
    let turn = |number: usize| {
        let from = text.find(&format!("\n### Turn {number} ")).unwrap();
        let rest = &text[from + 1..];
        &rest[..rest.find("\n#").unwrap_or(rest.len())]
    };
    assert!(
        turn(9).contains("Object `a-8.pending-object`, not shown: `"),
        "{}",
        turn(9)
    );
    assert!(
        turn(10).contains("Object `a-9.pending-object`, not shown: `is missing`"),
        "{}",
        turn(10)
    );
    let turns = home.output(["cat", "a/turns.ndjson", "--source", "logs"]);
    let last: Value = serde_json::from_str(turns.lines().last().unwrap()).unwrap();
    assert_eq!(
        last["blocks"][1],
        json!({"type": "pending_object", "media_type": null, "bytes": null, "sha256": null, "object": null,
            "file": "a-9.pending-object", "problem": "is missing"})
    );
    let telemetry = telemetry_of(&session);
    assert_eq!(telemetry["log"]["state"], "corrupt");
    let reason = telemetry["log"]["problem"]["reason"].as_str().unwrap();
    assert_eq!(
        reason,
        "the object a-8.pending-object does not match its checksum"
    );
    let unused = &telemetry["completeness"]["sources_unused"];
    let unused: Vec<&str> = unused
        .as_array()
        .unwrap()
        .iter()
        .map(|unused| unused["source"].as_str().unwrap())
        .collect();
    let expected = [
        "a-8.pending-object",
        "a-9.pending-object",
        "a-3.pending-object",
    ];
    assert_eq!(unused, expected);
}

#[test]
fn no_reading_command_changes_a_log() {
    let home = Home::new();
    let logs = home.path("logs");
    drop(every_role(&logs));
    let whole = fs::read(logs.join("a.session-log")).unwrap();
    fs::write(
        logs.join("a.session-log"),
        [&whole[..], b"\x02\x09"].concat(),
    )
    .unwrap();
    fs::write(logs.join("a-77.pending-object"), "orphan").unwrap();
    fs::write(logs.join("a-78.pending-object.tmp"), "unfinished").unwrap();
    let state = || {
        let entries = fs::read_dir(&logs).unwrap().map(Result::unwrap);
        let mut state: Vec<_> = entries
            .map(|entry| {
                let modified = entry.metadata().unwrap().modified().unwrap();
                (entry.file_name(), fs::read(entry.path()).unwrap(), modified)
            })
            .collect();
        state.sort();
        state
    };
    let before = state();
    let listed: Value =
        serde_json::from_str(&home.output(["list", "--json", "--source", "logs"])).unwrap();
    assert_eq!(listed[0]["id"], "a");
    assert_eq!(listed[0]["started"], "2026-11-30T20:40:29.123Z");
    assert_eq!(listed[0]["title"], "text \"of\"");
    home.output(["cat", "a/artefact.md", "--logs", "logs"]);
    fs::create_dir(home.path("out")).unwrap();
    home.output(["reconstruct", "a", "--source", "logs", "-o", "out"]);
    home.output(["export", "--source", "logs", "-o", "tree"]);
    home.output(["verify", "logs"]);
    home.output(["log", "show", "logs", "a"]);
    assert!(
        home.path("tree/by-date/2026-11-30/20.40-text-of-a")
            .is_symlink()
    );
    let projects = fs::read_dir(home.path("tree/by-project"));
    assert_eq!(
        projects.map_or(0, Iterator::count),
        0,
        "a log tells no project"
    );
    {
        let mounted = home.mount(&[&logs], "mnt");
        let artefact = mounted.path("sessions/a/artefact.md");
        let exported = fs::read(home.path("tree/sessions/a/artefact.md")).unwrap();
        assert_eq!(fs::read(artefact).unwrap(), exported);
        let stored = mounted.path("sessions/a/source/a.session-log");
        assert_eq!(fs::read(stored).unwrap().len(), whole.len() + 2);
    }
    assert_eq!(state(), before);
}

#[test]
fn a_folder_can_be_said_to_hold_logs() {
    let home = Home::new();
    let mixed = home.path("mixed");
    drop(every_role(&mixed));
    fs::write(
        mixed.join("t.jsonl"),
        "{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"t\"}\n",
    )
    .unwrap();
    let ids = |args: &[&str]| -> Vec<String> {
        let args = ["list", "--json"].into_iter().chain(args.iter().copied());
        let rows: Value = serde_json::from_str(&home.output(args)).unwrap();
        let mut ids: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&["--source", "mixed"]), ["t"]);
    assert_eq!(ids(&["--logs", "mixed"]), ["a"]);
    assert_eq!(
        ids(&["--transcripts", "mixed", "--logs", "mixed"]),
        ["a", "t"]
    );
    let missing = home.failure(1, ["list", "--logs", "nowhere"]);
    assert!(missing.contains("no such directory"), "{missing}");
}

#[test]
fn a_link_out_of_the_source_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let elsewhere = dir.path().join("elsewhere");
    drop(every_role(&elsewhere));
    fs::create_dir(&logs).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("a.session-log"), logs.join("a.session-log"))
        .unwrap();
    SessionLogStore::new(&logs).create("b", "now").unwrap();
    let store = store(&[&logs]);
    assert_eq!(ids(&store), ["b"]);
    assert_eq!(
        problems(&store),
        [(
            "a.session-log".to_owned(),
            "a symbolic link that leads out of the source".to_owned()
        )]
    );
    // One that stays inside is another name of a log, whose header then says another ID.
    std::os::unix::fs::symlink("b.session-log", logs.join("c.session-log")).unwrap();
    assert_eq!(ids(&store), ["b", "c"]);
    fs::remove_file(logs.join("b.session-log")).unwrap();
    assert!(ids(&store).is_empty());
    assert_eq!(problems(&store)[1].1, "a symbolic link that leads nowhere");
}

#[test]
fn what_only_looks_like_a_part_of_a_log_is_a_problem_and_no_session() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path();
    drop(every_role(logs));
    let fifo = logs.join("fifo.session-log");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(logs.join("folder.session-log")).unwrap();
    for name in [
        "not an id.session-log",
        "gone-0.pending-object",
        "gone-1.pending-object.tmp",
        "a-01.pending-object",
        "notes.txt",
    ] {
        fs::write(logs.join(name), "x").unwrap();
    }
    let store = store(&[logs]);
    assert_eq!(ids(&store), ["a"]);
    let expected = [
        (
            "a-01.pending-object",
            "an object whose name gives no session and position",
        ),
        ("fifo.session-log", "a FIFO, which is never opened"),
        ("folder.session-log", "a directory, no log"),
        (
            "gone-0.pending-object",
            "an object without its log, gone.session-log",
        ),
        (
            "gone-1.pending-object.tmp",
            "an object without its log, gone.session-log",
        ),
        (
            "not an id.session-log",
            "what its name gives as an ID is none: it holds something other than ASCII letters, digits, `-` and `_`",
        ),
    ];
    let expected = expected.map(|(name, why)| (name.to_owned(), why.to_owned()));
    assert_eq!(problems(&store), expected);
    // They are known to be nothing that is shown, and cost no session.
    assert!(store.problems().iter().all(|problem| !problem.failed));
    let home = Home::new();
    let source = logs.to_str().unwrap();
    home.output(["export", "--source", source, "-o", "out"]);
    let table = fs::read_to_string(home.path("out/problems.tsv")).unwrap();
    assert_eq!(table.lines().count(), 7, "{table}");
    fs::remove_file(&fifo).unwrap();
    SessionLogStore::new(logs).create("fifo", "now").unwrap();
    SessionLogStore::new(logs).create("gone", "now").unwrap();
    assert_eq!(ids(&store), ["a", "fifo", "gone"]);
    assert_eq!(problems(&store).len(), 3);
}

#[test]
fn an_id_that_begins_with_a_dash_is_no_option_where_it_is_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = SessionLogStore::new(dir.path())
        .create("-rf", "now")
        .unwrap();
    log.append(Role::UserMessage, "hello").unwrap();
    let store = store(&[dir.path()]);
    assert_eq!(ids(&store), ["%2Drf"]);
    let session = session::open(&store.files("%2Drf").unwrap());
    assert_eq!(session.log.unwrap().events, 1);
}
