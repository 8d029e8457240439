//! What is open: a table of handles with a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles that the kernel holds, by their number; not more than a limit.
pub(super) struct Handles<T> {
    open: Mutex<Open<T>>,
    limit: usize,
}

struct Open<T> {
    handles: HashMap<u64, Arc<T>>,
    last: u64,
}

impl<T> Handles<T> {
    /// None yet, and never more than `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            open: Mutex::new(Open {
                handles: HashMap::new(),
                last: 0,
            }),
            limit,
        }
    }

    /// Opens one; nothing if there are too many.
    pub(super) fn open(&self, value: T) -> Option<u64> {
        let mut open = self.lock();
        if open.handles.len() >= self.limit {
            return None;
        }
        open.last += 1;
        let number = open.last;
        open.handles.insert(number, Arc::new(value));
        Some(number)
    }

    /// Whether no other can be opened now.
    pub(super) fn full(&self) -> bool {
        self.lock().handles.len() >= self.limit
    }

    /// What is open under this number.
    pub(super) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.lock().handles.get(&number).cloned()
    }

    /// Closes it. Whoever uses it at this moment still may.
    pub(super) fn close(&self, number: u64) -> Option<Arc<T>> {
        self.lock().handles.remove(&number)
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.lock().handles.len()
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, Open<T>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_one_is_closed() {
        let handles = Handles::new(2);
        let first = handles.open('a').unwrap();
        let second = handles.open('b').unwrap();
        assert!(handles.full());
        assert_eq!(handles.open('c'), None);
        assert_eq!(handles.close(first).as_deref(), Some(&'a'));
        let third = handles.open('c').unwrap();
        assert!(third != first && third != second);
        assert!(handles.get(first).is_none());
        assert_eq!(handles.get(third).as_deref(), Some(&'c'));
        assert_eq!(handles.len(), 2);
    }
}
