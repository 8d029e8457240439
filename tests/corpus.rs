//! The whole program on real sessions: what a mount shows is what `export` writes, tools read it right, and the figures are
//! those of an independent count. The corpus lies beside the repository; `SESSIONFS_CORPUS` can name another folder of sessions.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/corpus.rs"]
mod corpus;

use common::{Home, count, snapshot, tool};
use corpus::corpus;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One mount serves all comparisons: each tool must read from it what `export` wrote.
#[test]
fn the_mount_is_the_export_whatever_reads_it() {
    let home = Home::new();
    let corpus = corpus();
    let before = snapshot(&corpus);
    home.output([
        "export".as_ref(),
        "--source".as_ref(),
        corpus.as_os_str(),
        "-o".as_ref(),
        "exported".as_ref(),
    ]);
    let exported = home.path("exported");
    let mounted = home.mount(&[&corpus], "mnt");
    let point = mounted.point.clone();

    same(&exported, &point);
    sizes_are_what_reading_gives(&point);

    for (name, args) in [
        ("cp", vec!["-r", "mnt", "copied"]),
        ("rsync", vec!["-a", "mnt/", "synced"]),
    ] {
        run(&home, name, &args);
    }
    run(&home, "tar", &["-cf", "packed.tar", "-C", "mnt", "."]);
    std::fs::create_dir(home.path("unpacked")).unwrap();
    run(&home, "tar", &["-xf", "packed.tar", "-C", "unpacked"]);
    for copy in ["copied", "synced", "unpacked"] {
        same(&exported, &home.path(copy));
    }

    // The same command in both trees prints the same.
    let files = files(&exported);
    let sample: Vec<&str> = files
        .iter()
        .step_by(17)
        .map(|path| path.to_str().unwrap())
        .collect();
    for command in [
        "rg --no-ignore --sort path --count-matches --text the .",
        "rg --no-ignore --sort path --mmap --text --line-number error sessions",
        "find . -type f -printf '%p %s\n' | sort",
        "find sessions -type f -print0 | sort -z | xargs -0 wc -c",
        "find sessions -name 'artefact*.md' -print0 | sort -z | xargs -0 tail -c 1000",
        "find sessions -name '*.json' -print0 | sort -z | xargs -0 grep -c completeness",
    ] {
        assert_eq!(
            shell(&exported, command),
            shell(&point, command),
            "{command}"
        );
    }
    for file in sample {
        assert_eq!(
            tool(
                "tail",
                [
                    "-c".into(),
                    "777".into(),
                    exported.join(file).into_os_string()
                ]
            ),
            tool(
                "tail",
                ["-c".into(), "777".into(), point.join(file).into_os_string()]
            ),
            "{file}"
        );
    }
    drop(mounted);
    assert_eq!(before, snapshot(&corpus), "no source is touched");
}

#[test]
fn an_artefact_made_twice_is_the_same() {
    let home = Home::new();
    for id in ids(&home) {
        for name in [
            "artefact.md",
            "artefact.full.md",
            "artefact.spine.md",
            "artefact.spine.md",
            "telemetry.json",
        ] {
            assert_eq!(cat(&home, &id, name), cat(&home, &id, name), "{id}/{name}");
        }
    }
}

#[test]
fn tokens_are_those_of_an_independent_count() {
    let home = Home::new();
    let sessions = count::sessions(&corpus());
    assert_eq!(sessions.keys().cloned().collect::<Vec<_>>(), ids(&home));
    for (id, files) in sessions {
        let telemetry = telemetry(&home, &id);
        let tokens = &telemetry["tokens"];
        let figure = |name: &str| tokens[name].as_u64().unwrap();
        let said = count::Tokens {
            input: figure("input"),
            output: figure("output"),
            cache_creation: figure("cache_creation"),
            cache_read: figure("cache_read"),
            responses: figure("api_responses"),
            lines: figure("usage_lines_seen"),
        };
        assert_eq!(said, count::tokens(&files), "{id}");
        assert_eq!(
            figure("total"),
            said.input + said.output + said.cache_creation + said.cache_read,
            "{id}"
        );
    }
}

#[test]
fn the_parts_of_a_session_add_up_to_it() {
    let home = Home::new();
    for id in ids(&home) {
        let telemetry = telemetry(&home, &id);
        let parts = || {
            let main = Some(&telemetry["main"]).filter(|main| main.is_object());
            let lists = [&telemetry["agents"], &telemetry["service"]];
            main.into_iter()
                .chain(lists.into_iter().flat_map(|list| list.as_array().unwrap()))
        };
        for (name, whole) in telemetry["tokens"].as_object().unwrap() {
            let sum: u64 = parts()
                .map(|part| part["tokens"][name].as_u64().unwrap())
                .sum();
            assert_eq!(sum, whole.as_u64().unwrap(), "{id}: tokens.{name}");
        }
        let mut models: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, model) in parts().flat_map(|part| part["models"].as_object().unwrap()) {
            *models.entry(name).or_default() += model["responses"].as_u64().unwrap();
        }
        for (name, model) in telemetry["models"].as_object().unwrap() {
            assert_eq!(
                models.get(name.as_str()),
                model["responses"].as_u64().as_ref(),
                "{id}: {name}"
            );
        }
        // Turns are counted over the main thread and the agents, without service threads.
        for (name, whole) in telemetry["turns"].as_object().unwrap() {
            let service = telemetry["service"].as_array().unwrap();
            let sum: u64 = parts()
                .filter(|part| !service.iter().any(|other| std::ptr::eq(*part, other)))
                .map(|part| part["turns"][name].as_u64().unwrap())
                .sum();
            assert_eq!(sum, whole.as_u64().unwrap(), "{id}: turns.{name}");
        }
    }
}

#[test]
fn every_telemetry_keeps_to_its_schema() {
    let home = Home::new();
    let schema = serde_json::from_str(&home.output(["schema", "telemetry"])).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for id in ids(&home) {
        let errors: Vec<String> = validator
            .iter_errors(&telemetry(&home, &id))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{id}: {errors:#?}");
    }
}

/// The sessions, as the program lists them.
fn ids(home: &Home) -> Vec<String> {
    let json = home.output([
        "list".as_ref(),
        "--json".as_ref(),
        "--source".as_ref(),
        corpus().as_os_str(),
    ]);
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    let mut ids: Vec<String> = rows
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(!ids.is_empty(), "the corpus holds no session");
    ids.sort();
    ids
}

fn cat(home: &Home, id: &str, file: &str) -> Vec<u8> {
    let what = OsString::from(format!("{id}/{file}"));
    let mut command = home.sessionfs([
        "cat".as_ref(),
        what.as_os_str(),
        "--source".as_ref(),
        corpus().as_os_str(),
    ]);
    command.assert().success().get_output().stdout.clone()
}

fn telemetry(home: &Home, id: &str) -> Value {
    serde_json::from_slice(&cat(home, id, "telemetry.json")).unwrap()
}

/// `diff -r` of two trees finds nothing, links compared as links.
fn same(a: &Path, b: &Path) {
    let output = Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([a, b])
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        found.chars().take(2000).collect::<String>()
    );
}

fn sizes_are_what_reading_gives(root: &Path) {
    for file in files(root) {
        let path = root.join(&file);
        let size = path.metadata().unwrap().len();
        let read = std::fs::read(&path).unwrap().len() as u64;
        assert_eq!(size, read, "{}", file.display());
    }
}

/// The files of a tree, by their paths in it.
fn files(root: &Path) -> Vec<PathBuf> {
    let list = tool(
        "find",
        [
            root.as_os_str(),
            "-type".as_ref(),
            "f".as_ref(),
            "-printf".as_ref(),
            "%P\\0".as_ref(),
        ],
    );
    let list = String::from_utf8(list).unwrap();
    list.split_terminator('\0').map(PathBuf::from).collect()
}

fn run(home: &Home, name: &str, args: &[&str]) {
    let output = Command::new(name)
        .args(args)
        .current_dir(home.path(""))
        .output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}; scripts/test installs it"));
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn shell(folder: &Path, command: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", command])
        .env("LC_ALL", "C")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
