//! What may stand in a line of a document outside a fence.

use super::{Page, SafeValue};
use jiff::Timestamp;
use jiff::tz::Offset;
use std::io::Write as _;

/// Something that may stand in a line of a document outside a fence: words of ours, values that this program made, a
/// [`SafeValue`], and tuples of them. An implementation elsewhere can only compose these, because nobody gets at a page's bytes.
pub trait Inline {
    /// Appends it.
    fn write(&self, page: &mut Page);
}

/// Milliseconds, written as seconds with three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u64);

/// A digest, written as lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<'a>(pub &'a [u8]);

/// A value, or the words that say that it is not known.
#[derive(Clone, Copy, Debug)]
pub struct Or<T>(pub Option<T>, pub &'static str);

/// Values with a comma between them.
#[derive(Clone, Copy, Debug)]
pub struct List<I>(pub I);

impl Inline for &'static str {
    fn write(&self, page: &mut Page) {
        page.bytes.extend_from_slice(self.as_bytes());
    }
}

// Writing into a Vec cannot fail.
impl Inline for u64 {
    fn write(&self, page: &mut Page) {
        let _ = write!(page.bytes, "{self}");
    }
}

impl Inline for Timestamp {
    fn write(&self, page: &mut Page) {
        let at = Offset::UTC.to_datetime(*self);
        let (date, time) = (at.date(), at.time());
        let Ok(year @ 0..=9999) = u16::try_from(date.year()) else {
            let _ = write!(page.bytes, "{self:.3}");
            return;
        };
        // Every turn has one, so that they are written digit by digit.
        let mut digits = *b"0000-00-00T00:00:00.000Z";
        let mut put = |end: usize, mut number: u16, count: usize| {
            for digit in digits[end - count..end].iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
        };
        put(4, year, 4);
        for (end, number) in [
            (7, date.month()),
            (10, date.day()),
            (13, time.hour()),
            (16, time.minute()),
            (19, time.second()),
        ] {
            put(end, u16::from(number.unsigned_abs()), 2);
        }
        put(23, time.millisecond().unsigned_abs(), 3);
        page.bytes.extend_from_slice(&digits);
    }
}

impl Inline for Seconds {
    fn write(&self, page: &mut Page) {
        let _ = write!(page.bytes, "{}.{:03}", self.0 / 1000, self.0 % 1000);
    }
}

impl Inline for Hex<'_> {
    fn write(&self, page: &mut Page) {
        for byte in self.0 {
            let _ = write!(page.bytes, "{byte:02x}");
        }
    }
}

impl Inline for SafeValue<'_> {
    fn write(&self, page: &mut Page) {
        self.append(&mut page.bytes, &mut page.shown);
    }
}

impl<T: Inline> Inline for Or<T> {
    fn write(&self, page: &mut Page) {
        match &self.0 {
            Some(value) => value.write(page),
            None => self.1.write(page),
        }
    }
}

/// None is nothing at all: for what a line says only sometimes. What is not known is said with [`Or`].
impl<T: Inline> Inline for Option<T> {
    fn write(&self, page: &mut Page) {
        if let Some(value) = self {
            value.write(page);
        }
    }
}

impl<I: Iterator<Item: Inline> + Clone> Inline for List<I> {
    fn write(&self, page: &mut Page) {
        for (n, value) in self.0.clone().enumerate() {
            if n > 0 {
                ", ".write(page);
            }
            value.write(page);
        }
    }
}

macro_rules! tuple {
    ($($part:ident)+) => {
        impl<$($part: Inline),+> Inline for ($($part,)+) {
            fn write(&self, page: &mut Page) {
                #[allow(non_snake_case)]
                let ($($part,)+) = self;
                $($part.write(page);)+
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the time is, it is written as the library writes it with three decimals.
        #[test]
        fn a_time_is_written_to_the_millisecond(
            second in Timestamp::MIN.as_second()..Timestamp::MAX.as_second(),
            nanosecond in -999_999_999i32..1_000_000_000,
        ) {
            let nanosecond = if second > 0 { nanosecond.abs() } else { nanosecond };
            let at = Timestamp::new(second, nanosecond).unwrap_or_default();
            let mut page = Page::default();
            at.write(&mut page);
            prop_assert_eq!(String::from_utf8_lossy(&page.bytes), format!("{at:.3}"));
        }
    }
}
