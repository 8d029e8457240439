//! Text as it is stored and text as it is shown.
//!
//! A [`Text`] names a stretch of what was kept of a stored file and how it is written there; it is copied to no other place.
//! [`Raw`] is the stretch itself, borrowed from its [`Buffers`].

use std::borrow::{Borrow, Cow};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// How a stretch of bytes is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// The inside of a JSON string: escapes stand as they are stored.
    JsonString,
    /// A whole JSON value: object, array, number, `true`, `false` or `null`.
    JsonValue,
    /// Bytes that stand for themselves.
    Plain,
    /// Decoded already, and shown as it stands: UTF-8 without a character that the display form changes
    /// ([`super::display`]). Most of what is kept of a transcript is.
    Shown,
}

/// Where a stored text stands: which buffer, where in it, and how it is written. Cheap to copy; the bytes stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Text {
    /// Byte offset of the first byte in the buffer.
    pub start: u64,
    /// Length in bytes as it is written.
    pub len: u32,
    /// Which of the session's [`Buffers`].
    pub buffer: u32,
    /// How the bytes are written.
    pub form: Form,
}

/// What is kept of a session's files, each read once up to the length seen. A [`Text`] points into it.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    list: Vec<Arc<Vec<u8>>>,
}

impl Buffers {
    /// Takes one buffer per file; the position in the list is the `buffer` of each [`Text`] into it.
    pub fn new(list: Vec<Arc<Vec<u8>>>) -> Self {
        Self { list }
    }

    /// A whole buffer, for who reads on when the session is gone. Empty if there is no such buffer.
    pub fn shared(&self, buffer: u32) -> Arc<Vec<u8>> {
        let buffer = self.list.get(buffer as usize);
        buffer.map(Arc::clone).unwrap_or_default()
    }

    /// The bytes of a text, for who reads on when the session is gone. Empty if the text points outside.
    pub fn segment(&self, text: Text) -> Segment {
        let bytes = self.shared(text.buffer);
        let range = text.start as usize..text.start as usize + text.len as usize;
        if bytes.get(range.clone()).is_some() {
            Segment { bytes, range }
        } else {
            Segment::default()
        }
    }

    /// The stored bytes of a text. Empty if the text points outside, which only a text of another session can.
    pub fn raw(&self, text: Text) -> Raw<'_> {
        let start = text.start as usize;
        let bytes = self
            .list
            .get(text.buffer as usize)
            .and_then(|buffer| buffer.get(start..start + text.len as usize))
            .unwrap_or_default();
        Raw {
            bytes,
            form: text.form,
        }
    }

    /// The whole buffer with this number.
    pub fn file(&self, buffer: u32) -> &[u8] {
        self.list.get(buffer as usize).map_or(&[], |b| b.as_slice())
    }

    /// Bytes held in all buffers.
    pub fn len(&self) -> usize {
        self.list.iter().map(|b| b.len()).sum()
    }

    /// Whether no byte is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A stretch of shared bytes, which live as long as any stretch of them.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Segment {
    /// This stretch of the bytes; what is outside of them is left out.
    pub fn new(bytes: Arc<Vec<u8>>, range: Range<usize>) -> Self {
        let end = range.end.min(bytes.len());
        let range = range.start.min(end)..end;
        Self { bytes, range }
    }

    /// The bytes of which this is a stretch.
    pub fn whole(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }
}

impl From<Arc<Vec<u8>>> for Segment {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        let range = 0..bytes.len();
        Self { bytes, range }
    }
}

impl From<Vec<u8>> for Segment {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::new(bytes).into()
    }
}

impl Deref for Segment {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

impl Borrow<[u8]> for Segment {
    fn borrow(&self) -> &[u8] {
        self
    }
}

/// A stored text, borrowed: its bytes and how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// The bytes as stored.
    pub bytes: &'a [u8],
    /// How they are written.
    pub form: Form,
}

impl<'a> Raw<'a> {
    /// Bytes that stand for themselves.
    pub fn plain(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            form: Form::Plain,
        }
    }

    /// The text itself: JSON escapes decoded, a lone surrogate as its three WTF-8 bytes, everything else as it stands.
    /// The result need not be UTF-8, because stored bytes need not be.
    pub fn decode(self) -> Cow<'a, [u8]> {
        if self.form != Form::JsonString || memchr::memchr(b'\\', self.bytes).is_none() {
            return Cow::Borrowed(self.bytes);
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut rest = self.bytes;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..at]);
            let (escape, len) = Escape::read(&rest[at..]);
            match escape {
                Escape::Char(c) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Escape::LoneSurrogate(unit) => out.extend_from_slice(&[
                    0xE0 | (unit >> 12) as u8,
                    0x80 | ((unit >> 6) & 0x3F) as u8,
                    0x80 | (unit & 0x3F) as u8,
                ]),
                Escape::Malformed => out.extend_from_slice(&rest[at..at + len]),
            }
            rest = &rest[at + len..];
        }
        out.extend_from_slice(rest);
        Cow::Owned(out)
    }

    /// The text as a `String`, everything that is not UTF-8 replaced by U+FFFD. For metadata and comparisons.
    pub fn to_text(self) -> String {
        // Nearly all text is valid, and to see that is much faster than to look for what is not.
        String::from_utf8(self.decode().into_owned())
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// One JSON escape, read at its backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// It stands for this character; a surrogate pair is one.
    Char(char),
    /// A UTF-16 surrogate without its partner.
    LoneSurrogate(u16),
    /// Not an escape that JSON knows; its bytes stand for themselves.
    Malformed,
}

impl Escape {
    /// Reads the escape that `bytes` begins with (at the backslash) and says how many bytes it takes, at least one.
    pub fn read(bytes: &[u8]) -> (Self, usize) {
        let char = |c| (Self::Char(c), 2);
        match bytes.get(1) {
            Some(b'n') => char('\n'),
            Some(b'"') => char('"'),
            Some(b'\\') => char('\\'),
            Some(b't') => char('\t'),
            Some(b'r') => char('\r'),
            Some(b'/') => char('/'),
            Some(b'b') => char('\u{8}'),
            Some(b'f') => char('\u{c}'),
            Some(b'u') => match hex4(&bytes[2..]) {
                None => (Self::Malformed, 2),
                Some(high @ 0xD800..=0xDBFF) => {
                    let low = if bytes[6..].starts_with(b"\\u") {
                        hex4(&bytes[8..])
                    } else {
                        None
                    };
                    match low {
                        Some(low @ 0xDC00..=0xDFFF) => {
                            let code = 0x1_0000
                                + ((u32::from(high) - 0xD800) << 10)
                                + (u32::from(low) - 0xDC00);
                            (char::from_u32(code).map_or(Self::Malformed, Self::Char), 12)
                        }
                        _ => (Self::LoneSurrogate(high), 6),
                    }
                }
                Some(unit) => match char::from_u32(u32::from(unit)) {
                    Some(c) => (Self::Char(c), 6),
                    None => (Self::LoneSurrogate(unit), 6),
                },
            },
            Some(_) => (Self::Malformed, 2),
            None => (Self::Malformed, 1),
        }
    }
}

fn hex4(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.get(..4)?;
    let mut value = 0u16;
    for &digit in digits {
        value = value << 4 | (digit as char).to_digit(16)? as u16;
    }
    Some(value)
}
