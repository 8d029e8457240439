//! Whether a message's text is recorded: `settings.json` in the record directory.

use super::RecordError;
use super::json::Object;
use crate::transcript::text::Raw;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The settings file's name.
pub(super) const FILE: &str = "settings.json";

/// Bytes that a settings file may have.
const LARGEST: u64 = 1 << 20;

/// What is kept of a message's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextMode {
    /// The text, byte for byte.
    #[default]
    Full,
    /// Its length and SHA-256 only.
    Metadata,
}

impl TextMode {
    /// Reads the word that settings have.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "full" => Some(Self::Full),
            "metadata" => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// What the settings of this record directory say of a session in this working directory; none if they say nothing.
///
/// The rule for a directory holds for those below it too, and the nearest one counts. Settings that cannot be understood are an
/// error: a text that should have stayed out could not be taken back.
pub(super) fn text_mode(
    folder: &OwnedFd,
    path: &Path,
    cwd: &str,
) -> Result<Option<TextMode>, RecordError> {
    let path = path.join(FILE);
    let wrong = |why: String| RecordError::Settings {
        path: path.clone(),
        why,
    };
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = match openat(folder, FILE, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(nix::errno::Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(wrong(format!("it cannot be opened: {error}"))),
    };
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong(format!("it is longer than {LARGEST} bytes")));
    }
    let not = |error| wrong(format!("it is {error}"));
    let settings = Object::read(bytes).map_err(not)?;
    let Some(rules) = settings.get("text") else {
        return Ok(None);
    };
    let rules = Object::read(rules.bytes().to_vec())
        .map_err(|_| wrong("its \"text\" is no object".into()))?;
    let mut nearest: Option<(&str, TextMode)> = None;
    for (directory, _, mode) in rules.iter() {
        let word = mode.as_string().map(Raw::to_text);
        let mode = word.as_deref().and_then(TextMode::parse).ok_or_else(|| {
            wrong(format!(
                "the text of {directory:?} is neither \"full\" nor \"metadata\""
            ))
        })?;
        let nearer = nearest.is_none_or(|(other, _)| directory.len() > other.len());
        if Path::new(cwd).starts_with(directory) && nearer {
            nearest = Some((directory, mode));
        }
    }
    Ok(nearest.map(|(_, mode)| mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(settings: Option<&str>, cwd: &str) -> Result<Option<TextMode>, RecordError> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = settings {
            std::fs::write(folder.path().join(FILE), text).unwrap();
        }
        let fd = OwnedFd::from(File::open(folder.path()).unwrap());
        text_mode(&fd, folder.path(), cwd)
    }

    #[test]
    fn the_nearest_rule_counts() {
        let settings =
            r#"{"text": {"/p": "metadata", "/p/open": "full", "/q/": "metadata"}, "more": 1}"#;
        let ask = |cwd| ask(Some(settings), cwd).unwrap();
        assert_eq!(ask("/p"), Some(TextMode::Metadata));
        assert_eq!(ask("/p/a/b"), Some(TextMode::Metadata));
        assert_eq!(ask("/p/open/a"), Some(TextMode::Full));
        assert_eq!(ask("/q"), Some(TextMode::Metadata));
        assert_eq!(ask("/paper"), None);
        assert_eq!(ask(""), None);
    }

    #[test]
    fn nothing_is_guessed_from_settings_that_cannot_be_understood() {
        assert_eq!(ask(None, "/p").unwrap(), None);
        assert_eq!(ask(Some("{}"), "/p").unwrap(), None);
        for settings in ["", "{\"text\": 1}", r#"{"text": {"/q": "hash"}}"#] {
            let text = ask(Some(settings), "/p").unwrap_err().to_string();
            assert!(text.contains("settings.json"), "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join(FILE)).unwrap();
        let fd = OwnedFd::from(File::open(folder.path()).unwrap());
        assert!(text_mode(&fd, folder.path(), "/p").is_err());
    }
}
