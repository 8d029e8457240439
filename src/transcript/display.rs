//! The display form: how a participant's text is shown in every derived file and on a terminal.
//!
//! `spec/artefact.md`, "Containment", is the source of the rules.

/// What was changed or left out to show something. Counts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Characters shown as `\u{…}`.
    pub characters_escaped: u64,
    /// Bytes that are no UTF-8, and lone surrogates, shown as U+FFFD.
    pub characters_replaced: u64,
    /// CR LF pairs shown as a line feed.
    pub crlf: u64,
    /// Blocks that were cut.
    pub blocks_cut: u64,
    /// Bytes that are not shown, of the display form.
    pub bytes_cut: u64,
}

/// One line of text for a terminal or a table: control and formatting characters as `\u{…}`.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}
