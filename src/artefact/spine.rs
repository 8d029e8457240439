//! The reduced artefact: prompts, answers, tool names and markers, and a counted note for each gap.

use super::contain::{List, Or, Page, SafeValue};
use super::messages::attribution;
use super::thread::{Markers, Part, heading, opening};
use crate::session::{Session, ThreadIndex, TurnIndex};
use crate::transcript::display;
use crate::transcript::{Block, Turn, TurnKind};
use std::collections::BTreeMap;

/// A thread reduced (`spec/artefact.md`, "Sizes"): the texts of `user`, `task` and `peer` turns and of the assistant, the names of
/// the tools that it called, and every marker. A turn that has none of them gets no section.
pub(super) fn turns(session: &Session, index: ThreadIndex) -> Part {
    let markers = Markers::of(session, index);
    let mut part = Part::default();
    opening(session, index, &mut part.page);
    let mut gap = Gap::default();
    let mut section = None;
    for (number, turn) in session.threads[index].turns.iter().enumerate() {
        let is_kept = turn
            .blocks
            .iter()
            .any(|block| Kept::of(turn.kind, block) != Kept::Nothing);
        if is_kept || !markers.at(Some(number)).is_empty() {
            end(&mut gap, section, &mut part);
            section = Some((number, part.page.len()));
            heading(session, turn, number, &mut part.page);
            attribution(session, index, number, &mut part.page);
            show(session, turn, &mut part.page, &mut gap);
            markers.write(Some(number), &mut part.page);
        } else {
            *gap.turns.entry(turn.kind.name()).or_default() += 1;
            for block in &turn.blocks {
                gap.add(session, block);
            }
        }
    }
    end(&mut gap, section, &mut part);
    part
}

/// What of a block is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    ToolName,
    Nothing,
}

impl Kept {
    fn of(kind: TurnKind, block: &Block) -> Self {
        match (kind, block) {
            (
                TurnKind::User | TurnKind::Task | TurnKind::Peer | TurnKind::Assistant,
                Block::Text(_),
            ) => Self::All,
            (TurnKind::Assistant, Block::ToolCall { .. }) => Self::ToolName,
            _ => Self::Nothing,
        }
    }
}

fn show(session: &Session, turn: &Turn, page: &mut Page, gap: &mut Gap) {
    for block in &turn.blocks {
        match (Kept::of(turn.kind, block), block) {
            (Kept::All, Block::Text(text)) => {
                page.paragraph("Text");
                page.fence_kept(*text, &session.buffers, None);
            }
            (Kept::ToolName, Block::ToolCall { name, .. }) => {
                let name = name.map(|name| SafeValue::raw(session.buffers.raw(name)));
                page.paragraph(("Tool call ", Or(name, "without name")));
                gap.add(session, block);
            }
            _ => gap.add(session, block),
        }
    }
}

/// Ends the section that is open with the note of what is left out before the next one.
fn end(gap: &mut Gap, section: Option<(TurnIndex, usize)>, part: &mut Part) {
    std::mem::take(gap).write(&mut part.page);
    if let Some((turn, start)) = section {
        part.end_section(turn, start);
    }
}

/// What is left out between two headings.
#[derive(Default)]
struct Gap {
    /// Turns by kind.
    turns: BTreeMap<&'static str, u64>,
    blocks: u64,
    /// Bytes in display form; those of a picture or document are in no artefact and are not counted.
    bytes: u64,
}

impl Gap {
    fn add(&mut self, session: &Session, block: &Block) {
        self.blocks += 1;
        let mut open = vec![block];
        while let Some(block) = open.pop() {
            let text = match block {
                Block::Text(text) | Block::Other { value: text, .. } => Some(text),
                Block::Thinking { text } => text.as_ref(),
                Block::ToolCall { input, .. } => input.as_ref(),
                Block::ToolResult { content, .. } => {
                    open.extend(content);
                    None
                }
                Block::Media { data, base64, .. } => data.as_ref().filter(|_| !base64),
                Block::NotStored { .. } => None,
                Block::Stored { result } => {
                    let stored = session.stored.get(*result as usize);
                    stored
                        .filter(|stored| stored.is_text)
                        .map(|stored| &stored.bytes)
                }
            };
            self.bytes += text.map_or(0, |text| display::len(session.buffers.raw(*text)));
        }
    }

    fn write(self, page: &mut Page) {
        if self.turns.is_empty() && self.blocks == 0 {
            return;
        }
        let turns = List(self.turns.iter().map(|(kind, count)| (*count, " ", *kind)));
        page.paragraph((
            "Left out up to the next heading: ",
            (!self.turns.is_empty()).then_some(("turns (", turns, "), ")),
            ("blocks: ", self.blocks, ", bytes: ", self.bytes),
        ));
        page.leave_out(self.blocks, self.bytes);
    }
}
