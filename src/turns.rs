//! `turns.ndjson`: the turns of one thread, one JSON object a line, for programs.
//!
//! `spec/mount-tree.md` is the source of the keys. Text is what was recorded, decoded, and nothing is cut; what could steer a
//! terminal or hide stands as a JSON escape, so that the file may be shown on one and reads back the same.

mod json;

use crate::session::objects::Media;
use crate::session::{Attribution, Candidates, MarkerKind, Role, Session, ThreadIndex, TurnIndex};
use crate::transcript::{Block, Segment, TURNS_A_PART, Text, Turn};
use json::Line;
use rayon::prelude::*;

/// The turns of a thread as lines, in parts to be read one after the other. Empty for an index that the session does not have.
pub fn lines(session: &Session, thread: ThreadIndex) -> Vec<Segment> {
    let Some(thread) = session.threads.get(thread) else {
        return Vec::new();
    };
    let is_main = matches!(thread.role, Role::Main);
    let mut markers = vec![Vec::new(); thread.turns.len()];
    for marker in &thread.markers {
        if let Some(at) = marker.turn.and_then(|turn| markers.get_mut(turn)) {
            at.push(&marker.what);
        }
    }
    let turns = thread.turns.parts().par_iter().enumerate();
    let parts = turns.map(|(part, turns)| {
        let first = part * TURNS_A_PART;
        let mut out = Vec::new();
        for (i, turn) in (first..).zip(turns.iter()) {
            let mut line = Line::new(&session.buffers, &mut out);
            write(session, turn, i, is_main, &markers[i], &mut line);
            out.push(b'\n');
        }
        out.into()
    });
    parts.collect()
}

/// What the record of messages says of a turn of the main thread; null where it says nothing.
fn attribution(session: &Session, turn: Option<TurnIndex>, line: &mut Line<'_>) {
    let Some(attribution) = turn.and_then(|turn| session.attributions.get(&turn)) else {
        return line.null("attribution");
    };
    let none = Candidates::default();
    let (entries, candidates, why) = match attribution {
        Attribution::Peer(entry) => (std::slice::from_ref(entry), &none, None),
        Attribution::Ambiguous(candidates) => (&*candidates.entries, candidates, None),
        Attribution::NothingRecorded => {
            let no_evidence = "this is no evidence that the person wrote it";
            (&[][..], &none, Some(no_evidence))
        }
        Attribution::Unknown(why, entry) => (entry.as_slice(), &none, Some(why.words())),
    };
    line.key("attribution");
    line.open(b'{');
    line.word("is", attribution.name());
    line.key("entries");
    line.open(b'[');
    for entry in entries
        .iter()
        .filter_map(|&entry| session.entries.list.get(entry))
    {
        let peer = entry.message().map(|message| &message.peer);
        line.open(b'{');
        line.word("file", &entry.file);
        line.word_or_null("as", peer.and_then(|peer| peer.named.as_deref()));
        line.word_or_null(
            "session_id",
            peer.and_then(|peer| peer.session_id.as_deref()),
        );
        line.close(b'}');
    }
    line.close(b']');
    line.key("turns");
    line.open(b'[');
    line.numbers(candidates.turns.iter().map(|&turn| turn as u64 + 1));
    line.close(b']');
    line.number("more", candidates.more);
    line.word_or_null("why", why);
    line.close(b'}');
}

fn write(
    session: &Session,
    turn: &Turn,
    i: usize,
    is_main: bool,
    markers: &[&MarkerKind],
    line: &mut Line<'_>,
) {
    line.open(b'{');
    line.number("turn", i as u64 + 1);
    line.word("kind", turn.kind.name());
    match turn.at.at() {
        Some(at) => line.word("at", &format!("{at:.3}")),
        None => line.null("at"),
    }
    line.maybe("message_id", turn.message_id);
    line.maybe("model", turn.model);
    line.key("blocks");
    blocks(session, &turn.blocks, line);
    line.key("markers");
    line.open(b'[');
    for marker in markers {
        let (key, thread) = match marker {
            MarkerKind::Spawned(thread) => ("spawned", thread),
            MarkerKind::Joined(thread) => ("joined", thread),
            MarkerKind::Compacted { .. } | MarkerKind::Rewound { .. } => continue,
        };
        line.open(b'{');
        line.word(
            key,
            session.threads.get(*thread).map_or("", |thread| &thread.id),
        );
        line.close(b'}');
    }
    line.close(b']');
    attribution(session, is_main.then_some(i), line);
    line.key("source");
    line.open(b'{');
    let source = session.sources.get(turn.source as usize);
    line.word("file", source.map_or("", String::as_str));
    line.number("line", turn.line);
    line.close(b'}');
    line.close(b'}');
}

/// Blocks as an array; the pieces of a result stand inside it.
fn blocks(session: &Session, blocks: &[Block], line: &mut Line<'_>) {
    // The lists that are still open, so that a result inside a result would cost no stack.
    let mut open = vec![blocks.iter()];
    line.open(b'[');
    while let Some(list) = open.last_mut() {
        let Some(block) = list.next() else {
            open.pop();
            line.close(b']');
            if !open.is_empty() {
                line.close(b'}');
            }
            continue;
        };
        line.open(b'{');
        match block {
            Block::Text(text) => {
                line.word("type", "text");
                line.maybe("text", Some(*text));
            }
            Block::Thinking { text } => {
                line.word("type", "thinking");
                line.maybe("text", *text);
            }
            Block::ToolCall { id, name, input } => {
                line.word("type", "tool_call");
                line.maybe("id", *id);
                line.maybe("name", *name);
                line.maybe("input", *input);
            }
            Block::ToolResult {
                call,
                is_error,
                content,
            } => {
                line.word("type", "tool_result");
                line.maybe("id", *call);
                line.flag("is_error", *is_error);
                line.key("content");
                line.open(b'[');
                open.push(content.iter());
                continue;
            }
            Block::Media {
                kind,
                media_type,
                data,
                base64,
                title,
            } => {
                line.word("type", kind.name());
                line.maybe("media_type", *media_type);
                line.maybe("title", *title);
                media(session, *media_type, *data, *base64, line);
            }
            Block::Stored { result } => {
                let stored = session.stored.get(*result as usize);
                let media_type = stored.and_then(|stored| stored.media_type.as_deref());
                line.word(
                    "type",
                    media_type.map_or("stored_result", |_| "pending_object"),
                );
                if let Some(media_type) = media_type {
                    line.word("media_type", media_type);
                }
                if let Some(stored) = stored {
                    line.word("name", &stored.name);
                    line.number("bytes", stored.bytes.len.into());
                    line.hex("sha256", &stored.sha256);
                    line.word("object", &stored.object());
                    line.maybe("text", stored.is_text.then_some(stored.bytes));
                }
            }
            Block::NotStored { name, why } => {
                line.word("type", "pending_object");
                for key in ["media_type", "bytes", "sha256", "object"] {
                    line.null(key);
                }
                line.word("file", name);
                line.word("problem", why);
            }
            Block::Other { kind, value } => {
                line.word("type", "other");
                line.maybe("kind", *kind);
                line.maybe("value", Some(*value));
            }
        }
        line.close(b'}');
    }
}

/// A picture or document, which `objects/` holds; the text of one that is text.
fn media(
    session: &Session,
    media_type: Option<Text>,
    data: Option<Text>,
    base64: bool,
    line: &mut Line<'_>,
) {
    let raw = |text| session.buffers.raw(text);
    let media = data.and_then(|data| Media::of(raw(data), base64, media_type.map(raw)));
    match &media {
        Some(media) => {
            line.number("bytes", media.bytes.len() as u64);
            line.hex("sha256", &media.sha256);
            line.word("object", &media.name());
        }
        None => {
            for key in ["bytes", "sha256", "object"] {
                line.null(key);
            }
        }
    }
    if !base64 {
        line.maybe("text", data);
    }
}
