//! The display form: how a participant's text is shown in every derived file and on a terminal.
//!
//! JSON escapes are decoded while they are written, in one pass. A character that steers a terminal or hides the order of
//! others is written as `\u{…}`, CR LF as a line feed, and what is no UTF-8 as U+FFFD; each of them is counted in [`Shown`].
//! `spec/artefact.md`, "Containment", is the source of the rules.

pub mod paths;
pub(crate) mod pieces;
pub mod shell;

use super::decode::{SLACK, decode};
use super::text::{Form, Raw};
use pieces::{Piece, each};
use std::ops::AddAssign;

/// What was changed or left out to show something. Counts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Characters shown as `\u{…}`.
    pub characters_escaped: u64,
    /// Bytes that are no UTF-8, and lone surrogates, shown as U+FFFD.
    pub characters_replaced: u64,
    /// CR LF pairs shown as a line feed.
    pub crlf: u64,
    /// Blocks that were cut.
    pub blocks_cut: u64,
    /// Bytes that are not shown, of the display form.
    pub bytes_cut: u64,
}

impl AddAssign for Shown {
    fn add_assign(&mut self, other: Self) {
        self.characters_escaped += other.characters_escaped;
        self.characters_replaced += other.characters_replaced;
        self.crlf += other.crlf;
        self.blocks_cut += other.blocks_cut;
        self.bytes_cut += other.bytes_cut;
    }
}

impl Shown {
    /// Whether something is not shown, or not as it was written because it cannot be.
    pub fn has_gap(&self) -> bool {
        self.blocks_cut > 0 || self.bytes_cut > 0 || self.characters_replaced > 0
    }

    /// Counts what showing this piece changes.
    #[inline]
    fn count(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Run(_) | Piece::Char(_) => {}
            Piece::Hidden(_) => self.characters_escaped += 1,
            Piece::Replaced => self.characters_replaced += 1,
            Piece::CrLf => self.crlf += 1,
        }
    }
}

/// Appends the display form of a text and counts what was changed in it.
pub fn write(raw: Raw<'_>, out: &mut Vec<u8>, shown: &mut Shown) {
    if raw.form == Form::Shown {
        out.extend_from_slice(raw.bytes);
        return;
    }
    if raw.form == Form::JsonString && write_decoded(raw.bytes, out) {
        return;
    }
    out.reserve(raw.bytes.len());
    each(raw, |piece| {
        shown.count(&piece);
        piece.write(out);
    });
}

/// Appends the inside of a JSON string if all of it is shown as it decodes, else nothing.
fn write_decoded(string: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + string.len() + SLACK, 0);
    let written = decode(string, &mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    written.is_some()
}

/// Appends at most `limit` bytes of the display form of a text, and returns how many bytes of it are not shown.
///
/// The cut is before a line break if one stands in the last quarter of what may be shown, else between two characters; an escape is
/// never cut. What is not shown is counted without being kept, in `blocks_cut` and `bytes_cut`; the other counts are of
/// what is shown.
pub fn write_up_to(limit: usize, raw: Raw<'_>, out: &mut Vec<u8>, shown: &mut Shown) -> u64 {
    if raw.form == Form::Shown {
        let fits = cut_at(limit, raw.bytes);
        let not_shown = (raw.bytes.len() - fits) as u64;
        out.extend_from_slice(&raw.bytes[..fits]);
        shown.blocks_cut += u64::from(not_shown > 0);
        shown.bytes_cut += not_shown;
        return not_shown;
    }
    let start = out.len();
    // Most texts fit, and then the plain loop is the fast one.
    if raw.bytes.len() <= limit {
        let mut counts = Shown::default();
        write(raw, out, &mut counts);
        if out.len() - start <= limit {
            *shown += counts;
            return 0;
        }
        out.truncate(start);
    }
    let mut counts = Shown::default();
    // The last line break in what is shown, and the counts before it.
    let mut line = (start, counts);
    let mut not_shown = 0;
    each(raw, |piece| {
        if not_shown > 0 {
            not_shown += piece.len() as u64;
            return;
        }
        let room = (start + limit).saturating_sub(out.len());
        let before = out.len();
        let fits = match piece {
            Piece::Run(run) => {
                let fits = run.floor_char_boundary(room);
                out.extend_from_slice(&run.as_bytes()[..fits]);
                if let Some(at) = memchr::memrchr(b'\n', &out[before..]) {
                    line = (before + at, counts);
                }
                fits
            }
            _ if piece.len() <= room => {
                if piece.is_line_feed() {
                    line = (before, counts);
                }
                counts.count(&piece);
                piece.write(out);
                piece.len()
            }
            _ => 0,
        };
        not_shown = (piece.len() - fits) as u64;
    });
    if not_shown > 0 {
        if line.0 > start && line.0 - start >= limit - limit / 4 {
            not_shown += (out.len() - line.0) as u64;
            out.truncate(line.0);
            counts = line.1;
        }
        counts.blocks_cut = 1;
        counts.bytes_cut = not_shown;
    }
    *shown += counts;
    not_shown
}

/// How many bytes of a text that is shown as it stands are shown of it where `limit` bytes may be: the cut is where
/// [`write_up_to`] makes it.
pub(crate) fn cut_at(limit: usize, text: &[u8]) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    // The first byte of a character is none of those that go on with one.
    let starts = |at: &usize| text[*at] & 0xC0 != 0x80;
    let fits = (0..=limit).rev().find(starts).unwrap_or(0);
    match memchr::memrchr(b'\n', &text[..fits]) {
        Some(line) if line > 0 && line >= limit - limit / 4 => line,
        _ => fits,
    }
}

/// The length in bytes of a text's display form.
pub fn len(raw: Raw<'_>) -> u64 {
    if raw.form == Form::Shown {
        return raw.bytes.len() as u64;
    }
    let mut length = 0;
    each(raw, |piece| length += piece.len() as u64);
    length
}

/// A text in display form on one line: line feeds and tabs too are shown as `\u{…}`. For values in JSON and on a terminal.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) || c == '\n' || c == '\t' {
            push_escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character is never shown as itself: control characters other than line feed and tab, bidirectional formatting,
/// U+2028, U+2029 and the tags U+E0000 to U+E007F.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Appends a character as `\u{…}`, its code in upper-case hexadecimal.
pub fn push_escape(c: char, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = std::fmt::Write::write_fmt(out, format_args!("\\u{{{:X}}}", u32::from(c)));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::transcript::text::Form;

    fn shown(raw: Raw<'_>) -> (String, Shown) {
        let (mut out, mut counts) = (Vec::new(), Shown::default());
        write(raw, &mut out, &mut counts);
        assert_eq!(len(raw), out.len() as u64);
        (String::from_utf8(out).unwrap(), counts)
    }

    fn json(bytes: &[u8]) -> Raw<'_> {
        Raw {
            bytes,
            form: Form::JsonString,
        }
    }

    /// What the display form is, said as plainly as possible: decode, replace, then look at one character after the other.
    fn plainly(raw: Raw<'_>) -> (String, Shown) {
        let mut counts = Shown::default();
        let mut text = String::new();
        let decoded = raw.decode();
        let mut rest: &[u8] = &decoded;
        while !rest.is_empty() {
            // A lone surrogate is one character, though its three bytes are no UTF-8.
            if raw.form == Form::JsonString && rest[0] == 0xED && rest.len() > 2 && rest[1] >= 0xA0
            {
                counts.characters_replaced += 1;
                text.push('\u{fffd}');
                rest = &rest[3..];
                continue;
            }
            let chunk = rest.utf8_chunks().next().unwrap();
            if chunk.valid().is_empty() {
                counts.characters_replaced += 1;
                text.push('\u{fffd}');
                rest = &rest[chunk.invalid().len()..];
            } else {
                let c = chunk.valid().chars().next().unwrap();
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        counts.crlf = text.matches("\r\n").count() as u64;
        let mut out = String::new();
        for c in text.replace("\r\n", "\n").chars() {
            if is_hidden(c) {
                counts.characters_escaped += 1;
                push_escape(c, &mut out);
            } else {
                out.push(c);
            }
        }
        (out, counts)
    }

    #[test]
    fn every_class_is_shown_as_the_rules_say() {
        for (raw, text, [escaped, replaced, crlf]) in [
            (json(br#"a\n\tb\"\\\/"#), "a\n\tb\"\\/", [0, 0, 0]),
            (
                json(br"\u0000\b\f\u001b[0m"),
                "\\u{0}\\u{8}\\u{C}\\u{1B}[0m",
                [4, 0, 0],
            ),
            (
                json(b"\x1b\x7f\xc2\x85\xc2\xa0"),
                "\\u{1B}\\u{7F}\\u{85}\u{a0}",
                [3, 0, 0],
            ),
            (
                json(br"\u202e\u2066\u061c\u2028\udb40\udc41"),
                "\\u{202E}\\u{2066}\\u{61C}\\u{2028}\\u{E0041}",
                [5, 0, 0],
            ),
            (
                json("\u{200e}\u{2014}\u{2029}\u{e007f}\u{e0080}".as_bytes()),
                "\\u{200E}\u{2014}\\u{2029}\\u{E007F}\u{e0080}",
                [3, 0, 0],
            ),
            (
                json(br"\ud83d\ude00 \ud83d x \ude00"),
                "\u{1f600} \u{fffd} x \u{fffd}",
                [0, 2, 0],
            ),
            (
                json(b"a\xffb\xe2\x82c\xf0\x9f"),
                "a\u{fffd}b\u{fffd}c\u{fffd}",
                [0, 3, 0],
            ),
            (json(br"\x \u12 \"), r"\x \u12 \", [0, 0, 0]),
            (
                json(b"a\r\nb\\r\nc\r\\nd\\r\\u000ae\\u000d\\nf"),
                "a\nb\nc\nd\ne\nf",
                [0, 0, 5],
            ),
            (
                json(b"a\rb\\rc\r\\r\\n\r"),
                "a\\u{D}b\\u{D}c\\u{D}\n\\u{D}",
                [4, 0, 1],
            ),
            (
                Raw::plain(b"a\\n\x01\r\n\r\\n"),
                "a\\n\\u{1}\n\\u{D}\\n",
                [2, 0, 1],
            ),
        ] {
            let expected = Shown {
                characters_escaped: escaped,
                characters_replaced: replaced,
                crlf,
                ..Shown::default()
            };
            assert_eq!(shown(raw), (text.to_owned(), expected));
            assert_eq!(
                plainly(raw),
                (text.to_owned(), expected),
                "the test's own form"
            );
        }
    }

    /// Bytes that matter to the scan, at every place of its eight-byte steps.
    #[test]
    fn the_scan_agrees_with_the_plain_form() {
        let words: [&[u8]; 24] = [
            b"plain text ",
            b"x",
            b"\n",
            b"\t",
            b"\r",
            b"\r\n",
            b"\\n",
            b"\\r",
            b"\\",
            b"\\u00",
            b"\\ud800",
            b"\\u202e",
            b"\x7f",
            b"\x01",
            "\u{85}".as_bytes(),
            "\u{e9}".as_bytes(),
            "\u{4e2d}\u{6587}".as_bytes(),
            "\u{201c}".as_bytes(),
            "\u{200f}".as_bytes(),
            "\u{1f600}".as_bytes(),
            "\u{e0001}".as_bytes(),
            b"\xff",
            b"\xe2\x80",
            b"eight   ",
        ];
        let mut seed = 1u64;
        let mut random = move |n: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        for _ in 0..3000 {
            let mut bytes = Vec::new();
            for _ in 0..random(12) {
                bytes.extend_from_slice(words[random(words.len())]);
            }
            for raw in [json(&bytes), Raw::plain(&bytes)] {
                assert_eq!(
                    shown(raw),
                    plainly(raw),
                    "{:?}",
                    bytes.escape_ascii().to_string()
                );
                let (whole, counts) = shown(raw);
                for limit in 0..whole.len() + 2 {
                    let (mut out, mut cut) = (Vec::new(), Shown::default());
                    let not_shown = write_up_to(limit, raw, &mut out, &mut cut);
                    assert!(out.len() <= limit);
                    assert!(whole.as_bytes().starts_with(&out));
                    assert_eq!(out.len() as u64 + not_shown, whole.len() as u64);
                    assert_eq!(cut.bytes_cut, not_shown);
                    assert_eq!(cut.blocks_cut, u64::from(not_shown > 0));
                    if not_shown == 0 {
                        assert_eq!(cut, counts);
                    }
                }
            }
        }
    }

    #[test]
    fn a_cut_is_at_a_line_break_if_one_is_near_and_never_inside_an_escape() {
        let cut = |limit, raw| {
            let (mut out, mut counts) = (Vec::new(), Shown::default());
            let not_shown = write_up_to(limit, raw, &mut out, &mut counts);
            (
                String::from_utf8(out).unwrap(),
                not_shown,
                counts.characters_escaped,
            )
        };
        assert_eq!(cut(8, Raw::plain(b"123456\n89")), ("123456".into(), 3, 0));
        assert_eq!(
            cut(8, Raw::plain(b"123\n56789")),
            ("123\n5678".into(), 1, 0)
        );
        assert_eq!(
            cut(8, json(br"123456\n\u0001\u0001")),
            ("123456".into(), 11, 0)
        );
        assert_eq!(cut(8, json(br"\u0001\n6789")), ("\\u{1}\n67".into(), 2, 1));
        assert_eq!(cut(4, json(br"\u0001")), (String::new(), 5, 0));
        assert_eq!(
            cut(4, Raw::plain("abc\u{e9}".as_bytes())),
            ("abc".into(), 2, 0)
        );
        assert_eq!(
            cut(5, Raw::plain("abc\u{e9}".as_bytes())),
            ("abc\u{e9}".into(), 0, 0)
        );
    }

    #[test]
    fn a_line_has_no_line_break() {
        assert_eq!(
            line("a\nb\tc\r\u{202e}\u{e9}"),
            "a\\u{A}b\\u{9}c\\u{D}\\u{202E}\u{e9}"
        );
    }
}
