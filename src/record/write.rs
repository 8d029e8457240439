//! The writer: one file an entry, whole or not at all.

use super::folder::Directory;
use super::json::{Json, Object};
use super::name::{is_session_id, stamp};
use super::settings::TextMode;
use super::withhold::Withheld;
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

    /// What is kept of texts. Where the settings of the record directory keep less for the working directory, less is kept. Of a text
    /// kept as metadata nothing comes in by another door either: what a host words that might quote it is left out and named in
    /// the entry's `withheld`.
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
        self.text(&sent.text, &sent.peer, &mut entry)?;
        entry.field(
            "isQueued",
            &Json::boolean(matches!(sent.queued, Queued::Yes)),
        );
        if let Queued::No(reason) = &sent.queued {
            entry.reason(reason.as_ref());
        }
        entry.field("cwd", &self.cwd);
        self.publish(entry, &sent.more)
    }

    /// Records a message that this session received.
    pub fn received(&self, received: &Received<'_>) -> Result<PathBuf, RecordError> {
        let mut entry = self.entry("message", received.at)?;
        entry.field("side", &"received".into());
        self.text(&received.text, &received.peer, &mut entry)?;
        entry.envelope(received.envelope.as_ref());
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
            hidden: None,
            withheld: Vec::new(),
        };
        entry.field("kind", &kind.into());
        entry.field("sessionId", &self.session.as_str().into());
        entry.field("at", &stamp(at).as_str().into());
        Ok(entry)
    }

    /// The other session, and the text or what is kept of it.
    fn text(
        &self,
        text: &Json<'_>,
        peer: &Party<'_>,
        entry: &mut Draft,
    ) -> Result<(), RecordError> {
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
            entry.peer(peer);
            entry.field("text", text);
        } else {
            let decoded = raw.decode();
            let digest = Digested::of(&decoded);
            // Of an empty text nothing can be told.
            entry.hidden = (!decoded.is_empty()).then(|| Withheld::new(decoded.into_owned()));
            entry.peer(peer);
            entry.field("textLength", &Json::number(digest.length));
            entry.field("textSha256", &digest.hex().as_str().into());
            entry.keys.extend(["text", "withheld"].map(String::from));
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
                entry.further(key, value);
                entry.keys.push(name);
            }
        }
        entry.say_what_is_withheld();
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
    /// The text that is not to come in by another door, where only its length and hash are kept.
    hidden: Option<Withheld>,
    /// The members that are not kept since it might stand in them.
    withheld: Vec<String>,
}

impl Draft {
    /// A member of the record's own, or one that has nothing to do with a message's text.
    fn field(&mut self, key: &str, value: &Json<'_>) {
        let key_json: Json<'_> = key.into();
        self.member(key_json.bytes(), value.bytes());
        self.keys.push(key.to_owned());
    }

    fn or_null(&mut self, key: &str, value: Option<&Json<'_>>) {
        self.field(key, value.unwrap_or(&Json::NULL));
    }

    fn peer(&mut self, peer: &Party<'_>) {
        let hidden = self.hidden.as_ref();
        let mut withheld = Vec::new();
        let mut named = peer.named.as_ref().unwrap_or(&Json::NULL);
        if hidden.is_some_and(|hidden| !hidden.may_keep_name(named)) {
            named = &Json::NULL;
            withheld.push("peer.as".to_owned());
        }
        let mut inner = b"{\"as\":".to_vec();
        inner.extend_from_slice(named.bytes());
        match &peer.session_id {
            Some(id) if hidden.is_some_and(|hidden| !hidden.may_keep_id(id)) => {
                withheld.push("peer.sessionId".to_owned());
            }
            Some(id) => {
                inner.extend_from_slice(b",\"sessionId\":");
                inner.extend_from_slice(id.bytes());
            }
            None => {}
        }
        inner.push(b'}');
        self.member(b"\"peer\"", &inner);
        self.keys.push("peer".into());
        self.withheld.append(&mut withheld);
    }

    fn reason(&mut self, reason: Option<&Json<'_>>) {
        match (&self.hidden, reason) {
            (Some(hidden), Some(reason)) => {
                let kept = hidden.reason(reason);
                if kept.is_none() {
                    self.withheld.push("reason".into());
                }
                self.or_null("reason", kept.as_ref());
            }
            _ => self.or_null("reason", reason),
        }
    }

    fn envelope(&mut self, envelope: Option<&Json<'_>>) {
        let (Some(hidden), Some(envelope)) = (&self.hidden, envelope) else {
            return self.or_null("envelope", envelope);
        };
        let Ok(members) = Object::read(envelope.bytes().to_vec()) else {
            let kept = hidden.may_keep_word(envelope);
            if !kept {
                self.withheld.push("envelope".into());
            }
            return self.or_null("envelope", Some(envelope).filter(|_| kept));
        };
        let mut inner = vec![b'{'];
        for (_, key, value) in members.iter() {
            match hidden.key(&key) {
                Some(_) if hidden.may_keep_word(&value) => {
                    if inner.len() > 1 {
                        inner.push(b',');
                    }
                    for part in [key.bytes(), b":", value.bytes()] {
                        inner.extend_from_slice(part);
                    }
                }
                name => {
                    let name = name.as_deref().unwrap_or(ANOTHER);
                    self.withheld.push(format!("envelope.{name}"));
                }
            }
        }
        inner.push(b'}');
        self.member(b"\"envelope\"", &inner);
        self.keys.push("envelope".into());
    }

    /// A member that the record does not know.
    fn further(&mut self, key: &Json<'_>, value: &Json<'_>) {
        if let Some(hidden) = &self.hidden {
            let name = hidden.key(key);
            if name.is_none() || !hidden.may_keep_word(value) {
                return self.withheld.push(name.unwrap_or(ANOTHER.into()));
            }
        }
        self.member(key.bytes(), value.bytes());
    }

    /// Names what is not kept, so that nobody takes it for never said.
    fn say_what_is_withheld(&mut self) {
        self.withheld.dedup();
        if !self.withheld.is_empty() {
            let names: Vec<Json<'_>> = self
                .withheld
                .iter()
                .map(|name| Json::string(name))
                .collect();
            let names: Vec<&[u8]> = names.iter().map(Json::bytes).collect();
            let list = [b"[", &*names.join(&b","[..]), b"]"].concat();
            self.member(b"\"withheld\"", &list);
        }
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.bytes
            .push(if self.bytes.is_empty() { b'{' } else { b',' });
        for part in [key, b":", value] {
            self.bytes.extend_from_slice(part);
        }
    }
}

/// What stands for a key that is not kept either.
const ANOTHER: &str = "*";
