//! Every key of `completeness`, each made to say something by an invented session, and `complete` only where all is known.

#![allow(clippy::unwrap_used)]

mod invented;

use invented::{S, session_in};
use serde_json::Value;
use sessionfs::{artefact, telemetry};
use std::fs;

/// A prompt, and an answer that calls a tool, with its result: a session of which everything is known.
const WHOLE: [&str; 3] = [
    r#"{"type":"user","uuid":"u1","timestamp":"2026-01-01T00:00:01Z","message":{"content":"go"}}"#,
    r#"{"type":"assistant","uuid":"a1","timestamp":"2026-01-01T00:00:02Z","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}],"stop_reason":"tool_use","usage":{"output_tokens":5}}}"#,
    r#"{"type":"user","uuid":"r1","timestamp":"2026-01-01T00:00:03Z","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#,
];

const SPAWN: &str = r#"{"type":"assistant","uuid":"s1","timestamp":"2026-01-01T00:00:04Z","message":{"id":"m9","content":[{"type":"tool_use","id":"tu1","name":"Agent","input":{"prompt":"x"}}],"stop_reason":"tool_use"}}"#;
const SPAWN_RESULT: &str = r#"{"type":"user","uuid":"s2","timestamp":"2026-01-01T00:00:05Z","message":{"content":[{"type":"tool_result","tool_use_id":"tu1","content":"ok"}]},"toolUseResult":{"agentId":"ab12"}}"#;
const AGENT: &str = r#"{"type":"user","uuid":"b1","timestamp":"2026-01-01T00:00:04Z","isSidechain":true,"message":{"content":"y"}}"#;

/// The completeness of the whole session with more lines behind it, and with more files (paths below the session's folder).
fn completeness(lines: &[&str], files: &[(&str, &str)]) -> Value {
    let all = WHOLE.iter().chain(lines).map(|line| format!("{line}\n"));
    of_main(Some(&all.collect::<String>()), files)
}

fn of_main(main: Option<&str>, files: &[(&str, &str)]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-home-user-example");
    fs::create_dir_all(project.join(S)).unwrap();
    if let Some(main) = main {
        fs::write(project.join(format!("{S}.jsonl")), main).unwrap();
    }
    for (path, text) in files {
        let path = project.join(S).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let session = session_in(folder.path(), S);
    let shown = artefact::whole(&session, artefact::Style::Cut(Some(100))).shown;
    let telemetry: Value = serde_json::from_slice(&telemetry::whole(&session, &shown)).unwrap();
    telemetry["completeness"].clone()
}

/// Whether a key of the completeness says nothing.
fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text == "present",
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// A line of a prompt with this content, a JSON value.
fn prompt(content: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"p1","timestamp":"2026-01-01T00:00:06Z","message":{{"content":{content}}}}}"#
    )
}

/// A line of an answer with this `message`, but for its content.
fn answer(message: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"a9","timestamp":"2026-01-01T00:00:06Z","message":{{{message},"content":[]}}}}"#
    )
}

#[test]
fn a_session_of_which_everything_is_known_is_complete() {
    let whole = completeness(&[], &[]);
    let loud: Vec<_> = whole
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| !is_silent(value))
        .collect();
    assert!(loud.is_empty(), "{loud:?}");
    assert_eq!(whole["complete"], true);
    let placed = completeness(
        &[SPAWN, SPAWN_RESULT],
        &[("subagents/agent-ab12.jsonl", AGENT)],
    );
    assert_eq!(placed["complete"], true, "{placed}");
}

#[test]
fn every_key_says_its_own_gap() {
    let agent = ("subagents/agent-ab12.jsonl", AGENT);
    let sidecar = |text: &'static str| ("subagents/agent-ab12.meta.json", text);
    let other_call = SPAWN
        .replace("tu1", "tu2")
        .replace("s1", "s3")
        .replace("m9", "m8");
    let long = prompt(&format!("\"{}\"", "word ".repeat(100)));
    let whole = WHOLE.join("\n");
    let cases: Vec<(&str, Value)> = vec![
        ("main_thread", of_main(None, &[agent])),
        ("agents_unattributed", completeness(&[], &[agent])),
        (
            "agents_without_join",
            completeness(&[SPAWN], &[agent, sidecar(r#"{"toolUseId":"tu1"}"#)]),
        ),
        (
            "parents_absent",
            completeness(&[], &[agent, sidecar(r#"{"toolUseId":"gone"}"#)]),
        ),
        (
            "spawns_without_transcript",
            completeness(&[SPAWN, SPAWN_RESULT], &[]),
        ),
        (
            "evidence_conflicts",
            completeness(
                &[SPAWN, SPAWN_RESULT, &other_call],
                &[agent, sidecar(r#"{"toolUseId":"tu2"}"#)],
            ),
        ),
        ("lines_unparseable", completeness(&["no json"], &[])),
        (
            "incomplete_tail_bytes",
            of_main(Some(&format!("{whole}\n{{\"type\":\"us")), &[]),
        ),
        ("lines_duplicate", completeness(&[WHOLE[0]], &[])),
        (
            "line_types_not_shown",
            completeness(&[r#"{"type":"mode","mode":"normal"}"#], &[]),
        ),
        (
            "line_types_unknown",
            completeness(&[r#"{"type":"brand-new"}"#], &[]),
        ),
        (
            "usage_without_message_id",
            completeness(
                &[&answer(
                    r#""stop_reason":"end_turn","usage":{"output_tokens":1}"#,
                )],
                &[],
            ),
        ),
        (
            "responses_with_differing_usage",
            completeness(
                &[&answer(
                    r#""id":"m1","stop_reason":"end_turn","usage":{"output_tokens":9}"#,
                )],
                &[],
            ),
        ),
        (
            "responses_without_stop_reason",
            completeness(&[&answer(r#""id":"m2","usage":{"output_tokens":9}"#)], &[]),
        ),
        (
            "counts_not_numbers",
            completeness(
                &[&answer(
                    r#""id":"m2","stop_reason":"end_turn","usage":{"output_tokens":"9"}"#,
                )],
                &[],
            ),
        ),
        (
            "timestamps_missing",
            completeness(&[r#"{"type":"user","message":{"content":"x"}}"#], &[]),
        ),
        (
            "timestamps_backwards",
            completeness(&[&prompt("\"x\"").replace("00:00:06", "00:00:01")], &[]),
        ),
        (
            "tool_calls_without_result",
            completeness(&[&SPAWN.replace("Agent", "Bash")], &[]),
        ),
        (
            "tool_results_without_call",
            completeness(
                &[&prompt(
                    r#"[{"type":"tool_result","tool_use_id":"t7","content":"x"}]"#,
                )],
                &[],
            ),
        ),
        (
            "stored_results_missing",
            completeness(
                &[
                    &SPAWN.replace("Agent", "Bash"),
                    &prompt(
                        r#"[{"type":"tool_result","tool_use_id":"tu1","content":"<persisted-output>\nOutput too large. Full output saved to: /home/user/.claude/tool-results/b1.txt\n</persisted-output>"}]"#,
                    ),
                ],
                &[],
            ),
        ),
        ("blocks_cut", completeness(&[&long], &[])),
        ("bytes_cut", completeness(&[&long], &[])),
        (
            "characters_shown_escaped",
            completeness(&[&prompt(r#""a\u001bb""#)], &[]),
        ),
        (
            "characters_replaced",
            completeness(&[&prompt(r#""a\ud800b""#)], &[]),
        ),
        (
            "crlf_shown_as_lf",
            completeness(&[&prompt(r#""a\r\nb""#)], &[]),
        ),
        (
            "sources_unused",
            completeness(&[], &[("notes.txt", "mine")]),
        ),
        (
            "notes",
            completeness(&[&answer(r#""id":"m2","usage":{"output_tokens":9}"#)], &[]),
        ),
    ];
    // What takes nothing from what is known.
    let harmless = [
        "lines_duplicate",
        "line_types_not_shown",
        "responses_with_differing_usage",
        "timestamps_backwards",
        "characters_shown_escaped",
        "crlf_shown_as_lf",
    ];
    for (key, said) in &cases {
        assert!(!is_silent(&said[key]), "{key}: {said}");
        assert_eq!(said["complete"], harmless.contains(key), "{key}: {said}");
    }
    let mut untold: Vec<_> = completeness(&[], &[])
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    untold.retain(|key| cases.iter().all(|(told, _)| told != key));
    // The record's and the log's own keys have their tests where entries and logs are made.
    assert_eq!(
        untold,
        ["complete", "log_problem", "record_entries_damaged"]
    );
}

#[test]
fn what_the_harness_never_stores_is_said() {
    // [T11]
    let search = SPAWN.replace("Agent", "WebSearch");
    let said = completeness(&[&search, SPAWN_RESULT], &[]);
    let notes = said["notes"].as_array().unwrap();
    assert!(
        notes
            .iter()
            .any(|note| note.as_str().unwrap().starts_with("1 web search")),
        "{said}"
    );
}
