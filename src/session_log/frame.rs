//! The frame around each payload: kind, length and checksum.

use sha2::{Digest, Sha256};

/// What every log begins with.
pub(super) const MAGIC: &[u8; 12] = b"KSESSIONLOG\n";

/// Bytes of a frame before its payload: kind, length, checksum.
pub(super) const HEAD: usize = 1 + 8 + 32;

/// Kind of the frame that comes first.
pub(super) const HEADER: u8 = 1;
/// Kind of a frame that holds an event.
pub(super) const EVENT: u8 = 2;
/// Kind of the frame that seals a log.
pub(super) const FOOTER: u8 = 3;

/// SHA-256 of a payload.
pub(super) type Checksum = [u8; 32];

/// What stands before a payload. Integers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) length: u64,
    pub(super) checksum: Checksum,
}

impl Head {
    /// Reads a head; none if there are not enough bytes.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let checksum = rest.first_chunk::<32>()?;
        Some(Self {
            kind: *kind,
            length: u64::from_le_bytes(*length),
            checksum: *checksum,
        })
    }
}

/// A whole frame.
pub(super) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.push(kind);
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(checksum(payload));
    bytes.extend(payload);
    bytes
}

/// The checksum of a payload.
pub(super) fn checksum(payload: &[u8]) -> Checksum {
    Sha256::digest(payload).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back() {
        let bytes = frame(EVENT, b"abc");
        let head = Head::parse(&bytes).unwrap();
        assert_eq!((head.kind, head.length), (EVENT, 3));
        assert_eq!(head.checksum, checksum(&bytes[HEAD..]));
        assert_eq!(Head::parse(&bytes[..HEAD - 1]), None);
    }
}
