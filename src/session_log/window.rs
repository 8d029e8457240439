//! Reading a file by pieces, with memory that does not depend on what the file claims.

use super::frame::Checksum;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;

/// How much is read at once.
const SIZE: usize = 64 << 10;

/// Bytes that can be read at any offset: a file, or what is in memory already.
pub(crate) trait ReadAt {
    /// Fills the buffer from this offset as far as there is something, and says how many bytes that were.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        crate::store::read_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let rest = rest.unwrap_or_default();
        let filled = rest.len().min(buffer.len());
        buffer[..filled].copy_from_slice(&rest[..filled]);
        Ok(filled)
    }
}

/// A piece of a source, up to an end beyond which nothing is read.
#[derive(Debug)]
pub(super) struct Window {
    bytes: Vec<u8>,
    at: u64,
    end: u64,
}

impl Window {
    pub(super) fn new(end: u64) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            end,
        }
    }

    /// The most that [`Window::get`] gives.
    pub(super) const MOST: u64 = SIZE as u64;

    /// These bytes, which must lie before the end and be at most [`Window::MOST`].
    pub(super) fn get<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        length: usize,
    ) -> io::Result<&[u8]> {
        let there = self.at + self.bytes.len() as u64;
        if at < self.at || at + length as u64 > there {
            let size = (self.end.saturating_sub(at)).min(Self::MOST) as usize;
            self.at = at;
            self.bytes.resize(size.max(length), 0);
            let filled = source.read_at(&mut self.bytes, at)?;
            self.bytes.truncate(filled);
            if filled < length {
                return Err(shorter());
            }
        }
        let from = (at - self.at) as usize;
        Ok(&self.bytes[from..from + length])
    }

    /// What there is from here on, at least one byte before the end and at most [`Window::MOST`].
    pub(super) fn some<S: ReadAt + ?Sized>(&mut self, source: &S, at: u64) -> io::Result<&[u8]> {
        self.get(source, at, 1)?;
        Ok(&self.bytes[(at - self.at) as usize..])
    }

    /// The checksum of these bytes, which may be any number.
    pub(super) fn checksum<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        length: u64,
    ) -> io::Result<Checksum> {
        let mut hash = Sha256::new();
        let mut at = at;
        let end = at + length;
        while at < end {
            let size = (end - at).min(Self::MOST) as usize;
            hash.update(self.get(source, at, size)?);
            at += size as u64;
        }
        Ok(hash.finalize().into())
    }
}

/// These bytes in memory of their own. Only for what is known to be there.
pub(super) fn read_all<S: ReadAt + ?Sized>(
    source: &S,
    at: u64,
    length: u64,
) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(length, 0);
    if source.read_at(&mut bytes, at)? < length {
        return Err(shorter());
    }
    Ok(bytes)
}

fn shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file became shorter while it was read",
    )
}
