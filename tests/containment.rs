//! Nothing that a participant wrote can become structure of a document, and no path of this machine stands outside a fence
//! (`spec/artefact.md`, "Containment").

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/any_session.rs"]
mod any_session;
#[path = "support/checks.rs"]
mod checks;
#[path = "common/corpus.rs"]
mod corpus;
#[path = "support/markdown.rs"]
mod markdown;
#[path = "support/values.rs"]
mod values;

use any_session::{Fence, Values, make};
use checks::*;
use corpus::corpus;
use markdown::{Part, parse};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use pulldown_cmark::Options;
use serde_json::{Value, json};
use sessionfs::artefact::{self, Document, Style};
use sessionfs::session::Session;
use sessionfs::store::{Source, Store};
use sessionfs::telemetry;
use std::path::Path;
use values::{recipe, recipe_of};

const STYLES: [Style; 4] = [
    Style::Cut(Some(16)),
    Style::Cut(None),
    Style::Full,
    Style::Spine,
];

fn text(document: &Document) -> String {
    String::from_utf8(document.to_vec()).expect("every document is UTF-8")
}

/// The same cases in every run, unless the environment asks for others.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: std::env::var_os("PROPTEST_CASES").map_or(128, |_| config.cases),
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        failure_persistence: None,
        ..config
    }
}

/// Forms in which a path of this machine may get into a value.
const PATHS: &[&str] = &[
    "/marker-root/secret-home/last",
    "see /marker-root/secret-home/last now",
    "cwd=/marker-root/secret-home/last/",
    "\"/marker-root/secret-home/last\"\nand (~/secret-home/last)",
    "file:///marker-root/secret-home/last",
    "a:/marker-root/secret-home/last",
    "C:\\marker-root\\secret-home\\last",
    "\\\\marker-root\\secret-home\\last",
    "**/marker-root/secret-home/last**",
    "[a](b)/marker-root/secret-home/last",
    "a_/marker-root/secret-home/last",
    "\u{e9}/marker-root/secret-home/last",
    ".../marker-root/secret-home/last",
    "\u{2026}/marker-root/secret-home/last",
    "/marker-root/secret-home ann's/last",
    "in /a b/marker-root's \"secret-home\"/last",
    "C:Users\\secret-home\\last",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_session_cannot_forge_its_document(recipe in recipe()) {
        let hostile = make(&recipe, Values::Hostile);
        let benign = make(&recipe, Values::Benign);
        for style in STYLES {
            let document = artefact::whole(&hostile.session, style);
            let markdown = text(&document);
            for options in [Options::ENABLE_TABLES, Options::all()] {
                let parsed = parse(&markdown, options);
                let model = parse(&text(&artefact::whole(&benign.session, style)), options);
                check_same(&skeleton(&parsed), &skeleton(&model));
            }
            let parsed = parse(&markdown, Options::ENABLE_TABLES);
            check_headings(&hostile.session, &parsed, style);
            check_markers(&hostile.session, &parsed);
            check_table(&hostile.session, &parsed);
            check_spans(&parsed);
            check_fences(&fences(&hostile, style), &parsed, style);
            check_sections(&hostile.session, &document, style);
            check_characters(&markdown);
        }
    }

    #[test]
    fn a_thread_cannot_forge_its_own_document(recipe in recipe()) {
        let hostile = make(&recipe, Values::Hostile);
        let benign = make(&recipe, Values::Benign);
        for (thread, expected) in hostile.fences.iter().enumerate() {
            let parsed = parse(&text(&artefact::agent(&hostile.session, thread, Style::Full)), Options::ENABLE_TABLES);
            let model = parse(&text(&artefact::agent(&benign.session, thread, Style::Full)), Options::ENABLE_TABLES);
            check_same(&skeleton(&parsed), &skeleton(&model));
            let mut fences: Vec<&Fence> = hostile.notes.iter().collect();
            fences.extend(expected.iter().map(|expected| &expected.fence));
            check_fences(&fences, &parsed, Style::Full);
            check_spans(&parsed);
        }
    }

    #[test]
    fn no_absolute_path_stands_outside_a_fence(recipe in recipe_of(PATHS)) {
        let session = make(&recipe, Values::Hostile).session;
        for style in STYLES {
            let document = artefact::whole(&session, style);
            check_no_path(&outside(&parse(&text(&document), Options::ENABLE_TABLES)));
            check_no_path(&String::from_utf8(telemetry::whole(&session, &document.shown)).unwrap());
            for thread in 0..session.threads.len() {
                let document = artefact::agent(&session, thread, style);
                check_no_path(&outside(&parse(&text(&document), Options::ENABLE_TABLES)));
                check_no_path(&String::from_utf8(telemetry::agent(&session, thread, &document.shown)).unwrap());
            }
        }
    }
}

fn check_same(structure: &[Part], model: &[Part]) {
    for (part, expected) in structure.iter().zip(model) {
        assert_eq!(part, expected);
    }
    let common = structure.len().min(model.len());
    assert_eq!(structure[common..], model[common..]);
}

fn sessions(source: &Path) -> Vec<Session> {
    let store = Store::new(vec![Source::recognise(source).unwrap()]);
    let ids: Vec<String> = store.index().ids().map(str::to_owned).collect();
    ids.iter()
        .map(|id| sessionfs::session::open(&store.files(id).unwrap()))
        .collect()
}

#[test]
fn the_corpus_is_contained_and_rendered_the_same_twice() {
    let folder = corpus();
    for (session, again) in sessions(&folder).iter().zip(&sessions(&folder)) {
        for style in [Style::Cut(Some(8192)), Style::Full, Style::Spine] {
            let document = artefact::whole(session, style);
            let markdown = text(&document);
            assert!(
                markdown == text(&artefact::whole(again, style)),
                "{} differs",
                session.id
            );
            assert!(
                telemetry::whole(session, &document.shown)
                    == telemetry::whole(again, &document.shown)
            );
            let parsed = parse(&markdown, Options::ENABLE_TABLES);
            check_headings(session, &parsed, style);
            check_markers(session, &parsed);
            check_table(session, &parsed);
            check_spans(&parsed);
            check_sections(session, &document, style);
            check_characters(&markdown);
        }
    }
}

/// A thread's section is the same in the session's document and in its own.
#[test]
fn an_agents_own_document_has_the_same_sections() {
    let folder = corpus();
    for session in sessions(&folder) {
        let whole = artefact::whole(&session, Style::Full);
        let section = |document: &Document, section: &artefact::Section| {
            document.to_vec()[section.range.start as usize..section.range.end as usize].to_vec()
        };
        for thread in 0..session.threads.len() {
            let own = artefact::agent(&session, thread, Style::Full);
            let of_whole = whole
                .sections
                .iter()
                .filter(|section| section.thread == thread);
            assert!(
                own.sections
                    .iter()
                    .map(|s| section(&own, s))
                    .eq(of_whole.map(|s| section(&whole, s)))
            );
        }
    }
}

/// From files on disk: neither where they lie nor where the session worked stands outside a fence.
#[test]
fn no_place_of_this_machine_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = "/marker-root/secret-home/last";
    let id = "0f0e0d0c-0000-4000-8000-000000000002";
    let project = folder.path().join("-marker-root-secret-home-last");
    let agents = project.join(id).join("subagents");
    std::fs::create_dir_all(&agents).unwrap();
    let line = |uuid: &str, rest: Value| {
        let mut line = json!({"uuid": uuid, "sessionId": id, "timestamp": cwd, "cwd": cwd, "version": cwd, "gitBranch": cwd});
        line.as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        line.to_string() + "\n"
    };
    let prompt = |uuid: &str, sidechain: bool| {
        line(
            uuid,
            json!({"type": "user", "isSidechain": sidechain, "agentId": "a1", "origin": {"kind": cwd, "from": cwd}, "message": {"role": "user", "content": format!("go to {cwd}")}}),
        )
    };
    let answer = line(
        "a1",
        json!({"type": "assistant", "message": {"id": cwd, "model": cwd, "role": "assistant", "usage": {"output_tokens": 1}, "content": [
            {"type": "tool_use", "id": cwd, "name": cwd, "input": {"file_path": cwd, cwd: format!("a\n{cwd}"), "description": cwd, "subagent_type": cwd}},
            {"type": "image", "source": {"type": "base64", "media_type": cwd, "data": "aGk="}},
            {"type": cwd, "path": cwd},
        ]}}),
    );
    let rest = [
        line(
            "r1",
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": cwd, "content": cwd}]}, "toolUseResult": {"agentId": "a1", "persistedOutputPath": cwd}}),
        ),
        json!({"type": "custom-title", "sessionId": id, "customTitle": format!("Work in {cwd}")})
            .to_string()
            + "\n",
        json!({"type": cwd, "sessionId": id}).to_string() + "\n",
        line("s0", json!({"type": "system", "subtype": cwd})),
        line(
            "s2",
            json!({"type": "attachment", "attachment": {"type": cwd}}),
        ),
        line("s3", json!({"type": "progress", "data": {"type": cwd}})),
        line(
            "s1",
            json!({"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": cwd, "preTokens": 5}}),
        ),
        format!("broken {cwd}\n"),
    ];
    std::fs::write(
        project.join(format!("{id}.jsonl")),
        prompt("u1", false) + &answer + &rest.concat(),
    )
    .unwrap();
    std::fs::write(agents.join("agent-a1.jsonl"), prompt("b1", true)).unwrap();
    let sidecar =
        json!({"agentType": cwd, "description": cwd, "toolUseId": cwd, "worktreePath": cwd});
    std::fs::write(agents.join("agent-a1.meta.json"), sidecar.to_string()).unwrap();
    std::fs::write(agents.join("notes.jsonl"), cwd).unwrap();
    let cut = "0f0e0d0c-0000-4000-8000-000000000004";
    let long = format!("go to {cwd}/{}", "x".repeat(80));
    let prompt = json!({"type": "user", "uuid": "u1", "sessionId": cut, "message": {"role": "user", "content": long}});
    std::fs::write(project.join(format!("{cut}.jsonl")), format!("{prompt}\n")).unwrap();

    let sessions = sessions(folder.path());
    let session = &sessions[0];
    assert_eq!(session.threads.len(), 2);
    let root = folder.path().to_str().unwrap();
    let check = |words: &str| {
        check_no_path(words);
        assert!(!words.contains(root), "{words}");
    };
    for style in STYLES {
        let document = artefact::whole(session, style);
        let markdown = text(&document);
        let said = markdown.contains(&format!("go to {cwd}"));
        assert!(
            said || style == Style::Cut(Some(16)),
            "what was said stays as it was said"
        );
        check(&outside(&parse(&markdown, Options::ENABLE_TABLES)));
        check(&String::from_utf8(telemetry::whole(session, &document.shown)).unwrap());
        for thread in 0..session.threads.len() {
            let document = artefact::agent(session, thread, style);
            check(&outside(&parse(&text(&document), Options::ENABLE_TABLES)));
            check(&String::from_utf8(telemetry::agent(session, thread, &document.shown)).unwrap());
        }
    }
    // The first prompt is the title, and is cut: in the middle of a path that would make an earlier part the last one.
    let title = format!("go to …/{}…", "x".repeat(72));
    assert_eq!(sessions[1].title, Some(title));
    let document = artefact::whole(&sessions[1], Style::Full);
    check(&outside(&parse(&text(&document), Options::ENABLE_TABLES)));
    check(&String::from_utf8(telemetry::whole(&sessions[1], &document.shown)).unwrap());
}

/// What a person sees of a small session, whole.
#[test]
fn a_small_session_reads_as_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let id = "0f0e0d0c-0000-4000-8000-000000000003";
    let project = folder.path().join("-home-ann-parser");
    std::fs::create_dir_all(&project).unwrap();
    let at = "2026-11-30T20:40:29.123Z";
    let lines = [
        json!({"type": "user", "uuid": "u1", "sessionId": id, "timestamp": at, "cwd": "/home/ann/parser", "message": {"role": "user", "content": "Say ```hi```\r\nin \u{202e}red"}}),
        json!({"type": "assistant", "uuid": "a1", "sessionId": id, "timestamp": at, "message": {"id": "m1", "model": "model-1", "role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "", "signature": "abc"},
            {"type": "tool_use", "id": "t1", "name": "Write", "input": {"path": "a.txt", "text": "one\ntwo\n", "mode": {"n": [1, 2]}}},
        ]}}),
        json!({"type": "user", "uuid": "r1", "sessionId": id, "timestamp": at, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "no"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]},
        ]}}),
    ];
    std::fs::write(
        project.join(format!("{id}.jsonl")),
        lines.map(|line| line.to_string() + "\n").concat(),
    )
    .unwrap();
    let markdown = text(&artefact::whole(&sessions(folder.path())[0], Style::Full));
    let turns = markdown.find("### Turn 1").unwrap();
    assert_eq!(
        &markdown[turns..],
        "\
### Turn 1 · user · 2026-11-30T20:40:29.123Z

Attribution by the record of messages: unknown; the record holds no start of this session

Text

````
Say ```hi```
in \\u{202E}red
````

### Turn 2 · assistant · 2026-11-30T20:40:29.123Z · `model-1`

Thinking: the transcript does not hold its text.

Tool call `Write`, ID `t1`

Input

```
{
  \"mode\": {
    \"n\": [
      1,
      2
    ]
  },
  \"path\": \"a.txt\"
}
```

Input `text`

```
one
two

```

### Turn 3 · tool-result · 2026-11-30T20:40:29.123Z

Result of tool call `t1`, an error

Text

```
no
```

Picture, media type `image/png`, 2 bytes, SHA-256 8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4, objects/8f434346648f6b96.png

"
    );
    assert!(markdown.contains("- CR LF pairs shown as a line break: 1\n"));
    assert!(markdown.contains("This session has no sub-agents."));
}
