//! A stored text cut into what is shown as it stands and what is not.
//!
//! This is the hot loop of every rendering: most bytes pass it eight at a time and are copied in runs.

use super::is_hidden;
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
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Run(run) => out.extend_from_slice(run.as_bytes()),
            Piece::Char(c) if c.is_ascii() => out.push(*c as u8),
            Piece::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
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

/// Cuts a stored text into pieces, decoding JSON escapes where it is the inside of a JSON string.
pub(crate) struct Pieces<'a> {
    /// Valid UTF-8 that is still to be cut.
    valid: &'a str,
    /// Bytes after `valid`; not empty only if they begin with something that is no UTF-8.
    rest: &'a [u8],
    /// Length of what is no UTF-8 at the beginning of `rest`.
    invalid: usize,
    /// Whether escapes are decoded.
    json: bool,
    /// What stands at the beginning of `valid`, found with the run before it: the piece and its stored length.
    next: Option<(Piece<'a>, usize)>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(raw: Raw<'a>) -> Self {
        let mut pieces = Self {
            valid: "",
            rest: raw.bytes,
            invalid: 0,
            json: raw.form == Form::JsonString,
            next: None,
        };
        pieces.take_valid();
        pieces
    }

    /// Moves the valid beginning of `rest` into `valid`.
    fn take_valid(&mut self) {
        let bytes = self.rest;
        match std::str::from_utf8(bytes) {
            Ok(all) => (self.valid, self.rest, self.invalid) = (all, &[], 0),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                self.valid = std::str::from_utf8(valid).unwrap_or_default();
                self.rest = rest;
                self.invalid = error.error_len().unwrap_or(rest.len());
            }
        }
    }

    /// Where the run at the beginning of `valid` ends, and what ends it with the stored length of that.
    fn run(&self) -> (usize, Option<(Piece<'a>, usize)>) {
        let bytes = self.valid.as_bytes();
        let stops = if self.json { &JSON_STOPS } else { &PLAIN_STOPS };
        let mut at = 0;
        loop {
            at = next_stop(bytes, at, stops);
            let Some(&byte) = bytes.get(at) else {
                return (at, None);
            };
            if let Some(found) = self.special(byte, at) {
                return (at, Some(found));
            }
            at += if byte < 0x80 { 1 } else { 2 };
        }
    }

    /// What stands at `at`, if it is not shown as it stands.
    fn special(&self, byte: u8, at: usize) -> Option<(Piece<'a>, usize)> {
        let rest = &self.valid[at..];
        match byte {
            b'\\' => match Escape::read(rest.as_bytes()) {
                (Escape::Char(c), len) => Some(self.char(c, &rest[len..], len)),
                (Escape::LoneSurrogate(_), len) => Some((Piece::Replaced, len)),
                // Not JSON; the backslash is shown, and what follows it stands for itself.
                (Escape::Malformed, _) => None,
            },
            0..0x80 => Some(self.char(char::from(byte), &rest[1..], 1)),
            _ => {
                let c = rest.chars().next()?;
                is_hidden(c).then(|| (Piece::Hidden(c), c.len_utf8()))
            }
        }
    }

    /// How a character of its own is shown, given what follows it.
    fn char(&self, c: char, after: &str, len: usize) -> (Piece<'a>, usize) {
        if c == '\r' {
            if after.starts_with('\n') {
                return (Piece::CrLf, len + 1);
            }
            if self.json
                && after.starts_with('\\')
                && let (Escape::Char('\n'), feed) = Escape::read(after.as_bytes())
            {
                return (Piece::CrLf, len + feed);
            }
        }
        if is_hidden(c) {
            (Piece::Hidden(c), len)
        } else {
            (Piece::Char(c), len)
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if let Some((piece, len)) = self.next.take() {
                self.valid = &self.valid[len..];
                return Some(piece);
            }
            if !self.valid.is_empty() {
                let (len, next) = self.run();
                self.next = next;
                if len > 0 {
                    let (run, rest) = self.valid.split_at(len);
                    self.valid = rest;
                    return Some(Piece::Run(run));
                }
                continue;
            }
            if self.rest.is_empty() {
                return None;
            }
            self.rest = &self.rest[self.invalid..];
            self.take_valid();
            return Some(Piece::Replaced);
        }
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

/// The first place from `at` on where a run may have to end, or the length.
fn next_stop(bytes: &[u8], mut at: usize, stops: &[bool; 256]) -> usize {
    loop {
        while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let suspects = suspects(u64::from_le_bytes(*word));
            if suspects != 0 {
                at += suspects.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        // One at a time, through a character beyond ASCII and those beside it.
        loop {
            let Some(&byte) = bytes.get(at) else {
                return at;
            };
            if stops[byte as usize] {
                return at;
            }
            at += 1;
            if byte < 0x80 {
                break;
            }
        }
    }
}

/// The high bit of each byte that is a control character, DEL, a backslash or beyond ASCII. Borrows and carries may mark bytes
/// after the first one too; the first is right.
fn suspects(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let backslash = word ^ (u64::from(b'\\') * ONES);
    let controls = word.wrapping_sub(0x20 * ONES) & !word;
    let backslashes = backslash.wrapping_sub(ONES) & !backslash;
    let delete = word.wrapping_add(ONES);
    (word | controls | backslashes | delete) & HIGH
}

/// Hexadecimal digits that a character's code needs.
fn hex_digits(c: char) -> usize {
    (u32::from(c).max(1).ilog2() / 4 + 1) as usize
}
