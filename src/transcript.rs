//! Harness lines to typed threads.
//!
//! A stored file is bytes. [`lines`] cuts it into records and salvages what a damaged line still holds, [`claude_code`] reads the
//! fields of each record with the tolerant scanner in [`json`], and [`group`] makes turns and responses of the lines that belong
//! to one thread. Nothing here copies text: a [`Text`] names the bytes where they stand, and [`display`] shows them.

mod block;
pub mod claude_code;
mod decode;
pub mod display;
pub mod group;
pub mod identity;
pub mod json;
mod keep;
pub mod line;
pub mod lines;
pub mod text;
pub mod thread;

pub use text::{Buffers, Segment, Text};
pub use thread::*;
