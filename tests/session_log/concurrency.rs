//! Many writers on one log, in one process and in several: nothing is lost, every position is given once.

use super::support::{CREATED, again, as_other_process, read};
use sessionfs::session_log::{Role, SessionLogStore, State};
use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;

const WRITERS: usize = 8;
const EVENTS: usize = 1_000;

#[test]
fn eight_threads_with_a_handle_each_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    store.create("a", CREATED).unwrap();
    let path = dir.path();
    let positions: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(path, writer)))
            .collect();
        // Reading while they write never sees anything wrong.
        for _ in 0..50 {
            let snapshot = store.read("a").unwrap();
            assert_ne!(snapshot.state(), State::Corrupt, "{:?}", snapshot.problem());
        }
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    check(dir.path(), &positions);
}

#[test]
fn eight_processes_lose_nothing() {
    if let Some(dir) = as_other_process() {
        return one_of_eight_processes(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    SessionLogStore::new(dir.path())
        .create("a", CREATED)
        .unwrap();
    let children: Vec<_> = (0..WRITERS)
        .map(|writer| {
            again("concurrency::eight_processes_lose_nothing", dir.path())
                .env("LOG_WRITER", writer.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let positions: Vec<Vec<u64>> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().filter_map(|line| line.parse().ok()).collect()
        })
        .collect();
    check(dir.path(), &positions);
}

fn one_of_eight_processes(dir: &Path) {
    let writer = std::env::var("LOG_WRITER").unwrap().parse().unwrap();
    println!();
    for position in write(dir, writer) {
        println!("{position}");
    }
}

/// Appends the writer's events, every hundredth with an object, and gives their positions.
fn write(dir: &Path, writer: usize) -> Vec<u64> {
    let mut log = SessionLogStore::new(dir).open("a").unwrap();
    let position = (0..EVENTS).map(|n| {
        let text = format!("{writer}:{n}");
        let done = match n % 100 {
            99 => log.attach(&text, "n", "a/b", text.as_bytes()),
            _ => log.append(Role::UserMessage, &text),
        };
        done.unwrap().0
    });
    position.collect()
}

fn check(dir: &Path, positions: &[Vec<u64>]) {
    let events = read(dir, "a");
    assert_eq!(events.len(), WRITERS * EVENTS);
    let distinct: HashSet<u64> = positions.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), WRITERS * EVENTS);
    for (writer, positions) in positions.iter().enumerate() {
        for (n, position) in positions.iter().enumerate() {
            assert_eq!(events[*position as usize].text, format!("{writer}:{n}"));
        }
    }
    let snapshot = SessionLogStore::new(dir).read("a").unwrap();
    assert_eq!(
        snapshot.objects().filter(|(_, head)| head.is_ok()).count(),
        WRITERS * EVENTS / 100
    );
}
