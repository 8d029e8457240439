//! How much of the caches' bound each value takes.

use super::contents::{Contents, Outline, TurnLine};
use super::{Heavy, Light};
use crate::session::objects::Object;
use crate::transcript::{Block, Turn};
use crate::tree::kept::Weighs;
use std::ops::Range;

/// Bytes that the cache takes for an entry beside its value, measured over many small ones: key, lists, allocator.
pub(super) const ENTRY: u64 = 256;

/// Bytes that a session and a thread take beside their files and turns, measured likewise: names, maps, counts.
const SESSION: u64 = 3072;
const THREAD: u64 = 1024;

impl Weighs for Heavy {
    fn weight(&self) -> u64 {
        ENTRY
            + match self {
                Self::File(rendered) => {
                    let stretches = rendered.stretches.iter().map(|stretch| stretch.weight());
                    rendered.bytes.in_memory()
                        + outline(&rendered.outline)
                        + stretches.sum::<usize>() as u64
                }
                Self::Object(bytes) => bytes.in_memory(),
                Self::Session(session) => {
                    let turns = session.threads.iter().map(|thread| {
                        let turns = thread.turns.len() * size_of::<Turn>();
                        turns + thread.blocks * size_of::<Block>()
                    });
                    let turns: usize = turns.sum();
                    // Of a session that is followed, its lines are kept beside its turns, and what was found in each thread.
                    let followed = if session.reads.buffers() > 0 { 3 } else { 1 };
                    let turns = turns * followed;
                    let threads = session.threads.len() as u64 * THREAD;
                    let entries = session.entries.len_in_memory();
                    SESSION + threads + (session.buffers.len() + turns + entries) as u64
                }
            }
    }
}

impl Weighs for Light {
    fn weight(&self) -> u64 {
        ENTRY
            + match self {
                Self::Outline(o) => outline(o),
                Self::Contents(c) => contents(c),
            }
    }
}

pub(super) fn contents(contents: &Contents) -> u64 {
    let names: usize = contents.agents.keys().map(|name| name.len() + 64).sum();
    let turns: usize = contents.turns.iter().map(Vec::len).sum();
    let threads = contents.turns.len() * size_of::<Vec<TurnLine>>();
    let objects = contents.objects.keys();
    let objects: usize = objects.map(|o| o.len() + size_of::<Object>() + 64).sum();
    let turns = turns * size_of::<TurnLine>();
    (size_of::<Contents>() + names + threads + turns + objects) as u64
}

pub(super) fn outline(outline: &Outline) -> u64 {
    let section = size_of::<Option<Range<u64>>>();
    (size_of::<Outline>() + outline.turns.len() * section) as u64
}
