//! Attributes, lifetimes and error numbers as the kernel wants them.

use crate::tree::{Attributes, NodeKind, TreeError, may_grow};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::error::Error;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

/// How long the kernel believes that a name stands for the same inode.
///
/// With the tenth of a second that the tree may be behind its sources it makes the one second of `spec/mount-tree.md`.
pub(super) const NAME_LIFETIME: Duration = Duration::from_millis(900);

/// How long the kernel believes the attributes of a versioned file, which never change.
const VERSION_LIFETIME: Duration = Duration::from_hours(24);

/// `st_blksize` and the unit of `statfs`.
pub(super) const BLOCK_SIZE: u32 = 4096;

/// `st_blocks` counts these.
const SECTOR: u64 = 512;

/// Longest name that the kernel lists.
pub(super) const NAME_MAX: usize = 255;

/// Whose the files are and who may read them (`spec/mount-tree.md`, Rules).
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    file_mode: u16,
    directory_mode: u16,
}

impl Owner {
    /// The user who mounts; others may read if they are allowed to.
    pub(super) fn current(allow_other: bool) -> Self {
        let (file_mode, directory_mode) = if allow_other {
            (0o444, 0o755)
        } else {
            (0o400, 0o700)
        };
        Self {
            uid: nix::unistd::getuid().as_raw(),
            gid: nix::unistd::getgid().as_raw(),
            file_mode,
            directory_mode,
        }
    }

    /// The attributes of this inode.
    pub(super) fn attr(&self, number: u64, attributes: &Attributes) -> FileAttr {
        let (perm, nlink) = match attributes.kind {
            NodeKind::Directory => (self.directory_mode, 2),
            NodeKind::File => (self.file_mode, 1),
            NodeKind::Link => (0o777, 1),
        };
        FileAttr {
            ino: INodeNo(number),
            size: attributes.size,
            blocks: attributes.size.div_ceil(SECTOR),
            atime: attributes.modified,
            mtime: attributes.modified,
            ctime: attributes.modified,
            crtime: attributes.modified,
            kind: file_type(attributes.kind),
            perm,
            nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        }
    }
}

/// Stands in for attributes that are not known yet; it goes out with a lifetime of 0, so nobody sees it.
pub(super) fn unknown(kind: NodeKind, version: u64) -> Attributes {
    Attributes {
        kind,
        size: 0,
        modified: UNIX_EPOCH,
        version,
        live: false,
    }
}

/// The kernel's name for a kind of node.
pub(super) fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::Directory => FileType::Directory,
        NodeKind::File => FileType::RegularFile,
        NodeKind::Link => FileType::Symlink,
    }
}

/// Whether these attributes hold as long as the inode does.
pub(super) fn fixed(attributes: &Attributes) -> bool {
    attributes.kind == NodeKind::File && !attributes.live
}

/// Whether these are of a live file that may be growing.
pub(super) fn grows(attributes: &Attributes) -> bool {
    attributes.live && may_grow(attributes.modified)
}

/// How long the kernel may believe them. Whoever has read a growing file to its end must not be told that it is shorter.
pub(super) fn lifetime(attributes: &Attributes) -> Duration {
    if fixed(attributes) {
        VERSION_LIFETIME
    } else if grows(attributes) {
        Duration::ZERO
    } else {
        NAME_LIFETIME
    }
}

/// The error number that says what happened.
pub(super) fn errno(error: &TreeError) -> Errno {
    match error {
        TreeError::NotFound(_) => Errno::ENOENT,
        TreeError::NotDirectory(_) => Errno::ENOTDIR,
        TreeError::Stale(_) => Errno::ESTALE,
        other => of_cause(other),
    }
}

/// The error number of a failed read.
pub(super) fn io_errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::PermissionDenied => Errno::EACCES,
        io::ErrorKind::OutOfMemory => Errno::ENOMEM,
        _ => match error.raw_os_error() {
            Some(number) if number == Errno::EMFILE.code() => Errno::EMFILE,
            Some(number) if number == Errno::ENFILE.code() => Errno::ENFILE,
            _ => Errno::EIO,
        },
    }
}

/// Of the input or output error that caused it, if one did.
fn of_cause(error: &(dyn Error + 'static)) -> Errno {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return io_errno(error);
        }
        cause = error.source();
    }
    Errno::EIO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[test]
    fn blocks_count_every_begun_sector() {
        let owner = Owner::current(false);
        for (size, blocks) in [(0, 0), (1, 1), (512, 1), (513, 2), (4096, 8)] {
            let mut attributes = unknown(NodeKind::File, 1);
            attributes.size = size;
            assert_eq!(owner.attr(2, &attributes).blocks, blocks);
        }
    }

    #[test]
    fn others_may_read_only_if_allowed() {
        let mode = |allow, kind| Owner::current(allow).attr(2, &unknown(kind, 0)).perm;
        assert_eq!(mode(false, NodeKind::File), 0o400);
        assert_eq!(mode(false, NodeKind::Directory), 0o700);
        assert_eq!(mode(true, NodeKind::File), 0o444);
        assert_eq!(mode(true, NodeKind::Directory), 0o755);
    }

    #[test]
    fn an_error_keeps_the_reason_that_the_system_gave() {
        let failed = |number| {
            TreeError::Store(StoreError::Io {
                path: "x".into(),
                doing: "open",
                source: io::Error::from_raw_os_error(number),
            })
        };
        for (number, shown) in [
            (Errno::EACCES, Errno::EACCES),
            (Errno::ENOENT, Errno::ENOENT),
            (Errno::EMFILE, Errno::EMFILE),
            (Errno::EIO, Errno::EIO),
            (Errno::EISDIR, Errno::EIO),
        ] {
            assert_eq!(errno(&failed(number.code())).code(), shown.code());
        }
        assert_eq!(
            errno(&TreeError::Stale("x".into())).code(),
            Errno::ESTALE.code()
        );
    }
}
