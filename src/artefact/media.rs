//! Pictures and documents: what a document says of them instead of their bytes.

use crate::transcript::text::Raw;
use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt::Write as _;

/// A picture's or document's own bytes with their digest. `objects/` holds it under [`Object::name`] (`spec/mount-tree.md`).
#[derive(Debug)]
pub struct Object<'a> {
    /// The bytes themselves, not base64.
    pub bytes: Cow<'a, [u8]>,
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// The extension that fits the media type.
    pub extension: &'static str,
}

impl<'a> Object<'a> {
    /// Decodes what a line holds. None where it says base64 and is not.
    pub fn of(data: Raw<'a>, is_base64: bool, media_type: Option<Raw<'_>>) -> Option<Self> {
        let stored = data.decode();
        let bytes = if is_base64 {
            Cow::Owned(BASE64.decode(&*stored).ok()?)
        } else {
            stored
        };
        Some(Self {
            sha256: Sha256::digest(&bytes).into(),
            extension: media_type.map_or("bin", |media_type| extension(&media_type.decode())),
            bytes,
        })
    }

    /// Its name under `objects/`: the first 16 hexadecimal digits of the digest, and the extension.
    pub fn name(&self) -> String {
        let mut name = String::with_capacity(24);
        for byte in &self.sha256[..8] {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name.push('.');
        name.push_str(self.extension);
        name
    }
}

/// Padded or not: harnesses write both.
const BASE64: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    base64::engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// The usual extension of a media type; `bin` where none is known.
fn extension(media_type: &[u8]) -> &'static str {
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
    fn an_object_is_named_by_its_own_bytes() {
        let data = Raw {
            bytes: br"aGk\/",
            form: crate::transcript::text::Form::JsonString,
        };
        let object = Object::of(data, true, Some(Raw::plain(b"Image/PNG; q=1")));
        let object = object.map(|object| (object.name(), object.bytes.into_owned()));
        let digest = Sha256::digest(b"hi?");
        let name = format!("{:02x}{:02x}", digest[0], digest[1]);
        assert!(object.is_some_and(|(n, bytes)| {
            n.starts_with(&name)
                && n.len() == 20
                && n.split_once('.')
                    .is_some_and(|(_, extension)| extension == "png")
                && bytes == b"hi?"
        }));
        assert!(Object::of(Raw::plain(b"no base64!"), true, None).is_none());
        assert!(
            Object::of(Raw::plain(b"aGk"), true, None)
                .is_some_and(|object| object.extension == "bin")
        );
    }
}
