//! Which requests are this process's own: they would wait for themselves.

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lists the threads of this process.
const LIST: &str = "/proc/self/task";

/// How long a thread of another process is taken for one without another look, in milliseconds at most. Its number can become
/// that of a thread of this process, but the kernel hands out all others before.
const TRUSTED: u128 = 50;

/// Threads of other processes that are remembered.
const REMEMBERED: usize = 16;

/// The threads of this process.
pub(super) struct OwnThreads {
    list: File,
    start: Instant,
    /// Each a thread of another process and when that was seen, at the place that the thread's number gives.
    others: [AtomicU64; REMEMBERED],
}

impl OwnThreads {
    /// Those of the process that this is.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            list: File::open(LIST)?,
            start: Instant::now(),
            others: [const { AtomicU64::new(0) }; REMEMBERED],
        })
    }

    /// Whether this is the number of one.
    pub(super) fn has(&self, thread: u32) -> bool {
        // Whoever asks once asks again, many times for each file, and a look costs as much as the rest of a short answer.
        let period = (self.start.elapsed().as_millis() / TRUSTED + 1) as u32;
        let seen = u64::from(period) << 32 | u64::from(thread);
        let remembered = &self.others[thread as usize % REMEMBERED];
        if remembered.load(Ordering::Relaxed) == seen {
            return false;
        }
        let own = fstatat(&self.list, thread.to_string().as_str(), AtFlags::empty()).is_ok();
        if !own {
            remembered.store(seen, Ordering::Relaxed);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_threads_are_told_from_others() {
        let own = OwnThreads::new().unwrap();
        let this = nix::unistd::gettid().as_raw().cast_unsigned();
        let parent = nix::unistd::getppid().as_raw().cast_unsigned();
        for _ in 0..3 {
            assert!(own.has(this));
            assert!(!own.has(parent));
            assert!(!own.has(0), "a request of the kernel itself");
        }
        let thread = || nix::unistd::gettid().as_raw().cast_unsigned();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(own.has(thread())));
        });
    }
}
