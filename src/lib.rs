//! Mounts a person's coding-agent sessions as a read-only file system.
//!
//! Data flows one way, and each module is one stop on it; an arrow points only forwards:
//!
//! ```text
//! files on disk ─▶ store ─▶ transcript │ session_log │ record ─▶ session ─▶ artefact │ telemetry │ turns ─▶ tree ─▶ fuse │ export │ cat
//! ```
//!
//! | module | what it owns | what it must not know |
//! | --- | --- | --- |
//! | [`store`] | where sessions lie: sources, discovery, fingerprints, safe read-only opening | what a line means |
//! | [`transcript`] | harness lines to typed threads: tolerant line reader, blocks, turns, usage | sub-agents' places, Markdown |
//! | [`session_log`] | framed logs and pending objects: frame codec, reader, writer, recovery | transcripts, FUSE |
//! | [`record`] | the record of messages between sessions: entry types, writer, reader | turns, Markdown, FUSE |
//! | [`session`] | one whole session out of its parts: spawn and join, totals, completeness | Markdown, FUSE |
//! | [`artefact`] | Markdown: containment first, then the document | files, FUSE |
//! | [`telemetry`] | the JSON file and its schema | Markdown, FUSE |
//! | [`turns`] | the turns of a thread as JSON lines | Markdown, FUSE |
//! | [`tree`] | the virtual tree: names, nodes, content with its exact size and version; caches | FUSE types |
//! | [`fuse`] | the only place that imports `fuser`: inodes, replies, mount and unmount | what a session is |
//! | [`cli`] | one file a command | |
//! | [`cache`] | what one run remembers for the next, in files that may vanish at any time | what it remembers |
//! | `parallel` | when work is worth a second worker | what the work is |
//!
//! Invariants that hold everywhere:
//!
//! - Nothing is ever written to a source, and no path that content names is followed.
//! - A bad byte costs its line, a bad file costs itself, a bad session costs itself; each is counted and said.
//! - Every byte that came from a participant leaves this crate in its display form (module
//!   [`transcript::display`]) and, in Markdown, inside a fence or a code span (module [`artefact::contain`]).
//! - Content is a value: an immutable buffer with its length and the version of what it was made from.

// A test that cannot go on says so by panicking.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod artefact;
pub mod cache;
pub mod cli;
pub mod fuse;
mod parallel;
pub mod record;
pub mod session;
pub mod session_log;
pub mod store;
pub mod telemetry;
pub mod transcript;
pub mod tree;
pub mod turns;
