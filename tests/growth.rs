//! A session that grows is read on from where it was read to, and everything made of it is what it would be if it were read anew.

#![allow(clippy::unwrap_used)]

#[path = "common/corpus.rs"]
mod corpus;

use corpus::corpus;
use serde_json::json;
use sessionfs::artefact::{self, Stretch, Style};
use sessionfs::session::{self, Session};
use sessionfs::store::{Source, Store};
use sessionfs::transcript::Turn;
use sessionfs::{telemetry, turns};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STYLES: [Style; 3] = [Style::Cut(Some(300)), Style::Full, Style::Spine];

/// A session that is followed, with what was written of it last.
#[derive(Default)]
struct Followed {
    session: Option<Session>,
    written: [Vec<Arc<Stretch>>; 3],
}

impl Followed {
    /// Opens the session once more, compares everything with the same read anew, and says how many stretches served again.
    fn look(&mut self, projects: &Path, id: &str) -> usize {
        let store = Store::new(vec![Source::transcripts(projects).unwrap()]);
        let files = store.files(id).unwrap();
        let anew = session::open(&files);
        let now = session::open_again(&files, self.session.as_ref());
        let mut again = 0;
        for (style, written) in STYLES.into_iter().zip(&mut self.written) {
            let before = self.session.as_ref().map(|then| (then, written.as_slice()));
            let document = artefact::whole_again(&now, style, before);
            let expected = artefact::whole(&anew, style);
            assert!(document.to_vec() == expected.to_vec(), "{id} {style:?}");
            assert_eq!(document.sections, expected.sections);
            assert_eq!(document.shown, expected.shown);
            assert_eq!(
                telemetry::whole(&now, &document.shown),
                telemetry::whole(&anew, &expected.shown)
            );
            let known = |stretch: &&Arc<Stretch>| written.iter().any(|w| Arc::ptr_eq(w, stretch));
            again += document.stretches.iter().filter(known).count();
            *written = document.stretches;
        }
        for thread in 0..anew.threads.len() {
            assert!(turns::lines(&now, thread).concat() == turns::lines(&anew, thread).concat());
        }
        self.session = Some(now);
        again
    }
}

/// A growing copy of the transcripts of one project folder.
struct Growing {
    folder: tempfile::TempDir,
    /// Each file's path in the copy, and all that it will be.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Growing {
    fn of(project: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        let mut waiting = vec![project.to_path_buf()];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                continue;
            }
            let inside = path.strip_prefix(project.parent().unwrap()).unwrap();
            let copy = folder.path().join(inside);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            let bytes = fs::read(&path).unwrap();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                files.push((copy, bytes));
            } else {
                fs::write(copy, bytes).unwrap();
            }
        }
        files.sort();
        Self { folder, files }
    }

    /// Lets each file grow to this many eighths of its length, wherever in a line that is.
    fn grow(&self, eighths: usize) {
        for (path, bytes) in &self.files {
            let length = bytes.len() * eighths / 8;
            let mut file = fs::File::options()
                .append(true)
                .create(true)
                .open(path)
                .unwrap();
            let there = file.metadata().unwrap().len() as usize;
            file.write_all(&bytes[there..length]).unwrap();
        }
    }
}

fn projects() -> Vec<PathBuf> {
    let folders = fs::read_dir(corpus()).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Every session of the corpus, written by and by.
#[test]
fn what_grew_is_what_it_would_be_read_anew() {
    for project in projects() {
        let growing = Growing::of(&project);
        growing.grow(0);
        let store = Store::new(vec![Source::transcripts(growing.folder.path()).unwrap()]);
        let ids: Vec<String> = store.index().ids().map(str::to_owned).collect();
        let mut followed: Vec<Followed> = ids.iter().map(|_| Followed::default()).collect();
        for eighths in 1..=8 {
            growing.grow(eighths);
            for (id, followed) in ids.iter().zip(&mut followed) {
                followed.look(growing.folder.path(), id);
            }
        }
    }
}

const S: &str = "11111111-0000-4000-8000-000000000001";

fn line(n: usize, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"u{n}\",\"timestamp\":\"2026-11-24T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

/// A session of so many prompts, in a project folder of its own.
fn session_of(prompts: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    fs::create_dir(&project).unwrap();
    let path = project.join(format!("{S}.jsonl"));
    let lines: String = (0..prompts)
        .map(|n| line(n, &format!("prompt {n}")))
        .collect();
    fs::write(&path, lines).unwrap();
    (folder, path)
}

fn append(path: &Path, text: &str) {
    append_bytes(path, text.as_bytes());
}

fn append_bytes(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::options().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// What stands far before the end is not read again; what stands just before it is looked at.
#[test]
fn a_grown_file_is_read_on_and_a_changed_end_is_read_anew() {
    let (folder, path) = session_of(2000);
    let open = |before: Option<&Session>| {
        let store = Store::new(vec![Source::transcripts(folder.path()).unwrap()]);
        session::open_again(&store.files(S).unwrap(), before)
    };
    let text = |session: &Session| {
        String::from_utf8(artefact::whole(session, Style::Full).to_vec()).unwrap()
    };
    let overwrite = |words: &str, with: &str| {
        let at = fs::read_to_string(&path).unwrap().rfind(words).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(with.as_bytes(), at as u64).unwrap();
    };
    let first = open(None);
    overwrite("prompt 7\"", "CHANGED!\"");
    append(&path, &line(2000, "new"));
    let second = open(Some(&first));
    assert_eq!(second.threads[0].turns.len(), 2001);
    assert!(text(&second).contains("prompt 7\n"), "it was read again");
    overwrite("prompt 1999\"", "CHANGED one\"");
    append(&path, &line(2001, "newer"));
    let third = open(Some(&second));
    assert_eq!(third.threads[0].turns.len(), 2002);
    assert!(text(&third).contains("CHANGED one\n") && text(&third).contains("CHANGED!\n"));
}

/// A rewritten file of the same length, a shorter one and another one under the same name are read anew.
#[test]
fn what_did_not_only_grow_is_read_anew() {
    let (folder, path) = session_of(50);
    let mut followed = Followed::default();
    followed.look(folder.path(), S);
    let whole = fs::read_to_string(&path).unwrap();
    for changed in [
        whole.replace("prompt 3\"", "PROMPT 3\""),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("prompt", "other") + &line(90, "and more"),
    ] {
        fs::write(&path, &changed).unwrap();
        followed.look(folder.path(), S);
        let other = path.with_extension("new");
        fs::write(&other, &whole).unwrap();
        fs::rename(&other, &path).unwrap();
        followed.look(folder.path(), S);
    }
}

/// Of a long thread only the stretch that grew is written again, whether an unfinished line stood at its end or not.
#[test]
fn stretches_that_did_not_change_serve_again() {
    let (folder, path) = session_of(2000);
    let mut followed = Followed::default();
    assert_eq!(followed.look(folder.path(), S), 0);
    for n in 2000..2010 {
        let text = line(n, "one more");
        let (head, tail) = text.split_at(40);
        append(&path, head);
        assert!(
            followed.look(folder.path(), S) >= 62,
            "an unfinished line changes nothing"
        );
        append(&path, tail);
        // Thirty-one whole stretches of 64 turns in two styles; the spine is written anew.
        assert_eq!(followed.look(folder.path(), S), 62);
    }
}

/// Every file of the corpus by itself, a few lines at a time: what one thread gets is no matter of the others, or it is.
#[test]
fn what_grew_in_one_file_is_what_it_would_be_read_anew() {
    for project in projects() {
        let growing = Growing::of(&project);
        growing.grow(4);
        let store = Store::new(vec![Source::transcripts(growing.folder.path()).unwrap()]);
        let ids: Vec<String> = store.index().ids().map(str::to_owned).collect();
        let mut followed: Vec<Followed> = ids.iter().map(|_| Followed::default()).collect();
        for step in 0..16 {
            let (path, bytes) = &growing.files[step * 7 % growing.files.len()];
            let there = fs::metadata(path).unwrap().len() as usize;
            let lines = bytes[there..].split_inclusive(|byte| *byte == b'\n');
            let next: usize = lines.take(1 + step % 3).map(<[u8]>::len).sum();
            append_bytes(path, &bytes[there..there + next]);
            for (id, followed) in ids.iter().zip(&mut followed) {
                followed.look(growing.folder.path(), id);
            }
        }
    }
}

/// A session with two agents and a side question of the harness, and what its files get.
struct Threads {
    folder: tempfile::TempDir,
    followed: Followed,
}

impl Threads {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(format!("-p/{S}/subagents"))).unwrap();
        let followed = Followed::default();
        Self { folder, followed }
    }

    fn path(&self, thread: &str) -> PathBuf {
        self.folder.path().join(match thread {
            "main" => format!("-p/{S}.jsonl"),
            // A sub-agent whose ID is that of the main thread.
            "an agent called main" => format!("-p/{S}/subagents/agent-main.jsonl"),
            agent => format!("-p/{S}/subagents/agent-{agent}.jsonl"),
        })
    }

    /// Adds a line to a thread's file and looks at the session.
    fn get(&mut self, thread: &str, line: &serde_json::Value) {
        let path = self.path(thread);
        let mut file = fs::File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{line}").unwrap();
        self.followed.look(self.folder.path(), S);
    }

    /// Whether a thread's turns, so far as they fill a part, are the very ones of this earlier version.
    fn shares(&self, thread: &str, before: &[(String, Arc<Vec<Turn>>)]) -> bool {
        self.first_parts().iter().any(|(id, now)| {
            id == thread
                && before
                    .iter()
                    .any(|(was, then)| was == id && Arc::ptr_eq(now, then))
        })
    }

    fn first_parts(&self) -> Vec<(String, Arc<Vec<Turn>>)> {
        let session = self.followed.session.as_ref().unwrap();
        let threads = session.threads.iter();
        let first = threads.filter_map(|thread| {
            let part = thread.turns.parts().first()?;
            Some((thread.id.clone(), part.clone()))
        });
        first.collect()
    }
}

fn said(uuid: &str, parent: Option<&str>, text: &str) -> serde_json::Value {
    json!({
        "type": "user", "uuid": uuid, "parentUuid": parent, "timestamp": "2026-11-24T10:00:00.000Z",
        "message": {"role": "user", "content": text},
    })
}

fn answered(uuid: &str, id: &str, block: &serde_json::Value) -> serde_json::Value {
    json!({
        "type": "assistant", "uuid": uuid, "timestamp": "2026-11-24T10:00:01.000Z",
        "message": {
            "role": "assistant", "id": id, "model": "m", "content": [block],
            "usage": {"input_tokens": 3, "output_tokens": 5},
        },
    })
}

fn words(text: &str) -> serde_json::Value {
    json!({"type": "text", "text": text})
}

/// A line that has to do with another thread changes that thread too; the next one that has not changes its own alone.
#[test]
fn a_new_line_changes_every_thread_that_it_has_to_do_with() {
    let question = "aside_question-1";
    let call = json!({"type": "tool_use", "id": "t1", "name": "Agent", "input": {"prompt": "Look.", "description": "d"}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "Found.\nagentId: a1 (done)"});
    // Each list by itself, one line after the other, and all of them together.
    let tied = [
        // A call, its result, and then the same call's result and a response of the same ID in another thread.
        vec![
            ("main", answered("m2", "msg_1", &call)),
            (
                "main",
                json!({"type": "user", "uuid": "m3", "timestamp": "2026-11-24T10:00:02.000Z", "message": {"role": "user", "content": [result]}}),
            ),
            (
                "a1",
                json!({"type": "user", "uuid": "a1-2", "timestamp": "2026-11-24T10:00:02.000Z", "message": {"role": "user", "content": [result]}}),
            ),
            (
                "a1",
                answered("a1-3", "msg_1", &words("The same response.")),
            ),
            ("a2", answered("a2-2", "msg_2", &call)),
        ],
        // The harness's own thread repeats what an agent answers, and gets a line itself.
        vec![(
            "a1",
            answered("a1-4", "msg_q", &words("Not only a question.")),
        )],
        vec![(question, answered("q3", "msg_r", &words("More.")))],
        // A line twice in one thread, a line of an agent in the main thread, and one that makes an agent's thread a copy.
        vec![("main", said("m1", None, "Begin."))],
        vec![("main", said("a1-1", None, "Look."))],
        vec![("main", said("m9", None, "What the second agent follows."))],
        // New threads: a plain one, one of the harness, one by what it says, and two that begin in the main thread.
        vec![("a0", said("a0-1", None, "Look here."))],
        vec![("aprompt_suggestion-1", said("p1", None, "Suggest."))],
        vec![("a5", said("a5-1", None, "Warmup"))],
        vec![("a6", said("a6-1", Some("m1"), "Go on."))],
        vec![("a7", said("m1", None, "Begin."))],
        vec![
            ("an agent called main", said("am-1", None, "Look.")),
            ("a1", said("a1-5", None, "And on.")),
        ],
        // An agent of which the first prompt comes late, and says that it is none.
        vec![
            ("a8", answered("a8-1", "msg_8", &words("An answer."))),
            ("a8", said("a8-2", None, "Warmup")),
        ],
        // The beginning of one agent's thread, which becomes that of another's when the other is longer.
        vec![
            ("c", said("x", None, "Look.")),
            ("a", said("x", None, "Look.")),
            ("a", said("a-y", None, "And there.")),
            ("a", said("a-z", None, "And here.")),
            ("b", said("x", None, "Look.")),
            ("b", said("b-w", None, "And where?")),
            ("main", said("m5", None, "Meanwhile.")),
            ("b", said("b-v", None, "There.")),
            ("b", said("b-u", None, "Here.")),
        ],
        // A line that the harness's own thread repeats of the main thread's response, and a thread that begins with it.
        vec![
            (
                "aside_question-2",
                answered("q4", "msg_4", &words("Said once.")),
            ),
            ("main", answered("m4", "msg_4", &words("Said once."))),
            ("main", said("m6", None, "Meanwhile.")),
            ("a10", said("q4", None, "Said otherwise.")),
        ],
        // A summary of a line, which may be anybody's.
        vec![(
            "main",
            json!({"type": "summary", "summary": "What began", "leafUuid": "m1"}),
        )],
        vec![(
            "main",
            json!({"type": "summary", "summary": "What an agent did", "leafUuid": "a1-1"}),
        )],
        // An agent inside the main thread's file.
        vec![(
            "main",
            json!({"type": "user", "uuid": "s1", "isSidechain": true, "timestamp": "2026-11-24T10:00:03.000Z", "message": {"role": "user", "content": "Inside."}}),
        )],
    ];
    let begun = || {
        let mut threads = Threads::new();
        threads.get("main", &said("m1", None, "Begin."));
        threads.get("a1", &said("a1-1", None, "Look."));
        threads.get("a2", &said("a2-1", Some("m9"), "Look elsewhere."));
        threads.get(question, &said("q1", None, "What is this?"));
        threads.get(question, &answered("q2", "msg_q", &words("A question.")));
        threads
    };
    let mut all = begun();
    for (n, lines) in tied.iter().enumerate() {
        let mut alone = begun();
        for threads in [&mut alone, &mut all] {
            for (thread, line) in lines {
                threads.get(thread, line);
            }
            for thread in ["main", "a1", "a2", question] {
                let uuid = format!("{thread}-{n}-new");
                threads.get(thread, &said(&uuid, None, "One more."));
            }
        }
    }
}

/// Nothing stays of a thread whose file goes, also where nothing is left.
#[test]
fn a_thread_whose_file_goes_is_gone() {
    for gone in [&["main"][..], &["a1"], &["main", "a1"]] {
        let mut threads = Threads::new();
        let folder = threads.folder.path().join(format!("-p/{S}/tool-results"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("b1.txt"), "found").unwrap();
        threads.get("main", &said("m1", None, "Begin."));
        threads.get("a1", &said("a1-1", None, "Look."));
        for thread in gone {
            fs::remove_file(threads.path(thread)).unwrap();
            threads.followed.look(threads.folder.path(), S);
        }
        threads.get("a2", &said("a2-2", None, "And here."));
        threads.get("a2", &said("a2-3", None, "And there."));
    }
}

#[test]
fn a_thread_that_got_no_line_is_the_one_that_it_was() {
    let mut threads = Threads::new();
    for n in 0..70 {
        threads.get("main", &said(&format!("m{n}"), None, "More."));
        threads.get("a1", &said(&format!("a{n}"), None, "Look."));
    }
    let before = threads.first_parts();
    threads.get("main", &said("new", None, "One more."));
    assert!(threads.shares("main", &before) && threads.shares("a1", &before));
    threads.get("a1", &answered("newer", "msg", &words("An answer.")));
    assert!(threads.shares("main", &before) && threads.shares("a1", &before));
    threads.get("a0", &said("a0-1", None, "Look here."));
    assert!(threads.shares("main", &before) && threads.shares("a1", &before));
    // Of a thread with a line twice it is not known beforehand what the line changes.
    threads.get("a1", &said("a3", None, "Look."));
    assert!(!threads.shares("main", &before) && !threads.shares("a1", &before));
}
