//! Paths in commands that a person may copy.

use super::is_hidden;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as one word of a shell command, in printable characters only: as it is, in single quotes, or as `$'…'` where it holds what
/// a terminal must not be shown.
pub fn word(path: &Path) -> String {
    let text = path
        .to_str()
        .filter(|text| !text.contains(|c: char| is_hidden(c) || c == '\n' || c == '\t'));
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~".contains(c);
    match text {
        // A tilde in front means somebody's home.
        Some(text) if !text.is_empty() && text.chars().all(plain) && !text.starts_with('~') => {
            text.to_owned()
        }
        Some(text) => format!("'{}'", text.replace('\'', r"'\''")),
        None => escaped(path.as_os_str().as_bytes()),
    }
}

/// Every character that is not shown as itself by its bytes.
fn escaped(path: &[u8]) -> String {
    let mut word = "$'".to_owned();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => word.push_str(r"\n"),
                '\t' => word.push_str(r"\t"),
                '\'' | '\\' => word.extend(['\\', c]),
                c if is_hidden(c) => push_bytes(&mut word, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => word.push(c),
            }
        }
        push_bytes(&mut word, chunk.invalid());
    }
    word.push('\'');
    word
}

fn push_bytes(word: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Three octal digits, so that no digit that follows is taken for one of them. Writing to a String cannot fail.
        let _ = write!(word, "\\{byte:03o}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn what_a_shell_would_split_is_quoted() {
        for (path, shown) in [
            ("./a-b/c_1", "./a-b/c_1"),
            ("my mount", "'my mount'"),
            ("it's", r"'it'\''s'"),
            ("~/x", "'~/x'"),
            ("", "''"),
            ("a\nb\tc", r"$'a\nb\tc'"),
            ("it's\n\\", r"$'it\'s\n\\'"),
            ("\u{1b}[0m\u{202e}", r"$'\033[0m\342\200\256'"),
        ] {
            assert_eq!(word(Path::new(path)), shown);
        }
    }

    #[test]
    fn a_shell_reads_it_back() {
        for path in [
            &b"a\nb"[..],
            b"\tit's $HOME \\n `x` \"q\"",
            b"\x1b1\xff8'\\",
            "\u{202e}é~".as_bytes(),
            b"~",
            b"a b",
        ] {
            let word = word(Path::new(OsStr::from_bytes(path)));
            let script = format!("printf %s {word}");
            let output = std::process::Command::new("bash")
                .args(["-c", &script])
                .output();
            assert_eq!(output.unwrap().stdout, path, "{word}");
        }
    }
}
