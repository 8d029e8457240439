//! What a mount shows through a real kernel: every tool gets the bytes, the numbers and the errors that it should.

mod attributes;
mod contents;
mod faults;
mod harness;
mod listing;
mod memory;
