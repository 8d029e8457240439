//! Tables of tab-separated values: a header row, then a row a thing. They open in a spreadsheet and in any tool.

use crate::transcript::display;

/// A table being written.
pub(super) struct Table(String);

impl Table {
    /// A table with these columns.
    pub(super) fn new(columns: &[&str]) -> Self {
        Self(columns.join("\t") + "\n")
    }

    /// Appends a row. Tab, line break and backslash in a value stand as `\t`, `\n` and `\\`, what must not be shown as
    /// `\u{…}`. A quotation mark at the beginning, which readers of such tables take for the beginning of a value that may
    /// hold tabs and line breaks, stands as `\"`.
    pub(super) fn row<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) {
        for (column, value) in values.into_iter().enumerate() {
            if column > 0 {
                self.0.push('\t');
            }
            self.value(value);
        }
        self.0.push('\n');
    }

    /// A row by itself, as [`Table::row`] writes it.
    pub(super) fn row_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Box<str> {
        let mut row = Self(String::new());
        row.row(values);
        row.0.into_boxed_str()
    }

    fn value(&mut self, value: &str) {
        if value.starts_with('"') {
            self.0.push('\\');
        }
        let mut characters = value.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '\t' => self.0.push_str("\\t"),
                '\n' => self.0.push_str("\\n"),
                '\r' if characters.peek() == Some(&'\n') => {}
                '\\' => self.0.push_str("\\\\"),
                c if display::is_hidden(c) => display::push_escape(c, &mut self.0),
                c => self.0.push(c),
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// The row that begins here in a table's text, with its end.
pub(super) fn row_at(text: &[u8], at: usize) -> &[u8] {
    let row = text.get(at..).unwrap_or_default();
    memchr::memchr(b'\n', row).map_or(row, |end| &row[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_cell() {
        let mut table = Table::new(&["a", "b"]);
        table.row(["x\ty\r\nz\\t", "\u{1b}[0m\u{202e}\r"]);
        table.row(["\"open", "a \"b\""]);
        let text = String::from_utf8(table.into_bytes()).unwrap();
        assert_eq!(
            text,
            "a\tb\nx\\ty\\nz\\\\t\t\\u{1B}[0m\\u{202E}\\u{D}\n\\\"open\ta \"b\"\n"
        );
    }
}
