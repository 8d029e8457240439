//! Opening a log for writing: everything is verified first, and only then is the disk changed.

use super::files::{Files, open_to_append};
use super::lock::{self, FileLock};
use super::scan::{Known, Scan};
use super::{LogError, SessionLog, SessionLogStore, name, read_object_head};
use crate::store::log_name::{Sidecar, sidecar};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// What opening a log mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an incomplete last frame that were cut off the log.
    pub cut: u64,
    /// File names of objects that no event named and of unfinished ones, which were removed.
    pub removed: Vec<String>,
}

/// Opens, verifies and mends a log.
pub(super) fn open(store: &SessionLogStore, id: &str) -> Result<SessionLog, LogError> {
    let directory = store.directory();
    let path = name::log_path(directory, id)?;
    let process = lock::of_process(&path)?;
    let held = process.lock().unwrap_or_else(PoisonError::into_inner);
    let file = Arc::new(open_to_append(&path)?);
    let locked = FileLock::wait(&file, &path)?;
    super::writer::check_place(&file, &path)?;

    let length = length(&file, &path)?;
    let known = verify(&file, &path, id, length)?;
    verify_objects(directory, id, &known)?;
    let orphans = orphans(directory, id, &known)?;

    // Nothing is wrong, so the opening will succeed; from here on the disk is changed.
    let files = store.files.as_ref();
    remove(files, directory, &orphans)?;
    let cut = length - known.at;
    if cut > 0 {
        cut_tail(files, &file, &path, known.at)?;
    }
    let recovery = Recovery {
        cut,
        removed: orphans,
    };
    drop(locked);
    drop(held);
    Ok(SessionLog::opened(
        store, id, path, file, process, known, recovery,
    ))
}

/// Cuts an incomplete last frame off and makes that durable.
pub(super) fn cut_tail(
    files: &dyn Files,
    file: &File,
    path: &Path,
    length: u64,
) -> Result<(), LogError> {
    files
        .truncate(file, length)
        .map_err(|source| LogError::io(path, "cut its incomplete last frame", source))?;
    files
        .sync(file)
        .map_err(|source| LogError::io(path, "synchronize it", source))
}

pub(super) fn length(file: &File, path: &Path) -> Result<u64, LogError> {
    let metadata = file.metadata();
    let metadata = metadata.map_err(|source| LogError::io(path, "look at it", source))?;
    Ok(metadata.len())
}

fn verify(file: &File, path: &Path, id: &str, length: u64) -> Result<Known, LogError> {
    let mut scan = Scan::new(file, id, length);
    while scan.next().map_err(|stop| stop.into_error(path))?.is_some() {}
    Ok(scan.into_known())
}

/// Verifies every object that an event names.
pub(super) fn verify_objects(directory: &Path, id: &str, known: &Known) -> Result<(), LogError> {
    for event in &known.objects {
        let path = name::object_path(directory, id, event.position)?;
        if let Err(fault) = read_object_head(&path) {
            return Err(LogError::Object {
                path,
                offset: event.offset,
                fault,
            });
        }
    }
    Ok(())
}

/// The names of the session's objects that no event names, and of those that were being written.
fn orphans(directory: &Path, id: &str, known: &Known) -> Result<Vec<String>, LogError> {
    let is_named = |position: u64| {
        let objects = &known.objects;
        let found = objects.binary_search_by_key(&position, |event| event.position);
        found.is_ok()
    };
    let mut names = sidecars(directory, id)?;
    names.retain(|(_, sidecar)| match sidecar {
        Sidecar::Object(position) => !is_named(*position),
        Sidecar::Temporary => true,
    });
    Ok(names.into_iter().map(|(name, _)| name).collect())
}

/// The files that are exactly the session's, sorted by name.
pub(super) fn sidecars(directory: &Path, id: &str) -> Result<Vec<(String, Sidecar)>, LogError> {
    let io = |source| LogError::io(directory, "list it", source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let Some(name) = name.to_str() else { continue };
        found.extend(sidecar(id, name).map(|what| (name.to_owned(), what)));
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// Removes these files and, if there are any, makes that durable.
pub(super) fn remove(
    files: &dyn Files,
    directory: &Path,
    names: &[String],
) -> Result<(), LogError> {
    for name in names {
        let path: PathBuf = directory.join(name);
        files
            .remove(&path)
            .map_err(|source| LogError::io(&path, "remove it", source))?;
    }
    if !names.is_empty() {
        files
            .sync_directory(directory)
            .map_err(|source| LogError::io(directory, "synchronize it", source))?;
    }
    Ok(())
}
