//! The commands around the mount: `list` with its filters, `doctor`, `completions`, `man`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, NOTES, PARSER};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn ids(home: &Home, args: &[&str]) -> Vec<String> {
    let mut words = vec!["list", "--source", "store", "--json"];
    words.extend(args);
    let rows: Vec<Value> = serde_json::from_str(&home.output(words)).unwrap();
    rows.iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn list_shows_the_sessions_of_a_project_and_since_a_time() {
    let home = Home::new();
    home.demo("store");
    assert_eq!(ids(&home, &[]), [PARSER, NOTES]);
    assert_eq!(ids(&home, &["--project", "TALL"]), [PARSER]);
    assert_eq!(ids(&home, &["--project", "nothing"]), [""; 0]);
    // What still went on at that time is in the list, whenever it began.
    assert_eq!(ids(&home, &["--since", "2026-11-24T09:16:00Z"]), [PARSER]);
    assert_eq!(ids(&home, &["--since", "2026-11-20"]), [PARSER, NOTES]);
    assert_eq!(
        ids(&home, &["--since", "2026-11-24", "--project", "notes"]),
        [""; 0]
    );
    let table = home.output(["list", "--source", "store", "--since", "2026-11-24"]);
    assert_eq!(table.lines().count(), 2, "{table}");
    let said = home.failure(2, ["list", "--since", "yesterday"]);
    assert!(said.contains("give 7d"), "{said}");
}

#[test]
fn doctor_names_the_mounts_with_their_logs_and_the_sources() {
    let home = Home::new();
    let store = home.demo(".claude/projects");
    let mounted = home.mount(&[&store], "mnt");
    let text = home.output(["doctor"]);
    assert!(text.lines().count() <= 24, "one screen: {text}");
    let log = home.path(".local/state/sessionfs/mnt.log");
    let point = mounted.point.display();
    assert!(
        text.contains(&format!("{point} answers, log {}", log.display())),
        "{text}"
    );
    assert!(
        text.contains(&format!("2 sessions in {}", store.display())),
        "{text}"
    );
    let findings: Vec<Value> = serde_json::from_str(&home.output(["doctor", "--json"])).unwrap();
    assert!(findings.iter().all(|finding| finding["state"] != "bad"));
}

#[test]
fn doctor_finds_a_dead_mount_and_says_what_mends_it() {
    let home = Home::new();
    let store = home.demo("store");
    let mounted = home.mount(&[&store], "mnt");
    kill(&mounted.point);
    let point = mounted.point.display().to_string();
    let output = home
        .sessionfs(["doctor"])
        .assert()
        .code(1)
        .get_output()
        .clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(&format!("{point}: its process has died")),
        "{text}"
    );
    let mend = text
        .lines()
        .find(|line| line.contains("sessionfs unmount"))
        .unwrap();
    assert!(mend.trim().ends_with(&point), "{mend}");
    let output = home
        .sessionfs(["doctor", "--json"])
        .assert()
        .code(1)
        .get_output()
        .clone();
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let bad = findings.iter().filter(|finding| finding["state"] == "bad");
    assert_eq!(
        bad.filter(|f| f["says"].as_str().unwrap().contains(&point))
            .count(),
        1
    );
}

/// Kills the process behind a mount of this test, which its command line names.
fn kill(point: &Path) {
    let wanted = point.to_str().unwrap().as_bytes();
    let mut killed = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|word| word == wanted) {
            let id: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::SIGKILL)
                .unwrap();
            killed += 1;
        }
    }
    assert_eq!(killed, 1);
    common::until("the mount is dead", || fs::metadata(point).is_err());
}

#[test]
fn what_is_excluded_is_nowhere_in_the_mount() {
    let home = Home::new();
    let store = home.demo("store");
    let point = home.path("mnt");
    fs::create_dir(&point).unwrap();
    let (store, mnt) = (store.to_str().unwrap(), point.to_str().unwrap());
    home.sessionfs(["mount", "--exclude", "7a11", store, mnt])
        .assert()
        .success();
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(point.join(path)).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let (sessions, days, projects) = (names("sessions"), names("by-date"), names("by-project"));
    let table = fs::read_to_string(point.join("sessions.tsv")).unwrap();
    let latest = fs::read_link(point.join("latest")).unwrap();
    home.sessionfs(["unmount", mnt]).assert().success();
    assert_eq!(sessions, [NOTES]);
    assert_eq!(days, ["2026-11-20"]);
    assert!(
        projects.len() == 1 && projects[0].starts_with("notes~"),
        "{projects:?}"
    );
    assert!(!table.contains(PARSER) && table.contains(NOTES));
    assert_eq!(latest, Path::new("sessions").join(NOTES));
}

#[test]
fn completions_and_the_manual_name_every_command() {
    let home = Home::new();
    let help = home.output(["help"]);
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10);
    let manual = home.output(["man"]);
    assert!(manual.contains(".TH sessionfs 1"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.output(["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    for command in commands {
        assert!(
            manual.contains(&format!("sessionfs\\-{command}")),
            "{command}"
        );
        if command != "help" {
            let page = home.output(["man", command]);
            assert!(
                page.contains(&format!("sessionfs\\-{command} \\-")),
                "{page}"
            );
        }
    }
    let page = home.output(["man", "log", "append"]);
    assert!(
        page.contains(".TH sessionfs-log-append 1") && page.contains("sessionfs log append"),
        "{page}"
    );
    assert!(
        home.failure(2, ["man", "log", "nothing"])
            .contains("there is no command log nothing")
    );
    assert!(
        home.failure(2, ["man", "nothing"])
            .contains("there is no command nothing")
    );
    home.failure(2, ["completions", "nothing"]);
}

#[test]
fn doctor_says_what_a_machine_without_the_device_lacks() {
    let home = Home::new();
    home.demo(".claude/projects");
    // In a mount namespace of its own, where /dev is empty.
    let namespace = if nix::unistd::geteuid().is_root() {
        "-m"
    } else {
        "-rm"
    };
    let script = "mount -t tmpfs none /dev && exec \"$0\" doctor";
    let output = std::process::Command::new("unshare")
        .args([namespace, "sh", "-c", script])
        .arg(common::program())
        .env("HOME", home.path(""))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("device       bad "), "{text}");
    assert!(text.contains("modprobe fuse"), "{text}");
    assert!(
        text.contains("2 sessions in "),
        "the rest is looked at all the same: {text}"
    );
}
