//! The whole session as one Markdown document, nothing of which a participant can forge.
//!
//! [`contain`] is the only way into a document. The head says what the session is, how to read it and what is not known; then each
//! thread follows in a part of its own, and parts are rendered side by side. `spec/artefact.md` is the source of the rules.

mod blocks;
pub mod contain;
mod guide;
mod head;
mod input;
mod messages;
mod names;
mod reuse;
mod spine;
mod thread;

use crate::parallel;
use crate::session::{MainThread, Role, Session, ThreadIndex, TurnIndex};
pub use crate::transcript::display::Shown;
use crate::transcript::{Segment, TURNS_A_PART};
use contain::Page;
pub use messages::messages;
use rayon::prelude::*;
use reuse::Reusable;
pub use reuse::Stretch;
use std::ops::Range;
use std::sync::Arc;
use thread::Part;

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

/// A rendered document. Its text is the segments, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The text: what this program wrote, and between it the session's own texts where they lie.
    pub segments: Vec<Segment>,
    /// Where each turn's section stands, in document order.
    pub sections: Vec<Section>,
    /// What was escaped, replaced and cut.
    pub shown: Shown,
    /// The stretches of turns that it is made of, for the document of a session that has grown.
    pub stretches: Vec<Arc<Stretch>>,
}

impl Document {
    /// The whole text.
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments.concat()
    }
}

/// A turn's section within a [`Document`]: from its heading up to the next heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The thread.
    pub thread: ThreadIndex,
    /// The turn.
    pub turn: TurnIndex,
    /// Its bytes in the document.
    pub range: Range<u64>,
}

/// The artefact of a whole session: the same session and style give the same bytes.
pub fn whole(session: &Session, style: Style) -> Document {
    whole_again(session, style, None)
}

/// As [`whole`], the same bytes. `before` is the session before it grew, and what was written of it in the same style: of
/// stretches of turns that are still the same, what was written serves again.
pub fn whole_again(
    session: &Session,
    style: Style,
    before: Option<(&Session, &[Arc<Stretch>])>,
) -> Document {
    render(session, style, &plan(session), before, |shown, page| {
        head::of_session(session, style, shown, page);
    })
}

/// The artefact of one sub-agent or service thread, its section the same as in [`whole`]. Empty for an index that the session does not have.
pub fn agent(session: &Session, thread: ThreadIndex, style: Style) -> Document {
    if thread >= session.threads.len() {
        return Document::default();
    }
    render(
        session,
        style,
        &[Step::Thread(thread)],
        None,
        |shown, page| {
            head::of_thread(session, thread, style, shown, page);
        },
    )
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
    /// What the record of messages says.
    Messages,
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
    if !session.entries.is_empty() {
        steps.push(Step::Messages);
    }
    steps
}

fn render(
    session: &Session,
    style: Style,
    steps: &[Step],
    before: Option<(&Session, &[Arc<Stretch>])>,
    head: impl Fn(&Shown, &mut Page),
) -> Document {
    let pieces: Vec<_> = steps
        .iter()
        .flat_map(|step| step.pieces(session, style))
        .collect();
    let reusable = before.and_then(|(then, stretches)| Reusable::of(then, session, stretches));
    let same = |piece: &Piece| reusable.as_ref().and_then(|reusable| reusable.get(piece));
    let same: Vec<Option<Arc<Stretch>>> = pieces.iter().map(same).collect();
    let new = pieces.iter().zip(&same).filter(|(_, same)| same.is_none());
    let turns = new.map(|(piece, _)| piece.turns(session)).sum();
    let least = parallel::least(pieces.len(), turns, TURNS_A_PART);
    let stretches = pieces.par_iter().zip(same).with_min_len(least);
    let stretches = stretches.map(|(piece, same)| {
        let new = || Stretch::new(piece.clone(), piece.render(session, style));
        same.unwrap_or_else(|| Arc::new(new()))
    });
    let stretches: Vec<Arc<Stretch>> = stretches.collect();
    let mut document = Document::default();
    for stretch in &stretches {
        document.shown += stretch.shown;
    }
    // The head counts what it shows itself. What it escapes does not depend on the counts in it, so that a first writing finds them.
    let mut page = Page::default();
    head(&document.shown, &mut page);
    document.shown += page.shown();
    let mut page = Page::default();
    head(&document.shown, &mut page);
    let mut at = page.len() as u64;
    document.segments = page.into_segments();
    for (piece, stretch) in pieces.iter().zip(&stretches) {
        if let Piece::Turns { thread, .. } | Piece::Spine(thread) = *piece {
            let sections = stretch.sections.iter();
            document
                .sections
                .extend(sections.map(|(turn, range)| Section {
                    thread,
                    turn: *turn,
                    range: at + range.start as u64..at + range.end as u64,
                }));
        }
        at += stretch.len as u64;
        document.segments.extend_from_slice(&stretch.segments);
    }
    document.stretches = stretches;
    document
}

/// What is rendered by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Piece {
    /// A thread's heading, and what is known of it.
    Opening(ThreadIndex),
    /// A part of a thread's turns. Parts of one thread are rendered side by side too.
    Turns {
        thread: ThreadIndex,
        turns: Range<TurnIndex>,
    },
    /// Other turns are not like those of the spine: its notes count over any number of them.
    Spine(ThreadIndex),
    NoMainThread,
    Unattributed(u64),
    Service(u64),
    Messages,
}

impl Step {
    fn pieces(&self, session: &Session, style: Style) -> Vec<Piece> {
        match *self {
            Self::Thread(thread) => {
                if style == Style::Spine {
                    return vec![Piece::Spine(thread)];
                }
                let count = session.threads[thread].turns.len();
                let starts = (0..count).step_by(TURNS_A_PART);
                let turns = starts.map(|start| start..(start + TURNS_A_PART).min(count));
                let turns = turns.map(|turns| Piece::Turns { thread, turns });
                std::iter::once(Piece::Opening(thread))
                    .chain(turns)
                    .collect()
            }
            Self::NoMainThread => vec![Piece::NoMainThread],
            Self::Unattributed(count) => vec![Piece::Unattributed(count)],
            Self::Service(count) => vec![Piece::Service(count)],
            Self::Messages => vec![Piece::Messages],
        }
    }
}

impl Piece {
    /// How many turns it is written from.
    fn turns(&self, session: &Session) -> usize {
        match self {
            Self::Turns { turns, .. } => turns.len(),
            Self::Spine(thread) => session.threads[*thread].turns.len(),
            _ => 0,
        }
    }

    fn render(&self, session: &Session, style: Style) -> Part {
        let mut part = Part::default();
        let page = &mut part.page;
        match self {
            Self::Opening(thread) => thread::opening(session, *thread, page),
            Self::Turns { thread, turns } => {
                let limit = match style {
                    Style::Cut(limit) => limit,
                    Style::Full | Style::Spine => None,
                };
                return thread::turns(session, *thread, turns.clone(), limit);
            }
            Self::Spine(thread) => return spine::turns(session, *thread),
            Self::NoMainThread => no_main_thread(session, page),
            Self::Unattributed(count) => unattributed(*count, page),
            Self::Service(count) => service(*count, page),
            Self::Messages => messages::section(session, style, page),
        }
        part
    }
}

fn no_main_thread(session: &Session, page: &mut Page) {
    page.heading(2, "Main thread");
    page.paragraph(match session.completeness.main_thread {
        MainThread::Unreadable => "Its file could not be read.",
        MainThread::Missing | MainThread::Present if session.threads.is_empty() => {
            "It is not there: this session is known only by its record of messages."
        }
        MainThread::Missing | MainThread::Present => {
            "It is not there: the session's other threads are all that is stored."
        }
    });
}

fn unattributed(count: u64, page: &mut Page) {
    page.heading(2, "Unattributed sub-agents");
    page.paragraph((
        "Sub-agents of this session to which no stored spawn leads from the main thread: ",
        count,
        ". None is placed by guess.",
    ));
}

fn service(count: u64, page: &mut Page) {
    page.heading(2, "Service threads");
    page.paragraph((
        "Threads that the harness ran for itself, and nobody spawned: ",
        count,
        ". Only their own turns are shown, not what they copied from others.",
    ));
}
