//! What the commands print, what they refuse, and how they end.

#![allow(clippy::unwrap_used)]

mod common;

use common::lines::Lines;
use common::{Home, NOTES, PARSER, program, snapshot, tool, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "aaaaaaaa-0000-4000-8000-000000000002";

/// Two sessions whose IDs have a long prefix in common.
fn two_alike(home: &Home) {
    for id in [A, B] {
        let lines = Lines::main(id)
            .prompt("hello")
            .answer(&format!("msg_{id}"), "good day", 7);
        write(
            &home.path(&format!("store/-home-user-example/{id}.jsonl")),
            lines.text(),
        );
    }
}

#[test]
fn demo_writes_the_same_private_store_every_time_and_nothing_over_it() {
    let home = Home::new();
    let said = home.output(["demo", "one"]);
    assert!(said.contains("sessionfs mount one mnt"), "{said}");
    home.output(["demo", "two"]);
    assert_eq!(snapshot(&home.path("one")), snapshot(&home.path("two")));
    let mode = home.path("one").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let before = snapshot(&home.path("one"));
    let said = home.failure(1, ["demo", "one"]);
    assert!(
        said.starts_with("error: one is not empty\nhint: "),
        "{said}"
    );
    assert_eq!(before, snapshot(&home.path("one")));

    std::fs::create_dir_all(home.path(".claude/projects")).unwrap();
    let said = home.failure(1, ["demo", ".claude/projects/demo"]);
    assert!(said.contains("below the source"), "{said}");
}

#[test]
fn list_shows_the_newest_first_and_the_same_as_json() {
    let home = Home::new();
    home.demo("store");
    let table = home.output(["list", "--source", "store"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(
        rows[1].starts_with("7a11c0de  2026-11-24 09:15  tally "),
        "{table}"
    );
    assert!(rows[1].ends_with("Fix the amount parser"), "{table}");
    assert!(
        rows[2].starts_with("b00c0de5  2026-11-20 16:40  notes "),
        "{table}"
    );

    let json = home.output(["list", "--source", "store", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["id"], PARSER);
    assert_eq!(rows[0]["agents"], 2);
    assert_eq!(rows[0]["started"], "2026-11-24T09:15:02.341Z");
    assert_eq!(rows[0]["project"], "tally");
    assert_eq!(rows[1]["id"], NOTES);
    assert_eq!(rows.as_array().unwrap().len(), 2);
}

/// A store of two projects, one of which holds what cannot be read: a name longer than a path may be.
fn unreadable(home: &Home) {
    home.demo("store");
    // The file system refuses to look through this link whoever asks, unlike a folder without permissions, which root reads.
    let long = format!("{}/x", "y".repeat(300));
    std::os::unix::fs::symlink(long, home.path("store/-broken")).unwrap();
}

#[test]
fn list_shows_what_it_can_and_fails_where_a_folder_cannot_be_read() {
    let home = Home::new();
    unreadable(&home);
    let run = |options: &[&str]| {
        let args = [&["list", "--source", "store"], options].concat();
        let assert = home.sessionfs(args).assert().code(1);
        let output = assert.get_output().clone();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    for options in [&[][..], &["--json"], &["--quiet"]] {
        let (printed, said) = run(options);
        assert!(printed.contains("7a11c0de"), "{printed}");
        assert!(
            said.contains("store/-broken: cannot be looked at: "),
            "{said}"
        );
        assert!(said.contains("error: 1 of the folders"), "{said}");
    }
    // What is known to be no transcript is said, and nothing failed.
    std::fs::remove_file(home.path("store/-broken")).unwrap();
    write(&home.path("store/-home-user-tally/notes.jsonl"), "{}\n");
    let assert = home
        .sessionfs(["list", "--source", "store"])
        .assert()
        .success();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("notes.jsonl: no line"), "{said}");
}

#[test]
fn list_counts_the_agents_that_are_there_or_marks_the_number() {
    let home = Home::new();
    let line = |uuid: &str, parent: Option<&str>, sidechain: bool| {
        let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"isSidechain":{sidechain},"version":"1.0.80","message":{{"role":"user","content":"{uuid}"}}}}"#
        ) + "\n"
    };
    let main = |id: &str, text: &str| write(&home.path(&format!("store/-p/{id}.jsonl")), text);
    let agent = |id: &str, name: &str, text: &str| {
        write(
            &home.path(&format!("store/-p/{id}/subagents/{name}.jsonl")),
            text,
        );
    };
    // Two agents inside the main file, and two of one ID in files of their own.
    let inside = [
        line("u1", None, false),
        line("s1", None, true),
        line("s2", Some("s1"), true),
        line("t1", None, true),
    ];
    main(A, &inside.concat());
    agent(A, "agent-ax", &line("x1", None, true));
    agent(A, "workflows/wf_1/agent-ax", &line("y1", None, true));
    // One agent that was written anew, and a main file in whose middle there may be some.
    main(B, &(line("u1", None, false) + &"\n".repeat(200_000)));
    agent(B, "agent-b1", &line("b1", None, true));
    agent(
        B,
        "agent-b2",
        &(line("b1", None, true) + &line("b2", Some("b1"), true)),
    );

    home.output(["export", "--source", "store", "-o", "out"]);
    let json = home.output(["list", "--source", "store", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    let table = home.output(["list", "--source", "store"]);
    for (id, marked) in [(A, false), (B, true)] {
        let agents = home.path(&format!("out/sessions/{id}/agents"));
        let there = std::fs::read_dir(agents).unwrap().count();
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["id"] == id).unwrap();
        assert_eq!(row["agents"], there, "{row}");
        assert_eq!(row["agents_from_a_bounded_look"], marked, "{row}");
        let mark = if marked { "~" } else { "" };
        assert!(table.contains(&format!("  {mark}{there}  ")), "{table}");
    }
}

#[test]
fn list_obeys_no_terminal_sequence_of_a_title() {
    let home = Home::new();
    let title = "{\"type\":\"custom-title\",\"customTitle\":\"red \\u001b[31m and \\u202e back\",\"sessionId\":\"x\"}";
    let lines = Lines::main(A).prompt("hello").raw(title);
    write(&home.path(&format!("store/p/{A}.jsonl")), lines.text());
    for args in [
        vec!["list", "--source", "store"],
        vec!["list", "--source", "store", "--json"],
    ] {
        let printed = home.output(args);
        assert!(
            !printed.contains('\u{1b}') && !printed.contains('\u{202e}'),
            "{printed:?}"
        );
        assert!(printed.contains("red "), "{printed:?}");
    }
}

#[test]
fn a_prefix_names_a_session_unless_it_names_two_or_none() {
    let home = Home::new();
    two_alike(&home);
    let whole = home.output(["cat", A, "--source", "store"]);
    assert!(whole.contains("good day"), "{whole}");

    let said = home.failure(1, ["cat", "aaaa", "--source", "store"]);
    assert!(said.contains(A) && said.contains(B), "{said}");
    let said = home.failure(1, ["cat", "bbbb", "--source", "store"]);
    assert!(
        said.contains("no session begins with bbbb") && said.contains("sessionfs list"),
        "{said}"
    );
    let said = home.failure(1, ["cat", &format!("{A}/nothing.md"), "--source", "store"]);
    assert!(said.contains("nothing.md"), "{said}");
    let said = home.failure(1, ["cat", &format!("{A}/turns"), "--source", "store"]);
    assert!(said.contains("directory"), "{said}");
}

#[test]
fn cat_takes_two_separators_for_one_and_minds_its_own_session() {
    let home = Home::new();
    unreadable(&home);
    let cat = |what: &str| {
        let assert = home.sessionfs(["cat", what, "--source", "store"]).assert();
        let output = assert.success().get_output().clone();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}");
        output.stdout
    };
    let artefact = cat("7a11/artefact.md");
    for what in [
        "7a11",
        "7a11/",
        "7a11//",
        "7a11//artefact.md",
        "7a11/./artefact.md",
    ] {
        assert_eq!(cat(what), artefact, "{what}");
    }
    let said = home.failure(2, ["cat", "7a11/../README.md", "--source", "store"]);
    assert!(said.contains("leads out of the session"), "{said}");
    let said = home.failure(1, ["cat", "no", "--source", "store"]);
    assert!(
        said.contains("-broken") && said.contains("no session begins"),
        "{said}"
    );
}

#[test]
fn without_any_source_it_names_the_demo() {
    let home = Home::new();
    for args in [
        vec!["list"],
        vec!["cat", "x"],
        vec!["reconstruct", "x"],
        vec!["export", "-o", "out"],
    ] {
        let said = home.failure(1, args);
        assert!(said.contains("sessionfs demo"), "{said}");
    }
    assert_eq!(snapshot(&home.path("")).len(), 0, "nothing is created");
}

#[test]
fn the_default_source_is_the_harness_folder_or_those_of_its_variable() {
    let home = Home::new();
    home.demo(".claude/projects");
    assert!(home.output(["list"]).contains("7a11c0de"));

    two_alike(&home);
    std::fs::create_dir(home.path("config")).unwrap();
    std::fs::rename(home.path("store"), home.path("config/projects")).unwrap();
    let mut command = home.sessionfs(["list"]);
    command.env("CLAUDE_CONFIG_DIR", home.path("config"));
    let printed = command.assert().success().get_output().stdout.clone();
    let printed = String::from_utf8(printed).unwrap();
    assert!(
        printed.contains("aaaaaaaa") && !printed.contains("7a11c0de"),
        "{printed}"
    );
}

#[test]
fn reconstruct_writes_two_private_files_and_prints_their_paths() {
    let home = Home::new();
    let store = home.demo("store");
    let before = snapshot(&store);
    std::fs::create_dir(home.path("out")).unwrap();
    let printed = home.output(["reconstruct", "7a11", "--source", "store", "-o", "out"]);
    let artefact = format!("out/{PARSER}.artefact.md");
    let telemetry = format!("out/{PARSER}.telemetry.json");
    assert_eq!(printed, format!("{artefact}\n{telemetry}\n"));
    assert_eq!(std::fs::read_dir(home.path("out")).unwrap().count(), 2);
    for file in [&artefact, &telemetry] {
        let mode = home.path(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    for (file, name) in [(&artefact, "artefact.md"), (&telemetry, "telemetry.json")] {
        let shown = home.output(["cat", &format!("7a11/{name}"), "--source", "store"]);
        assert_eq!(std::fs::read_to_string(home.path(file)).unwrap(), shown);
    }

    let written = |option: &str| {
        home.output([
            "reconstruct",
            "7a11",
            "--source",
            "store",
            "-o",
            "out",
            option,
        ]);
        std::fs::read_to_string(home.path(&artefact)).unwrap()
    };
    for (option, name) in [
        ("--full", "artefact.full.md"),
        ("--spine", "artefact.spine.md"),
    ] {
        let shown = home.output(["cat", &format!("7a11/{name}"), "--source", "store"]);
        assert_eq!(written(option), shown, "{option}");
    }
    assert_eq!(before, snapshot(&store));
}

#[test]
fn a_smaller_block_limit_cuts_and_says_how_much() {
    let home = Home::new();
    home.demo("store");
    let args = [
        "reconstruct",
        "7a11",
        "--source",
        "store",
        "--max-block-bytes",
    ];
    let artefact = |bytes: &str| {
        home.output(args.iter().copied().chain([bytes]));
        std::fs::read_to_string(home.path(&format!("{PARSER}.artefact.md"))).unwrap()
    };
    let (cut, whole) = (artefact("100"), artefact("0"));
    assert!(cut.len() < whole.len());
    let telemetry =
        std::fs::read_to_string(home.path(&format!("{PARSER}.telemetry.json"))).unwrap();
    let telemetry: serde_json::Value = serde_json::from_str(&telemetry).unwrap();
    assert_eq!(telemetry["completeness"]["blocks_cut"], 0, "0 cuts nothing");
}

#[test]
fn nothing_is_written_below_a_source() {
    let home = Home::new();
    let store = home.demo("store");
    let before = snapshot(&store);
    for args in [
        vec!["reconstruct", "7a11", "--source", "store", "-o", "store"],
        vec![
            "reconstruct",
            "7a11",
            "--source",
            "store",
            "-o",
            "store/-home-user-tally",
        ],
        vec!["export", "--source", "store", "-o", "store/out"],
        vec![
            "export",
            "7a11",
            "--source",
            "store",
            "-o",
            "store/../store/out/deeper",
        ],
    ] {
        let said = home.failure(1, args);
        assert!(said.contains("below the source"), "{said}");
    }
    assert_eq!(before, snapshot(&store));
}

#[test]
fn nothing_is_written_where_a_link_of_a_source_leads() {
    let home = Home::new();
    let elsewhere = home.demo("elsewhere").join("-home-user-tally");
    for source in ["store", ".claude/projects"] {
        std::fs::create_dir_all(home.path(source)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.path(source).join("-linked")).unwrap();
    }
    let before = snapshot(&home.path("elsewhere"));
    let out = "elsewhere/-home-user-tally/out";
    let of_store = ["--source", "store", "-o"];
    for args in [
        [
            &["reconstruct", "7a11"],
            &of_store[..],
            &["elsewhere/-home-user-tally"],
        ]
        .concat(),
        [&["export"], &of_store[..], &[out]].concat(),
        [&["export", "7a11"], &of_store[..], &["store/-linked/out"]].concat(),
        vec!["demo", out],
    ] {
        let said = home.failure(1, args);
        assert!(said.contains("below the source"), "{said}");
    }
    assert_eq!(before, snapshot(&home.path("elsewhere")));
}

#[test]
fn export_of_all_says_what_it_leaves_out() {
    let home = Home::new();
    unreadable(&home);
    tool("mkfifo", [home.path("store/-home-user-tally/pipe.jsonl")]);
    let run = |args: &[&str], code| {
        let args = [&["export", "--source", "store", "-o"], args].concat();
        let assert = home.sessionfs(args).assert().code(code);
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    let said = run(&["out"], 1);
    assert!(
        said.contains("store/-broken: cannot be looked at: "),
        "{said}"
    );
    assert!(
        said.contains("pipe.jsonl: a FIFO, which is never opened"),
        "{said}"
    );
    assert!(said.contains("error: 1 of the sources' folders"), "{said}");
    let artefact = format!("out/sessions/{PARSER}/artefact.md");
    assert!(home.path(&artefact).is_file(), "all others are there");
    // What one session needs is all there.
    assert_eq!(run(&["one", "7a11"], 0), "");
    // Nothing failed where a FIFO is not opened.
    std::fs::remove_file(home.path("store/-broken")).unwrap();
    assert!(run(&["again"], 0).contains("a FIFO, which is never opened"));
}

#[test]
fn export_writes_the_tree_of_one_session_or_of_all() {
    let home = Home::new();
    home.demo("store");
    home.output(["export", "7a11", "--source", "store", "-o", "one"]);
    assert!(
        home.path(&format!("one/sessions/{PARSER}/artefact.md"))
            .is_file()
    );
    assert!(!home.path(&format!("one/sessions/{NOTES}")).exists());

    home.output(["export", "--source", "store", "-o", "all"]);
    for (path, what) in snapshot(&home.path("all")) {
        let private = ["file 100600", "folder 40700", "link to "];
        assert!(
            private.iter().any(|kind| what.starts_with(kind)),
            "{}: {what}",
            path.display()
        );
    }
    assert_eq!(
        home.path("all/latest").read_link().unwrap(),
        Path::new("sessions").join(PARSER)
    );
    tool(
        "diff",
        ["-r", "one/sessions", "all/sessions", "--exclude", NOTES].map(|arg| {
            if arg.contains("/sessions") {
                home.path(arg).into_os_string()
            } else {
                arg.into()
            }
        }),
    );
    let source = "-home-user-tally".to_owned() + "/" + PARSER + ".jsonl";
    assert_eq!(
        std::fs::read(home.path("store").join(source)).unwrap(),
        std::fs::read(home.path(&format!("all/sessions/{PARSER}/source/{PARSER}.jsonl"))).unwrap()
    );
}

#[test]
fn a_reader_that_stops_early_ends_the_command_quietly() {
    let home = Home::new();
    let text = "line\n".repeat(400_000);
    let lines = Lines::main(A).prompt(&text);
    write(&home.path(&format!("store/p/{A}.jsonl")), lines.text());
    let mut child = std::process::Command::new(program())
        .args(["cat", &format!("{A}/artefact.full.md"), "--source"])
        .arg(home.path("store"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn wrong_use_exits_with_2_and_help_and_version_with_0() {
    let home = Home::new();
    for args in [
        vec![],
        vec!["nothing"],
        vec!["cat"],
        vec!["export"],
        vec!["schema", "other"],
        vec!["list", "--color", "mauve"],
    ] {
        let said = home.failure(2, args);
        assert!(
            said.contains("Usage: ") || said.contains("--help"),
            "{said}"
        );
    }
    assert!(home.output(["--version"]).starts_with("sessionfs "));
    for command in [
        "mount",
        "unmount",
        "list",
        "reconstruct",
        "cat",
        "export",
        "demo",
        "schema",
    ] {
        let help = home.output([command, "--help"]);
        assert!(help.contains("Examples:"), "{command}: {help}");
    }
}

#[test]
fn colour_is_for_terminals_and_for_who_asks() {
    let home = Home::new();
    home.demo("store");
    let args = ["list", "--source", "store"];
    assert!(!home.output(args).contains('\u{1b}'));
    assert!(
        home.output(args.iter().copied().chain(["--color", "always"]))
            .contains('\u{1b}')
    );
    let said = home.failure(
        1,
        ["cat", "nothing", "--source", "store", "--color", "always"],
    );
    assert!(said.starts_with("\u{1b}["), "{said:?}");
}

#[test]
fn the_schema_describes_the_telemetry() {
    let home = Home::new();
    home.demo("store");
    let schema = serde_json::from_str(&home.output(["schema", "telemetry"])).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for id in [PARSER, NOTES] {
        let telemetry = home.output(["cat", &format!("{id}/telemetry.json"), "--source", "store"]);
        let telemetry = serde_json::from_str(&telemetry).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&telemetry)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn an_interrupt_leaves_whole_files_or_none() {
    use nix::sys::signal::{Signal, kill};
    let home = Home::new();
    let lines = (0..200).fold(Lines::main(A), |lines, number| {
        lines
            .prompt(&"many words ".repeat(1000))
            .answer(&format!("msg_{number}"), "good day", 7)
    });
    write(&home.path(&format!("store/p/{A}.jsonl")), lines.text());
    std::fs::create_dir(home.path("whole")).unwrap();
    home.output([
        "reconstruct",
        A,
        "--source",
        "store",
        "-o",
        "whole",
        "--full",
    ]);
    assert_eq!(files(&home.path("whole")).len(), 2);

    home.output(["export", A, "--source", "store", "-o", "tree"]);

    // Wherever the signal strikes, what holds afterwards is the same.
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    for (signal, delay) in signals
        .into_iter()
        .cycle()
        .zip([1, 10, 30, 60, 100, 200, 400])
    {
        for command in ["reconstruct", "export"] {
            let out = home.path(&format!("{command}{delay}"));
            std::fs::create_dir(&out).unwrap();
            let mut child = std::process::Command::new(program())
                .args([command, A, "--source"])
                .arg(home.path("store"))
                .arg("-o")
                .arg(&out)
                .args((command == "reconstruct").then_some("--full"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(delay));
            let process = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
            let _ = kill(process, signal);
            child.wait().unwrap();
            let whole = home.path(if command == "export" { "tree" } else { "whole" });
            for path in files(&out) {
                let name = path.strip_prefix(&out).unwrap();
                assert_eq!(
                    std::fs::read(&path).unwrap(),
                    std::fs::read(whole.join(name)).unwrap_or_default(),
                    "{command}: {} after {delay} ms",
                    name.display()
                );
            }
        }
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let names = snapshot(folder).into_iter();
    let files = names.filter(|(_, what)| what.starts_with("file"));
    files.map(|(name, _)| folder.join(name)).collect()
}

#[test]
fn the_sample_store_holds_what_it_promises() {
    let home = Home::new();
    home.demo("store");
    let telemetry = home.output(["cat", "7a11/telemetry.json", "--source", "store"]);
    let telemetry: serde_json::Value = serde_json::from_str(&telemetry).unwrap();
    let agents = telemetry["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    let time = |agent: usize, end: &str| agents[agent]["span"][end].as_str().unwrap().to_owned();
    assert!(
        time(0, "started") < time(1, "started") && time(1, "ended") < time(0, "ended"),
        "they overlap"
    );
    assert_eq!(agents[0]["joined"]["how"], "notification");
    assert_eq!(agents[1]["joined"]["how"], "result");
    let damage = telemetry["completeness"]["lines_unparseable"]
        .as_array()
        .unwrap();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0]["recovered"], true);
    // Three lines of one response carry its usage, the last of them the largest.
    assert_eq!(
        telemetry["completeness"]["responses_with_differing_usage"],
        4
    );
    let artefact = home.output(["cat", "7a11", "--source", "store"]);
    assert!(artefact.contains("image/png"), "the picture");
    assert!(!artefact.contains("iVBOR"), "never base64");
    assert!(
        artefact.contains("\\u{1B}[31m"),
        "escapes of a terminal are shown, not sent"
    );
}
