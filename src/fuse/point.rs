//! Mount points: whether one can be mounted on, and unmounting.
//!
//! Whether something is mounted comes from the kernel's list, never from looking at the path: a mount whose process
//! hangs would hang whoever looks.

use super::busy::{self, User};
use super::helper::{self, Refusal};
use super::mountinfo::{self, Mounted};
use crate::transcript::display::shell;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// How long a mount may take to say whether it lives.
const LIMIT: Duration = Duration::from_secs(2);

/// Dead mounts that may lie over one another at one point.
const LAYERS: usize = 16;

/// Symbolic links that a path may lead over, as many as the kernel follows.
const LINKS: usize = 40;

/// Why a directory cannot be mounted on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// It is not there.
    #[error("{}: the mount point does not exist", .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("{}: the mount point is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// What it holds would be hidden.
    #[error("{}: the mount point is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// Something is mounted there.
    #[error("{}: a {file_system} file system is mounted there already", point.display())]
    Mounted {
        /// The mount point.
        point: PathBuf,
        /// The type of what is mounted.
        file_system: String,
    },
    /// Reading the source would read the mount.
    #[error("{}: the mount point is the source itself", .0.display())]
    IsSource(PathBuf),
    /// Reading the source would read the mount.
    #[error("{}: the mount point lies in the source {}", point.display(), source_path.display())]
    InSource {
        /// The mount point.
        point: PathBuf,
        /// The source around it.
        source_path: PathBuf,
    },
    /// The mount would hide its source.
    #[error("{}: the mount point holds the source {}", point.display(), source_path.display())]
    AroundSource {
        /// The mount point.
        point: PathBuf,
        /// The source in it.
        source_path: PathBuf,
    },
    /// The system does not let us look.
    #[error("{}: cannot look at it: {reason}", path.display())]
    Io {
        /// What was looked at.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// A dead mount is in the way.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

impl PointError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing(point) => Some(format!("make it first: mkdir {}", shell::word(point))),
            Self::NotDirectory(_) | Self::NotEmpty(_) => Some("give an empty directory".to_owned()),
            Self::Mounted { point, file_system } if file_system == mountinfo::FILE_SYSTEM => {
                Some(format!(
                    "choose another, or unmount it: sessionfs unmount {}",
                    shell::word(point)
                ))
            }
            Self::Mounted { .. } => Some("give an empty directory in it, or elsewhere".to_owned()),
            Self::IsSource(_) | Self::InSource { .. } | Self::AroundSource { .. } => {
                Some("give an empty directory outside of every source".to_owned())
            }
            Self::Io { .. } => None,
            Self::Unmount(error) => error.hint(),
        }
    }
}

/// Why something is still mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnmountError {
    /// Nothing is mounted there.
    #[error("{}: nothing is mounted there", .0.display())]
    NotMounted(PathBuf),
    /// It is somebody else's.
    #[error("{}: this is a {file_system} file system, not one of sessionfs", point.display())]
    NotOurs {
        /// The mount point.
        point: PathBuf,
        /// The type of what is mounted.
        file_system: String,
    },
    /// Somebody uses it.
    #[error("{}: the mount is busy: {}", point.display(), name(users))]
    Busy {
        /// The mount point.
        point: PathBuf,
        /// Who uses it, as far as one can see.
        users: Vec<User>,
    },
    /// The system refuses.
    #[error("{}: cannot unmount: {reason}", point.display())]
    Refused {
        /// The mount point.
        point: PathBuf,
        /// Why, in the system's words.
        reason: String,
    },
}

impl UnmountError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy { point, .. } => Some(format!(
                "end them and try again; to unmount all the same: fusermount3 -u -z {}",
                shell::word(point)
            )),
            Self::NotOurs { point, .. } => Some(format!("try: umount {}", shell::word(point))),
            Self::NotMounted(_) | Self::Refused { .. } => None,
        }
    }
}

fn name(users: &[User]) -> String {
    if users.is_empty() {
        return "which process uses it cannot be seen; it may be another user's".to_owned();
    }
    let users: Vec<_> = users.iter().map(User::to_string).collect();
    users.join(", ")
}

/// The full path of a directory that can be mounted on, with none of the sources equal to it, around it or in it.
///
/// A dead mount of ours on it is unmounted first. Sources that do not exist are not compared.
pub fn check(mountpoint: &Path, sources: &[PathBuf]) -> Result<PathBuf, PointError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |reason| PointError::Io { path, reason }
    };
    let point = resolve(mountpoint).map_err(io(mountpoint))?;
    clear(&point)?;
    match fs::metadata(&point) {
        Ok(status) if status.is_dir() => {}
        Ok(_) => return Err(PointError::NotDirectory(point)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PointError::Missing(point));
        }
        Err(error) => return Err(io(&point)(error)),
    }
    for source in sources {
        compare(&point, source)?;
    }
    let mut entries = fs::read_dir(&point).map_err(io(&point))?;
    if entries.next().is_some() {
        return Err(PointError::NotEmpty(point));
    }
    Ok(point)
}

/// Whether something is mounted there, dead or alive.
pub fn is_mounted(mountpoint: &Path) -> bool {
    let listed = || {
        let point = resolve(mountpoint)?;
        Ok::<_, io::Error>(mountinfo::topmost(&mountinfo::all()?, &point).is_some())
    };
    listed().unwrap_or(false)
}

/// A mount of sessionfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMount {
    /// Where it is.
    pub point: PathBuf,
    /// Whether the process behind it has died.
    pub is_dead: bool,
}

/// The mount of ours in which this path lies, if it lies in one.
pub fn mount_of_ours(path: &Path) -> Option<OwnMount> {
    let all = mountinfo::all().ok()?;
    if !all.iter().any(Mounted::is_ours) {
        return None;
    }
    // A dead mount does not tell where a path below it leads; then what is above the last part has to do.
    let place = path.canonicalize().or_else(|_| resolve(path));
    let place = place.or_else(|_| std::path::absolute(path)).ok()?;
    let around = all
        .iter()
        .filter(|mounted| mountinfo::is_below(&place, &mounted.point));
    let mounted = around.max_by_key(|mounted| mounted.point.as_os_str().len())?;
    mounted.is_ours().then(|| OwnMount {
        point: mounted.point.clone(),
        is_dead: is_dead(mounted),
    })
}

/// Unmounts a mount of ours. One whose process died is unmounted whoever still has it open: nothing in it can be used.
///
/// Gives its full path.
pub fn unmount(mountpoint: &Path) -> Result<PathBuf, UnmountError> {
    let refused = |point: &Path, reason: String| UnmountError::Refused {
        point: point.to_path_buf(),
        reason,
    };
    let point = resolve(mountpoint).map_err(|error| refused(mountpoint, error.to_string()))?;
    let all = mountinfo::all().map_err(|error| refused(&point, error.to_string()))?;
    let Some(mounted) = mountinfo::topmost(&all, &point) else {
        return Err(UnmountError::NotMounted(point));
    };
    if !mounted.is_ours() {
        return Err(UnmountError::NotOurs {
            file_system: mounted.file_system.clone(),
            point,
        });
    }
    let lazily = is_dead(mounted);
    unmount_here(&point, lazily)?;
    Ok(point)
}

/// Takes the topmost mount away from `point`; `lazily` also while it is in use.
pub(super) fn unmount_here(point: &Path, lazily: bool) -> Result<(), UnmountError> {
    let flags = if lazily {
        MntFlags::MNT_DETACH
    } else {
        MntFlags::empty()
    };
    let refusal = match umount2(point, flags | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::EPERM) => match helper::unmount(point, lazily) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        },
        Err(Errno::EBUSY) => Refusal::Busy,
        Err(error) => Refusal::Other(error.desc().to_owned()),
    };
    let point = point.to_path_buf();
    Err(match refusal {
        Refusal::Busy => UnmountError::Busy {
            users: busy::users(&point),
            point,
        },
        Refusal::Other(reason) => UnmountError::Refused { point, reason },
    })
}

/// The full path of a mount point. Only what is above it is followed, and a link that it may be: never into a mount.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let all = mountinfo::all()?;
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return path.canonicalize();
        };
        let parent = parent.canonicalize()?;
        let point = parent.join(name);
        if mountinfo::topmost(&all, &point).is_some() {
            return Ok(point);
        }
        match fs::read_link(&point) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(point),
        }
    }
    Err(Errno::ELOOP.into())
}

/// Unmounts dead mounts of ours at this point; anything else that is mounted there is in the way.
fn clear(point: &Path) -> Result<(), PointError> {
    for _ in 0..LAYERS {
        let all = mountinfo::all().map_err(|reason| PointError::Io {
            path: point.to_path_buf(),
            reason,
        })?;
        let Some(mounted) = mountinfo::topmost(&all, point) else {
            return Ok(());
        };
        if !(mounted.is_ours() && is_dead(mounted)) {
            return Err(PointError::Mounted {
                point: point.to_path_buf(),
                file_system: mounted.file_system.clone(),
            });
        }
        unmount_here(point, true)?;
        tracing::info!(
            "{}: unmounted what a dead process had left",
            point.display()
        );
    }
    Ok(())
}

/// Whether the process behind it has died. One that does not answer in time may only be slow: it counts as alive.
pub(super) fn is_dead(mounted: &Mounted) -> bool {
    let (answer, answered) = mpsc::channel();
    let point = mounted.point.clone();
    // Status of the file system is never cached, unlike that of the directory.
    let asked = std::thread::Builder::new().spawn(move || {
        let _ = answer.send(nix::sys::statfs::statfs(&point).err());
    });
    asked.is_ok() && answered.recv_timeout(LIMIT) == Ok(Some(Errno::ENOTCONN))
}

/// Refuses a mount point and a source that overlap. Compares identities, so it sees through bind mounts too.
fn compare(point: &Path, source: &Path) -> Result<(), PointError> {
    let Ok(source) = source.canonicalize() else {
        return Ok(());
    };
    let point_identity = identity(point);
    let source_identity = identity(&source);
    if point_identity == source_identity {
        return Err(PointError::IsSource(point.to_path_buf()));
    }
    let lies_in = |path: &Path, outer| {
        path.ancestors()
            .skip(1)
            .any(|above| identity(above) == outer)
    };
    if lies_in(point, source_identity) {
        return Err(PointError::InSource {
            point: point.to_path_buf(),
            source_path: source,
        });
    }
    if lies_in(&source, point_identity) {
        return Err(PointError::AroundSource {
            point: point.to_path_buf(),
            source_path: source,
        });
    }
    Ok(())
}

/// Device and inode; nothing only where nobody may look, and there nothing equal can be found either.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let status = fs::metadata(path).ok()?;
    Some((status.dev(), status.ino()))
}
