//! How a document calls threads and times.

use super::contain::{Inline, Page, SafeValue};
use crate::session::{Agent, Role, Session, ThreadIndex, TurnIndex};
use crate::transcript::{Buffers, Stamp};

/// A turn's number: its place in its thread, from 1.
pub(super) fn number(turn: TurnIndex) -> u64 {
    turn as u64 + 1
}

/// A thread, by what it is and its ID.
#[derive(Clone, Copy)]
pub(super) struct Name<'a>(pub(super) &'a Session, pub(super) ThreadIndex);

impl Inline for Name<'_> {
    fn write(&self, page: &mut Page) {
        let Some(thread) = self.0.threads.get(self.1) else {
            return "a thread that is not here".write(page);
        };
        match thread.role {
            Role::Main => "the main thread".write(page),
            Role::Agent(_) => ("agent ", SafeValue::of(&thread.id)).write(page),
            Role::Service(_) => ("service thread ", SafeValue::of(&thread.id)).write(page),
        }
    }
}

/// When something was, as far as the transcript says.
#[derive(Clone, Copy)]
pub(super) struct When<'a>(pub(super) Stamp, pub(super) &'a Buffers);

impl Inline for When<'_> {
    fn write(&self, page: &mut Page) {
        match self.0 {
            Stamp::At(at) => at.write(page),
            Stamp::Missing => "no time recorded".write(page),
            Stamp::Unreadable(text) => {
                ("unreadable time ", SafeValue::raw(self.1.raw(text))).write(page);
            }
        }
    }
}

/// Whether an agent's place is known: a spawn, and a chain of parents that reaches the main thread (`spec/turns.md`).
pub(super) fn is_placed(agent: &Agent) -> bool {
    agent.depth.is_some() && !agent.runs.is_empty()
}

/// The spawning turns from the main thread down to this agent: each step is the thread and the turn in it. Ends early where a
/// chain is broken or circular.
pub(super) fn chain(session: &Session, mut thread: ThreadIndex) -> Vec<(ThreadIndex, TurnIndex)> {
    let mut steps = Vec::new();
    // A chain longer than all threads goes in a circle.
    while steps.len() < session.threads.len()
        && let Some(Role::Agent(agent)) = session.threads.get(thread).map(|thread| &thread.role)
        && let Some(run) = agent.runs.first()
    {
        steps.push((run.spawned.thread, run.spawned.turn));
        thread = run.spawned.thread;
    }
    steps.reverse();
    steps
}
