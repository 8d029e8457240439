//! Nothing that a participant wrote can become structure of a document, and no path of this machine stands outside a fence
//! (`spec/artefact.md`, "Containment").

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/any_session.rs"]
mod any_session;
#[path = "support/markdown.rs"]
mod markdown;

use any_session::{Expected, Fence, Made, Values, make, recipe, recipe_of};
use markdown::{Parsed, Part, parse};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use pulldown_cmark::Options;
use serde_json::{Value, json};
use sessionfs::artefact::{self, Document, Style};
use sessionfs::session::{MarkerKind, Role, Session};
use sessionfs::store::{Source, Store};
use sessionfs::telemetry;
use sessionfs::transcript::Stamp;
use std::path::{Path, PathBuf};

const STYLES: [Style; 4] = [
    Style::Cut(Some(16)),
    Style::Cut(None),
    Style::Full,
    Style::Spine,
];

fn text(document: &Document) -> String {
    let bytes = document
        .parts
        .iter()
        .flat_map(|part| part.iter().copied())
        .collect();
    String::from_utf8(bytes).expect("every document is UTF-8")
}

/// The same cases in every run, unless the environment asks for others.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.max(160),
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

/// Everything outside the fences.
fn outside(parsed: &Parsed) -> String {
    let mut words = parsed.spans.join("\n");
    for part in &parsed.parts {
        words.push('\n');
        match part {
            Part::Heading(_, text)
            | Part::Paragraph(text)
            | Part::Quote(text)
            | Part::Item(text) => words.push_str(text),
            Part::Row(cells) => words.push_str(&cells.join("\n")),
            Part::Fence => {}
        }
    }
    words
}

fn check_no_path(words: &str) {
    for secret in ["marker-root", "secret-home"] {
        assert!(!words.contains(secret), "{secret} in {words}");
    }
}

/// The structure of a document without what may differ between two sessions of the same structure: numbers, and what is counted
/// of how the values are shown.
fn skeleton(parsed: &Parsed) -> Vec<Part> {
    let counted = [
        "blocks cut",
        "bytes not shown",
        "characters shown",
        "places shown",
        "CR LF pairs",
        "Cut here: ",
    ];
    let mut parts = Vec::new();
    for part in &parsed.parts {
        match part {
            Part::Item(words) | Part::Paragraph(words)
                if counted.iter().any(|start| words.starts_with(start)) => {}
            Part::Paragraph(words) => {
                let words = words.split(", SHA-256").next().unwrap();
                parts.push(Part::Paragraph(
                    words.replace(|c: char| c.is_ascii_digit(), ""),
                ));
            }
            other => parts.push(other.clone()),
        }
    }
    parts
}

/// The threads in the order of the document.
fn order(session: &Session) -> (Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>) {
    let threads = |wanted: &dyn Fn(&Role) -> bool| {
        (0..session.threads.len())
            .filter(|&index| wanted(&session.threads[index].role))
            .collect::<Vec<_>>()
    };
    let is_placed = |role: &Role| matches!(role, Role::Agent(agent) if agent.depth.is_some() && !agent.runs.is_empty());
    (
        threads(&|role| matches!(role, Role::Main)),
        threads(&is_placed),
        threads(&|role| matches!(role, Role::Agent(_)) && !is_placed(role)),
        threads(&|role| matches!(role, Role::Service(_))),
    )
}

fn check_headings(session: &Session, parsed: &Parsed, style: Style) {
    let (main, placed, unplaced, service) = order(session);
    let mut expected: Vec<String> = [
        "# Session ▢",
        "## How to read this document",
        "## Completeness",
        "## Timeline",
        "## Main thread",
    ]
    .map(str::to_owned)
    .to_vec();
    let threads = |heading: &str, indexes: &[usize], expected: &mut Vec<String>| {
        for &index in indexes {
            if !heading.is_empty() {
                expected.push(heading.to_owned());
            }
            for (number, turn) in session.threads[index].turns.iter().enumerate() {
                let at = match turn.at {
                    Stamp::At(at) => format!("{at:.3}"),
                    Stamp::Missing => "no time recorded".to_owned(),
                    Stamp::Unreadable(_) => "unreadable time ▢".to_owned(),
                };
                let model = if turn.model.is_some() { " · ▢" } else { "" };
                expected.push(format!(
                    "### Turn {} · {} · {at}{model}",
                    number + 1,
                    turn.kind.name()
                ));
            }
        }
    };
    threads("", &main, &mut expected);
    threads("## Agent ▢", &placed, &mut expected);
    if !unplaced.is_empty() {
        expected.push("## Unattributed sub-agents".to_owned());
        threads("## Agent ▢", &unplaced, &mut expected);
    }
    if !service.is_empty() {
        expected.push("## Service threads".to_owned());
        threads("## Service thread ▢", &service, &mut expected);
    }
    let mut headings = parsed.headings();
    if style == Style::Spine {
        // The reduced form leaves out turns, and shows no other.
        let is_turn = |heading: &&String| heading.starts_with("### Turn ");
        let turns: Vec<_> = headings.iter().filter(is_turn).cloned().collect();
        let mut all = expected.iter().filter(is_turn);
        assert!(
            turns.iter().all(|turn| all.any(|known| known == turn)),
            "{turns:?}"
        );
        headings.retain(|heading| !heading.starts_with("### Turn "));
        expected.retain(|heading| !heading.starts_with("### Turn "));
    }
    assert_eq!(headings, expected);
}

fn check_markers(session: &Session, parsed: &Parsed) {
    let mut quotes: Vec<&str> = parsed
        .parts
        .iter()
        .filter_map(|part| {
            if let Part::Quote(words) = part {
                Some(words.split([' ', ';']).next().unwrap())
            } else {
                None
            }
        })
        .collect();
    let mut markers: Vec<&str> = session
        .threads
        .iter()
        .flat_map(|thread| &thread.markers)
        .map(|marker| match marker.what {
            MarkerKind::Spawned(_) => "[SPAWNED",
            MarkerKind::Joined(_) => "[JOINED",
            MarkerKind::Compacted { .. } => "[COMPACTED",
            MarkerKind::Rewound { .. } => "[REWOUND",
        })
        .collect();
    quotes.sort_unstable();
    markers.sort_unstable();
    assert_eq!(quotes, markers);
}

fn check_table(session: &Session, parsed: &Parsed) {
    let agents = session
        .threads
        .iter()
        .filter(|thread| matches!(thread.role, Role::Agent(_)))
        .count();
    let rows: Vec<_> = parsed
        .parts
        .iter()
        .filter_map(|part| {
            if let Part::Row(cells) = part {
                Some(cells)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(rows.len(), if agents == 0 { 0 } else { agents + 1 });
    for cells in rows {
        assert_eq!(cells.len(), 10);
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{cells:?}");
    }
}

/// Every code span holds a safe value.
fn check_spans(parsed: &Parsed) {
    for span in &parsed.spans {
        assert!((1..=128).contains(&span.chars().count()), "{span:?}");
        assert!(
            !span.starts_with(' ') && !span.ends_with(' ') && !span.contains("  "),
            "{span:?}"
        );
        assert!(
            !span.contains(['`', '|']) && !span.replace("\\u{", "").contains('\\'),
            "{span:?}"
        );
        assert!(
            span.chars()
                .all(|c| c == ' ' || !(c.is_whitespace() || c.is_control())),
            "{span:?}"
        );
    }
}

fn fences(made: &Made, style: Style) -> Vec<&Fence> {
    let (main, placed, unplaced, service) = order(&made.session);
    let threads = main.iter().chain(&placed).chain(&unplaced).chain(&service);
    let kept = |expected: &&Expected| style != Style::Spine || expected.in_spine;
    let turns = threads
        .flat_map(|&thread| &made.fences[thread])
        .filter(kept);
    made.notes
        .iter()
        .chain(turns.map(|expected| &expected.fence))
        .collect()
}

/// Each fence gives its text back, cut where it is long and with the right note.
fn check_fences(expected: &[&Fence], parsed: &Parsed, style: Style) {
    assert_eq!(parsed.fences.len(), expected.len());
    let mut notes = Vec::new();
    let mut last_was_fence = false;
    for part in &parsed.parts {
        if last_was_fence {
            notes.push(match part {
                Part::Paragraph(words) => words.strip_prefix("Cut here: ").map(|words| {
                    words
                        .trim_end_matches(" bytes more are not shown.")
                        .parse::<usize>()
                        .unwrap()
                }),
                _ => None,
            });
        }
        last_was_fence = *part == Part::Fence;
    }
    notes.resize(expected.len(), None);
    let bare = |text: &str| text.replace([' ', '\n', '\t'], "");
    for ((fence, shown), note) in expected.iter().zip(&parsed.fences).zip(notes) {
        match (fence, note) {
            (Fence::Text(text), None) => assert_eq!(shown, text),
            (Fence::Json(json), None) => assert_eq!(bare(shown), bare(json)),
            (_, Some(_)) if style != Style::Cut(Some(16)) => panic!("{shown:?} is cut"),
            (Fence::Text(text), Some(more)) => {
                assert!(
                    text.starts_with(shown.as_str()) && shown.len() <= 16,
                    "{shown:?} of {text:?}"
                );
                assert_eq!(shown.len() + more, text.len());
            }
            (Fence::Json(json), Some(_)) => assert!(
                bare(json).starts_with(&bare(shown)),
                "{shown:?} of {json:?}"
            ),
        }
    }
}

/// The sections are the turns' text, from heading to heading.
fn check_sections(session: &Session, document: &Document, style: Style) {
    let turns: usize = session
        .threads
        .iter()
        .map(|thread| thread.turns.len())
        .sum();
    assert!(style == Style::Spine || document.sections.len() == turns);
    for section in &document.sections {
        let part = &document.parts[section.part];
        let bytes = &part[section.range.clone()];
        assert!(bytes.starts_with(format!("### Turn {} · ", section.turn + 1).as_bytes()));
        assert!(
            part.len() == section.range.end || part[section.range.end..].starts_with(b"### Turn ")
        );
        let parsed = parse(std::str::from_utf8(bytes).unwrap(), Options::ENABLE_TABLES);
        assert_eq!(parsed.headings().len(), 1, "one heading a section");
    }
}

/// A person may print the document to a terminal.
fn check_characters(markdown: &str) {
    for c in markdown.chars() {
        let steers = c.is_control() && c != '\n' && c != '\t';
        let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(
            !steers && !reorders && !('\u{e0000}'..='\u{e007f}').contains(&c),
            "{c:?}"
        );
    }
}

/// The shared corpus, where it lies beside the checkout.
fn corpus() -> Option<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/projects");
    if corpus.is_dir() {
        return Some(corpus);
    }
    eprintln!(
        "there is no corpus beside this checkout: {}",
        corpus.display()
    );
    None
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
    let Some(corpus) = corpus() else { return };
    for (session, again) in sessions(&corpus).iter().zip(&sessions(&corpus)) {
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
    let Some(corpus) = corpus() else { return };
    for session in sessions(&corpus) {
        let whole = artefact::whole(&session, Style::Full);
        let section = |document: &Document, section: &artefact::Section| {
            document.parts[section.part][section.range.clone()].to_vec()
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

    let session = &sessions(folder.path())[0];
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
