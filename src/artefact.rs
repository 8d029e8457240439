//! The whole session as one Markdown document, nothing of which a participant can forge.

pub mod contain;

use crate::session::{Session, ThreadIndex, TurnIndex};
pub use crate::transcript::display::Shown;
use std::ops::Range;
use std::sync::Arc;

/// Which of the three artefacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// `artefact.md`: blocks over this many bytes of display form are cut and counted; none cuts nothing.
    Cut(Option<usize>),
    /// `artefact.full.md`: nothing cut.
    Full,
    /// `artefact.spine.md`: prompts, answers, tool names, counted gaps.
    Spine,
}

/// A rendered document. Its text is the parts, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The head, then one part a thread, then what follows.
    pub parts: Vec<Arc<Vec<u8>>>,
    /// Where each turn's section stands, in document order.
    pub sections: Vec<Section>,
    /// What was escaped, replaced and cut.
    pub shown: Shown,
}

/// A turn's section within a [`Document`]: from its heading up to the next heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The thread.
    pub thread: ThreadIndex,
    /// The turn.
    pub turn: TurnIndex,
    /// Which part of the document.
    pub part: usize,
    /// Its bytes in that part.
    pub range: Range<usize>,
}

/// The artefact of a whole session.
pub fn whole(_session: &Session, _style: Style) -> Document {
    Document::default()
}

/// The artefact of one sub-agent.
pub fn agent(_session: &Session, _thread: ThreadIndex, _style: Style) -> Document {
    Document::default()
}
