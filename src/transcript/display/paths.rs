//! Absolute paths in single values, shortened to their last part.
//!
//! A document reads with the store gone and names no place of this machine: outside a fence and in the telemetry no absolute path
//! stands (`spec/artefact.md`, "Containment"). What a participant said inside a fence stays as it was said.

use std::borrow::Cow;

/// The value with each absolute path in it written as `…/` and its last part.
///
/// A path begins with `/x/`, `~/`, `~x/`, `X:\`, `X:/`, `\xx\` or `\\x\`, or is an address whose scheme is not `http` or `https`. It begins
/// at the beginning of the value or after a character that does not make it the middle of a relative path, and ends at white
/// space, a quote or an angle bracket. `/x` alone is no path, because a slash command looks the same.
pub fn shorten(value: &str) -> Cow<'_, str> {
    if !value.contains(['/', '\\']) {
        return Cow::Borrowed(value);
    }
    let mut out = String::new();
    let (mut copied, mut at, mut before) = (0, 0, None);
    while let Some(c) = value[at..].chars().next() {
        let token = match before {
            Some(before) if is_inside_a_path(before) => Token::None,
            _ => Token::read(&value[at..]),
        };
        match token {
            Token::None => at += c.len_utf8(),
            Token::Web(len) => at += len,
            Token::Path(path) => {
                out.push_str(&value[copied..at]);
                out.push_str("…/");
                out.push_str(
                    path.rsplit(SEPARATORS)
                        .find(|part| !part.is_empty())
                        .unwrap_or(""),
                );
                at += path.len();
                copied = at;
            }
        }
        before = value[..at].chars().next_back();
    }
    if copied == 0 {
        return Cow::Borrowed(value);
    }
    out.push_str(&value[copied..]);
    Cow::Owned(out)
}

const SEPARATORS: [char; 2] = ['/', '\\'];

/// What a stretch of a value begins with.
enum Token<'a> {
    /// An absolute path, to its end.
    Path(&'a str),
    /// A web address of this length.
    Web(usize),
    /// Neither.
    None,
}

impl<'a> Token<'a> {
    fn read(text: &'a str) -> Self {
        let whole = &text[..text.find(ends_a_path).unwrap_or(text.len())];
        let letters = whole
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(whole.len());
        let (word, after) = whole.split_at(letters);
        let is_path = match whole.chars().next() {
            Some('/') => whole.trim_start_matches('/').contains('/'),
            Some('\\') => {
                // After a single backslash one letter is more likely a pattern's class than a folder.
                let first = whole.trim_start_matches('\\').find('\\').unwrap_or(0);
                first > usize::from(!whole.starts_with("\\\\"))
            }
            Some('~') => whole.contains('/'),
            _ if after.starts_with("://") => {
                if word.eq_ignore_ascii_case("http") || word.eq_ignore_ascii_case("https") {
                    return Self::Web(whole.len());
                }
                !word.is_empty()
            }
            _ => word.len() == 1 && (after.starts_with(":/") || after.starts_with(":\\")),
        };
        if is_path {
            Self::Path(whole)
        } else {
            Self::None
        }
    }
}

/// Whether a slash after this character goes on with a relative path, an address or a path that is shortened already.
fn is_inside_a_path(before: char) -> bool {
    before.is_alphanumeric()
        || matches!(
            before,
            '_' | '.' | '…' | ')' | ']' | '}' | '*' | '~' | '/' | '\\'
        )
}

fn ends_a_path(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn absolute_paths_keep_their_last_part() {
        for (value, shown) in [
            ("/home/ann/work", "…/work"),
            ("/home/ann/work/", "…/work"),
            ("//srv/x", "…/x"),
            ("see /home/ann/a.rs:12 and ~/b/c", "see …/a.rs:12 and …/c"),
            ("cwd=/home/ann/x", "cwd=…/x"),
            ("(\"/home/ann/x\")", "(\"…/x\")"),
            ("~ann/x", "…/x"),
            (r"C:\Users\Ann\x", "…/x"),
            (r"c:/Users/Ann", "…/Ann"),
            (r"C:\\Users\\Ann", "…/Ann"),
            (r"\\host\share\x", "…/x"),
            (r"\temp\readonly\x", "…/x"),
            ("file:///home/ann/x", "…/x"),
            ("file:/home/ann/x", "file:…/x"),
            ("git@host:/srv/ann/x", "git@host:…/x"),
            ("-/home/ann", "-…/ann"),
            ("/home/a:b/c", "…/c"),
            ("/home:a/b", "…/b"),
        ] {
            assert_eq!(shorten(value), shown, "{value}");
            assert_eq!(shorten(shown), shown, "shortened twice: {value}");
        }
    }

    #[test]
    fn what_is_no_absolute_path_stays() {
        for value in [
            "",
            "/compact",
            "src/main.rs",
            "./a/b",
            "../a/b",
            "a/b and c/d",
            "https://example.org/a/b",
            "and/or",
            "1/2/3",
            r"a\b\c",
            r"\d\w+",
            "mcp__x/y/z",
            "9:30 / 10:15",
        ] {
            assert_eq!(shorten(value), value);
        }
    }
}
