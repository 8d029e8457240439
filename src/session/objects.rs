//! Objects: pictures and documents that stand in lines, and tool results that the harness stored beside the transcript.
//!
//! `objects/` holds each once under a name that its own bytes make, and documents name it so (`spec/mount-tree.md`).

use super::Session;
use crate::store::safe_name_within;
use crate::transcript::text::{Form, Raw, Text};
use crate::transcript::{Block, Buffers};
use base64::Engine as _;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// A SHA-256.
pub type Digest = [u8; 32];

/// A picture's or document's own bytes with their digest.
#[derive(Debug)]
pub struct Media<'a> {
    /// The bytes themselves, not base64.
    pub bytes: Cow<'a, [u8]>,
    /// Their SHA-256.
    pub sha256: Digest,
    /// The extension that fits the media type.
    pub extension: &'static str,
}

impl<'a> Media<'a> {
    /// Decodes what a line holds. None where it says base64 and is not.
    pub fn of(data: Raw<'a>, is_base64: bool, media_type: Option<Raw<'_>>) -> Option<Self> {
        let bytes = decode(data, is_base64)?;
        Some(Self {
            sha256: Sha256::digest(&bytes).into(),
            extension: media_type.map_or("bin", |media_type| extension(&media_type.decode())),
            bytes,
        })
    }

    /// Its name under `objects/`: the first 16 hexadecimal digits of the digest, and the extension.
    pub fn name(&self) -> String {
        format!("{}.{}", short(&self.sha256), self.extension)
    }
}

/// The name under `objects/` of what has a name of its own: that name made safe, and the first 16 hexadecimal digits of the
/// digest behind it.
pub fn named(own: &[u8], sha256: &Digest) -> String {
    let digest = short(sha256);
    let own = safe_name_within(own, LONGEST_NAME - 1 - digest.len());
    format!("{own}-{digest}")
}

const LONGEST_NAME: usize = 255;

/// The first 16 hexadecimal digits of a digest.
fn short(sha256: &Digest) -> String {
    let mut text = String::with_capacity(16);
    for byte in &sha256[..8] {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What is stored as a file of its own: a tool result beside a transcript, or a framed log's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The file's base name.
    pub name: String,
    /// Its bytes, the whole of a buffer.
    pub bytes: Text,
    /// Their SHA-256.
    pub sha256: Digest,
    /// What it is, as recorded; only a framed log's object says so.
    pub media_type: Option<String>,
    /// Whether it is text; a picture or a PDF is not.
    pub is_text: bool,
}

impl Stored {
    /// A file of this name with these bytes, which stand where `at` says. Of a path, the last part is the name.
    pub fn new(name: &str, bytes: &[u8], at: Text) -> Self {
        Self {
            name: name.rsplit('/').next().unwrap_or_default().to_owned(),
            bytes: at,
            sha256: Sha256::digest(bytes).into(),
            media_type: None,
            is_text: memchr::memchr(0, bytes).is_none() && !bytes.starts_with(b"%PDF-"),
        }
    }

    /// Whether it is shown as the other is.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let facts = |of: &Self| (of.bytes.len, of.sha256, of.is_text);
        facts(self) == facts(other)
            && self.name == other.name
            && self.media_type == other.media_type
    }

    /// Its name under `objects/`.
    pub fn object(&self) -> String {
        named(self.name.as_bytes(), &self.sha256)
    }
}

/// One object of a session: its length, and where its bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Object {
    /// Length in bytes.
    pub size: u64,
    /// Where the bytes stand.
    data: Text,
    base64: bool,
}

impl Object {
    /// What stands in a buffer of the session as it is.
    pub fn plain(data: Text) -> Self {
        Self {
            size: data.len.into(),
            data,
            base64: false,
        }
    }

    /// The bytes, out of the session's buffers; not copied where they are the whole of one.
    pub fn bytes(&self, buffers: &Buffers) -> Arc<Vec<u8>> {
        let whole = buffers.shared(self.data.buffer);
        if self.data.form == Form::Plain && whole.len() as u64 == self.size {
            return whole;
        }
        let bytes = decode(buffers.raw(self.data), self.base64);
        Arc::new(bytes.unwrap_or_default().into_owned())
    }
}

/// The objects of a session by their names: those of all its threads and its stored tool results, each once.
pub fn objects(session: &Session) -> BTreeMap<String, Object> {
    let mut media = Vec::new();
    let turns = session
        .threads
        .iter()
        .flat_map(|thread| thread.turns.iter());
    let mut waiting: Vec<&[Block]> = turns.map(|turn| turn.blocks.as_slice()).collect();
    while let Some(blocks) = waiting.pop() {
        for block in blocks {
            match block {
                Block::ToolResult { content, .. } => waiting.push(content),
                Block::Media {
                    media_type,
                    data: Some(data),
                    base64,
                    ..
                } => media.push((*media_type, *data, *base64)),
                _ => {}
            }
        }
    }
    let found = media
        .into_par_iter()
        .filter_map(|(media_type, data, base64)| {
            let media_type = media_type.map(|text| session.buffers.raw(text));
            let media = Media::of(session.buffers.raw(data), base64, media_type)?;
            let size = media.bytes.len() as u64;
            Some((media.name(), Object { size, data, base64 }))
        });
    let mut objects: BTreeMap<String, Object> = found.collect::<Vec<_>>().into_iter().collect();
    for stored in &session.stored {
        objects.insert(stored.object(), Object::plain(stored.bytes));
    }
    objects
}

fn decode(data: Raw<'_>, is_base64: bool) -> Option<Cow<'_, [u8]>> {
    let stored = data.decode();
    if is_base64 {
        BASE64.decode(&*stored).ok().map(Cow::Owned)
    } else {
        Some(stored)
    }
}

/// Padded or not: harnesses write both.
const BASE64: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    base64::engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// The usual extension of a media type; `bin` where none is known.
pub fn extension(media_type: &[u8]) -> &'static str {
    let essence = media_type
        .split(|&b| b == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    match essence.to_ascii_lowercase().as_slice() {
        b"image/png" => "png",
        b"image/jpeg" | b"image/jpg" => "jpg",
        b"image/gif" => "gif",
        b"image/webp" => "webp",
        b"image/svg+xml" => "svg",
        b"image/bmp" => "bmp",
        b"image/tiff" => "tiff",
        b"image/avif" => "avif",
        b"application/pdf" => "pdf",
        b"application/json" => "json",
        b"text/plain" => "txt",
        b"text/markdown" => "md",
        b"text/html" => "html",
        b"text/csv" => "csv",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_is_named_by_its_own_bytes() {
        let data = Raw {
            bytes: br"aGk\/",
            form: crate::transcript::text::Form::JsonString,
        };
        let media = Media::of(data, true, Some(Raw::plain(b"Image/PNG; q=1"))).unwrap();
        let digest: Digest = Sha256::digest(b"hi?").into();
        assert_eq!(media.name(), format!("{}.png", short(&digest)));
        assert_eq!(short(&digest).len(), 16);
        assert_eq!(&*media.bytes, b"hi?");
        assert!(Media::of(Raw::plain(b"no base64!"), true, None).is_none());
        let media = Media::of(Raw::plain(b"aGk"), true, None).unwrap();
        assert_eq!(media.extension, "bin");
    }

    #[test]
    fn a_file_keeps_its_own_name_in_front_and_is_one_safe_component() {
        let digest: Digest = Sha256::digest(b"x").into();
        let named = |own: &[u8]| named(own, &digest);
        assert_eq!(named(b"b0t2jayn4.txt"), "b0t2jayn4.txt-2d711642b726b044");
        assert_eq!(named(b"../a\n"), "..%2Fa%0A-2d711642b726b044");
        let long = [named(&[b'x'; 300]), named(&[b'x'; 301])];
        assert!(long.iter().all(|name| name.len() <= LONGEST_NAME));
        assert_ne!(long[0], long[1]);
    }
}
