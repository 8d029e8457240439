//! A stored file as lines of bytes, and what a damaged line still holds.
//!
//! A line ends at a line feed and nowhere else. A harness that is killed, or two that write at once, leave lines that are cut,
//! glued together, or begun inside one another, and file systems leave runs of NUL bytes: each costs at most itself
//! (`formats/hard-cases.md` T42 to T44 and T50 name the shapes). [`Records`] gives every whole record of a file and a [`Damage`]
//! for every line that is not exactly one.

use std::ops::Range;

use super::json::{Kind, Scanner};
use super::thread::Damage;

/// One whole record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number, from 1, of the line that it stands on.
    pub line: u64,
    /// The record's bytes in the file: one JSON object.
    pub range: Range<usize>,
    /// Whether it was found inside a damaged line: then the reader must see whether it is a record of the harness at all, and
    /// not a piece of one.
    pub salvaged: bool,
}

/// What a reader made of a range that should be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is one whole record, and it is read.
    Read,
    /// It is JSON, but nothing that the harness writes. Only a salvaged range can be that.
    Foreign,
    /// It is not one whole JSON object. Nothing of it was kept.
    Malformed,
}

/// What [`Records`] found beside the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Lines that are not exactly one record.
    pub damage: Vec<Damage>,
    /// Bytes of an unfinished last line.
    pub tail_bytes: u64,
    /// Lines of the file, blank ones and the unfinished one included.
    pub lines: u64,
}

const CUT: &str = "cut by the next record";
const GLUED: &str = "two records on one line";
const NULS: &str = "NUL bytes before or after the record";
const ONLY_NULS: &str = "NUL bytes and no record";
const NO_OBJECT: &str = "not a JSON object";
const TOO_LONG: &str = "longer than 4 GiB";
const MALFORMED: &str = "not a whole JSON record";

/// How many times its own length a damaged line may be looked at, so that a hostile one costs linear time.
const SALVAGE_BUDGET: usize = 16;

/// Goes through a file piece by piece and calls for every record of it, in order. Whole lines are handed over unseen, so that
/// each is scanned once; only a line that is called malformed is looked at here.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// What was found so far.
    pub found: Found,
    source: u32,
    /// Where the next piece begins in the file.
    pub(super) offset: u64,
}

impl Records {
    /// At the beginning of the file with this index in the session's list of sources.
    pub fn new(source: u32) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Reads the whole lines of a piece of the file, which begins where the last one was read to. Says how many bytes of it were
    /// read: what follows them is no whole line yet, and the next piece begins with it. The records' ranges are in the piece.
    pub fn take(&mut self, piece: &[u8], mut each: impl FnMut(Record) -> Reading) -> usize {
        let mut scanner = Scanner::new(piece, 0..0);
        let mut start = self.skip_mark(piece);
        while let Some(feed) = memchr::memchr(b'\n', &piece[start..]) {
            let end = start + feed;
            self.line(piece, start..end, true, &mut scanner, &mut each);
            start = end + 1;
        }
        self.offset += start as u64;
        start
    }

    /// Reads what is left at the end of the file: a last line without a line feed counts as a line if it is one whole record,
    /// else as an unfinished tail, which is no damage.
    pub fn end(&mut self, rest: &[u8], mut each: impl FnMut(Record) -> Reading) {
        let start = self.skip_mark(rest);
        if start < rest.len() {
            let mut scanner = Scanner::new(rest, 0..0);
            self.line(rest, start..rest.len(), false, &mut scanner, &mut each);
        }
        self.offset += rest.len() as u64;
    }

    /// Where the first line of a piece begins: behind the byte order mark that a file may begin with.
    fn skip_mark(&self, piece: &[u8]) -> usize {
        let marked = self.offset == 0 && piece.starts_with(b"\xEF\xBB\xBF");
        if marked { 3 } else { 0 }
    }

    fn line(
        &mut self,
        piece: &[u8],
        line: Range<usize>,
        finished: bool,
        scanner: &mut Scanner<'_>,
        each: &mut impl FnMut(Record) -> Reading,
    ) {
        self.found.lines += 1;
        let range = trim(piece, line.clone());
        if range.is_empty() {
            return;
        }
        let number = self.found.lines;
        let (why, recovered) = if range.len() > u32::MAX as usize {
            (TOO_LONG, false)
        } else {
            let record = Record {
                line: number,
                range: range.clone(),
                salvaged: false,
            };
            if each(record) != Reading::Malformed {
                return;
            }
            if !finished {
                self.found.tail_bytes = line.len() as u64;
                return;
            }
            salvage(piece, scanner, number, &range, each)
        };
        self.found.damage.push(Damage {
            source: self.source,
            line: number,
            offset: self.offset + line.start as u64,
            why,
            recovered,
        });
    }
}

/// Finds the whole records of a line that is not exactly one. Says what is wrong with it, and whether a record was recovered.
fn salvage(
    buffer: &[u8],
    scanner: &mut Scanner<'_>,
    number: u64,
    line: &Range<usize>,
    each: &mut impl FnMut(Record) -> Reading,
) -> (&'static str, bool) {
    let without_nuls = trim_nuls(buffer, line.clone());
    if without_nuls.is_empty() {
        return (ONLY_NULS, false);
    }
    let mut read = |range| {
        each(Record {
            line: number,
            range,
            salvaged: true,
        }) == Reading::Read
    };
    let whole = without_nuls == *line;
    let range = without_nuls;
    if let Some(pieces) = glued(scanner, range.clone()) {
        let why = if whole || pieces.len() > 1 {
            GLUED
        } else {
            NULS
        };
        let recovered = pieces
            .into_iter()
            .fold(false, |any, piece| read(piece) | any);
        return (why, recovered);
    }
    let mut budget = range.len().saturating_mul(SALVAGE_BUDGET);
    for begin in record_starts(&buffer[range.clone()])
        .map(|i| range.start + i)
        .filter(|&i| i > range.start)
    {
        let Some(pieces) = glued(scanner, begin..range.end) else {
            // What was read before the scanner gave up is what this attempt cost.
            budget = budget.saturating_sub(scanner.offset().saturating_sub(begin).max(1));
            if budget == 0 {
                break;
            }
            continue;
        };
        if pieces
            .into_iter()
            .fold(false, |any, piece| read(piece) | any)
        {
            return (CUT, true);
        }
    }
    scanner.reset(range.clone());
    let object = scanner.kind() == Ok(Kind::Object);
    (if object { MALFORMED } else { NO_OBJECT }, false)
}

/// The objects that a range consists of, one directly after the other; none if it holds anything else.
fn glued(scanner: &mut Scanner<'_>, range: Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut pieces = Vec::new();
    scanner.reset(range);
    while !scanner.at_end() {
        if scanner.kind() != Ok(Kind::Object) {
            return None;
        }
        pieces.push(scanner.skip().ok()?);
    }
    Some(pieces)
}

/// Where a record may begin: harnesses write `type` or `parentUuid` first.
fn record_starts(line: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr::memmem::find_iter(line, b"{\"").filter(|&i| {
        line[i..].starts_with(b"{\"type\"") || line[i..].starts_with(b"{\"parentUuid\"")
    })
}

fn trim(buffer: &[u8], range: Range<usize>) -> Range<usize> {
    trim_by(buffer, range, |b| matches!(b, b' ' | b'\t' | b'\r'))
}

fn trim_nuls(buffer: &[u8], range: Range<usize>) -> Range<usize> {
    trim_by(buffer, range, |b| matches!(b, 0 | b' ' | b'\t' | b'\r'))
}

fn trim_by(buffer: &[u8], mut range: Range<usize>, drop: impl Fn(u8) -> bool) -> Range<usize> {
    while range.start < range.end && drop(buffer[range.start]) {
        range.start += 1;
    }
    while range.start < range.end && drop(buffer[range.end - 1]) {
        range.end -= 1;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a file that is read in pieces of this many bytes more each time.
    fn read_by(step: usize, bytes: &[u8]) -> (Vec<(u64, String)>, Found) {
        let mut list = Vec::new();
        let mut each = |piece: &[u8], record: Record| {
            let mut scanner = Scanner::new(piece, record.range.clone());
            if scanner.kind() != Ok(Kind::Object) || scanner.skip().is_err() || !scanner.at_end() {
                return Reading::Malformed;
            }
            let text = String::from_utf8_lossy(&piece[record.range.clone()]).into_owned();
            if record.salvaged && !text.contains("uuid") {
                return Reading::Foreign;
            }
            list.push((record.line, text));
            Reading::Read
        };
        let mut records = Records::new(0);
        let (mut from, mut to) = (0, 0);
        while to < bytes.len() {
            to = (to + step).min(bytes.len());
            let piece = &bytes[from..to];
            from += records.take(piece, |record| each(piece, record));
        }
        let rest = &bytes[from..];
        records.end(rest, |record| each(rest, record));
        (list, records.found)
    }

    /// The records of a file, which are the same however it is cut into pieces.
    fn read(bytes: &[u8]) -> (Vec<(u64, String)>, Found) {
        let whole = read_by(bytes.len().max(1), bytes);
        if bytes.len() < 10_000 {
            for step in [1, 2, 3, 7, 50] {
                assert_eq!(read_by(step, bytes), whole, "in pieces of {step}");
            }
        }
        whole
    }

    fn texts(list: &[(u64, String)]) -> Vec<&str> {
        list.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn fault(found: &Found) -> (u64, u64, &'static str, bool) {
        assert_eq!(found.damage.len(), 1, "{found:?}");
        let damage = &found.damage[0];
        (damage.line, damage.offset, damage.why, damage.recovered)
    }

    const A: &str = r#"{"type":"user","uuid":"a"}"#;
    const B: &str = r#"{"type":"user","uuid":"b"}"#;

    #[test]
    fn whole_lines_blank_lines_bom_and_carriage_returns() {
        let (list, found) = read(format!("\u{feff}{A}\r\n\n  \n{B}").as_bytes());
        assert_eq!(texts(&list), [A, B]);
        assert_eq!(list[1].0, 4);
        assert!(found.damage.is_empty());
        assert_eq!((found.tail_bytes, found.lines), (0, 4));
    }

    #[test]
    fn an_unfinished_last_line_is_a_tail_and_no_damage() {
        let (list, found) = read(format!("{A}\n{{\"type\":\"us").as_bytes());
        assert_eq!(texts(&list), [A]);
        assert_eq!(found.tail_bytes, 11);
        assert!(found.damage.is_empty());
    }

    #[test]
    fn two_records_on_one_line_are_two() {
        let (list, found) = read(format!("{A}\n{A}{B}\n").as_bytes());
        assert_eq!(texts(&list), [A, A, B]);
        assert_eq!(fault(&found), (2, 27, GLUED, true));
    }

    #[test]
    fn a_record_cut_by_the_next_gives_the_next() {
        for cut in [
            r#"{"type":"user","uuid":"u1","mess"#,
            r#"{"parentUuid":"80d"#,
            r#"{"type":"user","message":{"content":[{"ty"#,
        ] {
            let (list, found) = read(format!("{cut}{B}\n{A}\n").as_bytes());
            assert_eq!(texts(&list), [B, A], "{cut}");
            assert_eq!(fault(&found), (1, 0, CUT, true), "{cut}");
        }
    }

    #[test]
    fn nul_runs_cost_nothing_but_themselves() {
        let (list, found) = read(format!("\0\0\0{A}\n{B}\0\0\n\0\0\n").as_bytes());
        assert_eq!(texts(&list), [A, B]);
        let whys: Vec<_> = found
            .damage
            .iter()
            .map(|d| (d.line, d.why, d.recovered))
            .collect();
        assert_eq!(
            whys,
            [(1, NULS, true), (2, NULS, true), (3, ONLY_NULS, false)]
        );
    }

    #[test]
    fn what_is_no_record_is_said() {
        let (list, found) =
            read(format!("// note\n[1,2]\n\"text\"\n{{\"type\":1\n{A}\n").as_bytes());
        assert_eq!(texts(&list), [A]);
        let whys: Vec<_> = found.damage.iter().map(|d| (d.why, d.recovered)).collect();
        assert_eq!(
            whys,
            [
                (NO_OBJECT, false),
                (NO_OBJECT, false),
                (NO_OBJECT, false),
                (MALFORMED, false)
            ]
        );
    }

    #[test]
    fn a_block_of_a_cut_record_is_no_record() {
        let (list, found) = read(b",\"content\":[{\"type\":\"text\",\"text\":\"x\"}\n");
        assert_eq!(list, []);
        assert_eq!(fault(&found), (1, 0, NO_OBJECT, false));
    }

    #[test]
    fn a_hostile_line_is_bounded() {
        let mut line = b"{".to_vec();
        for _ in 0..200_000 {
            line.extend_from_slice(b"{\"type\":[");
        }
        line.push(b'\n');
        let (list, found) = read(&line);
        assert_eq!(list, []);
        assert_eq!(fault(&found), (1, 0, MALFORMED, false));
    }

    #[test]
    fn separators_of_other_alphabets_end_no_line() {
        let line = "{\"uuid\":\"a\u{2028}b\u{2029}c\u{85}d\"}";
        let (list, found) = read(format!("{line}\n").as_bytes());
        assert_eq!(texts(&list), [line]);
        assert_eq!(found.lines, 1);
    }
}
