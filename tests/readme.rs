//! Every command that the README shows is run, and what it shows as output is what comes out.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, PARSER, program, python};
use std::path::Path;
use std::process::Command;

/// Commands that build or test this very program: here they must exist; `scripts/test` runs them.
const ELSEWHERE: [&str; 5] = [
    "scripts/",
    "cargo install",
    "sudo apt-get",
    "cd sessionfs",
    "pip install",
];

/// One fenced block of commands, and the output that the README shows right below it.
struct Block {
    line: usize,
    commands: String,
    output: Option<String>,
}

#[test]
fn every_command_runs_and_prints_what_is_shown() {
    let home = Home::new();
    // Examples without --source read the places where a harness keeps its sessions.
    home.sessionfs(["demo", ".claude/projects"])
        .assert()
        .success();
    let _unmount = Unmount(&home);
    let blocks = blocks(&readme());
    assert!(
        blocks.len() > 10,
        "the README shows its commands in ```sh blocks"
    );
    for block in blocks {
        if let Some(kind) = ELSEWHERE.iter().find(|kind| block.commands.contains(*kind)) {
            check_scripts(&block.commands, kind);
            continue;
        }
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block.commands])
            .env_clear()
            .env("PATH", path_with_program())
            .env("HOME", home.path(""))
            .env("LC_ALL", "C.UTF-8")
            .current_dir(home.path(""))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "README.md:{}: {}\n{}{}{}",
            block.line,
            output.status,
            block.commands,
            printed,
            String::from_utf8_lossy(&output.stderr)
        );
        if let Some(shown) = &block.output {
            assert!(
                matches(shown, &printed),
                "README.md:{}: shown\n{shown}\nprinted\n{printed}",
                block.line
            );
        }
    }
}

#[test]
fn the_tree_is_that_of_the_sample_store() {
    let home = Home::new();
    home.demo("store");
    home.output(["export", PARSER, "--source", "store", "-o", "out"]);
    let folder = std::fs::read_dir(home.path("out/sessions").join(PARSER)).unwrap();
    let mut there: Vec<String> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let readme = readme();
    let (_, tree) = readme.split_once(PARSER).unwrap();
    let mut shown: Vec<&str> = tree
        .lines()
        .take_while(|line| *line != "```")
        .filter_map(|line| {
            line.strip_prefix("        ├── ")
                .or_else(|| line.strip_prefix("        └── "))
        })
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    shown.sort_unstable();
    assert_eq!(shown, there);
}

#[test]
fn every_subcommand_has_an_example() {
    let help = Home::new().output(["help"]);
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let shown: String = blocks(&readme())
        .into_iter()
        .map(|block| block.commands)
        .collect();
    for command in commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        if command != "help" {
            assert!(
                shown.contains(&format!("sessionfs {command}")),
                "the README has no example of `sessionfs {command}`"
            );
        }
    }
}

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The ```sh blocks, each with the ```text block that follows it after nothing but blank lines.
fn blocks(readme: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut adjacent = false;
    let mut lines = readme.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            adjacent &= line.is_empty();
            continue;
        };
        let text: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        let text = text.join("\n") + "\n";
        match (kind, found.last_mut()) {
            ("sh", _) => found.push(Block {
                line: number + 1,
                commands: text,
                output: None,
            }),
            ("text", Some(block)) if adjacent => block.output = Some(text),
            _ => {}
        }
        adjacent = kind == "sh";
    }
    found
}

/// Whether the lines are those shown; a line of three dots stands for any number of lines.
fn matches(shown: &str, printed: &str) -> bool {
    let mut rest: Vec<&str> = printed.lines().collect();
    let mut anything = false;
    for part in shown.lines() {
        if part == "..." {
            anything = true;
            continue;
        }
        let reach = if anything {
            rest.len()
        } else {
            rest.len().min(1)
        };
        let Some(at) = rest[..reach].iter().position(|line| *line == part) else {
            return false;
        };
        rest.drain(..=at);
        anything = false;
    }
    anything || rest.is_empty()
}

fn check_scripts(commands: &str, kind: &str) {
    if kind != "scripts/" {
        return;
    }
    for word in commands
        .split_whitespace()
        .filter(|word| word.starts_with("scripts/"))
    {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(word);
        let status = Command::new("bash")
            .arg("-n")
            .arg(&script)
            .status()
            .unwrap();
        assert!(status.success(), "{word} is no shell script");
    }
}

fn path_with_program() -> std::ffi::OsString {
    let here = program().parent().unwrap().to_path_buf();
    let python = python::interpreter().parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = [here, python].into_iter();
    std::env::join_paths(first.chain(std::env::split_paths(&path))).unwrap()
}

/// Nothing that the README mounts stays when a command fails half-way.
struct Unmount<'a>(&'a Home);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = self.0.sessionfs(["unmount", "mnt"]).output();
    }
}
