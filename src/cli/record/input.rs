//! What a host says of an event: one JSON object on standard input.

use super::Options;
use crate::cli::Failure;
use crate::record::{
    Chain, FIELDS, Field, Json, Object, Outcome, Party, Queued, Received, RecordError, Recorder,
    Sent, Start,
};
use crate::transcript::text::Raw;
use jiff::Timestamp;
use std::io::Read;

/// Bytes that an event may have.
const LARGEST: u64 = 64 << 20;

/// An event.
pub(super) struct Input {
    object: Object,
}

impl Input {
    /// Reads standard input.
    pub(super) fn read() -> Result<Self, Failure> {
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

    /// Any value but `null`.
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
            peer: self.peer()?,
            text: self.text()?,
            queued,
            more: self.more(),
        })
    }

    pub(super) fn received(&self) -> Result<Received<'_>, Failure> {
        let outcome = match self.optional("outcome")? {
            None => Outcome::Unknown,
            Some(name) => {
                let name = name.as_string().map(Raw::to_text).unwrap_or_default();
                Outcome::parse(&name).ok_or_else(|| {
                    wrong(
                        "outcome",
                        "it is none of queued, consumed, rejected and unknown",
                    )
                })?
            }
        };
        Ok(Received {
            at: self.at()?,
            peer: self.peer()?,
            text: self.text()?,
            envelope: self.value("envelope"),
            outcome,
            more: self.more(),
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

    /// The other session: an object, or only its address or name.
    fn peer(&self) -> Result<Party<'_>, Failure> {
        let no_string = || {
            wrong(
                "peer",
                "it is neither an object with as and sessionId nor a string",
            )
        };
        let Some(peer) = self.value("peer") else {
            return Ok(Party::default());
        };
        if peer.as_string().is_some() {
            return Ok(Party {
                named: Some(peer),
                session_id: None,
            });
        }
        let member = |key| match peer.member(key) {
            Some(value) if value.is_null() => Ok(None),
            Some(value) if value.as_string().is_none() => Err(no_string()),
            value => Ok(value.map(Json::into_owned)),
        };
        if !peer.bytes().starts_with(b"{") {
            return Err(no_string());
        }
        Ok(Party {
            named: member("as")?,
            session_id: member("sessionId")?,
        })
    }

    fn more(&self) -> Vec<Field<'_>> {
        let more = self.object.iter().filter(|(key, ..)| !FIELDS.contains(key));
        more.map(|(_, key, value)| (key, value)).collect()
    }
}

fn wrong(field: &'static str, why: &str) -> Failure {
    Failure::from(RecordError::Field {
        field,
        why: why.to_owned(),
    })
}
