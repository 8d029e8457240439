//! Opening and reading stored files: only regular ones, only for reading, only as far as was seen.

use super::{Fingerprint, StoreError};
use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file for reading.
///
/// The last part of the path must not be a symbolic link: discovery has resolved those. What became a FIFO, a socket or a
/// device since then is refused without waiting for it.
pub fn open(path: &Path) -> Result<File, StoreError> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(|source| StoreError::io(path, "open", source))?;
    status_of(&file, path)?;
    Ok(file)
}

/// The state of the regular file at this path now. No link is followed at its last part, and nothing is opened.
pub fn status(path: &Path) -> Result<Fingerprint, StoreError> {
    regular(path, std::fs::symlink_metadata(path))
}

/// The state of an open file now; the path is for the error.
pub fn status_of(file: &File, path: &Path) -> Result<Fingerprint, StoreError> {
    regular(path, file.metadata())
}

fn regular(path: &Path, metadata: io::Result<Metadata>) -> Result<Fingerprint, StoreError> {
    let metadata = metadata.map_err(|source| StoreError::io(path, "look at", source))?;
    if metadata.is_file() {
        Ok(Fingerprint::of(&metadata))
    } else {
        Err(StoreError::NotRegular {
            path: path.to_path_buf(),
            kind: kind_of(&metadata),
        })
    }
}

/// Reads a stored file up to `length`, the size that its fingerprint says, and no further, so that a growing file gives
/// one state.
///
/// A file that is shorter by now gives what is there: the result is then shorter than `length`, and the caller says so.
pub fn read(path: &Path, length: u64) -> Result<Vec<u8>, StoreError> {
    let file = open(path)?;
    let io = |source| StoreError::io(path, "read", source);
    let length = usize::try_from(length).map_err(|_| io(io::ErrorKind::FileTooLarge.into()))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
    bytes.resize(length, 0);
    let filled = read_at(&file, &mut bytes, 0).map_err(io)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads a stretch of a stored file, as [`read`] does, but through a window that is used again: `take` is given what is in the
/// window and says how much of it is done with; the rest stays, with more of the file behind it. Gives what is left at the end.
///
/// The window grows where `take` can do nothing with what is in it.
pub fn read_by<'w>(
    path: &Path,
    stretch: Range<u64>,
    window: &'w mut Vec<u8>,
    mut take: impl FnMut(&[u8]) -> usize,
) -> Result<&'w [u8], StoreError> {
    let file = open(path)?;
    let io = |source| StoreError::io(path, "read", source);
    // A small file needs a small one: memory that is new is not for nothing.
    let length = usize::try_from(stretch.end.saturating_sub(stretch.start));
    let least = length.map_or(WINDOW, |length| length.clamp(1, WINDOW));
    if window.len() < least {
        window.resize(least, 0);
    }
    // What of the file is in the window, and where in the file that ends.
    let (mut held, mut at) = (0, stretch.start);
    while at < stretch.end {
        if held == window.len() {
            let more = window.len();
            let full = window.try_reserve_exact(more);
            full.map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
            window.resize(2 * more, 0);
        }
        let room = window.len() - held;
        let wanted = usize::try_from(stretch.end - at).map_or(room, |left| left.min(room));
        let filled = read_at(&file, &mut window[held..held + wanted], at).map_err(io)?;
        if filled == 0 {
            break;
        }
        at += filled as u64;
        held += filled;
        let done = take(&window[..held]).min(held);
        window.copy_within(done..held, 0);
        held -= done;
    }
    Ok(&window[..held])
}

/// Bytes of a file that are looked at together: few enough to stay in a processor's own cache.
const WINDOW: usize = 256 << 10;

/// Fills the buffer from this offset of the file, as far as the file goes, and says how many bytes that were.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What something is, in a word with its article.
pub(super) fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_file() {
        "a file"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn reads_no_further_than_was_seen_and_no_more_than_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"0123");
        assert_eq!(read(&path, 99).unwrap(), b"0123456789");
        assert!(
            read(&path, u64::MAX).is_err(),
            "a size that no memory holds is an error"
        );
    }

    #[test]
    fn refuses_what_is_no_regular_file_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let text = read(&fifo, 1).unwrap_err().to_string();
        assert!(text.contains("a FIFO"), "{text}");
        let text = read(dir.path(), 1).unwrap_err().to_string();
        assert!(text.contains("a directory"), "{text}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("fifo", &link).unwrap();
        assert!(read(&link, 1).is_err());
        assert!(read(&dir.path().join("nothing"), 1).is_err());
    }
}
