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

use super::block::string_end;
use super::text::Raw;

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
    buffer: &'a [u8],
    at: usize,
    end: usize,
    /// Closing brackets that a skip still owes; kept to be used again.
    owed: Vec<u8>,
}

type Scan<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    /// A scanner over this range of the buffer.
    pub fn new(buffer: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(buffer.len());
        Self {
            buffer,
            at: range.start.min(end),
            end,
            owed: Vec::new(),
        }
    }

    /// Starts anew on another range, which saves the allocation.
    pub fn reset(&mut self, range: Range<usize>) {
        self.end = range.end.min(self.buffer.len());
        self.at = range.start.min(self.end);
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
        self.space();
        self.at == self.end
    }

    /// What comes next.
    pub fn kind(&mut self) -> Scan<Kind> {
        self.space();
        match self.peek() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(Kind::Scalar),
            _ => self.malformed(),
        }
    }

    /// Enters an object. Then [`Scanner::key`] gives its keys one by one.
    pub fn object(&mut self) -> Scan<Members> {
        self.space();
        self.expect(b'{')?;
        Ok(Members { first: true })
    }

    /// The next key of the object, the scanner standing at its value; none at the end of the object.
    pub fn key(&mut self, members: &mut Members) -> Scan<Option<Cow<'a, [u8]>>> {
        if !self.step(members, b'}')? {
            return Ok(None);
        }
        let range = self.string()?;
        self.space();
        self.expect(b':')?;
        let raw = Raw {
            bytes: &self.buffer[range],
            form: super::text::Form::JsonString,
        };
        Ok(Some(raw.decode()))
    }

    /// Enters an array. Then [`Scanner::item`] steps from value to value.
    pub fn array(&mut self) -> Scan<Members> {
        self.space();
        self.expect(b'[')?;
        Ok(Members { first: true })
    }

    /// Steps to the next value of the array; false at its end.
    pub fn item(&mut self, members: &mut Members) -> Scan<bool> {
        self.step(members, b']')
    }

    /// The string that comes next: the range between its quotes, escapes as stored.
    pub fn string(&mut self) -> Scan<Range<usize>> {
        self.space();
        self.expect(b'"')?;
        let start = self.at;
        if let Some(end) = string_end(&self.buffer[..self.end], start) {
            self.at = end + 1;
            Ok(start..end)
        } else {
            self.at = self.end;
            self.malformed()
        }
    }

    /// Skips whatever value comes next and gives the range that it takes.
    pub fn skip(&mut self) -> Scan<Range<usize>> {
        self.space();
        let start = self.at;
        self.owed.clear();
        loop {
            // A value is due here.
            self.space();
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    self.owed.push(if open == b'{' { b'}' } else { b']' });
                    self.space();
                    if self.peek() != self.owed.last().copied() {
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
                    return Ok(start..self.at);
                };
                self.space();
                match self.peek() {
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

    fn skip_key(&mut self) -> Scan<()> {
        self.string()?;
        self.space();
        self.expect(b':')
    }

    /// A number or a literal. A number is any run of the characters that numbers are made of: a strange one costs no line.
    fn scalar(&mut self) -> Scan<()> {
        let rest = &self.buffer[self.at..self.end];
        for literal in [&b"true"[..], b"false", b"null"] {
            if rest.starts_with(literal) {
                self.at += literal.len();
                return Ok(());
            }
        }
        let number = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = rest.iter().take_while(|b| number(b)).count();
        if len == 0 || !rest[..len].iter().any(u8::is_ascii_digit) {
            return self.malformed();
        }
        self.at += len;
        Ok(())
    }

    fn step(&mut self, members: &mut Members, close: u8) -> Scan<bool> {
        self.space();
        let first = std::mem::replace(&mut members.first, false);
        match self.peek() {
            Some(byte) if byte == close && first => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if first => Ok(true),
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.malformed(),
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        if self.at < self.end {
            Some(self.buffer[self.at])
        } else {
            None
        }
    }

    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.peek() == Some(byte) {
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
    use proptest::prelude::*;

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

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::hash_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Reads a value with the scanner alone, so that every string that it gives out is compared.
    fn read(scanner: &mut Scanner<'_>) -> Scan<serde_json::Value> {
        Ok(match scanner.kind()? {
            Kind::String => {
                let range = scanner.string()?;
                let raw = Raw {
                    bytes: scanner.bytes(&range),
                    form: super::super::text::Form::JsonString,
                };
                raw.to_text().into()
            }
            Kind::Object => {
                let mut members = scanner.object()?;
                let mut map = serde_json::Map::new();
                while let Some(key) = scanner.key(&mut members)? {
                    let key = String::from_utf8_lossy(&key).into_owned();
                    map.insert(key, read(scanner)?);
                }
                map.into()
            }
            Kind::Array => {
                let mut members = scanner.array()?;
                let mut list = Vec::new();
                while scanner.item(&mut members)? {
                    list.push(read(scanner)?);
                }
                list.into()
            }
            Kind::Scalar => {
                let range = scanner.skip()?;
                serde_json::from_slice(scanner.bytes(&range)).expect("a scalar of serde_json's own")
            }
        })
    }

    proptest! {
        /// serde_json is the oracle: what it writes reads back equal.
        #[test]
        fn reads_what_serde_json_writes(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("a value");
            let mut scanner = Scanner::new(text.as_bytes(), 0..text.len());
            prop_assert_eq!(read(&mut scanner).expect("accepted"), value);
            prop_assert!(scanner.at_end());
            prop_assert!(accepts(text.as_bytes()));
        }

        /// No input panics, and what serde_json accepts is accepted.
        #[test]
        fn accepts_at_least_what_serde_json_accepts(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0019dtruefalsn -.e\n\xff".to_vec()), 0..60)) {
            let serde = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
            prop_assert!(accepts(&bytes) || !serde);
        }
    }
}
