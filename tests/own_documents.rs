//! What the head of a document says, and how a thread's own document differs from the session's (`spec/artefact.md`).

#![allow(clippy::unwrap_used, missing_docs)]

mod invented;

use invented::session;
use sessionfs::artefact::{self, Document, Style};
use sessionfs::session::Session;
use sessionfs::telemetry;

const PROMPT: &str = r#"{"type":"user","uuid":"u1","timestamp":"2026-11-30T10:00:00Z","message":{"role":"user","content":"Look."}}"#;

fn text(document: &Document) -> String {
    String::from_utf8(document.to_vec()).unwrap()
}

fn whole(session: &Session) -> String {
    text(&artefact::whole(session, Style::Full))
}

/// A session with one agent, which nothing places, and one thread of the harness.
fn with_threads() -> Session {
    let line = |uuid: &str, agent: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","isSidechain":true,"agentId":"{agent}","timestamp":"2026-11-30T10:00:01Z","message":{{"role":"user","content":"Go on."}}}}"#
        )
    };
    session(&[
        ("S.jsonl", &[PROMPT, "broken"]),
        ("S/subagents/agent-ax1.jsonl", &[&line("b1", "ax1")]),
        (
            "S/subagents/agent-acompact-1.jsonl",
            &[&line("c1", "acompact-1")],
        ),
    ])
}

/// The document of each thread but the main one.
fn own(session: &Session) -> Vec<String> {
    let documents = (1..session.threads.len())
        .map(|thread| text(&artefact::agent(session, thread, Style::Full)));
    let documents: Vec<String> = documents.collect();
    assert_eq!(documents.len(), 2);
    documents
}

#[test]
fn a_threads_document_says_that_the_gaps_are_the_sessions() {
    let session = with_threads();
    let words = "These are the gaps of the whole session, not of this thread alone.";
    for document in own(&session) {
        let (_, gaps) = document.split_once("## Completeness\n\n").unwrap();
        assert!(gaps.starts_with(words), "{gaps}");
        assert!(gaps.contains("lines that are not one whole record: 1"));
    }
    assert!(!whole(&session).contains(words));
    let schema: serde_json::Value = serde_json::from_str(&telemetry::schema()).unwrap();
    for form in ["OwnAgent", "OwnService"] {
        let completeness = &schema["$defs"][form]["properties"]["completeness"];
        let said = completeness["description"].as_str().unwrap();
        assert!(
            said.starts_with("What is not known of the whole session, not of this thread alone"),
            "{said}"
        );
    }
}

#[test]
fn without_a_stamped_line_no_time_is_known() {
    let unstamped = PROMPT.replace(r#""timestamp":"2026-11-30T10:00:00Z","#, "");
    let session = session(&[("S.jsonl", &[&unstamped])]);
    let document = whole(&session);
    assert_eq!(document.matches("- active seconds: not known\n").count(), 2);
    assert!(!document.contains("0.000"), "{document}");
    let stamped = invented::main_of(&[PROMPT]);
    assert!(whole(&stamped).contains("- active seconds: 0.000\n"));
}

#[test]
fn a_threads_document_gives_each_fact_once() {
    for document in own(&with_threads()) {
        for fact in ["session", "project", "file", "started", "turns", "tokens"] {
            let count = document.matches(&format!("\n- {fact}: ")).count();
            assert_eq!(count, 1, "{fact}: {document}");
        }
    }
}

#[test]
fn words_and_lines_are_right_for_one_and_for_none() {
    let document = whole(&with_threads());
    for words in [
        "leads from the main thread: 1. None",
        "nobody spawned: 1. Only",
    ] {
        assert!(document.contains(words), "{words}: {document}");
    }
    let answer = PROMPT.replace("user\",\"uuid\":\"u1", "user\",\"uuid\":\"u2");
    let without_gap = whole(&invented::main_of(&[PROMPT, &answer]));
    assert!(without_gap.contains("No gap is known"), "{without_gap}");
    for document in [document, without_gap] {
        assert!(!document.contains("\n\n\n"), "{document}");
    }
}
