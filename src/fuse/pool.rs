//! Threads for what may take long, so that whoever waits for it keeps nobody else waiting.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most threads at a time. They mostly wait: for one another, or for a disk.
const THREADS: usize = 32;

/// Most threads that one lane may hold, so that many who wait for one slow thing leave the others free.
const THREADS_A_LANE: usize = 4;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

/// What is done for one part of the tree; parts that may be slow by themselves have lanes of their own.
pub(super) type Lane = u64;

type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads, made when needed.
///
/// What waits needs no bound of its own: each job answers a request, and whoever made the request waits for it.
pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Lane, Job)>,
    running: HashMap<Lane, usize>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// Without a thread yet.
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Does this job on one of the threads, in its lane. A panic in it ends only it.
    pub(super) fn run(&self, lane: Lane, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.waiting.push_back((lane, Box::new(job)));
        if state.waiting.len() > state.idle && state.threads < THREADS {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("sessionfs-pool".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    tracing::error!("no thread can be started, so this one does the work: {error}");
                    let job = state.waiting.pop_back();
                    drop(state);
                    if let Some((_, job)) = job {
                        job();
                    }
                    return;
                }
                // Those that there are will come to it.
                Err(error) => tracing::warn!("cannot start another thread: {error}"),
            }
        }
        self.0.changed.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// What one thread does until there is nothing to do.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((lane, job)) = state.next() {
                drop(state);
                // Its reply is dropped on the way and answers EIO; the panic hook has said what happened.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
                state.done(lane);
                continue;
            }
            if state.closed && state.waiting.is_empty() {
                break;
            }
            state.idle += 1;
            let (woken, timeout) = self
                .changed
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            // What still waits then waits for its lane, and whoever works in that lane will come to it.
            if timeout.timed_out() && !state.has_next() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// No job runs under the lock, so a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the first job whose lane is not full.
    fn next(&mut self) -> Option<(Lane, Job)> {
        let index = self.position()?;
        let (lane, job) = self.waiting.remove(index)?;
        *self.running.entry(lane).or_default() += 1;
        Some((lane, job))
    }

    fn has_next(&self) -> bool {
        self.position().is_some()
    }

    fn position(&self) -> Option<usize> {
        let running = |lane| self.running.get(lane).copied().unwrap_or(0);
        self.waiting
            .iter()
            .position(|(lane, _)| running(lane) < THREADS_A_LANE)
    }

    fn done(&mut self, lane: Lane) {
        if let Some(running) = self.running.get_mut(&lane) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&lane);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LIMIT: Duration = Duration::from_secs(20);

    /// Starts a job that says that it runs and then waits for the returned sender to be dropped.
    fn hold(pool: &Pool, lane: Lane, started: &Sender<Lane>) -> Sender<()> {
        let (hold, end): (Sender<()>, Receiver<()>) = channel();
        let started = started.clone();
        pool.run(lane, move || {
            started.send(lane).unwrap();
            let _ = end.recv();
        });
        hold
    }

    #[test]
    fn a_full_lane_keeps_no_other_waiting() {
        let pool = Pool::new();
        let (started, starts) = channel();
        let held: Vec<_> = (0..3 * THREADS).map(|_| hold(&pool, 1, &started)).collect();
        for _ in 0..THREADS_A_LANE {
            assert_eq!(starts.recv_timeout(LIMIT).unwrap(), 1);
        }
        let other = hold(&pool, 2, &started);
        assert_eq!(starts.recv_timeout(LIMIT).unwrap(), 2);
        drop(other);
        drop(held);
        for _ in THREADS_A_LANE..3 * THREADS {
            assert_eq!(starts.recv_timeout(LIMIT).unwrap(), 1);
        }
    }

    #[test]
    fn a_panic_costs_its_job_only() {
        let pool = Pool::new();
        for _ in 0..2 * THREADS {
            pool.run(1, || panic!("on purpose"));
        }
        let (started, starts) = channel();
        hold(&pool, 1, &started);
        assert_eq!(starts.recv_timeout(LIMIT).unwrap(), 1);
    }

    #[test]
    fn what_waits_is_done_after_the_pool_is_gone() {
        let pool = Pool::new();
        let (started, starts) = channel();
        let held: Vec<_> = (0..THREADS).map(|_| hold(&pool, 1, &started)).collect();
        drop(pool);
        drop(held);
        for _ in 0..THREADS {
            assert_eq!(starts.recv_timeout(LIMIT).unwrap(), 1);
        }
    }
}
