//! A mount from its beginning to its end.
//!
//! fuser 0.18.0 takes a mount away by its path, and may hit one that somebody else put there meanwhile; it also cannot
//! take away a busy one. So its own handle is never dropped here, and a [`Mount`] is taken away by its device number.

use super::adapter::{Adapter, WORKERS};
use super::mountinfo;
use super::own::OwnThreads;
use super::point::{self, PointError, UnmountError};
use super::requests::Requests;
use super::signals::Caught;
use crate::tree::View;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::OpenOptions;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const DEVICE: &str = "/dev/fuse";

/// How long after a signal who still has something open may read on. `spec/commands.md` allows half a second more.
const LINGER: Duration = Duration::from_secs(2);

/// Kilobytes that the kernel reads ahead: a request carries no more.
const READ_AHEAD: &str = "1024";

/// What to mount where.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The mount point, as [`point::check`] gives it.
    pub point: PathBuf,
    /// What the mount shows, for `df` and the list of mounts.
    pub source: String,
    /// Whether other users may read it.
    pub allow_other: bool,
}

/// How a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This signal ended it.
    Signal(i32),
    /// Somebody unmounted it.
    Unmounted,
}

/// Why there is no mount, or why one is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point cannot be used.
    #[error(transparent)]
    Point(#[from] PointError),
    /// The kernel does not offer FUSE here.
    #[error("{DEVICE} is missing")]
    NoDevice,
    /// The device is there but not for us.
    #[error("cannot open {DEVICE}: {0}")]
    Device(io::Error),
    /// Nobody mounts for an ordinary user.
    #[error("fusermount3 is missing, and without it only root can mount")]
    NoHelper,
    /// Others may be let in by root alone.
    #[error("{}: cannot mount for other users: {reason}", point.display())]
    AllowOther {
        /// The mount point.
        point: PathBuf,
        /// Why, in the helper's words.
        reason: String,
    },
    /// The system refuses.
    #[error("{}: cannot mount: {reason}", point.display())]
    Refused {
        /// The mount point.
        point: PathBuf,
        /// Why, in the system's or the helper's words.
        reason: String,
    },
    /// Whoever waited for the mount could not be told of it.
    #[error("cannot say that the mount answers: {0}")]
    Ready(io::Error),
    /// Without them the mount could not be ended.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// Without the list nobody knows which requests are this process's own.
    #[error("cannot open the list of this process's threads: {0}")]
    Threads(io::Error),
    /// The mount is left.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

impl MountError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Point(error) => return error.hint(),
            Self::Unmount(error) => return error.hint(),
            Self::NoDevice => {
                "load the kernel's module (modprobe fuse); in a container give it the device: --device /dev/fuse --cap-add SYS_ADMIN"
            }
            Self::Device(_) => {
                "root can let you in: chmod 666 /dev/fuse; `sessionfs export` writes the same files without a mount"
            }
            Self::NoHelper => "install it: apt install fuse3",
            Self::AllowOther { .. } => {
                "root can allow it: a line `user_allow_other` in /etc/fuse.conf; or mount without --allow-other"
            }
            Self::Refused { .. } => {
                "`sessionfs export` writes the same files where mounting is not allowed"
            }
            Self::Ready(_) | Self::Signals(_) | Self::Threads(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// Mounts, calls `ready` once the mount answers, and answers until SIGINT, SIGTERM or SIGHUP comes or somebody unmounts.
///
/// A signal unmounts whatever is open, and those that come after it end the wait for who still reads. If `ready` fails
/// the mount is taken away again. Requests of this process itself are refused: they would wait for themselves.
pub fn serve(
    view: Arc<dyn View>,
    options: &MountOptions,
    ready: impl FnOnce() -> io::Result<()>,
) -> Result<Outcome, MountError> {
    let (events, happens) = channel();
    // Before the mount, so that no signal leaves one behind.
    let caught = events.clone();
    let signals = Caught::new(move |signal| {
        let _ = caught.send(Event::Signal(signal));
    });
    let signals = signals.map_err(MountError::Signals)?;
    raise_limit();
    let own_threads = OwnThreads::new().map_err(MountError::Threads)?;
    let mount = Mount::start(view, options, events, Some(own_threads))?;
    // Who does not want it any more is not told that it is ready.
    let first = if let Ok(event) = happens.try_recv() {
        Ok(event)
    } else {
        ready().map_err(MountError::Ready)?;
        happens.recv()
    };
    let outcome = match first {
        Ok(Event::Signal(signal)) => {
            let end = Instant::now() + LINGER;
            mount.detach()?;
            let _ = happens.recv_timeout(end.saturating_duration_since(Instant::now()));
            Outcome::Signal(signal)
        }
        Ok(Event::Ended) | Err(_) => Outcome::Unmounted,
    };
    drop(signals);
    Ok(outcome)
}

/// How much the kernel holds of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Inodes that it knows, and the root.
    pub inodes: usize,
    /// Open files.
    pub files: usize,
    /// Open directories.
    pub directories: usize,
}

/// A mount of this process. Dropping it unmounts.
pub struct Mount {
    point: PathBuf,
    /// Ours as long as the connection lives; afterwards the kernel may give the number to another.
    device: String,
    connection: OwnedFd,
    adapter: Adapter,
    /// Dropping it would unmount by path.
    _session: ManuallyDrop<BackgroundSession>,
}

impl Mount {
    /// Mounts; the mount answers when this returns.
    pub fn new(view: Arc<dyn View>, options: &MountOptions) -> Result<Self, MountError> {
        Self::start(view, options, channel().0, None)
    }

    fn start(
        view: Arc<dyn View>,
        options: &MountOptions,
        events: Sender<Event>,
        own_threads: Option<OwnThreads>,
    ) -> Result<Self, MountError> {
        let point = options.point.clone();
        try_device()?;
        let adapter = Adapter::new(view, options.allow_other, own_threads);
        let requests = Requests::new(adapter.clone(), move || {
            // Nobody listens where a mount is not served but held.
            let _ = events.send(Event::Ended);
        });
        let failed = |error: io::Error| explain(&point, &error);
        let session = Session::new(requests, &point, &config(options)).map_err(failed)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(failed)?;
        let session = ManuallyDrop::new(session.spawn().map_err(failed)?);
        let device = mountinfo::all()
            .map_err(failed)?
            .into_iter()
            .rfind(|mounted| mounted.point == point && mounted.is_ours())
            .ok_or_else(|| failed(io::Error::other("it is not in the list of mounts")))?
            .device;
        // Only root may; without it reading is a little slower.
        let read_ahead = format!("/sys/class/bdi/{device}/read_ahead_kb");
        if let Err(error) = std::fs::write(&read_ahead, READ_AHEAD) {
            tracing::debug!("the kernel reads ahead as little as it did: {read_ahead}: {error}");
        }
        Ok(Self {
            point,
            device,
            connection,
            adapter,
            _session: session,
        })
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// How much the kernel holds of it.
    pub fn statistics(&self) -> Statistics {
        let shared = &self.adapter.0;
        Statistics {
            inodes: shared.inodes.len(),
            files: shared.files.len(),
            directories: shared.directories.len(),
        }
    }

    /// Takes it away wherever it is on top, whatever is open. Who has something open reads on as long as this process lives.
    pub fn detach(&self) -> Result<(), UnmountError> {
        let all = mountinfo::all().map_err(|error| UnmountError::Refused {
            point: self.point.clone(),
            reason: error.to_string(),
        })?;
        // It may have been moved, or bound to other places too; it dies with this process everywhere.
        let ours = all.iter().filter(|mounted| mounted.device == self.device);
        for mounted in ours {
            let on_top = mountinfo::topmost(&all, &mounted.point) == Some(mounted);
            // Once the connection is gone a live mount of this number is another one. A dead one serves nobody.
            if on_top && (self.lives() || point::is_dead(mounted)) {
                point::unmount_here(&mounted.point, true)?;
            }
        }
        Ok(())
    }

    /// Whether the kernel still holds the connection. It does until the last user of an unmounted one is gone.
    fn lives(&self) -> bool {
        let mut connection = [PollFd::new(self.connection.as_fd(), PollFlags::POLLIN)];
        match poll(&mut connection, PollTimeout::ZERO) {
            Ok(_) => !connection[0]
                .revents()
                .is_some_and(|events| events.contains(PollFlags::POLLERR)),
            Err(_) => true,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::error!("{error}");
        }
    }
}

/// What ends a mount.
#[derive(Clone, Copy, Debug)]
enum Event {
    Signal(i32),
    Ended,
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::DefaultPermissions,
        MountOption::FSName(harmless(&options.source)),
        // fuser's own subtype does not reach the kernel when root mounts.
        MountOption::CUSTOM("subtype=sessionfs".to_owned()),
    ];
    if options.allow_other {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(WORKERS);
    config
}

/// Every open stored file holds a file descriptor.
fn raise_limit() {
    // Where it cannot be raised, fewer can be open, and who opens one more is told so.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// A name without what means something in a list of mount options.
fn harmless(source: &str) -> String {
    let plain = |c: char| {
        if c == ',' || c == '\\' || c.is_control() {
            '_'
        } else {
            c
        }
    };
    let name: String = source.chars().map(plain).take(200).collect();
    if name.is_empty() {
        "sessionfs".to_owned()
    } else {
        name
    }
}

/// fuser says the same for a missing device, a forbidden one and a missing mount point.
pub(super) fn try_device() -> Result<(), MountError> {
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        // ENODEV and ENXIO: the node is there, the kernel's module is not.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
                || error.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) =>
        {
            Err(MountError::NoDevice)
        }
        Err(error) => Err(MountError::Device(error)),
    }
}

/// What an error of fuser means, the device being there and the mount point checked.
fn explain(point: &Path, error: &io::Error) -> MountError {
    let point = point.to_path_buf();
    let reason = error.to_string().trim().to_owned();
    if error.kind() == io::ErrorKind::NotFound {
        MountError::NoHelper
    } else if reason.contains("user_allow_other") {
        MountError::AllowOther { point, reason }
    } else {
        MountError::Refused { point, reason }
    }
}
