//! What a table learned and did not write yet, in little memory: there may be very many sessions.

use super::table::{Row, put};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Dead bytes that are borne before those that count are put together.
const MOST_DEAD: usize = 1 << 20;

/// Rows one behind the other, as a file has them. The latest of a session counts.
#[derive(Debug, Default)]
pub(super) struct Learned {
    rows: Vec<u8>,
    /// Where the latest row of each session begins, by a number made of its ID. No two that are there have the same, as good as
    /// ever; if they had, the older one would be forgotten.
    latest: HashMap<u64, usize>,
    number: RandomState,
    /// Bytes of rows that do not count any more.
    dead: usize,
}

impl Learned {
    /// Takes in a row in place of what was learned of the session.
    pub(super) fn put(&mut self, id: &str, state: u64, value: &[u8]) {
        let at = self.rows.len();
        put(&mut self.rows, id, state, value);
        let before = self.latest.insert(self.number.hash_one(id), at);
        let before = before.and_then(|before| Row::at(&self.rows, before));
        self.dead += before.map_or(0, Row::len);
        if self.dead > MOST_DEAD && self.dead > self.rows.len() / 2 {
            *self = self.compacted();
        }
    }

    /// The state and the value that were learned of a session.
    pub(super) fn get(&self, id: &str) -> Option<(u64, &[u8])> {
        let at = self.latest.get(&self.number.hash_one(id))?;
        let row = Row::at(&self.rows, *at)?;
        let is_of = row.id(&self.rows) == id.as_bytes();
        is_of.then(|| (row.state, row.value(&self.rows)))
    }

    /// The rows that count, in the order in which they were learned.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, u64, &[u8])> {
        let mut latest: Vec<usize> = self.latest.values().copied().collect();
        latest.sort_unstable();
        latest.into_iter().filter_map(|at| {
            let row = Row::at(&self.rows, at)?;
            row.parts(&self.rows)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes that are held.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    fn compacted(&self) -> Self {
        let mut compacted = Self::default();
        for (id, state, value) in self.rows() {
            compacted.put(id, state, value);
        }
        compacted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_each_session_counts_and_what_is_dead_goes() {
        let mut learned = Learned::default();
        let large = vec![b'x'; MOST_DEAD / 4];
        learned.put("a", 1, b"a");
        for state in 1..50 {
            learned.put("b", state, &large);
            assert!(learned.len() <= 3 * MOST_DEAD);
            assert_eq!(learned.get("b"), Some((state, &*large)));
        }
        learned.put("a", 2, b"");
        assert_eq!(learned.get("a"), Some((2, &b""[..])));
        assert_eq!(learned.get("c"), None);
        let rows: Vec<_> = learned.rows().map(|(id, state, _)| (id, state)).collect();
        assert_eq!(rows, [("b", 49), ("a", 2)]);
    }
}
