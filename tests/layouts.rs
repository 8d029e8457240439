//! Every layout in which a harness has stored sub-agents, out of invented lines: workflows, team members, forks, continued agents,
//! fragments in two project folders; and that neither order nor time of the files matters.

#![allow(clippy::unwrap_used)]

#[path = "common/corpus.rs"]
mod corpus;

mod invented;

use corpus::corpus;
use invented::{S, agent, kinds, points, session, session_in};
use sessionfs::session::{Evidence, JoinHow, Role, Run, Session};
use sessionfs::store::{Source, Store};
use sessionfs::{artefact, telemetry};
use std::fs;

fn call(uuid: &str, id: &str, tool: &str, input: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{uuid}","message":{{"id":"m{uuid}","content":[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}]}}}}"#
    )
}

fn result(uuid: &str, id: &str, text: &str, structured: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}]}},"toolUseResult":{structured}}}"#
    )
}

fn said(uuid: &str, text: &str) -> String {
    format!(r#"{{"type":"user","uuid":"{uuid}","message":{{"content":"{text}"}}}}"#)
}

fn task(uuid: &str, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","isSidechain":true,"sessionId":"$S","message":{{"content":"{text}"}}}}"#
    )
}

fn notice(uuid: &str, task: &str, call: &str) -> String {
    let call = if call.is_empty() {
        String::new()
    } else {
        format!("<tool-use-id>{call}</tool-use-id>\\n")
    };
    said(
        uuid,
        &format!(
            "<task-notification>\\n<task-id>{task}</task-id>\\n{call}<status>completed</status>\\n</task-notification>"
        ),
    )
}

fn evidence(run: &Run) -> Vec<&'static str> {
    run.spawned
        .evidence
        .iter()
        .map(|kind| kind.name())
        .collect()
}

fn how(run: &Run) -> Option<JoinHow> {
    run.joined.as_ref().map(|join| join.how)
}

#[test]
fn workflow_agents_belong_to_the_call_that_launched_their_run() {
    // [T37]
    let launch = result(
        "r1",
        "tu1",
        "Workflow launched in background. Task ID: task9",
        r#"{"isAsync":true,"status":"async_launched","runId":"wf_1","taskId":"task9"}"#,
    );
    let s = session(&[
        (
            "S.jsonl",
            &[
                &call("s1", "tu1", "Workflow", r#"{"name":"sweep"}"#),
                &launch,
                &notice("n1", "task9", ""),
            ],
        ),
        (
            "S/subagents/workflows/wf_1/agent-w1.jsonl",
            &[&task("b1", "sweep a")],
        ),
        (
            "S/subagents/workflows/wf_1/agent-w1.meta.json",
            &[r#"{"agentType":"workflow-subagent"}"#],
        ),
        (
            "S/subagents/workflows/wf_1/journal.jsonl",
            &[
                r#"{"type":"started","key":"k","agentId":"w1"}"#,
                r#"{"type":"started","key":"l","agentId":"w2"}"#,
            ],
        ),
        (
            "S/workflows/wf_1.json",
            &[
                r#"{"runId":"wf_1","workflowProgress":[{"type":"workflow_agent","agentId":"w1","label":"sweep:a"}]}"#,
            ],
        ),
    ]);
    let (_, w1) = agent(&s, "w1");
    assert_eq!(points(&w1.runs[0]), (0, 1, Some(3)));
    assert_eq!(evidence(&w1.runs[0]), ["result"]);
    assert_eq!(how(&w1.runs[0]), Some(JoinHow::Notification));
    assert_eq!(w1.description.as_deref(), Some("sweep:a"));
    assert_eq!(w1.agent_type.as_deref(), Some("workflow-subagent"));
    // The journal is no session and no thread, and the agent that it names beside is missing.
    assert_eq!(s.threads.len(), 2);
    assert_eq!(s.completeness.spawns_without_transcript, 1);
    assert!(
        s.completeness.sources_unused.is_empty(),
        "{:?}",
        s.completeness.sources_unused
    );
}

#[test]
fn team_members_are_known_by_name_or_by_their_first_message() {
    let spawn = |uuid: &str, id: &str, name: &str, prompt: &str| {
        call(
            uuid,
            id,
            "Agent",
            &format!(r#"{{"name":"{name}","team_name":"t","prompt":"{prompt}"}}"#),
        )
    };
    let spawned = |uuid: &str, id: &str, name: &str| {
        result(
            uuid,
            id,
            "Spawned successfully.",
            &format!(
                r#"{{"status":"teammate_spawned","teammate_id":"{name}@t","agent_id":"{name}@t","name":"{name}"}}"#
            ),
        )
    };
    let message = |uuid: &str, from: &str, text: &str| {
        said(
            uuid,
            &format!(
                "<teammate-message teammate_id=\\\"{from}\\\" color=\\\"red\\\">\\n{text}\\n</teammate-message>"
            ),
        )
    };
    let s = session(&[
        (
            "S.jsonl",
            &[
                &spawn("s1", "tu1", "ann", "look"),
                &spawn("s2", "tu2", "bob", "listen"),
                &spawned("r1", "tu1", "ann"),
                &spawned("r2", "tu2", "bob"),
                &message("m1", "ann", r#"{\"type\":\"idle_notification\"}"#),
                &message("m0", "ann", "still at it"),
                &message("m2", "ann", "I looked"),
                &message("m3", "bob", "I listened"),
            ],
        ),
        // The oldest form: the sidecar's type is the name.
        (
            "S/subagents/agent-a1.jsonl",
            &[&message("b1", "lead", "other words")],
        ),
        (
            "S/subagents/agent-a1.meta.json",
            &[r#"{"agentType":"ann"}"#],
        ),
        // Nothing but the prompt inside the first message.
        (
            "S/subagents/agent-a2.jsonl",
            &[&message("c1", "lead", "listen")],
        ),
    ]);
    let (thread, ann) = agent(&s, "a1");
    assert_eq!(kinds(thread), ["peer"]);
    assert_eq!(points(&ann.runs[0]), (0, 1, Some(7)));
    assert_eq!(
        (evidence(&ann.runs[0]), how(&ann.runs[0])),
        (vec!["result"], Some(JoinHow::Message))
    );
    let (_, bob) = agent(&s, "a2");
    assert_eq!(points(&bob.runs[0]), (0, 2, Some(8)));
    assert_eq!(evidence(&bob.runs[0]), ["prompt"]);

    // The later form has the name in the ID; a name that two members have places neither.
    let id = "aann-0123456789abcdef";
    let path = format!("S/subagents/agent-{id}.jsonl");
    let main = [
        spawn("s1", "tu1", "ann", "look"),
        spawned("r1", "tu1", "ann"),
    ];
    let main = [main[0].as_str(), main[1].as_str()];
    let member = [message("b1", "lead", "words")];
    let s = session(&[("S.jsonl", &main), (&path, &[&member[0]])]);
    assert_eq!(evidence(&agent(&s, id).1.runs[0]), ["result"]);
    let s = session(&[
        ("S.jsonl", &main),
        (&path, &[&member[0]]),
        (
            "S/subagents/agent-a2.jsonl",
            &[&message("c1", "lead", "else")],
        ),
        ("S/subagents/agent-a2.meta.json", &[r#"{"name":"ann"}"#]),
    ]);
    assert_eq!(s.completeness.agents_unattributed, 2);
}

#[test]
fn a_continued_agent_has_several_runs() {
    // [T36]
    let launched = |uuid: &str, id: &str| {
        result(
            uuid,
            id,
            "Async agent launched",
            r#"{"isAsync":true,"status":"async_launched","agentId":"ab12"}"#,
        )
    };
    let s = session(&[
        (
            "S.jsonl",
            &[
                &call("s1", "tu1", "Agent", r#"{"prompt":"first"}"#),
                &launched("r1", "tu1"),
                &notice("n1", "ab12", "tu1"),
                &call(
                    "s2",
                    "tu2",
                    "SendMessage",
                    r#"{"to":"ab12","message":"second"}"#,
                ),
                &result("r2", "tu2", "Message sent", r#"{"success":true}"#),
                &notice("n2", "ab12", "tu1"),
                // A message that the agent's thread never took up continues nothing.
                &call(
                    "s3",
                    "tu3",
                    "SendMessage",
                    r#"{"to":"ab12","message":"third"}"#,
                ),
            ],
        ),
        (
            "S/subagents/agent-ab12.jsonl",
            &[&task("b1", "first"), &task("b2", "second")],
        ),
    ]);
    let (_, continued) = agent(&s, "ab12");
    let runs: Vec<_> = continued.runs.iter().map(points).collect();
    assert_eq!(runs, [(0, 1, Some(3)), (0, 4, Some(6))]);
    assert_eq!(evidence(&continued.runs[1]), ["prompt"]);
    // News that names the message's own call is news of that run, and no conflict.
    for first in [
        launched("r1", "tu1"),
        result(
            "r1",
            "tu1",
            "one",
            r#"{"status":"completed","agentId":"ab12"}"#,
        ),
    ] {
        let s = session(&[
            (
                "S.jsonl",
                &[
                    &call("s1", "tu1", "Agent", r#"{"prompt":"first"}"#),
                    &first,
                    &notice("n1", "ab12", "tu1"),
                    &call(
                        "s2",
                        "tu2",
                        "SendMessage",
                        r#"{"to":"ab12","message":"second"}"#,
                    ),
                    &result("r2", "tu2", "Message sent", r#"{"success":true}"#),
                    &notice("n2", "ab12", "tu2"),
                ],
            ),
            (
                "S/subagents/agent-ab12.jsonl",
                &[&task("b1", "first"), &task("b2", "second")],
            ),
        ]);
        let (_, continued) = agent(&s, "ab12");
        assert_eq!(continued.runs.len(), 2);
        assert_eq!(points(&continued.runs[1]), (0, 4, Some(6)));
        assert_eq!(evidence(&continued.runs[1]), ["notification", "prompt"]);
        assert_eq!(s.completeness.evidence_conflicts, 0);
    }
    // An `Agent` call that resumes names the agent in its result.
    let s = session(&[
        (
            "S.jsonl",
            &[
                &call("s1", "tu1", "Agent", r#"{"prompt":"first"}"#),
                &result(
                    "r1",
                    "tu1",
                    "one",
                    r#"{"status":"completed","agentId":"ab12"}"#,
                ),
                &call(
                    "s2",
                    "tu2",
                    "Agent",
                    r#"{"prompt":"second","resume":"ab12"}"#,
                ),
                &result(
                    "r2",
                    "tu2",
                    "two",
                    r#"{"status":"completed","agentId":"ab12"}"#,
                ),
            ],
        ),
        (
            "S/subagents/agent-ab12.jsonl",
            &[&task("b1", "first"), &task("b2", "second")],
        ),
        (
            "S/subagents/agent-ab12.meta.json",
            &[r#"{"toolUseId":"tu1"}"#],
        ),
    ]);
    let (_, resumed) = agent(&s, "ab12");
    let runs: Vec<_> = resumed.runs.iter().map(points).collect();
    assert_eq!(runs, [(0, 1, Some(2)), (0, 3, Some(4))]);
    assert_eq!(s.completeness.evidence_conflicts, 0);
}

#[test]
fn a_join_is_at_the_final_news() {
    let launch = result(
        "r1",
        "tu1",
        "Async agent launched",
        r#"{"isAsync":true,"agentId":"ab12"}"#,
    );
    let stopped = notice("n1", "ab12", "tu1").replace("completed", "stopped");
    let s = session(&[
        (
            "S.jsonl",
            &[
                &call("s1", "tu1", "Agent", r#"{"prompt":"x"}"#),
                &launch,
                &stopped,
                &notice("n2", "ab12", "tu1"),
                &notice("n3", "ab12", "tu1"),
            ],
        ),
        ("S/subagents/agent-ab12.jsonl", &[&task("b1", "y")]),
    ]);
    // Told twice, it is one end; what was told before it was none.
    assert_eq!(points(&agent(&s, "ab12").1.runs[0]), (0, 1, Some(4)));
}

#[test]
fn a_fork_without_a_call_is_listed_and_placed_by_nothing() {
    let s = session(&[
        (
            "S.jsonl",
            &[
                &said("u1", "go"),
                &notice("n1", "aname-0123456789abcdef", ""),
            ],
        ),
        (
            "S/subagents/agent-aname-0123456789abcdef.jsonl",
            &[
                r#"{"type":"fork-context-ref","agentId":"aname-0123456789abcdef","parentSessionId":"$S","parentLastUuid":"u1","contextLength":9}"#,
                &task(
                    "f1",
                    "<fork-boilerplate>\\nYou are a fork\\n</fork-boilerplate>",
                ),
            ],
        ),
        (
            "S/subagents/agent-aname-0123456789abcdef.meta.json",
            &[r#"{"agentType":"fork","isFork":true,"name":"name"}"#],
        ),
    ]);
    let (thread, fork) = agent(&s, "aname-0123456789abcdef");
    assert_eq!(kinds(thread), ["task"]);
    assert_eq!((fork.runs.len(), fork.depth), (0, None));
    assert_eq!(s.completeness.agents_unattributed, 1);
    assert_eq!(s.completeness.line_types_not_shown["fork-context-ref"], 1);
}

#[test]
fn fragments_in_two_project_folders_are_one_session() {
    // [T20]
    let line = |uuid: &str, second: u32, text: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","timestamp":"2026-01-01T00:00:{second:02}Z","cwd":"/home/user/example","sessionId":"$S","message":{{"content":"{text}"}}}}"#
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, lines: &[String]| {
        let path = folder.path().join(path.replace('S', S));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.join("\n").replace("$S", S) + "\n").unwrap();
    };
    write(
        "-home-user-example/S.jsonl",
        &[
            line("a", 1, "one"),
            line("c", 5, "three"),
            line("d", 2, "four"),
        ],
    );
    write(
        "-home-user-worktree/S.jsonl",
        &[
            line("a", 1, "one"),
            line("b", 3, "two"),
            line("e", 9, "five"),
        ],
    );
    write(
        "-home-user-worktree/S/subagents/agent-ab12.jsonl",
        &[task("f", "work")],
    );
    let s = session_in(folder.path(), S);
    let said: Vec<u64> = s.threads[0].turns.iter().map(|turn| turn.line).collect();
    // Each file keeps its own order; the next line is of the file whose next stamped line is earliest.
    let words: Vec<String> = s.threads[0]
        .turns
        .iter()
        .map(|turn| match &turn.blocks[..] {
            [sessionfs::transcript::Block::Text(text)] => s.buffers.raw(*text).to_text(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["one", "two", "three", "four", "five"]);
    assert_eq!(said, [1, 2, 2, 3, 3]);
    assert_eq!(s.completeness.lines_duplicate, 1);
    assert!(s.sources.contains(&format!("{S}.jsonl (2)")));
    assert_eq!(s.threads.len(), 2);
}

#[test]
fn two_agents_of_one_id_keep_a_place_each() {
    let s = session(&[
        ("S.jsonl", &[&said("u1", "go")]),
        ("S/subagents/agent-ab12.jsonl", &[&task("b1", "one")]),
        ("agent-ab12.jsonl", &[&task("c1", "two")]),
    ]);
    let ids: Vec<_> = s.threads.iter().map(|thread| thread.id.as_str()).collect();
    assert_eq!(ids, ["main", "ab12", "ab12~2"]);
    // The same agent found twice is one.
    let s = session(&[
        ("S.jsonl", &[&said("u1", "go")]),
        (
            "S/subagents/agent-ab12.jsonl",
            &[&task("b1", "one"), &task("b2", "two")],
        ),
        (
            "agent-ab12.jsonl",
            &[&task("b1", "one"), &task("b2", "two")],
        ),
    ]);
    assert_eq!(s.threads.len(), 2);
    assert_eq!(s.completeness.lines_duplicate, 2);
}

/// Every document of a session, as one text.
fn documents(s: &Session) -> Vec<u8> {
    let mut all = Vec::new();
    for style in [
        artefact::Style::Cut(Some(8192)),
        artefact::Style::Full,
        artefact::Style::Spine,
    ] {
        let document = artefact::whole(s, style);
        all.extend(document.to_vec());
        all.extend(telemetry::whole(s, &document.shown));
    }
    all
}

#[test]
fn neither_the_order_nor_the_time_of_files_changes_a_byte() {
    let spawns: Vec<String> = (0..8)
        .flat_map(|n| {
            [
                call(
                    &format!("s{n}"),
                    &format!("tu{n}"),
                    "Agent",
                    &format!(r#"{{"prompt":"p{n}"}}"#),
                ),
                result(
                    &format!("r{n}"),
                    &format!("tu{n}"),
                    "ok",
                    &format!(r#"{{"agentId":"a{n}"}}"#),
                ),
            ]
        })
        .collect();
    let mut files = vec![(format!("P/{S}.jsonl"), spawns.join("\n") + "\n")];
    files.extend((0..8).map(|n| {
        (
            format!("P/{S}/subagents/agent-a{n}.jsonl"),
            task(&format!("b{n}"), "x").replace("$S", S) + "\n",
        )
    }));
    files.extend((0..8).map(|n| {
        (
            format!("P/{S}/subagents/agent-a{n}.meta.json"),
            r#"{"agentType":"Explore"}"#.to_owned(),
        )
    }));
    let made = |order: &[usize]| {
        let folder = tempfile::tempdir().unwrap();
        for (age, &i) in order.iter().enumerate() {
            let (path, text) = &files[i];
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let time = std::time::UNIX_EPOCH
                + std::time::Duration::from_secs(1_000_000 * (age as u64 + 1));
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        documents(&session_in(folder.path(), S))
    };
    let forwards: Vec<usize> = (0..files.len()).collect();
    let backwards: Vec<usize> = forwards.iter().rev().copied().collect();
    let mixed: Vec<usize> = forwards.iter().map(|i| i * 7 % files.len()).collect();
    let first = made(&forwards);
    assert!(first == made(&backwards), "backwards");
    assert!(first == made(&mixed), "mixed");
}

/// The sessions of the corpus beside this checkout: an explicit name of a call, found here by another way, is where the agent is.
#[test]
fn explicit_evidence_of_the_corpus_places_every_agent() {
    let root = corpus();
    let store = Store::new(vec![Source::recognise(&root).unwrap()]);
    let index = store.index();
    let mut checked = 0;
    for id in index.ids() {
        let files = store.files(id).unwrap();
        let s = sessionfs::session::open(&files);
        let explicit = named_by_id(&files);
        for thread in &s.threads {
            let Role::Agent(found) = &thread.role else {
                continue;
            };
            let Some(calls) = explicit.get(&thread.id) else {
                continue;
            };
            checked += 1;
            let ours: Vec<&str> = found
                .runs
                .iter()
                .map(|run| run.spawned.tool_use_id.as_str())
                .collect();
            assert!(
                ours.iter().all(|call| calls.contains(*call)),
                "{id} {}: {ours:?}, not {calls:?}",
                thread.id
            );
            assert!(
                !ours.is_empty(),
                "{id} {}: nowhere, not {calls:?}",
                thread.id
            );
            let kinds = found.runs.iter().flat_map(|run| &run.spawned.evidence);
            assert!(kinds.copied().any(|kind| kind <= Evidence::Text));
        }
    }
    assert!(
        checked > 0,
        "no agent with explicit evidence in {}",
        root.display()
    );
}

/// By agent, the calls that a sidecar, a structured result or a progress line of the session names for it.
fn named_by_id(
    files: &sessionfs::store::SessionFiles,
) -> std::collections::HashMap<String, std::collections::HashSet<String>> {
    let mut named: std::collections::HashMap<String, std::collections::HashSet<String>> =
        std::collections::HashMap::new();
    let mut add = |agent: &serde_json::Value, call: &serde_json::Value| {
        if let (Some(agent), Some(call)) = (agent.as_str(), call.as_str()) {
            named
                .entry(agent.to_owned())
                .or_default()
                .insert(call.to_owned());
        }
    };
    for file in files.fragments.iter().flat_map(|fragment| &fragment.files) {
        let bytes = fs::read(&file.path).unwrap();
        if let sessionfs::store::FileRole::Sidecar(agent) = &file.role {
            let sidecar: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            add(&agent.clone().into(), &sidecar["toolUseId"]);
        }
        for line in bytes.split(|&b| b == b'\n') {
            let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else {
                continue;
            };
            if let [block] = line["message"]["content"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
            {
                add(&line["toolUseResult"]["agentId"], &block["tool_use_id"]);
            }
            if line["data"]["type"] == "agent_progress" {
                add(&line["data"]["agentId"], &line["parentToolUseID"]);
            }
        }
    }
    named
}
