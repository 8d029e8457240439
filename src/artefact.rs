//! The whole session as one Markdown document, nothing of which a participant can forge.
//!
//! [`contain`] is the only way into a document. The head says what the session is, how to read it and what is not known; then each
//! thread follows in a part of its own, and parts are rendered side by side. `spec/artefact.md` is the source of the rules.

mod blocks;
pub mod contain;
mod guide;
mod head;
mod input;
mod names;
mod spine;
mod thread;

use crate::session::{MainThread, Role, Session, ThreadIndex, TurnIndex};
pub use crate::transcript::display::Shown;
use contain::Page;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use thread::Part;

/// Turns that one part of a document holds at most. Parts of one thread are rendered side by side too.
const TURNS_A_PART: usize = 512;

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
    /// The head, then one or more parts a thread.
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

/// The artefact of a whole session: the same session and style give the same bytes.
pub fn whole(session: &Session, style: Style) -> Document {
    render(session, style, &plan(session), |shown, page| {
        head::of_session(session, style, shown, page);
    })
}

/// The artefact of one sub-agent or service thread, its section the same as in [`whole`]. Empty for an index that the session does not have.
pub fn agent(session: &Session, thread: ThreadIndex, style: Style) -> Document {
    if thread >= session.threads.len() {
        return Document::default();
    }
    render(session, style, &[Step::Thread(thread)], |shown, page| {
        head::of_thread(session, thread, style, shown, page);
    })
}

/// What follows the head, in order.
enum Step {
    /// A thread's section.
    Thread(ThreadIndex),
    /// The main thread's heading where there is no main thread.
    NoMainThread,
    /// The heading over agents that nothing places, and their number.
    Unattributed(u64),
    /// The heading over service threads, and their number.
    Service(u64),
}

fn plan(session: &Session) -> Vec<Step> {
    let threads = |wanted: fn(&Role) -> bool| {
        let all = session.threads.iter().enumerate();
        all.filter(move |(_, thread)| wanted(&thread.role))
            .map(|(index, _)| Step::Thread(index))
            .collect()
    };
    let mut steps: Vec<Step> = threads(|role| matches!(role, Role::Main));
    if steps.is_empty() {
        steps.push(Step::NoMainThread);
    }
    steps.extend::<Vec<_>>(threads(
        |role| matches!(role, Role::Agent(agent) if names::is_placed(agent)),
    ));
    let unattributed: Vec<_> =
        threads(|role| matches!(role, Role::Agent(agent) if !names::is_placed(agent)));
    if !unattributed.is_empty() {
        steps.push(Step::Unattributed(unattributed.len() as u64));
        steps.extend(unattributed);
    }
    let service: Vec<_> = threads(|role| matches!(role, Role::Service(_)));
    if !service.is_empty() {
        steps.push(Step::Service(service.len() as u64));
        steps.extend(service);
    }
    steps
}

fn render(
    session: &Session,
    style: Style,
    steps: &[Step],
    head: impl Fn(&Shown, &mut Page),
) -> Document {
    let pieces: Vec<_> = steps
        .iter()
        .flat_map(|step| step.pieces(session, style))
        .collect();
    let parts: Vec<Part> = pieces
        .par_iter()
        .map(|piece| piece.render(session, style))
        .collect();
    let mut document = Document::default();
    document.parts.push(Arc::default());
    for (piece, part) in pieces.iter().zip(parts) {
        if let Piece::Turns { thread, .. } = *piece {
            document
                .sections
                .extend(part.sections.into_iter().map(|(turn, range)| Section {
                    thread,
                    turn,
                    part: document.parts.len(),
                    range,
                }));
        }
        let (bytes, shown) = part.page.into_parts();
        document.shown += shown;
        document.parts.push(Arc::new(bytes));
    }
    // The head counts what it shows itself. What it escapes does not depend on the counts in it, so that a first writing finds them.
    let mut page = Page::default();
    head(&document.shown, &mut page);
    document.shown += page.shown();
    let mut page = Page::default();
    head(&document.shown, &mut page);
    document.parts[0] = Arc::new(page.into_parts().0);
    document
}

/// What is rendered by itself.
enum Piece {
    Turns {
        thread: ThreadIndex,
        turns: Range<TurnIndex>,
    },
    Words(fn(&Session, u64, &mut Page), u64),
}

impl Step {
    fn pieces(&self, session: &Session, style: Style) -> Vec<Piece> {
        match *self {
            Self::Thread(thread) => {
                let count = session.threads[thread].turns.len();
                // The spine's notes count over any number of turns.
                let size = if style == Style::Spine {
                    count.max(1)
                } else {
                    TURNS_A_PART
                };
                let starts = (0..count.max(1)).step_by(size);
                let turns = starts.map(|start| start..(start + size).min(count));
                turns.map(|turns| Piece::Turns { thread, turns }).collect()
            }
            Self::NoMainThread => vec![Piece::Words(no_main_thread, 0)],
            Self::Unattributed(count) => vec![Piece::Words(unattributed, count)],
            Self::Service(count) => vec![Piece::Words(service, count)],
        }
    }
}

impl Piece {
    fn render(&self, session: &Session, style: Style) -> Part {
        match self {
            Self::Turns { thread, turns } => match style {
                Style::Cut(limit) => thread::turns(session, *thread, turns.clone(), limit),
                Style::Full => thread::turns(session, *thread, turns.clone(), None),
                Style::Spine => spine::turns(session, *thread),
            },
            Self::Words(words, count) => {
                let mut part = Part::default();
                words(session, *count, &mut part.page);
                part
            }
        }
    }
}

fn no_main_thread(session: &Session, _: u64, page: &mut Page) {
    page.heading(2, "Main thread");
    page.paragraph(match session.completeness.main_thread {
        MainThread::Unreadable => "Its file could not be read.",
        MainThread::Missing | MainThread::Present => {
            "It is not there: the session's other threads are all that is stored."
        }
    });
}

fn unattributed(_: &Session, count: u64, page: &mut Page) {
    page.heading(2, "Unattributed sub-agents");
    page.paragraph((
        "Sub-agents of this session to which no stored spawn leads from the main thread: ",
        count,
        ". None is placed by guess.",
    ));
}

fn service(_: &Session, count: u64, page: &mut Page) {
    page.heading(2, "Service threads");
    page.paragraph((
        "Threads that the harness ran for itself, and nobody spawned: ",
        count,
        ". Only their own turns are shown, not what they copied from others.",
    ));
}
