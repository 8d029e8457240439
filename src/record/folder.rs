//! The folder of one session's entries, held open so that nothing that is put in its place is written to.

use super::name::EntryName;
use super::settings::{self, TextMode};
use super::{RecordError, stamp};
use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::linkat;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names tried in one millisecond.
const MOST_NAMES: u64 = 1_000_000;

/// A record directory, open.
pub(super) struct Directory {
    path: PathBuf,
    folder: OwnedFd,
}

impl Directory {
    /// Opens the record directory, made with mode 0700 where it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| RecordError::io(path, "make this record directory", error))?;
        let opened = nix::fcntl::open(path, DIRECTORY, Mode::empty());
        let folder =
            opened.map_err(|error| RecordError::io(path, "open this record directory", error))?;
        Ok(Self {
            path: path.to_path_buf(),
            folder,
        })
    }

    /// What the settings say of sessions in this working directory.
    pub(super) fn text_mode(&self, cwd: &str) -> Result<Option<TextMode>, RecordError> {
        settings::text_mode(&self.folder, &self.path, cwd)
    }

    /// Opens the folder of this session, made with mode 0700 where it is not there. The ID has been checked.
    pub(super) fn session(&self, id: &str, sync: bool) -> Result<Folder, RecordError> {
        let path = self.path.join(id);
        let is_new = match mkdirat(&self.folder, id, Mode::S_IRWXU) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(error) => return Err(RecordError::io(&path, "make this session's folder", error)),
        };
        let folder = match openat(
            &self.folder,
            id,
            DIRECTORY | OFlag::O_NOFOLLOW,
            Mode::empty(),
        ) {
            Ok(folder) => folder,
            Err(error @ (Errno::ELOOP | Errno::ENOTDIR)) => {
                let status = fstatat(&self.folder, id, AtFlags::AT_SYMLINK_NOFOLLOW);
                return Err(match status {
                    Ok(status) => RecordError::NotFolder {
                        kind: kind(&status),
                        path,
                    },
                    Err(_) => RecordError::io(&path, "open this session's folder", error),
                });
            }
            Err(error) => return Err(RecordError::io(&path, "open this session's folder", error)),
        };
        if is_new && sync {
            synchronize(&self.folder, &self.path)?;
        }
        Ok(Folder {
            path,
            open: folder,
            sync,
        })
    }
}

/// The folder of one session, open.
pub(super) struct Folder {
    path: PathBuf,
    open: OwnedFd,
    sync: bool,
}

impl Folder {
    /// Writes an entry under the first free name of this millisecond and says where it is.
    pub(super) fn publish(&self, at: Timestamp, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        match openat(&self.open, ".", flags, PRIVATE) {
            Ok(file) => {
                let file = File::from(file);
                self.fill(&file, &self.path, bytes)?;
                match self.link(at, &file) {
                    // There is no /proc, which is where a file without a name can be given one.
                    Ok(None) => self.create(at, bytes),
                    Ok(Some(path)) => Ok(path),
                    Err(error) => Err(error),
                }
            }
            // This file system, or this kernel, has no files without a name.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {
                self.create(at, bytes)
            }
            Err(error) => Err(RecordError::io(&self.path, "make an entry here", error)),
        }
    }

    /// Gives a whole file its name. None where that cannot be done here.
    fn link(&self, at: Timestamp, file: &File) -> Result<Option<PathBuf>, RecordError> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let done = self.named(at, |name| {
            linkat(
                AT_FDCWD,
                unnamed.as_str(),
                &self.open,
                name,
                AtFlags::AT_SYMLINK_FOLLOW,
            )
        });
        match done {
            Err(RecordError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound
                    && !Path::new(&unnamed).exists() =>
            {
                Ok(None)
            }
            done => done.map(|((), path)| Some(path)),
        }
    }

    /// Writes an entry where a file cannot be whole before it has its name: a reader takes half of one as damaged.
    fn create(&self, at: Timestamp, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let (file, path) = self.named(at, |name| openat(&self.open, name, flags, PRIVATE))?;
        self.fill(&File::from(file), &path, bytes)?;
        Ok(path)
    }

    /// Tries names of this millisecond until one is free.
    fn named<T>(
        &self,
        at: Timestamp,
        make: impl Fn(&str) -> nix::Result<T>,
    ) -> Result<(T, PathBuf), RecordError> {
        for sequence in 1..=MOST_NAMES {
            let name = EntryName::new(at, sequence).file_name();
            match make(&name) {
                Ok(done) => {
                    if self.sync {
                        synchronize(&self.open, &self.path)?;
                    }
                    return Ok((done, self.path.join(name)));
                }
                Err(Errno::EEXIST) => {}
                Err(error) => {
                    let path = self.path.join(name);
                    return Err(RecordError::io(&path, "give the entry this name", error));
                }
            }
        }
        Err(RecordError::NamesTaken {
            path: self.path.clone(),
            stamp: stamp(at),
            tried: MOST_NAMES,
        })
    }

    fn fill(&self, mut file: &File, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        let written = file.write_all(bytes);
        written.map_err(|error| RecordError::io(path, "write the entry", error))?;
        if self.sync {
            let synced = file.sync_all();
            synced.map_err(|error| RecordError::io(path, "synchronize the entry", error))?;
        }
        Ok(())
    }
}

const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_CLOEXEC);
const PRIVATE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

fn synchronize(folder: &OwnedFd, path: &Path) -> Result<(), RecordError> {
    nix::unistd::fsync(folder)
        .map_err(|error| RecordError::io(path, "synchronize the folder", error))
}

fn kind(status: &FileStat) -> &'static str {
    let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFLNK {
        "a symbolic link"
    } else if kind == SFlag::S_IFREG {
        "a file"
    } else {
        "something else"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_files_that_have_no_name_an_entry_is_created_exclusively() {
        let root = tempfile::tempdir().unwrap();
        let folder = Directory::open(root.path())
            .unwrap()
            .session("s", true)
            .unwrap();
        let at = "2026-11-30T20:40:29.123Z".parse().unwrap();
        let first = folder.publish(at, b"one").unwrap();
        let second = folder.create(at, b"two").unwrap();
        assert!(second.ends_with("s/2026-11-30T204029.123Z-000002.json"));
        assert_eq!(std::fs::read(first).unwrap(), b"one");
        assert_eq!(std::fs::read(second).unwrap(), b"two");
    }
}
