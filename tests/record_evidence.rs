//! How far the evidence of a record goes: who is named for a prompt, what a damaged entry makes of it, and what two records of one
//! session are.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "support/entries.rs"]
mod entries;

use common::lines::Lines;
use common::{Home, snapshot, write};
use entries::{ALONE, S, attributions, entry, received, start};
use serde_json::{Value, json};
use sessionfs::record::Entry;
use sessionfs::session;
use sessionfs::store::{Source, Store};
use sessionfs::transcript::text::Raw;
use std::path::Path;

const NOTHING: &str = "nothing recorded; this is no evidence that the person wrote it";
const DAMAGED: &str = "unknown; a damaged entry of the record might be this message";

fn transcript(home: &Home, id: &str, lines: &Lines) {
    let name = format!("store/-home-user-example/{id}.jsonl");
    write(&home.path(&name), lines.text());
}

/// What is said of the prompts of a session.
fn said_of(home: &Home, id: &str) -> Vec<String> {
    let file = format!("{id}/artefact.md");
    let document = home.output(["cat", &file, "--source", "store", "--record", "rec"]);
    attributions(&document)
        .iter()
        .map(|&line| line.to_owned())
        .collect()
}

#[test]
fn nobody_is_named_beyond_the_evidence() {
    let home = Home::new();
    let record = home.path("rec");
    let forked = "bbbbbbbb-0000-4000-8000-000000000002";
    let notice = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n<summary>go on</summary>\n</task-notification>";
    let lines = Lines::main(S)
        .prompt("start")
        .prompt("yes")
        .call("m1", "t1", "Agent", &json!({"prompt": "go on"}), 3)
        .result("t1", "go on")
        .prompt(notice)
        .prompt("go on");
    transcript(&home, S, &lines);
    entry(&record, S, "10:00:00.000", &start());
    // Two peers with one text.
    let mut other = received("yes", "queued");
    other["peer"]["as"] = json!("another");
    entry(&record, S, "10:00:00.500", &received("yes", "queued"));
    entry(&record, S, "10:00:00.600", &other);
    // What an agent is asked and answers, and the news of it, is no message between sessions.
    entry(&record, S, "10:00:04.500", &received("go on", "queued"));
    let said = said_of(&home, S);
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0], NOTHING);
    assert!(
        said[1].starts_with("ambiguous; candidates: entry "),
        "{said:?}"
    );
    assert!(said[1].contains("from `another`") && said[1].contains("from `uds:"));
    assert!(
        said[2].starts_with("peer, entry `2026-11-24T100004.500Z"),
        "{said:?}"
    );

    // Resumed under a new ID: the copied prompts are before its own start, the messages in another session's record.
    transcript(&home, forked, &lines);
    entry(&record, forked, "12:00:00.000", &start());
    let before = "unknown; this turn is before the session began to record";
    assert_eq!(said_of(&home, forked), [before; 3]);
    // Even where its own record holds the message, which it cannot have received then.
    entry(
        &record,
        forked,
        "10:00:04.500",
        &received("go on", "queued"),
    );
    let said = said_of(&home, forked);
    let named = format!(
        "{before}; candidate: entry `2026-11-24T100004.500Z-000001.json` from `uds:…/peer.sock`"
    );
    assert_eq!(said, [before, before, &named]);
}

#[test]
fn without_a_start_a_message_is_named_and_not_chosen() {
    let home = Home::new();
    transcript(&home, S, &Lines::main(S).prompt("go on").prompt("mine"));
    entry(
        &home.path("rec"),
        S,
        "10:00:00.500",
        &received("go on", "queued"),
    );
    let unknown = "unknown; the record holds no start of this session";
    let named = format!(
        "{unknown}; candidate: entry `2026-11-24T100000.500Z-000001.json` from `uds:…/peer.sock`"
    );
    assert_eq!(said_of(&home, S), [&named, unknown]);
}

#[test]
fn a_prompt_that_is_more_than_a_text_is_nobodys_message() {
    let home = Home::new();
    let text = json!({"type": "text", "text": "go on"});
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    for (n, (blocks, is)) in [
        (json!([text]), "peer, entry "),
        (
            json!([text, picture]),
            "unknown; this turn holds more than a message's text; candidate: entry ",
        ),
        (
            json!([text, {"type": "text", "text": "and more"}]),
            "unknown; this turn holds more than a message's text; candidate: entry ",
        ),
        (
            json!([{"type": "text", "text": "go"}, {"type": "text", "text": " on"}]),
            "unknown; this turn holds more than a message's text; candidate: entry ",
        ),
        (json!([picture]), NOTHING),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("aaaaaaaa-0000-4000-8000-00000000000{n}");
        transcript(
            &home,
            &id,
            &Lines::main(&id).prompt("first").prompt_of(&blocks),
        );
        entry(&home.path("rec"), &id, "10:00:00.000", &start());
        entry(
            &home.path("rec"),
            &id,
            "10:00:00.500",
            &received("go on", "queued"),
        );
        // A picture alone is no empty message.
        entry(
            &home.path("rec"),
            &id,
            "10:00:00.600",
            &received("", "queued"),
        );
        let said = said_of(&home, &id);
        assert!(said[1].starts_with(is), "{blocks}: {said:?}");
    }
}

#[test]
fn a_refusal_stands_in_the_senders_record_alone() {
    let home = Home::new();
    for event in [
        json!({"sessionId": S, "peer": {"as": "docs", "sessionId": ALONE}, "text": "may I?", "isQueued": false, "reason": "not accepting"}),
        json!({"sessionId": S, "peer": {"as": "docs", "sessionId": ALONE}, "text": "and now?", "isQueued": true}),
    ] {
        home.sessionfs(["record", "sent", "--record-dir", "rec"])
            .write_stdin(event.to_string())
            .assert()
            .success();
    }
    assert!(!home.path("rec").join(ALONE).exists());
    let mount = home.mount(&[&home.path("rec")], "mnt");
    assert!(!mount.path("sessions").join(ALONE).exists());
    let shown = mount.path("sessions").join(S);
    let telemetry = std::fs::read(shown.join("telemetry.json")).unwrap();
    let telemetry: Value = serde_json::from_slice(&telemetry).unwrap();
    let counts = ["sent", "not_queued", "received"].map(|key| telemetry["messages"][key].as_u64());
    assert_eq!(counts, [Some(2), Some(1), Some(0)]);
    let readable = std::fs::read_to_string(shown.join("messages.md")).unwrap();
    assert!(
        readable.contains(": not queued, to `docs`; reason: `not accepting`"),
        "{readable}"
    );
    // What is said of the queued one, in all that is shown, is that it is queued; the rules of the documents deny the rest.
    let denials = [
        "Nothing here says of a message that it was read, acted on or answered.",
        "A received entry does not show that the message reached the model.",
    ];
    for file in [
        "messages.md",
        "artefact.md",
        "artefact.full.md",
        "artefact.spine.md",
    ] {
        let mut text = std::fs::read_to_string(shown.join(file)).unwrap();
        for denial in denials {
            assert!(text.contains(denial), "{file}");
            text = text.replace(denial, "");
        }
        let (_, said) = text.rsplit_once("# What this record cannot say\n").unwrap();
        for word in [
            "read",
            "answered",
            "acted on",
            "delivered",
            "acknowledged",
            "reached",
            "seen",
        ] {
            let mut words = said.split(|c: char| !c.is_alphabetic());
            assert!(!words.any(|said| said == word), "{file}: {word}");
        }
    }
}

/// Puts something that is no file under this name.
fn put(kind: &str, path: &Path) {
    match kind {
        "link" => std::os::unix::fs::symlink("elsewhere", path).unwrap(),
        "folder" => std::fs::create_dir(path).unwrap(),
        "FIFO" => nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "nothing" => {}
        "half" => std::fs::write(path, "{\"kind\":\"mess").unwrap(),
        "foreign" => {
            let text =
                json!({"kind": "start", "sessionId": "other", "at": "2026-11-24T10:00:03.500Z"});
            std::fs::write(path, text.to_string()).unwrap();
        }
        "copy" => {
            let text = std::fs::read(path.with_file_name("2026-11-24T100000.000Z-000001.json"));
            std::fs::write(path, text.unwrap()).unwrap();
        }
        _ => panic!("{kind}"),
    }
}

#[test]
fn whatever_stands_under_an_entrys_name_and_is_none_is_unknown_evidence() {
    for kind in [
        "link", "folder", "FIFO", "half", "foreign", "copy", "nothing",
    ] {
        let home = Home::new();
        let record = home.path("rec");
        transcript(
            &home,
            S,
            &Lines::main(S)
                .prompt("early")
                .prompt("mine")
                .prompt("later"),
        );
        entry(&record, S, "10:00:00.000", &start());
        // Nothing but what it is called tells when it would have been written.
        put(
            kind,
            &record.join(S).join("2026-11-24T100003.500Z-000001.json"),
        );
        let expected = match kind {
            "nothing" => [NOTHING; 3],
            _ => [NOTHING, NOTHING, DAMAGED],
        };
        assert_eq!(said_of(&home, S), expected, "{kind}");
        let sources = ["--source", "store", "--record", "rec"];
        let cat =
            |file: &str| home.output([&["cat", &format!("{S}/{file}")], &sources[..]].concat());
        let damaged = u64::from(kind != "nothing");
        let telemetry: Value = serde_json::from_str(&cat("telemetry.json")).unwrap();
        assert_eq!(telemetry["messages"]["damaged"], damaged, "{kind}");
        assert_eq!(telemetry["completeness"]["record_entries_damaged"], damaged);
        assert_eq!(telemetry["completeness"]["complete"], kind == "nothing");
        let listed = cat("messages.md")
            .contains("- `2026-11-24T100003.500Z-000001.json`, time in its name: ");
        assert_eq!(listed, kind != "nothing", "{kind}");
        // The check finds what the reader finds.
        let verify = home
            .sessionfs(["verify", "--json", "--record", "rec"])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&verify.stdout).unwrap();
        assert_eq!(
            report["faults"].as_array().unwrap().len() as u64,
            damaged,
            "{kind}: {report}"
        );
    }
}

#[test]
fn two_records_of_one_session_are_one_only_if_they_say_the_same() {
    let home = Home::new();
    let ids = |sources: &[&str]| {
        let sources = sources
            .iter()
            .map(|name| Source::record(&home.path(name)).unwrap());
        let store = Store::new(sources.collect());
        let ids: Vec<String> = store.index().ids().map(str::to_owned).collect();
        let files = ids.iter().map(|id| store.files(id).unwrap());
        let texts = files.map(|files| {
            let session = session::open(&files);
            assert!(
                session.entries.damaged.is_empty(),
                "{:?}",
                session.entries.damaged
            );
            assert_eq!(session.harness, "unknown");
            let texts = session.entries.list.iter().filter_map(Entry::text);
            texts.map(Raw::to_text).collect::<Vec<_>>().join(" ")
        });
        ids.iter().cloned().zip(texts).collect::<Vec<_>>()
    };
    let says = |id: &str, texts: &str| (id.to_owned(), texts.to_owned());
    for name in ["one", "copy", "other"] {
        entry(&home.path(name), ALONE, "10:00:00.000", &start());
        entry(
            &home.path(name),
            ALONE,
            "10:00:01.000",
            &received("hello", "queued"),
        );
    }
    let second = format!("{ALONE}~2");
    assert_eq!(ids(&["one", "copy"]), [says(ALONE, "hello")]);
    // A copy that lags behind says nothing else; one that is ahead does.
    entry(
        &home.path("one"),
        ALONE,
        "10:00:02.000",
        &received("more", "queued"),
    );
    assert_eq!(ids(&["one", "copy"]), [says(ALONE, "hello more")]);
    assert_eq!(
        ids(&["copy", "one"]),
        [says(ALONE, "hello"), says(&second, "hello more")]
    );
    // The same names and sizes with other bytes.
    entry(
        &home.path("other"),
        ALONE,
        "10:00:01.000",
        &received("HELLO", "queued"),
    );
    assert_eq!(
        ids(&["one", "other", "copy"]),
        [says(ALONE, "hello more"), says(&second, "HELLO")]
    );
    assert_eq!(
        ids(&["other", "one"]),
        [says(ALONE, "HELLO"), says(&second, "hello more")]
    );
    // The first is the transcript's; the second tells of a session of its own.
    transcript(&home, ALONE, &Lines::main(ALONE).prompt("hi"));
    let list = [
        "list", "--json", "--source", "store", "--record", "one", "--record", "other",
    ];
    let rows: Vec<Value> = serde_json::from_str(&home.output(list)).unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row["id"].as_str(), row["record_entries"].as_u64()))
        .collect();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.contains(&(Some(ALONE), Some(3))) && rows.contains(&(Some(&second), Some(2))),
        "{rows:?}"
    );
}

#[test]
fn no_command_edits_or_deletes_an_entry() {
    let home = Home::new();
    let record = home.path("rec");
    transcript(&home, S, &Lines::main(S).prompt("go on"));
    entry(&record, S, "10:00:00.000", &start());
    entry(&record, S, "10:00:00.500", &received("go on", "queued"));
    put(
        "half",
        &record.join(S).join("2026-11-24T100003.500Z-000001.json"),
    );
    put(
        "link",
        &record.join(S).join("2026-11-24T100003.500Z-000002.json"),
    );
    write(&record.join("settings.json"), "{}");
    let before = snapshot(&record);
    let sources = ["--source", "store", "--record", "rec"];
    for command in [
        &["list"][..],
        &["list", "--json"],
        &["cat", "sessions.tsv"],
        &["cat", &format!("{S}/messages.md")],
        &["reconstruct", S, "-o", "out"],
        &["reconstruct", S, "-o", "rec"],
        &["export", S, "-o", "exported"],
        &["export", "-o", "rec/exported"],
        &["log", "list", "rec"],
        &["log", "recover", "rec", S],
        &["log", "delete", "rec", S],
        &["log", "create", "rec", "new"],
    ] {
        let takes_sources = command[0] != "log";
        let args = [command, if takes_sources { &sources[..] } else { &[] }].concat();
        let output = home.sessionfs(args).output().unwrap();
        assert!(output.status.code().is_some(), "{command:?}");
        // A log that was made there is no entry; it stands beside the sessions' folders.
        for (path, state) in &before {
            let now = snapshot(&record);
            let is_folder = state.starts_with("folder");
            assert!(
                is_folder || now.get(path) == Some(state),
                "{command:?}: {}",
                path.display()
            );
        }
    }
    let verify = home
        .sessionfs(["verify", "--record", "rec"])
        .output()
        .unwrap();
    assert_eq!(verify.status.code(), Some(1));
    home.sessionfs(["doctor"]).output().unwrap();
    drop(home.mount(&[&home.path("store"), &record], "mnt"));
    // Recording itself adds, under a name of its own, even at a time that is taken.
    let event =
        json!({"sessionId": S, "at": "2026-11-24T10:00:00.500Z", "text": "new", "isQueued": true});
    home.sessionfs(["record", "sent", "--record-dir", "rec"])
        .write_stdin(event.to_string())
        .assert()
        .success();
    let after = snapshot(&record);
    let changed = before
        .iter()
        .filter(|(path, state)| after.get(*path) != Some(*state));
    assert_eq!(changed.count(), 0);
    let new = after.keys().filter(|path| !before.contains_key(*path));
    let new: Vec<_> = new
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert!(
        new.contains(&"2026-11-24T100000.500Z-000002.json"),
        "{new:?}"
    );
}
