//! A log as it is read: never written, never locked, its verified beginning even where it is damaged.

use super::object::read_object;
use super::scan::{Found, Known, ObjectEvent, Scan, Stop};
use super::writer::check_place;
use super::{
    Event, EventPosition, Fault, Header, LogError, ObjectHead, PendingObject, files, name,
    read_object_head,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A log as it was at one moment: its length then is the end, whatever is appended meanwhile.
#[derive(Debug)]
pub struct Snapshot {
    directory: PathBuf,
    path: PathBuf,
    id: String,
    file: File,
    length: u64,
    known: Known,
    problem: Option<Problem>,
}

/// Where a log stops being readable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The byte at which the frame begins that is wrong.
    pub offset: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What a log is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes more events.
    Open,
    /// It is complete.
    Sealed,
    /// Its last frame is not complete yet.
    InProgress,
    /// It is damaged.
    Corrupt,
}

impl State {
    /// Its name in the telemetry and the commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::InProgress => "in progress",
            Self::Corrupt => "corrupt",
        }
    }
}

/// A place in a log up to which it was read.
#[derive(Clone, Debug)]
pub struct Mark(Known);

impl Snapshot {
    /// Reads and verifies every frame of the log; the objects are verified by [`Self::objects`]. `progress` is told the byte
    /// up to which the log is verified.
    pub(super) fn open(
        directory: &Path,
        id: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, LogError> {
        let path = name::log_path(directory, id)?;
        let file = files::open_to_read(&path)?;
        let mut snapshot = Self {
            directory: directory.to_path_buf(),
            path,
            id: id.to_owned(),
            file,
            length: 0,
            known: Known::default(),
            problem: None,
        };
        snapshot.take_up(progress)?;
        Ok(snapshot)
    }

    /// Takes up what was appended since. Does nothing once a log is damaged; one that was deleted or replaced is
    /// [`LogError::Gone`].
    pub fn advance(&mut self) -> Result<(), LogError> {
        check_place(&self.file, &self.path)?;
        self.take_up(&mut |_| {})
    }

    fn take_up(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), LogError> {
        if self.problem.is_some() {
            return Ok(());
        }
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|source| LogError::io(&self.path, "look at it", source))?;
        self.length = metadata.len();
        if self.length < self.known.at {
            return Err(LogError::Shorter {
                path: self.path.clone(),
                length: self.length,
                verified: self.known.at,
            });
        }
        let known = std::mem::take(&mut self.known);
        let mut scan = Scan::resume(&self.file, &self.id, known, self.length);
        let stop = loop {
            match scan.next() {
                Ok(Some(_)) => progress(scan.at()),
                Ok(None) => break None,
                Err(stop) => break Some(stop),
            }
        };
        self.known = scan.into_known();
        match stop {
            Some(Stop::Fault { offset, fault }) => self.problem = Some(Problem { offset, fault }),
            Some(stop) => return Err(stop.into_error(&self.path)),
            None => {}
        }
        Ok(())
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header; none if the log is damaged before its end.
    pub fn header(&self) -> Option<&Header> {
        self.known.header.as_ref()
    }

    /// What the log is like.
    pub fn state(&self) -> State {
        if self.problem.is_some() {
            State::Corrupt
        } else if self.in_progress() > 0 {
            State::InProgress
        } else if self.known.sealed {
            State::Sealed
        } else {
            State::Open
        }
    }

    /// Bytes at the end that are no complete frame yet.
    pub fn in_progress(&self) -> u64 {
        match self.problem {
            Some(_) => 0,
            None => self.length.saturating_sub(self.known.at),
        }
    }

    /// Where and why the log stops being readable.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Bytes of the log.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many events are verified.
    pub fn event_count(&self) -> u64 {
        self.known.events
    }

    /// The place up to which the log was read.
    pub fn mark(&self) -> Mark {
        Mark(self.known.clone())
    }

    /// The verified events, read one at a time.
    pub fn events(&self) -> Events<'_> {
        self.events_since(Mark(Known::default()))
    }

    /// The verified events after this place.
    pub fn events_since(&self, mark: Mark) -> Events<'_> {
        // Without a header nothing is known to be a frame, and asking for the events is no error.
        let end = self.known.header.as_ref().map_or(0, |_| self.known.at);
        Events::new(&self.file, &self.path, &self.id, mark.0, end)
    }

    /// The objects that events name, each verified or with what is wrong with it.
    pub fn objects(
        &self,
    ) -> impl Iterator<Item = (EventPosition, Result<ObjectHead, LogError>)> + '_ {
        let events = self.known.objects.iter();
        events.map(|event| (EventPosition(event.position), self.head(event)))
    }

    /// How many objects events name.
    pub fn object_count(&self) -> usize {
        self.known.objects.len()
    }

    /// The object that the event at this position names, verified; none if it names none.
    pub fn object_head(&self, position: EventPosition) -> Option<Result<ObjectHead, LogError>> {
        let objects = &self.known.objects;
        let found = objects.binary_search_by_key(&position.0, |event| event.position);
        found.ok().map(|index| self.head(&objects[index]))
    }

    fn head(&self, event: &ObjectEvent) -> Result<ObjectHead, LogError> {
        let path = name::object_path(&self.directory, &self.id, event.position)?;
        read_object_head(&path).map_err(|fault| LogError::Object {
            path,
            offset: event.offset,
            fault,
        })
    }

    /// One object, verified, with its bytes.
    pub fn object(&self, position: EventPosition) -> Result<PendingObject, LogError> {
        object(&self.directory, &self.path, &self.id, &self.known, position)
    }
}

/// One object of a log, verified, with its bytes.
pub(super) fn object(
    directory: &Path,
    path: &Path,
    id: &str,
    known: &Known,
    position: EventPosition,
) -> Result<PendingObject, LogError> {
    let found = known
        .objects
        .binary_search_by_key(&position.0, |event| event.position);
    let Ok(index) = found else {
        return Err(LogError::NoObject {
            path: path.to_path_buf(),
            position: position.0,
        });
    };
    let path = name::object_path(directory, id, position.0)?;
    let offset = known.objects[index].offset;
    read_object(&path, position).map_err(|fault| LogError::Object {
        path,
        offset,
        fault,
    })
}

/// Verified events, read one at a time.
pub struct Events<'a> {
    path: &'a Path,
    /// None once there was an error.
    scan: Option<Scan<'a, File>>,
}

impl<'a> Events<'a> {
    pub(super) fn new(file: &'a File, path: &'a Path, id: &'a str, from: Known, end: u64) -> Self {
        let scan = (end > 0).then(|| Scan::resume(file, id, from, end));
        Self { path, scan }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let scan = self.scan.as_mut()?;
        while scan.rest() > 0 {
            match scan.next() {
                Ok(Some(Found::Event { event, .. })) => return Some(Ok(event)),
                Ok(Some(Found::Header | Found::Footer)) => {}
                Ok(None) => return None,
                Err(stop) => {
                    self.scan = None;
                    return Some(Err(stop.into_error(self.path)));
                }
            }
        }
        None
    }
}
