//! What the parts of the reader's hot path cost, each by itself: `cargo bench --bench parts`.
//!
//! The transcript is made here, of the kinds of text that fill real ones: prose, code, a terminal's output with its escapes, and
//! for each tool's result its structured copy, which is nearly half of all bytes. `scripts/bench` measures the whole.

use criterion::{Criterion, Throughput};
use serde_json::{Value, json};
use sessionfs::artefact::contain::Page;
use sessionfs::artefact::{self, Style};
use sessionfs::session;
use sessionfs::session_log::{Role, SessionLogStore};
use sessionfs::store::{Source, Store};
use sessionfs::transcript::claude_code;
use sessionfs::transcript::display::{self, Shown};
use sessionfs::transcript::lines::{Reading, Records};
use sessionfs::transcript::text::{Form, Raw};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

const SESSION: &str = "5e551015-0000-4000-8000-000000000001";
const CREATED: &str = "2026-11-30T10:00:00Z";
/// Calls of a tool, each with its result: about 4 MB.
const CALLS: usize = 500;
const EVENTS: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let transcript = transcript();
    let mut criterion = Criterion::default().configure_from_args();
    scan(&mut criterion, &transcript);
    texts(&mut criterion);
    whole(&mut criterion, folder.path(), &transcript)?;
    frames(&mut criterion, folder.path())?;
    criterion.final_summary();
    Ok(())
}

/// Lines cut apart, and lines cut apart and their fields read.
fn scan(criterion: &mut Criterion, transcript: &[u8]) {
    let mut group = criterion.benchmark_group("lines");
    group.throughput(Throughput::Bytes(transcript.len() as u64));
    group.bench_function("cut", |b| {
        b.iter(|| Records::new(0).take(black_box(transcript), |_| Reading::Read));
    });
    group.bench_function("read", |b| {
        b.iter(|| claude_code::read(black_box(transcript), 0, 0));
    });
    group.finish();
}

/// Long texts: unescaped while their line is read, put into a fence as they are kept, and, where a character in them must not reach
/// a terminal, written in their display form.
fn texts(criterion: &mut Criterion) {
    let text: String = (0..200).map(paragraphs).collect();
    let message = json!({"role": "user", "content": text});
    let line = line(0, json!({"type": "user", "message": message}));
    let kept = Raw {
        bytes: text.as_bytes(),
        form: Form::Shown,
    };
    let output: String = (0..80).map(terminal).collect();
    let stored = Value::from(output).to_string();
    let escaped = Raw {
        bytes: &stored.as_bytes()[1..stored.len() - 1],
        form: Form::JsonString,
    };
    let mut group = criterion.benchmark_group("text");
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_function("unescape", |b| {
        b.iter(|| claude_code::read(black_box(line.as_bytes()), 0, 0));
    });
    group.throughput(Throughput::Bytes(kept.bytes.len() as u64));
    group.bench_function("fence", |b| {
        b.iter(|| {
            let mut page = Page::with_capacity(kept.bytes.len() + 96);
            page.fence(black_box(kept), None);
            page
        });
    });
    group.throughput(Throughput::Bytes(escaped.bytes.len() as u64));
    group.bench_function("display", |b| {
        let mut out = Vec::new();
        b.iter(|| {
            out.clear();
            display::write(black_box(escaped), &mut out, &mut Shown::default());
        });
    });
    group.finish();
}

/// A session opened from its files, and each artefact rendered from the opened session.
fn whole(
    criterion: &mut Criterion,
    folder: &Path,
    transcript: &[u8],
) -> Result<(), Box<dyn Error>> {
    let projects = folder.join("projects");
    std::fs::create_dir_all(projects.join("-home-user-tally"))?;
    let name = format!("-home-user-tally/{SESSION}.jsonl");
    std::fs::write(projects.join(name), transcript)?;
    let store = Store::new(vec![Source::transcripts(&projects)?]);
    let files = store.files(SESSION).ok_or("the session is not found")?;
    let mut group = criterion.benchmark_group("session");
    group.throughput(Throughput::Bytes(transcript.len() as u64));
    group.bench_function("open", |b| b.iter(|| session::open(black_box(&files))));
    let opened = session::open(&files);
    for (name, style) in [
        ("artefact", Style::Cut(Some(8192))),
        ("full artefact", Style::Full),
        ("spine", Style::Spine),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| artefact::whole(black_box(&opened), style));
        });
    }
    group.finish();
    Ok(())
}

/// Every frame of a log verified.
fn frames(criterion: &mut Criterion, folder: &Path) -> Result<(), Box<dyn Error>> {
    let store = SessionLogStore::new(folder);
    let mut log = store.create("log", CREATED)?;
    for number in 0..EVENTS {
        log.append(Role::UserMessage, &paragraphs(number))?;
    }
    let length = std::fs::metadata(log.path())?.len();
    drop(log);
    let mut group = criterion.benchmark_group("log");
    group.throughput(Throughput::Bytes(length));
    group.bench_function("verify", |b| b.iter(|| store.read("log")));
    group.finish();
    Ok(())
}

/// A main thread: a prompt, then calls of a tool and their results.
fn transcript() -> Vec<u8> {
    let mut lines = vec![line(
        0,
        json!({"type": "user", "message": {"role": "user", "content": "Make the tests pass."}}),
    )];
    for number in 0..CALLS {
        let call = format!("toolu_{number}");
        let result = terminal(number);
        lines.push(line(
            2 * number + 1,
            json!({
                "type": "assistant",
                "requestId": format!("req_{number}"),
                "message": {
                    "id": format!("msg_{number}"), "role": "assistant", "model": "invented-1", "stop_reason": "tool_use",
                    "usage": {"input_tokens": 4, "output_tokens": number, "cache_read_input_tokens": 9_000},
                    "content": [
                        {"type": "text", "text": paragraphs(number)},
                        {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": format!("cargo test part_{number}")}},
                    ],
                },
            }),
        ));
        lines.push(line(
            2 * number + 2,
            json!({
                "type": "user",
                "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": result}]},
                "toolUseResult": {"stdout": result, "stderr": "", "interrupted": false},
            }),
        ));
    }
    lines.concat().into_bytes()
}

/// One line, with the fields that every line has.
fn line(number: usize, mut fields: Value) -> String {
    fields["uuid"] = format!("u{number}").into();
    fields["parentUuid"] = number
        .checked_sub(1)
        .map(|before| format!("u{before}"))
        .into();
    fields["sessionId"] = SESSION.into();
    fields["cwd"] = "/home/user/tally".into();
    fields["version"] = "2.1.207".into();
    fields["timestamp"] =
        format!("2026-11-30T10:{:02}:{:02}Z", number / 60 % 60, number % 60).into();
    fields.to_string() + "\n"
}

/// Prose with names in backticks and quotation marks, and a block of code: about 1 KB.
fn paragraphs(number: usize) -> String {
    format!(
        "{prose}\n\n```rust\n{code}```\n",
        prose = format!(
            "- The parser of `part_{number}()` takes \"{number}\" for a name — naïve, because `next()` stops at the comma. "
        )
        .repeat(5),
        code = format!("\tlet total_{number} = lines.iter().map(|line| line.len()).sum::<usize>(); // \"so far\"\n").repeat(5),
    )
}

/// What a test run prints on a terminal that shows colours: about 2.5 KB.
fn terminal(number: usize) -> String {
    let test = |part| format!("test part_{number}::case_{part} ... \u{1b}[32mok\u{1b}[0m\n");
    (0..60).map(test).collect()
}
