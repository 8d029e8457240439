//! What a session's files say of it as a whole: versions, project, title.

use foldhash::{HashSet, HashSetExt as _};
use std::borrow::Cow;
use std::sync::Arc;

use crate::transcript::display::paths;
use crate::transcript::line::{FileLines, Title, TitleBy};
use crate::transcript::text::{Buffers, Text};

use super::read::Files;
use super::strand::Strand;

/// What the files say of the session as a whole.
pub(super) struct About {
    pub versions: Vec<String>,
    pub project: Option<String>,
    pub title: Option<String>,
    /// The line that the harness last called the end of the conversation.
    pub live_leaf: Option<Text>,
    /// The sessions that the main thread's lines call their origin.
    pub copied_from: Vec<String>,
}

impl About {
    pub(super) fn of(files: &Files, strands: &[Arc<Strand>]) -> Self {
        let text = |text: &Text| files.buffers.raw(*text).to_text();
        let mains: Vec<&FileLines> = files
            .threads
            .iter()
            .filter(|f| f.agent.is_none())
            .map(|f| &f.said)
            .collect();
        let all: Vec<&FileLines> = mains
            .iter()
            .copied()
            .chain(files.threads.iter().map(|f| &f.said))
            .collect();
        let mut seen = HashSet::new();
        let versions = all
            .iter()
            .flat_map(|f| &f.versions)
            .map(text)
            .filter(|v| seen.insert(v.clone()))
            .collect();
        let project = all
            .iter()
            .find_map(|f| f.working_directories.first())
            .map(text);
        let project = project.as_deref().and_then(last_part).map(str::to_owned);
        Self {
            versions,
            project,
            title: title(&mains, &files.buffers, || {
                let mains = files.threads.iter().filter(|file| file.agent.is_none());
                let mains: HashSet<u32> = mains.map(|file| file.source).collect();
                let inside = strands.iter().filter(|s| mains.contains(&s.who.source));
                inside
                    .flat_map(|strand| strand.uuids(&files.buffers))
                    .collect()
            }),
            copied_from: mains
                .iter()
                .filter_map(|file| file.forked_from.as_ref())
                .map(text)
                .collect(),
            live_leaf: mains.iter().rev().find_map(|file| file.live_leaf),
        }
    }
}

/// The person's title, else the harness's, each the last one; else the last summary of a line of this session; else the first
/// line of the first prompt. `own` are the uuids of the session's lines.
pub(super) fn title<'a>(
    mains: &[&FileLines],
    buffers: &'a Buffers,
    own: impl FnOnce() -> HashSet<Cow<'a, [u8]>>,
) -> Option<String> {
    let titles = mains.iter().flat_map(|file| &file.titles);
    let (summaries, given): (Vec<&Title>, Vec<&Title>) =
        titles.partition(|title| title.by == TitleBy::Summary);
    let best = given.into_iter().max_by_key(|title| title.by);
    let best = best.or_else(|| {
        let own = if summaries.is_empty() {
            HashSet::new()
        } else {
            own()
        };
        let is_about_own = |leaf: Text| own.contains(&buffers.raw(leaf).decode());
        let about_own = summaries
            .iter()
            .rfind(|summary| summary.leaf.is_some_and(is_about_own));
        about_own.copied()
    });
    let best = best.map(|title| buffers.raw(title.text).to_text());
    best.map(|title| title.trim().to_owned())
        .filter(|title| !title.is_empty())
        .or_else(|| first_prompt(mains, buffers))
}

/// The first line of the first prompt, cut where it is long.
pub(super) fn first_prompt(mains: &[&FileLines], buffers: &Buffers) -> Option<String> {
    let first = mains.iter().find_map(|file| file.first_prompt)?;
    shortened(&buffers.raw(first).to_text())
}

/// The first line of a prompt, at most 80 characters of it; none if it is blank.
pub(super) fn shortened(text: &str) -> Option<String> {
    const LONGEST: usize = 80;
    let line = text.trim().lines().next()?.trim_end();
    // Shortened before it is cut: in the middle of a path the cut would make an earlier part the last one.
    let line = paths::shorten(line);
    let cut: String = line.chars().take(LONGEST).collect();
    Some(if cut.len() < line.len() {
        format!("{cut}…")
    } else {
        cut
    })
}

/// The last part of a path of either kind.
pub(crate) fn last_part(path: &str) -> Option<&str> {
    path.split(['/', '\\']).rfind(|part| !part.is_empty())
}
