//! Into the background, and word of it.
//!
//! The program starts itself again rather than fork, because there may be threads by then. The second one reports over its
//! standard output, which is a pipe, and shares standard error with the first, so that what it says is seen as it said it.

use super::signals::Caught;
use crate::store::safe_name_within;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What the background process says when it is ready.
const READY: &[u8] = b"READY=1\n";

/// The open descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

/// How long a process that is asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// A log of this length is put aside before a new mount writes to it.
const LOG_LIMIT: u64 = 1 << 20;

/// Bytes of a log's name without its endings.
const LONGEST_NAME: usize = 240;

/// Settings of glibc's allocator, which it reads at the start of a process only; others do not know them. By itself it keeps a
/// heap for each of many threads, and buffers of megabytes in them, and gives hardly anything back: of versions that follow one
/// another fast, several times what is in use. So large buffers go back to the system when they are freed.
const ALLOCATOR: [(&str, &str); 2] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
];

/// How a start in the background went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It runs and is ready.
    Ready,
    /// It failed with this exit code and has said why.
    Failed(u8),
}

/// Why nothing runs in the background.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program cannot be started again.
    #[error("cannot start the background process: {0}")]
    Spawn(#[from] io::Error),
    /// Somebody ended it.
    #[error("the background process was ended by signal {0} before it was ready")]
    Ended(i32),
    /// Somebody asked for an end before it was ready.
    #[error("interrupted before it was ready")]
    Interrupted,
    /// It takes too long. It was told to end.
    #[error("the background process was not ready after {} seconds", .0.as_secs())]
    Late(Duration),
}

/// Starts this program again with these arguments and waits until it calls [`settle`] or ends, but not longer than `limit`.
///
/// SIGINT, SIGTERM and SIGHUP meanwhile end both. What is ready when this returns [`Started::Ready`] stays, and nothing
/// else does.
pub fn start(
    arguments: impl IntoIterator<Item = OsString>,
    limit: Duration,
) -> Result<Started, StartError> {
    let (events, happens) = mpsc::channel();
    let caught = events.clone();
    let _signals = Caught::new(move |_| {
        let _ = caught.send(Event::Signal);
    })?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .envs(ALLOCATOR.into_iter().filter(is_unset))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let status = child.stdout.take();
    std::thread::Builder::new().spawn(move || {
        let read = |mut status: ChildStdout| status.read_exact(&mut [0; READY.len()]).is_ok();
        let _ = events.send(Event::Answer(status.is_some_and(read)));
    })?;
    match happens.recv_timeout(limit) {
        Ok(Event::Answer(true)) => match happens.try_recv() {
            Ok(_) => Err(end(&mut child, StartError::Interrupted)),
            Err(_) => Ok(Started::Ready),
        },
        Ok(Event::Answer(false)) => ended(&mut child),
        Ok(Event::Signal) => Err(end(&mut child, StartError::Interrupted)),
        Err(_) => Err(end(&mut child, StartError::Late(limit))),
    }
}

/// What the first process waits for.
enum Event {
    /// Whether the second one is ready; else it comes to its end.
    Answer(bool),
    /// Somebody asks for an end.
    Signal,
}

/// Asks the second process to end, waits for that a while, and gives the reason.
fn end(child: &mut Child, why: StartError) -> StartError {
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    let end = Instant::now() + PATIENCE;
    // A process that does not end meanwhile unmounts when it comes that far.
    while Instant::now() < end && child.try_wait().is_ok_and(|status| status.is_none()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    why
}

fn ended(child: &mut Child) -> Result<Started, StartError> {
    let status = child.wait()?;
    match (status.code(), status.signal()) {
        (_, Some(signal)) => Err(StartError::Ended(signal)),
        // It ends well only when it is asked to.
        (Some(0), None) => Err(StartError::Interrupted),
        (code, None) => Ok(Started::Failed(
            code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        )),
    }
}

/// Starts this program again in this very process, for the settings of the allocator that a process in the background gets.
///
/// Returns where they are set already, or where it cannot be started. To be called while nothing is open and there is one thread.
pub fn settle_allocator() {
    let missing: Vec<_> = ALLOCATOR.into_iter().filter(is_unset).collect();
    let mut words = std::env::args_os();
    if let (false, Some(name), Ok(program)) =
        (missing.is_empty(), words.next(), std::env::current_exe())
    {
        let mut again = Command::new(program);
        let error = again.arg0(name).args(words).envs(missing).exec();
        tracing::debug!("the allocator is used as it is: {error}");
    }
}

fn is_unset((name, _): &(&str, &str)) -> bool {
    std::env::var_os(name).is_none()
}

/// Closes what the second process has from whoever started the first one, but for standard input, output and error, and `kept`. A lock
/// or a pipe would be held for as long as the mount lives.
///
/// To be called before anything is opened and while there is one thread.
pub fn close_inherited(kept: Option<u32>) -> io::Result<()> {
    let number = |entry: io::Result<DirEntry>| {
        let name = entry?.file_name();
        Ok::<_, io::Error>(name.to_str().and_then(|name| name.parse().ok()))
    };
    let open: Vec<Option<u32>> = std::fs::read_dir(DESCRIPTORS)?
        .map(number)
        .collect::<Result<_, _>>()?;
    for number in open.into_iter().flatten() {
        if number > 2 && Some(number) != kept {
            // The one that the list was read with is closed already.
            let _ = close(number.cast_signed());
        }
    }
    Ok(())
}

/// Tells the first process that this one is ready, and lets go of all that came from it: terminal, directory, input and output.
///
/// Standard error goes on to the log. Fails if the first process is gone: then nobody wants this one.
pub fn settle(log: Option<&File>) -> io::Result<()> {
    // From here the terminal's interrupt reaches the first process only. It fails where this one leads a session already.
    let _ = setsid();
    // A working directory would keep some file system busy.
    std::env::set_current_dir("/")?;
    let nothing = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stderr(log.unwrap_or(&nothing))?;
    let mut status = io::stdout().lock();
    status.write_all(READY)?;
    status.flush()?;
    dup2_stdout(&nothing)?;
    Ok(())
}

/// Where a mount on this point logs: `$XDG_STATE_HOME/sessionfs/<the point's name>.log`, by default below `~/.local/state`. The name is
/// made safe.
///
/// Nothing if there is no home.
pub fn log_path(point: &Path) -> Option<PathBuf> {
    log_path_in(point, |name| std::env::var_os(name))
}

fn log_path_in(point: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let name = point.file_name().unwrap_or(OsStr::new("root"));
    let name = safe_name_within(name.as_bytes(), LONGEST_NAME);
    Some(state.join("sessionfs").join(name + ".log"))
}

/// Opens a log for writing at its end. Makes its directory, and puts a long one aside as `<name>.old`.
pub fn open_log(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    if std::fs::metadata(path).is_ok_and(|status| status.len() > LOG_LIMIT) {
        let mut old = path.as_os_str().to_os_string();
        old.push(".old");
        std::fs::rename(path, old)?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Whom to tell that the mount answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// An open file descriptor that is written to and closed: a pipe or a file.
    pub descriptor: Option<u32>,
    /// A service manager's socket, as `$NOTIFY_SOCKET` names it; one that begins with `@` is abstract.
    pub socket: Option<OsString>,
}

impl Listeners {
    /// Fails if the descriptor is not open for writing, which is better known before the mount than after.
    pub fn check(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Tells them.
    pub fn tell(&self) -> io::Result<()> {
        if let (Some(mut file), Some(number)) = (self.open()?, self.descriptor) {
            file.write_all(READY)?;
            drop(file);
            close(number.cast_signed())?;
        }
        if let Some(name) = &self.socket {
            let word = format!("MAINPID={}\nREADY=1\n", std::process::id());
            let address = match name.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(name)?,
            };
            UnixDatagram::unbound()?.send_to_addr(word.as_bytes(), &address)?;
        }
        Ok(())
    }

    fn open(&self) -> io::Result<Option<File>> {
        self.descriptor
            .map(|number| {
                OpenOptions::new()
                    .write(true)
                    .open(format!("{DESCRIPTORS}/{number}"))
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::NotFound => {
                            io::Error::other(format!("descriptor {number} is not open"))
                        }
                        _ => error,
                    })
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_lies_in_the_state_directory() {
        let of = |point: &str, state: &str, home: &str| {
            let path = log_path_in(Path::new(point), |name| {
                let value = if name == "HOME" { home } else { state };
                Some(OsString::from(value)).filter(|value| !value.is_empty())
            });
            path.map(|path| path.to_string_lossy().into_owned())
        };
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(of("/a/mnt", "/s", "/h"), some("/s/sessionfs/mnt.log"));
        assert_eq!(
            of("/a/mnt", "", "/h"),
            some("/h/.local/state/sessionfs/mnt.log")
        );
        assert_eq!(
            of("/a/mnt", "relative", "/h"),
            some("/h/.local/state/sessionfs/mnt.log")
        );
        assert_eq!(of("/a/mnt", "", ""), None);
        assert_eq!(of("/a/m\n\t", "/s", ""), some("/s/sessionfs/m%0A%09.log"));
    }

    #[test]
    fn a_long_log_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/mnt.log");
        open_log(&path).unwrap().write_all(b"short").unwrap();
        open_log(&path).unwrap().set_len(LOG_LIMIT + 1).unwrap();
        open_log(&path).unwrap().write_all(b"anew").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"anew");
        let old = std::fs::metadata(folder.path().join("new/mnt.log.old")).unwrap();
        assert_eq!(old.len(), LOG_LIMIT + 1);
    }

    #[test]
    fn a_listening_socket_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let listeners = Listeners {
            descriptor: None,
            socket: Some(path.into_os_string()),
        };
        listeners.tell().unwrap();
        let mut word = [0; 64];
        let length = socket.recv(&mut word).unwrap();
        assert!(word[..length].ends_with(b"\nREADY=1\n"));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        let listeners = Listeners {
            descriptor: Some(987_654),
            socket: None,
        };
        let error = listeners.check().unwrap_err();
        assert_eq!(error.to_string(), "descriptor 987654 is not open");
    }
}
