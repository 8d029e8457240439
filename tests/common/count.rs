//! An independent count of a session's tokens, written from `spec/telemetry.md` alone and sharing no code with the program:
//! `serde_json::Value` a line, plain maps, no threads.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tokens of one response, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_creation: u64,
    pub cache_read: u64,
    pub responses: u64,
    pub lines: u64,
}

/// The files of each session of a projects folder, by session ID.
pub fn sessions(projects: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for project in folder(projects) {
        for path in folder(&project) {
            let name = name(&path);
            if path.is_dir() {
                let agents = below(&path).into_iter().filter(|path| is_agent(path));
                found.entry(name).or_default().extend(agents);
            } else if is_agent(&path) {
                found.entry(session_of_lines(&path)).or_default().push(path);
            } else if let Some(id) = name.strip_suffix(".jsonl") {
                found.entry(id.to_owned()).or_default().push(path);
            }
        }
    }
    found.retain(|_, files| !files.is_empty());
    found
}

/// The tokens of a session, each response once.
pub fn tokens(files: &[PathBuf]) -> Tokens {
    let mut threads: Vec<(u8, String, Vec<Value>)> = files
        .iter()
        .map(|file| {
            let lines = records(file);
            let start = lines.iter().find_map(|line| line["timestamp"].as_str());
            (rank(file, &lines), start.unwrap_or("~").to_owned(), lines)
        })
        .collect();
    // The main thread owns a response before an agent, an agent before a service thread, an earlier agent before a later.
    threads.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));

    let mut responses: BTreeMap<String, (usize, Tokens)> = BTreeMap::new();
    let mut seen = 0;
    for (owner, (_, _, lines)) in threads.iter().enumerate() {
        for (number, line) in lines.iter().enumerate() {
            let message = &line["message"];
            let usage = &message["usage"];
            if line["type"] != "assistant" || !usage.is_object() {
                continue;
            }
            seen += 1;
            if message["model"] == "<synthetic>" || line["isApiErrorMessage"] == true {
                continue;
            }
            let key = [&message["id"], &line["requestId"], &line["uuid"]]
                .iter()
                .position(|key| key.as_str().is_some_and(|key| !key.is_empty()));
            let key = match key {
                Some(0) => format!("message {}", message["id"]),
                Some(1) => format!("request {}", line["requestId"]),
                Some(_) => format!("line {}", line["uuid"]),
                None => format!("nothing {owner} {number}"),
            };
            let this = Tokens {
                input: count(&usage["input_tokens"]),
                output: count(&usage["output_tokens"]),
                cache_creation: count(&usage["cache_creation_input_tokens"]),
                cache_read: count(&usage["cache_read_input_tokens"]),
                responses: 1,
                lines: 0,
            };
            let best = responses.entry(key).or_insert((owner, this));
            if best.0 == owner && this.output >= best.1.output {
                best.1 = this;
            }
        }
    }

    let mut sum = Tokens {
        lines: seen,
        ..Tokens::default()
    };
    for (_, one) in responses.values() {
        sum.input += one.input;
        sum.output += one.output;
        sum.cache_creation += one.cache_creation;
        sum.cache_read += one.cache_read;
        sum.responses += 1;
    }
    sum
}

/// 0 for the main thread, 1 for an agent, 2 for work of the harness itself.
fn rank(file: &Path, lines: &[Value]) -> u8 {
    let name = name(file);
    let warm_up = || {
        let first = lines.iter().find(|line| line["type"] == "user");
        first.is_some_and(|line| line["message"]["content"] == "Warmup")
    };
    if !is_agent(file) {
        0
    } else if [
        "agent-acompact-",
        "agent-aside_question-",
        "agent-aprompt_suggestion-",
    ]
    .iter()
    .any(|kind| name.starts_with(kind))
        || warm_up()
    {
        2
    } else {
        1
    }
}

/// The records of a file: a line each; of a damaged line the longest whole record at its end, and whole ones glued together.
fn records(file: &Path) -> Vec<Value> {
    let bytes = std::fs::read(file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let mut found = Vec::new();
    for line in text.split('\n') {
        let line = without_lone_surrogates(line);
        let starts = ["{\"parentUuid\"", "{\"type\""]
            .map(|start| line.match_indices(start).map(|(at, _)| at));
        let mut starts: Vec<usize> = starts.into_iter().flatten().chain([0]).collect();
        starts.sort_unstable();
        let whole = starts.into_iter().find_map(|at| {
            let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&line[at..])
                .into_iter()
                .collect();
            all.ok()
        });
        found.extend(whole.into_iter().flatten());
    }
    found
}

/// `serde_json` refuses a UTF-16 half as an escape; other readers take it.
fn without_lone_surrogates(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let unit = |from: usize| {
            let digits = rest.get(from..from + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(digits, 16).ok()
        };
        let take = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.push_str("\\ufffd");
                rest = &rest[at + 6..];
                continue;
            }
            _ => 1 + rest[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[at..at + take]);
        rest = &rest[at + take..];
    }
    out.push_str(rest);
    out
}

/// A count: a number, a whole float, a string of digits; everything else is none.
#[allow(clippy::cast_sign_loss)]
fn count(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| {
                number
                    .as_f64()
                    .filter(|f| f.fract() == 0.0 && *f >= 0.0)
                    .map(|f| f as u64)
            })
            .unwrap_or(0),
        Value::String(text) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

fn session_of_lines(file: &Path) -> String {
    let id = records(file)
        .iter()
        .find_map(|line| line["sessionId"].as_str().map(str::to_owned));
    id.unwrap_or_default()
}

fn is_agent(path: &Path) -> bool {
    let name = name(path);
    name.starts_with("agent-")
        && path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn folder(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![path.to_path_buf()];
    while let Some(here) = waiting.pop() {
        for path in folder(&here) {
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}
