//! The writer: one file an entry, whole or not at all.

use super::folder::Directory;
use super::json::Json;
use super::name::{is_session_id, stamp};
use super::settings::TextMode;
use super::{Digested, Outcome, RecordError};
use crate::transcript::text::Raw;
use jiff::Timestamp;
use std::path::{Path, PathBuf};

/// Records what one session sends and receives.
///
/// Every method writes one entry and says where. An error is for the caller to report or to ignore: it means that this message is
/// unknown to the record, and nothing else. Any number of recorders, in any number of processes, may write for one session.
#[derive(Clone, Debug)]
pub struct Recorder<'a> {
    directory: PathBuf,
    session: String,
    cwd: Json<'a>,
    text: TextMode,
    sync: bool,
}

/// A member of an entry beyond those that the record knows: its key, a JSON string, and its value.
pub type Field<'a> = (Json<'a>, Json<'a>);

/// What a session says of itself when it begins to record. Its coverage begins here.
#[derive(Clone, Debug, Default)]
pub struct Start<'a> {
    /// When; now if not given.
    pub at: Option<Timestamp>,
    /// The host's name.
    pub host: Option<Json<'a>>,
    /// The host's version.
    pub version: Option<Json<'a>>,
    /// The host's inbound setting as read.
    pub inbound: Option<Json<'a>>,
    /// What else is known.
    pub more: Vec<Field<'a>>,
}

/// A message that a session sent.
#[derive(Clone, Debug)]
pub struct Sent<'a> {
    /// When; now if not given.
    pub at: Option<Timestamp>,
    /// To whom.
    pub peer: Party<'a>,
    /// The text: a JSON string, kept as it stands.
    pub text: Json<'a>,
    /// What the transport made of it.
    pub queued: Queued<'a>,
    /// What else is known.
    pub more: Vec<Field<'a>>,
}

/// What a transport made of a message. It says nothing of the other session.
#[derive(Clone, Debug)]
pub enum Queued<'a> {
    /// It took it.
    Yes,
    /// It did not, for this reason if it gave one.
    No(Option<Json<'a>>),
}

/// A message that a session received.
#[derive(Clone, Debug)]
pub struct Received<'a> {
    /// When; now if not given.
    pub at: Option<Timestamp>,
    /// From whom.
    pub peer: Party<'a>,
    /// The text: a JSON string, kept as it stands.
    pub text: Json<'a>,
    /// The host's envelope as it arrived.
    pub envelope: Option<Json<'a>>,
    /// What came of it.
    pub outcome: Outcome,
    /// What else is known.
    pub more: Vec<Field<'a>>,
}

/// The other session.
#[derive(Clone, Debug, Default)]
pub struct Party<'a> {
    /// The address or name exactly as the host gave it.
    pub named: Option<Json<'a>>,
    /// Its full session ID, only where it was resolved.
    pub session_id: Option<Json<'a>>,
}

/// How a session belongs to a piece of work that more sessions share.
#[derive(Clone, Debug, Default)]
pub struct Chain<'a> {
    /// When; now if not given.
    pub at: Option<Timestamp>,
    /// The session that this one continues or works for.
    pub parent: Option<Json<'a>>,
    /// Which part of the work is this session's.
    pub part: Option<Json<'a>>,
    /// What it was asked to do.
    pub brief: Option<Json<'a>>,
    /// What else is known.
    pub more: Vec<Field<'a>>,
}

impl<'a> Recorder<'a> {
    /// A recorder for this session in this record directory. Nothing is made or written yet.
    pub fn new(directory: &Path, session_id: &str) -> Result<Self, RecordError> {
        is_session_id(session_id.as_bytes()).map_err(|why| RecordError::SessionId {
            id: session_id.chars().take(64).collect(),
            why,
        })?;
        Ok(Self {
            directory: directory.to_path_buf(),
            session: session_id.to_owned(),
            cwd: Json::NULL,
            text: TextMode::Full,
            sync: false,
        })
    }

    /// The working directory of the session, a JSON string or `null`. It assigns entries to a project.
    #[must_use]
    pub fn in_directory(mut self, cwd: Json<'a>) -> Self {
        self.cwd = cwd;
        self
    }

    /// What is kept of texts. Where the settings of the record directory keep less for the working directory, less is kept.
    #[must_use]
    pub fn keeping(mut self, text: TextMode) -> Self {
        self.text = text;
        self
    }

    /// Whether an entry is on the disk before a method returns. It delays the message.
    #[must_use]
    pub fn synchronized(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Records that this session begins to record.
    pub fn start(&self, start: &Start<'_>) -> Result<PathBuf, RecordError> {
        let mut entry = self.entry("start", start.at)?;
        entry.field("cwd", &self.cwd);
        entry.or_null("host", start.host.as_ref());
        entry.or_null("version", start.version.as_ref());
        entry.or_null("inbound", start.inbound.as_ref());
        self.publish(entry, &start.more)
    }

    /// Records a message that this session sent.
    pub fn sent(&self, sent: &Sent<'_>) -> Result<PathBuf, RecordError> {
        let mut entry = self.entry("message", sent.at)?;
        entry.field("side", &"sent".into());
        entry.peer(&sent.peer);
        self.text(&sent.text, &mut entry)?;
        entry.field(
            "isQueued",
            &Json::boolean(matches!(sent.queued, Queued::Yes)),
        );
        if let Queued::No(reason) = &sent.queued {
            entry.or_null("reason", reason.as_ref());
        }
        entry.field("cwd", &self.cwd);
        self.publish(entry, &sent.more)
    }

    /// Records a message that this session received.
    pub fn received(&self, received: &Received<'_>) -> Result<PathBuf, RecordError> {
        let mut entry = self.entry("message", received.at)?;
        entry.field("side", &"received".into());
        entry.peer(&received.peer);
        self.text(&received.text, &mut entry)?;
        entry.or_null("envelope", received.envelope.as_ref());
        entry.field("outcome", &received.outcome.name().into());
        entry.field("cwd", &self.cwd);
        self.publish(entry, &received.more)
    }

    /// Records how this session belongs to a larger piece of work.
    pub fn chain(&self, chain: &Chain<'_>) -> Result<PathBuf, RecordError> {
        let mut entry = self.entry("chain", chain.at)?;
        entry.or_null("parent", chain.parent.as_ref());
        entry.or_null("part", chain.part.as_ref());
        entry.or_null("brief", chain.brief.as_ref());
        entry.field("cwd", &self.cwd);
        self.publish(entry, &chain.more)
    }

    fn entry(&self, kind: &str, at: Option<Timestamp>) -> Result<Draft, RecordError> {
        let at = at.unwrap_or_else(Timestamp::now);
        let year = at.strftime("%Y").to_string();
        if year.len() != 4 || year.starts_with('-') {
            return Err(RecordError::Field {
                field: "at",
                why: format!("the year {year} does not have four digits"),
            });
        }
        let mut entry = Draft {
            at,
            bytes: Vec::new(),
            keys: Vec::new(),
            hidden: Vec::new(),
        };
        entry.field("kind", &kind.into());
        entry.field("sessionId", &self.session.as_str().into());
        entry.field("at", &stamp(at).as_str().into());
        Ok(entry)
    }

    fn text(&self, text: &Json<'_>, entry: &mut Draft) -> Result<(), RecordError> {
        let Some(raw) = text.as_string() else {
            return Err(RecordError::Field {
                field: "text",
                why: "it is no string".into(),
            });
        };
        let cwd = self.cwd.as_string().map(Raw::to_text);
        let directory = Directory::open(&self.directory)?;
        let settings = directory.text_mode(&cwd.unwrap_or_default())?;
        if self.text.max(settings.unwrap_or_default()) == TextMode::Full {
            entry.field("text", text);
        } else {
            let decoded = raw.decode();
            let digest = Digested::of(&decoded);
            entry.field("textLength", &Json::number(digest.length));
            entry.field("textSha256", &digest.hex().as_str().into());
            entry.keys.push("text".into());
            entry.hidden = decoded.into_owned();
        }
        Ok(())
    }

    fn publish(&self, mut entry: Draft, more: &[Field<'_>]) -> Result<PathBuf, RecordError> {
        for (key, value) in more {
            let name = key.as_string().ok_or_else(|| RecordError::Field {
                field: "more",
                why: "a key is no string".into(),
            })?;
            // The record's own members say what they say, whatever else is said.
            let name = name.to_text();
            if !entry.keys.contains(&name) {
                entry.member(key, value);
                entry.keys.push(name);
            }
        }
        entry.bytes.extend_from_slice(b"}\n");
        let directory = Directory::open(&self.directory)?;
        let folder = directory.session(&self.session, self.sync)?;
        folder.publish(entry.at, &entry.bytes)
    }
}

/// An entry being put together.
struct Draft {
    at: Timestamp,
    bytes: Vec<u8>,
    keys: Vec<String>,
    /// The text that is not to come in by another door, such as the envelope; empty for none.
    hidden: Vec<u8>,
}

impl Draft {
    /// A member of the record's own, which stays whatever the text is.
    fn field(&mut self, key: &str, value: &Json<'_>) {
        let key_json: Json<'_> = key.into();
        self.member_bytes(key_json.bytes(), value.bytes());
        self.keys.push(key.to_owned());
    }

    /// A member that the host words as it likes, so that the text may stand in it.
    fn or_null(&mut self, key: &str, value: Option<&Json<'_>>) {
        self.member(&key.into(), value.unwrap_or(&Json::NULL));
        self.keys.push(key.to_owned());
    }

    fn peer(&mut self, peer: &Party<'_>) {
        let mut inner = b"{\"as\":".to_vec();
        inner.extend_from_slice(peer.named.as_ref().unwrap_or(&Json::NULL).bytes());
        if let Some(id) = &peer.session_id {
            inner.extend_from_slice(b",\"sessionId\":");
            inner.extend_from_slice(id.bytes());
        }
        inner.push(b'}');
        self.member_bytes(b"\"peer\"", &inner);
        self.keys.push("peer".into());
    }

    fn member(&mut self, key: &Json<'_>, value: &Json<'_>) {
        if self.hidden.is_empty() {
            self.member_bytes(key.bytes(), value.bytes());
        } else {
            let value = value.without(&self.hidden);
            self.member_bytes(key.bytes(), value.bytes());
        }
    }

    fn member_bytes(&mut self, key: &[u8], value: &[u8]) {
        self.bytes
            .push(if self.bytes.is_empty() { b'{' } else { b',' });
        for part in [key, b":", value] {
            self.bytes.extend_from_slice(part);
        }
    }
}
