//! Absolute paths in single values, shortened to their last part.
//!
//! A document reads with the store gone and names no place of this machine: outside a fence and in the telemetry no absolute path
//! stands (`spec/artefact.md`, "Containment"). What a participant said inside a fence stays as it was said.
//!
//! Where a path ends cannot be told: its parts may hold spaces, quotes and line breaks. So a path that has begun goes on to the end of
//! the value or to the next web address, and of all that only what follows the last separator stays. That shortens more than it must,
//! and never leaves an earlier part.

use std::borrow::Cow;

/// The value with what begins as an absolute path written as `…/` and its last part.
///
/// A path begins with
/// - `/` and anything but white space, except after an ASCII letter or digit (`a/b`) or after a `.` that stands alone (`./a`);
/// - two separators, also after a letter or digit;
/// - `\` if another separator follows;
/// - `../`, `~/`, `~name/` and `…/`;
/// - `X:`, a letter that stands alone, if a separator follows;
/// - an address whose scheme is not `http` or `https`.
///
/// A value that as a whole is `/word` stays: it is a command.
pub fn shorten(value: &str) -> Cow<'_, str> {
    shorten_stretches(value, true)
}

/// [`shorten`] for the beginning of a longer value. Of a path that reaches its end the last part is not there, so none is shown.
pub fn shorten_beginning(value: &str) -> Cow<'_, str> {
    shorten_stretches(value, false)
}

const SEPARATORS: [char; 2] = ['/', '\\'];

const SHORTENED: char = '…';

fn shorten_stretches(value: &str, whole: bool) -> Cow<'_, str> {
    if !value.contains(SEPARATORS) || (whole && is_command(value)) {
        return Cow::Borrowed(value);
    }
    let mut out = String::new();
    let mut rest = value;
    loop {
        let web = web_address(rest);
        let (start, end) = web.unwrap_or((rest.len(), rest.len()));
        let stretch = &rest[..start];
        if let Some(at) = beginning(stretch) {
            out.push_str(&stretch[..at]);
            out.push(SHORTENED);
            out.push('/');
            if whole || web.is_some() {
                out.push_str(last_part(&stretch[at..]));
            }
        } else {
            out.push_str(stretch);
        }
        out.push_str(&rest[start..end]);
        rest = &rest[end..];
        if web.is_none() {
            return Cow::Owned(out);
        }
    }
}

fn is_command(value: &str) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    value
        .strip_prefix('/')
        .is_some_and(|name| !name.is_empty() && name.chars().all(is_of_a_name))
}

/// Where the first web address starts and ends. One inside a path is part of it.
fn web_address(text: &str) -> Option<(usize, usize)> {
    text.match_indices("://").find_map(|(colon, mark)| {
        let before = text[..colon].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        let scheme = &text[before.len()..colon];
        let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        if !is_web || before.ends_with(SEPARATORS) {
            return None;
        }
        let host = colon + mark.len();
        let length = web_length(&text[host..]);
        (length > 0).then_some((before.len(), host + length))
    })
}

/// How far host and path of a web address go. A slash after anything but a word may begin a path of this machine.
fn web_length(text: &str) -> usize {
    let mut before = '/';
    let ends = |(_, c): &(usize, char)| {
        let goes_on = match c {
            '/' => is_of_a_word(before),
            c => is_of_a_word(*c) || matches!(c, '%' | ':' | '@' | '+'),
        };
        before = *c;
        !goes_on
    };
    text.char_indices()
        .find(ends)
        .map_or(text.len(), |(at, _)| at)
}

fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~')
}

/// Where the first absolute path of a stretch without web addresses begins.
fn beginning(text: &str) -> Option<usize> {
    let last = text.rfind(SEPARATORS)?;
    let mut at = 0;
    while at <= last {
        let (before, rest) = text.split_at(at);
        if begins(before, rest) {
            return Some(at);
        }
        at += match separators(rest) {
            0 => rest.chars().next()?.len_utf8(),
            run => run,
        };
    }
    None
}

/// Whether a path begins at `rest`, somewhere in which a separator stands.
fn begins(before: &str, rest: &str) -> bool {
    let in_a_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
    let run = separators(rest);
    if run > 0 {
        let parts = &rest[run..];
        return !parts.is_empty()
            && !parts.starts_with(char::is_whitespace)
            && if rest[..run].contains('/') {
                run > 1 || !(in_a_word || is_here(before))
            } else {
                parts.contains(SEPARATORS)
            };
    }
    let follows = |rest: Option<&str>| rest.is_some_and(|rest| separators(rest) > 0);
    if rest.starts_with(SHORTENED) {
        return follows(rest.strip_prefix(SHORTENED));
    }
    if in_a_word {
        return false;
    }
    if rest.starts_with('.') {
        return !before.ends_with('.') && follows(rest.strip_prefix(".."));
    }
    if let Some(name) = rest.strip_prefix('~') {
        return follows(Some(name.trim_start_matches(is_of_a_word)));
    }
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    match rest.len() - after.len() {
        0 => false,
        1 if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => after
            .strip_prefix(':')
            .is_some_and(|after| !after.starts_with(char::is_whitespace)),
        _ => after.starts_with("://"),
    }
}

/// Length of the separators at the beginning.
fn separators(text: &str) -> usize {
    text.len() - text.trim_start_matches(SEPARATORS).len()
}

/// Whether this ends with a `.` that stands alone: the place where one is, at the beginning of a relative path.
fn is_here(before: &str) -> bool {
    before.strip_suffix('.').is_some_and(|before| {
        before.is_empty()
            || before.ends_with(|c: char| {
                c.is_whitespace()
                    || SEPARATORS.contains(&c)
                    || matches!(c, '"' | '\'' | '`' | '(' | '=')
            })
    })
}

fn last_part(path: &str) -> &str {
    path.trim_start_matches(SHORTENED)
        .rsplit(SEPARATORS)
        .find(|part| !part.is_empty())
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_keep_their_last_part() {
        for (value, shown) in [
            ("/home/ann/work", "…/work"),
            ("/home/ann/play/", "…/play"),
            ("//srv/x", "…/x"),
            ("in /root", "in …/root"),
            ("(/data)", "(…/data)"),
            ("cwd=/home/ann/x", "cwd=…/x"),
            ("(\"/home/ann/x\")", "(\"…/x\")"),
            ("~/work", "…/work"),
            ("~ann/x", "…/x"),
            ("../ann/x", "…/x"),
            ("a/../../home/x", "a/…/x"),
            (r"C:\Users\Ann\x", "…/x"),
            (r"c:/Users/Ann", "…/Ann"),
            (r"C:Users\ann\x", "…/x"),
            (r"C:\\Users\\Ann", "…/Ann"),
            (r"\\host\share\x", "…/x"),
            (r"\temp\readonly\x", "…/x"),
            (r"\/home\/ann\/x", "…/x"),
            (r"one\n/home/ann/x", "one…/x"),
            ("file:///home/ann/x", "…/x"),
            ("https:///home/ann/x", "…/x"),
            ("file:/home/ann/x", "file:…/x"),
            ("git@host:/srv/ann/x", "git@host:…/x"),
            ("-/home/ann", "-…/ann"),
            ("/home/a:b/c", "…/c"),
            ("/home:a/b", "…/b"),
            ("system//home/ann/x", "system…/x"),
        ] {
            assert_eq!(shorten(value), shown, "{value}");
            assert_eq!(shorten(shown), shown, "shortened twice: {value}");
        }
    }

    #[test]
    fn a_path_begins_after_anything_but_a_word() {
        for before in [
            "fix **", "(a)", "[a]", "{a}", "a_", "...", "a.", "a..", "é", "在", "…", "a…", "~",
            "*", "a:", ",", ";", "|", ">", "\u{200b}", "\n", "a)./", "(see)./", "«", "-", "+", "@",
            "$",
        ] {
            let before = before.trim_end_matches("./");
            for path in ["/marker/secret/last", "/marker//secret/last"] {
                let shown = shorten(&format!("{before}{path}")).into_owned();
                assert!(
                    shown.ends_with("…/last") && !shown.contains("secret"),
                    "{before}{path}: {shown}"
                );
                assert!(!shown.contains("marker"), "{before}{path}: {shown}");
                assert_eq!(shorten(&shown), shown, "shortened twice");
            }
        }
    }

    /// Whatever stands in a part of a path, no part of it but the last one stays.
    #[test]
    fn no_earlier_part_stays() {
        for odd in [
            " ", "  and ", "'", "\"", "`", "<", ">", "\n", "\t", ":", "*", ")", "é", "…", "~", ".",
            "..", " http:", ", https:", " x.", "=",
        ] {
            for value in [
                format!("see /marker/secret{odd}home/last"),
                format!("see /marker/{odd}secret/last"),
                format!("see /marker/secret{odd}/last"),
                format!("see ~/secret{odd}marker/last"),
                format!(r"see C:\marker\secret{odd}\last"),
            ] {
                let shown = shorten(&value);
                assert_eq!(shown, "see …/last", "{value}");
            }
        }
        assert_eq!(shorten("/home/ann smith/x"), "…/x");
        assert_eq!(shorten("/home/ann/it's/x"), "…/x");
        assert_eq!(shorten("/a/b and /c/d, then"), "…/d, then");
    }

    #[test]
    fn what_is_no_absolute_path_stays() {
        for value in [
            "",
            "/compact",
            "/team:review-all",
            "src/main.rs",
            "./a/b",
            "run ./a/b",
            "a/./b",
            "a/b and c/d",
            "vendor/model-4.5",
            "text/plain",
            "application/vnd.x+json",
            "@scope/package",
            "2.1.0 (a/b)",
            "agents/ax~2/notes",
            "https://example.org/a/b",
            "see (https://example.org:80/~ann/b.c?d=e/f), and HTTP://x.org/",
            "and/or",
            "1/2/3",
            r"DOMAIN\ann",
            r"\d+",
            "mcp__x/y/z",
            "9:30 / 10:15",
            "Plan B: a/b",
            "/",
            "//",
            "…/",
        ] {
            assert_eq!(shorten(value), value);
        }
    }

    #[test]
    fn a_web_address_stays_and_hides_no_path() {
        for (value, shown) in [
            (
                "/root and https://example.org/a/b",
                "…/root and https://example.org/a/b",
            ),
            (
                "https://example.org/a to /home/ann/x",
                "https://example.org/a to …/x",
            ),
            (
                "https://example.org/a?in=/home/ann/x",
                "https://example.org/a?in=…/x",
            ),
            (
                "[a](https://example.org)/home/ann/x",
                "[a](https://example.org)…/x",
            ),
            ("http://localhost:/home/ann/x", "http://localhost:…/x"),
            ("http://localhost//home/ann/x", "http://localhost/…/x"),
            ("/mirror/https://ann/x", "…/x"),
        ] {
            assert_eq!(shorten(value), shown, "{value}");
            assert_eq!(shorten(shown), shown, "shortened twice: {value}");
        }
    }

    #[test]
    fn of_a_beginning_no_last_part_is_known() {
        assert_eq!(shorten_beginning("see /home/ann"), "see …/");
        assert_eq!(shorten_beginning("/home"), "…/");
        assert_eq!(
            shorten_beginning("/home/ann and http://x.org/a/b"),
            "…/ann and http://x.org/a/b"
        );
    }

    #[test]
    fn a_long_value_takes_no_time() {
        for piece in [
            "\\", "/ ", "a:b ", "a/b ", "~a", "http://", "://", "..", "a\\ ",
        ] {
            let value = format!("a/b {}", piece.repeat(200_000));
            assert!(shorten(&value).len() <= value.len() + 8);
        }
    }
}
