//! `sessionfs export`: the tree as real files.

use super::sources::SourceArgs;
use super::{Failure, output};
use crate::transcript::display;
use crate::tree::export::{ExportError, Exported, export};
use crate::tree::{Place, View};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  sessionfs export 7a11 -o out                        one session: out/sessions/<id>/
  sessionfs export -o out                             all of them
  sessionfs export -o out --source ./sessionfs-demo";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The sessions' IDs, or unique beginnings of them; by default the whole tree
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Where to write; created if it is not there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Writes the tree, or the sessions that are named, and prints where they are.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let opened = args.sources.open()?;
    opened.refuse_below(&args.output)?;
    let mut places = Vec::new();
    for session in &args.sessions {
        let id = opened.resolve(session)?;
        let place = Place::root()
            .join(OsStr::new("sessions"))
            .join(OsStr::new(&id));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let all = places.is_empty();
    if all {
        opened.warn();
        places.push(Place::root());
    }
    let tree = opened.tree();
    refuse_what_is_there(&tree, &places, &args.output)?;

    let stop = output::Stop::on_signal();
    let mut faults = 0;
    for place in places {
        match export(&tree, &place, &args.output, stop.flag()) {
            Ok(exported) => faults += report(&exported),
            Err(ExportError::Stopped) => output::Stop::end(),
            Err(error @ ExportError::Full { .. }) => {
                let hint = format!(
                    "free some space, or choose a folder on another disk; what was written so far is in {}: remove it first",
                    output::shell_word(&args.output)
                );
                return Err(Failure::new("cannot export").because(error).hint(hint));
            }
            Err(error) => return Err(Failure::new("cannot export").because(error)),
        }
        let written: PathBuf = args
            .output
            .components()
            .chain(place.path().components())
            .collect();
        output::print(format!("{}\n", written.display()).as_bytes())?;
    }
    let unread = if all { opened.unread() } else { 0 };
    let mut missing = Vec::new();
    if faults > 0 {
        missing.push(format!(
            "{faults} of the files could not be exported; all others were"
        ));
    }
    if unread > 0 {
        missing.push(format!(
            "{unread} of the sources' folders and files could not be read; sessions may be missing"
        ));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(missing.join(", and ")).hint("each is named above, with the reason"))
}

/// Names what could not be written and says how much that was.
fn report(exported: &Exported) -> usize {
    for (_, error) in &exported.failed {
        tracing::error!("{}", display::line(&error.to_string()));
    }
    tracing::info!("{} files, {} bytes", exported.files, exported.bytes);
    exported.failed.len()
}

/// What was exported before may be of another time, and a mixture of two times is no session.
fn refuse_what_is_there(view: &dyn View, places: &[Place], output: &Path) -> Result<(), Failure> {
    let mut would = Vec::new();
    for place in places {
        if place.path() == Path::new("") {
            let names = view
                .list(place)
                .map_err(|error| Failure::new("cannot list the tree").because(error))?;
            would.extend(names.iter().map(|entry| output.join(&entry.name)));
        } else {
            would.push(output.join(place.path()));
        }
    }
    match would.iter().find(|path| path.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(path) => Err(Failure::new(format!("{} is there already", path.display()))
            .hint("remove it, or choose another folder with -o DIR")),
    }
}
