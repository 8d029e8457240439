//! `sessionfs log` and `sessionfs verify`, as a person or a script runs them (`spec/commands.md`).

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Home, program};
use serde_json::{Value, json};
use sessionfs::session_log::{Role, SessionLogStore};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn show(home: &Home, id: &str) -> Value {
    let shown = shown_of(home, &["log", "show", "logs", id, "--json"]);
    serde_json::from_str(&shown).unwrap()
}

/// What is printed of a log, whole or not.
fn shown_of(home: &Home, args: &[&str]) -> String {
    let output = home.sessionfs(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A home with a log of two events and an object.
fn with_log() -> Home {
    let home = Home::new();
    let mut log = SessionLogStore::new(home.path("logs"))
        .create("a", "now")
        .unwrap();
    log.append(Role::UserMessage, "hello").unwrap();
    log.attach("see", "n.txt", "text/plain", b"bytes").unwrap();
    home
}

#[test]
fn a_log_lives_from_create_to_delete() {
    let home = Home::new();
    let log = |verb: &str, rest: &[&str]| {
        let args = ["log", verb, "logs", "a"]
            .into_iter()
            .chain(rest.iter().copied());
        home.output(args)
    };
    assert_eq!(log("create", &["--created-at", " once "]), "");
    assert_eq!(log("append", &["user-message", "hello"]), "0\n");
    let mut append = home.sessionfs(["log", "append", "logs", "a", "kennedy-message", "-"]);
    append
        .write_stdin("line\n")
        .assert()
        .success()
        .stdout("1\n");
    let mut append = home.sessionfs(["log", "append", "logs", "a", "tool-error"]);
    append.write_stdin("").assert().success().stdout("2\n");
    fs::write(home.path("plan.txt"), "plan").unwrap();
    assert_eq!(
        log("attach", &["plan.txt", "--media-type", "text/plain"]),
        "3\n"
    );
    let named = [
        "plan.txt",
        "--media-type",
        "a/b",
        "--file-name",
        "other",
        "--text",
        "see",
    ];
    assert_eq!(log("attach", &named), "4\n");
    let expected = json!({
        "header": {"formatVersion": "0.2.1", "sessionId": "a", "createdAt": " once "},
        "state": "open",
        "events": [
            {"role": "user-message", "text": "hello"},
            {"role": "kennedy-message", "text": "line\n"},
            {"role": "tool-error", "text": ""},
            {"role": "pending-object", "text": "plan.txt"},
            {"role": "pending-object", "text": "see"},
        ],
        "objects": [
            {"position": 3, "fileName": "plan.txt", "mediaType": "text/plain", "length": 4},
            {"position": 4, "fileName": "other", "mediaType": "a/b", "length": 4},
        ],
        "problem": null,
    });
    assert_eq!(show(&home, "a"), expected);
    assert!(log("recover", &[]).starts_with("nothing to mend\n"));
    log("seal", &[]);
    log("seal", &[]);
    assert_eq!(show(&home, "a")["state"], "sealed");
    let late = home.failure(1, ["log", "append", "logs", "a", "user-message", "late"]);
    assert!(late.contains("sealed"), "{late}");
    assert!(log("verify", &[]).contains("5 event(s), 2 object(s)"));
    log("delete", &[]);
    assert!(files(&home.path("logs")).is_empty());
    let gone = home.failure(1, ["log", "show", "logs", "a"]);
    assert!(
        gone.contains("a.session-log: there is no such session log"),
        "{gone}"
    );
}

#[test]
fn a_log_is_created_with_the_time_of_now() {
    let home = Home::new();
    home.output(["log", "create", "logs", "a"]);
    let shown = show(&home, "a");
    let created = shown["header"]["createdAt"].as_str().unwrap();
    let created: jiff::Timestamp = created.parse().unwrap();
    let age = jiff::Timestamp::now().duration_since(created);
    assert!(age.abs() < jiff::SignedDuration::from_mins(5));
    let again = home.failure(1, ["log", "create", "logs", "a"]);
    assert!(again.contains("never overwrites"), "{again}");
}

#[test]
fn showing_writes_nothing_and_says_what_the_log_is_like() {
    let home = with_log();
    let path = home.path("logs/a.session-log");
    let whole = fs::read(&path).unwrap();
    let torn = [&whole[..], b"\x02\x99"].concat();
    let mut damaged = whole.clone();
    // Inside the payload of the first event, whose frame stands behind the header's.
    let frame = 12 + 41 + usize::from(whole[13]);
    damaged[frame + 50] ^= 1;
    for (bytes, state, events, problem) in [
        (&whole, "open", 2, Value::Null),
        (&torn, "in progress", 2, Value::Null),
        (&damaged, "corrupt", 0, json!(frame)),
    ] {
        fs::write(&path, bytes).unwrap();
        fs::write(home.path("logs/a-9.pending-object.tmp"), "unfinished").unwrap();
        let before = files(&home.path("logs"));
        let shown = show(&home, "a");
        assert_eq!(shown["state"], state);
        assert_eq!(shown["events"].as_array().unwrap().len(), events);
        assert_eq!(
            shown["problem"].get("offset").cloned().unwrap_or_default(),
            problem
        );
        let text = shown_of(&home, &["log", "show", "logs", "a"]);
        assert!(text.contains(state), "{text}");
        // Only a log with something wrong fails; one that is being written has nothing wrong.
        for args in [
            &["log", "show", "logs", "a"][..],
            &["log", "show", "logs", "a", "--json"],
        ] {
            let assert = home
                .sessionfs(args)
                .assert()
                .code(i32::from(state == "corrupt"));
            let said = String::from_utf8_lossy(&assert.get_output().stderr);
            let damaged = said.contains(&format!("a is damaged at byte {frame}: "));
            assert_eq!(damaged, state == "corrupt", "{said}");
        }
        assert_eq!(files(&home.path("logs")), before);
    }
    fs::write(&path, &whole).unwrap();
    fs::remove_file(home.path("logs/a-1.pending-object")).unwrap();
    let shown = show(&home, "a");
    assert_eq!(
        (&shown["state"], &shown["objects"]),
        (&json!("corrupt"), &json!([]))
    );
    let reason = shown["problem"]["reason"].as_str().unwrap();
    assert_eq!(reason, "the object a-1.pending-object is missing");
}

#[test]
fn what_is_shown_cannot_steer_the_terminal() {
    let home = with_log();
    let mut log = SessionLogStore::new(home.path("logs")).open("a").unwrap();
    log.append(Role::UserMessage, "\u{1b}[31m\n3 user-message\u{202e}")
        .unwrap();
    log.attach("x", "\u{1b}]0;x\n", "\u{7}", b"").unwrap();
    let text = home.output(["log", "show", "logs", "a"]);
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text:?}");
    assert!(
        text.contains("  \\u{1B}[31m\n  3 user-message\\u{202E}\n"),
        "{text}"
    );
}

#[test]
fn recovering_says_what_it_did_and_fails_where_nothing_may_be_mended() {
    let home = with_log();
    let path = home.path("logs/a.session-log");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"\x02\x99"].concat()).unwrap();
    fs::write(home.path("logs/a-9.pending-object"), "orphan").unwrap();
    let said = home.output(["log", "recover", "logs", "a"]);
    assert!(
        said.contains("cut an incomplete last frame of 2 byte(s)"),
        "{said}"
    );
    assert!(said.contains("removed a-9.pending-object"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), whole);
    let mut damaged = whole;
    damaged[60] ^= 1;
    fs::write(&path, damaged).unwrap();
    let before = files(&home.path("logs"));
    let said = home.failure(1, ["log", "recover", "logs", "a"]);
    assert!(said.contains("damaged at byte 12"), "{said}");
    assert_eq!(files(&home.path("logs")), before);
    home.output(["log", "delete", "logs", "a"]);
}

#[test]
fn following_prints_what_is_appended_until_the_log_is_sealed() {
    let home = with_log();
    let mut log = SessionLogStore::new(home.path("logs")).open("a").unwrap();
    let mut child = Command::new(program())
        .args(["log", "show", "--follow", "--json", "logs", "a"])
        .current_dir(home.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        next(),
        json!({"position": 0, "role": "user-message", "text": "hello"})
    );
    assert_eq!(next()["position"], 1);
    log.append(Role::ToolResult, "more").unwrap();
    assert_eq!(
        next(),
        json!({"position": 2, "role": "tool-result", "text": "more"})
    );
    log.seal().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.next().is_none());
}

#[test]
fn following_ends_quietly_when_nobody_reads_any_more() {
    let home = with_log();
    let mut child = Command::new(program())
        .args(["log", "show", "--follow", "logs", "a"])
        .current_dir(home.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn following_fails_when_the_log_is_deleted() {
    let home = with_log();
    let mut child = Command::new(program())
        .args(["log", "show", "--follow", "--json", "logs", "a"])
        .current_dir(home.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    home.output(["log", "delete", "logs", "a"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("deleted or replaced"), "{said}");
}

#[test]
fn verifying_lists_every_fault_and_fails() {
    let home = with_log();
    let store = SessionLogStore::new(home.path("logs"));
    store
        .create("b", "now")
        .unwrap()
        .append(Role::UserMessage, "x")
        .unwrap();
    let healthy: Value = serde_json::from_str(&home.output(["verify", "logs", "--json"])).unwrap();
    assert_eq!(
        (&healthy["logs"], &healthy["events"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(healthy["faults"], json!([]));

    let path = home.path("logs/b.session-log");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::write(home.path("logs/a-1.pending-object"), "short").unwrap();
    store.create("c", "now").unwrap();
    let torn = fs::OpenOptions::new()
        .append(true)
        .open(home.path("logs/c.session-log"));
    std::io::Write::write_all(&mut torn.unwrap(), b"\x02").unwrap();
    let before = files(&home.path("logs"));
    for args in [
        vec!["verify", "logs", "--json"],
        vec!["log", "verify", "logs", "--json"],
    ] {
        let assert = home.sessionfs(args).assert().code(1);
        let output = assert.get_output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "error: 2 fault(s) found\n");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["faults"][0]["path"], "logs/a-1.pending-object");
        assert_eq!(found["faults"][1]["path"], "logs/b.session-log");
        assert_eq!(found["in_progress"][0]["bytes"], 1);
    }
    let assert = home.sessionfs(["verify", "logs"]).assert().code(1);
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("logs/b.session-log: byte "), "{text}");
    assert!(text.ends_with("2 fault(s)\n"), "{text}");
    home.output(["log", "verify", "logs", "c"]);
    assert_eq!(files(&home.path("logs")), before);
}

#[test]
fn wrong_use_is_told_from_failure() {
    let home = with_log();
    for args in [
        ["log", "append", "logs", "a", "assistant", "x"],
        ["log", "append", "logs", "a", "pending-object", "x"],
    ] {
        home.failure(2, args);
    }
    home.failure(2, ["log"]);
    let said = home.failure(1, ["log", "create", "logs", "../x"]);
    assert!(said.contains("no session ID"), "{said}");
    let long = "a".repeat(255);
    let said = home.failure(1, ["log", "create", "logs", &long]);
    assert!(said.contains("shorter session ID"), "{said}");
    let said = home.failure(1, ["log", "verify", "nowhere"]);
    assert!(said.contains("no such directory"), "{said}");
    let mut append = home.sessionfs(["log", "append", "logs", "a", "object", "-"]);
    append.write_stdin(b"\xff".as_slice()).assert().code(1);
    assert_eq!(files(&home.path("logs")).len(), 2);
}
