//! One safe value: a participant's string as a code span that nothing can break out of.

use crate::transcript::display::pieces::{Piece, each};
use crate::transcript::display::{self, Shown, paths};
use crate::transcript::text::Raw;

/// Characters of a code span that a value may fill, the `…` of a cut included.
const LONGEST: usize = 128;
/// Bytes of a value that are looked at; no more of them can be shown.
const LOOKED_AT: usize = 4096;

/// A participant's string that may stand in a line of the document's own: tool names and IDs, models, roles, types, titles, names,
/// times that do not parse.
///
/// It is written as a code span of printable characters except backtick, backslash and `|`, with single spaces inside; any other
/// character is shown as `\u{…}`, and so is a `]` before a colon, because a marker would become the definition of a link there,
/// which Markdown reads before code spans. An absolute path keeps only its last part. More than 128 characters are cut with `…`. The
/// empty value is written as the bare words `(empty)`.
#[derive(Clone, Copy, Debug)]
pub struct SafeValue<'a>(Raw<'a>);

impl<'a> SafeValue<'a> {
    /// A string that is decoded already.
    pub fn of(value: &'a str) -> Self {
        Self(Raw::plain(value.as_bytes()))
    }

    /// A stored text.
    pub fn raw(value: Raw<'a>) -> Self {
        Self(value)
    }

    pub(super) fn append(self, out: &mut Vec<u8>, counts: &mut Shown) {
        let bytes = self.0.bytes;
        if bytes.is_empty() {
            out.extend_from_slice(b"(empty)");
        } else if bytes.len() <= LONGEST && bytes.iter().all(|&b| is_plain(b)) {
            out.push(b'`');
            out.extend_from_slice(bytes);
            out.push(b'`');
        } else {
            self.write_slowly(out, counts);
        }
    }

    fn write_slowly(self, out: &mut Vec<u8>, counts: &mut Shown) {
        let (text, replaced, whole) = self.text();
        let text = if whole {
            paths::shorten(&text)
        } else {
            paths::shorten_beginning(&text)
        };
        let mut span = String::new();
        // Up to where the span may go if the value must be cut, and the escapes so far.
        let mut cut = (0, 0);
        let (mut length, mut escaped) = (0, 0);
        let mut before = ' ';
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let start = span.len();
            let bare = match c {
                ' ' => before != ' ' && (chars.peek().is_some() || !whole),
                ']' => chars.peek() != Some(&':'),
                _ => is_printable(c),
            };
            if bare {
                span.push(c);
                length += 1;
            } else {
                display::push_escape(c, &mut span);
                length += span.len() - start;
                escaped += 1;
            }
            before = c;
            if length < LONGEST {
                cut = (span.len(), escaped);
            } else if length > LONGEST {
                break;
            }
        }
        if length > LONGEST || !whole {
            span.truncate(cut.0);
            escaped = cut.1;
            span.push('…');
        }
        let replacements = span.matches('\u{fffd}').count() as u64;
        counts.characters_escaped += escaped;
        counts.characters_replaced += replaced.min(replacements);
        out.push(b'`');
        out.extend_from_slice(span.as_bytes());
        out.push(b'`');
    }

    /// The value decoded, as much as is looked at; how much of it was no UTF-8; whether it is the whole value.
    fn text(self) -> (String, u64, bool) {
        let mut text = String::new();
        let mut replaced = 0;
        // No escape is longer than six bytes for each byte that it stands for.
        let bytes = &self.0.bytes[..self.0.bytes.len().min(6 * LOOKED_AT + 12)];
        each(Raw { bytes, ..self.0 }, |piece| match piece {
            Piece::Run(run) => text.push_str(run),
            Piece::Char(c) | Piece::Hidden(c) => text.push(c),
            Piece::CrLf => text.push_str("\r\n"),
            Piece::Replaced => {
                replaced += 1;
                text.push('\u{fffd}');
            }
        });
        let whole = text.len() <= LOOKED_AT;
        text.truncate(text.floor_char_boundary(LOOKED_AT));
        (text, replaced, whole)
    }
}

/// Bytes that need no thought in either form: neither part of an escape nor of a path.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'_' | b'.' | b',' | b'@' | b'#' | b'+' | b'(' | b')'
        )
}

/// Whether a character may stand in a code span as it is: not one of the three that Markdown reads there, not hidden, not a space
/// of any other kind, and neither invisible nor private.
fn is_printable(c: char) -> bool {
    !(matches!(c, '`' | '\\' | '|')
        || display::is_hidden(c)
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::text::Form;

    fn span(value: SafeValue<'_>) -> (String, u64, u64) {
        let (mut out, mut counts) = (Vec::new(), Shown::default());
        value.append(&mut out, &mut counts);
        (
            String::from_utf8_lossy(&out).into_owned(),
            counts.characters_escaped,
            counts.characters_replaced,
        )
    }

    #[test]
    fn a_value_is_one_code_span() {
        for (value, shown, escaped) in [
            ("toolu_01-x.y", "`toolu_01-x.y`", 0),
            ("", "(empty)", 0),
            ("two words", "`two words`", 0),
            (" a  b ", "`\\u{20}a \\u{20}b\\u{20}`", 3),
            ("`a`|\\", "`\\u{60}a\\u{60}\\u{7C}\\u{5C}`", 4),
            ("a\n## b\r\n", "`a\\u{A}## b\\u{D}\\u{A}`", 3),
            (
                "\u{202e}x\u{1b}\u{feff}\u{a0}",
                "`\\u{202E}x\\u{1B}\\u{FEFF}\\u{A0}`",
                4,
            ),
            ("at /home/ann/work", "`at …/work`", 0),
            ("[1m]", "`[1m]`", 0),
            ("a]: b", "`a\\u{5D}: b`", 1),
            ("日本 é", "`日本 é`", 0),
        ] {
            assert_eq!(span(SafeValue::of(value)), (shown.to_owned(), escaped, 0));
        }
    }

    #[test]
    fn stored_escapes_are_decoded_first() {
        let raw = |bytes| {
            span(SafeValue::raw(Raw {
                bytes,
                form: Form::JsonString,
            }))
        };
        assert_eq!(raw(br"a\u0060\n"), ("`a\\u{60}\\u{A}`".into(), 2, 0));
        assert_eq!(raw(br"\/home\/ann\/x"), ("`…/x`".into(), 0, 0));
        assert_eq!(
            raw(b"\xff\\ud800\xef\xbf\xbd"),
            ("`\u{fffd}\u{fffd}\u{fffd}`".into(), 0, 2)
        );
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let cut = |value: &str| span(SafeValue::of(value)).0.trim_matches('`').to_owned();
        assert_eq!(cut(&"x".repeat(128)), "x".repeat(128));
        assert_eq!(cut(&"x".repeat(129)), "x".repeat(127) + "…");
        assert_eq!(cut(&"é".repeat(10_000)), "é".repeat(127) + "…");
        assert_eq!(cut(&("x".repeat(125) + "\n")), "x".repeat(125) + "…");
        assert_eq!(cut(&("x".repeat(123) + "\n")), "x".repeat(123) + "\\u{A}");
        // Which part of a path is the last one is not known where only its beginning is looked at.
        assert_eq!(cut(&format!("/{}/last", "x/".repeat(5000))), "…/…");
    }
}
