//! What a `user` line really is, and which types of lines are known to hold no turn.

use memchr::memmem;

use crate::transcript::line::{Fact, Notification};
use crate::transcript::text::{Form, Raw, Text};
use crate::transcript::thread::{Block, Origin, TurnKind};

/// How much of a prompt is looked at to see what it is.
const HEAD: usize = 128;

/// The kind of a prompt line that no flag settles, by its first text, in the order of `formats/claude-code.md` 5.2; and an
/// origin where the text itself names one. Editor context in front of a prompt becomes a block of its own.
pub(super) fn of_prompt(
    bytes: &[u8],
    blocks: &mut Vec<Block>,
    origin: Option<&[u8]>,
) -> (TurnKind, Option<Origin>) {
    match origin {
        Some(b"peer") => return (TurnKind::Peer, None),
        Some(b"task-notification") => return (TurnKind::Notification, None),
        Some(b"system") => return (TurnKind::Injected, None),
        _ => {}
    }
    split_context(bytes, blocks);
    let decisive = blocks.iter().find(|block| match block {
        Block::Text(text) => !is_context(bytes, *text),
        _ => true,
    });
    let text = match decisive {
        Some(Block::Text(text)) => *text,
        Some(_) => return (TurnKind::User, None),
        // Context that stands alone; a line without any block is a prompt without words.
        None => {
            return (
                if blocks.is_empty() {
                    TurnKind::User
                } else {
                    TurnKind::Injected
                },
                None,
            );
        }
    };
    let head = head(bytes, text);
    let starts = |tags: &[&str]| tags.iter().any(|tag| head.starts_with(tag.as_bytes()));
    if is_notification(&head) {
        (TurnKind::Notification, None)
    } else if starts(&["<teammate-message "]) {
        (TurnKind::Peer, teammate(bytes, text))
    } else if starts(&["<local-command-caveat>"]) {
        (TurnKind::Injected, None)
    } else if starts(&[
        "<command-name>",
        "<command-message>",
        "<local-command-stdout>",
        "<local-command-stderr>",
    ]) || starts(&["<bash-input>", "<bash-stdout>", "<bash-stderr>"])
    {
        (TurnKind::Command, None)
    } else if starts(&["[Request interrupted by user"]) {
        (TurnKind::Interruption, None)
    } else if starts(&["<fork-boilerplate>"]) {
        (TurnKind::Task, None)
    } else {
        (TurnKind::User, None)
    }
}

/// The notice of background work that a text is. What stands behind its own fields is what an agent answered, as it stands,
/// so nothing further in the text is a notice.
pub(super) fn notification(raw: Raw<'_>) -> Option<Notification> {
    memmem::find(raw.bytes, TASK_ID)?;
    let text = raw.to_text();
    let text = text.trim_start();
    if !is_notification(text.as_bytes()) {
        return None;
    }
    let words = ["<summary>", "<note>", "<event>", "<result>"];
    let end = words.iter().filter_map(|tag| text.find(tag)).min();
    let fields = &text[..end.unwrap_or(text.len())];
    Some(Notification {
        task: tag(fields, "task-id")?,
        call: tag(fields, "tool-use-id"),
        status: tag(fields, "status"),
    })
}

const TASK_ID: &[u8] = b"<task-id>";

/// Whether a text begins with a notice of background work: an element `<task-…>` whose first part is the task's ID. What
/// the element is called beyond that decides nothing.
fn is_notification(text: &[u8]) -> bool {
    let Some(name) = text.strip_prefix(b"<task-") else {
        return false;
    };
    let len = name
        .iter()
        .take_while(|b| b.is_ascii_lowercase() || **b == b'-')
        .count();
    let inside = name[len..].strip_prefix(b">").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|inside| inside.starts_with(TASK_ID))
}

/// Types that stand for themselves and hold no turn.
pub(super) fn is_known_aside(kind: &[u8]) -> bool {
    const KNOWN: [&str; 25] = [
        "summary",
        "file-history-snapshot",
        "file-history-delta",
        "queue-operation",
        "last-prompt",
        "ai-title",
        "custom-title",
        "agent-name",
        "agent-color",
        "agent-setting",
        "permission-mode",
        "mode",
        "bridge-session",
        "pr-link",
        "worktree-state",
        "frame-link",
        "fork-context-ref",
        "teleported-from",
        "continued-in",
        "started",
        "result",
        "cost-state",
        "atis-latch",
        "progress",
        "tag",
    ];
    is_one_of(kind, &KNOWN)
}

/// Subtypes of `system` that hold no turn.
pub(super) fn is_known_system(subtype: &[u8]) -> bool {
    const KNOWN: [&str; 6] = [
        "turn_duration",
        "stop_hook_summary",
        "away_summary",
        "informational",
        "bridge_status",
        "scheduled_task_fire",
    ];
    is_one_of(subtype, &KNOWN)
}

/// Types of `attachment` that hold no turn.
pub(super) fn is_known_attachment(kind: &[u8]) -> bool {
    const KNOWN: [&str; 42] = [
        "hook_success",
        "hook_non_blocking_error",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_system_message",
        "hook_additional_context",
        "async_hook_response",
        "total_tokens_reminder",
        "task_reminder",
        "todo_reminder",
        "skill_listing",
        "deferred_tools_delta",
        "mcp_instructions_delta",
        "agent_listing_delta",
        "file",
        "directory",
        "compact_file_reference",
        "edited_text_file",
        "nested_memory",
        "opened_file_in_ide",
        "selected_lines_in_ide",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "plan_file_reference",
        "auto_mode",
        "auto_mode_exit",
        "goal_status",
        "date_change",
        "command_permissions",
        "invoked_skills",
        "dynamic_skill",
        "ultrathink_effort",
        "companion_intro",
        "read_truncation_notice",
        "environment",
        "model",
        "prompt_snapshot",
        "session_context",
        "silent_turn_reminder",
        "todo",
        "diagnostics",
    ];
    is_one_of(kind, &KNOWN)
}

fn is_one_of(word: &[u8], known: &[&str]) -> bool {
    known.iter().any(|k| k.as_bytes() == word)
}

/// Context that the harness puts beside a prompt: it never decides what the prompt is.
fn is_context(bytes: &[u8], text: Text) -> bool {
    let head = head(bytes, text);
    head.is_empty()
        || CONTEXTS.iter().any(|tag| head.starts_with(tag.as_bytes()))
        || head.starts_with(b"<system-reminder>")
}

const CONTEXTS: [&str; 2] = ["<ide_opened_file>", "<ide_selection>"];

/// Splits a text that begins with editor context and goes on as a prompt into two.
fn split_context(bytes: &[u8], blocks: &mut Vec<Block>) {
    let Some(Block::Text(text)) = blocks.first().cloned() else {
        return;
    };
    let raw = &bytes[text.start as usize..][..text.len as usize];
    for open in CONTEXTS {
        if !raw.starts_with(open.as_bytes()) {
            continue;
        }
        let close = format!("</{}", &open[1..]);
        let Some(at) = memmem::find(raw, close.as_bytes()) else {
            return;
        };
        let end = (at + close.len()) as u32;
        let rest = Text {
            start: text.start + u64::from(end),
            len: text.len - end,
            ..text
        };
        if !head(bytes, rest).is_empty() {
            blocks[0] = Block::Text(Text { len: end, ..text });
            blocks.insert(1, Block::Text(rest));
        }
        return;
    }
}

/// The beginning of a text, decoded, without leading white space. Empty only where the text is blank.
fn head(bytes: &[u8], text: Text) -> Vec<u8> {
    let mut raw = &bytes[text.start as usize..][..text.len as usize];
    loop {
        raw = raw.trim_ascii_start();
        // White space that is written as an escape is white space too.
        match raw {
            [b'\\', b'n' | b'r' | b't', rest @ ..] if text.form == Form::JsonString => raw = rest,
            _ => break,
        }
    }
    Raw {
        bytes: &raw[..raw.len().min(HEAD)],
        form: text.form,
    }
    .decode()
    .into_owned()
}

/// Who a team member's message is from, as its tag says.
fn teammate(bytes: &[u8], text: Text) -> Option<Origin> {
    let raw = &bytes[text.start as usize..][..text.len as usize];
    let open = memmem::find(raw, TEAMMATE.as_bytes())?;
    let from = sender(raw, text, open).map(|(from, _)| from);
    let kind = piece(text, open, TEAMMATE.len());
    Some(Origin { kind, from })
}

/// Every team member's message in a text. One text may hold several.
pub(super) fn teammate_messages(bytes: &[u8], text: Text) -> Vec<Fact> {
    let raw = &bytes[text.start as usize..][..text.len as usize];
    let tags = memmem::find_iter(raw, b"<teammate-message ");
    let read = |open: usize| {
        let (from, end) = sender(raw, text, open)?;
        let said = end + memchr::memchr(b'>', &raw[end..])? + 1;
        let said = head(bytes, piece(text, said, raw.len() - said));
        Some(Fact::TeammateMessage {
            from,
            is_record: said.starts_with(b"{"),
        })
    };
    tags.filter_map(read).collect()
}

const TEAMMATE: &str = "teammate-message";

/// The name in a team member's tag, which opens at `open`, and where it ends.
fn sender(raw: &[u8], text: Text, open: usize) -> Option<(Text, usize)> {
    const FROM: &str = "teammate_id=\\\"";
    let start = open + memmem::find(&raw[open..], FROM.as_bytes())? + FROM.len();
    let len = memchr::memchr(b'\\', &raw[start..])?;
    Some((piece(text, start, len), start + len))
}

fn piece(text: Text, start: usize, len: usize) -> Text {
    Text {
        start: text.start + start as u64,
        len: len as u32,
        ..text
    }
}

fn tag(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value.trim().to_owned())
}
