//! What is kept of a file's bytes: the texts that its lines point to, each in the form in which it is used most.
//!
//! A file is read through a window that is used again, so that nothing stays of the part that nobody needs; in most transcripts
//! that is more than half. A text is decoded on the way, once for all documents: where its display form is what it decodes to,
//! it is kept so ([`Form::Shown`]) and later only copied. Where it is not, it is kept as stored.

use super::block::{BLOCK, STEP, unusual};
use super::display::is_hidden;
use super::text::{Escape, Form, Text};
use std::ops::Range;

/// The kept texts of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper {
    /// The texts, and room for more behind them. It is zero from the beginning, so that decoding can write whole steps into it.
    bytes: Vec<u8>,
    /// Bytes of the texts.
    len: usize,
    buffer: u32,
}

impl Keeper {
    /// Nothing yet. `buffer` is the number that the texts carry.
    pub(super) fn new(buffer: u32) -> Self {
        Self {
            buffer,
            ..Self::default()
        }
    }

    /// Makes room for this many bytes, so that what is kept need not move while it grows. Room that is not used costs nothing:
    /// the system gives zeroed memory page by page, as it is written.
    pub(super) fn reserve(&mut self, bytes: usize) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; bytes];
        }
    }

    /// Keeps a text that stands in this window, and says where it stands from now on.
    pub(super) fn keep(&mut self, window: &[u8], text: Text) -> Text {
        let place = text.start as usize..text.start as usize + text.len as usize;
        let wanted = self.len + place.len() + BLOCK;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted.max(2 * self.bytes.len()), 0);
        }
        let room = &mut self.bytes[self.len..];
        let decoded = match text.form {
            Form::JsonString => decode(window, place.clone(), room),
            _ => None,
        };
        // What is decoded is no longer than it was stored.
        let (len, form) = match decoded {
            Some(len) => (len, Form::Shown),
            None => (place.len(), text.form),
        };
        if decoded.is_none() {
            room[..len].copy_from_slice(&window[place]);
        }
        let start = self.len as u64;
        self.len += len;
        Text {
            start,
            len: len as u32,
            buffer: self.buffer,
            form,
        }
    }

    /// A kept text.
    #[cfg(test)]
    fn raw(&self, text: Text) -> super::text::Raw<'_> {
        super::text::Raw {
            bytes: &self.bytes[text.start as usize..][..text.len as usize],
            form: text.form,
        }
    }

    /// All that was kept.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }
}

/// Decodes the inside of a JSON string that stands here in the window, if all of it is shown as it stands, and says how many bytes
/// that are; else none. `out` has room for the string and a block.
fn decode(window: &[u8], string: Range<usize>, out: &mut [u8]) -> Option<usize> {
    // Whole blocks are read, so that a string at the very end of the window is decoded from a copy.
    match window.get(string.start..string.end + BLOCK) {
        Some(read) => decode_blocks(read, string.len(), out),
        None => {
            let padded = [window.get(string.clone())?, &[0; BLOCK]].concat();
            decode_blocks(&padded, string.len(), out)
        }
    }
}

/// Decodes the first `len` bytes of `bytes`, behind which a block stands that counts for nothing.
fn decode_blocks(bytes: &[u8], len: usize, out: &mut [u8]) -> Option<usize> {
    let (mut read, mut written) = (0, 0);
    while read < len {
        let block = bytes.get(read..)?.first_chunk::<BLOCK>()?;
        *out.get_mut(written..)?.first_chunk_mut::<BLOCK>()? = *block;
        let size = BLOCK.min(len - read);
        let mut unusual = unusual(block) & (u64::MAX >> (BLOCK - size));
        // Up to where the block is done with; an escape at its end may take some of the next one.
        let mut done = 0;
        while unusual != 0 {
            let at = unusual.trailing_zeros() as usize;
            written += at - done;
            let rest = bytes.get(read + at..len)?;
            done = at + decode_one(rest, out, &mut written)?;
            unusual &= u64::MAX.checked_shl(done as u32).unwrap_or(0);
            let next = size.min(unusual.trailing_zeros() as usize);
            copy(bytes, read + done, out, written, next.saturating_sub(done))?;
        }
        written += size.saturating_sub(done);
        read += size.max(done);
    }
    Some(written)
}

/// Copies this many bytes, in whole steps.
#[inline]
fn copy(from: &[u8], at: usize, to: &mut [u8], to_at: usize, len: usize) -> Option<()> {
    let mut done = 0;
    while done < len {
        let step = from.get(at + done..)?.first_chunk::<STEP>()?;
        *to.get_mut(to_at + done..)?.first_chunk_mut::<STEP>()? = *step;
        done += STEP;
    }
    Some(())
}

/// Decodes the escape, the control character or the run of characters beyond ASCII that `rest` begins with, and says how many
/// bytes it takes.
#[inline]
fn decode_one(rest: &[u8], out: &mut [u8], written: &mut usize) -> Option<usize> {
    let (byte, len) = match rest {
        [b'\\', b'n', ..] => (b'\n', 2),
        [b'\\', b't', ..] => (b'\t', 2),
        [b'\\', c @ (b'"' | b'\\' | b'/'), ..] => (*c, 2),
        [c @ (b'\n' | b'\t'), ..] => (*c, 1),
        _ => return decode_rare(rest, out, written),
    };
    *out.get_mut(*written)? = byte;
    *written += 1;
    Some(len)
}

fn decode_rare(rest: &[u8], out: &mut [u8], written: &mut usize) -> Option<usize> {
    let mut put = |bytes: &[u8]| {
        let end = *written + bytes.len();
        out.get_mut(*written..end)?.copy_from_slice(bytes);
        *written = end;
        Some(())
    };
    if rest.first() == Some(&b'\\') {
        let (Escape::Char(c), len) = Escape::read(rest) else {
            return None;
        };
        if is_hidden(c) {
            return None;
        }
        put(c.encode_utf8(&mut [0; 4]).as_bytes())?;
        return Some(len);
    }
    let len = rest.iter().position(u8::is_ascii).unwrap_or(rest.len());
    let run = std::str::from_utf8(&rest[..len.max(1)]).ok()?;
    // Only few first bytes can begin a hidden character; most runs hold none of them.
    if run.bytes().any(may_hide) && run.chars().any(is_hidden) {
        return None;
    }
    put(run.as_bytes())?;
    Some(run.len())
}

/// Whether a hidden character may begin with this byte.
fn may_hide(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, 0x7f | 0xC2 | 0xD8 | 0xE2 | 0xF3)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::transcript::display::{self, Shown};
    use crate::transcript::text::Raw;
    use proptest::prelude::*;

    fn kept(stored: &[u8]) -> (Keeper, Text) {
        let mut keeper = Keeper::new(7);
        let window = [b"before ", stored, b" after"].concat();
        let text = Text {
            start: 7,
            len: stored.len() as u32,
            buffer: 0,
            form: Form::JsonString,
        };
        let first = keeper.keep(&window, text);
        assert_eq!(first.start, 0);
        let second = keeper.keep(&window, text);
        assert_eq!(keeper.raw(first), keeper.raw(second));
        (keeper, second)
    }

    /// Whatever is stored: what is kept decodes and shows as what was stored does.
    fn check(stored: &[u8]) -> Form {
        let (keeper, text) = kept(stored);
        let before = Raw {
            bytes: stored,
            form: Form::JsonString,
        };
        let after = keeper.raw(text);
        assert_eq!(after.decode(), before.decode());
        let show = |raw| {
            let (mut out, mut shown) = (Vec::new(), Shown::default());
            display::write(raw, &mut out, &mut shown);
            (out, shown)
        };
        assert_eq!(show(after), show(before));
        if text.form == Form::Shown {
            assert_eq!(
                show(before),
                (before.decode().into_owned(), Shown::default())
            );
        }
        text.form
    }

    #[test]
    fn what_is_shown_as_it_stands_is_kept_decoded() {
        for stored in [
            "",
            "plain",
            "a line\\nanother\\tand \\\"quotes\\\" and \\\\ and \\/",
            "\u{e9}\u{4e2d}\u{201c}\u{1f600} \\u00e9 \\ud83d\\ude00",
            "a tab\tand a feed\n as they stand",
        ] {
            assert_eq!(check(stored.as_bytes()), Form::Shown, "{stored}");
        }
        let (keeper, text) = kept(br"a\nb");
        assert_eq!(keeper.raw(text).bytes, b"a\nb");
        assert_eq!((text.start, text.len, text.buffer), (3, 3, 7));
    }

    #[test]
    fn what_is_not_is_kept_as_stored() {
        for stored in [
            &br"\u001b[0m"[..],
            br"a\r\nb",
            br"\ud800",
            br"\x",
            b"\\",
            b"\xff",
            b"\x1b",
            b"\x7f",
            "\u{202e}".as_bytes(),
            "\u{85}".as_bytes(),
            br"\u202e",
        ] {
            let long = [&b"some text before it "[..], stored].concat();
            assert_eq!(check(&long), Form::JsonString);
            assert_eq!(check(stored), Form::JsonString);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_the_same_before_and_after(words in prop::collection::vec(prop::sample::select(vec![
            "plain text ", "x", "\\n", "\\t", "\\\"", "\\\\", "\\u0041", "\\u202e", "\\ud83d\\ude00", "\\ud83d", "\u{e9}",
            "\u{4e2d}\u{6587}", "\u{201c}", "\u{200f}", "\u{1f600}", "\u{e0001}", "\t", "\u{7f}", "\\r", "\\r\\n", "\u{61c}",
        ]), 0..20)) {
            check(words.concat().as_bytes());
        }

        #[test]
        fn any_bytes_are_the_same_before_and_after(stored in prop::collection::vec(any::<u8>(), 0..80)) {
            check(&stored);
        }
    }
}
