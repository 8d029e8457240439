//! The payloads: JSON objects whose keys are written in one order and read in any.
//!
//! Reading is the derived reading of these types: an unknown field is ignored, an unknown role, a missing field and a
//! repeated one are errors. That is exactly what the published crate does.

use super::{Fault, name};
use serde::{Deserialize, Serialize};

/// The version of the format, of logs and of objects.
pub const FORMAT_VERSION: &str = "0.2.1";

/// The first frame of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`FORMAT_VERSION`].
    pub format_version: String,
    /// The session's ID, which is its file's too.
    pub session_id: String,
    /// When the session began, in the words of whoever created the log.
    pub created_at: String,
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
}

/// Who speaks in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The system.
    SystemMessage,
    /// The system, of something that failed.
    SystemError,
    /// The person.
    UserMessage,
    /// The assistant.
    #[serde(rename = "kennedy-message")]
    AssistantMessage,
    /// The assistant, calling a tool.
    #[serde(rename = "kennedy-tool-call")]
    AssistantToolCall,
    /// What a tool gave.
    ToolResult,
    /// What a tool that failed gave.
    ToolError,
    /// An object that is kept elsewhere.
    Object,
    /// An object that lies beside the log.
    PendingObject,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 9] = [
        Self::SystemMessage,
        Self::SystemError,
        Self::UserMessage,
        Self::AssistantMessage,
        Self::AssistantToolCall,
        Self::ToolResult,
        Self::ToolError,
        Self::Object,
        Self::PendingObject,
    ];

    /// Its name in a log.
    pub fn name(self) -> &'static str {
        match self {
            Self::SystemMessage => "system-message",
            Self::SystemError => "system-error",
            Self::UserMessage => "user-message",
            Self::AssistantMessage => "kennedy-message",
            Self::AssistantToolCall => "kennedy-tool-call",
            Self::ToolResult => "tool-result",
            Self::ToolError => "tool-error",
            Self::Object => "object",
            Self::PendingObject => "pending-object",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The payload of a header.
pub(super) fn encode_header(id: &str, created_at: &str) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Borrowed<'a> {
        format_version: &'a str,
        session_id: &'a str,
        created_at: &'a str,
    }
    serde_json::to_vec(&Borrowed {
        format_version: FORMAT_VERSION,
        session_id: id,
        created_at,
    })
}

/// The payload of an event.
pub(super) fn encode_event(role: Role, text: &str) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Borrowed<'a> {
        role: Role,
        text: &'a str,
    }
    serde_json::to_vec(&Borrowed { role, text })
}

/// Reads the payload of a header and checks all of it but whose file it is in.
pub(super) fn decode_header(payload: &[u8]) -> Result<Header, Fault> {
    let header: Header = serde_json::from_slice(payload).map_err(|why| wrong("header", &why))?;
    if header.format_version != FORMAT_VERSION {
        return Err(Fault::Version(header.format_version));
    }
    if name::check_id(&header.session_id).is_err() {
        return Err(Fault::HeaderId(header.session_id));
    }
    if header.created_at.trim().is_empty() {
        return Err(Fault::CreatedAt);
    }
    Ok(header)
}

/// Reads the payload of an event.
pub(super) fn decode_event(payload: &[u8]) -> Result<Event, Fault> {
    serde_json::from_slice(payload).map_err(|why| wrong("event", &why))
}

fn wrong(kind: &'static str, why: &serde_json::Error) -> Fault {
    Fault::Payload {
        kind,
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_in_order() {
        let header = encode_header("a", "now").unwrap();
        let expected = r#"{"formatVersion":"0.2.1","sessionId":"a","createdAt":"now"}"#;
        assert_eq!(String::from_utf8(header).unwrap(), expected);
        for role in Role::ALL {
            let event = String::from_utf8(encode_event(role, "\u{1}\n/é").unwrap()).unwrap();
            let name = role.name();
            assert_eq!(event, format!(r#"{{"role":"{name}","text":"\u0001\n/é"}}"#));
            assert_eq!(decode_event(event.as_bytes()).unwrap().role, role);
            assert_eq!(Role::named(name), Some(role));
        }
    }

    #[test]
    fn an_event_is_read_strictly_where_the_format_says_so() {
        let reads = |json: &str| decode_event(json.as_bytes()).is_ok();
        assert!(reads(r#"{"text":"x","role":"object"}"#));
        assert!(reads(
            r#"{"role":"object","text":"x","more":[1,{"a":null}]}"#
        ));
        assert!(!reads(r#"{"role":"assistant-message","text":"x"}"#));
        assert!(!reads(r#"{"role":"object"}"#));
        assert!(!reads(r#"{"text":"x"}"#));
        assert!(!reads(r#"{"role":"object","text":"x","text":"y"}"#));
        assert!(!reads(r#"{"role":"object","text":"x"} {}"#));
        assert!(!reads(r#"{"role":"object","text":null}"#));
    }

    #[test]
    fn a_header_is_read_strictly() {
        let fault = |json: &str| decode_header(json.as_bytes()).unwrap_err();
        let header = |version: &str, id: &str, at: &str| {
            format!(r#"{{"formatVersion":"{version}","sessionId":"{id}","createdAt":"{at}"}}"#)
        };
        assert!(decode_header(header("0.2.1", "a", " x ").as_bytes()).is_ok());
        assert_eq!(
            fault(&header("0.2.0", "a", "x")),
            Fault::Version("0.2.0".into())
        );
        assert_eq!(
            fault(&header("0.2.1", "../a", "x")),
            Fault::HeaderId("../a".into())
        );
        assert_eq!(fault(&header("0.2.1", "a", " \\t")), Fault::CreatedAt);
        assert!(matches!(fault("{}"), Fault::Payload { .. }));
    }
}
