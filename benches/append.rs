//! What an append costs, for `scripts/bench`: at the beginning and at the end of a long log, and over a bare append that is
//! made durable. `scripts/bench append` runs it.

// A measurement that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../tests/session_log/support.rs"]
mod support;

use sessionfs::session_log::{Role, SessionLog, SessionLogStore};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{CREATED, beginning, event};

const APPENDS: usize = 100_000;
const TEXT: &str =
    "an event of ordinary length, as a person or a model writes one in a session that goes on";

fn main() {
    let memory = Path::new("/dev/shm");
    let (first, last) = if memory.is_dir() {
        // There a sync costs nothing, so what is left is the append's own.
        let dir = tempfile::tempdir_in(memory).unwrap();
        long_log(dir.path())
    } else {
        let dir = tempfile::tempdir().unwrap();
        long_log(dir.path())
    };
    println!("first_thousand_us {:.2}", micros(first, 1_000));
    println!("last_thousand_us {:.2}", micros(last, 1_000));
    for events in [10, 1_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let (ours, bare) = over_bare(dir.path(), events);
        println!("append_at_{events}_us {:.1}", micros(ours, 1));
        println!("bare_at_{events}_us {:.1}", micros(bare, 1));
    }
}

fn long_log(dir: &Path) -> (Duration, Duration) {
    let store = SessionLogStore::new(dir);
    let thousands = |id: &str, many: usize| -> Vec<Duration> {
        let mut log = store.create(id, CREATED).unwrap();
        (0..many).map(|_| thousand(&mut log)).collect()
    };
    // What a process does for the first time costs more than the second time.
    thousands("before", 1);
    let all = thousands("a", APPENDS / 1_000);
    (all[0], all[all.len() - 1])
}

fn thousand(log: &mut SessionLog) -> Duration {
    let start = Instant::now();
    for _ in 0..1_000 {
        log.append(Role::UserMessage, TEXT).unwrap();
    }
    start.elapsed()
}

/// Median times of an append to a log of so many events, and of the same bytes appended to a plain file of the same length and
/// synchronized; in turn, so that a disk that is busy is so for both.
fn over_bare(dir: &Path, events: usize) -> (Duration, Duration) {
    let frame = event("user-message", TEXT);
    let bytes = [beginning("a"), frame.repeat(events)].concat();
    std::fs::write(dir.join("a.session-log"), &bytes).unwrap();
    std::fs::write(dir.join("bare"), &bytes).unwrap();
    let mut log = SessionLogStore::new(dir).open("a").unwrap();
    let mut bare = OpenOptions::new()
        .append(true)
        .open(dir.join("bare"))
        .unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
    bare.sync_all().unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let start = Instant::now();
        log.append(Role::UserMessage, TEXT).unwrap();
        ours.push(start.elapsed());
        let start = Instant::now();
        bare.write_all(&frame).unwrap();
        bare.sync_data().unwrap();
        theirs.push(start.elapsed());
    }
    (median(ours), median(theirs))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn micros(time: Duration, of: u32) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(of)
}
