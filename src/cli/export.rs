//! `sessionfs export`: the tree as real files.

use super::content;
use super::sources::SourceArgs;
use super::{Failure, output};
use crate::tree::{NodeKind, Place, Tree, TreeError, View};
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
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
    let tree = opened.tree();
    let mut wanted = Vec::new();
    for session in &args.sessions {
        let id = opened.resolve(session)?;
        wanted.push(Place::root().join(OsStr::new("sessions")).join(OsStr::new(&id)));
    }
    let (places, results) = if wanted.is_empty() {
        let root = Place::root();
        let names = tree
            .list(&root)
            .map_err(|error| Failure::new("cannot list the tree").because(error))?;
        let places = names.iter().map(|entry| root.join(&entry.name)).collect();
        (places, vec![args.output.clone()])
    } else {
        let results = wanted.iter().map(|place| args.output.join(place.path())).collect();
        (wanted, results)
    };
    refuse_what_is_there(&args.output, &places)?;
    let mut export = Export {
        tree: &tree,
        output: &args.output,
        faults: 0,
    };
    for place in places {
        export.everything_at(place)?;
    }
    for path in results {
        output::print(format!("{}\n", path.display()).as_bytes())?;
    }
    match export.faults {
        0 => Ok(()),
        faults => Err(Failure::new(format!("{faults} file(s) could not be read; everything else is exported"))
            .hint("each is named above")),
    }
}

/// What was exported before may be of another time, and a mixture would be no session.
fn refuse_what_is_there(output: &Path, places: &[Place]) -> Result<(), Failure> {
    let there = |place: &&Place| output.join(place.path()).symlink_metadata().is_ok();
    match places.iter().find(there) {
        None => Ok(()),
        Some(place) => Err(Failure::new(format!("{} is there already", output.join(place.path()).display()))
            .hint("remove it, or choose another folder with -o DIR")),
    }
}

struct Export<'a> {
    tree: &'a Tree,
    output: &'a Path,
    /// Files that could not be read.
    faults: u64,
}

impl Export<'_> {
    /// Writes what is at a place and below it. What cannot be read is said and left out; what cannot be written ends it.
    fn everything_at(&mut self, place: Place) -> Result<(), Failure> {
        let mut waiting = vec![place];
        while let Some(place) = waiting.pop() {
            match self.one(&place)? {
                Ok(below) => waiting.extend(below),
                // A session that goes, or a turn of it, is gone in both worlds.
                Err(TreeError::NotFound(_)) => {}
                Err(error) => {
                    self.faults += 1;
                    tracing::error!("{}", crate::transcript::display::line(&error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Writes what is at a place and gives what is below it.
    fn one(&self, place: &Place) -> Result<Result<Vec<Place>, TreeError>, Failure> {
        let path = self.output.join(place.path());
        let cannot_write = |error| Failure::new(format!("cannot write {}", path.display())).because(error);
        let kind = match self.tree.kind(place) {
            Ok(kind) => kind,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(folder) = path.parent() {
            create(folder)?;
        }
        match kind {
            NodeKind::Directory => {
                create(&path)?;
                let names = self.tree.list(place);
                return Ok(names.map(|names| names.iter().map(|entry| place.join(&entry.name)).rev().collect()));
            }
            NodeKind::Link => match self.tree.target(place) {
                Ok(target) => std::os::unix::fs::symlink(target, &path).map_err(cannot_write)?,
                Err(error) => return Ok(Err(error)),
            },
            NodeKind::File => match content::current(self.tree, place) {
                Ok(version) => output::write_version(&path, &version)?,
                Err(error) => return Ok(Err(error)),
            },
        }
        Ok(Ok(Vec::new()))
    }
}

fn create(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| Failure::new(format!("cannot create {}", folder.display())).because(error))
}
