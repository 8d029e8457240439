//! A bounded look at a transcript: enough for a row of a table, whatever its size.

use crate::store::{self, SourceFile, StoreError};
use crate::transcript::line::{FileLines, TitleBy, What};
use crate::transcript::{Block, Buffers, Text, TurnKind, claude_code};
use jiff::Timestamp;
use std::sync::Arc;

/// How many bytes of a file are looked at, at each end. Most first prompts fit, and titles are repeated at the end.
const LOOK: usize = 64 << 10;

/// What a bounded look at a transcript says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// The first stamped line's time.
    pub(super) started: Option<Timestamp>,
    /// The last part of the first working directory.
    pub(super) project: Option<String>,
    /// The best title seen.
    pub(super) title: Option<String>,
    /// The first line of the first prompt seen.
    pub(super) prompt: Option<String>,
    /// Whether the whole file was seen: else there may be a better title.
    pub(super) whole: bool,
}

/// Looks at the two ends of this file.
pub(super) fn glance(source: &SourceFile) -> Result<Glance, StoreError> {
    let io = |error| StoreError::Io {
        path: source.path.clone(),
        doing: "read",
        source: error,
    };
    let file = store::open(&source.path)?;
    let mut head = vec![0; LOOK];
    let filled = store::read_at(&file, &mut head, 0).map_err(io)?;
    head.truncate(filled);
    let mut found = Glance {
        whole: filled < LOOK,
        ..Glance::default()
    };
    if !found.whole {
        whole_lines_at_the_start(&mut head);
    }
    let head = Look::at(head);
    found.started = head.lines.lines.iter().find_map(|line| line.at.at());
    found.project = head.lines.working_directories.first().and_then(|text| last_part(&head.text(*text)));
    found.prompt = head.prompt();
    let mut title = head.title();

    if !found.whole {
        let offset = source.fingerprint.size.saturating_sub(LOOK as u64).max(head.len() as u64);
        let mut tail = vec![0; LOOK];
        let filled = store::read_at(&file, &mut tail, offset).map_err(io)?;
        tail.truncate(filled);
        // The first line is cut, unless it begins where the head ended.
        if offset > head.len() as u64 {
            let feed = memchr::memchr(b'\n', &tail).map_or(tail.len(), |at| at + 1);
            tail.drain(..feed);
        }
        title = Look::at(tail).title().max(title);
    }
    found.title = title.map(|(_, text)| text);
    Ok(found)
}

/// Lines that were read, with the bytes that they stand in.
struct Look {
    buffers: Buffers,
    lines: FileLines,
}

impl Look {
    fn at(bytes: Vec<u8>) -> Self {
        let lines = claude_code::read(&bytes, 0, 0);
        Self {
            buffers: Buffers::new(vec![Arc::new(bytes)]),
            lines,
        }
    }

    fn text(&self, text: Text) -> String {
        self.buffers.raw(text).to_text()
    }

    /// The best title, the last of equals. A summary counts only where the line that it is about was seen: it may be
    /// about another session.
    fn title(&self) -> Option<(TitleBy, String)> {
        let about_this = |leaf: Option<Text>| {
            let leaf = leaf.map(|leaf| self.text(leaf));
            leaf.is_some_and(|leaf| {
                let uuids = self.lines.lines.iter().filter_map(|line| line.uuid);
                uuids.into_iter().any(|uuid| self.text(uuid) == leaf)
            })
        };
        let best = self
            .lines
            .titles
            .iter()
            .filter(|title| title.by != TitleBy::Summary || about_this(title.leaf))
            .max_by_key(|title| title.by)?;
        Some((best.by, self.text(best.text)))
    }

    /// The first line of the first prompt that says something.
    fn prompt(&self) -> Option<String> {
        self.lines.lines.iter().find_map(|line| match &line.what {
            What::Turn { kind: TurnKind::User, blocks, .. } if !line.sidechain => {
                let said = blocks.iter().find_map(|block| match block {
                    Block::Text(text) => Some(self.text(*text)),
                    _ => None,
                })?;
                said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
            }
            _ => None,
        })
    }
}

/// Cuts off an unfinished last line.
fn whole_lines_at_the_start(bytes: &mut Vec<u8>) {
    bytes.truncate(memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1));
}

/// The last part of a path of either kind of system.
fn last_part(path: &str) -> Option<String> {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).map(str::to_owned)
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
        let filler = format!("{{\"type\":\"custom-title\",\"customTitle\":\"{}\"}}\n", "x".repeat(LOOK));
        let title = r#"{"type":"ai-title","aiTitle":"The end"}"#;
        let found = look(&format!("{PROMPT}\n{filler}{filler}{title}\n"));
        assert_eq!(found.prompt.as_deref(), Some("Fix it."));
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
        assert_eq!(title(&[PROMPT, foreign]), None);
        assert_eq!(title(&[here, PROMPT]).as_deref(), Some("This"));
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(look(""), Glance { whole: true, ..Glance::default() });
    }
}
