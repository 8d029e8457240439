//! What a mount shows through a real kernel: every tool gets the bytes, the numbers and the errors that it should.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attributes;
mod contents;
mod faults;
mod harness;
mod listing;
mod memory;
