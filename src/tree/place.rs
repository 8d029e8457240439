//! Which node a path names, as far as the path alone tells.

use super::{NodeKind, Place};
use std::path::Path;

/// What a path names. Whether it is there is for others to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Root,
    Readme,
    Latest,
    Sessions,
    /// `sessions/<id>`.
    Session(&'a str),
    /// `sessions/<id>/agents`.
    Agents(&'a str),
    /// `sessions/<id>/agents/<name>`.
    Agent(&'a str, &'a str),
    /// A derived file of a session or of one of its agents.
    Derived(&'a str, Owner<'a>, Derived),
    /// The directory of its turns.
    Turns(&'a str, Owner<'a>),
    /// One of them, by its name.
    Turn(&'a str, Owner<'a>, &'a str),
    /// `sessions/<id>/source` and what is below, by the path from there.
    Source(&'a str, &'a Path),
}

/// Whose part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// The session's.
    Whole,
    /// The agent's with this name below `agents/`.
    Agent(&'a str),
}

/// The derived files that always exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Derived {
    Artefact,
    Full,
    Spine,
    Telemetry,
}

impl Derived {
    /// In the order of their names.
    pub(super) const ALL: [Self; 4] = [Self::Full, Self::Artefact, Self::Spine, Self::Telemetry];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Artefact => "artefact.md",
            Self::Full => "artefact.full.md",
            Self::Spine => "artefact.spine.md",
            Self::Telemetry => "telemetry.json",
        }
    }
}

pub(super) const README: &str = "README.md";
pub(super) const LATEST: &str = "latest";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const AGENTS: &str = "agents";
pub(super) const TURNS: &str = "turns";
pub(super) const SOURCE: &str = "source";

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
            SESSIONS => {}
            _ => return None,
        }
        let Some(id) = next()? else {
            return Some(Self::Sessions);
        };
        let Some(part) = next()? else {
            return Some(Self::Session(id));
        };
        if part == SOURCE {
            return Some(Self::Source(id, parts.as_path()));
        }
        if part != AGENTS {
            return Self::part(id, Owner::Whole, part, next()?, next()?);
        }
        let Some(agent) = next()? else {
            return Some(Self::Agents(id));
        };
        match next()? {
            None => Some(Self::Agent(id, agent)),
            Some(part) => Self::part(id, Owner::Agent(agent), part, next()?, next()?),
        }
    }

    /// What kind of node it is, if it is there. What is below `source/` depends on what was stored.
    pub(super) fn kind(self) -> NodeKind {
        match self {
            Self::Readme | Self::Derived(..) | Self::Turn(..) => NodeKind::File,
            Self::Latest => NodeKind::Link,
            Self::Root
            | Self::Sessions
            | Self::Session(_)
            | Self::Agents(_)
            | Self::Agent(..)
            | Self::Turns(..)
            | Self::Source(..) => NodeKind::Directory,
        }
    }

    fn part(
        id: &'a str,
        owner: Owner<'a>,
        part: &str,
        below: Option<&'a str>,
        more: Option<&str>,
    ) -> Option<Self> {
        match (part, below, more) {
            (TURNS, None, None) => Some(Self::Turns(id, owner)),
            (TURNS, Some(turn), None) => Some(Self::Turn(id, owner, turn)),
            (_, None, None) => {
                let derived = Derived::ALL.into_iter().find(|d| d.name() == part)?;
                Some(Self::Derived(id, owner, derived))
            }
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
        let cases: [(&str, Option<Node<'_>>); 21] = [
            ("", Some(Node::Root)),
            ("README.md", Some(Node::Readme)),
            ("README.md/x", None),
            ("latest", Some(Node::Latest)),
            ("latest/x", None),
            ("other", None),
            ("sessions", Some(Node::Sessions)),
            ("sessions/s", Some(Node::Session("s"))),
            ("sessions/s/x", None),
            (
                "sessions/s/artefact.md",
                Some(Node::Derived("s", whole, Derived::Artefact)),
            ),
            ("sessions/s/artefact.md/x", None),
            ("sessions/s/turns", Some(Node::Turns("s", whole))),
            ("sessions/s/turns/t", Some(Node::Turn("s", whole, "t"))),
            ("sessions/s/turns/t/x", None),
            ("sessions/s/agents", Some(Node::Agents("s"))),
            ("sessions/s/agents/a", Some(Node::Agent("s", "a"))),
            (
                "sessions/s/agents/a/telemetry.json",
                Some(Node::Derived("s", agent, Derived::Telemetry)),
            ),
            (
                "sessions/s/agents/a/turns/t",
                Some(Node::Turn("s", agent, "t")),
            ),
            ("sessions/s/agents/a/agents", None),
            ("sessions/s/source", Some(Node::Source("s", Path::new("")))),
            (
                "sessions/s/source/a/b",
                Some(Node::Source("s", Path::new("a/b"))),
            ),
        ];
        for (path, node) in cases {
            assert_eq!(Node::of(&place(path.as_bytes())), node, "{path}");
        }
        assert_eq!(Node::of(&place(b"sessions/\xff")), None);
    }
}
