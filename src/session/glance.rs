//! A bounded look at a transcript: enough for a row of a table, whatever its size.

use super::about::{first_prompt, title};
use super::from_log;
use crate::store::{self, FileRole, SourceFile, StoreError};
use crate::transcript::line::{FileLines, Line};
use crate::transcript::{Buffers, claude_code};
use jiff::Timestamp;
use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

/// How many bytes of a file are looked at, at each end. Most first prompts fit, and titles are repeated at the end.
const LOOK: usize = 64 << 10;

/// How many bytes are looked at for the first prompt and the first time where a file begins with very long lines.
const LONGEST_LOOK: usize = 1 << 20;

/// How many bytes of an agent's file are looked at to tell which agent's it is.
const SHORT_LOOK: usize = 16 << 10;

/// What a bounded look at a transcript says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// The first stamped line's time.
    pub(super) started: Option<Timestamp>,
    /// The latest time stamped on a line near the end.
    pub(super) ended: Option<Timestamp>,
    /// The first working directory.
    pub(super) directory: Option<String>,
    /// The first line of the first prompt.
    pub(super) prompt: Option<String>,
    /// The best title seen.
    pub(super) title: Option<String>,
    /// Whether the whole file was seen: else there may be a better title.
    pub(super) whole: bool,
    /// Agents of which a line inside this main thread is the first.
    pub(super) inline_agents: u64,
    /// Whether there may be more of them in the part that was not seen.
    pub(super) may_hide_agents: bool,
}

/// Looks at the two ends of this file; of a framed log at the beginning, which alone tells something.
pub(super) fn glance(source: &SourceFile) -> Result<Glance, StoreError> {
    let file = store::open(&source.path)?;
    if source.role == FileRole::Log {
        return Ok(from_log::glance(&file, source));
    }
    let failed = |error| StoreError::Io {
        path: source.path.clone(),
        doing: "read",
        source: error,
    };
    let mut look = LOOK;
    loop {
        let (head, tail) = ends(&file, source.fingerprint.size, look).map_err(failed)?;
        let whole = tail.is_none();
        let mut first = claude_code::read(&head, 0, 0);
        let mut last = tail.as_deref().map(|tail| claude_code::read(tail, 1, 0));
        let texts = std::iter::once(&mut first).chain(&mut last);
        let texts = texts.map(|lines| Arc::new(std::mem::take(&mut lines.texts)));
        let buffers = Buffers::new(texts.collect());
        let started = first.lines.iter().find_map(|line| line.at.at());
        let prompt = first_prompt(&[&first], &buffers);
        if !whole && look < LONGEST_LOOK && (started.is_none() || prompt.is_none()) {
            look *= 4;
            continue;
        }
        let files: Vec<&FileLines> = std::iter::once(&first).chain(&last).collect();
        let stamps = files.iter().flat_map(|file| &file.lines);
        let directory = first.working_directories.first();
        return Ok(Glance {
            started,
            ended: stamps.filter_map(|line| line.at.at()).max(),
            directory: directory.map(|text| buffers.raw(*text).to_text()),
            prompt,
            title: title(&files, &buffers, || {
                let lines = files.iter().flat_map(|file| &file.lines);
                let uuids = lines.filter_map(|line| line.uuid);
                uuids.map(|uuid| buffers.raw(uuid).decode()).collect()
            }),
            whole,
            inline_agents: inline_agents(&files, &buffers),
            may_hide_agents: !whole
                && (files
                    .iter()
                    .any(|file| file.lines.iter().any(|line| line.sidechain))
                    || first
                        .versions
                        .iter()
                        .any(|v| keeps_agents_inside(&buffers.raw(*v).to_text()))),
        });
    }
}

/// The `uuid` of a transcript's first line that has one, as far as a short look shows.
pub(super) fn first_uuid(source: &SourceFile) -> Option<String> {
    let mut bytes = vec![0; SHORT_LOOK];
    let filled = store::read_at(&store::open(&source.path).ok()?, &mut bytes, 0).ok()?;
    bytes.truncate(filled);
    let read = claude_code::read(&bytes, 0, 0);
    let uuid = read.lines.iter().find_map(|line| line.uuid)?;
    let buffers = Buffers::new(vec![Arc::new(read.texts)]);
    Some(buffers.raw(uuid).to_text())
}

/// How many sidechain lines have no other one above them: each is the first of an agent.
fn inline_agents(files: &[&FileLines], buffers: &Buffers) -> u64 {
    let lines = || files.iter().flat_map(|file| &file.lines);
    let inside = || lines().filter(|line| line.sidechain);
    let uuids: HashSet<_> = inside()
        .filter_map(|line| Some(buffers.raw(line.uuid?).decode()))
        .collect();
    let is_first = |line: &&Line| {
        let parent = line.parent.map(|parent| buffers.raw(parent).decode());
        parent.is_none_or(|parent| !uuids.contains(&parent))
    };
    inside().filter(is_first).count() as u64
}

/// Whether this version of the harness wrote its agents' lines into the main file: to 2.0.24 it did
/// (`formats/claude-code.md` 1).
fn keeps_agents_inside(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    matches!((next(), next(), next()), (Some(major), Some(minor), Some(patch)) if (major, minor, patch) <= (2, 0, 24))
}

/// The whole lines at the beginning of a file and those at its end, nothing twice; no end where the beginning is all.
fn ends(file: &File, size: u64, look: usize) -> std::io::Result<(Vec<u8>, Option<Vec<u8>>)> {
    let read = |offset, length| {
        let mut bytes = vec![0; length];
        let filled = store::read_at(file, &mut bytes, offset)?;
        bytes.truncate(filled);
        Ok::<_, std::io::Error>(bytes)
    };
    let mut head = read(0, look.min(usize::try_from(size).unwrap_or(look)))?;
    if head.len() < look {
        return Ok((head, None));
    }
    head.truncate(memchr::memrchr(b'\n', &head).map_or(0, |at| at + 1));
    let offset = size.saturating_sub(LOOK as u64);
    let offset = offset.max(head.len() as u64);
    let mut tail = read(offset, (size - offset.min(size)) as usize)?;
    // The first line is cut, unless it begins where the head ended.
    if offset > head.len() as u64 {
        let cut = memchr::memchr(b'\n', &tail).map_or(tail.len(), |at| at + 1);
        tail.drain(..cut);
    }
    Ok((head, Some(tail)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fingerprint;

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
        assert_eq!(found.directory.as_deref(), Some(r"C:\a\b"));
        assert_eq!(found.prompt.as_deref(), Some("Fix it."));
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
    fn a_prompt_behind_very_long_lines_is_found_and_a_cut_last_line_is_none() {
        let long = format!(r#"{{"type":"mode","mode":"{}"}}"#, "x".repeat(3 * LOOK));
        let last = r#"{"type":"assistant","timestamp":"2026-11-24T12:00:00.000Z"}"#;
        let found = look(&format!(
            "{long}\n{PROMPT}\n{last}\n{{\"type\":\"custom-title\",\"cust"
        ));
        assert_eq!(found.prompt.as_deref(), Some("Fix it."));
        assert_eq!(found.ended.unwrap().to_string(), "2026-11-24T12:00:00Z");
        assert_eq!(found.title.as_deref(), Some("Fix it."));
        let endless = format!("{long}{}\n{PROMPT}\n", "x".repeat(LONGEST_LOOK));
        assert_eq!(look(&endless).started, None);
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
