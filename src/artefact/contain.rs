//! Containment: the only way into a document.
//!
//! A [`Page`] takes three things and nothing else: words of ours (`&'static str`, numbers, times that were parsed), a
//! [`SafeValue`], which it writes as a code span, and a stored text, which it writes inside a fence. A participant's string is
//! none of the first, so that writing one bare does not compile:
//!
//! ```compile_fail
//! let name: String = std::env::args().collect();
//! sessionfs::artefact::contain::Page::default().paragraph(name.as_str());
//! ```
//!
//! ```
//! use sessionfs::artefact::contain::{Page, SafeValue};
//! let name: String = "## not a heading\n".into();
//! let mut page = Page::default();
//! page.paragraph(("Tool call ", SafeValue::of(&name)));
//! assert_eq!(page.into_segments().concat(), b"Tool call `## not a heading\\u{A}`\n\n");
//! ```
//!
//! `spec/artefact.md`, "Containment", is the source of the rules.

use crate::transcript::display::{self, Shown};
use crate::transcript::text::{Buffers, Form, Raw, Segment, Text};
use memchr::memmem::Finder;
use std::sync::{Arc, LazyLock};

mod inline;
mod value;

pub use inline::{Hex, Inline, List, Or, Seconds};
pub use value::SafeValue;

/// A part of a Markdown document, and what was escaped, replaced and cut in it.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    /// Long texts that are shown as they are kept: where in `bytes` each belongs. They are not copied.
    quoted: Vec<(usize, Segment)>,
    quoted_len: usize,
    shown: Shown,
}

/// Texts of at least this many bytes are not copied into a page but referred to.
pub(super) const QUOTED: usize = 512;

#[expect(
    clippy::needless_pass_by_value,
    reason = "a line is a tuple of values, which reads better without an ampersand before it"
)]
impl Page {
    /// A page that has room for this many bytes before it must grow.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// A heading of level 1 to 6.
    pub fn heading(&mut self, level: usize, words: impl Inline) {
        self.bytes
            .extend_from_slice(&b"######"[..level.clamp(1, 6)]);
        self.bytes.push(b' ');
        self.end_with(&words, b"\n\n");
    }

    /// A paragraph of one line.
    pub fn paragraph(&mut self, words: impl Inline) {
        self.end_with(&words, b"\n\n");
    }

    /// A quote of one line: how markers are written.
    pub fn quote(&mut self, words: impl Inline) {
        self.bytes.extend_from_slice(b"> ");
        self.end_with(&words, b"\n\n");
    }

    /// One item of a list; [`Page::end_list`] ends the list.
    pub fn item(&mut self, words: impl Inline) {
        self.bytes.extend_from_slice(b"- ");
        self.end_with(&words, b"\n");
    }

    /// Ends a list or table; where nothing stands in it, there is nothing to end.
    pub fn end_list(&mut self) {
        if !self.bytes.is_empty() && !self.bytes.ends_with(b"\n\n") {
            self.bytes.push(b'\n');
        }
    }

    /// The first row of a table, and the line below it; [`Page::end_list`] ends the table.
    pub fn table(&mut self, columns: &[&'static str]) {
        for column in columns {
            self.cell(column);
        }
        self.bytes.extend_from_slice(b"|\n");
        for _ in columns {
            self.bytes.extend_from_slice(b"| --- ");
        }
        self.bytes.extend_from_slice(b"|\n");
    }

    /// One row of a table; as many cells as the table has columns.
    pub fn row(&mut self, cells: &[&dyn Inline]) {
        for cell in cells {
            self.cell(*cell);
        }
        self.bytes.extend_from_slice(b"|\n");
    }

    /// A stored text inside a fence: backticks, one more than the longest run in it and at least three, and one line break after
    /// the text. Over `limit` bytes it is cut, and a note after the fence says how much is not shown.
    pub fn fence(&mut self, text: Raw<'_>, limit: Option<usize>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"```\n");
        let text_start = self.bytes.len();
        let not_shown = match limit {
            None => {
                display::write(text, &mut self.bytes, &mut self.shown);
                0
            }
            Some(limit) => display::write_up_to(limit, text, &mut self.bytes, &mut self.shown),
        };
        // Longer runs than the usual fence are rare, so that the text is moved only then.
        let run = longest_run(&self.bytes[text_start..]);
        let backticks = run.max(2) + 1;
        self.bytes
            .splice(start..start, std::iter::repeat_n(b'`', backticks - 3));
        self.bytes.push(b'\n');
        self.bytes.extend(std::iter::repeat_n(b'`', backticks));
        self.bytes.extend_from_slice(b"\n\n");
        if not_shown > 0 {
            self.note_cut(not_shown);
        }
    }

    /// A kept text inside a fence, as [`Page::fence`] writes it; a long one that is shown as it is kept is not copied.
    pub fn fence_kept(&mut self, text: Text, buffers: &Buffers, limit: Option<usize>) {
        let raw = buffers.raw(text);
        let len = raw.bytes.len();
        if raw.form != Form::Shown || len < QUOTED {
            return self.fence(raw, limit);
        }
        let shown_len = limit.map_or(len, |limit| display::cut_at(limit, raw.bytes));
        let shown = &raw.bytes[..shown_len];
        let backticks = longest_run(shown).max(2) + 1;
        self.bytes.extend(std::iter::repeat_n(b'`', backticks));
        self.bytes.push(b'\n');
        let text = Text {
            len: shown_len as u32,
            ..text
        };
        self.quoted.push((self.bytes.len(), buffers.segment(text)));
        self.quoted_len += shown_len;
        self.bytes.push(b'\n');
        self.bytes.extend(std::iter::repeat_n(b'`', backticks));
        self.bytes.extend_from_slice(b"\n\n");
        if shown_len < len {
            let not_shown = (len - shown_len) as u64;
            self.leave_out(1, not_shown);
            self.note_cut(not_shown);
        }
    }

    /// Counts blocks that are left out whole, and their bytes in display form.
    pub fn leave_out(&mut self, blocks: u64, bytes: u64) {
        self.shown.blocks_cut += blocks;
        self.shown.bytes_cut += bytes;
    }

    /// How many bytes have been written.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.quoted_len
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was escaped, replaced and cut so far.
    pub fn shown(&self) -> Shown {
        self.shown
    }

    /// What has been written, in order.
    pub fn into_segments(self) -> Vec<Segment> {
        let own = Arc::new(self.bytes);
        let mut segments = Vec::with_capacity(2 * self.quoted.len() + 1);
        let mut from = 0;
        for (at, quoted) in self.quoted {
            segments.push(Segment::new(own.clone(), from..at));
            segments.push(quoted);
            from = at;
        }
        let end = own.len();
        segments.push(Segment::new(own, from..end));
        segments
    }

    fn note_cut(&mut self, not_shown: u64) {
        self.paragraph(("Cut here: ", not_shown, " bytes more are not shown."));
    }

    fn cell(&mut self, cell: &dyn Inline) {
        self.bytes.extend_from_slice(b"| ");
        cell.write(self);
        self.bytes.push(b' ');
    }

    fn end_with(&mut self, words: &dyn Inline, end: &[u8]) {
        words.write(self);
        self.bytes.extend_from_slice(end);
    }
}

/// Finds a run that matters; made once, because most texts are short.
static RUN_OF_THREE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("```"));

/// The length of the longest run of backticks.
fn longest_run(bytes: &[u8]) -> usize {
    // Runs shorter than three do not matter, and most texts have no longer one.
    let Some(first) = RUN_OF_THREE.find(bytes) else {
        return 0;
    };
    let (mut longest, mut run, mut expected) = (0, 0, 0);
    for at in memchr::memchr_iter(b'`', &bytes[first..]) {
        run = if at == expected { run + 1 } else { 1 };
        expected = at + 1;
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_every_run_inside() {
        for (text, backticks) in [
            ("", 3),
            ("``x``", 3),
            ("a```b", 4),
            ("```a`````b```", 6),
            ("``a```", 4),
        ] {
            let mut page = Page::default();
            page.fence(Raw::plain(text.as_bytes()), None);
            let fence = "`".repeat(backticks);
            assert_eq!(
                page.into_segments().concat(),
                format!("{fence}\n{text}\n{fence}\n\n").as_bytes()
            );
        }
    }

    #[test]
    fn the_run_counts_that_is_shown() {
        let mut page = Page::default();
        page.fence(Raw::plain(b"ab\n`````"), Some(3));
        assert_eq!((page.shown().blocks_cut, page.shown().bytes_cut), (1, 5));
        assert_eq!(
            page.into_segments().concat(),
            b"```\nab\n\n```\n\nCut here: 5 bytes more are not shown.\n\n"
        );
    }

    #[test]
    fn a_long_kept_text_is_written_as_a_copied_one_is() {
        let text = format!("{}\n```` {}\nend", "a line\n".repeat(100), "x".repeat(900));
        let text = text.into_bytes();
        let buffers = Buffers::new(vec![Arc::new(text.clone())]);
        let at = Text {
            start: 0,
            len: text.len() as u32,
            buffer: 0,
            form: Form::Shown,
        };
        for limit in (0..text.len() + 2).map(Some).chain([None]) {
            let (mut copied, mut kept) = (Page::default(), Page::default());
            copied.fence(Raw::plain(&text), limit);
            kept.fence_kept(at, &buffers, limit);
            assert_eq!(copied.len(), kept.len());
            assert_eq!(copied.shown(), kept.shown());
            assert!(copied.into_segments().concat() == kept.into_segments().concat());
        }
    }
}
