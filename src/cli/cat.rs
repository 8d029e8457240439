//! `sessionfs cat`: one file of what a mount would show, on standard output.

use super::sources::SourceArgs;
use super::{Failure, output};
use crate::tree::export::{ExportError, copy};
use crate::tree::{NodeKind, Place, Tree, View};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Component, Path};

const EXAMPLES: &str = "\
Examples:
  sessionfs cat 7a11                                  artefact.md, the whole session
  sessionfs cat 7a11/artefact.spine.md                prompts, answers and tool names
  sessionfs cat 7a11/telemetry.json | jq .tokens
  sessionfs cat 7a11/turns/000001-user.md --source ./sessionfs-demo";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The session's ID, or a unique beginning of it, and the file; artefact.md by default
    #[arg(value_name = "SESSION[/FILE]")]
    what: String,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Prints the file.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (wanted, file) = match args.what.split_once('/') {
        // As in any path, two separators are one.
        Some((wanted, file)) => (wanted, file.trim_start_matches('/')),
        None => (args.what.as_str(), ""),
    };
    let file = if file.is_empty() { "artefact.md" } else { file };
    let opened = args.sources.open()?;
    let session = opened.resolve(wanted)?;
    let tree = opened.tree();
    let home = Place::root()
        .join(OsStr::new("sessions"))
        .join(OsStr::new(&session));
    let place = parts(file)?
        .into_iter()
        .fold(home.clone(), |place, part| place.join(part));
    let failed = |error: ExportError| {
        Failure::new(format!("cannot show {file} of {session}")).because(error)
    };
    match tree.kind(&place) {
        Ok(NodeKind::File) => {}
        Ok(_) => {
            let names = names(&tree, &place);
            return Err(Failure::new(format!("{file} of {session} is a directory")).hint(names));
        }
        Err(error) => return Err(failed(error.into()).hint(names(&tree, &home))),
    }
    let mut out = std::io::stdout().lock();
    match copy(&tree, &place, &mut out) {
        Ok(_) => out.flush().map_err(output::failed),
        Err(ExportError::Write { source, .. } | ExportError::Full { source, .. }) => {
            Err(output::failed(source))
        }
        Err(error) => Err(failed(error)),
    }
}

/// What could have been asked for instead.
fn names(tree: &Tree, place: &Place) -> String {
    let entries = tree.list(place).unwrap_or_default();
    let names = entries.iter().map(|entry| entry.name.to_string_lossy());
    let mut some: Vec<_> = names.take(MOST_NAMES).collect();
    if entries.len() > MOST_NAMES {
        some.push("…".into());
    }
    format!("there are: {}", some.join(", "))
}

const MOST_NAMES: usize = 12;

/// The names on the way to a file; none of them leads up.
fn parts(file: &str) -> Result<Vec<&OsStr>, Failure> {
    Path::new(file)
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(Failure::wrong_use(format!(
                "{file} leads out of the session"
            ))),
        })
        .collect()
}
