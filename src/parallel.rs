//! How much work it takes before a second worker is woken for it.
//!
//! To wake a worker and to wait for it costs about a tenth of a millisecond, which is what a small session takes as a whole. So what
//! is done side by side says how much there is to do, and how much of that is worth a worker, in a unit of its own.

/// How many of these items one worker takes at least. To be given to `with_min_len`.
pub(crate) fn least(items: usize, work: usize, worth: usize) -> usize {
    items
        .saturating_mul(worth)
        .div_ceil(work.max(1))
        .clamp(1, items.max(1))
}

/// Does both, side by side if the work is worth it.
pub(crate) fn both<A: Send, B: Send>(
    work: usize,
    worth: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if work < 2 * worth {
        (one(), other())
    } else {
        rayon::join(one, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_work_is_one_workers() {
        assert_eq!(least(5, 100, 100), 5);
        assert_eq!(least(5, 0, 100), 5);
        assert_eq!(least(0, 0, 100), 1);
        assert_eq!(least(10, 1000, 200), 2);
        assert_eq!(least(10, 1_000_000, 200), 1);
    }
}
