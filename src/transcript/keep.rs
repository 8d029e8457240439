//! What is kept of a file's bytes: the texts that its lines point to, each in the form in which it is used most.
//!
//! A file is read through a window that is used again, so that nothing stays of the part that nobody needs; in most transcripts
//! that is more than half. A text is decoded on the way, once for all documents: where its display form is what it decodes to,
//! it is kept so ([`Form::Shown`]) and later only copied. Where it is not, it is kept as stored.

use super::block::{STEP, unusual};
use super::display::is_hidden;
use super::text::{Escape, Form, Text};

/// The kept texts of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper {
    bytes: Vec<u8>,
    buffer: u32,
}

impl Keeper {
    /// Nothing yet. `buffer` is the number that the texts carry.
    pub(super) fn new(buffer: u32) -> Self {
        Self {
            bytes: Vec::new(),
            buffer,
        }
    }

    /// Makes room for this many bytes, so that what is kept need not move while it grows. Room that is not used costs nothing.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Keeps a text that stands in this window, and says where it stands from now on.
    pub(super) fn keep(&mut self, window: &[u8], text: Text) -> Text {
        let start = self.bytes.len();
        let raw = &window[text.start as usize..][..text.len as usize];
        let mut form = text.form;
        if form == Form::JsonString && decode(raw, &mut self.bytes) {
            form = Form::Shown;
        } else {
            self.bytes.extend_from_slice(raw);
        }
        Text {
            start: start as u64,
            // No longer than it was stored.
            len: (self.bytes.len() - start) as u32,
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
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends the inside of a JSON string, decoded, if all of it is shown as it stands; else says no and appends nothing.
fn decode(raw: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    // Short texts are IDs and names, most of them plain.
    if raw.len() <= SHORT && raw.iter().all(|&byte| is_plain(byte)) {
        out.extend_from_slice(raw);
        return true;
    }
    // Nothing decodes to more bytes than it takes; a step is written whole even where less of it counts.
    out.resize(start + raw.len() + STEP, 0);
    let written = decode_into(raw, &mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    written.is_some()
}

/// Decodes into `out`, which is one step longer than `raw`, and says how many bytes that are.
fn decode_into(raw: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut read, mut written) = (0, 0);
    while let Some(step) = raw.get(read..)?.first_chunk::<STEP>() {
        out.get_mut(written..written + STEP)?.copy_from_slice(step);
        let plain = (unusual(step).trailing_zeros() as usize).min(STEP);
        read += plain;
        written += plain;
        if plain < STEP {
            decode_one(raw, &mut read, out, &mut written)?;
        }
    }
    while let Some(&byte) = raw.get(read) {
        if is_plain(byte) {
            *out.get_mut(written)? = byte;
            read += 1;
            written += 1;
        } else {
            decode_one(raw, &mut read, out, &mut written)?;
        }
    }
    Some(written)
}

/// The longest text that is looked at as a whole before it is copied.
const SHORT: usize = 48;

/// Whether a byte stands for itself in a stored string and is shown as it stands.
fn is_plain(byte: u8) -> bool {
    byte != b'\\' && (b' '..0x7f).contains(&byte)
}

/// Decodes the escape, the control character or the run of characters beyond ASCII that stands at `read`.
#[inline]
fn decode_one(raw: &[u8], read: &mut usize, out: &mut [u8], written: &mut usize) -> Option<()> {
    let rest = raw.get(*read..)?;
    let (byte, len) = match rest {
        [b'\\', b'n', ..] => (b'\n', 2),
        [b'\\', b't', ..] => (b'\t', 2),
        [b'\\', c @ (b'"' | b'\\' | b'/'), ..] => (*c, 2),
        [c @ (b'\n' | b'\t'), ..] => (*c, 1),
        _ => return decode_rare(rest, read, out, written),
    };
    *out.get_mut(*written)? = byte;
    *read += len;
    *written += 1;
    Some(())
}

fn decode_rare(rest: &[u8], read: &mut usize, out: &mut [u8], written: &mut usize) -> Option<()> {
    let mut put = |bytes: &[u8]| {
        let end = *written + bytes.len();
        out.get_mut(*written..end)?.copy_from_slice(bytes);
        *written = end;
        Some(())
    };
    if rest[0] == b'\\' {
        let (Escape::Char(c), len) = Escape::read(rest) else {
            return None;
        };
        if is_hidden(c) {
            return None;
        }
        put(c.encode_utf8(&mut [0; 4]).as_bytes())?;
        *read += len;
        return Some(());
    }
    let len = rest
        .iter()
        .position(u8::is_ascii)
        .unwrap_or(rest.len())
        .max(1);
    let run = std::str::from_utf8(&rest[..len]).ok()?;
    // Only few first bytes can begin a hidden character; most runs hold none of them.
    if run.bytes().any(may_hide) && run.chars().any(is_hidden) {
        return None;
    }
    put(run.as_bytes())?;
    *read += len;
    Some(())
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
