//! What an entry may hold of a host's words where a message's text is kept as its length and hash only.
//!
//! What the session knew before the message (its ID, the time, its working directory) and the record's own words (the kind, the side,
//! whether it was queued, the outcome) cannot come from the text and stay whatever it is. All else may quote the text in any form,
//! and is kept by what it is, not by what is not found in it:
//!
//! | member | kept as |
//! | --- | --- |
//! | `peer.as` | a name: one line of plain characters |
//! | `peer.sessionId` | a session ID |
//! | `reason` | plain words that share no run with the text; a quotation of the whole text is replaced by a mark |
//! | members of `envelope` and unknown members | `true`, `false`, `null`, a number or one plain ASCII word that shares no run with the text; never an object or a list |
//! | keys of those | one plain ASCII word that shares no run with the text |
//!
//! Plain characters are those with which nothing can be escaped, marked up or encoded, so that what is kept is what it looks like, and
//! no member is kept in which the text stands, in whatever case, spacing or punctuation. What is not kept is named in `withheld`.

use super::json::Json;
use super::name::is_session_id;
use std::collections::HashSet;

/// Bytes that a name, a word or a key may have.
const LONGEST_WORD: usize = 255;

/// Bytes that a reason may have.
const LONGEST_REASON: usize = 1024;

/// Letters and digits that a reason or a word may not have in common with the text, one after the other.
const RUN: usize = 12;

/// What stands in a reason for the text.
const MARK: &str = "[text withheld]";

/// A text that must not come into an entry by another door.
pub(super) struct Withheld {
    text: Vec<u8>,
    letters: String,
}

impl Withheld {
    /// The decoded text.
    pub(super) fn new(text: Vec<u8>) -> Self {
        let letters = letters(&String::from_utf8_lossy(&text));
        Self { text, letters }
    }

    /// The other session's address or name, if it may be kept.
    pub(super) fn may_keep_name(&self, value: &Json<'_>) -> bool {
        let is_name = |name: &str| name.len() <= LONGEST_WORD && is_plain(name);
        value.is_null()
            || string(value).is_some_and(|name| is_name(&name) && !self.stands_in(&name))
    }

    /// The other session's ID.
    pub(super) fn may_keep_id(&self, value: &Json<'_>) -> bool {
        let is_id = |id: &str| is_session_id(id.as_bytes()).is_ok();
        value.is_null() || string(value).is_some_and(|id| is_id(&id) && !self.stands_in(&id))
    }

    /// A value in the envelope or of an unknown member.
    pub(super) fn may_keep_word(&self, value: &Json<'_>) -> bool {
        if value.is_null() || value.as_boolean().is_some() {
            return true;
        }
        match (string(value), value.bytes().first()) {
            (Some(word), _) => self.is_safe_word(&word),
            (None, Some(b'-' | b'0'..=b'9')) => {
                let number = String::from_utf8_lossy(value.bytes());
                self.is_safe_word(&number)
            }
            _ => false,
        }
    }

    /// The key of such a value, if it may be kept.
    pub(super) fn key(&self, key: &Json<'_>) -> Option<String> {
        string(key).filter(|key| !key.is_empty() && self.is_safe_word(key))
    }

    /// A reason as it may be kept; none if it may not.
    pub(super) fn reason(&self, value: &Json<'_>) -> Option<Json<'static>> {
        let Some(reason) = string(value) else {
            return self
                .may_keep_word(value)
                .then(|| value.clone().into_owned());
        };
        let is_safe =
            |words: &str| is_plain(words) && !self.stands_in(words) && !self.shares(words);
        if reason.len() > LONGEST_REASON {
            return None;
        }
        if is_safe(&reason) {
            return Some(value.clone().into_owned());
        }
        // Only where the whole text stands as words of its own is it plain what is a quotation and what is not.
        let text = std::str::from_utf8(&self.text).ok()?;
        let mut kept = String::new();
        let mut rest = reason.as_str();
        while let Some((before, after)) = rest.split_once(text) {
            let goes_on =
                before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
            if goes_on || !is_safe(before) {
                return None;
            }
            kept.extend([before, MARK]);
            rest = after;
        }
        if kept.is_empty() || !is_safe(rest) {
            return None;
        }
        kept.push_str(rest);
        (!self.stands_in(&kept)).then(|| Json::string(&kept))
    }

    fn is_safe_word(&self, word: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+~#".contains(c);
        word.len() <= LONGEST_WORD
            && word.chars().all(plain)
            && !self.stands_in(word)
            && !self.shares(word)
    }

    /// Whether the text stands in these words: as it is, or by its letters and digits.
    fn stands_in(&self, words: &str) -> bool {
        memchr::memmem::find(words.as_bytes(), &self.text).is_some()
            || (!self.letters.is_empty() && letters(words).contains(&self.letters))
    }

    /// Whether a run of letters and digits stands in both.
    fn shares(&self, words: &str) -> bool {
        let words = letters(words);
        let runs: HashSet<&[u8]> = words.as_bytes().windows(RUN).collect();
        let mut text = self.letters.as_bytes().windows(RUN);
        !runs.is_empty() && text.any(|run| runs.contains(run))
    }
}

/// Nothing but characters with which nothing is escaped, marked up or encoded.
fn is_plain(words: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || " !\"#$'()*+,-./:;?@[]_|~".contains(c);
    words.chars().all(plain)
}

/// The letters and digits of a text in lower case: what stays of it however it is quoted, spaced or made into a name.
fn letters(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// A string's text, if it is one of whole characters.
fn string(value: &Json<'_>) -> Option<String> {
    let decoded = value.as_string()?.decode().into_owned();
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld(text: &str) -> Withheld {
        Withheld::new(text.as_bytes().to_vec())
    }

    #[test]
    fn a_name_in_which_the_text_may_stand_is_not_kept() {
        let keeps = |text: &str, name: &str| withheld(text).may_keep_name(&name.into());
        for name in [
            "docs",
            "Docs of the parser",
            "uds:/run/user/1000/a.sock",
            "Übersetzer",
        ] {
            assert!(keeps("docs: drop the table?", name), "{name}");
        }
        for (text, name) in [
            ("docs", "docs"),
            ("ocs", "docs"),
            ("d", "docs"),
            ("?", "docs?"),
            ("drop the table?", "drop-the-table"),
            ("é", "caf\u{e9}"),
            ("go", "\\u0067o"),
            ("a b", "a%20b"),
            ("a b", "a&nbsp;b"),
            ("é", "cafe\u{301}"),
            ("x", "two\nlines"),
        ] {
            assert!(!keeps(text, name), "{text} in {name}");
        }
        assert!(!keeps("x", &"y".repeat(256)));
        let id = |text: &str, id: &str| withheld(text).may_keep_id(&id.into());
        assert!(id("x", "1ab2") && !id("x", "1 ab") && !id("1ab2", "1ab2"));
    }

    #[test]
    fn only_words_of_the_envelope_are_kept() {
        let keeps = |text: &str, json: &str| {
            withheld(text).may_keep_word(&Json::read(json.as_bytes()).unwrap())
        };
        for json in [
            "true",
            "null",
            "3",
            "-1.5",
            r#""uds:/run/x""#,
            r#""2026-11-30T20:40:29Z""#,
            r#""""#,
        ] {
            assert!(keeps("hello there", json), "{json}");
        }
        for json in [
            r#""a word""#,
            r#""hello\\u0020there""#,
            r#""hello_there""#,
            r#""é""#,
            r#"{"a":1}"#,
            "[104,101,108,108,111]",
            r#""\ud800""#,
        ] {
            assert!(!keeps("hello there", json), "{json}");
        }
        assert!(!keeps("482913", "482913") && !keeps("48", "14.80"));
        assert!(!keeps(
            "a long text that begins so",
            r#""a-long-text-that""#
        ));
        assert!(
            keeps("a long text", r#""a-long-tex""#),
            "eight letters are no quotation"
        );
        let key = |key: &str| withheld("secret").key(&key.into());
        assert_eq!(key("from"), Some("from".into()));
        assert_eq!((key("secret"), key("a key"), key("")), (None, None, None));
    }

    #[test]
    fn a_reason_keeps_its_words_and_no_quotation() {
        let reason =
            |text: &str, reason: &str| Some(withheld(text).reason(&reason.into())?.to_text());
        let some = |text: &str| Some(text.to_owned());
        let text = "drop the \"users\" table\u{1f600}";
        assert_eq!(
            reason(text, "held for the person"),
            some("held for the person")
        );
        assert_eq!(
            reason(text, &format!("refused: '{text}' twice: {text}")),
            some("refused: '[text withheld]' twice: [text withheld]")
        );
        for quoting in [
            serde_json::to_string(&format!("refused: {text}")).unwrap(),
            "refused: drop the 'users' table".to_owned(),
            "refused: DROP THE USERS...".to_owned(),
            "refused: drop the \\\"users\\\" table".to_owned(),
            "refused: drop%20the%20users".to_owned(),
            "refused: <b>no</b>".to_owned(),
            format!("{text} and DROP THE USERS TABLE"),
            format!("{text}: drop the 'users' t"),
            format!("drop the 'users' t: {text}"),
            "x".repeat(2000),
        ] {
            assert_eq!(reason(text, &quoting), None, "{quoting}");
        }
        assert_eq!(reason("no", "no"), some("[text withheld]"));
        assert_eq!(
            reason("no", "refused: no."),
            some("refused: [text withheld].")
        );
        assert_eq!(reason("no", "not now"), None, "a part of a word");
        for text in ["text", "withheld", "[", "e"] {
            assert_eq!(reason(text, &format!("{text}: held")), None, "{text}");
        }
        let held = Json::read(b"{\"code\":1}").unwrap();
        assert!(withheld("x").reason(&held).is_none());
        assert!(withheld("x").reason(&Json::number(17)).is_some());
    }
}
