//! A mount from its beginning to its end, in every way in which it can end: as root, and as an ordinary user through
//! fusermount3. Nothing waits for a time; everything waits for what shall happen, within a generous limit.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod background;
mod endings;
mod refusals;
mod world;
