//! Which node a path names, as far as the path alone tells.

use super::Place;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a path names. Whether it is there is for others to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Root,
    Readme,
    Latest,
    /// `problems.tsv`.
    Problems,
    /// `sessions.tsv`, `by-date`, `by-project` and what is below, by the path from the root.
    Overview(&'a Path),
    Sessions,
    /// `sessions/<id>`.
    Session(&'a str),
    /// What depends on the contents of a session.
    Part(&'a str, Part<'a>),
    /// `sessions/<id>/source` or `sessions/<id>/messages` and what is below, by the path from there.
    Stored(&'a str, Stored, &'a Path),
}

/// Which of a session's stored files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Its transcripts and what lies with them.
    Source,
    /// Its entries of the record of messages.
    Messages,
}

impl Stored {
    pub(super) const ALL: [Self; 2] = [Self::Messages, Self::Source];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stored| stored.name() == name)
    }

    /// The name of the directory that holds them.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Messages => "messages",
        }
    }
}

/// What a path below a session names whose contents decide whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// `agents/`.
    Agents,
    /// `agents/<name>/`.
    Agent(&'a str),
    /// A derived file of the session or of one of its agents.
    File(Owner<'a>, Derived),
    /// The directory of its turns.
    Turns(Owner<'a>),
    /// One of them, by the name of its file.
    Turn(Owner<'a>, &'a str),
    /// `objects/`.
    Objects,
    /// One of them, by its name.
    Object(&'a str),
}

/// Whose part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// The session's.
    Whole,
    /// The agent's with this name below `agents/`.
    Agent(&'a str),
}

/// The derived files of a session or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Derived {
    Artefact,
    Full,
    Spine,
    Telemetry,
    /// Only where there are turns.
    Turns,
    /// Only of a session, where there is a record of messages.
    Messages,
}

impl Derived {
    /// Those that always exist, in the order of their names.
    pub(super) const ALWAYS: [Self; 4] = [Self::Full, Self::Artefact, Self::Spine, Self::Telemetry];

    /// The one with this name.
    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALWAYS
            .into_iter()
            .chain([Self::Turns, Self::Messages]);
        all.find(|file| file.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Artefact => "artefact.md",
            Self::Full => "artefact.full.md",
            Self::Spine => "artefact.spine.md",
            Self::Telemetry => "telemetry.json",
            Self::Turns => "turns.ndjson",
            Self::Messages => "messages.md",
        }
    }
}

pub(super) const README: &str = "README.md";
pub(super) const LATEST: &str = "latest";
pub(super) const PROBLEMS: &str = "problems.tsv";
pub(super) const TABLE: &str = "sessions.tsv";
pub(super) const BY_DATE: &str = "by-date";
pub(super) const BY_PROJECT: &str = "by-project";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const AGENTS: &str = "agents";
pub(super) const TURNS: &str = "turns";
pub(super) const OBJECTS: &str = "objects";

impl<'a> Node<'a> {
    /// The node that a place names; none if nothing can be there.
    pub(super) fn of(place: &'a Place) -> Option<Self> {
        let mut parts = place.path().iter();
        // Every name of ours is UTF-8, so no other one is there.
        let mut next = || match parts.next() {
            Some(part) => part.to_str().map(Some),
            None => Some(None),
        };
        let Some(top) = next()? else {
            return Some(Self::Root);
        };
        let only = |node, rest: Option<&str>| rest.is_none().then_some(node);
        match top {
            README => return only(Self::Readme, next()?),
            LATEST => return only(Self::Latest, next()?),
            PROBLEMS => return only(Self::Problems, next()?),
            TABLE => return only(Self::Overview(place.path()), next()?),
            BY_DATE | BY_PROJECT => return Some(Self::Overview(place.path())),
            SESSIONS => {}
            _ => return None,
        }
        let Some(id) = next()? else {
            return Some(Self::Sessions);
        };
        let Some(part) = next()? else {
            return Some(Self::Session(id));
        };
        if let Some(stored) = Stored::named(part) {
            return Some(Self::Stored(id, stored, parts.as_path()));
        }
        let part = if part == AGENTS {
            match (next()?, next()?) {
                (None, _) => Some(Part::Agents),
                (Some(agent), None) => Some(Part::Agent(agent)),
                (Some(agent), Some(part)) => {
                    Part::of(Owner::Agent(agent), part, [next()?, next()?])
                }
            }
        } else {
            Part::of(Owner::Whole, part, [next()?, next()?])
        };
        Some(Self::Part(id, part?))
    }
}

impl<'a> Part<'a> {
    /// The part with this name, with what follows in the path.
    fn of(owner: Owner<'a>, name: &str, below: [Option<&'a str>; 2]) -> Option<Self> {
        match (name, below) {
            (TURNS, [None, _]) => Some(Self::Turns(owner)),
            (TURNS, [Some(turn), None]) => Some(Self::Turn(owner, turn)),
            (OBJECTS, [None, _]) if owner == Owner::Whole => Some(Self::Objects),
            (OBJECTS, [Some(object), None]) if owner == Owner::Whole => Some(Self::Object(object)),
            (_, [None, _]) => Some(Self::File(owner, Derived::named(name)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn place(path: &[u8]) -> Place {
        let parts = path.split(|&b| b == b'/').filter(|part| !part.is_empty());
        parts.fold(Place::root(), |place, part| {
            place.join(OsStr::from_bytes(part))
        })
    }

    #[test]
    fn paths_name_nodes() {
        let whole = Owner::Whole;
        let agent = Owner::Agent("a");
        let part = |part| Some(Node::Part("s", part));
        let overview = |path| Some(Node::Overview(Path::new(path)));
        let cases: [(&str, Option<Node<'_>>); 38] = [
            (
                "sessions/s/messages.md",
                part(Part::File(whole, Derived::Messages)),
            ),
            (
                "sessions/s/messages",
                Some(Node::Stored("s", Stored::Messages, Path::new(""))),
            ),
            (
                "sessions/s/messages/e.json",
                Some(Node::Stored("s", Stored::Messages, Path::new("e.json"))),
            ),
            ("sessions/s/agents/a/messages", None),
            ("", Some(Node::Root)),
            ("README.md", Some(Node::Readme)),
            ("README.md/x", None),
            ("latest", Some(Node::Latest)),
            ("latest/x", None),
            ("other", None),
            ("problems.tsv", Some(Node::Problems)),
            ("problems.tsv/x", None),
            ("sessions.tsv", overview("sessions.tsv")),
            ("sessions.tsv/x", None),
            ("by-date", overview("by-date")),
            ("by-date/2026-11-30/x", overview("by-date/2026-11-30/x")),
            ("by-project/p", overview("by-project/p")),
            (
                "sessions/s/turns.ndjson",
                part(Part::File(whole, Derived::Turns)),
            ),
            ("sessions/s/objects", part(Part::Objects)),
            ("sessions/s/objects/o", part(Part::Object("o"))),
            ("sessions/s/objects/o/x", None),
            ("sessions/s/agents/a/objects", None),
            ("sessions", Some(Node::Sessions)),
            ("sessions/s", Some(Node::Session("s"))),
            ("sessions/s/x", None),
            (
                "sessions/s/artefact.md",
                part(Part::File(whole, Derived::Artefact)),
            ),
            ("sessions/s/artefact.md/x", None),
            ("sessions/s/turns", part(Part::Turns(whole))),
            ("sessions/s/turns/t", part(Part::Turn(whole, "t"))),
            ("sessions/s/turns/t/x", None),
            ("sessions/s/agents", part(Part::Agents)),
            ("sessions/s/agents/a", part(Part::Agent("a"))),
            (
                "sessions/s/agents/a/telemetry.json",
                part(Part::File(agent, Derived::Telemetry)),
            ),
            ("sessions/s/agents/a/turns/t", part(Part::Turn(agent, "t"))),
            ("sessions/s/agents/a/turns/t/x", None),
            ("sessions/s/agents/a/agents", None),
            (
                "sessions/s/source",
                Some(Node::Stored("s", Stored::Source, Path::new(""))),
            ),
            (
                "sessions/s/source/a/b",
                Some(Node::Stored("s", Stored::Source, Path::new("a/b"))),
            ),
        ];
        for (path, node) in cases {
            assert_eq!(Node::of(&place(path.as_bytes())), node, "{path}");
        }
        assert_eq!(Node::of(&place(b"sessions/\xff")), None);
    }
}
