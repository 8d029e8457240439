//! Names that are too long, claims that are too large, logs that are very long, disks that are full or read-only.

use super::support::{CREATED, again, as_other_process, beginning, event, files, frame};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sessionfs::session_log::{Fault, LogError, Role, SessionLogStore, State};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn an_id_that_makes_too_long_a_name_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let error = store.create(&"a".repeat(255), CREATED).unwrap_err();
    assert!(matches!(error, LogError::NameTooLong { .. }), "{error}");
    assert!(error.to_string().contains("shorter session ID"), "{error}");
    let error = store.create(&"a".repeat(256), CREATED).unwrap_err();
    assert!(matches!(error, LogError::InvalidId { .. }), "{error}");
    assert!(files(dir.path()).is_empty());

    // The longest that has a log has no room for an object's name, which is an error of attaching alone.
    let mut log = store.create(&"a".repeat(243), CREATED).unwrap();
    log.append(Role::UserMessage, "x").unwrap();
    let error = log.attach("x", "n", "a/b", b"x").unwrap_err();
    assert!(matches!(error, LogError::NameTooLong { .. }), "{error}");
    log.append(Role::UserMessage, "y").unwrap();
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn a_claim_of_four_gibibytes_takes_no_memory() {
    if let Some(dir) = as_other_process() {
        return reads_a_large_claim(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.session-log");
    let start = beginning("a");
    let claiming = |length: u64| {
        let mut claim = event("user-message", "x");
        claim[1..9].copy_from_slice(&length.to_le_bytes());
        [&start[..], &claim[..60]].concat()
    };
    fs::write(&path, claiming(4 << 30)).unwrap();
    let store = SessionLogStore::new(dir.path());
    assert_eq!(store.read("a").unwrap().in_progress(), 60);

    // The file has what it claims, as a hole: it is read, and not held.
    let length = 256 << 20;
    fs::write(&path, claiming(length)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(start.len() as u64 + 41 + length).unwrap();
    measured(
        "limits::a_claim_of_four_gibibytes_takes_no_memory",
        dir.path(),
    );
}

fn reads_a_large_claim(dir: &Path) {
    let before = peak();
    let snapshot = SessionLogStore::new(dir).read("a").unwrap();
    let problem = snapshot.problem().unwrap();
    let start = beginning("a").len() as u64;
    assert_eq!((problem.offset, &problem.fault), (start, &Fault::Checksum));
    assert!(peak() - before < 16 << 20, "{} bytes", peak() - before);
}

/// Runs a test that measures memory alone in a process of its own.
fn measured(name: &str, dir: &Path) {
    let output = again(name, dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// The most memory that this process has used, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmHWM")).unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap() << 10
}

#[test]
fn a_tail_made_to_be_slow_is_searched_in_time_that_grows_with_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    // Every 42 bytes a head that could begin a frame reaching to the end of the tail.
    let mut tail = frame(2, b"")[..9].to_vec();
    tail[1..9].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    tail.extend([0; 32]);
    let length = 8 << 20;
    while tail.len() < length {
        let rest = (length - tail.len()) as u64 / 2;
        tail.push(2);
        tail.extend(rest.to_le_bytes());
        tail.extend([b' '; 33]);
    }
    let log = [beginning("a"), tail.clone()].concat();
    fs::write(dir.path().join("a.session-log"), log).unwrap();
    let log = store.open("a").unwrap();
    assert_eq!(log.recovery().cut, tail.len() as u64);
}

const MANY: u64 = 1_000_000;

#[test]
fn a_million_events_take_little_memory() {
    if let Some(dir) = as_other_process() {
        return opens_a_million_events(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = beginning("a");
    bytes.extend(event("user-message", "hello").repeat(MANY as usize));
    fs::write(dir.path().join("a.session-log"), bytes).unwrap();
    measured("limits::a_million_events_take_little_memory", dir.path());
}

fn opens_a_million_events(dir: &Path) {
    let before = peak();
    let mut log = SessionLogStore::new(dir).open("a").unwrap();
    assert_eq!(log.append(Role::UserMessage, "last").unwrap().0, MANY);
    let last = log.events().map(Result::unwrap).last().unwrap();
    assert_eq!(last.text, "last");
    assert!(peak() - before < 16 << 20, "{} bytes", peak() - before);
}

#[test]
fn a_read_only_directory_is_read_and_refuses_what_must_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let mut log = store.create("a", CREATED).unwrap();
    log.append(Role::UserMessage, "x").unwrap();
    drop(log);
    let torn = [
        fs::read(dir.path().join("a.session-log")).unwrap(),
        vec![2, 1],
    ]
    .concat();
    fs::write(dir.path().join("a.session-log"), torn).unwrap();
    in_namespace(|| {
        let none = None::<&str>;
        mount(Some(dir.path()), dir.path(), none, MsFlags::MS_BIND, none).unwrap();
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, dir.path(), none, flags, none).unwrap();
        let before = files(dir.path());
        let snapshot = store.read("a").unwrap();
        assert_eq!(
            (snapshot.state(), snapshot.event_count()),
            (State::InProgress, 1)
        );
        for error in [
            store.open("a").unwrap_err(),
            store.create("b", CREATED).unwrap_err(),
            store.delete("a").unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains("Read-only file system"), "{text}");
        }
        assert_eq!(files(dir.path()), before);
    });
}

#[test]
fn a_log_that_may_not_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let log = store.create("a", CREATED).unwrap();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(store.read("a").unwrap().state(), State::Open);
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    in_namespace(|| {
        let options = Some("size=256k");
        mount(
            Some("none"),
            dir.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            options,
        )
        .unwrap();
        fill(dir.path());
    });
}

fn fill(dir: &Path) {
    let store = SessionLogStore::new(dir);
    let mut log = store.create("a", CREATED).unwrap();
    let text = "x".repeat(5_000);
    let mut acknowledged = 0;
    let error = loop {
        match log.append(Role::UserMessage, &text) {
            Ok(position) => acknowledged = position.0 + 1,
            Err(error) => break error,
        }
    };
    assert!(acknowledged > 10);
    let report = error.to_string();
    assert!(
        report.contains("No space left") || report.contains("bytes were written"),
        "{report}"
    );
    log.attach("x", "n", "a/b", text.as_bytes()).unwrap_err();
    let _ = store.create("b", CREATED);

    // The handle stays usable: what fits is taken.
    let again = log.append(Role::UserMessage, "small");
    assert_eq!(again.is_ok(), log.event_count() > acknowledged);
    let count = log.event_count();
    let reopened = store.open("a").unwrap();
    assert_eq!(reopened.event_count(), count);
    assert!(
        reopened
            .events()
            .take(acknowledged as usize)
            .all(|event| event.unwrap().text == text)
    );
}

/// Does something where its mounts are nobody else's, in a thread of its own.
fn in_namespace(act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)
                .expect("a mount namespace of its own needs root");
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            let none = None::<&str>;
            mount(none, "/", none, private, none).unwrap();
            act();
        });
        thread.join().unwrap();
    });
}
