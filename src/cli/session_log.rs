//! `sessionfs log`: framed session logs, written and looked at.

mod show;
mod write;

use super::{Common, Failure, Paint, verify};
use crate::session_log::{LogError, Role, SessionLogStore};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  sessionfs log create logs notes                          an empty log: logs/notes.session-log
  sessionfs log append logs notes user-message \"Hello\"     prints the event's position
  make 2>&1 | sessionfs log append logs notes tool-result  the text from standard input
  sessionfs log attach logs notes plan.txt --media-type text/plain
  sessionfs log show logs notes --follow
  sessionfs log seal logs notes                            it takes no more events";

/// The command's arguments.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What is done with a log.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Create an empty log, with its directory if need be; never overwrites
    Create(Create),
    /// Append one event, durable when the command ends; prints its position
    Append(Append),
    /// Attach a file with an event that names it; prints the event's position
    Attach(Attach),
    /// Make a log complete: its objects are verified, and it takes no more events
    Seal(Log),
    /// Open a log for writing and mend what may be mended: an incomplete last frame, objects that no event names
    Recover(Log),
    /// Print a log; never writes
    Show(show::Args),
    /// Check every frame and object of a log, or of every log in the directory
    Verify(Verify),
    /// Remove a log, in whatever state, and its objects
    Delete(Log),
}

/// Which log.
#[derive(Debug, ClapArgs)]
struct Log {
    /// The directory of the log
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The session's ID: the log's file name without `.session-log`
    #[arg(value_name = "ID")]
    id: String,
}

impl Log {
    fn store(&self) -> SessionLogStore {
        SessionLogStore::new(&self.directory)
    }
}

#[derive(Debug, ClapArgs)]
struct Create {
    #[command(flatten)]
    log: Log,
    /// When the session began, kept exactly as given; by default now, in UTC
    #[arg(long, value_name = "TEXT")]
    created_at: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct Append {
    #[command(flatten)]
    log: Log,
    /// Who speaks, as it is stored: `kennedy-message` is the assistant
    #[arg(value_name = "ROLE", value_parser = role())]
    role: Role,
    /// What is said; from standard input if it is not given, or `-`
    #[arg(value_name = "TEXT")]
    text: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct Attach {
    #[command(flatten)]
    log: Log,
    /// The file to attach
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What it is, such as text/plain
    #[arg(long, value_name = "TYPE")]
    media_type: String,
    /// What it is called; by default as the file is
    #[arg(long, value_name = "NAME")]
    file_name: Option<String>,
    /// The event's text, from standard input if it is `-`; by default what the object is called
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct Verify {
    /// The directory of the logs
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The session's ID; every log of the directory without it
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
        .try_map(|name| Role::named(&name).ok_or("there is no such role"))
}

/// Does what the verb says.
pub(super) fn run(args: Args, common: Common, paint: Paint) -> Result<(), Failure> {
    match args.verb {
        Verb::Create(args) => write::create(&args),
        Verb::Append(args) => write::append(args),
        Verb::Attach(args) => write::attach(args),
        Verb::Seal(log) => write::seal(&log),
        Verb::Recover(log) => write::recover(&log),
        Verb::Show(args) => show::run(&args, paint),
        Verb::Verify(args) => verify::logs(&args.directory, args.id.as_deref(), args.json, common),
        Verb::Delete(log) => write::delete(&log),
    }
}

/// What could not be done with a log, why, and what to do next.
fn failed(what: &str, id: &str, error: LogError) -> Failure {
    let hint = match &error {
        LogError::Corrupt { .. } | LogError::Object { .. } => Some(
            "nothing was changed; sessionfs log show prints what can be read, sessionfs log delete removes the log",
        ),
        LogError::Missing { .. } => Some("sessionfs log create makes a log"),
        LogError::NeedsObject { .. } => Some("sessionfs log attach makes it"),
        LogError::Io { .. } | LogError::Read { .. } => {
            Some("look at the permissions of the directory and the space left")
        }
        _ => None,
    };
    let failure = Failure::new(format!("cannot {what} {id}")).because(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
