//! The turns of one thread, in parts that the versions of a growing thread share.
//!
//! Of a thread that grows only the last part changes, and now and then an earlier one, where a response has another line. A
//! version has all other parts in common with the one before: what was made of a part serves for as long as the part is the same.

use super::thread::Turn;
use std::ops::{Index, Range};
use std::sync::Arc;

/// Turns that every part but the last one holds.
pub const TURNS_A_PART: usize = 64;

/// Turns in order. To clone them costs a pointer a part.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    parts: Vec<Arc<Vec<Turn>>>,
}

impl Turns {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts
            .last()
            .map_or(0, |last| (self.parts.len() - 1) * TURNS_A_PART + last.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Arc<Vec<Turn>>] {
        &self.parts
    }

    /// The turn at a place.
    pub fn get(&self, place: usize) -> Option<&Turn> {
        self.parts
            .get(place / TURNS_A_PART)?
            .get(place % TURNS_A_PART)
    }

    /// The turn at a place, to be changed. Its part is no longer shared then.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Turn> {
        let part = self.parts.get_mut(place / TURNS_A_PART)?;
        Arc::make_mut(part).get_mut(place % TURNS_A_PART)
    }

    /// Adds a turn at the end.
    pub fn push(&mut self, turn: Turn) {
        match self.parts.last_mut() {
            Some(last) if last.len() < TURNS_A_PART => Arc::make_mut(last).push(turn),
            _ => self.parts.push(Arc::new(vec![turn])),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Turn> + Clone {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// Those at these places; places that there are not give none.
    pub fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Turn> + Clone {
        let first = places.start / TURNS_A_PART;
        let parts = self.parts.get(first..).unwrap_or_default();
        let turns = parts.iter().flat_map(|part| part.iter());
        turns.skip(places.start % TURNS_A_PART).take(places.len())
    }
}

impl Index<usize> for Turns {
    type Output = Turn;

    fn index(&self, place: usize) -> &Turn {
        &self.parts[place / TURNS_A_PART][place % TURNS_A_PART]
    }
}

impl FromIterator<Turn> for Turns {
    fn from_iter<I: IntoIterator<Item = Turn>>(turns: I) -> Self {
        let mut all = Self::default();
        turns.into_iter().for_each(|turn| all.push(turn));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::thread::{Stamp, TurnKind};

    fn turn(line: u64) -> Turn {
        Turn {
            kind: TurnKind::User,
            at: Stamp::Missing,
            message_id: None,
            model: None,
            origin: None,
            blocks: Vec::new(),
            source: 0,
            line,
        }
    }

    #[test]
    fn turns_stand_at_their_places() {
        for count in [0, 1, 63, 64, 65, 128, 200] {
            let turns: Turns = (0..count).map(turn).collect();
            let all: Vec<u64> = turns.iter().map(|turn| turn.line).collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            assert_eq!((turns.len() as u64, turns.is_empty()), (count, count == 0));
            for (from, to) in [(0, 0), (0, 5), (60, 70), (64, 128), (100, 300), (300, 400)] {
                let lines: Vec<u64> = turns.range(from..to).map(|turn| turn.line).collect();
                let expected = (from as u64).min(count)..(to as u64).min(count);
                assert_eq!(lines, expected.collect::<Vec<_>>(), "{count} {from}..{to}");
            }
            assert!(turns.get(count as usize).is_none());
        }
    }

    #[test]
    fn a_version_shares_the_parts_that_it_does_not_change() {
        let before: Turns = (0..200).map(turn).collect();
        let mut after = before.clone();
        after.push(turn(200));
        after.get_mut(70).unwrap().line = 7;
        let pairs = before.parts().iter().zip(after.parts());
        let shared: Vec<bool> = pairs.map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [true, false, true, false]);
        assert_eq!((before[70].line, after[70].line), (70, 7));
        assert_eq!((before.len(), after.len()), (200, 201));
    }
}
