//! Harness lines to typed threads.
//!
//! A stored file is bytes that pass once, through a small window. [`lines`] cuts them into records and salvages what a damaged line
//! still holds, [`claude_code`] reads the fields of each record with the tolerant scanner in [`json`], `keep` keeps of it the texts
//! alone, decoded where they are shown as they decode, and [`group`] makes turns and responses of the lines that belong to one
//! thread. From then on no text is copied: a [`Text`] names the bytes where they were kept, and [`display`] shows them.

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
mod turns;

pub use text::{Buffers, Segment, Text};
pub use thread::*;
pub use turns::{TURNS_A_PART, Turns};
