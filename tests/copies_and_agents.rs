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
