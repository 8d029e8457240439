//! A table of what is remembered of sessions: one value a session, good for one state of it.

use super::learned::Learned;
use super::{CacheFile, LARGEST};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// What is remembered of sessions under their IDs.
///
/// What was learned is held in memory until [`Table::write`] puts it with what the file holds.
#[derive(Debug)]
pub struct Table {
    file: Option<CacheFile>,
    most: u64,
    learned: Mutex<Learned>,
}

/// Bytes of what was learned that are not held until it is written anyway.
const MUCH: usize = 4 << 20;

impl Table {
    pub(super) fn of(file: Option<CacheFile>) -> Self {
        Self {
            file,
            most: LARGEST,
            learned: Mutex::default(),
        }
    }

    /// One that remembers nothing.
    pub fn none() -> Self {
        Self::of(None)
    }

    /// The same, of so many bytes at most.
    #[must_use]
    pub fn within(mut self, most: u64) -> Self {
        self.most = most.min(LARGEST);
        self
    }

    /// Whether it remembers anything at all.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// The time since when files must not have changed for something to be remembered of them, if they are looked at now or later.
    pub fn settled(&self) -> SystemTime {
        let settled = self.file.as_ref().map(|file| file.cache.settled);
        let now = SystemTime::now();
        now.checked_sub(settled.unwrap_or_default()).unwrap_or(now)
    }

    /// What is in the file now.
    pub fn recall(&self) -> Recalled {
        let bytes = self.file.as_ref().and_then(CacheFile::load);
        bytes.and_then(Recalled::of).unwrap_or_default()
    }

    /// Takes in what is known of a session in this state, in place of what was.
    pub fn learn(&self, id: &Arc<str>, state: u64, value: &impl Serialize) {
        if self.is_on()
            && let Ok(bytes) = postcard::to_stdvec(value)
        {
            self.learned().put(id, state, &bytes);
        }
    }

    /// What was learned of a session in this state and not written yet.
    pub fn learned_of<V: DeserializeOwned>(&self, id: &str, state: u64) -> Option<V> {
        let learned = self.learned();
        let (_, bytes) = learned.get(id).filter(|(of, _)| *of == state)?;
        postcard::from_bytes(bytes).ok()
    }

    /// Forgets a session.
    pub fn forget(&self, id: &Arc<str>) {
        if self.is_on() {
            // A state that no session is in, so that what the file has of it is not taken over.
            self.learned().put(id, 0, b"");
        }
    }

    /// Writes what was learned if it is so much that it should not be held for long.
    pub fn write_much(&self, is_there: impl Fn(&str) -> bool) {
        if self.learned().len() > MUCH {
            self.write(is_there);
        }
    }

    /// Writes what was learned, if there is something, with what others or earlier runs wrote of the sessions that are still
    /// there. What does not fit is left out. Where it cannot be written, the log says so.
    pub fn write(&self, is_there: impl Fn(&str) -> bool) {
        let Some(file) = &self.file else { return };
        let learned = std::mem::take(&mut *self.learned());
        if learned.is_empty() {
            return;
        }
        let before = self.recall();
        let mut rows: Vec<(&str, u64, &[u8])> = Vec::new();
        let mut taken = HashSet::new();
        let mut left = self.most;
        for (id, state, value) in learned.rows().chain(before.rows()) {
            let row = (id.len() + value.len() + ROW) as u64;
            if row <= left && is_there(id) && taken.insert(id) {
                left -= row;
                rows.push((id, state, value));
            }
        }
        rows.sort_unstable_by_key(|(id, ..)| *id);
        let mut content = Vec::new();
        for (id, state, value) in rows.into_iter().filter(|(_, state, _)| *state != 0) {
            put(&mut content, id, state, value);
        }
        match file.store(&content) {
            Ok(()) => tracing::debug!("remembered in {}", file.path.display()),
            Err(error) => tracing::debug!("cannot write {}: {error}", file.path.display()),
        }
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes in front of each row's ID and value: how long these are, and the state.
const ROW: usize = 2 * size_of::<u32>() + size_of::<u64>();

/// Appends a row. IDs and values are far shorter than the largest file, so their lengths fit.
pub(super) fn put(content: &mut Vec<u8>, id: &str, state: u64, value: &[u8]) {
    content.extend((id.len() as u32).to_le_bytes());
    content.extend((value.len() as u32).to_le_bytes());
    content.extend(state.to_le_bytes());
    content.extend(id.as_bytes());
    content.extend(value);
}

/// What a table's file held.
#[derive(Debug, Default)]
pub struct Recalled {
    bytes: Vec<u8>,
    /// Sorted by ID, as the file is.
    rows: Vec<Row>,
}

/// Where the parts of a row lie in the bytes that hold it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) state: u64,
    /// Where the ID begins, where the value does, and where that ends.
    at: [u32; 3],
}

impl Row {
    /// The row that begins here; none if there is no whole one.
    pub(super) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let (id, after) = bytes.get(at..)?.split_first_chunk()?;
        let (value, after) = after.split_first_chunk()?;
        let (state, after) = after.split_first_chunk()?;
        let lengths = [*id, *value].map(u32::from_le_bytes);
        let start = u32::try_from(bytes.len() - after.len()).ok()?;
        let middle = start.checked_add(lengths[0])?;
        let end = middle.checked_add(lengths[1])?;
        (end as usize <= bytes.len()).then_some(Self {
            state: u64::from_le_bytes(*state),
            at: [start, middle, end],
        })
    }

    /// Its bytes together.
    pub(super) fn len(self) -> usize {
        ROW + (self.at[2] - self.at[0]) as usize
    }

    pub(super) fn id(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at[0] as usize..self.at[1] as usize]
    }

    pub(super) fn value(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at[1] as usize..self.at[2] as usize]
    }

    /// The ID, the state and the value; none if the ID is no text.
    pub(super) fn parts(self, bytes: &[u8]) -> Option<(&str, u64, &[u8])> {
        let id = std::str::from_utf8(self.id(bytes)).ok()?;
        Some((id, self.state, self.value(bytes)))
    }
}

impl Recalled {
    /// The rows of a file's content; none if it is not one of ours after all.
    fn of(bytes: Vec<u8>) -> Option<Self> {
        let mut rows = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let row = Row::at(&bytes, at)?;
            at = row.at[2] as usize;
            rows.push(row);
        }
        let is_sorted = rows.is_sorted_by(|a, b| a.id(&bytes) < b.id(&bytes));
        is_sorted.then_some(Self { bytes, rows })
    }

    /// What is remembered of a session in this state.
    pub fn get<V: DeserializeOwned>(&self, id: &str, state: u64) -> Option<V> {
        let at = self
            .rows
            .binary_search_by(|row| row.id(&self.bytes).cmp(id.as_bytes()));
        let row = self.rows.get(at.ok()?).filter(|row| row.state == state)?;
        postcard::from_bytes(row.value(&self.bytes)).ok()
    }

    fn rows(&self) -> impl Iterator<Item = (&str, u64, &[u8])> {
        let rows = self.rows.iter();
        rows.filter_map(|row| row.parts(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;

    fn table(folder: &std::path::Path) -> Table {
        Cache::at(folder, "s").unwrap().table("t")
    }

    fn id(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn a_value_is_good_for_one_state() {
        let home = tempfile::tempdir().unwrap();
        let first = table(home.path());
        first.learn(&id("a"), 7, &("title", 1_u8));
        assert_eq!(first.learned_of("a", 7), Some(("title".to_owned(), 1_u8)));
        first.write(|_| true);
        let recalled = table(home.path()).recall();
        assert_eq!(recalled.get("a", 7), Some(("title".to_owned(), 1_u8)));
        assert_eq!(recalled.get::<(String, u8)>("a", 8), None);
        assert_eq!(recalled.get::<(String, u8)>("b", 7), None);
        // What reads as something else is nothing.
        assert_eq!(recalled.get::<[u64; 9]>("a", 7), None);
    }

    #[test]
    fn two_who_write_keep_what_the_other_wrote_and_drop_what_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (table(home.path()), table(home.path()));
        one.learn(&id("a"), 1, &1_u8);
        one.learn(&id("gone"), 1, &1_u8);
        two.learn(&id("b"), 1, &2_u8);
        two.learn(&id("a"), 2, &3_u8);
        one.write(|_| true);
        two.write(|id| id != "gone");
        let recalled = one.recall();
        assert_eq!(recalled.get("a", 2), Some(3_u8));
        assert_eq!(recalled.get("b", 1), Some(2_u8));
        assert_eq!(recalled.get::<u8>("gone", 1), None);
        two.forget(&id("b"));
        two.write(|_| true);
        let recalled = one.recall();
        assert_eq!(recalled.get::<u8>("b", 1), None);
        assert_eq!(recalled.get("a", 2), Some(3_u8));
    }

    #[test]
    fn a_table_has_a_bound_and_what_is_new_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let row = (1 + 1 + 100 + ROW) as u64;
        let table = table(home.path()).within(2 * row);
        let value = "x".repeat(100);
        table.learn(&id("a"), 1, &value);
        table.learn(&id("b"), 1, &value);
        table.write(|_| true);
        table.learn(&id("c"), 1, &value);
        table.write(|_| true);
        let recalled = table.recall();
        let kept = ["a", "b", "c"].map(|id| recalled.get::<String>(id, 1).is_some());
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn without_a_file_nothing_is_remembered() {
        let table = Table::none();
        table.learn(&id("a"), 1, &1_u8);
        table.write(|_| true);
        assert_eq!(table.learned_of::<u8>("a", 1), None);
        assert_eq!(table.recall().get::<u8>("a", 1), None);
    }

    #[test]
    fn content_that_is_no_table_is_none() {
        let mut content = Vec::new();
        put(&mut content, "a", 1, b"x");
        put(&mut content, "b", 1, b"y");
        assert_eq!(Recalled::of(content.clone()).unwrap().rows.len(), 2);
        for cut in (1..content.len()).filter(|cut| *cut != content.len() / 2) {
            assert!(Recalled::of(content[..cut].to_vec()).is_none(), "{cut}");
        }
        let unsorted = [&content[content.len() / 2..], &content].concat();
        assert!(Recalled::of(unsorted).is_none());
        assert!(Recalled::of(vec![0xff; 64]).is_none());
    }
}
