//! `objects/`, the results that the harness stored beside the transcript, and `turns.ndjson`: what a reader of them gets.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{S, World, is_not_found, place, prompt, read, time};
use serde_json::{Value, json};
use sessionfs::tree::View;
use sessionfs::tree::export::open;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// "a picture", and the first 16 hexadecimal digits of its SHA-256.
const PICTURE: &str = "YSBwaWN0dXJl";

fn short(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex = |number: u64| format!("{number:016x}");
    hex(u64::from_be_bytes(digest[..8].try_into().unwrap()))
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn user(uuid: &str, second: u32, content: &Value) -> String {
    line(&json!({
        "type": "user", "uuid": uuid, "timestamp": time(second),
        "message": {"role": "user", "content": content},
    }))
}

fn call(uuid: &str, second: u32, id: &str, name: &str, input: &Value) -> String {
    line(&json!({
        "type": "assistant", "uuid": uuid, "timestamp": time(second),
        "message": {"id": format!("m-{uuid}"), "model": "x-1", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]},
    }))
}

fn result(uuid: &str, second: u32, id: &str, content: &Value) -> String {
    user(
        uuid,
        second,
        &json!([{"type": "tool_result", "tool_use_id": id, "content": content}]),
    )
}

/// What the harness writes in place of a long output.
fn reference(path: &str) -> String {
    format!(
        "<persisted-output>\nOutput too large (56.2KB). Full output saved to: {path}\n\nPreview (first 2KB):\nbeginning\n...\n</persisted-output>"
    )
}

fn objects(world: &World) -> Vec<String> {
    world.names(&format!("sessions/{S}/objects"))
}

fn bytes(world: &World, path: &str) -> Vec<u8> {
    read(
        &*open(&world.tree, &place(&format!("sessions/{S}/{path}")))
            .unwrap()
            .1,
    )
}

fn turns(world: &World, owner: &str) -> Vec<Value> {
    let text = world.text(&format!("sessions/{S}/{owner}turns.ndjson"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn pictures_and_documents_lie_decoded_under_the_names_that_documents_print() {
    let world = World::new();
    world.session(S);
    assert!(is_not_found(
        &world.tree.kind(&place(&format!("sessions/{S}/objects")))
    ));
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}});
    let text = json!({"type": "document", "title": "notes", "source": {"type": "text", "media_type": "text/plain", "data": "line\nline"}});
    let broken = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!!"}});
    let main = [
        user("p1", 10, &json!([picture, text, broken])),
        result("r9", 11, "tu9", &json!([picture])),
    ];
    world.append(&format!("{S}.jsonl"), &main.concat());
    let agent = json!({"type": "user", "uuid": "b2", "isSidechain": true, "sessionId": S, "timestamp": time(12),
        "message": {"role": "user", "content": [picture, {"type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}]}});
    world.append(&format!("{S}/subagents/agent-a7.jsonl"), &line(&agent));

    let names = [
        format!("{}.pdf", short(b"%PDF")),
        format!("{}.png", short(b"a picture")),
        format!("{}.txt", short(b"line\nline")),
    ];
    let mut sorted = names.to_vec();
    sorted.sort();
    assert_eq!(
        objects(&world),
        sorted,
        "each once, those of agents included"
    );
    let contents: [&[u8]; 3] = [b"%PDF", b"a picture", b"line\nline"];
    let artefact = world.text(&format!("sessions/{S}/artefact.md"));
    for (name, content) in names.iter().zip(contents) {
        assert_eq!(bytes(&world, &format!("objects/{name}")), content);
        assert!(artefact.contains(&format!("objects/{name}")), "{name}");
        let attributes = world.attributes(&format!("sessions/{S}/objects/{name}"));
        assert_eq!(attributes.size, content.len() as u64);
    }
    let renderings = world.tree.renderings();
    assert_eq!(renderings, 1, "objects cost no rendering");
    // Agents have no folder of their own for them.
    assert!(is_not_found(
        &world
            .tree
            .kind(&place(&format!("sessions/{S}/agents/a7/objects")))
    ));
    let nothing = place(&format!("sessions/{S}/objects/0000000000000000.png"));
    assert!(is_not_found(&world.tree.attributes(&nothing)));
}

#[test]
fn an_open_object_reads_on_when_its_session_is_gone() {
    let world = World::new();
    world.session(S);
    world.write(&format!("{S}/tool-results/b0t2jayn4.txt"), "the output");
    let name = format!("b0t2jayn4.txt-{}", short(b"the output"));
    assert_eq!(objects(&world), std::slice::from_ref(&name));
    let path = format!("objects/{name}");
    let at = place(&format!("sessions/{S}/{path}"));
    let (before, content) = open(&world.tree, &at).unwrap();
    world.append(&format!("{S}.jsonl"), &(prompt("u9", 9, "Go on.") + "\n"));
    let now = world.tree.attributes(&at).unwrap();
    assert_ne!(now.version, before.version);
    assert_eq!(
        read(&*world.tree.open(&at, before.version).unwrap()),
        b"the output"
    );
    std::fs::remove_dir_all(world.path(S)).unwrap();
    std::fs::remove_file(world.path(&format!("{S}.jsonl"))).unwrap();
    assert!(is_not_found(&world.tree.attributes(&at)));
    assert_eq!(read(&*content), b"the output");
}

#[test]
fn a_stored_result_is_the_results_text_and_no_path_is_followed() {
    let world = World::new();
    world.session(S);
    let long = format!(
        "{}the middle of the output\n{}",
        "line\n".repeat(2000),
        "line\n".repeat(2000)
    );
    world.write(&format!("{S}/tool-results/b0t2jayn4.txt"), &long);
    world.write(&format!("{S}/tool-results/pdf-1/page-01.jpg"), "\u{0}jpg");
    world.write("secret.txt", "never shown");
    let secret = world.path("secret.txt").to_str().unwrap().to_owned();
    let windows = r"C:\Users\u\.claude\projects\p\s\tool-results\b0t2jayn4.txt";
    let lines = [
        result(
            "r1x",
            10,
            "t1",
            &json!(reference(
                "/home/u/.claude/projects/p/s/tool-results/b0t2jayn4.txt"
            )),
        ),
        result(
            "r2x",
            11,
            "t2",
            &json!([{"type": "text", "text": reference(windows)}]),
        ),
        result(
            "r3x",
            12,
            "t3",
            &json!(reference("/x/tool-results/pdf-1/page-01.jpg")),
        ),
        // None of these may be followed: out of the folder, absolute, of another name.
        result(
            "r4x",
            13,
            "t4",
            &json!(reference("/x/tool-results/../../secret.txt")),
        ),
        result("r5x", 14, "t5", &json!(reference(&secret))),
        result(
            "r6x",
            15,
            "t6",
            &json!(reference("/x/tool-results/gone.txt")),
        ),
    ];
    world.append(&format!("{S}.jsonl"), &lines.concat());
    // An agent's reference leads to the session's folder.
    let agent = json!({"type": "user", "uuid": "b2", "isSidechain": true, "sessionId": S, "timestamp": time(12),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t7", "content": reference("/x/tool-results/b0t2jayn4.txt")}]}});
    world.append(&format!("{S}/subagents/agent-a7.jsonl"), &line(&agent));

    let full = world.text(&format!("sessions/{S}/artefact.full.md"));
    assert_eq!(full.matches("the middle of the output").count(), 3);
    assert!(!full.contains("never shown"));
    let object = format!("objects/`b0t2jayn4.txt-{}`", short(long.as_bytes()));
    assert_eq!(full.matches(&object).count(), 3, "{full}");
    assert!(full.contains("Stored result `page-01.jpg`, 4 bytes"));
    let cut = world.text(&format!("sessions/{S}/artefact.md"));
    assert!(!cut.contains("the middle of the output") && cut.contains("Cut here:"));
    let own = world.text(&format!("sessions/{S}/agents/a7/artefact.full.md"));
    assert!(own.contains("the middle of the output"));
    let telemetry: Value =
        serde_json::from_str(&world.text(&format!("sessions/{S}/telemetry.json"))).unwrap();
    assert_eq!(
        telemetry["completeness"]["stored_results_missing"], 2,
        "secret.txt, twice, and gone.txt"
    );

    let lines = turns(&world, "");
    let piece = &lines[3]["blocks"][0]["content"];
    assert_eq!(piece[0]["type"], "text");
    assert_eq!(piece[1]["type"], "stored_result");
    assert_eq!(piece[1]["text"], long);
    assert_eq!(
        piece[1]["object"],
        format!("b0t2jayn4.txt-{}", short(long.as_bytes()))
    );
    assert_eq!(
        lines[5]["blocks"][0]["content"][1]["text"],
        Value::Null,
        "no text"
    );
    assert_eq!(
        turns(&world, "agents/a7/")[1]["blocks"][0]["content"][1]["text"],
        long
    );
}

#[test]
fn turns_are_one_json_object_a_line_in_the_published_shape() {
    let world = World::new();
    world.session(S);
    let input = json!({"command": "printf '\u{1b}[2J'", "deep": [1, {"a": null}], "n": 1.5});
    world.append(
        &format!("{S}.jsonl"),
        &call("c1", 20, "tu2", "Bash", &input),
    );
    let odd = r#"{"type":"user","uuid":"o1","timestamp":"never","message":{"role":"user","content":"esc \u001b bidi \u202e cut \ud83d\r\nend"}}"#;
    world.append(&format!("{S}.jsonl"), &format!("{odd}\n"));

    let text = world.text(&format!("sessions/{S}/turns.ndjson"));
    assert!(text.ends_with('\n'));
    assert!(
        text.chars()
            .all(|c| c == '\n' || !sessionfs::transcript::display::is_hidden(c))
    );
    let lines = turns(&world, "");
    let names = world.names(&format!("sessions/{S}/turns"));
    assert_eq!(lines.len(), names.len());
    let keys = [
        "at",
        "attribution",
        "blocks",
        "kind",
        "markers",
        "message_id",
        "model",
        "source",
        "turn",
    ];
    for (i, (line, name)) in lines.iter().zip(&names).enumerate() {
        let found: BTreeSet<_> = line
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(found, BTreeSet::from(keys));
        assert_eq!(
            *name,
            format!("{:06}-{}.md", i + 1, line["kind"].as_str().unwrap())
        );
        assert_eq!(line["turn"], i + 1);
        assert_eq!(line["attribution"], Value::Null);
        assert_eq!(
            line["source"],
            json!({"file": format!("{S}.jsonl"), "line": i + 1})
        );
    }
    assert!(text.starts_with(r#"{"turn":1,"kind":"user","at":"2026-11-30T20:40:00.000Z","message_id":null,"model":null,"blocks":[{"type":"text","text":"Look into the parser."}],"markers":[],"attribution":null,"source":{"file":"#));
    assert_eq!(lines[1]["message_id"], "m1");
    assert_eq!(lines[1]["markers"], json!([{"spawned": "a7"}]));
    assert_eq!(lines[1]["blocks"][0]["id"], "tu1");
    assert_eq!(lines[2]["markers"], json!([{"joined": "a7"}]));
    assert_eq!(lines[2]["blocks"][0]["content"][0]["text"], "It is fine.");
    assert_eq!(lines[3]["blocks"][0]["input"], input);
    assert_eq!(lines[4]["at"], Value::Null);
    assert_eq!(
        lines[4]["blocks"][0]["text"],
        "esc \u{1b} bidi \u{202e} cut \u{fffd}\r\nend"
    );
    assert_eq!(turns(&world, "agents/a7/")[0]["kind"], "task");
}
