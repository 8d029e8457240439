//! `sessionfs record`: entries of the record of messages, one a call, for a host's hooks. Its exit code is 0 or 1, never 2.

mod hook;
mod input;

use super::{Failure, output};
use crate::record::{Json, RecordError, Recorder, TextMode};
use clap::{Subcommand, ValueEnum};
use input::Input;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  echo '{\"sessionId\":\"1ab2\",\"cwd\":\"/home/me/parser\"}' | sessionfs record start --record-dir DIR
  echo '{\"sessionId\":\"1ab2\",\"peer\":{\"as\":\"tests\"},\"text\":\"done?\",\"isQueued\":true}' |
    sessionfs record sent --record-dir DIR
  sessionfs record hook        what Claude Code runs when a session starts; the README has the settings

Each reads one JSON object of at most 64 MiB from standard input, for half a minute at most, `hook` for five seconds with all that it
does. The entry's path goes to standard output. What fails says \"recording degraded: <why>\" on standard error, and the exit code
is 1, never 2: a host takes 2 as a block. The message itself is never stopped; it is unknown to the record.

With --text metadata an entry holds the length and SHA-256 of the text and nothing that the text might stand in: a reason,
envelope or unknown member that might is left out and named in `withheld`.";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What is recorded.
#[derive(Debug, Subcommand)]
enum Verb {
    /// A session begins to record; on standard input sessionId, cwd, host, version, inbound
    Start(Options),
    /// A message that a session sent; on standard input sessionId, peer, text, isQueued, reason, cwd
    Sent(Options),
    /// A message that a session received; on standard input sessionId, peer, text, envelope, outcome, cwd
    Received(Options),
    /// How a session belongs to a larger piece of work; on standard input sessionId, parent, part, brief, cwd
    Chain(Options),
    /// The start of a session, out of what Claude Code hands its `SessionStart` hook on standard input
    Hook(Options),
}

/// What every kind of entry takes.
#[derive(Debug, clap::Args)]
struct Options {
    /// The record directory [default: `$XDG_DATA_HOME/sessionfs/record` or `~/.local/share/sessionfs/record`]
    #[arg(long, value_name = "DIR")]
    record_dir: Option<PathBuf>,
    /// What is kept of texts: all, or only length and SHA-256. `settings.json` in the record directory may keep less
    #[arg(long, value_enum, default_value = "full")]
    text: Text,
    /// Wait until the entry is on the disk; it delays the message
    #[arg(long)]
    sync: bool,
}

/// What is kept of texts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Text {
    Full,
    Metadata,
}

impl From<Text> for TextMode {
    fn from(text: Text) -> Self {
        match text {
            Text::Full => Self::Full,
            Text::Metadata => Self::Metadata,
        }
    }
}

impl Options {
    fn directory(&self) -> Result<PathBuf, Failure> {
        match &self.record_dir {
            Some(directory) => Ok(directory.clone()),
            None => default_directory().ok_or_else(|| {
                Failure::degraded("there is no HOME; name a folder with --record-dir")
            }),
        }
    }

    /// The recorder for the session that the input names.
    fn recorder<'a>(&self, session: &str, cwd: Json<'a>) -> Result<Recorder<'a>, Failure> {
        let recorder = Recorder::new(&self.directory()?, session)?;
        let recorder = recorder.in_directory(cwd).keeping(self.text.into());
        Ok(recorder.synchronized(self.sync))
    }
}

/// Where entries go when nobody says so; none without a home.
pub(super) fn default_directory() -> Option<PathBuf> {
    let place = |key| std::env::var_os(key).filter(|value| !value.is_empty());
    let data = place("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(PathBuf::from(place("HOME")?).join(".local/share")))?;
    Some(data.join("sessionfs/record"))
}

/// Whether this command line, which could not be understood, means to record: its first word that is no option is `record`.
pub(super) fn is_meant(args: impl Iterator<Item = OsString>) -> bool {
    let mut args = args;
    while let Some(arg) = args.next() {
        if arg == "--color" {
            args.next();
        } else if !arg.as_encoded_bytes().starts_with(b"-") {
            return arg == "record";
        }
    }
    false
}

/// Writes the entry and prints its path.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let path = match &args.verb {
        // What a SessionStart hook prints, the model would read.
        Verb::Hook(options) => return hook::run(options),
        Verb::Start(options) => {
            let input = Input::read()?;
            input.recorder(options)?.start(&input.start()?)?
        }
        Verb::Sent(options) => {
            let input = Input::read()?;
            input.recorder(options)?.sent(&input.sent()?)?
        }
        Verb::Received(options) => {
            let input = Input::read()?;
            input.recorder(options)?.received(&input.received()?)?
        }
        Verb::Chain(options) => {
            let input = Input::read()?;
            input.recorder(options)?.chain(&input.chain()?)?
        }
    };
    let mut line = path.as_os_str().as_encoded_bytes().to_vec();
    line.push(b'\n');
    output::print(&line).map_err(|failure| {
        // The entry is whole where it is; only who asked does not know where.
        failure.hint(format!("the entry is recorded: {}", path.display()))
    })
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let hint = match &error {
            RecordError::Io { source, .. } => Some(match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space on that disk",
                ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                    "make it writable, or name another folder with --record-dir"
                }
                _ => "look at that place, or name another folder with --record-dir",
            }),
            RecordError::NotFolder { .. } => {
                Some("move it away, or name another folder with --record-dir")
            }
            RecordError::NamesTaken { .. } => Some("record it again"),
            _ => None,
        };
        let failure = Self::degraded(error.to_string());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
