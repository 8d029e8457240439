//! Names of the links that show all sessions, made of IDs, prompts and paths (`spec/mount-tree.md`, "Names and formats").

use crate::session::last_part;
use crate::session::summary::WorkPlace;
use crate::store::safe_name_within;
use sha2::{Digest, Sha256};

/// Characters that the part of an ID in a name has at least.
const SHORTEST_ID: usize = 8;

/// Words of a prompt in a name, and their length together.
const WORDS: usize = 5;
const LONGEST_SLUG: usize = 60;

/// The shortest beginning of one of these sorted IDs that no other one has, of eight characters at least.
pub(super) fn short(ids: &[impl AsRef<str>], at: usize) -> &str {
    let id = ids[at].as_ref();
    let shared = |other: &_| {
        let same = id.chars().zip(str::chars(other));
        same.take_while(|(a, b)| a == b).count()
    };
    let with = |at: Option<usize>| {
        let other = at.and_then(|at| ids.get(at));
        other.map_or(0, |other| shared(other.as_ref()))
    };
    let (before, after) = (with(at.checked_sub(1)), with(at.checked_add(1)));
    let length = (before.max(after) + 1).max(SHORTEST_ID);
    let end = id.char_indices().nth(length);
    &id[..end.map_or(id.len(), |(end, _)| end)]
}

/// Up to five words of a prompt: ASCII letters and digits, lower case, with hyphens between them.
pub(super) fn slug(prompt: &str) -> Option<String> {
    let words = prompt.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}');
    let words = words.map(|word| {
        let plain = word.chars().filter(char::is_ascii_alphanumeric);
        plain.map(|c| c.to_ascii_lowercase()).collect::<String>()
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).take(WORDS).collect();
    let mut slug = words.join("-");
    slug.truncate(LONGEST_SLUG);
    (!slug.is_empty()).then_some(slug)
}

/// A project's name below `by-project`: the last part of its path, and four digits of the whole path's digest.
pub(super) fn project(place: &WorkPlace) -> String {
    let (path, last) = match place {
        WorkPlace::Directory(path) => (path, last_part(path).unwrap_or("root")),
        WorkPlace::Folder(name) => (name, name.as_str()),
    };
    let digest = Sha256::digest(path.as_bytes());
    format!(
        "{}~{:02x}{:02x}",
        safe_name_within(last.as_bytes(), 250),
        digest[0],
        digest[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_five_plain_words() {
        let slug = |text| slug(text).unwrap_or_default();
        assert_eq!(slug("Fix the parser"), "fix-the-parser");
        assert_eq!(
            slug("  Don\u{2019}t panic: it's src/parser.rs, line 7!"),
            "dont-panic-its-src-parser"
        );
        assert_eq!(slug("caf\u{e9} \u{4e2d}\u{6587} x"), "caf-x");
        assert_eq!(slug("\u{4e2d}\u{6587}"), "");
        assert_eq!(slug(&"long".repeat(100)).len(), LONGEST_SLUG);
    }

    #[test]
    fn a_short_id_is_unique_among_all_and_never_shorter_than_eight() {
        let ids = [
            "aaaaaaaa-1",
            "aaaaaaaa-2",
            "aaaaaaaa-2~2",
            "b",
            "ccccccccccc",
        ];
        let short: Vec<&str> = (0..ids.len()).map(|i| short(&ids, i)).collect();
        assert_eq!(
            short,
            ["aaaaaaaa-1", "aaaaaaaa-2", "aaaaaaaa-2~", "b", "cccccccc"]
        );
    }

    #[test]
    fn a_project_is_named_by_its_whole_path() {
        let directory = |path: &str| project(&WorkPlace::Directory(path.to_owned()));
        let digest = Sha256::digest("/home/user/tally");
        assert_eq!(
            directory("/home/user/tally"),
            format!("tally~{:02x}{:02x}", digest[0], digest[1])
        );
        assert_ne!(directory("/a/tally"), directory("/b/tally"));
        assert!(directory(r"C:\work\x").starts_with("x~"));
        assert!(directory("/").starts_with("root~"));
        assert!(directory("/a/-odd\n").starts_with("%2Dodd%0A~"));
        assert!(directory(&"x".repeat(400)).len() <= 255);
    }
}
