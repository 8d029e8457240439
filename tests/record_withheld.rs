//! Texts that are kept as their length and hash only: they are nowhere in the record, nor in what is made of it alone.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, snapshot};
use serde_json::{Value, json};
use sessionfs::record::{Digested, Entries};
use std::fmt::Write as _;
use std::path::Path;

const S: &str = "only-in-the-record";

/// Records this event in the mode and gives the entry.
fn record(home: &Home, verb: &str, mode: &str, mut event: Value) -> Value {
    event["sessionId"] = json!(S);
    let args = ["record", verb, "--text", mode, "--record-dir", "rec"];
    let assert = home
        .sessionfs(args)
        .write_stdin(event.to_string())
        .assert()
        .success();
    let path = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    serde_json::from_slice(&std::fs::read(home.path(path.trim_end())).unwrap()).unwrap()
}

/// Every character as JSON escapes it, without quotes.
fn escaped(text: &str) -> String {
    text.encode_utf16().fold(String::new(), |mut all, unit| {
        let _ = write!(all, "\\u{unit:04x}");
        all
    })
}

/// As JSON writes it, without quotes.
fn in_json(text: &str) -> String {
    let string = serde_json::to_string(text).unwrap();
    string[1..string.len() - 1].to_owned()
}

/// The text in each form that a host may quote it in.
fn quotations(text: &str) -> Vec<Value> {
    let twice = in_json(&in_json(text));
    let characters: Vec<String> = text.chars().map(String::from).collect();
    vec![
        json!(text),
        json!(format!("before{text}after")),
        json!(format!("before {text} after")),
        json!(format!("<m>\n{text}\n</m>")),
        json!(json!({ "text": text }).to_string()),
        json!(json!({ "body": json!({ "text": text }).to_string() }).to_string()),
        json!(format!("{{\"text\":\"{}\"}}", escaped(text))),
        json!(twice),
        json!({ "deep": [{ "er": text }] }),
        json!({ text: 1 }),
        json!(characters),
        json!(text.as_bytes()),
    ]
}

/// The files below a folder that hold one of these, or are named by one.
fn found(folder: &Path, needles: &[String]) -> Vec<String> {
    let mut command = std::process::Command::new("grep");
    command.args(["-rlaF"]);
    for needle in needles {
        command.arg("-e").arg(needle);
    }
    let output = command.arg(folder).output().unwrap();
    assert!(output.status.code() < Some(2), "{output:?}");
    let files = String::from_utf8_lossy(&output.stdout);
    let paths = common::tool("find", [folder]);
    let paths = String::from_utf8_lossy(&paths).into_owned();
    let holds = |name: &&str| needles.iter().any(|needle| name.contains(needle.as_str()));
    let named = paths.lines().filter(holds);
    files.lines().chain(named).map(str::to_owned).collect()
}

#[test]
fn a_text_kept_as_metadata_is_nowhere_in_the_record_or_a_mount_of_it() {
    let home = Home::new();
    let texts = [
        "drop the \"users\" table\n\tand C:\\temp \u{1f600} \u{1b}[0m",
        "zyxwv-marker",
        "qzx",
        "^",
        "\u{416}\u{416}",
        "zq\\\"",
        "q\u{e9}z\u{301}",
        "7160493",
        "uds:/run/zyxwv.sock",
    ];
    record(&home, "start", "metadata", json!({"cwd": "/home/user/x"}));
    let mut needles = Vec::new();
    for text in texts {
        needles.extend([text.to_owned(), in_json(text), escaped(text)]);
        needles.push(in_json(&in_json(text)));
        needles.extend(text.lines().map(|line| line.trim().to_owned()));
        for (n, quoted) in quotations(text).iter().enumerate() {
            let mut event = json!({"cwd": "/home/user/x", "text": text, "peer": {"as": quoted, "sessionId": quoted},
                "isQueued": false, "reason": quoted, "outcome": quoted, "new": quoted, "hop": n});
            event[text] = json!("x");
            let sent = record(&home, "sent", "metadata", event.clone());
            event["envelope"] = json!({"from": "docs", "copy": quoted, text: "x"});
            let received = record(&home, "received", "metadata", event.clone());
            event["envelope"] = quoted.clone();
            event["peer"] = quoted.clone();
            record(&home, "received", "metadata", event);
            for entry in [sent, received] {
                let digest = Digested::of(text.as_bytes());
                assert_eq!(entry["textLength"], digest.length);
                assert_eq!(entry["textSha256"], digest.hex());
                assert_eq!(entry["cwd"], "/home/user/x");
                assert!(entry.get("text").is_none());
                assert!(!entry["withheld"].as_array().unwrap().is_empty());
            }
        }
    }
    // Of a text of several lines each is looked for.
    needles.retain(|needle| !needle.contains('\n'));
    let before = snapshot(&home.path("rec"));
    let mount = home.mount(&[&home.path("rec")], "mnt");
    home.sessionfs(["export", "-o", "out", "--record", "rec"])
        .assert()
        .success();
    for folder in [home.path("rec"), mount.path(""), home.path("out")] {
        assert_eq!(found(&folder, &needles), [""; 0]);
        assert!(!found(&folder, &["textSha256".to_owned()]).is_empty());
    }
    drop(mount);
    assert_eq!(snapshot(&home.path("rec")), before);
    // In full mode the same search finds it.
    record(
        &home,
        "sent",
        "full",
        json!({"text": "zyxwv-marker", "isQueued": true}),
    );
    assert_eq!(found(&home.path("rec"), &needles).len(), 1);
}

#[test]
fn what_cannot_hold_the_text_stays_and_what_does_not_stay_is_named() {
    let home = Home::new();
    let text = "drop the users table";
    let peer = json!({"as": "uds:/run/user/1000/docs.sock", "sessionId": "1ab2c3d4"});
    let received = record(
        &home,
        "received",
        "metadata",
        json!({"cwd": "/home/user/x", "text": text, "peer": peer, "outcome": "rejected", "hop": 3, "note": "said so",
            "envelope": {"from": "uds:/run/user/1000/docs.sock", "hops": 2, "urgent": true, "title": "a title", "body": {"x": 1}}}),
    );
    assert_eq!(received["peer"], peer);
    assert_eq!(received["outcome"], "rejected");
    assert_eq!(
        received["envelope"],
        json!({"from": "uds:/run/user/1000/docs.sock", "hops": 2, "urgent": true})
    );
    assert_eq!(received["hop"], 3);
    assert_eq!(
        received["withheld"],
        json!(["envelope.body", "envelope.title", "note"])
    );
    let refused = |reason: &str| {
        let event = json!({"text": text, "peer": "Docs of the parser", "isQueued": false, "reason": reason});
        record(&home, "sent", "metadata", event)
    };
    let plain = refused("held for the person");
    assert_eq!(plain["reason"], "held for the person");
    assert_eq!(plain["peer"]["as"], "Docs of the parser");
    assert!(plain.get("withheld").is_none());
    let quoting = refused(&format!("refused: \"{text}\" is not for this session"));
    assert_eq!(
        quoting["reason"],
        "refused: \"[text withheld]\" is not for this session"
    );
    let hidden = refused("refused: {\"text\": \"drop the users t…\"}");
    assert_eq!(hidden["reason"], Value::Null);
    assert_eq!(hidden["withheld"], json!(["reason"]));

    let shown = home.output(["cat", &format!("{S}/messages.md"), "--record", "rec"]);
    for said in [
        "; reason: `refused: \"[text withheld]\" is not for this session`",
        "; reason: withheld, since the text might stand in it",
        "- withheld, since the text might stand in it: `envelope.body`, `envelope.title`, `note`",
        "Text not kept: 20 bytes, SHA-256 ",
    ] {
        assert!(shown.contains(said), "{said}\nnot in\n{shown}");
    }
    // Of an empty text nothing is to be kept out.
    let empty = json!({"text": "", "outcome": "queued", "envelope": {"title": "a title"}});
    let empty = record(&home, "received", "metadata", empty);
    assert_eq!(empty["envelope"]["title"], "a title");
    assert_eq!(empty["textLength"], 0);
}

#[test]
fn a_text_kept_as_metadata_takes_nothing_from_the_records_own_fields() {
    let home = Home::new();
    for word in [
        "rejected",
        "received",
        "/home/user/open",
        S,
        "message",
        "true",
    ] {
        let event =
            json!({"cwd": "/home/user/open", "peer": "beta", "text": word, "outcome": "rejected"});
        let entry = record(&home, "received", "metadata", event);
        assert_eq!(entry["outcome"], "rejected");
        assert_eq!(entry["side"], "received");
        assert_eq!(entry["kind"], "message");
        assert_eq!(entry["sessionId"], S);
        assert_eq!(entry["cwd"], "/home/user/open");
        assert_eq!(entry["peer"]["as"], "beta");
    }
}

#[test]
fn settings_keep_the_texts_of_a_project_out_and_are_never_guessed() {
    let home = Home::new();
    common::write(
        &home.path("rec/settings.json"),
        r#"{"text":{"/home/user/secret":"metadata"}}"#,
    );
    let text = "the marker zyxwv";
    let event = |cwd: &str| json!({"cwd": cwd, "peer": "beta", "text": text, "outcome": "queued"});
    let kept = |cwd: &str| record(&home, "received", "full", event(cwd));
    assert!(kept("/home/user/secret/sub").get("text").is_none());
    assert_eq!(kept("/home/user/open")["text"], text);
    let read = Entries::of_folder(&home.path("rec").join(S)).unwrap();
    let digest = Digested::of(text.as_bytes());
    assert!(read.list.iter().all(|entry| entry.digest() == Some(digest)));
    let twice = r#"{"text":{"/home/user/open":"full","/home/user/open":"metadata"}}"#;
    for settings in ["{\"text\":", twice] {
        std::fs::write(home.path("rec/settings.json"), settings).unwrap();
        let mut event = event("/home/user/open");
        event["sessionId"] = json!(S);
        let said = home
            .sessionfs(["record", "received", "--record-dir", "rec"])
            .write_stdin(event.to_string())
            .assert()
            .code(1);
        let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert!(said.starts_with("recording degraded: "), "{said}");
        assert!(said.contains("settings.json: "), "{said}");
    }
}
