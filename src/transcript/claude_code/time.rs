//! When a line was written.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Reads a time in the form that JavaScript gives it, `2025-10-01T10:00:00.547Z`. None for any other form, which may still be a time.
pub(super) fn usual(text: &[u8]) -> Option<Timestamp> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let marks = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ];
    if marks.iter().any(|&(at, mark)| text[at] != mark) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0i16, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| 10 * number + i16::from(digit - b'0'))
        })
    };
    let two = |at: usize| number(&text[at..at + 2]).map(|number| number as i8);
    let nanosecond = i32::from(number(&text[20..23])?) * 1_000_000;
    let at = DateTime::new(
        number(&text[..4])?,
        two(5)?,
        two(8)?,
        two(11)?,
        two(14)?,
        two(17)?,
        nanosecond,
    );
    Offset::UTC.to_timestamp(at.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is read here is what the library reads.
        #[test]
        fn a_time_is_the_same_read_either_way(text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9][.][0-9]{3}Z") {
            let whole: Option<Timestamp> = text.parse().ok();
            let usual = usual(text.as_bytes());
            // A leap second is left to the library.
            prop_assert!(usual == whole || (usual.is_none() && text[17..19] == *"60"));
        }
    }

    #[test]
    fn another_form_is_left_to_the_library() {
        for text in [
            "",
            "2025-10-01T10:00:00Z",
            "2025-10-01 10:00:00.547Z",
            "2025-10-01T10:00:00.547+",
            "2025-13-01T10:00:00.547Z",
            "2025-1\u{663}-1T10:00:00.547Z",
        ] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
        }
    }
}
