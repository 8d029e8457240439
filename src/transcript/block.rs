//! Blocks of bytes looked at as a whole: which of them are of a class, as the bits of a mask.
//!
//! The scanner and what keeps texts pass every byte of a transcript through here. A transcript's strings hold an escape every
//! few dozen bytes, so that a search that starts again behind each of them is slow; a mask does not care.

use wide::{i8x16, u8x16};

/// Bytes that are looked at together.
pub(super) const BLOCK: usize = 64;

/// Where the string that holds `at` ends, if it does within a step and before any backslash.
#[inline]
pub(super) fn plain_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let step = u8x16::new(*bytes.get(at..)?.first_chunk::<STEP>()?);
    let quotes = equal(step, b'"');
    // Below the first quote, every bit of this is set.
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && equal(step, b'\\') & before == 0).then(|| at + quotes.trailing_zeros() as usize)
}

/// Where the string that holds `at` ends: the place of its closing quote. None where `bytes` end before it does.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut escaped = false;
    while let Some(block) = bytes.get(at..)?.first_chunk::<BLOCK>() {
        let (quotes, backslashes) = quotes_and_backslashes(block);
        let ends = quotes & !escaped_by(backslashes, &mut escaped);
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
    for (i, &byte) in bytes.get(at..)?.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + i),
            _ => {}
        }
    }
    None
}

/// Bytes that are compared at once.
pub(super) const STEP: usize = 16;

/// The bytes that are not plain: control characters, DEL, the backslash, and those beyond ASCII. The first byte is the lowest bit.
#[inline]
pub(super) fn unusual(block: &[u8; BLOCK]) -> u64 {
    // Moved up by this much and seen as signed numbers, the others than those from the space to `~` are the largest.
    const UP: i8 = i8::MIN.wrapping_sub(b' '.cast_signed());
    let mut mask = 0;
    for (i, step) in block.as_chunks::<STEP>().0.iter().enumerate() {
        let bytes: i8x16 = wide::bytemuck::cast(*step);
        let outside = (bytes + i8x16::splat(UP)).simd_gt(i8x16::splat(UP.wrapping_add(0x7e)));
        let backslash = bytes.simd_eq(i8x16::splat(b'\\'.cast_signed()));
        mask |= u64::from((outside | backslash).to_bitmask()) << (STEP * i);
    }
    mask
}

#[inline]
fn quotes_and_backslashes(block: &[u8; BLOCK]) -> (u64, u64) {
    let (mut quotes, mut backslashes) = (0, 0);
    for (i, part) in block.as_chunks::<STEP>().0.iter().enumerate() {
        let bytes = u8x16::new(*part);
        quotes |= u64::from(equal(bytes, b'"')) << (STEP * i);
        backslashes |= u64::from(equal(bytes, b'\\')) << (STEP * i);
    }
    (quotes, backslashes)
}

#[inline]
fn equal(bytes: u8x16, byte: u8) -> u32 {
    bytes.simd_eq(u8x16::splat(byte)).to_bitmask()
}

/// Which bytes of a block an escape takes its meaning from: those behind a backslash that is not behind one itself.
/// `carried` says whether the first byte is one, and then whether the next block's first byte is.
#[inline]
fn escaped_by(backslashes: u64, carried: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let first = u64::from(*carried);
    if backslashes == 0 {
        *carried = false;
        return first;
    }
    // A run of backslashes that begins at an odd place escapes the byte behind it where that is at an even one, and the other
    // way round; adding the starts to the runs carries each to its end.
    let backslashes = backslashes & !first;
    let behind = backslashes << 1 | first;
    let odd_starts = backslashes & !EVEN & !behind;
    let (ends, over) = odd_starts.overflowing_add(backslashes);
    *carried = over;
    (EVEN ^ (ends << 1)) & behind
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What [`string_end`] says, one byte after the other.
    fn plainly(bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            match bytes.get(at)? {
                b'"' => return Some(at),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    proptest! {
        /// At every place of a block, with runs of backslashes over its edges.
        #[test]
        fn a_string_ends_where_it_ends_byte_by_byte(
            bytes in prop::collection::vec(prop::sample::select(b"ab\\\\\\\\\"".to_vec()), 0..300),
            plain in 0usize..70,
            start in 0usize..80,
        ) {
            let mut text = vec![b'x'; plain];
            text.extend(bytes);
            prop_assert_eq!(string_end(&text, start.min(text.len())), plainly(&text, start.min(text.len())));
        }

        #[test]
        fn the_unusual_bytes_are_marked(block in prop::array::uniform::<_, BLOCK>(any::<u8>())) {
            let expected = block.iter().enumerate().filter(|(_, b)| **b < 0x20 || **b == b'\\' || **b >= 0x7f);
            prop_assert_eq!(unusual(&block), expected.fold(0, |mask, (i, _)| mask | 1 << i));
        }
    }

    #[test]
    fn long_runs_of_backslashes_are_counted_over_blocks() {
        for run in 0..200 {
            for lead in 0..70 {
                let text = format!("{}{}\"\"", "x".repeat(lead), "\\".repeat(run));
                assert_eq!(
                    string_end(text.as_bytes(), 0),
                    plainly(text.as_bytes(), 0),
                    "{lead} {run}"
                );
            }
        }
        assert_eq!(string_end(b"abc", 3), None);
        assert_eq!(string_end(b"abc", 4), None);
    }
}
