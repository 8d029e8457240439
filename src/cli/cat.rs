//! `sessionfs cat`: one file of what a mount would show, on standard output.

use super::sources::SourceArgs;
use super::{Failure, output};
use crate::tree::{NodeKind, Place, View};
use std::ffi::OsStr;
use std::path::{Component, Path};

const EXAMPLES: &str = "\
Examples:
  sessionfs cat 7a11                                  artefact.md, the whole session
  sessionfs cat 7a11/artefact.full.md | less          the same, nothing cut
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

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// Prints the file.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (wanted, file) = match args.what.split_once('/') {
        Some((wanted, file)) if !file.is_empty() => (wanted, file),
        _ => (args.what.trim_end_matches('/'), "artefact.md"),
    };
    let opened = args.sources.open()?;
    let session = opened.resolve(wanted)?;
    let tree = opened.tree();
    let mut place = Place::root();
    for part in [OsStr::new("sessions"), OsStr::new(&session)].into_iter().chain(parts(file)?) {
        place = place.join(part);
    }
    let failed = |error| Failure::new(format!("cannot show {file} of {}", session)).because(error);
    if tree.kind(&place).map_err(failed)? != NodeKind::File {
        let names: Vec<String> = tree
            .list(&place)
            .map_err(failed)?
            .iter()
            .map(|entry| entry.name.to_string_lossy().into_owned())
            .collect();
        return Err(Failure::new(format!("{file} of {} is a directory", session))
            .hint(format!("name a file in it: {}", names.join(", "))));
    }
    let version = tree.attributes(&place).map_err(failed)?.version;
    let content = tree.open(&place, version).map_err(failed)?;
    let mut offset = 0;
    while offset < content.size() {
        let bytes = content
            .read(offset, CHUNK)
            .map_err(|error| Failure::new(format!("cannot read {file} of {}", session)).because(error))?;
        if bytes.is_empty() {
            break;
        }
        output::print(&bytes)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

/// The names on the way to a file; none of them leads up.
fn parts(file: &str) -> Result<Vec<&OsStr>, Failure> {
    Path::new(file)
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(Failure::wrong_use(format!("{file} leads out of the session"))),
        })
        .collect()
}
