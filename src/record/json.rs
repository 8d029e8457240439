//! JSON values that are handed on as they stand: what came in is what is written, byte for byte.

use crate::transcript::json::{Kind, Malformed, Scanner};
use crate::transcript::text::{Form, Raw};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// A JSON value as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json<'a>(Cow<'a, [u8]>);

/// Bytes that are not the JSON that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} (byte {at})")]
pub struct NotJson {
    /// What they should be.
    pub what: &'static str,
    /// The byte, from 0, from which on they are not.
    pub at: usize,
}

impl<'a> Json<'a> {
    /// `null`
    pub const NULL: Json<'static> = Json(Cow::Borrowed(b"null"));

    /// Bytes that hold one JSON value and nothing else.
    pub fn read(bytes: &'a [u8]) -> Result<Self, NotJson> {
        let mut scanner = Scanner::new(bytes, 0..bytes.len());
        let not = |Malformed { at }| NotJson {
            what: "JSON value",
            at,
        };
        let range = scanner.skip().map_err(not)?;
        if scanner.at_end() {
            Ok(Self(Cow::Borrowed(&bytes[range])))
        } else {
            Err(not(Malformed {
                at: scanner.offset(),
            }))
        }
    }

    /// The string that holds this text.
    pub fn string(text: &str) -> Json<'static> {
        // A string always has a form in JSON; what could fail is only the sink of a writer.
        Json(Cow::Owned(serde_json::to_vec(text).unwrap_or_default()))
    }

    /// `true` or `false`
    pub fn boolean(value: bool) -> Json<'static> {
        Json(Cow::Borrowed(if value { b"true" } else { b"false" }))
    }

    /// A whole number.
    pub fn number(value: u64) -> Json<'static> {
        Json(Cow::Owned(value.to_string().into_bytes()))
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Json<'static> {
        Json(Cow::Owned(self.0.into_owned()))
    }

    /// As it stands.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.bytes() == b"null"
    }

    /// What stands between the quotes, if it is a string.
    pub fn as_string(&self) -> Option<Raw<'_>> {
        inside(self.bytes())
    }

    /// A string's text, anything else as it stands; what is no UTF-8 replaced.
    pub fn to_text(&self) -> String {
        let plain = Raw::plain(self.bytes());
        self.as_string().unwrap_or(plain).to_text()
    }

    /// The strings of a list of strings.
    pub fn as_strings(&self) -> Option<Vec<String>> {
        let bytes = self.bytes();
        let mut scanner = Scanner::new(bytes, 0..bytes.len());
        let mut list = Vec::new();
        let mut items = scanner.array().ok()?;
        while scanner.item(&mut items).ok()? {
            let value = scanner.skip().ok()?;
            list.push(inside(&bytes[value])?.to_text());
        }
        Some(list)
    }

    /// The value of this key, if this is an object that has it.
    pub fn member(&self, key: &str) -> Option<Json<'_>> {
        let bytes = self.bytes();
        let members = members(bytes).ok()?;
        let member = members.iter().find(|member| member.key == key)?;
        Some(Json(Cow::Borrowed(&bytes[member.value.clone()])))
    }

    /// The value, if it is `true` or `false`.
    pub fn as_boolean(&self) -> Option<bool> {
        match self.bytes() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }
}

impl From<&str> for Json<'static> {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

/// What stands between the quotes of a JSON string.
pub(super) fn inside(bytes: &[u8]) -> Option<Raw<'_>> {
    let inside = bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(Raw {
        bytes: inside,
        form: Form::JsonString,
    })
}

/// The members of one JSON object, in order, each key once: of two equal ones nobody knows which holds.
#[derive(Clone, Debug)]
pub struct Object {
    bytes: Vec<u8>,
    members: Vec<Member>,
}

/// One member of an object.
#[derive(Clone, Debug)]
struct Member {
    key: String,
    /// The key with its quotes.
    raw_key: Range<usize>,
    value: Range<usize>,
}

impl Object {
    /// Reads bytes that hold one JSON object and nothing else.
    pub fn read(bytes: Vec<u8>) -> Result<Self, NotJson> {
        let members = members(&bytes)?;
        Ok(Self { bytes, members })
    }

    /// The bytes that it was read from.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of this key; none if there is no such key.
    pub fn get(&self, key: &str) -> Option<Json<'_>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        Some(self.json(&member.value))
    }

    /// The same, as a range of [`Self::bytes`].
    pub(super) fn range(&self, key: &str) -> Option<Range<usize>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        Some(member.value.clone())
    }

    /// Keys, with their quotes, and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Json<'_>, Json<'_>)> {
        self.members.iter().map(|member| {
            let key = self.json(&member.raw_key);
            (member.key.as_str(), key, self.json(&member.value))
        })
    }

    fn json(&self, range: &Range<usize>) -> Json<'_> {
        Json(Cow::Borrowed(&self.bytes[range.clone()]))
    }
}

fn members(bytes: &[u8]) -> Result<Vec<Member>, NotJson> {
    let not = |Malformed { at }| NotJson {
        what: "JSON object",
        at,
    };
    let list = scan(bytes).map_err(not)?;
    let mut keys = HashSet::new();
    match list.iter().find(|member| !keys.insert(&member.key)) {
        None => Ok(list),
        Some(again) => Err(NotJson {
            what: "JSON object with each key once",
            at: again.raw_key.start,
        }),
    }
}

fn scan(bytes: &[u8]) -> Result<Vec<Member>, Malformed> {
    let mut scanner = Scanner::new(bytes, 0..bytes.len());
    let mut list = Vec::new();
    if scanner.kind()? != Kind::Object {
        return Err(Malformed {
            at: scanner.offset(),
        });
    }
    let mut members = scanner.object()?;
    loop {
        let before = scanner.offset();
        let Some(key) = scanner.key(&mut members)? else {
            break;
        };
        let key = String::from_utf8_lossy(&key).into_owned();
        // Between the last member and the value stand the key, and only around it a comma, white space and a colon.
        let around = before..scanner.offset();
        let place = |at: Option<usize>| at.unwrap_or_default() + before;
        let open = place(memchr::memchr(b'"', &bytes[around.clone()]));
        let close = place(memchr::memrchr(b'"', &bytes[around]));
        list.push(Member {
            key,
            raw_key: open..close + 1,
            value: scanner.skip()?,
        });
    }
    if scanner.at_end() {
        Ok(list)
    } else {
        Err(Malformed {
            at: scanner.offset(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_stand() {
        let text = br#" { "a" : "\ud83d\u0041" ,"\u0062":[1, 2 ],"c\"":null}"#;
        let object = Object::read(text.to_vec()).unwrap();
        assert_eq!(object.get("a").unwrap().bytes(), br#""\ud83d\u0041""#);
        assert_eq!(object.get("b").unwrap().bytes(), b"[1, 2 ]");
        assert_eq!(object.get("d"), None);
        let keys: Vec<_> = object
            .iter()
            .map(|(_, raw, _)| raw.bytes().to_vec())
            .collect();
        let expected: [&[u8]; 3] = [br#""a""#, br#""\u0062""#, br#""c\"""#];
        assert_eq!(keys, expected);
        assert!(object.get("c\"").unwrap().is_null());
    }

    #[test]
    fn an_object_that_says_a_key_twice_is_none() {
        let text = br#"{"a":1,"b":{"c":1,"c":2},"\u0061":2}"#;
        let error = Object::read(text.to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no JSON object with each key once (byte 25)"
        );
        assert!(Object::read(text[..24].iter().chain(b"}").copied().collect()).is_ok());
    }

    #[test]
    fn what_is_no_object_says_where() {
        for (text, at) in [
            ("", 0),
            ("[]", 0),
            ("{\"a\":1", 6),
            ("{} x", 3),
            ("{\"a\"}", 4),
        ] {
            assert_eq!(Object::read(text.into()).unwrap_err().at, at, "{text}");
        }
        assert!(Json::read(b"\"a\" \"b\"").is_err());
    }
}
