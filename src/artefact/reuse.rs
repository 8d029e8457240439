//! What was written of a session before it grew, used again where it would be written the same.
//!
//! What a stretch of turns is written from: the turns, whose texts stand where they stood; the markers at them; the names and
//! types of the threads that these markers name; the stored results. Where all of them are equal, so is what is written.

use super::Piece;
use super::thread::Part;
use crate::session::{Marker, Role, Session, ThreadIndex, TurnIndex};
use crate::transcript::display::Shown;
use crate::transcript::{Segment, TURNS_A_PART, Turn};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A part of a document as it was written.
#[derive(Debug)]
pub struct Stretch {
    piece: Piece,
    pub(super) segments: Vec<Segment>,
    pub(super) len: usize,
    pub(super) sections: Vec<(TurnIndex, Range<usize>)>,
    pub(super) shown: Shown,
}

impl Stretch {
    /// About how many bytes it takes beside those of its text.
    pub fn weight(&self) -> usize {
        let segments = self.segments.len() * size_of::<Segment>();
        size_of::<Self>() + segments + self.sections.len() * size_of::<(TurnIndex, Range<usize>)>()
    }

    pub(super) fn new(piece: Piece, part: Part) -> Self {
        Self {
            piece,
            len: part.page.len(),
            shown: part.page.shown(),
            segments: part.page.into_segments(),
            sections: part.sections,
        }
    }
}

/// The stretches of turns of a session before it grew.
pub(super) struct Reusable<'a> {
    then: &'a Session,
    now: &'a Session,
    stretches: HashMap<&'a Piece, &'a Arc<Stretch>>,
}

impl<'a> Reusable<'a> {
    /// None where something that every turn is written from is not what it was.
    pub(super) fn of(
        then: &'a Session,
        now: &'a Session,
        stretches: &'a [Arc<Stretch>],
    ) -> Option<Self> {
        let same = same_buffers(then, now)
            && same_names(then, now)
            && then.entries.is_empty()
            && now.entries.is_empty()
            && then.stored.len() == now.stored.len()
            && (then.stored.iter().zip(&now.stored)).all(|(then, now)| then.is_same(now));
        let turns = stretches
            .iter()
            .filter(|stretch| matches!(stretch.piece, Piece::Turns { .. }));
        same.then(|| Self {
            then,
            now,
            stretches: turns.map(|stretch| (&stretch.piece, stretch)).collect(),
        })
    }

    /// What was written of this piece, if it would be written the same.
    pub(super) fn get(&self, piece: &Piece) -> Option<Arc<Stretch>> {
        let Piece::Turns { thread, turns } = piece else {
            return None;
        };
        let stretch = *self.stretches.get(piece)?;
        let (then, now) = (&self.then.threads[*thread], &self.now.threads[*thread]);
        let part = turns.start / TURNS_A_PART;
        let same = same_part(then.turns.parts().get(part), now.turns.parts().get(part))
            && markers(&then.markers, turns).eq(markers(&now.markers, turns));
        same.then(|| stretch.clone())
    }
}

/// Whether the turns of both parts are equal: the same ones, as a rule, of which only the place need be looked at.
fn same_part(then: Option<&Arc<Vec<Turn>>>, now: Option<&Arc<Vec<Turn>>>) -> bool {
    match (then, now) {
        (Some(then), Some(now)) => Arc::ptr_eq(then, now) || then == now,
        _ => false,
    }
}

/// Whether every buffer that a turn's text can stand in is the same one: then texts that stand at the same place are equal.
fn same_buffers(then: &Session, now: &Session) -> bool {
    let buffers = then.reads.buffers();
    buffers > 0
        && buffers <= now.reads.buffers()
        && (0..buffers as u32).all(|i| {
            let (then, now) = (then.buffers.shared(i), now.buffers.shared(i));
            Arc::ptr_eq(&then, &now) || (then.is_empty() && now.is_empty())
        })
}

/// Whether the threads are those that they were, and perhaps more behind them.
fn same_names(then: &Session, now: &Session) -> bool {
    fn name(session: &Session, thread: ThreadIndex) -> Option<(&str, &str, Option<&str>)> {
        let thread = session.threads.get(thread)?;
        Some(match &thread.role {
            Role::Main => (&thread.id, "main", None),
            Role::Agent(agent) => (&thread.id, "agent", agent.agent_type.as_deref()),
            Role::Service(kind) => (&thread.id, kind.name(), None),
        })
    }
    (0..then.threads.len()).all(|thread| name(then, thread) == name(now, thread))
}

fn markers<'a>(
    markers: &'a [Marker],
    turns: &'a Range<TurnIndex>,
) -> impl Iterator<Item = &'a Marker> {
    let within = |marker: &&Marker| marker.turn.is_some_and(|turn| turns.contains(&turn));
    markers.iter().filter(within)
}
