//! Decoding a stored string into what is shown of it, where that is the same.
//!
//! Most texts of a transcript are shown as they decode. They pass here a block at a time; a text of which something is shown
//! otherwise is left to [`super::display`], which sees every character.

use super::block::{BLOCK, STEP, unusual};
use super::display::is_hidden;
use super::text::Escape;

/// Bytes of room that [`decode`] needs behind what it writes.
pub(super) const SLACK: usize = STRETCH;

/// A block, and as far behind it as something is read or written that does not count.
const STRETCH: usize = BLOCK + 2 * STEP;

/// Decodes the inside of a JSON string, if all of it is shown as it stands, and says how many bytes that are: no more than were
/// stored. `out` has room for as many as were stored and the slack; what it holds behind those that are counted means nothing.
pub(super) fn decode(string: &[u8], out: &mut [u8]) -> Option<usize> {
    let whole = string.len().saturating_sub(STRETCH - 1);
    let (read, written) = decode_until(whole, string, string.len(), out)?;
    // The end of the string is decoded from a copy that has room behind it.
    let end = string.get(read..)?;
    let mut copy = [0; 2 * STRETCH];
    copy.get_mut(..end.len())?.copy_from_slice(end);
    let (_, rest) = decode_until(end.len(), &copy, end.len(), out.get_mut(written..)?)?;
    Some(written + rest)
}

/// Decodes the blocks that begin before `until`, of a string that takes the first `len` bytes. Says how many bytes were read and
/// written.
fn decode_until(until: usize, bytes: &[u8], len: usize, out: &mut [u8]) -> Option<(usize, usize)> {
    let (mut read, mut written) = (0, 0);
    while read < until {
        let from = bytes.get(read..)?.first_chunk::<STRETCH>()?;
        let to = out.get_mut(written..)?.first_chunk_mut::<STRETCH>()?;
        *to = *from;
        let size = BLOCK.min(len - read);
        let mut unusual = unusual(from.first_chunk()?) & (u64::MAX >> (BLOCK - size));
        // What of the block is done with and what came of it. An escape at its end takes a byte of the next one.
        let (mut done, mut put) = (0, 0);
        while unusual != 0 {
            let next = unusual.trailing_zeros() as usize % BLOCK;
            put += next - done;
            done = next;
            let short = SHORT[usize::from(from[next + 1])];
            if from[next] != b'\\' || short == 0 || read + next + 1 >= len {
                break;
            }
            to[put % BLOCK] = short;
            put += 1;
            done += 2;
            unusual &= !(0b11 << next);
            // What follows up to the next one, in whole steps.
            let next = size.min(unusual.trailing_zeros() as usize);
            let (mut copied, mut at) = (done, put);
            loop {
                let step = from.get(copied..)?.first_chunk::<STEP>()?;
                *to.get_mut(at..)?.first_chunk_mut::<STEP>()? = *step;
                copied += STEP;
                at += STEP;
                if copied >= next {
                    break;
                }
            }
        }
        if unusual == 0 {
            put += size.saturating_sub(done);
            done = done.max(size);
        }
        read += done;
        written += put;
        if unusual != 0 {
            read += decode_rare(bytes.get(read..len)?, out, &mut written)?;
        }
    }
    Some((read, written))
}

/// By the byte behind a backslash: the character of an escape of two bytes that is shown as it stands, or zero.
const SHORT: [u8; 256] = {
    let mut short = [0; 256];
    short[b'n' as usize] = b'\n';
    short[b't' as usize] = b'\t';
    short[b'"' as usize] = b'"';
    short[b'\\' as usize] = b'\\';
    short[b'/' as usize] = b'/';
    short
};

/// Decodes the escape, the control character or the run of characters beyond ASCII that `rest` begins with, and says how many
/// bytes it takes.
fn decode_rare(rest: &[u8], out: &mut [u8], written: &mut usize) -> Option<usize> {
    let mut put = |bytes: &[u8]| {
        let end = *written + bytes.len();
        out.get_mut(*written..end)?.copy_from_slice(bytes);
        *written = end;
        Some(())
    };
    match rest.first()? {
        b'\\' => {
            let (Escape::Char(c), len) = Escape::read(rest) else {
                return None;
            };
            if is_hidden(c) {
                return None;
            }
            put(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            Some(len)
        }
        c @ (b'\n' | b'\t') => {
            put(&[*c])?;
            Some(1)
        }
        _ => {
            let len = rest.iter().position(u8::is_ascii).unwrap_or(rest.len());
            // A control character is no run.
            let run = std::str::from_utf8(&rest[..len.max(1)]).ok()?;
            // Only few first bytes can begin a hidden character; most runs hold none of them.
            if run.bytes().any(may_hide) && run.chars().any(is_hidden) {
                return None;
            }
            put(run.as_bytes())?;
            Some(run.len())
        }
    }
}

/// Whether a hidden character may begin with this byte.
fn may_hide(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, 0x7f | 0xC2 | 0xD8 | 0xE2 | 0xF3)
}
