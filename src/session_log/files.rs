//! What a writer does to the disk, one operation each, so that a test can make each one fail.

use super::LogError;
use nix::fcntl::OFlag;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The operations of a writer.
pub(super) trait Files: fmt::Debug + Send + Sync {
    /// Creates a directory with those above it, if it is not there, and makes that durable.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Creates a file that must not be there yet, for reading and appending.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Writes at the end of a file, once, and says how many bytes were taken.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// Makes a file's content and length durable.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Cuts a file.
    fn truncate(&self, file: &File, length: u64) -> io::Result<()>;
    /// Gives a file its final name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The operations as the system does them.
#[derive(Debug)]
pub(super) struct RealFiles;

impl Files for RealFiles {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        std::fs::create_dir_all(path)?;
        for made in missing {
            let above = made.parent().filter(|above| !above.as_os_str().is_empty());
            self.sync_directory(above.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        // Sessions are private, as everything that this program makes of them.
        let mut options = options();
        options.read(true).append(true).create_new(true).mode(0o600);
        options.open(path)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Writes all of it with as few writes as the system needs.
pub(super) fn write_all(files: &dyn Files, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match files.write(file, bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => bytes = &bytes[taken..],
        }
    }
    Ok(())
}

/// Opens a regular file for reading. What is none is refused without waiting for it.
pub(super) fn open_to_read(path: &Path) -> Result<File, LogError> {
    open(path, options().read(true), "open it for reading")
}

/// Opens a regular file for reading and appending.
pub(super) fn open_to_append(path: &Path) -> Result<File, LogError> {
    let how = options().read(true).append(true).to_owned();
    open(path, &how, "open it for writing")
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A log is a file of its own directory: no link leads to one.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    options.custom_flags(flags.bits());
    options
}

fn open(path: &Path, how: &OpenOptions, doing: &'static str) -> Result<File, LogError> {
    let not_regular = || LogError::NotRegular {
        path: path.to_path_buf(),
    };
    let file = how.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LogError::Missing {
            path: path.to_path_buf(),
        },
        io::ErrorKind::IsADirectory => not_regular(),
        _ => LogError::io(path, doing, source),
    })?;
    let metadata = file
        .metadata()
        .map_err(|source| LogError::io(path, "look at it", source))?;
    metadata.is_file().then_some(file).ok_or_else(not_regular)
}
