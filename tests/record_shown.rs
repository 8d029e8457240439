//! The record of messages as it is shown: in the mount, in the artefacts and turns, in the telemetry and the list.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "support/entries.rs"]
mod entries;
#[path = "support/markdown.rs"]
mod markdown;

use common::lines::Lines;
use common::{Home, snapshot, write};
use entries::{ALONE, S, SOCKET, attributions, entry, received, start};
use markdown::{Part, parse};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use pulldown_cmark::Options;
use serde_json::{Value, json};
use sessionfs::artefact::{self, Style};
use sessionfs::session::{self, Session};
use sessionfs::store::{Source, Store};
use sessionfs::transcript::display::Shown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A transcript with six prompts, ten seconds and more into the day's hour, and a record of it.
fn world(home: &Home) -> (PathBuf, PathBuf) {
    let (store, record) = (home.path("store"), home.path("rec"));
    let wrapped = "Another Claude session sent a message:\n<cross-session-message from=\"uds:/run/x\">\nfrom afar\n</cross-session-message>";
    let lines = Lines::main(S)
        .prompt("before the record")
        .answer("m1", "good day", 7)
        .prompt("go on")
        .prompt("yes")
        .prompt("mine alone")
        .prompt("refused")
        .prompt(wrapped);
    write(
        &store.join(format!("-home-user-example/{S}.jsonl")),
        lines.text(),
    );
    entry(&record, S, "10:00:01.000", &start());
    entry(&record, S, "10:00:02.100", &received("go on", "queued"));
    entry(&record, S, "10:00:02.200", &received("yes", "queued"));
    entry(&record, S, "10:00:02.300", &received("yes", "unknown"));
    entry(&record, S, "10:00:02.400", &received("refused", "rejected"));
    entry(&record, S, "10:00:05.000", &received("from afar", "queued"));
    let sent = json!({"kind": "message", "side": "sent", "peer": {"as": "docs", "sessionId": ALONE}, "text": "may I?",
        "isQueued": false, "reason": "held for the person", "cwd": "/home/user/example"});
    entry(&record, S, "10:00:06.000", &sent);
    let chain = json!({"kind": "chain", "parent": "the-lead", "part": "parser", "brief": "Do\nthis.", "cwd": "/home/user/example"});
    entry(&record, S, "10:00:07.000", &chain);
    entry(
        &record,
        ALONE,
        "09:00:00.000",
        &json!({"kind": "start", "cwd": "/home/user/elsewhere", "new": [1]}),
    );
    entry(
        &record,
        ALONE,
        "09:00:01.000",
        &json!({"kind": "later", "what": {"x": 1}}),
    );
    (store, record)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn opened(store: &Path, record: &Path, id: &str) -> Session {
    let sources = vec![
        Source::recognise(store).unwrap(),
        Source::record(record).unwrap(),
    ];
    session::open(&Store::new(sources).files(id).unwrap())
}

#[test]
fn a_mount_shows_the_entries_byte_for_byte_and_readable() {
    let home = Home::new();
    let (store, record) = world(&home);
    let before = snapshot(&record);
    let mount = home.mount(&[&store, &record], "mnt");
    for id in [S, ALONE] {
        let shown = mount.path(&format!("sessions/{id}/messages"));
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&shown), names(&record.join(id)));
        for name in names(&shown) {
            let bytes = std::fs::read(shown.join(&name)).unwrap();
            assert_eq!(bytes, std::fs::read(record.join(id).join(&name)).unwrap());
            assert_eq!(
                shown.join(&name).metadata().unwrap().len(),
                bytes.len() as u64
            );
        }
    }
    let readable = read(&mount.path(&format!("sessions/{S}/messages.md")));
    for said in [
        "- coverage: from 2026-11-24T10:00:01.000Z on; it has no known end",
        "- sent: 1 (0 queued, 1 not queued, 0 not said)",
        "- received: 5 (3 queued, 0 consumed, 1 rejected, 1 unknown)",
        "- chain: parent `the-lead`, part `parser`",
        "A transport's result is no report of the other session.",
        "Messages by other routes are not in the record.",
        "not queued, to `docs`; reason: `held for the person`",
        "rejected, from `uds:…/peer.sock`",
        "## Entry 1 · start · 2026-11-24T10:00:01.000Z",
        "- inbound setting: `ask`",
        "Peer as the host gave it\n\n```\nuds:/run/user/1000/peer.sock\n```",
        "Text\n\n```\nmay I?\n```",
        "Brief\n\n```\nDo\nthis.\n```",
        "session ID: `only-in-the-record`",
    ] {
        assert!(readable.contains(said), "{said}\nnot in\n{readable}");
    }
    let order: Vec<_> = readable
        .lines()
        .filter(|line| line.starts_with("## Entry"))
        .collect();
    assert_eq!(order.len(), 8);
    // Only the fixed sentences have these words, to say that nothing else does.
    let (_, entries) = readable.split_once("## Refusals").unwrap();
    for word in ["read", "answer", "acknowledge", "deliver", "acted"] {
        assert!(!entries.contains(word), "{word}");
    }

    let alone = mount.path(&format!("sessions/{ALONE}"));
    let artefact = read(&alone.join("artefact.md"));
    assert!(
        artefact.contains("this session is known only by its record of messages"),
        "{artefact}"
    );
    assert!(artefact.contains("- project: `elsewhere`"), "{artefact}");
    assert!(artefact.contains("## Messages between sessions"));
    assert!(artefact.contains("unknown kind `later`"), "{artefact}");
    assert!(
        artefact.contains("\"what\": {"),
        "unknown fields are shown: {artefact}"
    );
    assert!(!alone.join("turns").exists() && !alone.join("source").exists());
    assert!(!mount.path(&format!("sessions/{S}/agents")).exists());

    let telemetry: Value =
        serde_json::from_str(&read(&mount.path(&format!("sessions/{S}/telemetry.json")))).unwrap();
    assert_eq!(
        telemetry["messages"],
        json!({"sent": 1, "not_queued": 1, "received": 5, "rejected": 1, "damaged": 0,
            "coverage_from": "2026-11-24T10:00:01.000Z", "parent": "the-lead", "part": "parser"})
    );
    drop(mount);
    assert_eq!(snapshot(&record), before, "nothing is edited or deleted");
}

#[test]
fn every_prompt_says_what_the_record_proves_of_it() {
    let home = Home::new();
    let (_, record) = world(&home);
    let expected = [
        "unknown; this turn is before the session began to record",
        "peer, entry `2026-11-24T100002.100Z-000001.json` from `uds:…/peer.sock`",
        "ambiguous; candidates: entry `2026-11-24T100002.200Z-000001.json` from `uds:…/peer.sock`, entry `2026-11-24T100002.300Z-000001.json` from `uds:…/peer.sock`",
        "nothing recorded; this is no evidence that the person wrote it",
        "nothing recorded; this is no evidence that the person wrote it",
        "peer, entry `2026-11-24T100005.000Z-000001.json` from `uds:…/peer.sock`",
    ];
    let both = ["--source", "store", "--record", "rec"];
    let cat = |file: &str| home.output([&["cat", &format!("{S}/{file}")], &both[..]].concat());
    for file in ["artefact.md", "artefact.full.md", "artefact.spine.md"] {
        assert_eq!(attributions(&cat(file)), expected, "{file}");
    }
    assert_eq!(attributions(&cat("turns/000003-user.md")), [expected[1]]);
    assert_eq!(attributions(&cat("turns/000002-assistant.md")), [""; 0]);
    let lines: Vec<Value> = cat("turns.ndjson")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let said: Vec<_> = lines
        .iter()
        .map(|line| line["attribution"]["is"].as_str())
        .collect();
    let nothing = Some("nothing recorded");
    assert_eq!(
        said,
        [
            Some("unknown"),
            None,
            Some("peer"),
            Some("ambiguous"),
            nothing,
            nothing,
            Some("peer")
        ]
    );
    assert_eq!(
        lines[2]["attribution"]["entries"],
        json!([{"file": "2026-11-24T100002.100Z-000001.json", "as": SOCKET, "session_id": null}])
    );
    assert_eq!(
        lines[3]["attribution"]["entries"].as_array().unwrap().len(),
        2
    );

    // Without a record nothing is known, and that is said too.
    let without = home.output(["cat", &format!("{S}/artefact.md"), "--source", "store"]);
    let unknown = "unknown; the record holds no start of this session";
    assert_eq!(attributions(&without), [unknown; 6]);
    assert!(!without.contains("\n## Messages between sessions"));

    // A damaged entry might be each prompt since, that which one message matches too: it is named and not chosen.
    write(
        &record.join(S).join("2026-11-24T100004.000Z-000001.json"),
        "{\"kind\":\"mess",
    );
    let damaged = "unknown; a damaged entry of the record might be this message";
    let may_be = |peer: &str| format!("{damaged}; candidate: {}", &peer["peer, ".len()..]);
    let now = cat("artefact.md");
    assert_eq!(
        attributions(&now)[1..],
        [
            &*may_be(expected[1]),
            expected[2],
            damaged,
            damaged,
            &*may_be(expected[5])
        ]
    );
    assert!(
        now.contains(
            "- damaged entries of the record of messages (each may have been any message): 1"
        ),
        "{now}"
    );
    assert!(now.contains("### Damaged entries"));
    let telemetry: Value = serde_json::from_str(&cat("telemetry.json")).unwrap();
    assert_eq!(telemetry["completeness"]["record_entries_damaged"], 1);
    assert_eq!(telemetry["completeness"]["complete"], false);
    assert_eq!(telemetry["messages"]["damaged"], 1);
    let lines = cat("turns.ndjson");
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["attribution"]["is"], "unknown");
    let file = "2026-11-24T100005.000Z-000001.json";
    assert_eq!(last["attribution"]["entries"][0]["file"], file);
}

#[test]
fn a_record_needs_no_other_source_and_shows_new_entries_within_a_second() {
    let home = Home::new();
    let (_, record) = world(&home);
    let rows: Vec<Value> =
        serde_json::from_str(&home.output(["list", "--json", "--record", "rec"])).unwrap();
    let [first, second] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!((&first["id"], &second["id"]), (&json!(S), &json!(ALONE)));
    assert_eq!(first["record_entries"], 8);
    assert_eq!(second["started"], "2026-11-24T09:00:00.000Z");
    assert_eq!(second["project"], "elsewhere");
    // What it is is recognised, too, and its default place is looked at.
    assert_eq!(
        home.output(["list", "--json", "--source", "rec"]),
        home.output(["list", "--json", "--record", "rec"])
    );
    std::fs::create_dir_all(home.path(".local/share/sessionfs")).unwrap();
    std::os::unix::fs::symlink(&record, home.path(".local/share/sessionfs/record")).unwrap();
    assert!(home.output(["list"]).contains("elsewhere"));

    std::fs::create_dir(home.path("mnt")).unwrap();
    home.sessionfs(["mount", "--record", "rec", "mnt"])
        .assert()
        .success();
    let mount = common::Mounted::at(&home, home.path("mnt"));
    let readable = mount.path(&format!("sessions/{ALONE}/messages.md"));
    assert!(!read(&readable).contains("just now"));
    entry(
        &record,
        ALONE,
        "09:00:05.000",
        &received("just now", "queued"),
    );
    entry(&record, "a-new-one", "09:00:05.000", &start());
    let deadline = Instant::now() + Duration::from_secs(30);
    while !read(&readable).contains("just now")
        || !mount.path("sessions/a-new-one/messages.md").exists()
    {
        assert!(Instant::now() < deadline, "new entries do not show");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn verify_checks_every_entry() {
    let home = Home::new();
    let (_, record) = world(&home);
    let before = snapshot(&record);
    let said = home.output(["verify", "--record", "rec"]);
    assert!(said.contains("10 record file(s), "), "{said}");
    assert_eq!(home.output(["verify", "rec"]), said, "it is recognised");
    assert_eq!(snapshot(&record), before);
    write(
        &record.join(S).join("2026-11-24T100004.000Z-000001.json"),
        "{\"kind\":\"mess",
    );
    let assert = home.sessionfs(["verify", "--json", "rec"]).assert().code(1);
    let report: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(report["entries"], 11);
    let [fault] = report["faults"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    let path = fault["path"].as_str().unwrap();
    assert!(
        path.ends_with(&format!("{S}/2026-11-24T100004.000Z-000001.json")),
        "{path}"
    );
}

/// Every member of every kind of entry holds this text.
fn record_of(record: &Path, text: &str) {
    for (clock, mut body) in [
        (
            "10:00:00.000",
            json!({"kind": "start", "cwd": text, "host": text, "version": text, "inbound": text}),
        ),
        (
            "10:00:01.000",
            json!({"kind": "message", "side": "received", "peer": {"as": text, "sessionId": text}, "text": text,
            "envelope": {"k": text}, "outcome": text, "cwd": text}),
        ),
        (
            "10:00:02.000",
            json!({"kind": "message", "side": "sent", "peer": {"as": text}, "text": text, "isQueued": false, "reason": text}),
        ),
        (
            "10:00:03.000",
            json!({"kind": "chain", "parent": text, "part": text, "brief": text}),
        ),
        (
            "10:00:04.000",
            json!({"kind": format!("x{text}"), "a": text}),
        ),
    ] {
        body["more"] = json!({text: [text]});
        entry(record, S, clock, &body);
    }
    // A damaged one, and one with a name that is no entry's.
    write(&record.join(S).join("2026-11-24T100009.000Z-1.json"), text);
    write(&record.join(S).join("`# x`.json"), "{");
}

/// The structure without the fences, of which a value may need one more or less.
fn structure(document: &str) -> Vec<Part> {
    let parsed = parse(document, Options::ENABLE_TABLES);
    parsed
        .parts
        .into_iter()
        .filter(|part| !matches!(part, Part::Fence))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in the entries, the documents assert what they assert of harmless ones, and show each text whole.
    #[test]
    fn an_entry_cannot_forge_a_document(text in "(\\PC|[`#>|\\-\\[\\]\\n\\r\\t/\\\\\u{202e}\u{1b}]){1,60}") {
        let home = Home::new();
        let store = home.path("store");
        write(&store.join(format!("-home-user-example/{S}.jsonl")), Lines::main(S).prompt(&text).text());
        record_of(&home.path("hostile"), &text);
        record_of(&home.path("harmless"), "word");
        let hostile = opened(&store, &home.path("hostile"), S);
        let harmless = opened(&store, &home.path("harmless"), S);
        let shown = |session: &Session| String::from_utf8(artefact::messages(session).concat()).unwrap();
        let words = |document: &str| {
            let labels = ["Peer as the host gave it", "Reason"];
            let label = |part: &Part| matches!(part, Part::Paragraph(words) if labels.contains(&words.as_str()));
            structure(document).into_iter().filter(|part| !label(part)).collect::<Vec<_>>()
        };
        prop_assert_eq!(words(&shown(&hostile)), words(&shown(&harmless)));
        let parsed = parse(&shown(&hostile), Options::ENABLE_TABLES);
        prop_assert_eq!(parsed.headings().len(), 9, "three sections and five entries under the title");
        let mut displayed = Vec::new();
        let raw = sessionfs::transcript::text::Raw::plain(text.as_bytes());
        sessionfs::transcript::display::write(raw, &mut displayed, &mut Shown::default());
        let displayed = String::from_utf8(displayed).unwrap();
        prop_assert!(parsed.fences.iter().filter(|fence| **fence == displayed).count() >= 3);
        for style in [Style::Cut(Some(16)), Style::Full, Style::Spine] {
            let document = artefact::whole(&hostile, style);
            let bytes = document.to_vec();
            // It fails on any structure that a document of ours never has.
            parse(&String::from_utf8(bytes).unwrap(), Options::ENABLE_TABLES);
        }
    }
}
