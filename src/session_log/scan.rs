//! One pass over the frames of a log: each is verified before anything is made of it.

use super::frame::{EVENT, FOOTER, HEAD, HEADER, Head, MAGIC};
use super::payload::{decode_event, decode_header};
use super::window::{ReadAt, Window, read_all};
use super::{Event, Fault, Header, LogError, Role, tail};
use std::io;
use std::ops::Range;
use std::path::Path;

/// What has been verified of a log, up to some byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Where the next frame begins; 0 if not even the magic was seen.
    pub(super) at: u64,
    pub(super) header: Option<Header>,
    /// How many events there are.
    pub(super) events: u64,
    /// Position and frame of each event that names an object.
    pub(super) objects: Vec<ObjectEvent>,
    pub(super) sealed: bool,
}

/// An event that names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectEvent {
    pub(super) position: u64,
    /// Where its frame begins.
    pub(super) offset: u64,
}

/// A verified frame.
#[derive(Debug)]
pub(crate) enum Found {
    /// The header.
    Header,
    /// An event.
    Event {
        /// It.
        event: Event,
        /// Where its frame begins.
        offset: u64,
        /// Where its payload stands.
        payload: Range<u64>,
    },
    /// The footer.
    Footer,
}

/// Why a scan cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The log is damaged.
    Fault {
        /// Where the frame begins that is wrong.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// The file cannot be read.
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

impl Stop {
    pub(super) fn into_error(self, path: &Path) -> LogError {
        let path = path.to_path_buf();
        match self {
            Self::Fault { offset, fault } => LogError::Corrupt {
                path,
                offset,
                fault,
            },
            Self::Read { offset, source } => LogError::Read {
                path,
                offset,
                source,
            },
        }
    }
}

/// A pass over the frames between what is known already and the end.
pub(crate) struct Scan<'a, S: ?Sized> {
    source: &'a S,
    id: &'a str,
    window: Window,
    end: u64,
    known: Known,
}

impl<'a, S: ReadAt + ?Sized> Scan<'a, S> {
    /// A pass over a whole log of this length, of the session of this ID.
    pub(crate) fn new(source: &'a S, id: &'a str, end: u64) -> Self {
        Self::resume(source, id, Known::default(), end)
    }

    /// A pass over what came after `known`.
    pub(super) fn resume(source: &'a S, id: &'a str, known: Known, end: u64) -> Self {
        Self {
            source,
            id,
            window: Window::new(end),
            end,
            known,
        }
    }

    pub(super) fn into_known(self) -> Known {
        self.known
    }

    /// The header, once it was found.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.known.header.as_ref()
    }

    /// Whether the footer was found.
    pub(crate) fn sealed(&self) -> bool {
        self.known.sealed
    }

    /// The byte up to which the log is verified.
    pub(crate) fn at(&self) -> u64 {
        self.known.at
    }

    /// Bytes between what is verified and the end; after the last frame those of an incomplete one.
    pub(crate) fn rest(&self) -> u64 {
        self.end.saturating_sub(self.known.at)
    }

    /// The next frame; none at the end, and before an incomplete last frame.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, Stop> {
        if self.known.at == 0 {
            self.magic()?;
        }
        let offset = self.known.at;
        let fault = |fault| Stop::Fault { offset, fault };
        let read = |source| Stop::Read { offset, source };
        let rest = self.end.saturating_sub(offset);
        let incomplete = |scan: &Self| match scan.known.header {
            Some(_) => Ok(None),
            None => Err(fault(Fault::NoHeader)),
        };
        if rest < HEAD as u64 {
            return incomplete(self);
        }
        let head = self.window.get(self.source, offset, HEAD).map_err(read)?;
        let Some(head) = Head::parse(head) else {
            return incomplete(self);
        };
        let start = offset + HEAD as u64;
        let Some(end) = start.checked_add(head.length) else {
            return Err(fault(Fault::Length(head.length)));
        };
        if end > self.end {
            if let Some(damage) = tail::judge(self.source, offset, &head, self.end)? {
                return Err(fault(damage));
            }
            return incomplete(self);
        }
        let payload = self.payload(start, &head).map_err(read)?;
        let payload = payload.ok_or_else(|| fault(Fault::Checksum))?;
        let found = self.take(head.kind, &payload, offset, start..end);
        let found = found.map_err(fault)?;
        self.known.at = end;
        Ok(Some(found))
    }

    fn magic(&mut self) -> Result<(), Stop> {
        let length = MAGIC.len();
        let read = |source| Stop::Read { offset: 0, source };
        let right = self.end >= length as u64
            && self.window.get(self.source, 0, length).map_err(read)? == MAGIC;
        if !right {
            return Err(Stop::Fault {
                offset: 0,
                fault: Fault::Magic,
            });
        }
        self.known.at = length as u64;
        Ok(())
    }

    /// The payload of a frame that is there whole; none if the checksum does not match. What is large is checked before
    /// memory is taken for it.
    fn payload(&mut self, start: u64, head: &Head) -> io::Result<Option<Vec<u8>>> {
        let checksum = self.window.checksum(self.source, start, head.length)?;
        if checksum != head.checksum {
            return Ok(None);
        }
        if head.length <= Window::MOST {
            let bytes = self.window.get(self.source, start, head.length as usize)?;
            return Ok(Some(bytes.to_vec()));
        }
        read_all(self.source, start, head.length).map(Some)
    }

    fn take(
        &mut self,
        kind: u8,
        bytes: &[u8],
        offset: u64,
        payload: Range<u64>,
    ) -> Result<Found, Fault> {
        let known = &mut self.known;
        match kind {
            HEADER | EVENT | FOOTER if known.sealed => Err(Fault::AfterFooter(kind)),
            HEADER if known.header.is_some() => Err(Fault::SecondHeader),
            HEADER => {
                let header = decode_header(bytes)?;
                if header.session_id != self.id {
                    return Err(Fault::Identity {
                        file: self.id.to_owned(),
                        header: header.session_id,
                    });
                }
                known.header = Some(header);
                Ok(Found::Header)
            }
            EVENT | FOOTER if known.header.is_none() => Err(Fault::NotHeader(kind)),
            EVENT => {
                let event = decode_event(bytes)?;
                if event.role == Role::PendingObject {
                    known.objects.push(ObjectEvent {
                        position: known.events,
                        offset,
                    });
                }
                known.events += 1;
                Ok(Found::Event {
                    event,
                    offset,
                    payload,
                })
            }
            FOOTER if !bytes.is_empty() => Err(Fault::FooterPayload(bytes.len() as u64)),
            FOOTER => {
                known.sealed = true;
                Ok(Found::Footer)
            }
            _ => Err(Fault::Kind(kind)),
        }
    }
}
