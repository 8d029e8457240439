//! A mount over sessions that are being written: what is new shows, what is open stays, nothing is half.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, Mounted, until, write};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const S: &str = "1ab2c3d4-0000-4000-8000-000000000001";
const T: &str = "1ab2c3d4-0000-4000-8000-000000000002";

fn prompt(number: u64, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"u{number}","timestamp":"2026-11-30T20:{:02}:{:02}.000Z","cwd":"/home/user/live","message":{{"role":"user","content":"{text}"}}}}"#,
        number / 60 % 60,
        number % 60
    ) + "\n"
}

/// A home with a store of one session.
struct World {
    home: Home,
}

impl World {
    fn new() -> Self {
        let world = Self { home: Home::new() };
        write(&world.main(S), prompt(0, "The first one."));
        world
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.home.path("store/-home-user-live").join(name)
    }

    fn main(&self, id: &str) -> PathBuf {
        self.stored(&format!("{id}.jsonl"))
    }

    fn append(&self, text: &str) {
        let file = File::options().append(true).open(self.main(S));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn mount(&self) -> Mounted<'_> {
        self.home.mount(&[&self.home.path("store")], "mnt")
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).into_iter().flatten();
    let mut names: Vec<String> = names
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_written_added_and_deleted_shows_everywhere() {
    let world = World::new();
    let mounted = world.mount();
    let session = mounted.path(&format!("sessions/{S}"));
    assert_eq!(names(&session.join("turns")), ["000001-user.md"]);
    world.append(&prompt(1, "The second one."));
    until("a new turn shows", || {
        names(&session.join("turns")).len() == 2
    });
    for file in [
        "artefact.md",
        "artefact.full.md",
        "artefact.spine.md",
        "turns.ndjson",
        "turns/000002-user.md",
    ] {
        until(file, || {
            text(&session.join(file)).contains("The second one.")
        });
    }
    until("telemetry.json", || {
        json(&session.join("telemetry.json"))["turns"]["total"] == 2
    });

    let agent = prompt(2, "Look.").replace(
        "{\"type\"",
        &format!("{{\"isSidechain\":true,\"sessionId\":\"{S}\",\"type\""),
    );
    write(
        &world.stored(&format!("{S}/subagents/agent-a1.jsonl")),
        agent,
    );
    until("a new agent shows", || {
        names(&session.join("agents")) == ["a1"]
    });
    until("and is in the artefact", || {
        text(&session.join("artefact.md")).contains("## Agent `a1`")
    });
    write(&world.stored(&format!("{S}/tool-results/b1.txt")), "output");
    until("a new object shows", || {
        names(&session.join("objects")).len() == 1
    });

    write(&world.main(T), prompt(70, "Another session."));
    until("a new session shows", || {
        names(&mounted.path("sessions")) == [S, T]
    });
    let day = mounted.path("by-date/2026-11-30");
    until("by its day", || {
        names(&day).contains(&format!("20.01-another-session-{T}"))
    });
    until("in the table", || {
        text(&mounted.path("sessions.tsv")).contains(T)
    });
    until("as the latest", || {
        fs::read_link(mounted.path("latest")).unwrap().ends_with(T)
    });

    let held = File::open(session.join("artefact.md")).unwrap();
    let before = text(&session.join("artefact.md"));
    fs::remove_file(world.main(S)).unwrap();
    fs::remove_dir_all(world.stored(S)).unwrap();
    until("a deleted session is gone", || {
        fs::metadata(&session).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    });
    until("from its day", || names(&day).len() == 1);
    until("from the table", || {
        !text(&mounted.path("sessions.tsv")).contains(S)
    });
    until("from its project", || {
        let project = names(&mounted.path("by-project"));
        names(&mounted.path("by-project").join(&project[0])).len() == 1
    });
    assert_eq!(read_all(held), before, "what is open reads on");
}

fn read_all(mut file: File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn cut_and_rewritten_sources_show_even_in_the_same_size_and_time() {
    // T24
    let world = World::new();
    world.append(&prompt(1, "A second one, which is cut off."));
    let mounted = world.mount();
    let session = mounted.path(&format!("sessions/{S}"));
    assert_eq!(names(&session.join("turns")).len(), 2);
    let one = prompt(0, "The first one.");
    fs::write(world.main(S), &one).unwrap();
    until("what was cut is gone", || {
        names(&session.join("turns")).len() == 1
    });
    let source = session.join("source").join(format!("{S}.jsonl"));
    until("in the source", || text(&source) == one);

    // Written over in place: the same length, and the time of the last change set back.
    for word in ["OTHER", "AGAIN", "THIRD"] {
        let at = fs::metadata(world.main(S)).unwrap().modified().unwrap();
        let rewritten = one.replace("first", word);
        assert_eq!(rewritten.len(), one.len());
        let mut file = File::options().write(true).open(world.main(S)).unwrap();
        file.write_all(rewritten.as_bytes()).unwrap();
        file.set_modified(at).unwrap();
        drop(file);
        until(word, || text(&session.join("artefact.md")).contains(word));
        until("in the source too", || text(&source) == rewritten);
        until("in the table", || {
            text(&mounted.path("sessions.tsv")).contains(word)
        });
    }
    // Replaced by another file.
    write(&world.stored("new"), one.replace("first", "whole new"));
    fs::rename(world.stored("new"), world.main(S)).unwrap();
    until("a replaced file", || {
        text(&session.join("turns.ndjson")).contains("whole new")
    });
}

#[test]
fn an_unfinished_line_is_counted_and_not_shown_until_it_is_whole() {
    let world = World::new();
    let mounted = world.mount();
    let session = mounted.path(&format!("sessions/{S}"));
    let line = prompt(1, "Not yet.");
    let (start, end) = line.split_at(line.len() / 2);
    world.append(start);
    let bytes = start.len();
    until("it is counted", || {
        json(&session.join("telemetry.json"))["completeness"]["incomplete_tail_bytes"] == bytes
    });
    assert_eq!(text(&session.join("turns.ndjson")).lines().count(), 1);
    assert!(!text(&session.join("artefact.full.md")).contains("Not yet."));
    assert!(
        text(&session.join("source").join(format!("{S}.jsonl"))).ends_with(start),
        "the source is as it is"
    );
    world.append(end);
    until("it shows once it is whole", || {
        text(&session.join("turns.ndjson")).lines().count() == 2
    });
    until("and is not counted any more", || {
        json(&session.join("telemetry.json"))["completeness"]["incomplete_tail_bytes"] == 0
    });
}

/// A command whose output goes to a file, ended with the test.
struct Follower {
    child: Child,
    output: PathBuf,
}

impl Follower {
    fn tail(world: &World, how: &str, path: &Path) -> Self {
        let output = world.home.path(&format!("tail{how}"));
        let child = Command::new("tail")
            .args([how, "-n", "+1", "-s", "0.1"])
            .arg(path)
            .stdout(File::create(&output).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, output }
    }

    fn text(&self) -> String {
        text(&self.output)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tail_follows_sources_by_descriptor_and_derived_files_by_name() {
    let world = World::new();
    let mounted = world.mount();
    let session = mounted.path(&format!("sessions/{S}"));
    let source = Follower::tail(
        &world,
        "-f",
        &session.join("source").join(format!("{S}.jsonl")),
    );
    let derived = Follower::tail(&world, "-F", &session.join("turns.ndjson"));
    until("tail has begun", || {
        !source.text().is_empty() && !derived.text().is_empty()
    });
    for number in 1..=20 {
        world.append(&prompt(number, &format!("Number {number}.")));
        let line = format!("Number {number}.");
        until("tail -f", || source.text().contains(&line));
    }
    assert_eq!(source.text(), text(&world.main(S)), "each line once");
    // A new version is a new file under the name, which tail -F shows from its start.
    until("tail -F", || {
        derived
            .text()
            .ends_with(&text(&session.join("turns.ndjson")))
    });
    assert!(derived.text().contains("Number 20."));
}

/// How long the writer writes, and how fast.
const WRITING: Duration = Duration::from_mins(1);
const LINES_A_SECOND: u64 = 1000;

#[test]
fn under_a_fast_writer_every_reader_sees_whole_versions_only() {
    let world = World::new();
    let mounted = world.mount();
    let daemon = daemon_of(&mounted.point);
    let session = mounted.path(&format!("sessions/{S}"));
    let done = AtomicBool::new(false);
    let versions = AtomicU64::new(0);
    let follower = Follower::tail(
        &world,
        "-f",
        &session.join("source").join(format!("{S}.jsonl")),
    );
    let artefact = session.join("artefact.md");
    let full = session.join("artefact.full.md");
    let lines = session.join("turns.ndjson");
    let telemetry = session.join("telemetry.json");
    let stored = session.join("source").join(format!("{S}.jsonl"));
    let table = mounted.path("sessions.tsv");
    let turns = session.join("turns");
    let copies = Copies::default();
    let readers: [Box<Reader<'_>>; 7] = [
        Box::new(|last| whole_lines(&read_once(&lines), last)),
        Box::new(|last| whole_telemetry(&read_once(&telemetry), last)),
        Box::new(|last| whole_artefact(&read_once(&artefact), last)),
        Box::new(|last| whole_artefact(&copies.copy(&full, &world), last)),
        Box::new(|last| whole_source(&read_once(&stored), last)),
        Box::new(|last| whole_table(&read_once(&table), last)),
        Box::new(|last| listed(&turns, last)),
    ];
    std::thread::scope(|scope| {
        for reader in &readers {
            let (done, versions) = (&done, &versions);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    reader(&mut last);
                    versions.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let finished = Finish(&done);
        write_fast(&world);
        drop(finished);
    });
    assert!(versions.load(Ordering::Relaxed) > 7, "the readers did read");
    copies.are_hardly_ever_refused();
    let total = WRITING.as_secs() * LINES_A_SECOND + 1;
    until("all of it shows", || {
        json(&session.join("telemetry.json"))["turns"]["total"] == total
    });
    let written = text(&world.main(S));
    until("tail -f has all of it", || {
        let seen = follower.text();
        assert!(written.starts_with(&seen), "tail -f shows each byte once");
        seen.len() == written.len()
    });
    drop(follower);
    // Nothing of all the versions is kept open, and what is kept of them is bounded by the cache.
    until("no descriptor is left", || {
        names(Path::new(&format!("/proc/{daemon}/fd"))).len() < 64
    });
    let status = text(Path::new(&format!("/proc/{daemon}/status")));
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 600 << 10, "{kilobytes} kB resident");
}

/// Reads once, checks what it read, and takes note of how much that was.
type Reader<'a> = dyn Fn(&mut u64) + Send + Sync + 'a;

/// Says that the writing is over, also when it failed.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Appends a thousand lines a second; most writes end within a line.
fn write_fast(world: &World) {
    let mut file = File::options().append(true).open(world.main(S)).unwrap();
    let start = Instant::now();
    let mut rest = String::new();
    let mut written = 0;
    while written < WRITING.as_secs() * LINES_A_SECOND {
        let due = (start.elapsed().as_millis() as u64).min(WRITING.as_millis() as u64)
            * LINES_A_SECOND
            / 1000;
        for number in written + 1..=due {
            rest += &prompt(number, &format!("Line {number}."));
        }
        written = due.max(written);
        let cut = rest.len() - rest.len().min(7);
        file.write_all(&rest.as_bytes()[..cut]).unwrap();
        rest.drain(..cut);
        std::thread::sleep(Duration::from_millis(3));
    }
    file.write_all(rest.as_bytes()).unwrap();
}

/// Reads a file as one version: as many bytes as its status says when it is open. Of a stored file it may be more.
fn read_once(path: &Path) -> String {
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_source = path.components().any(|part| part.as_os_str() == "source");
    let size = file.metadata().unwrap().len();
    let mut text = String::new();
    file.read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = text.len() as u64;
    assert!(
        read == size || is_source && read >= size,
        "{read} of {size} bytes of {}",
        path.display()
    );
    assert!(file.metadata().unwrap().len() >= size);
    text
}

/// How often `cp` was run, and how often it refused.
#[derive(Default)]
struct Copies {
    made: AtomicU64,
    refused: AtomicU64,
}

impl Copies {
    /// Reads a file as one version through `cp`.
    ///
    /// It looks at the file, opens it, and refuses where a newer version came to stand under the name between the two. A name
    /// stands for one version for most of a second, so that is rare, and whoever copies tries again.
    fn copy(&self, path: &Path, world: &World) -> String {
        let copy = world.home.path("copy");
        loop {
            let mut cp = Command::new("cp");
            let output = cp.args([path, &copy]).env("LC_ALL", "C").output().unwrap();
            if output.status.success() {
                self.made.fetch_add(1, Ordering::Relaxed);
                return text(&copy);
            }
            let why = String::from_utf8(output.stderr).unwrap();
            assert!(why.contains("replaced while being copied"), "{why}");
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn are_hardly_ever_refused(&self) {
        let made = self.made.load(Ordering::Relaxed);
        let refused = self.refused.load(Ordering::Relaxed);
        assert!(refused <= 1 + made / 100, "{refused} refused, {made} made");
    }
}

fn grows(now: u64, last: &mut u64) {
    assert!(now >= *last, "{now} after {last}");
    *last = now;
}

fn whole_lines(text: &str, last: &mut u64) {
    assert!(text.ends_with('\n'));
    let mut count = 0;
    for line in text.lines() {
        count += 1;
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["turn"], count);
    }
    grows(count, last);
}

fn whole_telemetry(text: &str, last: &mut u64) {
    let telemetry: Value = serde_json::from_str(text).unwrap();
    let turns = telemetry["turns"]["total"].as_u64().unwrap();
    assert_eq!(telemetry["main"]["turns"]["total"], turns);
    grows(turns, last);
}

/// The head says how many turns follow.
fn whole_artefact(text: &str, last: &mut u64) {
    assert!(text.starts_with("# Session") && text.ends_with('\n'));
    let said = text
        .lines()
        .find_map(|line| line.strip_prefix("- turns: "))
        .unwrap();
    let said: u64 = said
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let turns = text
        .lines()
        .filter(|line| line.starts_with("### Turn "))
        .count() as u64;
    assert_eq!(said, turns);
    grows(turns, last);
}

fn whole_source(text: &str, last: &mut u64) {
    let whole = text.lines().count() as u64 - u64::from(!text.ends_with('\n'));
    for line in text.lines().take(whole as usize) {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    }
    grows(whole, last);
}

fn whole_table(text: &str, last: &mut u64) {
    assert!(text.ends_with('\n'));
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert!(
        rows.len() == 2 && rows.iter().all(|row| row.len() == 8),
        "{text}"
    );
    grows(rows[1][6].parse().unwrap(), last);
}

/// Names are those of one version, without a gap.
fn listed(turns: &Path, last: &mut u64) {
    let names = names(turns);
    for (i, name) in names.iter().enumerate() {
        assert_eq!(*name, format!("{:06}-user.md", i + 1));
    }
    grows(names.len() as u64, last);
}

/// The process behind the mount, which its command line names.
fn daemon_of(point: &Path) -> u32 {
    let wanted = point.to_str().unwrap().as_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let ours = line.split(|byte| *byte == 0).any(|word| word == wanted);
        ours.then(|| entry.file_name().to_str().unwrap().parse().unwrap())
    });
    found.next().unwrap()
}
