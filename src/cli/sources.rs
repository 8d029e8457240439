//! Where a command's sessions come from, and which one of them it means.

use super::{Failure, output};
use crate::cache::Cache;
use crate::fuse::point;
use crate::store::{SessionFiles, Source, SourceError, Store};
use crate::transcript::display;
use crate::tree::{Options, Tree};
use rayon::prelude::*;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The option of commands that take no positional sources.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// A folder that holds sessions, as often as needed; by default where the harness keeps them
    #[arg(long = "source", value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    outright: Outright,
}

impl SourceArgs {
    /// Opens the sources.
    pub(super) fn open(&self) -> Result<Opened, Failure> {
        let sources = recognise(&self.folders, &self.outright)?;
        Ok(Opened(Arc::new(Store::new(sources))))
    }
}

/// Options that say outright what a folder holds, which is then not recognised by what lies there.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Outright {
    /// A folder of transcripts, whatever it looks like; as often as needed
    #[arg(long, value_name = "DIR")]
    transcripts: Vec<PathBuf>,
    /// A folder of framed session logs, whatever it looks like; as often as needed
    #[arg(long, value_name = "DIR")]
    logs: Vec<PathBuf>,
    /// A record of messages between sessions, whatever it looks like; as often as needed. It needs no other source
    #[arg(long, value_name = "DIR")]
    record: Vec<PathBuf>,
}

impl Outright {
    /// Whether no folder is given so.
    pub(super) fn is_empty(&self) -> bool {
        self.transcripts.is_empty() && self.logs.is_empty() && self.record.is_empty()
    }

    /// The same with other paths.
    pub(super) fn each(
        &self,
        change: impl Fn(&[PathBuf]) -> Result<Vec<PathBuf>, Failure>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            transcripts: change(&self.transcripts)?,
            logs: change(&self.logs)?,
            record: change(&self.record)?,
        })
    }

    fn sources(&self) -> impl Iterator<Item = Result<Source, Failure>> {
        let transcripts = self.transcripts.iter();
        let transcripts = transcripts.map(|folder| usable(folder, Source::transcripts));
        let logs = self.logs.iter().map(|folder| usable(folder, Source::logs));
        let record = self
            .record
            .iter()
            .map(|folder| usable(folder, Source::record));
        transcripts.chain(logs).chain(record)
    }
}

/// Recognises these folders and takes those of which is said what they hold; with none of both, the default places that are
/// there.
pub(super) fn recognise(folders: &[PathBuf], outright: &Outright) -> Result<Vec<Source>, Failure> {
    let given = folders.iter().map(|folder| one(folder));
    let given: Vec<Source> = given.chain(outright.sources()).collect::<Result<_, _>>()?;
    if !given.is_empty() {
        return Ok(given);
    }
    let absolute = |place| std::path::absolute(&place).unwrap_or(place);
    let places: Vec<PathBuf> = Source::default_places_here()
        .into_iter()
        .map(absolute)
        .collect();
    let there: Vec<&PathBuf> = places.iter().filter(|place| place.is_dir()).collect();
    let record = super::record::default_directory().map(absolute);
    let record = record.filter(|place| place.is_dir());
    if there.is_empty() && record.is_none() {
        let places: Vec<String> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        let why = if places.is_empty() {
            "neither HOME nor CLAUDE_CONFIG_DIR says where to look".to_owned()
        } else {
            format!("there is no {}", places.join(" and no "))
        };
        return Err(Failure::new(format!("no sessions here: {why}"))
            .hint("name a folder that holds sessions, or write a sample store: sessionfs demo"));
    }
    let there = there.into_iter().map(|place| one(place));
    let record = record.iter().map(|place| usable(place, Source::record));
    there.chain(record).collect()
}

fn one(folder: &Path) -> Result<Source, Failure> {
    usable(folder, Source::recognise)
}

/// Makes a source of a folder, unless it lies in a mount of ours.
fn usable(
    folder: &Path,
    make: fn(&Path) -> Result<Source, SourceError>,
) -> Result<Source, Failure> {
    refuse_own_mount(folder)?;
    make(folder).map_err(|error| {
        let hint = error.hint();
        let failure = Failure::new("cannot use this source").because(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// What a mount of ours shows is made from sessions and would be misread as some.
fn refuse_own_mount(folder: &Path) -> Result<(), Failure> {
    let Some(mount) = point::mount_of_ours(folder) else {
        return Ok(());
    };
    let what = format!(
        "cannot use this source: {} lies in the sessionfs mount on {}",
        folder.display(),
        mount.point.display()
    );
    Err(if mount.is_dead {
        let unmount = format!(
            "unmount it: sessionfs unmount {}",
            output::shell_word(&mount.point)
        );
        Failure::new(format!("{what}, whose process has died")).hint(unmount)
    } else {
        Failure::new(format!("{what}, which shows sessions and stores none"))
            .hint("give the folder that it was mounted from")
    })
}

/// Sources that were opened.
pub(super) struct Opened(Arc<Store>);

impl Opened {
    /// These sources without the sessions of these IDs or beginnings of IDs. An ID that no session has yet keeps it out
    /// when it comes.
    pub(super) fn excluding(sources: Vec<Source>, excluded: &[String]) -> Result<Self, Failure> {
        let all = Self(Arc::new(Store::new(sources.clone())));
        if excluded.is_empty() {
            return Ok(all);
        }
        let index = all.0.index();
        let mut ids = Vec::new();
        for wanted in excluded {
            if index.ids().any(|id| id.starts_with(wanted)) {
                ids.push(resolve(index.ids(), wanted)?);
            } else {
                tracing::warn!("{}: there is no such session yet", display::line(wanted));
                ids.push(wanted.clone());
            }
        }
        Ok(Self(Arc::new(Store::new(sources).excluding(ids))))
    }

    /// The store over them.
    pub(super) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0)
    }

    /// Where runs over them remember something; none where there is no such place, or it lies below one of them, where nothing
    /// is ever written.
    pub(super) fn cache(&self) -> Option<Cache> {
        let cache = Cache::here(&self.0.identity())?;
        self.refuse_below(cache.folder()).ok()?;
        Some(cache)
    }

    /// The directories in which their sessions lie, also those to which links lead.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        self.0.places()
    }

    /// Their directories.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        let sources = self.0.sources().iter();
        sources.map(|source| source.root().to_path_buf()).collect()
    }

    /// The files of every session, sorted by ID.
    pub(super) fn sessions(&self) -> Vec<SessionFiles> {
        self.warn();
        let index = self.0.index();
        // One that vanished since is no session any more.
        let ids: Vec<&str> = index.ids().collect();
        let files = ids.into_par_iter();
        let files = files.filter_map(|id| self.0.files_alone(&index, id));
        files.collect()
    }

    /// The ID of the session that a person means by it, or by a beginning of it.
    ///
    /// What is wrong with other files is said only where there is no such session: it may lie in them.
    pub(super) fn resolve(&self, wanted: &str) -> Result<String, Failure> {
        let index = self.0.index();
        resolve(index.ids(), wanted).inspect_err(|_| self.warn())
    }

    /// The files of a session that was there a moment ago.
    pub(super) fn files(&self, id: &str) -> Result<SessionFiles, Failure> {
        self.0.files(id).ok_or_else(|| {
            Failure::new(format!("session {id} is gone")).hint("sessionfs list shows the sessions")
        })
    }

    /// What a mount of them would show.
    pub(super) fn tree(&self) -> Tree {
        Tree::new(Arc::clone(&self.0), Options::default())
    }

    /// Refuses a place for output that lies below a source.
    pub(super) fn refuse_below(&self, output: &Path) -> Result<(), Failure> {
        refuse_below(&self.places(), output)
    }

    /// Says what could not be used and belongs to no session, and whether there is no session at all.
    pub(super) fn warn(&self) {
        let index = self.0.index();
        for problem in index.problems() {
            let said = display::line(&problem.to_string());
            if problem.failed {
                tracing::error!("{said}");
            } else {
                tracing::warn!("{said}");
            }
        }
        if index.is_empty() {
            tracing::warn!("no sessions in these sources");
        }
    }

    /// How many folders and files could not be read, so that nobody knows which sessions are there.
    pub(super) fn unread(&self) -> usize {
        let index = self.0.index();
        index.problems().iter().filter(|p| p.failed).count()
    }
}

/// Refuses a place for output that lies below one of the default places of sessions.
pub(super) fn refuse_below_defaults(output: &Path) -> Result<(), Failure> {
    let roots = Source::default_places_here();
    // One that is not there, or cannot be read, leads nowhere else.
    let sources = roots.iter().filter_map(|root| Source::recognise(root).ok());
    let linked = Store::new(sources.collect()).places();
    refuse_below(&[roots, linked].concat(), output)
}

/// Refuses a place for output that lies below one of these folders that hold sessions: no command ever writes there.
fn refuse_below(roots: &[PathBuf], output: &Path) -> Result<(), Failure> {
    let place = resolved(output).map_err(|error| {
        Failure::new(format!("cannot look at {}", output.display())).because(error)
    })?;
    let holds = |root: &&PathBuf| {
        root.canonicalize()
            .is_ok_and(|root| place.starts_with(root))
    };
    match roots.iter().find(holds) {
        None => Ok(()),
        Some(root) => Err(Failure::new(format!(
            "{} lies below the source {}, and nothing is ever written there",
            output.display(),
            root.display()
        ))
        .hint("choose another folder")),
    }
}

fn resolve<'a>(ids: impl Iterator<Item = &'a str>, wanted: &str) -> Result<String, Failure> {
    let found: Vec<&str> = ids.filter(|id| id.starts_with(wanted)).collect();
    if found.contains(&wanted) {
        return Ok(wanted.to_owned());
    }
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::new(format!("no session begins with {wanted}"))
            .hint("sessionfs list shows the sessions")),
        many => {
            let mut some = many[..many.len().min(CANDIDATES)].join(", ");
            if many.len() > CANDIDATES {
                some += ", …";
            }
            let what = format!("{wanted} begins the IDs of {} sessions: {some}", many.len());
            Err(Failure::new(what).hint("give more of the ID"))
        }
    }
}

/// How many IDs an ambiguous prefix lists.
const CANDIDATES: usize = 10;

/// Where a path is that need not be there: the part that is, without links, and the rest by its words.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let mut place = std::env::current_dir()?;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                place.pop();
            }
            part => place.push(part),
        }
        match place.canonicalize() {
            Ok(canonical) => place = canonical,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_begins_another_still_names_its_own() {
        let resolve = |wanted| resolve(["ab", "abc", "b"].into_iter(), wanted);
        assert_eq!(resolve("ab").unwrap(), "ab");
        assert_eq!(resolve("abc").unwrap(), "abc");
        assert!(resolve("a").is_err());
        assert!(resolve("c").is_err());
    }

    #[test]
    fn a_place_that_is_not_there_yet_is_seen_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("store")).unwrap();
        std::os::unix::fs::symlink("store", root.join("link")).unwrap();
        assert_eq!(
            resolved(&root.join("link/new/../out")).unwrap(),
            root.join("store/out")
        );
    }
}
