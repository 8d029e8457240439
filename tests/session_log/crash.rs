//! A real process that is killed while it appends and attaches: what it had acknowledged is there, and the log opens.

use super::support::{CREATED, again, as_other_process, files};
use sessionfs::session_log::{Role, SessionLogStore};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const KILLS: u32 = 200;

#[test]
fn two_hundred_kills_lose_nothing_that_was_acknowledged() {
    if let Some(dir) = as_other_process() {
        return a_writer_until_it_is_killed(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    store.create("a", CREATED).unwrap();
    let mut acknowledged = 0;
    for kill in 0..KILLS {
        acknowledged = acknowledged.max(run_and_kill(dir.path(), kill));
        let log = store.open("a").unwrap();
        assert!(log.event_count() >= acknowledged, "kill {kill}");
        for (n, event) in log.events().enumerate() {
            assert_eq!(event.unwrap().text, format!("event {n}"), "kill {kill}");
        }
        assert!(log.object_positions().all(|at| log.object(at).is_ok()));
        let left = files(dir.path());
        assert!(left.keys().all(|name| !name.contains(".tmp")), "{left:?}");
        acknowledged = log.event_count();
        if acknowledged > 2_000 {
            log.delete().unwrap();
            store.create("a", CREATED).unwrap();
            acknowledged = 0;
        }
    }
}

/// Starts a writer, kills it at a moment that differs from run to run, and gives the number of events that it acknowledged.
fn run_and_kill(dir: &Path, kill: u32) -> u64 {
    let test = "crash::two_hundred_kills_lose_nothing_that_was_acknowledged";
    let mut child = again(test, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    // Waiting for a number of events and then for microseconds spreads the kills over all steps.
    for line in lines.by_ref().map_while(Result::ok) {
        if let Ok(count) = line.parse::<u64>() {
            acknowledged = count;
            if count.is_multiple_of(u64::from(kill % 7 + 1)) {
                break;
            }
        }
    }
    std::thread::sleep(Duration::from_micros(u64::from(kill * 37 % 1_500)));
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = lines
        .map_while(Result::ok)
        .filter_map(|line| line.parse().ok());
    rest.last().unwrap_or(acknowledged)
}

/// Appends, and says how many events are acknowledged, for as long as it lives.
fn a_writer_until_it_is_killed(dir: &Path) {
    let mut log = SessionLogStore::new(dir).open("a").unwrap();
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    for n in log.event_count().. {
        let text = format!("event {n}");
        let done = match n % 3 {
            1 => log.attach(&text, "n", "a/b", text.as_bytes()),
            _ => log.append(Role::UserMessage, &text),
        };
        done.unwrap();
        writeln!(out, "{}", n + 1).unwrap();
    }
}
