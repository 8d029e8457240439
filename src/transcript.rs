//! Harness lines to typed threads.
//!
//! A stored file is bytes. [`json`] scans one line tolerantly, `lines` cuts a file into lines and recovers what a
//! damaged line still holds, `claude_code` reads the fields of one harness into [`Line`]s, and [`thread`] groups the
//! lines of one thread into [`Turn`]s and [`Response`]s. Nothing here copies text: a [`Text`] names the bytes where they stand.

pub mod display;
pub mod json;
pub mod lines;
pub mod text;
pub mod thread;

pub use text::{Buffers, Text};
pub use thread::*;
