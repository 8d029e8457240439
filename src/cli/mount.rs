//! `sessionfs mount`: sessions as a read-only file system.

use super::sources::{Opened, Outright, recognise};
use super::{Common, Failure, output};
use crate::fuse::daemon::{self, Listeners, StartError, Started};
use crate::fuse::mount::{MountError, MountOptions, Outcome, serve};
use crate::fuse::point;
use crate::transcript::display;
use crate::tree::{Options, Tree};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  sessionfs mount mnt                                your own sessions, on the empty directory mnt
  sessionfs mount ~/.claude/projects ./old mnt       two folders of sessions
  sessionfs mount --record ./record mnt              a record of messages alone
  sessionfs mount -f ./sessionfs-demo mnt            in the foreground, until Ctrl-C
  sessionfs unmount mnt";

/// How long a start in the background may take. Folders may lie on slow disks.
const LIMIT: Duration = Duration::from_mins(2);

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_missing_positional = true)]
pub struct Args {
    /// Folders that hold sessions, by default where the harness keeps them
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    outright: Outright,
    /// Where to mount: an empty directory outside of the sources
    #[arg(value_name = "MOUNTPOINT", required = true)]
    mountpoint: PathBuf,
    /// Stay in the foreground and say on standard error what happens
    #[arg(short, long)]
    foreground: bool,
    /// Let other users read it too
    #[arg(long)]
    allow_other: bool,
    /// Keep this session out, by its ID or a unique beginning of it; as often as needed
    #[arg(long, value_name = "SESSION")]
    exclude: Vec<String>,
    /// How much to keep of what was parsed and rendered, in bytes or as 512M or 2G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    cache_size: u64,
    /// Cut each block in artefact.md after this many bytes; 0 cuts nothing
    #[arg(long, value_name = "N", default_value_t = 8192)]
    max_block_bytes: usize,
    /// Write READY=1 to this open file descriptor, and close it, once the mount answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..))]
    ready_fd: Option<u32>,
}

/// Mounts: in a process in the background, which `detached` says this is, or here.
pub(super) fn run(args: &Args, common: Common, detached: bool) -> Result<(), Failure> {
    if detached {
        mount(args, common, true)
    } else if args.foreground {
        daemon::settle_allocator();
        mount(args, common, false)
    } else {
        in_background()
    }
}

/// The same command line again, in a process that tells us when it is ready. Until then it speaks for itself.
fn in_background() -> Result<(), Failure> {
    let detached = OsString::from("--detached");
    let arguments = std::iter::once(detached).chain(std::env::args_os().skip(1));
    match daemon::start(arguments, LIMIT) {
        Ok(Started::Ready) => Ok(()),
        Ok(Started::Failed(code)) => Err(Failure::told(code)),
        Err(StartError::Interrupted) => Err(Failure::new("interrupted; nothing is mounted")),
        Err(error) => Err(Failure::new("cannot mount in the background")
            .because(error)
            .hint("see what it says in the foreground: sessionfs mount -f")),
    }
}

fn mount(args: &Args, common: Common, detached: bool) -> Result<(), Failure> {
    if detached {
        daemon::close_inherited(args.ready_fd).map_err(|error| {
            Failure::new("cannot tell which files the background process was given").because(error)
        })?;
    }
    let listeners = Listeners {
        descriptor: args.ready_fd,
        socket: std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
    };
    if let Err(error) = listeners.check() {
        return Err(
            Failure::wrong_use("cannot write to the descriptor of --ready-fd")
                .because(error)
                .hint("open it for the command, such as: sessionfs mount --ready-fd 3 … 3>ready"),
        );
    }
    refuse_lone_source(args)?;
    let sources = recognise(&absolute(&args.sources)?, &args.outright.each(absolute)?)?;
    let opened = Opened::excluding(sources, &args.exclude)?;
    let roots = opened.roots();
    let point = point::check(&args.mountpoint, &opened.places())
        .map_err(|error| failure(error.to_string(), error.hint()))?;
    opened.warn();
    let options = MountOptions {
        source: label(&roots),
        allow_other: args.allow_other,
        point,
    };
    let mut tree = Tree::new(
        opened.store(),
        Options {
            cache_bytes: args.cache_size,
            max_block_bytes: Some(args.max_block_bytes).filter(|bytes| *bytes > 0),
        },
    );
    if let Some(cache) = opened.cache() {
        tree = tree.remembering(&cache);
    }
    let tree = Arc::new(tree);
    let log = detached.then(|| log(&options.point)).flatten();
    let ready = || {
        if !common.quiet {
            say(&options.point, detached);
        }
        listeners.tell()?;
        if detached {
            daemon::settle(log.as_ref())?;
        }
        Ok(())
    };
    let served = {
        let _remembering = Remembering::of(tree.clone());
        serve(tree.clone(), &options, ready)
    };
    tree.remember();
    match served {
        Ok(Outcome::Signal(signal)) => tracing::info!("unmounted on signal {signal}"),
        Ok(Outcome::Unmounted) => tracing::info!("unmounted by somebody"),
        Err(error) => return Err(unmounted(&error)),
    }
    Ok(())
}

/// Writes now and then what a tree learned, for as long as it lives, so that a killed mount loses little of it.
struct Remembering {
    /// Dropping it ends the thread.
    _end: Option<Sender<()>>,
}

/// How often, unless writing takes long.
const REMEMBER_EVERY: Duration = Duration::from_mins(1);

impl Remembering {
    fn of(tree: Arc<Tree>) -> Self {
        let (end, ended) = channel::<()>();
        let thread = std::thread::Builder::new().name("sessionfs-remember".to_owned());
        let started = thread.spawn(move || {
            let mut wait = REMEMBER_EVERY;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let start = Instant::now();
                tree.remember();
                wait = REMEMBER_EVERY.max(start.elapsed() * 200);
            }
        });
        if let Err(error) = &started {
            tracing::debug!("what is learned is written at the end only: {error}");
        }
        Self {
            _end: started.ok().map(|_| end),
        }
    }
}

/// A single path that holds something was meant as a source.
fn refuse_lone_source(args: &Args) -> Result<(), Failure> {
    let path = &args.mountpoint;
    let holds_something = || std::fs::read_dir(path).is_ok_and(|mut names| names.next().is_some());
    if args.sources.is_empty()
        && args.outright.is_empty()
        && !point::is_mounted(path)
        && holds_something()
    {
        let what = format!(
            "the mount point is missing: {} is not empty, so it can only be a source",
            path.display()
        );
        let shown = output::shell_word(path);
        return Err(Failure::wrong_use(what).hint(format!(
            "name an empty directory after it: sessionfs mount {shown} MOUNTPOINT"
        )));
    }
    Ok(())
}

/// The sources by paths that hold wherever the process is: in the background it leaves this directory.
fn absolute(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let absolute = folders.iter().map(std::path::absolute);
    absolute
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new("cannot tell where the sources are").because(error))
}

/// What the list of mounts and `df` call it.
fn label(roots: &[PathBuf]) -> String {
    match roots {
        [one] => one.display().to_string(),
        many => format!("{} sources", many.len()),
    }
}

/// Where it is and how it ends, in one line.
fn say(point: &Path, detached: bool) {
    let shown = output::shell_word(point);
    let end = if detached { "" } else { "Ctrl-C, or " };
    eprintln!(
        "Mounted on {}. To unmount: {end}sessionfs unmount {shown}",
        display::line(&point.to_string_lossy())
    );
}

/// The log of a mount in the background. A mount without one is still a mount, but that is said.
fn log(point: &Path) -> Option<File> {
    let Some(path) = daemon::log_path(point) else {
        tracing::warn!("there is no log: neither XDG_STATE_HOME nor HOME is set");
        return None;
    };
    match daemon::open_log(&path) {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!("there is no log: cannot open {}: {error}", path.display());
            None
        }
    }
}

fn unmounted(error: &MountError) -> Failure {
    failure(error.to_string(), error.hint())
}

pub(super) fn failure(what: String, hint: Option<String>) -> Failure {
    let failure = Failure::new(what);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Bytes, or kibi-, mebi- or gibibytes: `1048576`, `512M`, `2G`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("give bytes, or a number with K, M or G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "this is no number".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "this is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("2K"), Ok(2048));
        assert_eq!(size("256M"), Ok(256 << 20));
        assert_eq!(size("3GiB"), Ok(3 << 30));
        for wrong in [
            "",
            "M",
            "1T",
            "-1",
            "1.5G",
            "99999999999999999999",
            "99999999999G",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
