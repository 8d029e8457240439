//! What is costly to make and kept until the room is needed: each made once, however many ask at the same time.

use quick_cache::Weighter;
use quick_cache::sync::{Cache, GuardResult};
use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How many values that are larger than the whole cache are kept beside it, the latest ones, and for how long after
/// somebody asked for one: so who reads the files of a large session one after another does not have it made again for
/// each, and once nobody reads any more the memory is free.
const LARGE: usize = 2;
const LINGER: Duration = Duration::from_secs(3);

/// A value that knows about how many bytes of memory it takes.
pub(super) trait Weighs {
    fn weight(&self) -> u64;
}

/// A cache with a bound in bytes and single flight.
pub(super) struct Kept<K, V> {
    cache: Cache<K, V, ByWeight>,
    large: Arc<Large<K, V>>,
    capacity: u64,
}

#[derive(Clone)]
struct ByWeight;

impl<K, V: Weighs> Weighter<K, V> for ByWeight {
    fn weight(&self, _: &K, value: &V) -> u64 {
        value.weight().max(1)
    }
}

impl<K, V> Kept<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Weighs + Send + 'static,
{
    pub(super) fn new(capacity: u64) -> Self {
        Self::lingering(capacity, LINGER)
    }

    fn lingering(capacity: u64, linger: Duration) -> Self {
        Self {
            // So few items are expected that all lie in one shard: each may weigh as much as the whole.
            cache: Cache::with_weighter(32, capacity, ByWeight),
            large: Arc::new(Large {
                values: Mutex::new(VecDeque::new()),
                linger,
            }),
            capacity,
        }
    }

    /// The value if it is there.
    pub(super) fn peek(&self, key: &K) -> Option<V> {
        self.cache.get(key).or_else(|| self.large.get(key))
    }

    /// Lets go of a value, if it is there. Freeing much memory takes time, for which nobody waits.
    pub(super) fn remove(&self, key: &K) {
        let removed = (self.cache.remove(key), self.large.remove(key));
        rayon::spawn(move || drop(removed));
    }

    /// The value, made if it is not there. Who asks for the same while it is made waits for it; nobody else does. Where
    /// making fails, the next one that waits tries.
    ///
    /// The making must not run on a thread of a pool whose other work may ask for the same key.
    pub(super) fn get<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        match self.cache.get_value_or_guard(key, None) {
            GuardResult::Value(value) => Ok(value),
            GuardResult::Guard(guard) => {
                if let Some(value) = self.large.get(key) {
                    return Ok(value);
                }
                let value = make()?;
                if value.weight() > self.capacity {
                    Large::put(&self.large, key.clone(), value.clone());
                }
                // It is refused when it is too large, and then those who wait get it all the same.
                let _ = guard.insert(value.clone());
                Ok(value)
            }
            // Not reached without a time limit; making it again is right in any case.
            GuardResult::Timeout => make(),
        }
    }
}

/// Values that are too large for the cache, for as long as they are asked for, the latest first.
struct Large<K, V> {
    values: Mutex<VecDeque<(K, V, Instant)>>,
    linger: Duration,
}

impl<K, V> Large<K, V>
where
    K: Eq + Send + 'static,
    V: Clone + Send + 'static,
{
    fn get(&self, key: &K) -> Option<V> {
        let mut values = self.values();
        let (_, value, asked) = values.iter_mut().find(|(other, ..)| other == key)?;
        *asked = Instant::now();
        Some(value.clone())
    }

    fn remove(&self, key: &K) -> Option<(K, V, Instant)> {
        let mut values = self.values();
        let at = values.iter().position(|(other, ..)| other == key)?;
        values.remove(at)
    }

    /// Keeps a value. Where nobody can be set to let it go in time, it is not kept.
    fn put(large: &Arc<Self>, key: K, value: V) {
        let mut values = large.values();
        if values.is_empty() && Self::watch(Arc::downgrade(large), large.linger).is_err() {
            return;
        }
        values.push_front((key, value, Instant::now()));
        let most = LARGE.min(values.len());
        let dropped = values.split_off(most);
        // Freeing much memory takes time, and others need the lock.
        drop(values);
        drop(dropped);
    }

    /// A thread that lets values go when their time has come, and ends with the last of them.
    fn watch(large: Weak<Self>, linger: Duration) -> std::io::Result<()> {
        let watcher = std::thread::Builder::new().name("sessionfs-large".to_owned());
        watcher.spawn(move || {
            let mut wait = linger;
            loop {
                std::thread::sleep(wait);
                let Some(large) = large.upgrade() else { return };
                let Some(next) = large.let_go() else { return };
                wait = next;
            }
        })?;
        Ok(())
    }

    /// Lets go of what nobody asked for in time. Says when to look again; not any more if nothing is left.
    fn let_go(&self) -> Option<Duration> {
        let mut values = self.values();
        let (kept, dropped) = std::mem::take(&mut *values)
            .into_iter()
            .partition(|(.., asked)| asked.elapsed() < self.linger);
        *values = kept;
        let oldest = values.iter().map(|(.., asked)| asked.elapsed()).max();
        drop(values);
        drop::<VecDeque<_>>(dropped);
        oldest.map(|oldest| self.linger.saturating_sub(oldest))
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn values(&self) -> MutexGuard<'_, VecDeque<(K, V, Instant)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone, Debug, PartialEq)]
    struct Value(u64);

    impl Weighs for Value {
        fn weight(&self) -> u64 {
            self.0
        }
    }

    fn count(kept: &Kept<u8, Value>, key: u8, weight: u64, made: &AtomicU64) -> Value {
        kept.get(&key, || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(Value(weight))
        })
        .unwrap()
    }

    #[test]
    fn a_value_is_made_once_for_all_who_ask_together() {
        for weight in [1, 1000] {
            let kept = Kept::new(100);
            let made = AtomicU64::new(0);
            let start = Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        start.wait();
                        count(&kept, 1, weight, &made)
                    });
                }
            });
            assert_eq!(made.into_inner(), 1, "weight {weight}");
        }
    }

    #[test]
    fn the_bound_holds_and_large_values_are_kept_a_while() {
        let kept = Kept::lingering(100, Duration::from_hours(1));
        let made = AtomicU64::new(0);
        for key in 0..50 {
            count(&kept, key, 10, &made);
        }
        assert!(kept.cache.weight() <= 100);
        let before = made.load(Ordering::Relaxed);
        for _ in 0..3 {
            count(&kept, 100, 1000, &made);
            count(&kept, 101, 1000, &made);
        }
        assert_eq!(made.load(Ordering::Relaxed), before + 2);
        for key in 102..110 {
            count(&kept, key, 1000, &made);
        }
        assert_eq!(kept.peek(&100), None);
    }

    #[test]
    fn large_values_are_let_go_once_nobody_asks() {
        let kept = Kept::lingering(100, Duration::from_millis(20));
        let made = AtomicU64::new(0);
        for round in 1..=3 {
            count(&kept, 1, 1000, &made);
            let end = Instant::now() + Duration::from_mins(1);
            while !kept.large.values().is_empty() {
                assert!(Instant::now() < end, "it is kept for good");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(made.load(Ordering::Relaxed), round);
        }
        // A value that fits stays.
        count(&kept, 2, 10, &made);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(kept.peek(&2), Some(Value(10)));
    }

    #[test]
    fn who_asks_for_something_else_does_not_wait() {
        let kept = Kept::new(100);
        let made = kept.get(&1, || {
            // While the first is made, others are, on another thread and to the end.
            std::thread::scope(|scope| {
                let other = scope.spawn(|| kept.get(&2, || Ok::<_, ()>(Value(2))));
                other.join().unwrap()
            })
        });
        assert_eq!(made, Ok(Value(2)));
    }

    #[test]
    fn a_panic_costs_one_call() {
        let kept = Kept::new(100);
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            kept.get(&1, || -> Result<Value, ()> { panic!("on purpose") })
        }));
        assert!(panics.is_err());
        assert_eq!(kept.get(&1, || Ok::<_, ()>(Value(1))), Ok(Value(1)));
    }

    #[test]
    fn a_failure_is_not_kept() {
        let kept = Kept::new(100);
        assert_eq!(kept.get(&1, || Err("no")), Err("no"));
        assert_eq!(kept.get(&1, || Ok::<_, ()>(Value(1))), Ok(Value(1)));
    }
}
