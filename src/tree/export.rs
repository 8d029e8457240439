//! The tree as real files, and one file of it as a stream.

use super::{Attributes, Content, NodeKind, Place, TreeError, View};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tempfile::NamedTempFile;

/// How much is read and written at a time.
const CHUNK: usize = 1 << 20;

/// How often a file is opened anew when its session changes between its attributes and its opening.
const ATTEMPTS: usize = 5;

/// What an export wrote.
#[derive(Debug, Default)]
pub struct Exported {
    /// Files written.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Directories made or found.
    pub directories: u64,
    /// Symbolic links written.
    pub links: u64,
    /// What could not be written, each with its place in the tree; everything else was.
    pub failed: Vec<(PathBuf, ExportError)>,
}

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The tree did not give it.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Reading it failed.
    #[error("{}: cannot be read: {source}", place.display())]
    Read {
        /// The place in the tree.
        place: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Writing it failed.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Something else is where a directory must be.
    #[error("{}: something that is no directory is in the way; move it, or export to another directory", .0.display())]
    InTheWay(PathBuf),
    /// There is no space left, so nothing that follows could be written either.
    #[error("{}: cannot be written: {source}", path.display())]
    Full {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Whoever asked for it does not want it any more.
    #[error("stopped before everything was written")]
    Stopped,
}

impl ExportError {
    fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if is_full(&source) {
            Self::Full { path, source }
        } else {
            Self::Write { path, source }
        }
    }
}

/// Whether there is no space left, on the disk or for this user.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A new private file under a name of ours, to be renamed once it is whole. Its errors do not speak of that name.
pub(crate) fn new_file_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    tempfile::Builder::new()
        .prefix(".sessionfs-")
        .make_in(folder, |path| options.open(path))
}

/// A file's attributes and its content, both of one version: the current one.
pub fn open(view: &dyn View, place: &Place) -> Result<(Attributes, Arc<dyn Content>), TreeError> {
    let mut attempt = 1;
    loop {
        let attributes = view.attributes(place)?;
        match view.open(place, attributes.version) {
            Err(TreeError::Stale(_)) if attempt < ATTEMPTS => attempt += 1,
            opened => return Ok((attributes, opened?)),
        }
    }
}

/// Writes one file of the tree to a stream and says how many bytes that were.
pub fn copy(view: &dyn View, place: &Place, to: &mut dyn Write) -> Result<u64, ExportError> {
    let (_, content) = open(view, place)?;
    copy_content(&*content, place, to, Path::new("standard output"))
}

/// Writes what is at a place, and everything below, as real files below `root`, each at its own path in the tree.
///
/// Directories are made 0700, files 0600; each file appears whole or not at all, with the time of what it shows. What is
/// in `root` already and not in the tree stays. What cannot be written is listed in the result and stops nothing else;
/// the only errors are that the place is not there, that `root` cannot be written, that there is no space left, and that
/// `stop` became true: then what was written so far stays, each file of it whole.
pub fn export(
    view: &dyn View,
    place: &Place,
    root: &Path,
    stop: &AtomicBool,
) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    let kind = view.kind(place)?;
    let above = place.path().parent().unwrap_or(Path::new(""));
    make_directory(root, true)?;
    let mut path = root.to_path_buf();
    for part in above {
        path.push(part);
        make_directory(&path, false)?;
    }
    let mut directories = Vec::new();
    let mut waiting = vec![(place.clone(), kind)];
    while let Some((place, kind)) = waiting.pop() {
        let path = root.join(place.path());
        let done = match kind {
            NodeKind::File => file(view, &place, &path, stop).map(|bytes| {
                exported.files += 1;
                exported.bytes += bytes;
            }),
            NodeKind::Link => link(view, &place, &path).map(|()| exported.links += 1),
            NodeKind::Directory => directory(view, &place, &path).map(|(children, modified)| {
                exported.directories += 1;
                directories.push((path, modified));
                waiting.extend(children.into_iter().rev());
            }),
        };
        if stop.load(Ordering::Relaxed) {
            return Err(ExportError::Stopped);
        }
        if let Err(error) = done {
            if matches!(error, ExportError::Full { .. }) {
                return Err(error);
            }
            exported.failed.push((place.path().to_path_buf(), error));
        }
    }
    // A directory's time changes with each entry, so it is set last. That it cannot be set loses nothing.
    for (path, modified) in directories {
        let _ = File::open(path).and_then(|directory| directory.set_modified(modified));
    }
    Ok(exported)
}

/// The children of a directory that was made, and its time.
type Children = (Vec<(Place, NodeKind)>, SystemTime);

fn directory(view: &dyn View, place: &Place, path: &Path) -> Result<Children, ExportError> {
    let entries = view.list(place)?;
    let modified = view.attributes(place)?.modified;
    if !place.path().as_os_str().is_empty() {
        make_directory(path, false)?;
    }
    let children = entries.into_iter();
    let children = children.map(|entry| (place.join(&entry.name), entry.kind));
    Ok((children.collect(), modified))
}

fn file(
    view: &dyn View,
    place: &Place,
    path: &Path,
    stop: &AtomicBool,
) -> Result<u64, ExportError> {
    let (attributes, content) = open(view, place)?;
    let write = |source| ExportError::write(path, source);
    let mut file = new_file_in(parent(path)).map_err(write)?;
    let bytes = copy_content(&*content, place, file.as_file_mut(), path)?;
    if stop.load(Ordering::Relaxed) {
        return Err(ExportError::Stopped);
    }
    let modified = file.as_file().set_modified(attributes.modified);
    modified.map_err(write)?;
    file.persist(path).map_err(|error| write(error.error))?;
    Ok(bytes)
}

fn link(view: &dyn View, place: &Place, path: &Path) -> Result<(), ExportError> {
    let target = view.target(place)?;
    let write = |source| ExportError::write(path, source);
    tempfile::Builder::new()
        .prefix(".sessionfs-")
        .make_in(parent(path), |new| symlink(&target, new))
        .map_err(write)?
        .into_temp_path()
        .persist(path)
        .map_err(|error| write(error.error))
}

fn copy_content(
    content: &dyn Content,
    place: &Place,
    to: &mut dyn Write,
    path: &Path,
) -> Result<u64, ExportError> {
    // A live file may grow on; what it had at first is one state of it.
    let size = content.size();
    let mut at = 0;
    while at < size {
        let wanted = CHUNK.min(usize::try_from(size - at).unwrap_or(CHUNK));
        let bytes = content
            .read(at, wanted)
            .map_err(|source| ExportError::Read {
                place: place.path().to_path_buf(),
                source,
            })?;
        if bytes.is_empty() {
            break;
        }
        to.write_all(&bytes)
            .map_err(|source| ExportError::write(path, source))?;
        at += bytes.len() as u64;
    }
    Ok(at)
}

fn make_directory(path: &Path, with_parents: bool) -> Result<(), ExportError> {
    let made = DirBuilder::new()
        .recursive(with_parents)
        .mode(0o700)
        .create(path);
    match made {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_directory = std::fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
            is_directory
                .then_some(())
                .ok_or_else(|| ExportError::InTheWay(path.to_path_buf()))
        }
        Err(source) => Err(ExportError::write(path, source)),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
