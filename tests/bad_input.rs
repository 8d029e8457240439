//! Input that is no session, or not any more: a clear word in the right place, and everything else unharmed.

#![allow(clippy::unwrap_used)]

mod common;

use common::lines::Lines;
use common::{Home, Mounted, program, tool, write};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const GOOD: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const BAD: &str = "bbbbbbbb-0000-4000-8000-000000000002";

fn session(id: &str, said: &str) -> Lines {
    Lines::main(id)
        .prompt(said)
        .answer(&format!("msg_{id}"), "good day", 7)
}

/// A store with one good session; a test puts something bad beside it.
fn store(home: &Home) -> std::path::PathBuf {
    let project = home.path("store/-home-user-example");
    write(
        &project.join(format!("{GOOD}.jsonl")),
        session(GOOD, "hello").text(),
    );
    project
}

fn good_is_unharmed(mounted: &Mounted<'_>) {
    let artefact = mounted.path(&format!("sessions/{GOOD}/artefact.md"));
    assert!(std::fs::read_to_string(artefact).unwrap().contains("hello"));
}

#[test]
fn what_is_no_directory_is_no_source() {
    let home = Home::new();
    store(&home);
    write(&home.path("notes.txt"), "x");
    std::fs::create_dir(home.path("mnt")).unwrap();
    let transcript = format!("store/-home-user-example/{GOOD}.jsonl");
    for (source, says) in [
        ("notes.txt", "is a file"),
        (transcript.as_str(), "give its folder"),
        ("nowhere", "no such directory"),
    ] {
        for args in [
            vec!["list", "--source", source],
            vec!["mount", source, "mnt"],
        ] {
            let said = home.failure(1, args);
            assert!(said.contains(says) && said.contains(source), "{said}");
        }
    }
}

#[test]
fn an_empty_source_is_a_mount_without_sessions() {
    let home = Home::new();
    std::fs::create_dir(home.path("store")).unwrap();
    let printed = home
        .sessionfs(["list", "--source", "store"])
        .assert()
        .success();
    assert!(String::from_utf8_lossy(&printed.get_output().stderr).contains("no sessions"));
    assert_eq!(home.output(["list", "--source", "store", "--json"]), "[]\n");

    std::fs::create_dir(home.path("empty")).unwrap();
    let output = home
        .sessionfs(["mount", "store", "empty"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("no sessions"),
        "{said}"
    );
    home.output(["unmount", "empty"]);

    let mounted = home.mount(&[&home.path("store")], "mnt");
    assert!(mounted.path("README.md").metadata().unwrap().len() > 0);
    assert_eq!(
        std::fs::read_dir(mounted.path("sessions")).unwrap().count(),
        0
    );
    assert!(mounted.path("latest").symlink_metadata().is_err());

    // A first session shows without a remount.
    store(&home);
    soon("the first session", || {
        mounted
            .path(&format!("sessions/{GOOD}/artefact.md"))
            .exists()
    });
}

#[test]
fn a_fifo_and_a_loop_of_links_are_left_alone() {
    let home = Home::new();
    let project = store(&home);
    tool("mkfifo", [project.join(format!("{BAD}.jsonl"))]);
    let agents = project.join(GOOD).join("subagents");
    std::fs::create_dir_all(&agents).unwrap();
    tool("mkfifo", [agents.join("agent-a0000000000000001.jsonl")]);
    std::os::unix::fs::symlink("..", project.join("up")).unwrap();
    std::os::unix::fs::symlink("loop", project.join("loop")).unwrap();
    std::os::unix::fs::symlink(".", agents.join("here")).unwrap();
    std::os::unix::fs::symlink("circle.jsonl", project.join("circle.jsonl")).unwrap();

    // An open of the FIFO would wait for a writer for ever.
    let mounted = home.mount(&[&home.path("store")], "mnt");
    good_is_unharmed(&mounted);
    let list = home.output(["list", "--source", "store"]);
    assert!(list.contains("aaaaaaaa"), "{list}");
    home.output(["export", "--source", "store", "-o", "out"]);
    let found = tool(
        "find",
        [mounted.path(""), home.path("out")].map(std::path::PathBuf::into_os_string),
    );
    assert!(
        String::from_utf8_lossy(&found).lines().count() < 200,
        "no loop is walked"
    );
    let artefact =
        std::fs::read_to_string(mounted.path(&format!("sessions/{GOOD}/artefact.md"))).unwrap();
    assert!(
        artefact.contains("FIFO"),
        "the session says what it could not use: {artefact}"
    );
}

#[test]
fn an_unreadable_file_is_said_where_it_belongs() {
    let home = Home::new();
    let project = store(&home);
    let bad = project.join(format!("{BAD}.jsonl"));
    write(&bad, session(BAD, "secret").text());
    std::fs::set_permissions(&bad, PermissionsExt::from_mode(0o000)).unwrap();

    let run = |args: &[&str]| ordinary_user(&home, args);
    let (ok, list, said) = run(&["list", "--source", "store"]);
    assert!(
        ok && list.contains("aaaaaaaa") && list.contains("bbbbbbbb"),
        "{list}{said}"
    );
    let (ok, artefact, said) = run(&["cat", GOOD, "--source", "store"]);
    assert!(ok && artefact.contains("hello"), "{said}");
    let (ok, artefact, said) = run(&["cat", BAD, "--source", "store"]);
    assert!(
        ok && artefact.contains("unreadable") && !artefact.contains("secret"),
        "{artefact}{said}"
    );
    let (ok, telemetry, said) =
        run(&["cat", &format!("{BAD}/telemetry.json"), "--source", "store"]);
    let telemetry: serde_json::Value = serde_json::from_str(&telemetry).unwrap();
    assert!(ok, "{said}");
    assert_eq!(telemetry["completeness"]["main_thread"], "unreadable");
    assert_eq!(telemetry["completeness"]["complete"], false);
    let (ok, _, said) = run(&[
        "cat",
        &format!("{BAD}/source/{BAD}.jsonl"),
        "--source",
        "store",
    ]);
    assert!(!ok && said.contains("ermission denied"), "{said}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_gives_one_version_and_then_the_next() {
    let home = Home::new();
    let project = store(&home);
    let path = project.join(format!("{BAD}.jsonl"));
    let long = session(BAD, &"many words ".repeat(50_000)).text();
    write(&path, &long);
    let mounted = home.mount(&[&home.path("store")], "mnt");
    let artefact = mounted.path(&format!("sessions/{BAD}/artefact.full.md"));

    let mut file = std::fs::File::open(&artefact).unwrap();
    let size = file.metadata().unwrap().len();
    let mut text = vec![0; 1000];
    file.read_exact(&mut text).unwrap();
    write(&path, session(BAD, "short").text());
    file.read_to_end(&mut text).unwrap();
    assert_eq!(text.len() as u64, size, "what is open keeps its version");
    let text = String::from_utf8(text).unwrap();
    assert!(text.matches("many words").count() >= 50_000, "all of it");

    soon("the new version", || {
        std::fs::read_to_string(&artefact)
            .is_ok_and(|text| text.contains("short") && !text.contains("many words"))
    });
    let size = artefact.metadata().unwrap().len();
    assert_eq!(std::fs::read(&artefact).unwrap().len() as u64, size);
    good_is_unharmed(&mounted);

    // Cut in the middle of a line: the rest of it is an unfinished line, and counted as such.
    std::fs::write(&path, &long.as_bytes()[..long.len() - 20]).unwrap();
    let telemetry = mounted.path(&format!("sessions/{BAD}/telemetry.json"));
    soon("the unfinished line", || {
        let telemetry = std::fs::read_to_string(&telemetry).unwrap_or_default();
        let telemetry: serde_json::Value = serde_json::from_str(&telemetry).unwrap_or_default();
        telemetry["completeness"]["incomplete_tail_bytes"].as_u64() > Some(0)
    });

    std::fs::remove_file(&path).unwrap();
    soon("its end", || {
        !mounted.path(&format!("sessions/{BAD}")).exists()
    });
    good_is_unharmed(&mounted);
}

/// Waits until something holds. What it waits for is promised within a second; the limit only ends a broken test.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what} does not show"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs the program as a user whom permissions bind: root reads everything.
fn ordinary_user(home: &Home, args: &[&str]) -> (bool, String, String) {
    let mut command = if nix::unistd::geteuid().is_root() {
        // The user needs a way to the store, and a program where it can be reached.
        let copy = home.path("sessionfs");
        if !copy.exists() {
            std::fs::copy(program(), &copy).unwrap();
        }
        for path in ["", "store", "store/-home-user-example", "sessionfs"] {
            std::fs::set_permissions(home.path(path), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut command = std::process::Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(copy);
        command
    } else {
        std::process::Command::new(program())
    };
    let output = command
        .args(args)
        .env("HOME", home.path(""))
        .current_dir(Path::new(&home.path("")))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}
