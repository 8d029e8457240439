//! The file of a pending object: what it is called, what it is, and its bytes with their checksum.

use super::frame::{Checksum, checksum};
use super::payload::FORMAT_VERSION;
use super::window::{ReadAt, Window, read_all};
use super::{EventPosition, LogError, ObjectFault, files};
use std::io;
use std::path::Path;

const MAGIC: &[u8; 12] = b"KSPENDING01\n";

/// Bytes before the texts: magic, lengths of version, file name, media type and object, checksum.
const FIXED: usize = 12 + 2 + 4 + 4 + 8 + 32;

/// What the file of a pending object says of it, once all of it was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHead {
    /// What it is called, as recorded.
    pub file_name: String,
    /// What it is, as recorded.
    pub media_type: String,
    /// Its bytes.
    pub length: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
    /// Where they begin in the file.
    pub offset: u64,
}

/// A pending object with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingObject {
    /// The event that names it.
    pub position: EventPosition,
    /// What it is called, as recorded.
    pub file_name: String,
    /// What it is, as recorded.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Verifies the file of an object, without holding the object in memory.
pub fn read_object_head(path: &Path) -> Result<ObjectHead, ObjectFault> {
    let (file, length) = open(path)?;
    verify(&file, length)
}

/// Verifies the file of an object and gives its bytes.
pub(super) fn read_object(
    path: &Path,
    position: EventPosition,
) -> Result<PendingObject, ObjectFault> {
    let (file, length) = open(path)?;
    let head = verify(&file, length)?;
    let offset = head.offset;
    let read = |source| ObjectFault::Read { offset, source };
    let bytes = read_all(&file, offset, head.length).map_err(read)?;
    if checksum(&bytes) != head.sha256 {
        return Err(ObjectFault::Checksum);
    }
    Ok(PendingObject {
        position,
        file_name: head.file_name,
        media_type: head.media_type,
        bytes,
    })
}

fn open(path: &Path) -> Result<(std::fs::File, u64), ObjectFault> {
    let read = |source| ObjectFault::Read { offset: 0, source };
    match files::open_to_read(path) {
        Ok(file) => {
            let length = file.metadata().map_err(read)?.len();
            Ok((file, length))
        }
        Err(LogError::Missing { .. }) => Err(ObjectFault::Missing),
        Err(LogError::NotRegular { .. }) => Err(ObjectFault::NotRegular),
        Err(LogError::Io { source, .. }) => Err(read(source)),
        Err(other) => Err(read(io::Error::other(other))),
    }
}

/// Verifies an object's file of this length. No memory is taken for what the file does not have.
pub(crate) fn verify<S: ReadAt + ?Sized>(
    source: &S,
    length: u64,
) -> Result<ObjectHead, ObjectFault> {
    let read = |offset| move |source| ObjectFault::Read { offset, source };
    let mut window = Window::new(length);
    let magic = MAGIC.len().min(length as usize);
    if window.get(source, 0, magic).map_err(read(0))? != &MAGIC[..magic] {
        return Err(ObjectFault::Magic);
    }
    if length < FIXED as u64 {
        return Err(ObjectFault::Cut(length));
    }
    let fixed = window.get(source, 0, FIXED).map_err(read(0))?;
    let field = |at: usize, size: usize| {
        let bytes = fixed[at..at + size].iter().rev();
        bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let texts = [field(12, 2), field(14, 4), field(18, 4)];
    let object = field(22, 8);
    let mut expected = [0; 32];
    expected.copy_from_slice(&fixed[30..FIXED]);

    let declared = FIXED as u128 + u128::from(texts.iter().sum::<u64>()) + u128::from(object);
    if declared != u128::from(length) {
        return Err(ObjectFault::Length {
            declared,
            actual: length,
        });
    }
    let mut at = FIXED as u64;
    let mut text = |size: u64, what: &'static str| {
        let bytes = read_all(source, at, size).map_err(read(at))?;
        at += size;
        String::from_utf8(bytes).map_err(|_| ObjectFault::NotText(what))
    };
    let version = text(texts[0], "version")?;
    if version != FORMAT_VERSION {
        return Err(ObjectFault::Version(version));
    }
    let file_name = text(texts[1], "file name")?;
    let media_type = text(texts[2], "media type")?;
    for (text, what) in [(&file_name, "file name"), (&media_type, "media type")] {
        if text.trim().is_empty() {
            return Err(ObjectFault::Blank(what));
        }
    }
    if window.checksum(source, at, object).map_err(read(at))? != expected {
        return Err(ObjectFault::Checksum);
    }
    Ok(ObjectHead {
        file_name,
        media_type,
        length: object,
        sha256: expected,
        offset: at,
    })
}

/// Everything of an object's file before its bytes. `path` is the log's, for the error.
pub(super) fn encode_head(
    path: &Path,
    file_name: &str,
    media_type: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, LogError> {
    let text_length = |text: &str, what| {
        let path = || path.to_path_buf();
        if text.trim().is_empty() {
            return Err(LogError::Blank { path: path(), what });
        }
        u32::try_from(text.len()).map_err(|_| LogError::TooLong { path: path(), what })
    };
    let name_length = text_length(file_name, "the object's file name")?;
    let type_length = text_length(media_type, "the object's media type")?;
    let digest: Checksum = checksum(bytes);
    let mut head = Vec::with_capacity(FIXED + file_name.len() + media_type.len() + 8);
    head.extend(MAGIC);
    head.extend((FORMAT_VERSION.len() as u16).to_le_bytes());
    head.extend(name_length.to_le_bytes());
    head.extend(type_length.to_le_bytes());
    head.extend((bytes.len() as u64).to_le_bytes());
    head.extend(digest);
    head.extend(FORMAT_VERSION.as_bytes());
    head.extend(file_name.as_bytes());
    head.extend(media_type.as_bytes());
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: &[u8]) -> Vec<u8> {
        let mut file = encode_head(Path::new("x"), "a.txt", "text/plain", bytes).unwrap();
        file.extend(bytes);
        file
    }

    fn check(file: &[u8]) -> Result<ObjectHead, ObjectFault> {
        verify(file, file.len() as u64)
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_seen() {
        let file = object(b"some bytes");
        let head = check(&file).unwrap();
        assert_eq!((head.file_name.as_str(), head.length), ("a.txt", 10));
        assert_eq!(&file[head.offset as usize..], b"some bytes");
        for cut in 0..file.len() {
            assert!(check(&file[..cut]).is_err(), "cut at {cut}");
        }
        let names = 67..82;
        for at in (0..file.len()).filter(|at| !names.contains(at)) {
            for bit in 0..8 {
                let mut file = file.clone();
                file[at] ^= 1 << bit;
                assert!(check(&file).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_claim_of_much_more_than_there_is_takes_no_memory() {
        let mut file = object(b"x");
        file[14..18].fill(0xff);
        file[22..30].fill(0xff);
        assert!(matches!(check(&file), Err(ObjectFault::Length { .. })));
    }

    #[test]
    fn blank_names_are_refused() {
        let encode = |name, kind| encode_head(Path::new("x"), name, kind, b"");
        assert!(matches!(encode(" ", "a/b"), Err(LogError::Blank { .. })));
        assert!(matches!(encode("a", "\t"), Err(LogError::Blank { .. })));
    }
}
