//! The record of messages as hosts and readers meet it: the commands, the files that they leave, and what is refused.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, program};
use sessionfs::record::{
    Entries, Json, Kind, Outcome, Party, Queued, Received, Recorder, Sent, Side,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// Runs `sessionfs record …` with this input and gives the entry's path.
fn record(home: &Home, args: &[&str], input: &[u8]) -> PathBuf {
    let mut command = home.sessionfs([&["record"], args, &["--record-dir", "rec"]].concat());
    let assert = command.write_stdin(input).assert().success();
    let output = assert.get_output();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let line = String::from_utf8(output.stdout.clone()).unwrap();
    home.path(line.strip_suffix('\n').unwrap())
}

/// Runs it where it must fail: nothing on standard output, exit code 1, and why.
fn degraded(home: &Home, args: &[&str], input: &[u8]) -> String {
    let mut command = home.sessionfs([&["record"], args].concat());
    let assert = command.write_stdin(input).assert().code(1);
    let output = assert.get_output();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.contains("recording degraded: "), "{said}");
    said
}

fn entries(home: &Home, id: &str) -> Entries {
    Entries::of_folder(&home.path("rec").join(id)).unwrap()
}

fn message(id: &str, more: &str, literal: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!(r#"{{"sessionId":"{id}","cwd":"/home/user/parser",{more},"text":"#).into_bytes();
    bytes.extend_from_slice(literal);
    bytes.push(b'}');
    bytes
}

#[test]
fn two_sessions_that_write_to_each_other_have_a_start_and_both_messages() {
    let home = Home::new();
    for (me, peer, text) in [(A, "beta", "is it done?"), (B, "alpha", "it is")] {
        record(&home, &["start"], format!(r#"{{"sessionId":"{me}","cwd":"/home/user/parser","host":"claude-code","version":"2.1.314","inbound":"ask"}}"#).as_bytes());
        let sent = format!(r#""peer":{{"as":"{peer}"}},"isQueued":true"#);
        record(
            &home,
            &["sent"],
            &message(me, &sent, format!("\"{text}\"").as_bytes()),
        );
    }
    for (me, text) in [(A, "it is"), (B, "is it done?")] {
        let received = r#""peer":{"as":"uds:/run/x.sock","sessionId":null},"envelope":{"from":"uds:/run/x.sock"},"outcome":"queued""#;
        let path = record(
            &home,
            &["received"],
            &message(me, received, format!("\"{text}\"").as_bytes()),
        );
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    for (me, sent, received) in [(A, "is it done?", "it is"), (B, "it is", "is it done?")] {
        let entries = entries(&home, me);
        assert!(entries.damaged.is_empty());
        let [start, one, two] = entries.list.as_slice() else {
            panic!("{entries:?}")
        };
        assert!(matches!(start.kind, Kind::Start));
        assert_eq!(start.string("inbound").unwrap(), "ask");
        assert_eq!(
            one.message().unwrap().side,
            Side::Sent {
                is_queued: Some(true)
            }
        );
        assert_eq!(one.text().unwrap().to_text(), sent);
        assert_eq!(
            two.message().unwrap().side,
            Side::Received {
                outcome: Outcome::Queued
            }
        );
        assert_eq!(two.text().unwrap().to_text(), received);
        assert_eq!(
            two.message().unwrap().peer.named.as_deref(),
            Some("uds:/run/x.sock")
        );
        assert_eq!(two.message().unwrap().peer.session_id, None);
        assert_eq!(
            entries.working_directory().as_deref(),
            Some("/home/user/parser")
        );
        let mode = home
            .path("rec")
            .join(me)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    assert_eq!(
        home.path("rec").metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_text_is_kept_byte_for_byte() {
    let home = Home::new();
    let every: String = (0..=0x10_FFFF).filter_map(char::from_u32).collect();
    let some: String = every.chars().take(0x4000).collect();
    let escaped = some
        .encode_utf16()
        .fold("\"".to_owned(), |mut literal, unit| {
            let _ = write!(literal, "\\u{unit:04x}");
            literal
        })
        + "\"";
    let long = "0123456789abcdef".repeat(65_536);
    let literals: Vec<Vec<u8>> = vec![
        serde_json::to_vec(&every).unwrap(),
        escaped.into_bytes(),
        br#""""#.to_vec(),
        format!("\"{long}\"").into_bytes(),
        br#""lone \ud83d and \ude00, \/ and \u0041""#.to_vec(),
        b"\"raw \x00\x1b\x7f\xff\"".to_vec(),
    ];
    let received = r#""peer":{"as":null},"outcome":"unknown""#;
    for literal in &literals {
        let path = record(&home, &["received"], &message(A, received, literal));
        let bytes = std::fs::read(path).unwrap();
        let key = b"\"text\":";
        let at = memchr::memmem::find(&bytes, key).unwrap() + key.len();
        assert!(
            bytes[at..].starts_with(literal),
            "the literal is copied unchanged"
        );
        assert_eq!(bytes[at + literal.len()], b',');
    }
    let entries = entries(&home, A);
    let texts: Vec<_> = entries
        .list
        .iter()
        .map(|e| e.text().unwrap().decode().into_owned())
        .collect();
    assert_eq!(texts.len(), literals.len());
    assert!(texts[0] == every.as_bytes());
    assert!(texts[1] == some.as_bytes());
    assert_eq!(texts[2], b"");
    assert!(texts[3] == long.as_bytes());
    assert_eq!(texts[4], b"lone \xED\xA0\xBD and \xED\xB8\x80, / and A");
    assert_eq!(texts[5], b"raw \x00\x1b\x7f\xff");
}

#[test]
fn what_is_not_known_is_kept_and_nothing_else_is_changed() {
    let home = Home::new();
    let input = br#"{ "sessionId" : "s1", "kind":"start", "at":"2026-11-30T21:40:29.1239+01:00", "text":{"x": 1}, "n\u0065w" : [1.50, "\ud800"], "isQueued":false, "reason":"held for the person", "peer":"beta" , "outcome":"queued"}"#;
    let error = degraded(&home, &["sent", "--record-dir", "rec"], input);
    assert!(error.contains("text: it is no string"), "{error}");
    let input = String::from_utf8(input.to_vec())
        .unwrap()
        .replace(r#"{"x": 1}"#, r#""t""#);
    let path = record(&home, &["sent"], input.as_bytes());
    assert!(path.ends_with("rec/s1/2026-11-30T204029.123Z-000001.json"));
    let expected = concat!(
        r#"{"kind":"message","sessionId":"s1","at":"2026-11-30T20:40:29.123Z","side":"sent","peer":{"as":"beta"},"text":"t","#,
        r#""isQueued":false,"reason":"held for the person","cwd":null,"n\u0065w":[1.50, "\ud800"]}"#,
        "\n"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    let next = record(&home, &["sent", "--sync"], input.as_bytes());
    assert!(next.ends_with("rec/s1/2026-11-30T204029.123Z-000002.json"));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        expected,
        "nothing is edited"
    );

    let chain = record(
        &home,
        &["chain"],
        br#"{"sessionId":"s1","parent":"s0","part":2,"brief":"the tests"}"#,
    );
    let entry = std::fs::read_to_string(chain).unwrap();
    assert!(
        entry.contains(r#""parent":"s0","part":2,"brief":"the tests""#),
        "{entry}"
    );
}

#[test]
fn hostile_ids_are_refused_and_nothing_is_written_outside() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("rec")).unwrap();
    std::fs::create_dir(home.path("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", home.path("rec/linked")).unwrap();
    std::fs::write(home.path("rec/file"), "mine").unwrap();
    let before = common::snapshot(&home.path(""));
    let long = "x".repeat(300);
    for (id, why) in [
        ("../x", "separator"),
        ("..", "a directory above"),
        (".", "a directory above"),
        ("a/b", "separator"),
        ("a\\\\b", "separator"),
        ("", "empty"),
        (&long, "longer"),
        ("a\\u0000b", "NUL"),
        ("a b", "another character"),
        ("\\ud800", "another character"),
        ("settings.json", "another character"),
        ("linked", "a symbolic link stands where"),
        ("file", "a file stands where"),
    ] {
        let input = format!(r#"{{"sessionId":"{id}"}}"#);
        let said = degraded(&home, &["start", "--record-dir", "rec"], input.as_bytes());
        assert!(said.contains(why), "{id}: {said}");
    }
    assert_eq!(common::snapshot(&home.path("")), before);
}

#[test]
fn wrong_use_is_never_a_block() {
    let home = Home::new();
    let ok = br#"{"sessionId":"s1"}"#;
    for args in [
        &[][..],
        &["stop"],
        &["start", "--record-dir"],
        &["start", "--text", "some"],
        &["start", "--no-such", "x"],
        &["start", "extra"],
    ] {
        degraded(&home, args, ok);
    }
    let mut command = home.sessionfs(["--color", "never", "record", "-q", "-v"]);
    command.assert().code(1);
    home.sessionfs(["record", "--help"]).assert().success();
    home.sessionfs(["list", "--no-such"]).assert().code(2);
    for input in [
        &b""[..],
        b"[]",
        b"{",
        b"\xff",
        b"{} {}",
        br#"{"sessionId":7}"#,
    ] {
        degraded(&home, &["start", "--record-dir", "rec"], input);
    }
    for (verb, more) in [
        ("sent", r#""text":"x""#),
        ("sent", r#""isQueued":true"#),
        ("received", r#""text":"x","text":"y""#),
        ("received", r#""text":"x","hop":1,"hop":2"#),
        ("sent", r#""text":"x","isQueued":"true""#),
        ("start", r#""at":"yesterday""#),
        ("start", r#""at":"-000001-01-01T00:00:00Z""#),
        ("start", r#""cwd":7"#),
    ] {
        let input = format!(r#"{{"sessionId":"s1",{more}}}"#);
        degraded(&home, &[verb, "--record-dir", "rec"], input.as_bytes());
    }
    assert!(
        !home.path("rec").exists() || std::fs::read_dir(home.path("rec")).unwrap().count() == 0
    );
}

#[test]
fn what_the_record_has_no_word_for_is_unknown_and_kept_as_given() {
    let home = Home::new();
    let entry = |more: &str| {
        let path = record(&home, &["received"], &message("s1", more, b"\"t\""));
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(path).unwrap()).unwrap()
    };
    let read = entry(r#""outcome":"read","peer":7"#);
    assert_eq!(read["outcome"], "unknown");
    assert_eq!(read["outcomeAsGiven"], "read");
    assert_eq!(read["peer"], serde_json::json!({"as": null}));
    assert_eq!(read["peerAsGiven"], 7);
    let read = entry(r#""outcome":["queued"],"peer":{"as":"p","port":9}"#);
    assert_eq!(read["outcome"], "unknown");
    assert_eq!(read["peer"], serde_json::json!({"as": "p"}));
    assert_eq!(
        read["peerAsGiven"],
        serde_json::json!({"as": "p", "port": 9})
    );
    let read = entry(r#""outcome":"rejected","peer":{"as":{"name":"p"}}"#);
    assert_eq!(read["outcome"], "rejected");
    assert_eq!(read["peerAsGiven"]["as"]["name"], "p");
    let read = entry(r#""peer":{"as":null,"sessionId":"p1"}"#);
    assert_eq!(read["outcome"], "unknown");
    let asked = ["outcomeAsGiven", "peerAsGiven"].map(|key| read.get(key));
    assert_eq!(asked, [None, None], "nothing else was given");
    assert_eq!(entries(&home, "s1").list.len(), 4);
}

#[test]
fn standard_input_has_a_bound_that_the_help_states() {
    let home = Home::new();
    for verb in ["start", "sent", "received", "chain", "hook"] {
        let help = home.output(["record", verb, "--help"]);
        assert!(help.contains("on standard input"), "{verb}: {help}");
    }
    let help = home.output(["record", "--help"]);
    let said = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["at most 64 MiB", "half a minute at most", "five seconds"] {
        assert!(said.contains(words), "{words}: {help}");
    }
    let long = vec![b' '; (64 << 20) + 1];
    let said = degraded(&home, &["start", "--record-dir", "rec"], &long);
    assert!(said.contains("longer than 67108864 bytes"), "{said}");
    assert!(!home.path("rec").exists());
}

#[test]
fn an_entry_whose_path_cannot_be_printed_is_recorded_and_named() {
    let home = Home::new();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut child = Command::new(program())
        .args(["record", "start", "--record-dir"])
        .arg(home.path("rec"))
        .stdin(Stdio::piped())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(br#"{"sessionId":"s1"}"#).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let [entry] = &*entries(&home, "s1").list else {
        panic!("recorded once")
    };
    let place = home.path("rec/s1").join(&entry.file);
    for words in [
        "cannot write to standard output: No space left on device",
        &format!("hint: the entry is recorded: {}", place.display()),
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("degraded"), "{said}");
}

#[test]
fn the_hook_records_a_session_start_and_prints_nothing() {
    let home = Home::new();
    let input = format!(
        r#"{{"session_id":"{A}","transcript_path":"/home/user/x.jsonl","cwd":"/home/user/parser","hook_event_name":"SessionStart","source":"startup"}}"#
    );
    let mut command = home.sessionfs(["record", "hook"]);
    let assert = command.write_stdin(input.clone()).assert().success();
    assert!(
        assert.get_output().stdout.is_empty(),
        "the model would read it"
    );
    let read = Entries::of_folder(&home.path(".local/share/sessionfs/record").join(A)).unwrap();
    assert!(matches!(read.list[0].kind, Kind::Start));
    assert_eq!(
        read.working_directory().as_deref(),
        Some("/home/user/parser")
    );
    assert_eq!(read.list[0].string("source").as_deref(), Some("startup"));
    let said = degraded(
        &home,
        &["hook"],
        input.replace("SessionStart", "Stop").as_bytes(),
    );
    assert!(said.contains("SessionStart"), "{said}");
    degraded(&home, &["hook"], b"");
}

#[test]
fn the_hook_gives_up_on_a_host_that_never_ends_its_input() {
    let home = Home::new();
    let mut child = Command::new(program())
        .args(["record", "hook", "--record-dir"])
        .arg(home.path("rec"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its input stays open as long as this is held.
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("recording degraded: it took longer"),
        "{said}"
    );
}

#[test]
fn a_writer_that_is_killed_leaves_whole_entries_only() {
    let home = Home::new();
    let text = format!("\"{}\"", "y".repeat(4 << 20));
    let input = message(A, r#""isQueued":true"#, text.as_bytes());
    for step in 0..24 {
        let mut child = Command::new(program())
            .args(["record", "sent", "--record-dir"])
            .arg(home.path("rec"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It may be dead before it has read all.
        let _ = child.stdin.take().unwrap().write_all(&input);
        std::thread::sleep(std::time::Duration::from_micros(step * 700));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    record(&home, &["sent"], &input);
    let entries = entries(&home, A);
    assert!(entries.damaged.is_empty(), "{:?}", entries.damaged);
    let whole = |entry: &sessionfs::record::Entry| entry.text().unwrap().bytes.len() == 4 << 20;
    assert!(!entries.list.is_empty() && entries.list.iter().all(whole));
    let folder = std::fs::read_dir(home.path("rec").join(A)).unwrap();
    assert_eq!(
        folder.count(),
        entries.list.len(),
        "nothing but entries is left"
    );
}

/// In a mount namespace of its own, where `$1` is the program and `$2` an empty folder.
fn in_namespace(home: &Home, script: &str) {
    std::fs::create_dir_all(home.path("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-euc", script, "sh"])
        .arg(program())
        .arg(home.path("disk"))
        .output()
        .expect("unshare, of util-linux");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn a_full_disk_and_an_unwritable_folder_degrade_and_leave_no_half_entry() {
    let home = Home::new();
    let big = message(
        "s1",
        r#""isQueued":true"#,
        format!("\"{}\"", "z".repeat(300_000)).as_bytes(),
    );
    let small = message("s1", r#""isQueued":true"#, b"\"small\"");
    std::fs::create_dir(home.path("disk")).unwrap();
    std::fs::write(home.path("big.json"), big).unwrap();
    std::fs::write(home.path("small.json"), small).unwrap();
    in_namespace(
        &home,
        r#"
        mount -t tmpfs -o size=128k tmpfs "$2"
        "$1" record sent --record-dir "$2" < "$2/../small.json" > /dev/null
        code=0; "$1" record sent --record-dir "$2" < "$2/../big.json" 2> "$2/../said" || code=$?
        test "$code" = 1
        grep -q "^recording degraded: $2/s1: cannot write the entry: No space left on device" "$2/../said"
        grep -q '^hint: free some space on that disk$' "$2/../said"
        test "$(ls "$2/s1" | wc -l)" = 1
        "$1" record sent --record-dir "$2" < "$2/../small.json" > /dev/null
        test "$(ls "$2/s1" | wc -l)" = 2
        mount -o remount,ro "$2"
        code=0; "$1" record sent --record-dir "$2" < "$2/../small.json" 2> "$2/../said" || code=$?
        test "$code" = 1
        grep -q "^recording degraded: $2/s1: .*Read-only file system" "$2/../said"
        grep -q '^hint: make it writable, or name another folder with --record-dir$' "$2/../said"
        test "$(ls "$2/s1" | wc -l)" = 2
        umount "$2"
        "#,
    );
}

#[test]
fn a_folder_is_read_while_eight_writers_write_ten_thousand_entries() {
    const WRITERS: usize = 8;
    const EACH: usize = 1250;
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path(), "s1").unwrap();
    recorder
        .start(&sessionfs::record::Start::default())
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let recorder = recorder.clone();
                scope.spawn(move || {
                    for n in 0..EACH {
                        let text = format!("{writer} {n} {}", "w".repeat(n % 3000));
                        let path = recorder.sent(&Sent {
                            at: None,
                            peer: Party::default(),
                            text: text.as_str().into(),
                            queued: Queued::Yes,
                            more: Vec::new(),
                        });
                        assert!(path.unwrap().exists());
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::SeqCst) {
                let entries = Entries::of_folder(&folder.path().join("s1")).unwrap();
                assert!(entries.damaged.is_empty(), "{:?}", entries.damaged);
                assert!(entries.list.len() >= seen, "an entry is gone");
                seen = entries.list.len();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
    let entries = Entries::of_folder(&folder.path().join("s1")).unwrap();
    assert_eq!(entries.list.len(), 1 + WRITERS * EACH);
    let texts: BTreeSet<_> = entries
        .list
        .iter()
        .filter_map(|e| Some(e.text()?.to_text()))
        .collect();
    let expected: BTreeSet<_> = (0..WRITERS)
        .flat_map(|w| (0..EACH).map(move |n| format!("{w} {n} {}", "w".repeat(n % 3000))))
        .collect();
    assert!(texts == expected, "each text once, whole");
    assert!(entries.list.is_sorted_by_key(|e| e.name.clone()));
}

#[test]
fn a_damaged_entry_is_unknown_evidence_until_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path(), "s1").unwrap();
    let path = recorder
        .received(&Received {
            at: None,
            peer: Party::default(),
            text: "hello".into(),
            envelope: Some(Json::read(b"{\"from\":[1, 2]}").unwrap()),
            outcome: Outcome::Queued,
            more: Vec::new(),
        })
        .unwrap();
    let whole = std::fs::read(&path).unwrap();
    let read = || Entries::of_folder(&folder.path().join("s1")).unwrap();
    // Another writer's file that is not whole yet.
    let name = path.file_name().unwrap().to_str().unwrap();
    let other = path.with_file_name(name.replace("000001", "7"));
    for cut in 0..whole.len() - 2 {
        std::fs::write(&other, &whole[..cut]).unwrap();
        let entries = read();
        assert_eq!((entries.list.len(), entries.damaged.len()), (1, 1), "{cut}");
        assert!(entries.damaged[0].at.is_some());
    }
    std::fs::write(&other, &whole).unwrap();
    assert_eq!((read().list.len(), read().damaged.len()), (2, 0));
}
