//! What is kept of a file's bytes: the texts that its lines point to, each in the form in which it is used most.
//!
//! A file is read through a window that is used again, so that nothing stays of the part that nobody needs; in most transcripts
//! that is more than half. A text is decoded on the way, once for all documents: where its display form is what it decodes to,
//! it is kept so ([`Form::Shown`]) and later only copied. Where it is not, it is kept as stored.

use super::decode::{SLACK, decode};
use super::text::{Form, Text};

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
        let wanted = self.len + place.len() + SLACK;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted.max(2 * self.bytes.len()), 0);
        }
        let room = &mut self.bytes[self.len..];
        let decoded = match text.form {
            Form::JsonString => decode(&window[place.clone()], room),
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
        // The room behind them serves the next file.
        self.bytes.shrink_to_fit();
        self.bytes
    }
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
