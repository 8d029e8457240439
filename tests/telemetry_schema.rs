//! Every telemetry fits the published schema, has its keys in their order, and says what the session holds
//! (`spec/telemetry.md`).

#![allow(clippy::unwrap_used, missing_docs)]

// The other test that shares it uses more of it.
#[allow(dead_code)]
#[path = "support/any_session.rs"]
mod any_session;
#[path = "common/corpus.rs"]
mod corpus;
#[allow(dead_code)]
#[path = "support/values.rs"]
mod values;

use any_session::{Values, make};
use corpus::corpus;
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use sessionfs::artefact::{self, Style};
use sessionfs::session::{Role, Session};
use sessionfs::store::{Source, Store};
use sessionfs::telemetry;
use values::recipe;

fn schema() -> Value {
    serde_json::from_str(&telemetry::schema()).unwrap()
}

/// The schema of one of the forms under `$defs`.
fn form(name: &str) -> Validator {
    let definitions = &schema()["$defs"];
    jsonschema::validator_for(&json!({"$ref": format!("#/$defs/{name}"), "$defs": definitions}))
        .unwrap()
}

struct Forms {
    session: Validator,
    agent: Validator,
    service: Validator,
}

impl Forms {
    fn new() -> Self {
        Self {
            session: jsonschema::validator_for(&schema()).unwrap(),
            agent: form("OwnAgent"),
            service: form("OwnService"),
        }
    }

    /// All telemetry of a session fits; gives the whole session's.
    fn check(&self, session: &Session) -> Value {
        let shown = artefact::whole(session, Style::Cut(Some(8192))).shown;
        for (index, thread) in session.threads.iter().enumerate() {
            let validator = match thread.role {
                Role::Main => continue,
                Role::Agent(_) => &self.agent,
                Role::Service(_) => &self.service,
            };
            let own = artefact::agent(session, index, Style::Cut(Some(8192))).shown;
            fits(validator, &telemetry::agent(session, index, &own));
        }
        fits(&self.session, &telemetry::whole(session, &shown))
    }
}

fn fits(validator: &Validator, telemetry: &[u8]) -> Value {
    assert!(telemetry.ends_with(b"}\n"));
    let value: Value = serde_json::from_slice(telemetry).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    value
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_session_fits_and_its_strings_are_safe(recipe in recipe()) {
        let session = make(&recipe, Values::Hostile).session;
        let value = Forms::new().check(&session);
        let mut open = vec![&value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => check_safe(text),
                Value::Array(values) => open.extend(values),
                Value::Object(members) => {
                    members.keys().for_each(|key| check_safe(key));
                    open.extend(members.values());
                }
                _ => {}
            }
        }
        let sum = |totals: &sessionfs::session::Totals| totals.tool_calls.values().map(|count| count.calls).sum::<u64>();
        let calls = value["tool_calls"].as_object().unwrap().values().map(|calls| calls["calls"].as_u64().unwrap());
        prop_assert_eq!(calls.sum::<u64>(), sum(&session.totals), "names that look the same lose no count");
    }
}

fn check_safe(text: &str) {
    for c in text.chars() {
        assert!(
            !c.is_control()
                && !matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'),
            "{text:?}"
        );
        assert!(!('\u{e0000}'..='\u{e007f}').contains(&c), "{text:?}");
    }
}

const KEYS: [&str; 20] = [
    "schema",
    "session_id",
    "harness",
    "versions",
    "project",
    "title",
    "captured",
    "span",
    "turns",
    "tokens",
    "tool_calls",
    "models",
    "agent_types",
    "copied",
    "main",
    "agents",
    "service",
    "messages",
    "log",
    "completeness",
];
const AGENT_KEYS: [&str; 17] = [
    "id",
    "source",
    "type",
    "description",
    "depth",
    "parent",
    "spawned",
    "joined",
    "concurrent_turns",
    "runs",
    "generations",
    "span",
    "turns",
    "tokens",
    "tool_calls",
    "models",
    "completeness",
];
const COMPLETENESS_KEYS: [&str; 30] = [
    "complete",
    "main_thread",
    "agents_unattributed",
    "agents_without_join",
    "parents_absent",
    "spawns_without_transcript",
    "evidence_conflicts",
    "lines_unparseable",
    "incomplete_tail_bytes",
    "lines_duplicate",
    "line_types_not_shown",
    "line_types_unknown",
    "usage_without_message_id",
    "responses_with_differing_usage",
    "responses_without_stop_reason",
    "counts_not_numbers",
    "timestamps_missing",
    "timestamps_backwards",
    "tool_calls_without_result",
    "tool_results_without_call",
    "stored_results_missing",
    "blocks_cut",
    "bytes_cut",
    "characters_shown_escaped",
    "characters_replaced",
    "crlf_shown_as_lf",
    "sources_unused",
    "record_entries_damaged",
    "log_problem",
    "notes",
];

/// The keys at a level of indentation, in the order in which they are written.
fn keys(json: &str, indent: usize) -> Vec<&str> {
    let start = format!("\n{}\"", " ".repeat(indent));
    json.split(&start)
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect()
}

/// A store with one session: a prompt, an agent called by the assistant, its result.
fn small_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-home-ann-parser");
    let session = "0f0e0d0c-0000-4000-8000-000000000001";
    let line = |uuid: &str, second: u32, rest: Value| {
        let mut line = json!({"uuid": uuid, "sessionId": session, "timestamp": format!("2026-11-30T20:40:{second:02}.500Z"),
            "cwd": "/home/ann/parser", "version": "2.1.207"});
        line.as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        line.to_string() + "\n"
    };
    let usage = |output: u32| json!({"input_tokens": 10, "output_tokens": output, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100});
    let main = [
        line("u1", 1, json!({"type": "user", "message": {"role": "user", "content": "fix\u{1b}[31m it"}})),
        line("a1", 3, json!({"type": "assistant", "requestId": "r1", "message": {"id": "m1", "model": "model-1", "role": "assistant", "stop_reason": "tool_use", "usage": usage(7),
            "content": [{"type": "tool_use", "id": "t1", "name": "Agent", "input": {"description": "look", "prompt": "look here", "subagent_type": "Explore"}}]}})),
        line("r1", 9, json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "found"}]}]},
            "toolUseResult": {"agentId": "a1b2", "status": "completed"}})),
        line("a2", 11, json!({"type": "assistant", "requestId": "r2", "message": {"id": "m2", "model": "model-1", "role": "assistant", "stop_reason": "end_turn", "usage": usage(20),
            "content": [{"type": "text", "text": "done"}]}})),
    ]
    .concat();
    let agent = [
        line("b1", 4, json!({"type": "user", "isSidechain": true, "agentId": "a1b2", "message": {"role": "user", "content": "look here"}})),
        line("b2", 8, json!({"type": "assistant", "isSidechain": true, "agentId": "a1b2", "requestId": "r9", "message": {"id": "m9", "model": "model-2", "role": "assistant", "stop_reason": "end_turn",
            "usage": usage(3), "content": [{"type": "text", "text": "found"}]}})),
    ]
    .concat();
    let agents = project.join(session).join("subagents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(project.join(format!("{session}.jsonl")), main).unwrap();
    std::fs::write(agents.join("agent-a1b2.jsonl"), agent).unwrap();
    let store = Store::new(vec![Source::recognise(folder.path()).unwrap()]);
    (folder, store)
}

fn sessions(store: &Store) -> Vec<Session> {
    let ids: Vec<String> = store.index().ids().map(str::to_owned).collect();
    ids.iter()
        .map(|id| sessionfs::session::open(&store.files(id).unwrap()))
        .collect()
}

#[test]
fn the_keys_stand_in_the_order_of_the_example() {
    let (_folder, store) = small_store();
    let session = &sessions(&store)[0];
    let whole = String::from_utf8(telemetry::whole(session, &artefact::Shown::default())).unwrap();
    assert_eq!(keys(&whole, 2), KEYS);
    let completeness = whole.split("\n  \"completeness\"").nth(1).unwrap();
    assert_eq!(keys(completeness, 4), COMPLETENESS_KEYS);
    let agent =
        String::from_utf8(telemetry::agent(session, 1, &artefact::Shown::default())).unwrap();
    assert_eq!(keys(&agent, 2), AGENT_KEYS);
}

#[test]
fn a_small_session_is_counted_right() {
    let (_folder, store) = small_store();
    let value = Forms::new().check(&sessions(&store)[0]);
    assert_eq!(value["session_id"], "0f0e0d0c-0000-4000-8000-000000000001");
    assert_eq!(value["project"], "parser");
    assert_eq!(value["versions"], json!(["2.1.207"]));
    assert_eq!(
        value["span"],
        json!({"started": "2026-11-30T20:40:01.500Z", "ended": "2026-11-30T20:40:11.500Z", "wall_clock_seconds": 10.0, "active_seconds": 10.0})
    );
    assert_eq!(
        value["turns"],
        json!({"total": 6, "user": 1, "task": 1, "peer": 0, "assistant": 3, "tool_result": 1, "other": 0})
    );
    assert_eq!(value["tokens"]["total"], 375);
    assert_eq!(value["tokens"]["api_responses"], 3);
    assert_eq!(
        value["models"]["model-2"],
        json!({"responses": 1, "input": 10, "output": 3, "cache_creation": 5, "cache_read": 100})
    );
    assert_eq!(
        value["tool_calls"],
        json!({"Agent": {"calls": 1, "errors": 0}})
    );
    assert_eq!(value["agent_types"], json!({"Explore": 1}));
    let agent = &value["agents"][0];
    assert_eq!(agent["parent"], "main");
    assert_eq!(agent["depth"], 1);
    assert_eq!(agent["spawned"]["turn"], 2);
    assert_eq!(agent["spawned"]["tool_use_id"], "t1");
    assert_eq!(
        agent["joined"],
        json!({"turn": 3, "at": "2026-11-30T20:40:09.500Z", "how": "result"})
    );
    assert_eq!(agent["concurrent_turns"], 0);
    assert_eq!(value["completeness"]["complete"], true);
    // In the prompt, and in the title that is made of it.
    assert_eq!(value["title"], "fix\\u{1B}[31m it");
    assert_eq!(value["completeness"]["characters_shown_escaped"], 2);
}

#[test]
fn a_gap_makes_a_session_incomplete() {
    let (folder, store) = small_store();
    let main = folder
        .path()
        .join("-home-ann-parser/0f0e0d0c-0000-4000-8000-000000000001.jsonl");
    let mut bytes = std::fs::read(&main).unwrap();
    bytes.splice(0..0, *b"not a record\n");
    std::fs::write(&main, bytes).unwrap();
    let value = Forms::new().check(&sessions(&store)[0]);
    assert_eq!(value["completeness"]["complete"], false);
    let line = &value["completeness"]["lines_unparseable"][0];
    assert_eq!(
        (&line["line"], &line["offset"], &line["recovered"]),
        (&json!(1), &json!(0), &json!(false))
    );
}

/// Whether every property of every form is described, and every one is required.
#[test]
fn the_schema_describes_and_requires_every_key() {
    let schema = schema();
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, form) in definitions
        .iter()
        .chain([(&"Telemetry".to_owned(), &schema)])
    {
        assert!(form["description"].is_string(), "{name}");
        let Some(properties) = form["properties"].as_object() else {
            continue;
        };
        let required: Vec<&str> = form["required"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{name}.{key}");
            assert!(required.contains(&key.as_str()), "{name}.{key}");
        }
        assert_eq!(form["additionalProperties"], false, "{name}");
    }
    let title = schema["properties"]["title"]["description"].as_str();
    assert!(title.unwrap().contains("first prompt"), "its last resort");
    assert!(
        schema["description"]
            .as_str()
            .unwrap()
            .replace('\n', " ")
            .contains("not a billing record")
    );
}

#[test]
fn the_corpus_fits_and_its_parts_add_up() {
    let folder = corpus();
    let forms = Forms::new();
    for session in sessions(&Store::new(vec![Source::recognise(&folder).unwrap()])) {
        let value = forms.check(&session);
        for key in [
            "input",
            "output",
            "cache_creation",
            "cache_read",
            "total",
            "api_responses",
            "usage_lines_seen",
        ] {
            let of = |part: &Value| part["tokens"][key].as_u64().unwrap();
            let list = |name: &str| value[name].as_array().unwrap().iter().map(of).sum::<u64>();
            let main = if value["main"].is_null() {
                0
            } else {
                of(&value["main"])
            };
            assert_eq!(
                main + list("agents") + list("service"),
                of(&value),
                "{key} of {}",
                session.id
            );
        }
    }
}
