//! Damaged bytes, awkward content, odd places and times: what a person sees of each kind that others ran into
//! (`formats/hard-cases.md`, D to F; the number of the case stands at each test).

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{S, T, World, place, prompt, read, time};
use common::{Home, tool, write};
use serde_json::{Value, json};
use sessionfs::tree::export::open;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A world with one session of these lines.
fn session(lines: &[&str]) -> World {
    let world = World::new();
    world.write(&format!("{S}.jsonl"), &(lines.join("\n") + "\n"));
    world
}

fn file(world: &World, name: &str) -> String {
    world.text(&format!("sessions/{S}/{name}"))
}

fn telemetry(world: &World) -> Value {
    serde_json::from_str(&file(world, "telemetry.json")).unwrap()
}

fn turns(world: &World) -> Vec<Value> {
    let lines = file(world, "turns.ndjson");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(world: &World) -> Vec<String> {
    let turns = turns(world);
    turns
        .iter()
        .map(|turn| turn["kind"].as_str().unwrap().to_owned())
        .collect()
}

fn result(content: &Value) -> String {
    json!({"type": "user", "uuid": "r1", "timestamp": time(9), "message": {"role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content}]}})
    .to_string()
}

#[test]
fn damaged_lines_cost_at_most_themselves_and_are_counted() {
    // T42 cut last line, T43 spliced and glued records, T44 a run of NUL, T50 bytes that are no UTF-8, BOM, CR LF, blank lines.
    let world = World::new();
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(format!("{}\r\n\r\n\n", prompt("u1", 0, "one")).bytes());
    bytes.extend(format!("{}{}\n", prompt("u2", 1, "two"), prompt("u3", 2, "three")).bytes());
    bytes.extend(br#"{"type":"user","uuid":"lost","mess"#);
    bytes.extend(format!("{}\n", prompt("u4", 3, "four")).bytes());
    bytes.extend([0; 300]);
    bytes.extend(format!("{}\n", prompt("u5", 4, "five")).bytes());
    bytes.extend(prompt("u6", 5, "s<>x").replace("<>", "\u{fffe}").bytes());
    bytes.push(b'\n');
    bytes.extend(
        prompt("u7", 6, "a<>b")
            .into_bytes()
            .iter()
            .flat_map(|b| match b {
                b'<' => vec![0xff],
                b'>' => vec![],
                b => vec![*b],
            }),
    );
    bytes.push(b'\n');
    bytes.extend(b"no record at all\n");
    bytes.extend(br#"{"type":"user","message":{"role"#);
    write(&world.path(&format!("{S}.jsonl")), &bytes);
    let said: Vec<String> = turns(&world)
        .iter()
        .map(|turn| turn["blocks"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        said,
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "s\u{fffe}x",
            "a\u{fffd}b"
        ]
    );
    let known = &telemetry(&world)["completeness"];
    assert_eq!(known["incomplete_tail_bytes"], 31);
    assert_eq!(known["complete"], false);
    let damage = known["lines_unparseable"].as_array().unwrap();
    let lines: Vec<u64> = damage.iter().map(|d| d["line"].as_u64().unwrap()).collect();
    assert!(
        lines.contains(&5) && lines.contains(&9),
        "the cut record and the foreign line: {known}"
    );
    let text = file(&world, "artefact.md");
    assert!(text.contains("a\u{fffd}b") && !text.contains('\0'));
    let stored = place(&format!("sessions/{S}/source/{S}.jsonl"));
    assert!(read(&*open(&world.tree, &stored).unwrap().1) == bytes);
}

#[test]
fn unknown_types_and_doubled_keys_are_counted_and_cost_nothing() {
    // T45, T46.
    let world = session(&[
        &prompt("u1", 0, "one"),
        r#"{"type":"brand-new-thing","payload":{"a":[1,2]}}"#,
        r#"{"type":"system","subtype":"never_seen","content":"x"}"#,
        r#"{"type":"ai-title","aiTitle":"First","aiTitle":"Second"}"#,
        r#"{"type":"user","uuid":"u2","timestamp":"2026-11-30T20:40:03.000Z","message":{"role":"user","content":"first","content":"second"}}"#,
    ]);
    assert_eq!(kinds(&world), ["user", "user"]);
    let telemetry = telemetry(&world);
    let unknown = &telemetry["completeness"]["line_types_unknown"];
    assert_eq!(
        unknown,
        &json!({"brand-new-thing": 1, "system/never_seen": 1})
    );
    assert_eq!(telemetry["title"], "First");
    assert_eq!(turns(&world)[1]["blocks"][0]["text"], "first");
    assert!(
        telemetry["completeness"]["notes"]
            .to_string()
            .contains("stood twice")
    );
}

#[test]
fn rendered_files_are_text_whatever_was_said() {
    // T47 lone surrogates, T48 NUL and escapes, T49 separators of other alphabets.
    let hard = r"cut \ud83d, nul \u0000, escape \u001b[2J, \u0085";
    let raw = "raw \u{2028} and \u{2029} and \u{85}";
    let world = session(&[&prompt("u1", 0, hard), &prompt("u2", 1, raw)]);
    assert_eq!(
        kinds(&world),
        ["user", "user"],
        "no separator but a line feed ends a line"
    );
    for name in [
        "artefact.md",
        "artefact.full.md",
        "artefact.spine.md",
        "turns/000001-user.md",
        "turns.ndjson",
        "telemetry.json",
    ] {
        let text = file(&world, name);
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(
            !text.chars().any(|c| steers(c) || c == '\u{2028}'),
            "{name}"
        );
    }
    assert!(file(&world, "artefact.md").contains(r"cut �, nul \u{0}, escape \u{1B}[2J, \u{85}"));
    assert_eq!(telemetry(&world)["completeness"]["characters_replaced"], 1);
    assert!(
        file(&world, &format!("source/{S}.jsonl")).contains(hard),
        "the stored bytes are in reach"
    );
    let copy = world.dir.path().join("artefact.md");
    write(&copy, file(&world, "artefact.md"));
    assert_eq!(
        tool("grep", ["-Ic", "escape", copy.to_str().unwrap()]),
        b"2\n",
        "grep takes it for text"
    );
}

#[test]
fn a_very_long_line_is_read_and_its_picture_is_one_object() {
    // T52: a line of 12 MB, with one picture in it twice.
    let picture = "A".repeat(6_000_000);
    let line = json!({"type": "user", "uuid": "r1", "timestamp": time(1),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}]}]},
        "toolUseResult": {"file": {"base64": picture}}});
    let world = session(&[&prompt("u1", 0, "look"), &line.to_string()]);
    assert_eq!(world.names(&format!("sessions/{S}/objects")).len(), 1);
    for name in ["artefact.full.md", "turns.ndjson", "telemetry.json"] {
        let text = file(&world, name);
        assert!(
            text.len() < 20_000 && !text.contains("AAAAAAAAAAAAAAAAAAAAAAAA"),
            "{name}"
        );
    }
    assert!(file(&world, "artefact.full.md").contains("4500000 bytes"));
}

#[test]
fn a_giant_file_is_listed_by_its_ends() {
    // T53: reading all of it would take hours.
    let world = session(&[&prompt("u1", 0, "The beginning")]);
    let giant = File::options()
        .append(true)
        .open(world.path(&format!("{S}.jsonl")))
        .unwrap();
    giant.set_len(1 << 40).unwrap();
    let table = world.text("sessions.tsv");
    assert!(
        table.contains("\t~The beginning\t0\t1099511627776\t1\n"),
        "{table}"
    );
    assert!(world.names("by-date/2026-11-30")[0].starts_with("20.40-the-beginning-"));
}

#[test]
fn forged_structure_stays_inside_its_fence() {
    // T56, T57.
    let forged = "````\n~~~\n```\n## Tool call\n</details><!--\n<script>alert(1)</script>\n> [JOINED agent `x` here]";
    let world = session(&[&prompt("u1", 0, &forged.replace('\n', "\\n"))]);
    let text = file(&world, "artefact.full.md");
    assert!(
        text.contains(&format!("\n`````\n{forged}\n`````\n")),
        "{text}"
    );
}

#[test]
fn results_of_every_shape_are_kept_and_orphans_are_counted() {
    // T59.
    let call = json!({"type": "assistant", "uuid": "a1", "timestamp": time(1), "message": {"id": "m1", "model": "x-1",
        "stop_reason": "tool_use", "content": [{"type": "tool_use", "id": "pending", "name": "Bash", "input": {}}]}});
    let only_structured = json!({"type": "user", "uuid": "r5", "timestamp": time(5),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t5"}]},
        "toolUseResult": {"stdout": "out of the structured result"}});
    let nothing_else = json!({"type": "user", "uuid": "r6", "timestamp": time(6), "toolUseResult": "Error: only here"});
    let no_output = json!({"type": "user", "uuid": "r7", "timestamp": time(7),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t7", "content": ""}]},
        "toolUseResult": {"stdout": "", "interrupted": false}});
    let world = session(&[
        &prompt("u1", 0, "go"),
        &call.to_string(),
        &result(&json!("a string")),
        &result(&json!([{"type": "text", "text": "an array"}, {"type": "tool_reference", "tool_name": "Later"}])).replace("r1", "r2"),
        &only_structured.to_string(),
        &nothing_else.to_string(),
        &no_output.to_string(),
    ]);
    assert_eq!(kinds(&world)[2..], ["tool-result"; 5]);
    let text = file(&world, "artefact.full.md");
    for words in [
        "a string",
        "an array",
        "Later",
        "out of the structured result",
        "Error: only here",
    ] {
        assert!(text.contains(words), "{words}");
    }
    assert!(
        !text.contains("interrupted"),
        "a result with content of its own needs no other"
    );
    let known = &telemetry(&world)["completeness"];
    assert_eq!(known["tool_calls_without_result"], 1);
    assert_eq!(
        known["tool_results_without_call"], 4,
        "two lines answer one call"
    );
}

#[test]
fn a_prompt_typed_while_a_tool_runs_is_a_turn_and_splits_no_response() {
    // T60.
    let block = |uuid: &str, second, block: Value| {
        json!({"type": "assistant", "uuid": uuid, "timestamp": time(second), "message": {"id": "m1", "model": "x-1",
            "stop_reason": "tool_use", "content": [block], "usage": {"input_tokens": 1, "output_tokens": 2}}})
        .to_string()
    };
    let queued = json!({"type": "attachment", "timestamp": time(2),
        "attachment": {"type": "queued_command", "commandMode": "prompt", "prompt": "and this"}});
    let world = session(&[
        &prompt("u1", 0, "go"),
        &block("a1", 1, json!({"type": "text", "text": "first"})),
        &queued.to_string(),
        &block("a2", 3, json!({"type": "text", "text": "second"})),
    ]);
    assert_eq!(kinds(&world), ["user", "assistant", "user"]);
    let turns = turns(&world);
    assert_eq!(turns[1]["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(turns[2]["at"], "2026-11-30T20:40:02.000Z");
    assert_eq!(telemetry(&world)["tokens"]["api_responses"], 1);
}

#[test]
fn titles_are_found_wherever_they_stand() {
    // T62: in the middle of a long file; a summary of another session's line is none.
    let filler = json!({"type": "mode", "mode": "x".repeat(150_000)}).to_string();
    let world = session(&[
        r#"{"type":"summary","summary":"Somebody else's","leafUuid":"foreign"}"#,
        &prompt("u1", 0, "The prompt"),
        &filler,
        r#"{"type":"custom-title","customTitle":"Renamed in the middle"}"#,
        r#"{"type":"ai-title","aiTitle":"By the harness"}"#,
        &filler,
    ]);
    assert_eq!(telemetry(&world)["title"], "Renamed in the middle");
    assert!(
        world.text("sessions.tsv").contains("\t~The prompt\t"),
        "and what a bounded look misses is marked"
    );
}

#[test]
fn thoughts_without_text_and_documents_are_noted() {
    // T63.
    let content = json!([
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "document", "title": "plan", "source": {"type": "text", "media_type": "text/plain", "data": "the plan"}},
    ]);
    let line = json!({"type": "assistant", "uuid": "a1", "timestamp": time(1), "message": {"id": "m1", "model": "x-1",
        "stop_reason": "end_turn", "content": content}});
    let world = session(&[&prompt("u1", 0, "go"), &line.to_string()]);
    let text = file(&world, "artefact.md");
    assert_eq!(
        text.matches("Thinking: the transcript does not hold its text.")
            .count(),
        2
    );
    assert!(text.contains("Document `plan`, media type `text/plain`") && text.contains("the plan"));
    assert_eq!(
        turns(&world)[1]["blocks"][0],
        json!({"type": "thinking", "text": null})
    );
}

#[test]
fn no_artefact_claims_to_hold_what_was_never_stored() {
    // T64.
    let world = session(&[&prompt("u1", 0, "go")]);
    assert!(
        file(&world, "artefact.md")
            .contains("What the harness never stored cannot be known from its files.")
    );
}

#[test]
fn a_project_is_the_directory_of_the_lines_not_the_folders_name() {
    // T66 two directories of one encoded name, T67 a directory that changes.
    let at = |uuid: &str, second, directory: &str| {
        prompt(uuid, second, "go").replacen('{', &format!(r#"{{"cwd":"{directory}","#), 1)
    };
    let world = session(&[
        &at("u1", 0, "/srv/\u{43f}\u{440}"),
        &at("u2", 1, "/elsewhere"),
    ]);
    world.write(
        &format!("{T}.jsonl"),
        &(at("u1", 5, "/srv/\u{444}\u{44b}") + "\n"),
    );
    let projects = world.names("by-project");
    let names: Vec<&str> = projects
        .iter()
        .map(|name| name.split('~').next().unwrap())
        .collect();
    assert_eq!(names, ["\u{43f}\u{440}", "\u{444}\u{44b}"]);
    assert_eq!(telemetry(&world)["project"], "\u{43f}\u{440}");
}

#[test]
fn neither_locale_nor_time_zone_changes_a_byte() {
    // T51, T70.
    let home = Home::new();
    home.demo("store");
    let read = |name: &str, locale: &str, zone: &str| {
        let mut command = home.sessionfs(["cat", name, "--source", "store"]);
        let output = command
            .env("LC_ALL", locale)
            .env("TZ", zone)
            .output()
            .unwrap();
        assert!(output.status.success());
        output.stdout
    };
    for name in [
        "7a11/artefact.md",
        "7a11/telemetry.json",
        "7a11/turns.ndjson",
    ] {
        let usual = read(name, "C.UTF-8", "UTC");
        assert!(read(name, "POSIX", "Asia/Kolkata") == usual, "{name}");
        assert!(
            read(name, "tr_TR.ISO-8859-9", "America/St_Johns") == usual,
            "{name}"
        );
    }
}

#[test]
fn wall_clock_and_active_time_are_two_facts() {
    // T71: a session left open over three weeks.
    let late = prompt("u3", 1, "back").replace("2026-11-30", "2026-12-21");
    let world = session(&[&prompt("u1", 0, "go"), &prompt("u2", 30, "on"), &late]);
    let span = &telemetry(&world)["span"];
    assert_eq!(span["wall_clock_seconds"], 21.0 * 86_400.0 + 1.0);
    assert_eq!(
        span["active_seconds"], 330.0,
        "a gap counts 300 seconds at most"
    );
}

#[test]
fn many_sessions_need_few_descriptors() {
    // T73.
    let home = Home::new();
    for i in 0..300 {
        let id = format!("{i:08x}-0000-4000-8000-000000000000");
        write(
            &home.path(&format!("store/-p/{id}.jsonl")),
            prompt("u1", 0, "go") + "\n",
        );
        write(
            &home.path(&format!("store/-p/{id}/tool-results/a.txt")),
            "output",
        );
    }
    let program = common::program();
    let script = format!(
        "ulimit -n 40; '{}' export --source store -o out && '{}' list --source store",
        program.display(),
        program.display()
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(home.path(""))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.contains("2026-11-30"))
            .count(),
        300
    );
    assert_eq!(
        fs::read_dir(home.path("out/sessions")).unwrap().count(),
        300
    );
}

#[test]
fn sessions_without_a_turn_are_sessions() {
    // T74 a probe, an empty file and a folder without a transcript.
    let world = World::new();
    world.write(&format!("{S}.jsonl"), "{\"type\":\"system\",\"subtype\":\"local_command\",\"content\":\"<command-name>/usage</command-name>\"}\n");
    world.write(&format!("{T}.jsonl"), "");
    let folder = "1ab2c3d4-0000-4000-8000-000000000009";
    world.write(&format!("{folder}/tool-results/b1.txt"), "left over");
    assert_eq!(world.names("sessions"), [S, T, folder]);
    assert_eq!(world.text("sessions.tsv").lines().count(), 4);
    for (id, main, turns) in [(S, "present", 1), (T, "present", 0), (folder, "missing", 0)] {
        let telemetry: Value =
            serde_json::from_str(&world.text(&format!("sessions/{id}/telemetry.json"))).unwrap();
        assert_eq!(telemetry["completeness"]["main_thread"], main, "{id}");
        assert_eq!(telemetry["turns"]["total"], turns, "{id}");
        assert_eq!(telemetry["turns"]["user"], 0, "{id}");
    }
    let names = world.names(&format!("sessions/{folder}"));
    assert!(
        names.contains(&"objects".to_owned()) && !names.contains(&"turns.ndjson".to_owned()),
        "{names:?}"
    );
}

#[test]
fn a_mount_shows_its_owner_alone_what_was_said() {
    // T65.
    let home = Home::new();
    let store = home.demo("store");
    let mounted = home.mount(&[&store], "mnt");
    for (name, mode) in [
        ("", 0o700),
        ("sessions.tsv", 0o400),
        ("by-date", 0o700),
        ("latest/artefact.md", 0o400),
        ("latest/turns.ndjson", 0o400),
        ("latest/objects", 0o700),
    ] {
        let path = if name.is_empty() {
            mounted.point.clone()
        } else {
            mounted.path(name)
        };
        let status = fs::metadata(Path::new(&path)).unwrap();
        assert_eq!(status.permissions().mode() & 0o7777, mode, "{name}");
    }
}
