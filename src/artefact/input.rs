//! A tool's input made readable: strings with line breaks as text of their own, the rest as indented JSON.

use crate::transcript::json::{Kind, Malformed, Scanner};
use crate::transcript::text::{Escape, Form, Raw};
use std::borrow::Cow;

/// Levels of nesting that get lines and indentation of their own; what is nested deeper stays on its line. Without an end
/// to it, input of a million brackets would be shown as a million lines of a million spaces.
const INDENTED_LEVELS: usize = 8;

/// A JSON value, in the pieces that are shown.
#[derive(Debug, Default)]
pub(super) struct Readable<'a> {
    /// The value as indented JSON, without the fields that stand in `fields`; none where nothing is left.
    pub(super) json: Option<Cow<'a, [u8]>>,
    /// The top-level string fields that hold a line break: name and text.
    pub(super) fields: Vec<(Cow<'a, [u8]>, Raw<'a>)>,
    /// The text, where the whole value is one string.
    pub(super) text: Option<Raw<'a>>,
}

impl<'a> Readable<'a> {
    /// Takes a stored JSON value apart. What is no JSON is shown as it stands.
    pub(super) fn of(value: Raw<'a>) -> Self {
        match value.form {
            Form::JsonValue => {}
            Form::JsonString | Form::Plain | Form::Shown => {
                return Self {
                    text: Some(value),
                    ..Self::default()
                };
            }
        }
        Self::take_apart(value.bytes).unwrap_or_else(|_| Self {
            json: Some(readable(value.bytes)),
            ..Self::default()
        })
    }

    fn take_apart(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut scanner = Scanner::new(bytes, 0..bytes.len());
        let string = |range| Raw {
            bytes: &bytes[range],
            form: Form::JsonString,
        };
        if scanner.kind()? == Kind::String {
            let text = string(scanner.string()?);
            return if scanner.at_end() {
                Ok(Self {
                    text: Some(text),
                    ..Self::default()
                })
            } else {
                Err(Malformed {
                    at: scanner.offset(),
                })
            };
        }
        let mut fields = Vec::new();
        // The members that stay, as they stand.
        let mut rest = vec![b'{'];
        let mut members = scanner.object()?;
        let mut start = scanner.offset();
        while let Some(name) = scanner.key(&mut members)? {
            let text = if scanner.kind()? == Kind::String {
                Some(string(scanner.string()?)).filter(|&text| has_line_break(text))
            } else {
                scanner.skip()?;
                None
            };
            if let Some(text) = text {
                fields.push((name, text));
            } else {
                let member = bytes[start..scanner.offset()].trim_ascii_start();
                if rest.len() > 1 {
                    rest.push(b',');
                }
                rest.extend_from_slice(member.strip_prefix(b",").unwrap_or(member));
            }
            start = scanner.offset();
        }
        if !scanner.at_end() {
            return Err(Malformed {
                at: scanner.offset(),
            });
        }
        rest.push(b'}');
        let json = (rest.len() > 2 || fields.is_empty()).then(|| Cow::Owned(indent(&rest)));
        Ok(Self {
            json,
            fields,
            text: None,
        })
    }
}

/// A JSON value with two spaces a level and one member a line; as it stands if it is no JSON after all.
pub(super) fn readable(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut scanner = Scanner::new(bytes, 0..bytes.len());
    if scanner.skip().is_ok() && scanner.at_end() {
        Cow::Owned(indent(bytes))
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Changes nothing but white space between values, whatever the bytes are.
fn indent(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
    let mut depth = 0usize;
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * depth));
    };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'"' => {
                let end = at + string_len(&bytes[at..]);
                out.extend_from_slice(&bytes[at - 1..end]);
                at = end;
            }
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                let next = bytes[at..].trim_ascii_start().first();
                let is_empty = matches!((byte, next), (b'{', Some(b'}')) | (b'[', Some(b']')));
                if depth <= INDENTED_LEVELS && !is_empty {
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                let is_empty =
                    matches!((out.last(), byte), (Some(b'{'), b'}') | (Some(b'['), b']'));
                if depth <= INDENTED_LEVELS && !is_empty {
                    new_line(&mut out, depth.saturating_sub(1));
                }
                depth = depth.saturating_sub(1);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                if depth <= INDENTED_LEVELS {
                    new_line(&mut out, depth);
                } else {
                    out.push(b' ');
                }
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
    out
}

/// The length of the rest of a string with its closing quote; all there is if it has none.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Whether a stored string holds a line feed, written out or as an escape.
fn has_line_break(text: Raw<'_>) -> bool {
    let mut rest = text.bytes;
    while let Some(at) = memchr::memchr2(b'\\', b'\n', rest) {
        if rest[at] == b'\n' {
            return true;
        }
        let (escape, len) = Escape::read(&rest[at..]);
        if escape == Escape::Char('\n') {
            return true;
        }
        rest = &rest[at + len..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        String::from_utf8_lossy(&indent(json.as_bytes())).into_owned()
    }

    #[test]
    fn json_is_indented_and_nothing_of_it_lost() {
        assert_eq!(
            shown(r#"{"a":[1,{"b":"x,{y}\"\\"}],"c":{},"d":[]}"#),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{y}\\\"\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}"
        );
        for strange in [
            "",
            "\"",
            "\"\\",
            "{\"a",
            "}]",
            "nul",
            "{\"a\" 1,,}",
            "[\"x\\\"",
            "\"a\"\"",
        ] {
            let kept: String = shown(strange).split_whitespace().collect();
            assert_eq!(kept, strange.replace(' ', ""), "{strange}");
        }
    }

    #[test]
    fn a_million_brackets_stay_small() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert!(shown(&deep).len() < 2_001_000);
    }

    #[test]
    fn fields_with_a_line_break_stand_apart() {
        let value = br#"{"path":"a","text":"x\ny", "escaped":"no\\nbreak","other":"p\u000aq","n":{"deep":"a\nb"}}"#;
        let readable = Readable::of(Raw {
            bytes: value,
            form: Form::JsonValue,
        });
        let names: Vec<_> = readable
            .fields
            .iter()
            .map(|(name, text)| (name.as_ref(), text.bytes))
            .collect();
        assert_eq!(
            names,
            [(&b"text"[..], &br"x\ny"[..]), (b"other", br"p\u000aq")]
        );
        assert_eq!(
            String::from_utf8_lossy(&readable.json.unwrap_or_default()),
            "{\n  \"path\": \"a\",\n  \"escaped\": \"no\\\\nbreak\",\n  \"n\": {\n    \"deep\": \"a\\nb\"\n  }\n}"
        );
        let whole = |value: &'static str| {
            Readable::of(Raw {
                bytes: value.as_bytes(),
                form: Form::JsonValue,
            })
        };
        assert!(whole(r#"{"a":"x\ny"}"#).json.is_none());
        assert_eq!(whole("{}").json.as_deref(), Some(&b"{}"[..]));
        assert_eq!(
            whole(r#""a\nb""#).text.map(|text| text.bytes),
            Some(&br"a\nb"[..])
        );
        let broken = r#"{"a":"x\ny" , }"#;
        assert!(whole(broken).fields.is_empty());
        assert_eq!(whole(broken).json.as_deref(), Some(broken.as_bytes()));
    }
}
