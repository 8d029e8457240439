//! One entry as it was read: what it says, with everything that it says beside.

use super::json::{Json, NotJson, Object};
use super::name::{EntryName, stamp};
use crate::transcript::text::Raw;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::ops::Range;

/// The members that entries have by `spec/record.md`. Whatever else one says is kept as it stands.
pub const FIELDS: [&str; 20] = [
    "kind",
    "sessionId",
    "at",
    "cwd",
    "host",
    "version",
    "inbound",
    "side",
    "peer",
    "text",
    "textLength",
    "textSha256",
    "isQueued",
    "reason",
    "envelope",
    "outcome",
    "parent",
    "part",
    "brief",
    "withheld",
];

/// One entry of a session's record. Fields and kinds that this program does not know stay in [`Entry::object`].
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's name.
    pub file: String,
    /// What the file's name says.
    pub name: EntryName,
    /// When, by its own word; by its name where a kind that this program does not know says no time.
    pub at: Timestamp,
    /// What it is.
    pub kind: Kind,
    /// All that it says.
    pub object: Object,
}

/// What an entry is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The session began to record: `cwd`, `host`, `version`, `inbound`.
    Start,
    /// A message that the session sent or received.
    Message(Message),
    /// How the session belongs to a larger piece of work: `parent`, `part`, `brief`.
    Chain,
    /// A kind that this program does not know.
    Other(String),
}

/// What every message entry says.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which way it went.
    pub side: Side,
    /// The other session.
    pub peer: Peer,
    /// Its text, or what is kept of it.
    pub said: Said,
}

/// Which way a message went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// This session sent it.
    Sent {
        /// Whether the transport took it; none where the entry does not say. It says nothing of the other session.
        is_queued: Option<bool>,
    },
    /// This session received it.
    Received {
        /// What came of it.
        outcome: Outcome,
    },
}

/// What came of a received message. None of these shows that it reached the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The host took it.
    Queued,
    /// Something took it before the host.
    Consumed,
    /// It was refused.
    Rejected,
    /// The entry does not say, or not in a word that this program knows.
    #[default]
    Unknown,
}

impl Outcome {
    /// Its name in entries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Consumed => "consumed",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Queued, Self::Consumed, Self::Rejected, Self::Unknown];
        all.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// The other session as the host gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address or name; none where the host gave none.
    pub named: Option<String>,
    /// Its full session ID, where it was resolved.
    pub session_id: Option<String>,
}

/// A message's text in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The text: where it stands in the entry, between its quotes.
    Text(Range<usize>),
    /// Its length in bytes and its SHA-256 only.
    Metadata {
        /// Bytes of the decoded text.
        length: u64,
        /// Their SHA-256.
        sha256: [u8; 32],
    },
}

impl Entry {
    /// Reads the bytes of a file of this name in this session's folder. The error says why it is no entry: what `verify` calls a
    /// fault is what a reader takes as damaged, since both ask here.
    ///
    /// An entry says what it is, whose, and when, as its place and its name do, each key once; a message also what
    /// [`Message`] needs. Fields and kinds that this program does not know are taken as they are.
    pub fn read(session: &str, file: &str, bytes: Vec<u8>) -> Result<Self, String> {
        let Some(name) = EntryName::parse(file) else {
            return Err("its name is no entry's".into());
        };
        let object = Object::read(bytes).map_err(|error: NotJson| format!("it is {error}"))?;
        let word = |key: &str| Some(object.get(key)?.as_string()?.to_text());
        let Some(kind) = word("kind") else {
            return Err("it says no kind".into());
        };
        let kind = match kind.as_str() {
            "start" => Kind::Start,
            "chain" => Kind::Chain,
            "message" => Kind::Message(Message::read(&object)?),
            _ => Kind::Other(kind),
        };
        let is_known = !matches!(kind, Kind::Other(_));
        match word("sessionId") {
            Some(id) if id != session => return Err("its sessionId is not its folder's".into()),
            None if is_known => return Err("it says no sessionId".into()),
            _ => {}
        }
        let at = match word("at").map(|at| at.parse::<Timestamp>()) {
            Some(Ok(at)) if stamp(at) != stamp(name.at()) => {
                return Err(format!("its time, {}, is not its name's", stamp(at)));
            }
            Some(Ok(at)) => at,
            Some(Err(_)) if is_known => return Err("its time is none".into()),
            None if is_known => return Err("it says no time".into()),
            _ => name.at(),
        };
        Ok(Self {
            file: file.to_owned(),
            at,
            name,
            kind,
            object,
        })
    }

    /// What is kept of a message, if this is one.
    pub fn message(&self) -> Option<&Message> {
        match &self.kind {
            Kind::Message(message) => Some(message),
            _ => None,
        }
    }

    /// A message's text; none if this is none, or only its length and hash are kept.
    pub fn text(&self) -> Option<Raw<'_>> {
        match &self.message()?.said {
            Said::Text(range) => super::json::inside(&self.object.bytes()[range.clone()]),
            Said::Metadata { .. } => None,
        }
    }

    /// Length in bytes and SHA-256 of a message's text, decoded, a lone surrogate as WTF-8; none if this is no message.
    pub fn digest(&self) -> Option<Digested> {
        match (&self.message()?.said, self.text()) {
            (&Said::Metadata { length, sha256 }, _) => Some(Digested { length, sha256 }),
            (Said::Text(_), text) => Some(Digested::of(&text?.decode())),
        }
    }

    /// The string under this key.
    pub fn string(&self, key: &str) -> Option<String> {
        Some(self.object.get(key)?.as_string()?.to_text())
    }

    /// The value under this key, if there is one and it is not `null`.
    pub fn value(&self, key: &str) -> Option<Json<'_>> {
        self.object.get(key).filter(|value| !value.is_null())
    }
}

/// Length and SHA-256 of a text: two equal ones are the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digested {
    /// Bytes.
    pub length: u64,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

impl Digested {
    /// Of this text.
    pub fn of(text: &[u8]) -> Self {
        Self {
            length: text.len() as u64,
            sha256: Sha256::digest(text).into(),
        }
    }

    /// The SHA-256 as entries have it.
    pub fn hex(&self) -> String {
        let mut hex = String::with_capacity(64);
        for byte in self.sha256 {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

impl Message {
    fn read(object: &Object) -> Result<Self, String> {
        let value = |key: &str| object.get(key).filter(|value| !value.is_null());
        let side = object
            .get("side")
            .and_then(|side| Some(side.as_string()?.to_text()));
        let side = match side.as_deref() {
            Some("sent") => Side::Sent {
                is_queued: match value("isQueued") {
                    None => None,
                    Some(said) => Some(
                        said.as_boolean()
                            .ok_or("its isQueued is neither true nor false")?,
                    ),
                },
            },
            Some("received") => Side::Received {
                outcome: match value("outcome") {
                    None => Outcome::Unknown,
                    Some(said) => {
                        let name = said.as_string().ok_or("its outcome is no string")?;
                        Outcome::parse(&name.to_text()).unwrap_or_default()
                    }
                },
            },
            _ => return Err("it is a message neither sent nor received".into()),
        };
        let peer = match value("peer") {
            None => Peer::default(),
            Some(peer) => Peer::read(&peer)
                .ok_or("its peer is no object with as and sessionId, each a string or null")?,
        };
        if value("text").is_some()
            && (value("textLength").is_some() || value("textSha256").is_some())
        {
            return Err("it is a message with its text and a length or hash beside it".into());
        }
        let said =
            said(object).ok_or("it is a message without its text, or its length and hash")?;
        Ok(Self { side, peer, said })
    }
}

impl Peer {
    fn read(value: &Json<'_>) -> Option<Self> {
        let object = Object::read(value.bytes().to_vec()).ok()?;
        let word = |key: &str| match object.get(key).filter(|value| !value.is_null()) {
            None => Some(None),
            Some(word) => Some(Some(word.as_string()?.to_text())),
        };
        Some(Self {
            named: word("as")?,
            session_id: word("sessionId")?,
        })
    }
}

fn said(object: &Object) -> Option<Said> {
    if let Some(text) = object.get("text").filter(|text| !text.is_null()) {
        text.as_string()?;
        return Some(Said::Text(object.range("text")?));
    }
    let length = object.get("textLength")?;
    let length = std::str::from_utf8(length.bytes()).ok()?.parse().ok()?;
    let hex = object.get("textSha256")?.as_string()?.to_text();
    let mut sha256 = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, digits) in sha256.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(Said::Metadata { length, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "2026-11-30T204029.123Z-000001.json";

    /// Reads an entry of session `s` that says whose it is and when, and this.
    fn read(text: &str) -> Result<Entry, String> {
        let text = text.replacen(
            '{',
            r#"{"sessionId":"s","at":"2026-11-30T20:40:29.123Z","#,
            1,
        );
        exactly(&text)
    }

    fn exactly(text: &str) -> Result<Entry, String> {
        Entry::read("s", NAME, text.as_bytes().to_vec())
    }

    #[test]
    fn unknown_fields_and_kinds_are_kept() {
        let entry = exactly(r#"{"kind":"later","new":{"a":[1]},"at":"soon"}"#).unwrap();
        assert!(matches!(&entry.kind, Kind::Other(kind) if kind == "later"));
        assert_eq!(entry.value("new").unwrap().bytes(), br#"{"a":[1]}"#);
        let at: Timestamp = "2026-11-30T20:40:29.123Z".parse().unwrap();
        assert_eq!(entry.at, at, "its own time is none; the name's is");
    }

    #[test]
    fn a_message_says_its_text_or_its_length_and_hash() {
        let text = read(
            r#"{"kind":"message","side":"received","text":"a\ud800","peer":{"as":"p"},"outcome":"later"}"#,
        )
        .unwrap();
        let message = text.message().unwrap();
        assert_eq!(message.peer.named.as_deref(), Some("p"));
        let unknown = Side::Received {
            outcome: Outcome::Unknown,
        };
        assert_eq!(message.side, unknown);
        assert_eq!(&*text.text().unwrap().decode(), b"a\xED\xA0\x80");
        let digest = text.digest().unwrap();
        assert_eq!(digest.length, 4);
        let hex = digest.hex();
        let metadata = read(&format!(
            r#"{{"kind":"message","side":"sent","textLength":4,"textSha256":"{hex}"}}"#
        ))
        .unwrap();
        assert_eq!(metadata.digest(), Some(digest));
        assert!(metadata.text().is_none());
    }

    #[test]
    fn what_says_too_little_is_damaged() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"kind":7}"#,
            r#"{"kind":"message","side":"received"}"#,
            r#"{"kind":"message","side":"received","text":7}"#,
            r#"{"kind":"message","side":"up","text":""}"#,
            r#"{"kind":"message","side":"sent","textLength":4,"textSha256":"aa"}"#,
            r#"{"kind":"start"} {"#,
        ] {
            assert!(exactly(text).is_err() && read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_contradicts_itself_or_its_place_is_damaged() {
        let start = r#"{"kind":"start","sessionId":"s","at":"2026-11-30T20:40:29.123456Z"}"#;
        assert!(exactly(start).is_ok(), "names say milliseconds");
        let message = r#"{"kind":"message","side":"sent","text":"t"}"#;
        assert!(read(message).is_ok());
        let with = |more: &str| read(&message.replacen('}', &format!(",{more}}}"), 1));
        assert!(with(r#""isQueued":null,"peer":{"as":null},"textLength":null"#).is_ok());
        for (error, why) in [
            (
                exactly(&start.replace("\"s\"", "\"t\"")),
                "not its folder's",
            ),
            (
                exactly(r#"{"kind":"later","sessionId":"t"}"#),
                "not its folder's",
            ),
            (exactly(&start.replace("\"s\"", "7")), "no sessionId"),
            (
                exactly(&start.replace("29.123456", "29.124")),
                "not its name's",
            ),
            (
                exactly(&start.replace("2026-11-30T", "on ")),
                "its time is none",
            ),
            (
                exactly(r#"{"kind":"start","sessionId":"s"}"#),
                "says no time",
            ),
            (Entry::read("s", "a copy.json", start.into()), "no entry's"),
            (with(r#""text":"u""#), "each key once"),
            (with(r#""peer":{"as":"a","as":"b"}"#), "its peer"),
            (with(r#""peer":"a""#), "its peer"),
            (with(r#""peer":{"as":7}"#), "its peer"),
            (with(r#""isQueued":"true""#), "isQueued"),
            (with(r#""textLength":1"#), "beside"),
            (with(r#""textSha256":"aa""#), "beside"),
            (
                read(r#"{"kind":"message","side":"received","text":"t","outcome":7}"#),
                "outcome",
            ),
        ] {
            let error = error.unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
