//! `DuckDB`, pandas and jq read `telemetry.json`, `turns.ndjson` and `sessions.tsv` straight from a mount.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, NOTES, PARSER, python, tool, write};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A session whose words are hard on whoever reads tables and JSON.
const HARD: &str = "0dd0dd00-0000-4000-8000-000000000001";

fn hard_lines() -> String {
    let line = |value: &Value| format!("{value}\n");
    let prompt = "\"open\tquote, a \\ and a \u{1b}[31mcolour\u{1b}[0m, \u{202e}odd\u{2028}order";
    let text = line(&json!({
        "type": "user", "uuid": "u1", "timestamp": "2026-11-28T10:00:00.000Z", "cwd": "/home/user/hard",
        "message": {"role": "user", "content": prompt},
    }));
    // A lone surrogate, a number that is no double, keys that stand twice, a value that is nested deep.
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let input = format!(r#"{{"cut":"\ud83d","big":1e999,"a":1,"a":2,"deep":{deep},"odd":01}}"#);
    let call = format!(
        r#"{{"type":"assistant","uuid":"a1","timestamp":"2026-11-28T10:00:02.000Z","message":{{"id":"m1","model":"x-1","stop_reason":"tool_use","content":[{{"type":"tool_use","id":"t1","name":"Odd","input":{input}}}],"usage":{{"input_tokens":3,"output_tokens":4}}}}}}"#
    );
    text + &call + "\n"
}

/// What a Python program prints, run in this directory, as JSON.
fn python(folder: &Path, program: &str) -> Value {
    let output = Command::new(python::interpreter())
        .args(["-c", program])
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}\n{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn tables_and_json_open_in_duckdb_pandas_and_jq() {
    let home = Home::new();
    let store = home.demo("store");
    write(
        &store.join(format!("-home-user-hard/{HARD}.jsonl")),
        hard_lines(),
    );
    let mounted = home.mount(&[&store], "mnt");
    let folder = mounted.point.parent().unwrap();
    let whole: Vec<Value> = [HARD, PARSER, NOTES]
        .iter()
        .map(|id| {
            let text = std::fs::read(mounted.path(&format!("sessions/{id}/telemetry.json")));
            serde_json::from_slice(&text.unwrap()).unwrap()
        })
        .collect();
    let tokens: Vec<&Value> = whole.iter().map(|one| &one["tokens"]["total"]).collect();
    let turns: Vec<u64> = whole
        .iter()
        .map(|one| one["turns"]["total"].as_u64().unwrap())
        .collect();

    let duckdb = python(
        folder,
        r#"
import duckdb, json
sessions = duckdb.sql("SELECT id::VARCHAR, title, agents FROM read_csv('mnt/sessions.tsv', delim = '\t')").fetchall()
tokens = duckdb.sql("SELECT session_id::VARCHAR, tokens.total FROM read_json('mnt/sessions/*/telemetry.json', union_by_name = true)").fetchall()
turns = duckdb.sql("SELECT filename, count(*), max(turn) FROM read_json('mnt/sessions/*/turns.ndjson', filename = true) GROUP BY filename").fetchall()
print(json.dumps([sessions, dict(tokens), {name.split('/')[2]: [n, last] for name, n, last in turns}]))
"#,
    );
    let title = r#"\"open\tquote, a \\ and a \u{1B}[31mcolour\u{1B}[0m, \u{202E}odd\u{2028}order"#;
    assert_eq!(
        duckdb[0],
        json!([
            [HARD, title, 0],
            [PARSER, "Fix the amount parser", 2],
            [NOTES, "pipefail explained", 0]
        ])
    );
    assert_eq!(
        duckdb[1],
        json!({HARD: tokens[0], PARSER: tokens[1], NOTES: tokens[2]})
    );
    // The turns of the whole session are those of its agents too.
    let lines = |id: &str| {
        let text = std::fs::read_to_string(mounted.path(&format!("sessions/{id}/turns.ndjson")));
        text.unwrap().lines().count() as u64
    };
    for (id, all) in [HARD, PARSER, NOTES].iter().zip(&turns) {
        assert_eq!(duckdb[2][id], json!([lines(id), lines(id)]));
        assert!(lines(id) <= *all);
    }

    let pandas = python(
        folder,
        r"
import pandas as pd, json
sessions = pd.read_csv('mnt/sessions.tsv', sep='\t', parse_dates=['started', 'ended'])
turns = pd.read_json(f'mnt/sessions/{sessions.id[0]}/turns.ndjson', lines=True)
telemetry = pd.json_normalize([json.load(open(f'mnt/sessions/{id}/telemetry.json')) for id in sessions.id])
print(json.dumps([list(sessions.id), sessions.title[0], (sessions.ended - sessions.started).dt.total_seconds().tolist()[0],
    list(turns.kind), turns.blocks[0][0]['text'], turns.blocks[1][0]['input'], telemetry['tokens.total'].tolist()]))
",
    );
    assert_eq!(pandas[0], json!([HARD, PARSER, NOTES]));
    assert_eq!(pandas[1], title);
    assert_eq!(pandas[2], json!(2.0));
    assert_eq!(pandas[3], json!(["user", "assistant"]));
    let prompt = "\"open\tquote, a \\ and a \u{1b}[31mcolour\u{1b}[0m, \u{202e}odd\u{2028}order";
    assert_eq!(pandas[4], prompt, "the text as it was recorded");
    let input = pandas[5].as_str().unwrap();
    assert!(
        input.starts_with(r#"{"cut":"\ud83d","big":1e999,"#),
        "nested too deep for parsers: its text"
    );
    assert_eq!(pandas[6], json!(tokens));

    let table = mounted.path(&format!("sessions/{HARD}/turns.ndjson"));
    let found = tool(
        "jq",
        [
            "-r",
            ".blocks[0].text // .blocks[0].name",
            table.to_str().unwrap(),
        ],
    );
    assert_eq!(
        String::from_utf8(found).unwrap(),
        format!("{prompt}\nOdd\n")
    );
    let telemetry = mounted.path("sessions/*/telemetry.json");
    let script = format!("jq -s 'map(.tokens.total) | add' {}", telemetry.display());
    let sum: u64 = tokens.iter().filter_map(|n| n.as_u64()).sum();
    assert_eq!(tool("bash", ["-c", &script]), format!("{sum}\n").as_bytes());
    let script = format!(
        "awk -F '\\t' 'NF != 8' {}",
        mounted.path("sessions.tsv").display()
    );
    assert_eq!(tool("bash", ["-c", &script]), b"");
}
