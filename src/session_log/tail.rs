//! Is what runs past the end of the file an unfinished frame, or a frame whose length field is damaged?
//!
//! A damaged length makes everything after it look unfinished, and cutting would lose good events (`spec/session-log.md`,
//! the first of the two deliberate differences). It is damage if the rest of the file is the frame's payload, or if a complete
//! frame begins anywhere in the rest.
//!
//! The search is linear, whatever the bytes are. A payload is JSON and holds no NUL; the length field of a frame that fits into a
//! file holds one in its last byte. So a candidate whose payload holds a NUL is none, and the payloads that are left to be
//! hashed overlap only where their frames begin within one head's length of each other.

use super::Fault;
use super::frame::{Checksum, EVENT, FOOTER, HEAD, HEADER, Head, checksum};
use super::payload::{decode_event, decode_header};
use super::scan::Stop;
use super::window::{ReadAt, Window, read_all};
use std::io;

/// What is wrong with the frame that begins at `offset` and would run past `end`; none if it is just unfinished.
pub(super) fn judge<S: ReadAt + ?Sized>(
    source: &S,
    offset: u64,
    head: &Head,
    end: u64,
) -> Result<Option<Fault>, Stop> {
    let mut search = Search {
        source,
        end,
        heads: Window::new(end),
        payloads: Window::new(end),
        nul: offset,
    };
    search
        .judge(offset, head)
        .map_err(|source| Stop::Read { offset, source })
}

struct Search<'a, S: ?Sized> {
    source: &'a S,
    end: u64,
    heads: Window,
    payloads: Window,
    /// The first NUL at or after the last place that was asked for; the end if there is none.
    nul: u64,
}

impl<S: ReadAt + ?Sized> Search<'_, S> {
    fn judge(&mut self, offset: u64, head: &Head) -> io::Result<Option<Fault>> {
        let start = offset + HEAD as u64;
        if self.verifies(head.kind, start, self.end - start, &head.checksum)? {
            return Ok(Some(Fault::LengthOfLast));
        }
        let nothing = checksum(&[]);
        let mut at = offset + 1;
        while at + HEAD as u64 <= self.end {
            let bytes = self.heads.get(self.source, at, HEAD)?;
            let Some(head) = plausible(bytes, self.end - at, &nothing) else {
                at += 1;
                continue;
            };
            let start = at + HEAD as u64;
            if self.next_nul(start)? >= start + head.length
                && self.verifies(head.kind, start, head.length, &head.checksum)?
            {
                return Ok(Some(Fault::LengthBeforeFrame(at)));
            }
            at += 1;
        }
        Ok(None)
    }

    /// Whether these bytes match the checksum and are a payload of this kind.
    fn verifies(
        &mut self,
        kind: u8,
        start: u64,
        length: u64,
        expected: &Checksum,
    ) -> io::Result<bool> {
        if !matches!(kind, HEADER | EVENT | FOOTER)
            || self.payloads.checksum(self.source, start, length)? != *expected
        {
            return Ok(false);
        }
        let payload = read_all(self.source, start, length)?;
        Ok(match kind {
            HEADER => decode_header(&payload).is_ok(),
            EVENT => decode_event(&payload).is_ok(),
            _ => payload.is_empty(),
        })
    }

    /// The first NUL at or after this place, which only ever moves forward; the end if there is none.
    fn next_nul(&mut self, from: u64) -> io::Result<u64> {
        let mut at = from.max(self.nul);
        if at > from && at <= self.end {
            // What was found for an earlier place holds for every place before it.
            return Ok(at);
        }
        while at < self.end {
            let bytes = self.payloads.some(self.source, at)?;
            if let Some(found) = memchr::memchr(0, bytes) {
                at += found as u64;
                break;
            }
            at += bytes.len() as u64;
        }
        self.nul = at;
        Ok(at)
    }
}

/// The head at the beginning of these bytes, if a complete frame can begin so: the cheap part of the check.
fn plausible(bytes: &[u8], rest: u64, nothing: &Checksum) -> Option<Head> {
    if !matches!(bytes.first(), Some(&(HEADER | EVENT | FOOTER))) {
        return None;
    }
    let head = Head::parse(bytes)?;
    let fits = head.length <= rest - HEAD as u64;
    let kind = match head.kind {
        FOOTER => head.length == 0 && head.checksum == *nothing,
        _ => head.length > 0,
    };
    (fits && kind).then_some(head)
}
