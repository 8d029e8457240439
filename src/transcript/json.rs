//! A tolerant scanner over one JSON record.
//!
//! It accepts every line that `serde_json` accepts, and beyond them what harnesses really write: lone surrogates, bytes that are
//! no UTF-8, raw control characters inside strings, numbers of any size, any depth, duplicate keys. It copies nothing: strings
//! and skipped values come back as the places where they stand. Nothing recurses, so nesting costs memory in proportion to the
//! line and never the stack.
//!
//! A caller walks an object with [`Scanner::object`] and [`Scanner::key`], and for each key either descends, takes the string,
//! or skips the value.

use std::borrow::Cow;
use std::ops::Range;

use super::block::{plain_string_end, string_end};
use super::text::{Form, Raw};

/// The record is not JSON at this byte of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in the buffer.
    pub at: usize,
}

/// What kind of value comes next, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// Walks one record. All offsets are offsets into the whole buffer.
#[derive(Debug)]
pub struct Scanner<'a> {
    /// The whole buffer, in which the next range may be anywhere.
    whole: &'a [u8],
    /// The buffer up to the end of the range.
    buffer: &'a [u8],
    at: usize,
    /// Closing brackets that a skip still owes; kept to be used again.
    owed: Vec<u8>,
}

type Scan<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    /// A scanner over this range of the buffer.
    pub fn new(buffer: &'a [u8], range: Range<usize>) -> Self {
        let mut scanner = Self {
            whole: buffer,
            buffer,
            at: 0,
            owed: Vec::new(),
        };
        scanner.reset(range);
        scanner
    }

    /// Starts anew on another range, which saves the allocation.
    pub fn reset(&mut self, range: Range<usize>) {
        self.buffer = &self.whole[..range.end.min(self.whole.len())];
        self.at = range.start.min(self.buffer.len());
        self.owed.clear();
    }

    /// Where the scanner stands.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The bytes of a range that the scanner gave out.
    pub fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        &self.buffer[range.clone()]
    }

    /// Whether nothing but white space is left.
    pub fn at_end(&mut self) -> bool {
        self.next().is_none()
    }

    /// What comes next.
    #[inline]
    pub fn kind(&mut self) -> Scan<Kind> {
        match self.next() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(Kind::Scalar),
            _ => self.malformed(),
        }
    }

    /// Enters an object. Then [`Scanner::key`] gives its keys one by one.
    pub fn object(&mut self) -> Scan<Members> {
        self.expect(b'{')?;
        Ok(Members { first: true })
    }

    /// The next key of the object, the scanner standing at its value; none at the end of the object.
    #[inline]
    pub fn key(&mut self, members: &mut Members) -> Scan<Option<Cow<'a, [u8]>>> {
        if !self.step(members, b'}')? {
            return Ok(None);
        }
        let (range, is_plain) = self.quoted()?;
        self.expect(b':')?;
        let bytes = &self.buffer[range];
        Ok(Some(if is_plain {
            Cow::Borrowed(bytes)
        } else {
            let form = Form::JsonString;
            Raw { bytes, form }.decode()
        }))
    }

    /// Enters an array. Then [`Scanner::item`] steps from value to value.
    pub fn array(&mut self) -> Scan<Members> {
        self.expect(b'[')?;
        Ok(Members { first: true })
    }

    /// Steps to the next value of the array; false at its end.
    pub fn item(&mut self, members: &mut Members) -> Scan<bool> {
        self.step(members, b']')
    }

    /// The string that comes next: the range between its quotes, escapes as stored.
    #[inline]
    pub fn string(&mut self) -> Scan<Range<usize>> {
        Ok(self.quoted()?.0)
    }

    /// The string that comes next, and whether it is known to hold no escape.
    #[inline]
    fn quoted(&mut self) -> Scan<(Range<usize>, bool)> {
        self.expect(b'"')?;
        let start = self.at;
        // Most strings are keys and short values.
        if let Some(end) = plain_string_end(self.buffer, start) {
            self.at = end + 1;
            return Ok((start..end, true));
        }
        Ok((start..self.end_of_string(start)?, false))
    }

    fn end_of_string(&mut self, start: usize) -> Scan<usize> {
        let Some(end) = string_end(self.buffer, start) else {
            self.at = self.buffer.len();
            return self.malformed();
        };
        self.at = end + 1;
        Ok(end)
    }

    /// Skips whatever value comes next and gives the range that it takes.
    #[inline]
    pub fn skip(&mut self) -> Scan<Range<usize>> {
        let next = self.next();
        let start = self.at;
        match next {
            Some(b'"') => {
                self.quoted()?;
            }
            Some(b'{' | b'[') => self.skip_nested()?,
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    fn skip_nested(&mut self) -> Scan<()> {
        self.owed.clear();
        loop {
            // A value is due here.
            match self.next() {
                Some(b'"') => {
                    self.quoted()?;
                }
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    let close = if open == b'{' { b'}' } else { b']' };
                    self.owed.push(close);
                    if self.next() != Some(close) {
                        if open == b'{' {
                            self.skip_key()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has ended: close what ends with it, or step to the next one.
            loop {
                let Some(&close) = self.owed.last() else {
                    return Ok(());
                };
                match self.next() {
                    Some(b',') => {
                        self.at += 1;
                        if close == b'}' {
                            self.skip_key()?;
                        }
                        break;
                    }
                    Some(byte) if byte == close => {
                        self.at += 1;
                        self.owed.pop();
                    }
                    _ => return self.malformed(),
                }
            }
        }
    }

    #[inline]
    fn skip_key(&mut self) -> Scan<()> {
        self.quoted()?;
        self.expect(b':')
    }

    /// A number or a literal. A number is any run of the characters that numbers are made of: a strange one costs no line.
    fn scalar(&mut self) -> Scan<()> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let literal = match rest.first() {
            Some(b't') => &b"true"[..],
            Some(b'f') => b"false",
            Some(b'n') => b"null",
            _ => return self.number(rest),
        };
        if !rest.starts_with(literal) {
            return self.malformed();
        }
        self.at += literal.len();
        Ok(())
    }

    fn number(&mut self, rest: &[u8]) -> Scan<()> {
        let (mut len, mut has_digit) = (0, false);
        for byte in rest {
            match byte {
                b'0'..=b'9' => has_digit = true,
                b'-' | b'+' | b'.' | b'e' | b'E' => {}
                _ => break,
            }
            len += 1;
        }
        if !has_digit {
            return self.malformed();
        }
        self.at += len;
        Ok(())
    }

    #[inline]
    fn step(&mut self, members: &mut Members, close: u8) -> Scan<bool> {
        let first = std::mem::replace(&mut members.first, false);
        match self.next() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => self.malformed(),
        }
    }

    /// The next byte that is no white space, the scanner standing at it.
    #[inline]
    fn next(&mut self) -> Option<u8> {
        match self.buffer.get(self.at) {
            // A harness writes no white space between values, as a rule.
            Some(&byte) if byte > b' ' => Some(byte),
            _ => self.next_behind_space(),
        }
    }

    #[cold]
    fn next_behind_space(&mut self) -> Option<u8> {
        loop {
            match self.buffer.get(self.at).copied() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                other => return other,
            }
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.next() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            self.malformed()
        }
    }

    fn malformed<T>(&self) -> Scan<T> {
        Err(Malformed { at: self.at })
    }
}

/// Where a walk through an object or array stands: before its first member or after one.
#[derive(Debug)]
pub struct Members {
    first: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(line: &[u8]) -> bool {
        let mut scanner = Scanner::new(line, 0..line.len());
        scanner.skip().is_ok() && scanner.at_end()
    }

    #[test]
    fn takes_what_serde_json_refuses() {
        for line in [
            &br#"{"a":"cut \ud83d"}"#[..],
            b"{\"a\":\"\xff\xfe\"}",
            b"{\"a\":\"\x00\x1b\"}",
            br#"{"a":1e400,"b":123456789012345678901234567890}"#,
            br#"{"a":1,"a":2}"#,
        ] {
            assert!(accepts(line), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn refuses_what_is_no_record() {
        for line in [
            &br#"{"a":1"#[..],
            br#"{"a" 1}"#,
            br#"{"a":1}}"#,
            br#"{"a":[1}]"#,
            br#"{"a":1,}"#,
            br#"{"a":"80d{"a":"b"}"#,
            b"",
            b"nul",
            b"{,}",
        ] {
            assert!(!accepts(line), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn nesting_of_a_million_costs_no_stack() {
        let mut line = vec![b'['; 1_000_000];
        line.extend(std::iter::repeat_n(b']', 1_000_000));
        assert!(accepts(&line));
        line.pop();
        assert!(!accepts(&line));
    }
}
