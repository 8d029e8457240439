//! A log that is open for writing.
//!
//! Every change happens under the process's lock and the file's lock, after the handle has taken up what others appended.
//! What is verified once is remembered by length, so an append costs the same at any length of the log.

use super::files::{Files, open_to_read, write_all};
use super::frame::{EVENT, FOOTER, HEADER, MAGIC, frame};
use super::lock::{self, FileLock, ProcessLock};
use super::payload::{encode_event, encode_header};
use super::recover::{self, cut_tail, verify_objects};
use super::scan::{Known, ObjectEvent, Scan};
use super::{
    EventPosition, Events, FORMAT_VERSION, Header, LogError, PendingObject, Recovery, Role,
    SessionLogStore, name, object, reader,
};
use crate::store::log_name::LOG_SUFFIX;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// A handle on a log that is open for writing. Any number of them, in any number of processes, append to one log without
/// losing each other's events.
#[derive(Debug)]
pub struct SessionLog {
    store: SessionLogStore,
    id: String,
    path: PathBuf,
    file: Arc<File>,
    process: ProcessLock,
    known: Known,
    recovery: Recovery,
    /// Why this handle writes no more.
    pub(super) broken: Option<String>,
}

impl SessionLog {
    pub(super) fn create(
        store: &SessionLogStore,
        id: &str,
        created_at: &str,
    ) -> Result<Self, LogError> {
        let directory = store.directory();
        let path = name::log_path(directory, id)?;
        if created_at.trim().is_empty() {
            return Err(LogError::Blank {
                path,
                what: "the time of creation",
            });
        }
        let files = store.files.as_ref();
        files
            .create_directory(directory)
            .map_err(|source| LogError::io(directory, "create it", source))?;
        let process = lock::of_process(&path)?;
        let held = process.lock().unwrap_or_else(PoisonError::into_inner);
        let payload = encode_header(id, created_at)
            .map_err(|error| LogError::io(&path, "write its header", error.into()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frame(HEADER, &payload));
        let file = files.create(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => LogError::Exists { path: path.clone() },
            _ => LogError::io(&path, "create it", source),
        })?;
        let file = Arc::new(file);
        let written = FileLock::wait(&file, &path).and_then(|_locked| {
            write_once(files, &file, &path, &bytes)?;
            files
                .sync_directory(directory)
                .map_err(|source| LogError::io(directory, "synchronize it", source))
        });
        if let Err(error) = written {
            // Nobody was told that the log is there; what cannot be removed is what `delete` is for.
            let _ = files.remove(&path);
            return Err(error);
        }
        drop(held);
        let known = Known {
            at: bytes.len() as u64,
            header: Some(Header {
                format_version: FORMAT_VERSION.to_owned(),
                session_id: id.to_owned(),
                created_at: created_at.to_owned(),
            }),
            ..Known::default()
        };
        let recovery = Recovery::default();
        Ok(Self::opened(
            store, id, path, file, process, known, recovery,
        ))
    }

    pub(super) fn opened(
        store: &SessionLogStore,
        id: &str,
        path: PathBuf,
        file: Arc<File>,
        process: ProcessLock,
        known: Known,
        recovery: Recovery,
    ) -> Self {
        Self {
            store: store.clone(),
            id: id.to_owned(),
            path,
            file,
            process,
            known,
            recovery,
            broken: None,
        }
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What opening it mended.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The header; always there, since a log without one does not open.
    pub fn header(&self) -> Option<&Header> {
        self.known.header.as_ref()
    }

    /// Whether the log is sealed, as far as this handle knows.
    pub fn is_sealed(&self) -> bool {
        self.known.sealed
    }

    /// How many events this handle knows.
    pub fn event_count(&self) -> u64 {
        self.known.events
    }

    /// The events that this handle knows, read one at a time.
    pub fn events(&self) -> Events<'_> {
        Events::new(
            &self.file,
            &self.path,
            &self.id,
            Known::default(),
            self.known.at,
        )
    }

    /// One object, verified, with its bytes.
    pub fn object(&self, position: EventPosition) -> Result<PendingObject, LogError> {
        let directory = self.store.directory();
        reader::object(directory, &self.path, &self.id, &self.known, position)
    }

    /// The positions of the events that name an object.
    pub fn object_positions(&self) -> impl Iterator<Item = EventPosition> + '_ {
        let objects = self.known.objects.iter();
        objects.map(|event| EventPosition(event.position))
    }

    /// Appends one event, durable when this returns.
    pub fn append(&mut self, role: Role, text: &str) -> Result<EventPosition, LogError> {
        if role == Role::PendingObject {
            return Err(LogError::NeedsObject {
                path: self.path.clone(),
            });
        }
        let frame = self.event_frame(role, text)?;
        self.change(|log| {
            log.check_open()?;
            log.append_frame(&frame)?;
            Ok(log.count_event())
        })
    }

    /// Attaches an object with an event that names it: first the object is durable, then the event.
    pub fn attach(
        &mut self,
        text: &str,
        file_name: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<EventPosition, LogError> {
        let head = object::encode_head(&self.path, file_name, media_type, bytes)?;
        let frame = self.event_frame(Role::PendingObject, text)?;
        self.change(|log| {
            log.check_open()?;
            let path = log.write_object(&head, bytes)?;
            let offset = log.known.at;
            if let Err(error) = log.append_frame(&frame) {
                if log.broken.is_none() {
                    // The event is not there, so nothing names the object; if it stays, the next opening removes it.
                    let _ = log.store.files.remove(&path);
                }
                return Err(error);
            }
            let position = log.known.events;
            log.known.objects.push(ObjectEvent { position, offset });
            Ok(log.count_event())
        })
    }

    /// Verifies every object and makes the log complete: it takes no more events. Sealing again changes nothing.
    pub fn seal(&mut self) -> Result<(), LogError> {
        self.change(|log| {
            if log.known.sealed {
                return Ok(());
            }
            verify_objects(log.store.directory(), &log.id, &log.known)?;
            log.append_frame(&frame(FOOTER, &[]))?;
            log.known.sealed = true;
            Ok(())
        })
    }

    /// Removes the log and its objects, and makes that durable.
    pub fn delete(self) -> Result<(), LogError> {
        let process = self.process.clone();
        let _held = process.lock().unwrap_or_else(PoisonError::into_inner);
        let _locked = FileLock::wait(&self.file, &self.path)?;
        check_place(&self.file, &self.path)?;
        remove_session(&self.store, &self.id, true)
    }

    fn event_frame(&self, role: Role, text: &str) -> Result<Vec<u8>, LogError> {
        let payload = encode_event(role, text)
            .map_err(|error| LogError::io(&self.path, "write an event", error.into()))?;
        Ok(frame(EVENT, &payload))
    }

    fn check_open(&self) -> Result<(), LogError> {
        if self.known.sealed {
            return Err(LogError::Sealed {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn count_event(&mut self) -> EventPosition {
        let position = EventPosition(self.known.events);
        self.known.events += 1;
        position
    }

    /// Makes a change under both locks, with everything taken up that others appended.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        if let Some(why) = &self.broken {
            return Err(LogError::Broken {
                path: self.path.clone(),
                why: why.clone(),
            });
        }
        let process = self.process.clone();
        // A panic under this lock leaves nothing behind that the next holder does not look at again.
        let _held = process.lock().unwrap_or_else(PoisonError::into_inner);
        let _locked = FileLock::wait(&self.file, &self.path)?;
        self.take_up()?;
        change(self)
    }

    /// Verifies what others appended. An incomplete last frame is one whose writer failed: no writer of ours is at work while
    /// the lock is held.
    fn take_up(&mut self) -> Result<(), LogError> {
        check_place(&self.file, &self.path)?;
        let length = recover::length(&self.file, &self.path)?;
        let verified = self.known.at;
        if length < verified {
            return Err(LogError::Shorter {
                path: self.path.clone(),
                length,
                verified,
            });
        }
        if length == verified {
            return Ok(());
        }
        let known = std::mem::take(&mut self.known);
        let mut scan = Scan::resume(self.file.as_ref(), &self.id, known, length);
        let outcome = loop {
            match scan.next() {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(stop) => break Err(stop.into_error(&self.path)),
            }
        };
        self.known = scan.into_known();
        outcome?;
        if length > self.known.at {
            let files = self.store.files.as_ref();
            cut_tail(files, &self.file, &self.path, self.known.at)?;
        }
        Ok(())
    }

    /// Appends one frame with one write and makes it durable. If that fails, the log ends where it ended before, or this
    /// handle writes no more: a frame of which nobody knows whether it is durable must not have others behind it.
    fn append_frame(&mut self, frame: &[u8]) -> Result<(), LogError> {
        let files = self.store.files.clone();
        let written = write_once(files.as_ref(), &self.file, &self.path, frame);
        if let Err(error) = written {
            if let Err(second) = cut_tail(files.as_ref(), &self.file, &self.path, self.known.at) {
                self.broken = Some(format!("{}; {}", error.reason(), second.reason()));
            }
            return Err(error);
        }
        self.known.at += frame.len() as u64;
        Ok(())
    }

    /// Makes an object durable under its final name.
    fn write_object(&self, head: &[u8], bytes: &[u8]) -> Result<PathBuf, LogError> {
        let files = self.store.files.as_ref();
        let directory = self.store.directory();
        let position = self.known.events;
        let temporary = name::temporary_path(directory, &self.id, position)?;
        let path = name::object_path(directory, &self.id, position)?;
        let io = |doing| {
            let path = &temporary;
            move |source| LogError::io(path, doing, source)
        };
        // Left by a writer that failed: no event names it.
        match files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io("replace it")(error));
            }
            _ => {}
        }
        let file = files.create(&temporary).map_err(io("create it"))?;
        let written = write_all(files, &file, head)
            .and_then(|()| write_all(files, &file, bytes))
            .map_err(io("write it"))
            .and_then(|()| files.sync(&file).map_err(io("synchronize it")))
            .and_then(|()| {
                // What may lie there is an object whose event was never written.
                let renamed = files.rename(&temporary, &path);
                renamed.map_err(io("give it its final name"))
            });
        if let Err(error) = written {
            let _ = files.remove(&temporary);
            return Err(error);
        }
        if let Err(source) = files.sync_directory(directory) {
            let _ = files.remove(&path);
            return Err(LogError::io(directory, "synchronize it", source));
        }
        Ok(path)
    }
}

/// Removes a log in whatever state, and its objects.
pub(super) fn delete(store: &SessionLogStore, id: &str) -> Result<(), LogError> {
    let path = name::log_path(store.directory(), id)?;
    let process = lock::of_process(&path)?;
    let _held = process.lock().unwrap_or_else(PoisonError::into_inner);
    match open_to_read(&path) {
        Ok(file) => {
            let file = Arc::new(file);
            let _locked = FileLock::wait(&file, &path)?;
            check_place(&file, &path)?;
            remove_session(store, id, true)
        }
        // A deletion that was interrupted leaves objects without their log.
        Err(missing @ LogError::Missing { .. }) => {
            if recover::sidecars(store.directory(), id)?.is_empty() {
                return Err(missing);
            }
            remove_session(store, id, false)
        }
        Err(error) => Err(error),
    }
}

fn remove_session(store: &SessionLogStore, id: &str, log: bool) -> Result<(), LogError> {
    let sidecars = recover::sidecars(store.directory(), id)?;
    let log = log.then(|| format!("{id}{LOG_SUFFIX}"));
    let sidecars = sidecars.into_iter().map(|(name, _)| name);
    let names: Vec<String> = log.into_iter().chain(sidecars).collect();
    recover::remove(store.files.as_ref(), store.directory(), &names)
}

/// Refuses a file that is no longer the one at its path.
pub(super) fn check_place(file: &File, path: &Path) -> Result<(), LogError> {
    let look = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => LogError::Gone {
            path: path.to_path_buf(),
        },
        _ => LogError::io(path, "look at it", source),
    };
    let open = file.metadata().map_err(look)?;
    let there = std::fs::metadata(path).map_err(look)?;
    if (open.dev(), open.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(LogError::Gone {
            path: path.to_path_buf(),
        })
    }
}

/// Writes all of it with one write and makes it durable. Less than all of it is a failure.
fn write_once(files: &dyn Files, file: &File, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let taken = files
        .write(file, bytes)
        .map_err(|source| LogError::io(path, "append to it", source))?;
    if taken < bytes.len() {
        let short = format!("only {taken} of {} bytes were written", bytes.len());
        let source = io::Error::new(io::ErrorKind::WriteZero, short);
        return Err(LogError::io(path, "append to it", source));
    }
    files
        .sync(file)
        .map_err(|source| LogError::io(path, "synchronize it", source))
}
