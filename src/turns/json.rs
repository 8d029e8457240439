//! One line of JSON out of stored texts, safe to show on a terminal and to read with any parser.

use crate::transcript::display::is_hidden;
use crate::transcript::json::Scanner;
use crate::transcript::text::{Buffers, Form, Raw, Text};
use std::fmt::Write as _;

/// Levels of nesting up to which a stored value stands as itself. Parsers have limits of their own, from 256 levels on; a value
/// that is nested deeper stands as a string that holds its JSON.
const DEEPEST: usize = 128;

/// A line being written.
pub(super) struct Line<'a> {
    buffers: &'a Buffers,
    out: &'a mut Vec<u8>,
}

impl<'a> Line<'a> {
    pub(super) fn new(buffers: &'a Buffers, out: &'a mut Vec<u8>) -> Self {
        Self { buffers, out }
    }

    /// Begins an object or array with its bracket; as a member of an array, after a comma if it is not the first.
    pub(super) fn open(&mut self, bracket: u8) {
        if matches!(self.out.last(), Some(b'}' | b']')) {
            self.out.push(b',');
        }
        self.out.push(bracket);
    }

    /// Ends it.
    pub(super) fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
    }

    /// Begins a member of an object: its value comes next.
    pub(super) fn key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        string(Raw::plain(key.as_bytes()), self.out);
        self.out.push(b':');
    }

    pub(super) fn null(&mut self, key: &str) {
        self.key(key);
        self.out.extend_from_slice(b"null");
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.key(key);
        self.out
            .extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.out.extend_from_slice(number.to_string().as_bytes());
    }

    pub(super) fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        string(Raw::plain(word.as_bytes()), self.out);
    }

    pub(super) fn word_or_null(&mut self, key: &str, word: Option<&str>) {
        match word {
            Some(word) => self.word(key, word),
            None => self.null(key),
        }
    }

    /// Members of an array that was just begun.
    pub(super) fn numbers(&mut self, numbers: impl Iterator<Item = u64>) {
        for (i, number) in numbers.enumerate() {
            let comma = if i > 0 { "," } else { "" };
            self.out
                .extend_from_slice(format!("{comma}{number}").as_bytes());
        }
    }

    pub(super) fn hex(&mut self, key: &str, bytes: &[u8]) {
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        self.word(key, &text);
    }

    /// A stored text or value; null where there is none.
    pub(super) fn maybe(&mut self, key: &str, text: Option<Text>) {
        let Some(text) = text else {
            return self.null(key);
        };
        self.key(key);
        let raw = self.buffers.raw(text);
        match raw.form {
            Form::JsonString | Form::Plain | Form::Shown => string(raw, self.out),
            Form::JsonValue => value(raw.bytes, self.out),
        }
    }
}

/// A text as a JSON string. What is no UTF-8, and a lone surrogate, becomes U+FFFD.
fn string(raw: Raw<'_>, out: &mut Vec<u8>) {
    let decoded = raw.decode();
    let mut rest: &[u8] = &decoded;
    out.push(b'"');
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(all) => all,
            Err(error) => rest[..error.valid_up_to()]
                .utf8_chunks()
                .next()
                .map_or("", |chunk| chunk.valid()),
        };
        characters(valid, out);
        rest = &rest[valid.len()..];
        if rest.is_empty() {
            break;
        }
        // A lone surrogate is one character, though its three bytes are no UTF-8.
        let skipped = match rest {
            [0xED, 0xA0..=0xBF, 0x80..=0xBF, ..] => 3,
            _ => rest
                .utf8_chunks()
                .next()
                .map_or(1, |c| c.invalid().len().max(1)),
        };
        out.extend_from_slice("\u{fffd}".as_bytes());
        rest = &rest[skipped..];
    }
    out.push(b'"');
}

fn characters(text: &str, out: &mut Vec<u8>) {
    let mut done = 0;
    for (at, c) in text.char_indices() {
        // Most characters are plain and are copied in runs.
        if (' '..='~').contains(&c) && c != '"' && c != '\\' {
            continue;
        }
        let escape = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            c if is_hidden(c) => "",
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[done..at]);
        done = at + c.len_utf8();
        if escape.is_empty() {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        } else {
            out.extend_from_slice(escape.as_bytes());
        }
    }
    out.extend_from_slice(&text.as_bytes()[done..]);
}

/// A stored JSON value on one line; as a string that holds it where parsers would not take it.
fn value(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut scanner = Scanner::new(bytes, 0..bytes.len());
    let is_json = scanner.skip().is_ok() && scanner.at_end();
    if !is_json || !tokens(bytes, out) {
        out.truncate(start);
        string(Raw::plain(bytes), out);
    }
}

/// Writes the tokens of what the scanner has accepted; false if they are nested too deep.
fn tokens(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'"' => {
                let mut scanner = Scanner::new(bytes, at..bytes.len());
                let Ok(inside) = scanner.string() else {
                    return false;
                };
                at = scanner.offset();
                let raw = Raw {
                    bytes: &bytes[inside],
                    form: Form::JsonString,
                };
                string(raw, out);
            }
            b'{' | b'[' | b'}' | b']' | b',' | b':' => {
                depth = match byte {
                    b'{' | b'[' => depth + 1,
                    b'}' | b']' => depth.saturating_sub(1),
                    _ => depth,
                };
                if depth > DEEPEST {
                    return false;
                }
                out.push(byte);
                at += 1;
            }
            _ => {
                let ends = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b',' | b'}' | b']');
                let rest = &bytes[at..];
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                scalar(&rest[..len], out);
                at += len;
            }
        }
    }
    true
}

/// A number or literal; one that parsers take for no number, or for no finite one, as a string.
fn scalar(bytes: &[u8], out: &mut Vec<u8>) {
    let fits = serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
    if fits {
        out.extend_from_slice(bytes);
    } else {
        string(Raw::plain(bytes), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn json(bytes: &[u8]) -> Raw<'_> {
        Raw {
            bytes,
            form: Form::JsonString,
        }
    }

    #[test]
    fn what_steers_a_terminal_stands_as_an_escape() {
        for (raw, text) in [
            (json(br#"a\"b\\\n\t\r\/"#), r#""a\"b\\\n\t\r/""#),
            (json(b"\x1b[0m\\u001b\\u0000"), r#""\u001b[0m\u001b\u0000""#),
            (
                json("\u{202e}\u{2028}\u{e0041}\u{85}".as_bytes()),
                r#""\u202e\u2028\udb40\udc41\u0085""#,
            ),
            (json(br"\ud83d x \ud83d\ude00"), "\"\u{fffd} x \u{1f600}\""),
            (
                Raw::plain(b"\\n\xff\xed\xa0"),
                "\"\\\\n\u{fffd}\u{fffd}\u{fffd}\"",
            ),
            (
                Raw::plain("\u{e9}\u{4e2d}".as_bytes()),
                "\"\u{e9}\u{4e2d}\"",
            ),
        ] {
            assert_eq!(written(|out| string(raw, out)), text);
        }
    }

    #[test]
    fn a_value_stands_as_itself_or_as_a_string_that_holds_it() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let quoted = format!("\"{deep}\"");
        for (stored, text) in [
            (
                "{\"a\" : [1, -2.50e3,\tnull] }",
                r#"{"a":[1,-2.50e3,null]}"#,
            ),
            ("{\"a\":1,\"a\":2}", r#"{"a":1,"a":2}"#),
            ("[01, 1e999, -]", "\"[01, 1e999, -]\""),
            ("[01, 1e999]", r#"["01","1e999"]"#),
            ("{\"k\u{1b}\":\"\u{7f}\"}", r#"{"k\u001b":"\u007f"}"#),
            ("{\"cut\":", r#""{\"cut\":""#),
            (&deep, &quoted),
        ] {
            assert_eq!(written(|out| value(stored.as_bytes(), out)), text);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_line_that_parses(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            for write in [|b: &[u8], out: &mut Vec<u8>| string(json(b), out),
                |b: &[u8], out: &mut Vec<u8>| string(Raw::plain(b), out), |b: &[u8], out: &mut Vec<u8>| value(b, out)] {
                let text = written(|out| write(&bytes, out));
                prop_assert!(text.chars().all(|c| !is_hidden(c) && c != '\n' && c != '\t'));
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn any_text_reads_back(text in any::<String>()) {
            let line = written(|out| string(Raw::plain(text.as_bytes()), out));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text.clone());
            let stored = serde_json::to_string(&serde_json::json!({ "a": [&text, 1.5] })).unwrap();
            let line = written(|out| value(stored.as_bytes(), out));
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read["a"][0].as_str(), Some(text.as_str()));
        }
    }
}
