//! What a host says of an event: one JSON object on standard input.

use super::Options;
use crate::cli::{Failure, Paint};
use crate::record::{
    Chain, FIELDS, Field, Json, Object, Outcome, Party, Queued, Received, RecordError, Recorder,
    Sent, Start,
};
use jiff::Timestamp;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that an event may have; the help says so.
const LARGEST: u64 = 64 << 20;

/// How long a host may take to hand over an event; the help says so.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event.
pub(super) struct Input {
    object: Object,
}

impl Input {
    /// Reads standard input, for half a minute at most: a host that never ends it must not be kept waiting.
    pub(super) fn read() -> Result<Self, Failure> {
        let is_read = Arc::new(AtomicBool::new(false));
        give_up_after(PATIENCE, &is_read);
        let input = Self::of_standard_input();
        is_read.store(true, Ordering::SeqCst);
        input
    }

    /// Reads standard input, however long it takes.
    pub(super) fn of_standard_input() -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let read = std::io::stdin()
            .lock()
            .take(LARGEST + 1)
            .read_to_end(&mut bytes);
        read.map_err(|error| Failure::degraded("standard input cannot be read").because(error))?;
        if bytes.len() as u64 > LARGEST {
            return Err(Failure::degraded(format!(
                "standard input is longer than {LARGEST} bytes"
            )));
        }
        let object = Object::read(bytes)
            .map_err(|error| Failure::degraded(format!("standard input is {error}")))?;
        Ok(Self { object })
    }

    /// The recorder for the session that the event names.
    pub(super) fn recorder(&self, options: &Options) -> Result<Recorder<'_>, Failure> {
        let id = self.text_of("sessionId")?;
        options.recorder(&id, self.optional("cwd")?.unwrap_or(Json::NULL))
    }

    /// A string that must be there, as text.
    pub(super) fn text_of(&self, key: &'static str) -> Result<String, Failure> {
        let value = self.optional(key)?;
        let text = value.as_ref().and_then(Json::as_string);
        let text = text.ok_or_else(|| wrong(key, "it is missing"))?;
        // A lone surrogate must not become a character that is allowed.
        Ok(text.to_text())
    }

    /// A string or nothing.
    pub(super) fn optional(&self, key: &'static str) -> Result<Option<Json<'_>>, Failure> {
        match self.value(key) {
            Some(value) if value.as_string().is_none() => Err(wrong(key, "it is no string")),
            value => Ok(value),
        }
    }

    /// Any value but `null`. No key stands twice in what was read.
    fn value(&self, key: &str) -> Option<Json<'_>> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn start(&self) -> Result<Start<'_>, Failure> {
        Ok(Start {
            at: self.at()?,
            host: self.value("host"),
            version: self.value("version"),
            inbound: self.value("inbound"),
            more: self.more(),
        })
    }

    pub(super) fn sent(&self) -> Result<Sent<'_>, Failure> {
        let queued = match self.value("isQueued").and_then(|value| value.as_boolean()) {
            Some(true) => Queued::Yes,
            Some(false) => Queued::No(self.value("reason")),
            None => return Err(wrong("isQueued", "it is neither true nor false")),
        };
        Ok(Sent {
            at: self.at()?,
            peer: self.peer(),
            text: self.text()?,
            queued,
            more: self.more(),
        })
    }

    pub(super) fn received(&self) -> Result<Received<'_>, Failure> {
        let given = self.value("outcome");
        let name = given.as_ref().and_then(Json::as_string);
        let outcome = name.and_then(|name| Outcome::parse(&name.to_text()));
        let mut more = self.more();
        if let (Some(given), None) = (given, outcome) {
            more.push(("outcomeAsGiven".into(), given));
        }
        Ok(Received {
            at: self.at()?,
            peer: self.peer(),
            text: self.text()?,
            envelope: self.value("envelope"),
            outcome: outcome.unwrap_or_default(),
            more,
        })
    }

    pub(super) fn chain(&self) -> Result<Chain<'_>, Failure> {
        Ok(Chain {
            at: self.at()?,
            parent: self.value("parent"),
            part: self.value("part"),
            brief: self.value("brief"),
            more: self.more(),
        })
    }

    fn at(&self) -> Result<Option<Timestamp>, Failure> {
        let Some(at) = self.optional("at")? else {
            return Ok(None);
        };
        let at = at.as_string().and_then(|raw| raw.to_text().parse().ok());
        at.map(Some)
            .ok_or_else(|| wrong("at", "it is no time with its zone"))
    }

    fn text(&self) -> Result<Json<'_>, Failure> {
        self.optional("text")?
            .ok_or_else(|| wrong("text", "it is missing"))
    }

    /// The other session: an object, or only its address or name. Of one in any other form nothing is known but what was given,
    /// which [`Self::more`] keeps.
    fn peer(&self) -> Party<'_> {
        self.value("peer").and_then(party).unwrap_or_default()
    }

    /// What the record does not know, and a peer of which it knows less than all.
    fn more(&self) -> Vec<Field<'_>> {
        let more = self.object.iter().filter(|(key, ..)| !FIELDS.contains(key));
        let mut more: Vec<_> = more.map(|(_, key, value)| (key, value)).collect();
        if let Some(peer) = self.value("peer").filter(|peer| !is_whole(peer)) {
            more.push(("peerAsGiven".into(), peer));
        }
        more
    }
}

/// Ends the program, with nothing recorded, unless it is done by then.
pub(super) fn give_up_after(patience: Duration, done: &Arc<AtomicBool>) {
    let done = Arc::clone(done);
    std::thread::spawn(move || {
        std::thread::sleep(patience);
        if !done.load(Ordering::SeqCst) {
            let seconds = patience.as_secs();
            let _: ExitCode = Failure::degraded(format!("it took longer than {seconds} seconds"))
                .hint("whoever runs this must end its standard input")
                .report(Paint::new(clap::ColorChoice::Never, false));
            std::process::exit(1);
        }
    });
}

/// Reads a peer: a string, or an object whose `as` and `sessionId` are strings, `null` or not there.
fn party(peer: Json<'_>) -> Option<Party<'_>> {
    if peer.as_string().is_some() {
        return Some(Party {
            named: Some(peer),
            session_id: None,
        });
    }
    let object = Object::read(peer.bytes().to_vec()).ok()?;
    let member = |key| match object.get(key).filter(|value| !value.is_null()) {
        None => Some(None),
        Some(value) => value
            .as_string()
            .is_some()
            .then(|| Some(value.into_owned())),
    };
    Some(Party {
        named: member("as")?,
        session_id: member("sessionId")?,
    })
}

/// Whether a peer says nothing beyond what an entry has a place for.
fn is_whole(peer: &Json<'_>) -> bool {
    let known = |object: Object| {
        object
            .iter()
            .all(|(key, ..)| matches!(key, "as" | "sessionId"))
    };
    peer.as_string().is_some()
        || (party(peer.clone()).is_some() && Object::read(peer.bytes().to_vec()).is_ok_and(known))
}

fn wrong(field: &'static str, why: &str) -> Failure {
    Failure::from(RecordError::Field {
        field,
        why: why.to_owned(),
    })
}
