//! A bounded look at a transcript: enough for a row of a table, whatever its size.

use crate::record::Entries;
use crate::session::{last_part, title};
use crate::store::{self, SourceFile, StoreError};
use crate::transcript::{Buffers, claude_code};
use jiff::Timestamp;
use std::sync::Arc;

/// How many bytes of a file are looked at, at each end. Most first prompts fit, and titles are repeated at the end.
const LOOK: usize = 64 << 10;

/// Entries of a record that are looked at.
const MOST_ENTRIES: usize = 8;

/// What a bounded look at a transcript says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// The first stamped line's time.
    pub(super) started: Option<Timestamp>,
    /// The last part of the first working directory.
    pub(super) project: Option<String>,
    /// The best title seen.
    pub(super) title: Option<String>,
    /// Whether the whole file was seen: else there may be a better title.
    pub(super) whole: bool,
}

/// Looks at the two ends of this file.
pub(super) fn glance(source: &SourceFile) -> Result<Glance, StoreError> {
    let (head, tail) = ends(source)?;
    let whole = tail.is_empty() && head.len() < LOOK;
    let first = claude_code::read(&head, 0, 0);
    let last = claude_code::read(&tail, 1, 0);
    let buffers = Buffers::new(vec![Arc::new(head), Arc::new(tail)]);
    let directory = first
        .working_directories
        .first()
        .map(|text| buffers.raw(*text).to_text());
    Ok(Glance {
        started: first.lines.iter().find_map(|line| line.at.at()),
        project: directory.as_deref().and_then(last_part).map(str::to_owned),
        title: title(&[&first, &last], &buffers),
        whole,
    })
}

/// Looks at the first entries of a record of messages: they say when it began, and where.
pub(super) fn of_record(files: &[SourceFile]) -> Glance {
    let read = |file: &SourceFile| {
        let bytes = store::read(&file.path, file.fingerprint.size);
        (file.base_name(), bytes.map_err(|error| error.reason()))
    };
    let entries = Entries::of(files.iter().take(MOST_ENTRIES).map(read));
    let directory = entries.working_directory();
    Glance {
        started: entries.list.first().map(|entry| entry.at),
        project: directory.as_deref().and_then(last_part).map(str::to_owned),
        title: None,
        whole: true,
    }
}

/// The whole lines at the beginning of a file and those at its end, nothing twice.
fn ends(source: &SourceFile) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let file = store::open(&source.path)?;
    let read = |offset| {
        let mut bytes = vec![0; LOOK];
        let filled = store::read_at(&file, &mut bytes, offset).map_err(|error| StoreError::Io {
            path: source.path.clone(),
            doing: "read",
            source: error,
        })?;
        bytes.truncate(filled);
        Ok(bytes)
    };
    let mut head = read(0)?;
    if head.len() < LOOK {
        return Ok((head, Vec::new()));
    }
    head.truncate(memchr::memrchr(b'\n', &head).map_or(0, |at| at + 1));
    let offset = source.fingerprint.size.saturating_sub(LOOK as u64);
    let offset = offset.max(head.len() as u64);
    let mut tail = read(offset)?;
    // The first line is cut, unless it begins where the head ended.
    if offset > head.len() as u64 {
        let cut = memchr::memchr(b'\n', &tail).map_or(tail.len(), |at| at + 1);
        tail.drain(..cut);
    }
    Ok((head, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FileRole, Fingerprint};

    fn look(text: &str) -> Glance {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, text).unwrap();
        glance(&SourceFile {
            role: FileRole::Main,
            name: "x.jsonl".into(),
            path,
            fingerprint: Fingerprint {
                size: text.len() as u64,
                ..Fingerprint::default()
            },
        })
        .unwrap()
    }

    const PROMPT: &str = r#"{"type":"user","uuid":"u1","timestamp":"2026-11-24T10:00:00.000Z","cwd":"C:\\a\\b","message":{"role":"user","content":"\n Fix it.\nNow."}}"#;

    #[test]
    fn both_ends_of_a_long_file_are_seen_and_no_more() {
        let filler = format!(
            "{{\"type\":\"custom-title\",\"customTitle\":\"{}\"}}\n",
            "x".repeat(LOOK)
        );
        let title = r#"{"type":"ai-title","aiTitle":"The end"}"#;
        let found = look(&format!("{PROMPT}\n{filler}{filler}{title}\n"));
        assert_eq!(found.project.as_deref(), Some("b"));
        assert_eq!(found.started.unwrap().to_string(), "2026-11-24T10:00:00Z");
        assert_eq!(found.title.as_deref(), Some("The end"));
        assert!(!found.whole);
    }

    #[test]
    fn a_persons_title_beats_the_harness_and_a_foreign_summary_is_none() {
        let own = r#"{"type":"custom-title","customTitle":"Mine"}"#;
        let ai = r#"{"type":"ai-title","aiTitle":"Its"}"#;
        let foreign = r#"{"type":"summary","summary":"Other","leafUuid":"not-here"}"#;
        let here = r#"{"type":"summary","summary":"This","leafUuid":"u1"}"#;
        let title = |lines: &[&str]| look(&(lines.join("\n") + "\n")).title;
        assert_eq!(title(&[PROMPT, own, ai]).as_deref(), Some("Mine"));
        assert_eq!(title(&[PROMPT, foreign]).as_deref(), Some("Fix it."));
        assert_eq!(title(&[here, PROMPT]).as_deref(), Some("This"));
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(
            look(""),
            Glance {
                whole: true,
                ..Glance::default()
            }
        );
    }
}
