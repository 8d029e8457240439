//! Copies and agents: what a person sees of the kinds that others ran into (`formats/hard-cases.md`, B and C; the number of the
//! case stands at each test). How each is counted and placed has its tests in `session.rs`, `agents.rs` and `layouts.rs`.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{S, T, World, prompt, time};
use serde_json::{Value, json};
use std::fs::File;

fn file(world: &World, name: &str) -> String {
    world.text(&format!("sessions/{S}/{name}"))
}

fn telemetry(world: &World) -> Value {
    serde_json::from_str(&file(world, "telemetry.json")).unwrap()
}

#[test]
fn a_session_tells_what_it_copied_as_soon_as_the_older_one_says_that_it_goes_on_there() {
    // T18: r1 to r3 are in both, and the older session gets its last line when the other one was looked at already.
    let said = |uuid: &str, second| {
        json!({"type": "assistant", "uuid": uuid, "timestamp": time(second), "message": {"id": uuid, "model": "x-1",
            "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 10}}})
        .to_string()
            + "\n"
    };
    let shared = said("r2", 2) + &said("r3", 3);
    let world = World::new();
    world.write(&format!("{T}.jsonl"), &(said("r1", 1) + &shared));
    world.write(&format!("{S}.jsonl"), &(shared + &said("r4", 4)));
    let path = format!("sessions/{S}/telemetry.json");
    let before = world.attributes(&path).version;
    assert_eq!(telemetry(&world)["copied"], Value::Null);
    world.append(
        &format!("{T}.jsonl"),
        &format!("{{\"type\":\"continued-in\",\"continuedInSessionId\":\"{S}\"}}\n"),
    );
    assert_ne!(world.attributes(&path).version, before);
    let copied = &telemetry(&world)["copied"];
    assert_eq!(copied["sessions"], json!([T]));
    assert_eq!(copied["tokens"]["output"], 20);
    assert_eq!(copied["tokens"]["api_responses"], 2);
    assert!(file(&world, "artefact.md").contains(&format!(
        "of them also in older sessions, of which this one is a copy or a continuation: 22 in `{T}`"
    )));
    let other = world.text(&format!("sessions/{T}/telemetry.json"));
    let other: Value = serde_json::from_str(&other).unwrap();
    assert_eq!(other["copied"], Value::Null, "the older one copied nothing");
}

#[test]
fn what_other_sessions_say_of_one_is_read_at_their_ends_alone() {
    // T18, T53: a neighbour of a terabyte, whose end is looked at, costs what a small one costs.
    let world = World::new();
    world.write(&format!("{S}.jsonl"), &(prompt("u1", 0, "go") + "\n"));
    let name = format!("{T}.jsonl");
    world.write(&name, &(prompt("u9", 0, "before") + "\n"));
    let giant = File::options().write(true).open(world.path(&name)).unwrap();
    giant.set_len(1 << 40).unwrap();
    drop(giant);
    let elsewhere = "1ab2c3d4-0000-4000-8000-000000000009";
    world.append(
        &name,
        &format!("\n{{\"type\":\"continued-in\",\"continuedInSessionId\":\"{elsewhere}\"}}\n"),
    );
    let known = telemetry(&world);
    assert_eq!(known["copied"], Value::Null);
    assert_eq!(known["completeness"]["complete"], true, "{known}");
}

#[test]
fn a_second_compaction_hides_and_doubles_nothing() {
    // T14: the second boundary follows a copy of an earlier line.
    let world = World::new();
    let said = |uuid: &str, parent: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":"{parent}","message":{{"id":"m{uuid}","model":"x-1","content":[{{"type":"text","text":"said {uuid}"}}],"stop_reason":"end_turn","usage":{{"output_tokens":1}}}}}}"#
        )
    };
    let boundary = |uuid: &str, more: &str| {
        format!(
            r#"{{"type":"system","subtype":"compact_boundary","uuid":"{uuid}","parentUuid":null,"logicalParentUuid":"a1","compactMetadata":{{"trigger":"manual","preTokens":9{more}}}}}"#
        )
    };
    let kept = r#","preservedSegment":{"headUuid":"a2","anchorUuid":"s2","tailUuid":"a1"}"#;
    let lines = [
        prompt("u1", 0, "go"),
        said("a1", "u1"),
        boundary("c1", ""),
        r#"{"type":"user","uuid":"s1","parentUuid":"c1","isCompactSummary":true,"message":{"role":"user","content":"summary"}}"#.to_owned(),
        said("a2", "s1"),
        said("a1", "u1"),
        boundary("c2", kept),
    ];
    world.write(&format!("{S}.jsonl"), &(lines.join("\n") + "\n"));
    let text = file(&world, "artefact.md");
    let places = ["said a1", "COMPACTED", "summary", "said a2"];
    let places = places.map(|words| {
        let words = words.to_lowercase();
        text.to_lowercase().rfind(&words).unwrap()
    });
    assert_eq!(text.matches("said a1").count(), 1);
    assert!(places[0] < places[2] && places[2] < places[3], "{text}");
    assert!(places[3] < places[1], "the second boundary stands last");
    let telemetry = telemetry(&world);
    assert_eq!(telemetry["turns"]["total"], 4);
    assert_eq!(telemetry["tokens"]["output"], 2);
    assert_eq!(telemetry["completeness"]["lines_duplicate"], 1);
}

#[test]
fn an_agents_file_is_listed_under_its_session_and_its_thread_is_whole() {
    // T25, T39: all lines of an agent are sidechain lines; and nothing but its place tells whose it is.
    let world = World::new();
    world.write(&format!("{S}.jsonl"), &(prompt("u1", 0, "go") + "\n"));
    let task = json!({"type": "user", "uuid": "b1", "isSidechain": true, "agentId": "a7", "sessionId": S,
        "timestamp": time(1), "message": {"role": "user", "content": "Look around."}});
    let found = json!({"type": "assistant", "uuid": "b2", "parentUuid": "b1", "isSidechain": true, "agentId": "a7",
        "sessionId": S, "timestamp": time(2), "message": {"id": "m1", "model": "x-1", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "All is fine."}], "usage": {"output_tokens": 7}}});
    world.write(
        &format!("{S}/subagents/agent-a7.jsonl"),
        &format!("{task}\n{found}\n"),
    );
    assert_eq!(world.names("sessions"), [S]);
    assert_eq!(world.text("sessions.tsv").lines().count(), 2);
    for name in ["agents/a7/artefact.md", "artefact.md"] {
        let text = file(&world, name);
        assert!(
            text.contains("Look around.") && text.contains("All is fine."),
            "{name}"
        );
    }
    assert_eq!(
        world.names(&format!("sessions/{S}/agents/a7/turns")),
        ["000001-task.md", "000002-assistant.md"]
    );
    assert_eq!(
        world.names(&format!("sessions/{S}/turns")),
        ["000001-user.md"],
        "and the main thread is its own"
    );
}

#[test]
fn an_empty_output_file_takes_nothing_from_a_background_agent() {
    // T38: the transcript says what the agent said, whatever the file that was to hold it.
    let world = World::new();
    world.session(S);
    let output = format!("{S}/tasks/a7.output");
    let section = || {
        let text = file(&world, "agents/a7/artefact.md");
        text[text.find("\n## Agent `a7`").unwrap()..].to_owned()
    };
    let before = section();
    assert!(before.contains("\nLook.\n"));
    world.write(&output, "");
    assert_eq!(section(), before);
    assert_eq!(telemetry(&world)["completeness"]["agents_unattributed"], 0);
    assert_eq!(world.names(&format!("sessions/{S}/agents")), ["a7"]);
}

#[test]
fn an_agent_that_ran_several_times_stands_in_the_artefact_once() {
    // T40
    let world = World::new();
    let call = |uuid: &str, second, id: &str, tool: &str, input: Value| {
        json!({"type": "assistant", "uuid": uuid, "timestamp": time(second), "message": {"id": uuid, "model": "x-1",
            "stop_reason": "tool_use", "content": [{"type": "tool_use", "id": id, "name": tool, "input": input}]}})
    };
    let result = |uuid: &str, second, id: &str| {
        json!({"type": "user", "uuid": uuid, "timestamp": time(second), "message": {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]},
            "toolUseResult": {"agentId": "a7", "status": "completed"}})
    };
    let task = |uuid: &str, second, text: &str| {
        json!({"type": "user", "uuid": uuid, "isSidechain": true, "agentId": "a7", "sessionId": S,
            "timestamp": time(second), "message": {"role": "user", "content": text}})
    };
    let main = [
        call(
            "a1",
            1,
            "t1",
            "Agent",
            json!({"description": "d", "prompt": "The first phase."}),
        ),
        result("r1", 3, "t1"),
        call(
            "a2",
            4,
            "t2",
            "Agent",
            json!({"description": "d", "prompt": "The second phase.", "resume": "a7"}),
        ),
        result("r2", 6, "t2"),
    ];
    let agent = [
        task("b1", 2, "The first phase."),
        task("b2", 5, "The second phase."),
    ];
    let text = |lines: &[Value]| {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        lines.join("\n") + "\n"
    };
    world.write(
        &format!("{S}.jsonl"),
        &(prompt("u1", 0, "go") + "\n" + &text(&main)),
    );
    world.write(&format!("{S}/subagents/agent-a7.jsonl"), &text(&agent));
    let whole = file(&world, "artefact.full.md");
    let sections = whole
        .lines()
        .filter(|line| line.starts_with("## Agent `a7`"));
    assert_eq!(sections.count(), 1, "{whole}");
    let section = &whole[whole.find("## Agent `a7`").unwrap()..];
    assert_eq!(section.matches("\nThe first phase.\n").count(), 1);
    assert_eq!(section.matches("\nThe second phase.\n").count(), 1);
    assert!(file(&world, "agents/a7/artefact.full.md").contains("\nThe second phase.\n"));
}
