//! What a writer does when nothing goes wrong, and what it refuses.

use super::support::{CREATED, beginning, event, files, frame, read, said};
use sessionfs::session_log::{EventPosition, Fault, LogError, Role, SessionLogStore, State};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn object_file(name: &str, kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut file = b"KSPENDING01\n\x05\x00".to_vec();
    file.extend((name.len() as u32).to_le_bytes());
    file.extend((kind.len() as u32).to_le_bytes());
    file.extend((bytes.len() as u64).to_le_bytes());
    // The digest is the frame's, without its kind and length.
    file.extend(&frame(0, bytes)[9..41]);
    file.extend(format!("0.2.1{name}{kind}").bytes());
    file.extend(bytes);
    file
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    assert_eq!(
        log.append(Role::UserMessage, "hello").unwrap(),
        EventPosition(0)
    );
    assert_eq!(
        log.attach("see", "a.txt", "text/plain", b"bytes").unwrap(),
        EventPosition(1)
    );
    assert_eq!(
        log.append(Role::AssistantToolCall, "x").unwrap(),
        EventPosition(2)
    );
    log.seal().unwrap();

    let expected = [
        beginning("a"),
        event("user-message", "hello"),
        event("pending-object", "see"),
        event("kennedy-tool-call", "x"),
        frame(3, b""),
    ];
    assert_eq!(
        fs::read(dir.path().join("a.session-log")).unwrap(),
        expected.concat()
    );
    let object = fs::read(dir.path().join("a-1.pending-object")).unwrap();
    assert_eq!(object, object_file("a.txt", "text/plain", b"bytes"));
    assert_eq!(files(dir.path()).len(), 2);
}

/// What the published crate, release 0.2.1, wrote for the same operations. It is no dependency of the tests because it wants a
/// newer compiler than this crate.
const REFERENCE: [(&str, u64, &str); 6] = [
    (
        "a-17.pending-object",
        1074,
        "25883a796a0b5ded62994970abf071c3f5f5952d59df0ca77167d5fd3e717f8b",
    ),
    (
        "a-26.pending-object",
        2074,
        "8aedcc3b482e02c6c3848a22d0059decd72e3b20df7e5191683a34ce6b3563e7",
    ),
    (
        "a-35.pending-object",
        3074,
        "f39d82571d76dbed876e9dbf4523879c94ac632cb448c2ad8aab2cc855a934dd",
    ),
    (
        "a-44.pending-object",
        4074,
        "2c8786b56eecde9e16bc301d96af087a3e9dc4affb03ad75dd91ea3a642978dc",
    ),
    (
        "a-8.pending-object",
        74,
        "667250045b0a0161144b8de1e78459a395ef148535fa08c4c99436c6a879df65",
    ),
    (
        "a.session-log",
        4041,
        "33eef0ccc4da610d7b225056f134ea19cd798f14e601735a67b46c1817fae4dc",
    ),
];

#[test]
fn for_the_same_operations_the_bytes_are_the_published_crates() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = SessionLogStore::new(dir.path())
        .create("a", CREATED)
        .unwrap();
    let controls = "\0\u{1}\u{1f}\u{7f}\u{80}\"\\/\n\r\t\u{8}\u{c}";
    let texts = ["a", "", controls, "日本語 🎉\u{2028}\u{feff}", "x"];
    for (n, text) in texts.into_iter().enumerate() {
        for role in Role::ALL
            .into_iter()
            .filter(|role| *role != Role::PendingObject)
        {
            log.append(role, text).unwrap();
        }
        let bytes = vec![n as u8; 1_000 * n];
        log.attach(text, &format!("n{n}ü"), "a/b", &bytes).unwrap();
    }
    log.seal().unwrap();
    let files = files(dir.path());
    assert_eq!(files.len(), REFERENCE.len());
    for (name, length, digest) in REFERENCE {
        assert_eq!(files[name], (length, digest.to_owned()), "{name}");
    }
}

#[test]
fn handles_take_up_what_others_append() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut first = store.create("a", CREATED).unwrap();
    let mut second = store.open("a").unwrap();
    // A third name of the same directory.
    let mut third = SessionLogStore::new(dir.path().join("."))
        .open("a")
        .unwrap();
    assert_eq!(first.append(Role::UserMessage, "0").unwrap().0, 0);
    assert_eq!(second.append(Role::UserMessage, "1").unwrap().0, 1);
    assert_eq!(third.attach("2", "n", "a/b", b"x").unwrap().0, 2);
    assert_eq!(first.append(Role::UserMessage, "3").unwrap().0, 3);
    assert_eq!(first.object(EventPosition(2)).unwrap().bytes, b"x");
    assert!(matches!(
        first.object(EventPosition(1)),
        Err(LogError::NoObject { .. })
    ));
    let texts: Vec<_> = first.events().map(|event| event.unwrap().text).collect();
    assert_eq!(texts, ["0", "1", "2", "3"]);
}

#[test]
fn sealing_ends_a_log_and_is_idempotent() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    let mut other = store.open("a").unwrap();
    log.append(Role::UserMessage, "x").unwrap();
    log.seal().unwrap();
    let sealed = files(dir.path());
    log.seal().unwrap();
    other.seal().unwrap();
    for log in [&mut log, &mut other, &mut store.open("a").unwrap()] {
        let error = log.append(Role::UserMessage, "y").unwrap_err();
        assert!(matches!(error, LogError::Sealed { .. }), "{error}");
        let error = log.attach("y", "n", "a/b", b"").unwrap_err();
        assert!(matches!(error, LogError::Sealed { .. }), "{error}");
    }
    assert_eq!(files(dir.path()), sealed);
    assert_eq!(store.read("a").unwrap().state(), State::Sealed);
}

#[test]
fn sealing_verifies_the_objects() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    log.attach("x", "n", "a/b", b"bytes").unwrap();
    fs::write(dir.path().join("a-0.pending-object"), "other").unwrap();
    let before = files(dir.path());
    assert!(matches!(log.seal(), Err(LogError::Object { .. })));
    assert_eq!(files(dir.path()), before);
    log.append(Role::UserMessage, "still open").unwrap();
}

#[test]
fn deletion_removes_exactly_what_is_the_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    log.attach("x", "n", "a/b", b"bytes").unwrap();
    let keep = [
        "a-01.pending-object",
        "a-b-0.pending-object",
        "a0.session-log",
        "a-.pending-object.tmp",
    ];
    for name in keep
        .iter()
        .chain(&["a-9.pending-object", "a-7.pending-object.tmp"])
    {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let mut other = store.open("a").unwrap_err_or_handle();
    log.delete().unwrap();
    let mut left: Vec<_> = files(dir.path()).into_keys().collect();
    left.sort();
    let mut keep = keep.map(str::to_owned);
    keep.sort();
    assert_eq!(left, keep);
    let error = other.append(Role::UserMessage, "x").unwrap_err();
    assert!(matches!(error, LogError::Gone { .. }), "{error}");
    assert!(matches!(store.delete("a"), Err(LogError::Missing { .. })));
}

/// Opening removes the orphans, which deletion is to find; so they are put there again.
trait Reopen {
    fn unwrap_err_or_handle(self) -> sessionfs::session_log::SessionLog;
}

impl Reopen for Result<sessionfs::session_log::SessionLog, LogError> {
    fn unwrap_err_or_handle(self) -> sessionfs::session_log::SessionLog {
        let log = self.unwrap();
        for name in &log.recovery().removed {
            fs::write(log.path().with_file_name(name), "x").unwrap();
        }
        assert_eq!(log.recovery().removed.len(), 2);
        log
    }
}

#[test]
fn a_damaged_log_and_what_an_interrupted_deletion_left_can_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    fs::write(dir.path().join("a.session-log"), "nonsense").unwrap();
    store.delete("a").unwrap();
    fs::write(dir.path().join("a-3.pending-object"), "x").unwrap();
    store.delete("a").unwrap();
    assert!(files(dir.path()).is_empty());
}

#[test]
fn creating_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path().join("made/too"));
    let log = store.create("a", CREATED).unwrap();
    let mode = fs::metadata(log.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = files(store.directory());
    assert!(matches!(
        store.create("a", CREATED),
        Err(LogError::Exists { .. })
    ));
    assert!(matches!(
        store.create("b", " \n"),
        Err(LogError::Blank { .. })
    ));
    assert!(matches!(
        store.create("../b", CREATED),
        Err(LogError::InvalidId { .. })
    ));
    assert_eq!(files(store.directory()), before);
    assert_eq!(store.session_ids().unwrap(), ["a"]);
    assert!(
        SessionLogStore::new(dir.path().join("no"))
            .session_ids()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_time_of_creation_and_the_text_are_kept_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let text = "\u{0}\u{1b}[31m \u{202e} \"q\" \\ \r\n```\n# 日本語 🎉 \u{7f}\u{2028}";
    let mut log = store.create("a", "  yesterday\n").unwrap();
    log.append(Role::UserMessage, text).unwrap();
    log.append(Role::UserMessage, "").unwrap();
    assert_eq!(read(dir.path(), "a"), [said(text), said("")]);
    let snapshot = store.read("a").unwrap();
    assert_eq!(snapshot.header().unwrap().created_at, "  yesterday\n");
}

#[test]
fn a_log_that_was_replaced_or_cut_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let path = dir.path().join("a.session-log");
    let mut log = store.create("a", CREATED).unwrap();
    log.append(Role::UserMessage, "x").unwrap();
    let bytes = fs::read(&path).unwrap();

    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(bytes.len() as u64 - 1).unwrap();
    let error = log.append(Role::UserMessage, "y").unwrap_err();
    assert!(matches!(error, LogError::Shorter { .. }), "{error}");

    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    let error = log.append(Role::UserMessage, "y").unwrap_err();
    assert!(matches!(error, LogError::Gone { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn damage_that_others_append_stops_a_handle_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    let mut bad = event("user-message", "x");
    bad[20] ^= 1;
    append_raw(log.path(), &bad);
    let before = files(dir.path());
    for _ in 0..2 {
        let error = log.append(Role::UserMessage, "y").unwrap_err();
        let offset = beginning("a").len() as u64;
        assert!(
            matches!(&error, LogError::Corrupt { offset: at, fault: Fault::Checksum, .. } if *at == offset),
            "{error}"
        );
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn an_unfinished_frame_of_a_writer_that_failed_is_cut_before_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    append_raw(log.path(), &event("user-message", "lost")[..50]);
    log.append(Role::UserMessage, "kept").unwrap();
    assert_eq!(read(dir.path(), "a"), [said("kept")]);
}

fn append_raw(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}
