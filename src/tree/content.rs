//! What open files read: parts of rendered documents, and stored files as they are.

use super::Content;
use crate::store;
use crate::transcript::Segment;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// Content over this many bytes lies in a file without a name instead of in memory (`spec/architecture.md`).
pub(super) const MOST_IN_MEMORY: u64 = 64 << 20;

/// The bytes of one rendered file. They never change.
#[derive(Debug)]
pub(super) enum Bytes {
    /// Segments with the offset at which each begins.
    Memory {
        parts: Vec<(u64, Segment)>,
        len: u64,
        /// Bytes that stay in memory for them.
        weight: u64,
    },
    /// A temporary file that has no name.
    File { file: File, len: u64 },
}

impl Bytes {
    /// Takes the parts, in order. What is too large for memory goes to a temporary file; where that fails it stays in
    /// memory, and the log says so.
    pub(super) fn new(parts: Vec<Segment>) -> Self {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if len > MOST_IN_MEMORY {
            match spill(&parts) {
                Ok(file) => return Self::File { file, len },
                Err(error) => tracing::warn!(
                    "{len} bytes of a rendered document stay in memory: cannot write a temporary file in {}: {error}",
                    std::env::temp_dir().display()
                ),
            }
        }
        Self::in_memory_only(parts)
    }

    /// Takes the parts, in order, however large: of what is not to be written to a disk.
    pub(super) fn in_memory_only(parts: Vec<Segment>) -> Self {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let weight = weight(&parts);
        let mut at = 0;
        let parts = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| {
                let start = at;
                at += part.len() as u64;
                (start, part)
            })
            .collect();
        Self::Memory { parts, len, weight }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory { len, .. } | Self::File { len, .. } => *len,
        }
    }

    /// Bytes held in memory.
    pub(super) fn in_memory(&self) -> u64 {
        match self {
            Self::Memory { weight, .. } => *weight,
            Self::File { .. } => 0,
        }
    }

    /// Up to `length` bytes from `offset`, fewer only at the end.
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.len().saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        match self {
            Self::File { file, .. } => read_file(file, offset, length),
            Self::Memory { parts, .. } => {
                let mut bytes = Vec::with_capacity(length);
                let first = parts.partition_point(|(start, _)| *start <= offset);
                for (start, part) in &parts[first.saturating_sub(1)..] {
                    let from = (offset + bytes.len() as u64 - start) as usize;
                    let wanted = length - bytes.len();
                    let piece = &part[from.min(part.len())..];
                    bytes.extend_from_slice(&piece[..wanted.min(piece.len())]);
                    if bytes.len() == length {
                        break;
                    }
                }
                Ok(bytes)
            }
        }
    }
}

/// Bytes that these segments keep in memory: all of what each is a stretch of, once, and the list itself.
fn weight(parts: &[Segment]) -> u64 {
    let mut wholes: Vec<_> = parts
        .iter()
        .map(|part| (Arc::as_ptr(part.whole()), part.whole().len()))
        .collect();
    wholes.sort_unstable();
    wholes.dedup();
    let bytes: usize = wholes.into_iter().map(|(_, len)| len).sum();
    (bytes + parts.len() * size_of::<(u64, Segment)>()) as u64
}

fn spill(parts: &[Segment]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    for part in parts {
        file.write_all(part)?;
    }
    Ok(file)
}

fn read_file(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let filled = store::read_at(file, &mut bytes, offset)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// A stretch of rendered bytes: a whole file, or one turn's section of it.
pub(super) struct Slice {
    pub(super) bytes: Arc<Bytes>,
    pub(super) range: Range<u64>,
}

impl Slice {
    pub(super) fn whole(bytes: Arc<Bytes>) -> Self {
        let range = 0..bytes.len();
        Self { bytes, range }
    }
}

impl Content for Slice {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.size().saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(Vec::new());
        }
        self.bytes.read(self.range.start + offset, length)
    }

    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A stored file as it is now, for as long as it is open.
pub(super) struct Stored(pub(super) File);

/// The most that one read of a stored file allocates before it knows that the bytes are there.
const LARGEST_READ: usize = 16 << 20;

impl Content for Stored {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.size().saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        read_file(&self.0, offset, length.min(LARGEST_READ))
    }

    fn size(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(parts: &[&str]) -> Arc<Bytes> {
        let parts = parts.iter().map(|p| p.as_bytes().to_vec().into());
        Arc::new(Bytes::new(parts.collect()))
    }

    #[test]
    fn every_stretch_reads_as_if_the_parts_were_one() {
        let parts = ["abc", "", "d", "efghij"];
        let text = parts.concat();
        let all = bytes(&parts);
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let range = start as u64..end as u64;
                let slice = Slice {
                    bytes: all.clone(),
                    range,
                };
                assert_eq!(slice.size(), (end - start) as u64);
                for offset in 0..=end - start + 1 {
                    for length in 0..=text.len() + 1 {
                        let from = (start + offset).min(end);
                        let expected = &text[from..(from + length).min(end)];
                        let read = slice.read(offset as u64, length).unwrap();
                        assert_eq!(read, expected.as_bytes());
                    }
                }
            }
        }
        assert_eq!(Slice::whole(bytes(&[])).read(0, 10).unwrap(), b"");
        assert_eq!(Slice::whole(all).read(u64::MAX, usize::MAX).unwrap(), b"");
    }

    #[test]
    fn large_content_lies_in_a_file_and_reads_the_same() {
        let part = Segment::from(vec![b'x'; 40 << 20]);
        let end = Segment::from(b"end".to_vec());
        let large = Arc::new(Bytes::new(vec![part.clone(), part.clone(), end]));
        assert!(matches!(*large, Bytes::File { .. }));
        assert_eq!(large.in_memory(), 0);
        let slice = Slice::whole(large);
        assert_eq!(slice.size(), (80 << 20) + 3);
        assert_eq!(slice.read((80 << 20) - 2, 100).unwrap(), b"xxend");
    }

    #[test]
    fn a_stored_file_reads_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let stored = Stored(store::open(&path).unwrap());
        assert_eq!(stored.read(1, usize::MAX).unwrap(), b"ne");
        std::fs::write(&path, "one two").unwrap();
        assert_eq!(stored.size(), 7);
        assert_eq!(stored.read(3, 100).unwrap(), b" two");
        std::fs::write(&path, "").unwrap();
        assert_eq!(stored.read(3, 100).unwrap(), b"");
    }
}
