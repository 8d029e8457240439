//! A stored text cut into what is shown as it stands and what is not.
//!
//! Texts that are not shown as they decode pass here: most of their bytes a block at a time, and they are copied in runs.

use super::is_hidden;
use crate::transcript::block::{BLOCK, unusual};
use crate::transcript::text::{Escape, Form, Raw};

/// One piece of a display form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text that is shown as it stands.
    Run(&'a str),
    /// A decoded character that is shown as it is.
    Char(char),
    /// A character that is shown as `\u{…}`.
    Hidden(char),
    /// What is no UTF-8, or a lone surrogate: shown as U+FFFD.
    Replaced,
    /// CR LF, shown as a line feed.
    CrLf,
}

impl Piece<'_> {
    /// Its length in bytes as shown.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Piece::Run(run) => run.len(),
            Piece::Char(c) => c.len_utf8(),
            // `\u{`, the digits, `}`.
            Piece::Hidden(c) => 4 + hex_digits(*c),
            Piece::Replaced => 3,
            Piece::CrLf => 1,
        }
    }

    /// Whether it is a line break of its own; a run may hold others.
    pub(crate) fn is_line_feed(&self) -> bool {
        matches!(self, Piece::Char('\n') | Piece::CrLf)
    }

    /// Appends it as shown.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Run(run) => out.extend_from_slice(run.as_bytes()),
            Piece::Char(c) if c.is_ascii() => out.push(*c as u8),
            Piece::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            // Nearly all are this one, which begins a terminal's commands.
            Piece::Hidden('\u{1b}') => out.extend_from_slice(b"\\u{1B}"),
            Piece::Hidden(c) => {
                let code = u32::from(*c);
                out.extend_from_slice(b"\\u{");
                for digit in (0..hex_digits(*c)).rev() {
                    out.push(b"0123456789ABCDEF"[(code >> (4 * digit) & 0xF) as usize]);
                }
                out.push(b'}');
            }
            Piece::Replaced => out.extend_from_slice("\u{fffd}".as_bytes()),
            Piece::CrLf => out.push(b'\n'),
        }
    }
}

/// Cuts a stored text into pieces, in order, decoding JSON escapes where it is the inside of a JSON string.
#[inline]
pub(crate) fn each<'a>(raw: Raw<'a>, mut take: impl FnMut(Piece<'a>)) {
    let json = raw.form == Form::JsonString;
    let mut rest = raw.bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => return each_valid(valid, json, &mut take),
            Err(error) => {
                let (valid, broken) = rest.split_at(error.valid_up_to());
                each_valid(
                    std::str::from_utf8(valid).unwrap_or_default(),
                    json,
                    &mut take,
                );
                take(Piece::Replaced);
                rest = &broken[error.error_len().unwrap_or(broken.len())..];
            }
        }
    }
}

#[inline]
fn each_valid<'a>(text: &'a str, json: bool, take: &mut impl FnMut(Piece<'a>)) {
    let bytes = text.as_bytes();
    let mut stops = Stops::new(bytes, if json { &JSON_STOPS } else { &PLAIN_STOPS });
    let (mut start, mut at) = (0, 0);
    while let Some(stop) = stops.next(at) {
        let found = match frequent_escape(&bytes[stop..]) {
            Some(found) if json => Some(found),
            _ => special(&text[stop..], json),
        };
        let Some((piece, len)) = found else {
            at = stop + 1;
            continue;
        };
        if start < stop {
            take(Piece::Run(&text[start..stop]));
        }
        take(piece);
        at = stop + len;
        start = at;
    }
    if start < text.len() {
        take(Piece::Run(&text[start..]));
    }
}

/// What one of the escapes is that are by far the most frequent reasons to stop, and its stored length.
#[inline]
fn frequent_escape<'a>(bytes: &[u8]) -> Option<(Piece<'a>, usize)> {
    match bytes {
        [b'\\', b'n', ..] => Some((Piece::Char('\n'), 2)),
        [b'\\', b't', ..] => Some((Piece::Char('\t'), 2)),
        [b'\\', c @ (b'"' | b'\\' | b'/'), ..] => Some((Piece::Char(char::from(*c)), 2)),
        [b'\\', b'u', b'0', b'0', b'1', b'b' | b'B', ..] => Some((Piece::Hidden('\u{1b}'), 6)),
        _ => None,
    }
}

/// What a text begins with, and the stored length of that, if it is not shown as it stands.
fn special<'a>(text: &str, json: bool) -> Option<(Piece<'a>, usize)> {
    let c = text.chars().next()?;
    let (c, len) = match c {
        '\\' if json => match Escape::read(text.as_bytes()) {
            (Escape::Char(c), len) => (c, len),
            (Escape::LoneSurrogate(_), len) => return Some((Piece::Replaced, len)),
            // Not JSON; the backslash is shown, and what follows it stands for itself.
            (Escape::Malformed, _) => return None,
        },
        _ if !is_hidden(c) => return None,
        _ => (c, c.len_utf8()),
    };
    if c == '\r'
        && let Some(feed) = line_feed(&text[len..], json)
    {
        return Some((Piece::CrLf, len + feed));
    }
    let piece = if is_hidden(c) {
        Piece::Hidden(c)
    } else {
        Piece::Char(c)
    };
    Some((piece, len))
}

/// The stored length of the line feed that a text begins with, if it does.
fn line_feed(text: &str, json: bool) -> Option<usize> {
    if text.starts_with('\n') {
        return Some(1);
    }
    match Escape::read(text.as_bytes()) {
        (Escape::Char('\n'), len) if json && text.starts_with('\\') => Some(len),
        _ => None,
    }
}

/// Bytes at which a run may have to end: control characters other than line feed and tab, and the first bytes of the
/// characters beyond ASCII that may be hidden.
const PLAIN_STOPS: [bool; 256] = stops(false);
/// The same, and the backslash.
const JSON_STOPS: [bool; 256] = stops(true);

const fn stops(json: bool) -> [bool; 256] {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        stops[byte] = byte != b'\n' as usize && byte != b'\t' as usize;
        byte += 1;
    }
    stops[0x7f] = true;
    stops[b'\\' as usize] = json;
    // U+0080 to U+00BF, U+0600 to U+063F, U+2000 to U+2FFF, U+C0000 to U+FFFFF.
    stops[0xC2] = true;
    stops[0xD8] = true;
    stops[0xE2] = true;
    stops[0xF3] = true;
    stops
}

/// Finds the places where a run may have to end.
struct Stops<'a> {
    bytes: &'a [u8],
    table: &'static [bool; 256],
    /// Where the block begins that was looked at last, and which of its bytes are unusual and not passed yet.
    block: usize,
    unusual: u64,
    /// Where the next one begins.
    next: usize,
}

impl<'a> Stops<'a> {
    /// Those where one of these bytes stands.
    fn new(bytes: &'a [u8], table: &'static [bool; 256]) -> Self {
        Self {
            bytes,
            table,
            block: 0,
            unusual: 0,
            next: 0,
        }
    }

    /// The first one from `at` on. Each time `at` is behind the one that was given last.
    #[inline]
    fn next(&mut self, at: usize) -> Option<usize> {
        let passed = (at - self.block) as u32;
        self.unusual &= u64::MAX.checked_shl(passed).unwrap_or(0);
        loop {
            while self.unusual != 0 {
                let stop = self.block + self.unusual.trailing_zeros() as usize;
                if self.table[usize::from(self.bytes[stop])] {
                    return Some(stop);
                }
                self.unusual &= self.unusual - 1;
            }
            self.block = self.next.max(at);
            self.next = self.block + BLOCK;
            let rest = self.bytes.get(self.block..)?;
            self.unusual = match rest.first_chunk() {
                Some(block) => unusual(block),
                None if rest.is_empty() => return None,
                None => {
                    let mut block = [b' '; BLOCK];
                    block[..rest.len()].copy_from_slice(rest);
                    unusual(&block)
                }
            };
        }
    }
}

/// Hexadecimal digits that a character's code needs.
fn hex_digits(c: char) -> usize {
    (u32::from(c).max(1).ilog2() / 4 + 1) as usize
}
