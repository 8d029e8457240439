//! What lists a session's directories and gives its files their sizes: a few bytes a turn.

use super::Whose;
use crate::session::objects::{Object, objects};
use crate::session::{Role, Session, ThreadIndex, TurnIndex};
use crate::store::safe_name;
use crate::transcript::{Turn, TurnKind};
use crate::tree::place::Owner;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::SystemTime;

/// A rendered file without its bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::tree) struct Outline {
    pub(in crate::tree) size: u64,
    /// Where each turn's section stands, by turn, if it is the full artefact.
    pub(super) turns: Vec<Option<Range<u64>>>,
}

/// A session's table of contents: what its directories list.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tree) struct Contents {
    /// The main thread, if it is there.
    pub(in crate::tree) main: Option<ThreadIndex>,
    /// The other threads by their names below `agents/`.
    pub(in crate::tree) agents: BTreeMap<String, ThreadIndex>,
    /// The turns of each thread.
    pub(in crate::tree) turns: Vec<Vec<TurnLine>>,
    /// What lies in `objects/`, by name.
    pub(in crate::tree) objects: BTreeMap<String, Object>,
    /// Whether the session has a record of messages.
    pub(in crate::tree) has_messages: bool,
}

/// One turn in a table of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tree) struct TurnLine {
    pub(super) kind: TurnKind,
    /// When it was written, if that is known.
    pub(in crate::tree) at: Option<SystemTime>,
}

impl TurnLine {
    /// The name of the turn's file.
    pub(in crate::tree) fn name(&self, turn: TurnIndex) -> String {
        format!("{:06}-{}.md", turn + 1, self.kind.name())
    }
}

impl Outline {
    /// Where a turn's section stands.
    pub(in crate::tree) fn turn(&self, turn: TurnIndex) -> Option<Range<u64>> {
        self.turns.get(turn)?.clone()
    }
}

impl Contents {
    pub(super) fn of(session: &Session) -> Self {
        let mut agents = BTreeMap::new();
        let mut main = None;
        for (i, thread) in session.threads.iter().enumerate() {
            if matches!(thread.role, Role::Main) {
                main = main.or(Some(i));
                continue;
            }
            // No two threads of a session have one ID, and different IDs have different safe names.
            agents.insert(safe_name(thread.id.as_bytes()), i);
        }
        let line = |turn: &Turn| TurnLine {
            kind: turn.kind,
            at: turn.at.at().and_then(|at| SystemTime::try_from(at).ok()),
        };
        let threads = session.threads.iter();
        Self {
            main,
            agents,
            turns: threads
                .map(|thread| thread.turns.iter().map(line).collect())
                .collect(),
            objects: objects(session),
            has_messages: !session.entries.is_empty(),
        }
    }

    /// Whose files an owner's are; none if there is no such agent.
    pub(in crate::tree) fn whose(&self, owner: Owner<'_>) -> Option<Whose> {
        match owner {
            Owner::Whole => Some(Whose::Session),
            Owner::Agent(name) => self.agents.get(name).copied().map(Whose::Thread),
        }
    }

    /// The turns of the main thread or of an agent's.
    pub(in crate::tree) fn turns(&self, whose: Whose) -> Option<(ThreadIndex, &[TurnLine])> {
        let thread = match whose {
            Whose::Session => self.main?,
            Whose::Thread(thread) => thread,
        };
        let turns = self.turns.get(thread)?;
        (!turns.is_empty()).then_some((thread, turns))
    }

    /// The turn whose file has this name.
    pub(in crate::tree) fn turn(&self, whose: Whose, name: &str) -> Option<(TurnIndex, TurnLine)> {
        let (_, turns) = self.turns(whose)?;
        let number: usize = name.split_once('-')?.0.parse().ok()?;
        let turn = number.checked_sub(1)?;
        let line = *turns.get(turn)?;
        (line.name(turn) == name).then_some((turn, line))
    }
}
