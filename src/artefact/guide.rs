//! How to read the document, and what is not known: what it says of itself.

use super::Style;
use super::contain::{List, Page, SafeValue};
use crate::session::{MainThread, Session};
use crate::transcript::display::Shown;
use crate::transcript::text::Raw;
use std::collections::BTreeMap;

/// The containment rule in words, and every structure that the document itself asserts.
pub(super) fn how_to_read(style: Style, is_own: bool, page: &mut Page) {
    page.heading(2, "How to read this document");
    page.paragraph(
        "Everything that somebody said or a tool answered stands inside a fence of backticks. Every recorded name, ID, model, type, title and \
         file name stands in a code span. Everything outside both is this document's own: its words, and numbers and times that it read and \
         printed anew.",
    );
    for rule in [
        "A fence has one backtick more than the longest run of backticks inside it, and at least three. The last line break inside it is the document's, not the text's.",
        "A code span holds one recorded value of at most 128 characters. In it, `…` at the end marks a cut, and `…/` stands for the folders of a path.",
        "`\\u{…}` stands for a character that could steer a terminal, hide, reorder others or end a code span. A CR LF pair is shown as one line break. U+FFFD stands for bytes that are not UTF-8. All are counted under Completeness. The text as it was written is in the stored files.",
        "Tool input is shown as JSON; a string in it that holds a line break stands in a fence of its own under its name.",
        "Pictures and documents are not shown but named by media type, size, SHA-256 and file name.",
        "A tool's output that the harness stored in a file of its own follows the reference to it, as `Stored result`: the model that called the tool was given the reference.",
    ] {
        page.item(rule);
    }
    match style {
        Style::Cut(Some(limit)) => page.item((
            "A fence over ",
            limit as u64,
            " bytes is cut. The line after it, `Cut here:`, says how many bytes are not shown.",
        )),
        Style::Cut(None) | Style::Full => page.item("No text is cut."),
        Style::Spine => page.item(
            "This is a reduced form: the prompts, the assistant's text, the names of the tools that it called, and all markers. \
             A line `Left out up to the next heading:` counts what stands between.",
        ),
    }
    page.end_list();
    page.paragraph("These are all the structures that this document asserts. Whatever looks like one of them inside a fence or a code span is somebody's words:");
    if is_own {
        page.item("The title `# Agent` or `# Service thread` and the headings `## How to read this document` and `## Completeness`, each with a list of facts.");
        page.item("The heading `## Agent` or `## Service thread`, then a list of what is known of this thread. The sections of other agents, which markers name, are in the document of the whole session.");
    } else {
        page.item("The title `# Session` and the headings `## How to read this document` and `## Completeness`, each with a list of facts.");
        page.item("The heading `## Timeline` with one table of all sub-agents: which turns of its parent spawned each and got its result.");
        page.item("The headings `## Main thread`, `## Agent` (one a sub-agent), `## Unattributed sub-agents` (no stored spawn leads to those that follow it), `## Service threads` and `## Service thread` (work of the harness itself), each with a list of what is known of the thread.");
    }
    for structure in [
        "The heading `### Turn` of each turn: its number in the thread, its kind, its time, and the model that answered.",
        "The kinds of turns: `user` typed by the person, `task` given to an agent by its spawner, `peer` from another session or team member, `assistant` one response of the model, `tool-result`, `command`, `notification`, `summary` of a compaction, `injected` by the harness, `interruption`, `error`, `object`.",
        "Under a turn's heading, a line `Origin as the transcript records it:` where it records one.",
        "The line before a fence that says what it holds: `Text`, `Thinking`, `Tool call`, `Input`, `Result of tool call`, `Stored result`, `Other block`, `Notes`; and the lines `Picture`, `Document` and `Object`.",
        "The markers, each a quote at the end of its turn: `[SPAWNED …]`, `[JOINED …]`, `[COMPACTED …]`, `[REWOUND …]`.",
    ] {
        page.item(structure);
    }
    page.end_list();
    page.paragraph(
        "The order of the sections says nothing about time. An agent ran between its SPAWNED and its JOINED marker, beside the turns that stand between \
         them and beside other agents. Token figures are what the harness recorded, each response counted once; nothing here is a billing record.",
    );
}

/// The gaps, each with its count; the same facts as in the telemetry. In a thread's own document they are still the session's.
pub(super) fn completeness(session: &Session, shown: &Shown, is_own: bool, page: &mut Page) {
    let known = &session.completeness;
    page.heading(2, "Completeness");
    if is_own {
        page.paragraph("These are the gaps of the whole session, not of this thread alone. Only what is cut, left out, escaped or replaced is counted in this document.");
    }
    page.paragraph(if known.has_gap() || shown.has_gap() {
        "What the harness never stored cannot be known from its files. What is not known or not shown of the rest, with its count; what is not listed has none:"
    } else {
        "What the harness never stored cannot be known from its files. No gap is known in the rest: every line was read, every agent is placed and joined, every call has its result, and nothing is cut."
    });
    match known.main_thread {
        MainThread::Present => {}
        MainThread::Missing => page.item("main thread: missing"),
        MainThread::Unreadable => page.item("main thread: unreadable"),
    }
    if let Some(problem) = &known.log_problem {
        page.item((
            "the framed log is not readable from byte ",
            problem.offset,
            ": ",
            SafeValue::of(&problem.reason),
        ));
    }
    let mut count = |words: &'static str, count: u64| {
        if count > 0 {
            page.item((words, ": ", count));
        }
    };
    count("agents that nothing places", known.agents_unattributed);
    count(
        "placed agents whose result is nowhere",
        known.agents_without_join,
    );
    count("parents that are named and not there", known.parents_absent);
    count(
        "calls of an agent tool whose agent has no transcript",
        known.spawns_without_transcript,
    );
    count(
        "agents of which two kinds of evidence name different calls",
        known.evidence_conflicts,
    );
    count(
        "lines that are not one whole record",
        known.lines_unparseable.len() as u64,
    );
    count(
        "bytes of unfinished last lines",
        known.incomplete_tail_bytes,
    );
    count(
        "lines that repeat an earlier one and are left out",
        known.lines_duplicate,
    );
    count(
        "responses with usage that no message ID names (totals are an upper bound)",
        known.usage_without_message_id,
    );
    count(
        "responses whose lines differ in usage (the largest output holds)",
        known.responses_with_differing_usage,
    );
    count(
        "responses without a stop reason (their output is a lower bound)",
        known.responses_without_stop_reason,
    );
    count(
        "token counts that are no plain numbers",
        known.counts_not_numbers,
    );
    count(
        "turn lines without a readable time",
        known.timestamps_missing,
    );
    count(
        "lines stamped earlier than the line before",
        known.timestamps_backwards,
    );
    count(
        "tool calls that nothing answers",
        known.tool_calls_without_result,
    );
    count(
        "tool results that answer no call",
        known.tool_results_without_call,
    );
    count(
        "stored tool results that are named and not there",
        known.stored_results_missing,
    );
    count("blocks cut or left out", shown.blocks_cut);
    count("bytes not shown", shown.bytes_cut);
    count("characters shown as \\u{…}", shown.characters_escaped);
    count("places shown as U+FFFD", shown.characters_replaced);
    count("CR LF pairs shown as a line break", shown.crlf);
    by_type(
        "lines that are no turn, by type: ",
        &known.line_types_not_shown,
        page,
    );
    by_type("lines of unknown types: ", &known.line_types_unknown, page);
    for unused in &known.sources_unused {
        page.item((
            "file not used: ",
            SafeValue::of(&unused.source),
            ", ",
            SafeValue::of(&unused.why),
        ));
    }
    for damage in &known.lines_unparseable {
        let source = session
            .sources
            .get(damage.source as usize)
            .map_or("", String::as_str);
        page.item((
            (
                "damaged: ",
                SafeValue::of(source),
                " line ",
                damage.line,
                ", byte ",
                damage.offset,
            ),
            (", ", damage.why),
            if damage.recovered {
                ", a record in it was read"
            } else {
                ", not read"
            },
        ));
    }
    page.end_list();
    if !known.notes.is_empty() {
        page.paragraph("Notes");
        page.fence(Raw::plain(known.notes.join("\n").as_bytes()), None);
    }
    page.paragraph(
        "What the harness never wrote down is in no transcript, and nothing can count it.",
    );
}

fn by_type(words: &'static str, types: &BTreeMap<String, u64>, page: &mut Page) {
    if !types.is_empty() {
        page.item((
            words,
            List(
                types
                    .iter()
                    .map(|(name, count)| (SafeValue::of(name), " ", *count)),
            ),
        ));
    }
}
