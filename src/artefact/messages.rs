//! The record of messages between sessions: the section of an artefact, `messages.md`, and the line under each prompt.
//!
//! `spec/record.md` is the source of what may be said: no message is called read, acted on or answered, and nothing is joined from a
//! sender's entry to a receiver's.

use super::Style;
use super::contain::{Hex, List, Or, Page, SafeValue};
use super::input::readable;
use super::names::number;
use crate::record::{Entries, Entry, FIELDS, Json, Kind, Message, Outcome, Peer, Said, Side};
use crate::session::{Attribution, EntryIndex, Role, Session, ThreadIndex, TurnIndex};
use crate::transcript::Segment;
use crate::transcript::display;
use crate::transcript::text::Raw;

/// What the record cannot say, wherever it is shown.
const LIMITS: [&str; 6] = [
    "The record holds what this session saw while it recorded and the disk accepted. A gap or a damaged entry is unknown; neither shows that nothing was sent.",
    "Queued says only that the transport took a message. Nothing here says of a message that it was read, acted on or answered.",
    "A transport's result is no report of the other session.",
    "A received entry does not show that the message reached the model.",
    "Messages by other routes are not in the record.",
    "A message that was refused before the receiver saw it stands in the sender's record alone, and no entry of one session is joined to one of another.",
];

/// `messages.md`: everything that the record of a session says, nothing cut. Empty where there is no record.
pub fn messages(session: &Session) -> Vec<Segment> {
    let mut page = Page::default();
    if !session.entries.is_empty() {
        page.heading(1, ("Messages of session ", SafeValue::of(&session.id)));
        page.paragraph(
            "Made from the record of messages between sessions. What somebody wrote stands inside a fence of backticks, every recorded \
             value in a code span; all else is this document's own. The entries themselves are in `messages/`.",
        );
        body(session, 2, Style::Full, &mut page);
    }
    page.into_segments()
}

/// The section of a session's artefact.
pub(super) fn section(session: &Session, style: Style, page: &mut Page) {
    page.heading(2, "Messages between sessions");
    body(session, 3, style, page);
}

/// What the record says of a prompt, as a line under its heading: of `user` turns of the main thread only.
pub(super) fn attribution(
    session: &Session,
    thread: ThreadIndex,
    turn: TurnIndex,
    page: &mut Page,
) {
    let is_main = session
        .threads
        .get(thread)
        .is_some_and(|thread| matches!(thread.role, Role::Main));
    let Some(attribution) = session.attributions.get(&turn).filter(|_| is_main) else {
        return;
    };
    let entry = |index: EntryIndex| {
        let entry = session.entries.list.get(index);
        entry.map(|entry| {
            let file = SafeValue::of(&entry.file);
            (
                "entry ",
                file,
                " from ",
                name(entry.message().map(|m| &m.peer)),
            )
        })
    };
    let head = (
        "Attribution by the record of messages: ",
        attribution.name(),
    );
    match attribution {
        Attribution::Peer(index) => page.paragraph((head, ", ", entry(*index))),
        Attribution::Ambiguous(candidates) => page.paragraph((
            head,
            (
                "; candidates: ",
                List(candidates.entries.iter().map(|&i| entry(i))),
            ),
            (!candidates.turns.is_empty()).then_some((
                "; other turns that may be one of them: ",
                List(candidates.turns.iter().map(|&turn| number(turn))),
            )),
            (candidates.more > 0).then_some(("; and more of both: ", candidates.more)),
        )),
        Attribution::NothingRecorded => {
            page.paragraph((head, "; this is no evidence that the person wrote it"));
        }
        Attribution::Unknown(why, candidate) => page.paragraph((
            (head, "; ", why.words()),
            candidate.map(|index| ("; candidate: ", entry(index))),
        )),
    }
}

/// All but the first heading, with headings of this level. The reduced form leaves the entries out.
fn body(session: &Session, level: usize, style: Style, page: &mut Page) {
    let entries = &session.entries;
    facts(entries, page);
    page.heading(level, "What this record cannot say");
    for sentence in LIMITS {
        page.item(sentence);
    }
    page.end_list();
    refusals(entries, level, page);
    damaged(entries, level, page);
    let limit = match style {
        Style::Cut(limit) => limit,
        Style::Full => None,
        Style::Spine => return leave_out(entries, page),
    };
    for (index, entry) in entries.list.iter().enumerate() {
        write(index, entry, level, limit, page);
    }
}

fn facts(entries: &Entries, page: &mut Page) {
    match entries.coverage_from() {
        Some(from) => page.item(("coverage: from ", from, " on; it has no known end")),
        None => page.item("coverage: none is known, since there is no start entry; what this session sent or received is unknown"),
    }
    let count = |wanted: &dyn Fn(&Side) -> bool| {
        let sides = entries
            .list
            .iter()
            .filter_map(|entry| Some(&entry.message()?.side));
        sides.filter(|side| wanted(side)).count() as u64
    };
    let queued =
        |wanted| count(&|side| matches!(side, Side::Sent { is_queued } if *is_queued == wanted));
    let outcome =
        |wanted| count(&|side| matches!(side, Side::Received { outcome } if *outcome == wanted));
    page.item((
        ("sent: ", count(&|side| matches!(side, Side::Sent { .. }))),
        (
            " (",
            queued(Some(true)),
            " queued, ",
            queued(Some(false)),
            " not queued, ",
        ),
        (queued(None), " not said)"),
    ));
    page.item((
        (
            "received: ",
            count(&|side| matches!(side, Side::Received { .. })),
        ),
        (
            " (",
            outcome(Outcome::Queued),
            " queued, ",
            outcome(Outcome::Consumed),
            " consumed, ",
        ),
        (
            outcome(Outcome::Rejected),
            " rejected, ",
            outcome(Outcome::Unknown),
            " unknown)",
        ),
    ));
    for entry in entries
        .list
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::Chain))
    {
        page.item((
            ("chain: parent ", Value::of(entry, "parent")),
            (", part ", Value::of(entry, "part")),
        ));
    }
    page.item(("entries: ", entries.list.len() as u64));
    page.item(("damaged entries: ", entries.damaged.len() as u64));
    page.end_list();
}

fn refusals(entries: &Entries, level: usize, page: &mut Page) {
    page.heading(level, "Refusals");
    let mut any = false;
    for (index, entry) in entries.list.iter().enumerate() {
        let Some(message) = entry.message() else {
            continue;
        };
        let peer = name(Some(&message.peer));
        match message.side {
            Side::Sent {
                is_queued: Some(false),
            } => page.item((
                (
                    "entry ",
                    number(index),
                    ", ",
                    entry.at,
                    ": not queued, to ",
                    peer,
                ),
                ("; reason: ", reason(entry)),
            )),
            Side::Received {
                outcome: Outcome::Rejected,
            } => {
                page.item((
                    "entry ",
                    number(index),
                    ", ",
                    entry.at,
                    ": rejected, from ",
                    peer,
                ));
            }
            _ => continue,
        }
        any = true;
    }
    if any {
        page.end_list();
    } else {
        page.paragraph("None is recorded.");
    }
}

fn damaged(entries: &Entries, level: usize, page: &mut Page) {
    if entries.damaged.is_empty() {
        return;
    }
    page.heading(level, "Damaged entries");
    page.paragraph(
        "Each may have been any message, or none. It is read again when the session is.",
    );
    for entry in &entries.damaged {
        page.item((
            SafeValue::of(&entry.file),
            (", time in its name: ", Or(entry.at, "none")),
            (": ", SafeValue::of(&entry.why)),
        ));
    }
    page.end_list();
}

fn leave_out(entries: &Entries, page: &mut Page) {
    let texts = || entries.list.iter().filter_map(Entry::text);
    let (count, bytes) = (texts().count() as u64, texts().map(display::len).sum());
    if count > 0 {
        page.paragraph(("Left out: the entries; texts: ", count, ", bytes: ", bytes));
        page.leave_out(count, bytes);
    }
}

/// One entry: what it is, and all that it says.
fn write(index: EntryIndex, entry: &Entry, level: usize, limit: Option<usize>, page: &mut Page) {
    let head = ("Entry ", number(index), " · ");
    let known: &[&str] = match &entry.kind {
        Kind::Start => {
            page.heading(level, (head, "start · ", entry.at));
            &["cwd", "host", "version", "inbound"]
        }
        Kind::Chain => {
            page.heading(level, (head, "chain · ", entry.at));
            &["cwd", "parent", "part", "brief"]
        }
        Kind::Message(message) => {
            let side = match message.side {
                Side::Sent { .. } => "message sent · ",
                Side::Received { .. } => "message received · ",
            };
            page.heading(level, (head, side, entry.at));
            &["cwd"]
        }
        Kind::Other(kind) => {
            page.heading(
                level,
                (head, "unknown kind ", SafeValue::of(kind), " · ", entry.at),
            );
            &["cwd"]
        }
    };
    page.item(("file: ", SafeValue::of(&entry.file)));
    for key in known {
        let words = match *key {
            "cwd" => "working directory: ",
            "host" => "host: ",
            "version" => "version: ",
            "inbound" => "inbound setting: ",
            "parent" => "parent: ",
            "part" => "part: ",
            _ => continue,
        };
        page.item((words, Value::of(entry, key)));
    }
    match &entry.kind {
        Kind::Message(message) => this_message(entry, message, limit, page),
        Kind::Chain => {
            page.end_list();
            labelled("Brief", entry.value("brief"), limit, page);
        }
        Kind::Start | Kind::Other(_) => page.end_list(),
    }
    further(entry, limit, page);
}

fn this_message(entry: &Entry, message: &Message, limit: Option<usize>, page: &mut Page) {
    let peer = &message.peer;
    let session = Or(
        peer.session_id.as_deref().map(SafeValue::of),
        "not resolved",
    );
    match message.side {
        Side::Sent { is_queued } => {
            page.item(("to: ", name(Some(peer)), "; session ID: ", session));
            page.item((
                "transport: ",
                match is_queued {
                    Some(true) => "queued",
                    Some(false) => "not queued",
                    None => "not said",
                },
            ));
            if is_queued == Some(false) {
                page.item(("reason: ", reason(entry)));
            }
        }
        Side::Received { outcome } => {
            page.item(("from: ", name(Some(peer)), "; session ID: ", session));
            page.item(("outcome: ", outcome.name()));
        }
    }
    if let Some(withheld) = withheld(entry) {
        let names = List(withheld.iter().map(|name| Some(SafeValue::of(name))));
        page.item(("withheld, since the text might stand in it: ", names));
    }
    page.end_list();
    if let Some(named) = peer.named.as_deref().filter(|named| is_changed(named)) {
        page.paragraph("Peer as the host gave it");
        page.fence(Raw::plain(named.as_bytes()), None);
    }
    let reason = entry.value("reason");
    labelled(
        "Reason",
        reason.filter(|reason| is_changed(&reason.to_text())),
        limit,
        page,
    );
    labelled("Envelope", entry.value("envelope"), limit, page);
    match (&message.said, entry.text()) {
        (Said::Metadata { length, sha256 }, _) => {
            page.paragraph(("Text not kept: ", *length, " bytes, SHA-256 ", Hex(sha256)));
        }
        (Said::Text(_), text) => {
            page.paragraph("Text");
            page.fence(text.unwrap_or(Raw::plain(b"")), limit);
        }
    }
}

/// The members that nothing above shows, as JSON.
fn further(entry: &Entry, limit: Option<usize>, page: &mut Page) {
    let is_other = matches!(entry.kind, Kind::Other(_));
    let mut json = Vec::new();
    for (key, raw_key, value) in entry.object.iter() {
        let is_shown = match key {
            "kind" | "sessionId" | "at" | "cwd" => true,
            "withheld" => withheld(entry).is_some(),
            key => !is_other && FIELDS.contains(&key),
        };
        if !is_shown {
            json.push(if json.is_empty() { b'{' } else { b',' });
            for part in [raw_key.bytes(), b":", value.bytes()] {
                json.extend_from_slice(part);
            }
        }
    }
    if !json.is_empty() {
        json.push(b'}');
        page.paragraph("Further fields");
        page.fence(Raw::plain(&readable(&json)), limit);
    }
}

/// A value in a fence: a string as its text, anything else as JSON.
fn labelled(label: &'static str, value: Option<Json<'_>>, limit: Option<usize>, page: &mut Page) {
    let Some(value) = value else { return };
    page.paragraph(label);
    match value.as_string() {
        Some(text) => page.fence(text, limit),
        None => page.fence(Raw::plain(&readable(value.bytes())), limit),
    }
}

/// Whether a code span shows the text otherwise than it is: it shortens paths and addresses, and cuts.
fn is_changed(text: &str) -> bool {
    text.contains(['/', '\\', '`', '|', ']']) || text.len() > 100 || display::line(text) != text
}

/// The other session as the host gave it.
fn name(peer: Option<&Peer>) -> Or<SafeValue<'_>> {
    let named = peer.and_then(|peer| peer.named.as_deref());
    Or(named.map(SafeValue::of), "unknown")
}

/// Why a message was not queued, as far as the entry says it.
fn reason(entry: &Entry) -> Or<Value> {
    let is_withheld = withheld(entry).is_some_and(|list| list.iter().any(|name| name == "reason"));
    Or(
        (!is_withheld).then(|| Value::of(entry, "reason")),
        "withheld, since the text might stand in it",
    )
}

/// The members that were not kept with a message of which only length and hash are kept.
fn withheld(entry: &Entry) -> Option<Vec<String>> {
    entry.message()?;
    entry.value("withheld")?.as_strings()
}

/// A value of an entry in a line: a string as its text, anything else as JSON.
struct Value(Option<String>);

impl Value {
    fn of(entry: &Entry, key: &str) -> Self {
        Self(entry.value(key).map(|value| value.to_text()))
    }
}

impl super::contain::Inline for Value {
    fn write(&self, page: &mut Page) {
        Or(self.0.as_deref().map(SafeValue::of), "not recorded").write(page);
    }
}
