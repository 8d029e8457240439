//! What a part of a session is: its attributes and its content, out of what the session's contents say and what is
//! rendered of it.

use super::content::Slice;
use super::place::{Derived, Owner, Part};
use super::rendering::{Contents, Outline, Rendered, TurnLine, Whose};
use super::state::State;
use super::{Attributes, NodeKind, version};
use crate::session::TurnIndex;
use crate::session::objects::Object;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// What a path below a session names that depends on the session's contents.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Directory,
    /// A derived file, or the section of it that a turn is.
    File(Whose, Derived, Option<(TurnIndex, TurnLine)>),
    /// An object, under the key that its name makes.
    Object(u64, Object),
}

impl Target {
    /// What a part of a session names, none if nothing is there. Asks for the contents only if they decide it.
    pub(super) fn of<E>(
        part: Part<'_>,
        contents: impl FnOnce() -> Result<Arc<Contents>, E>,
    ) -> Result<Option<Self>, E> {
        if let Part::File(Owner::Whole, file) = part
            && file != Derived::Turns
        {
            return Ok(Some(Self::File(Whose::Session, file, None)));
        }
        let contents = contents()?;
        Ok(Self::within(part, &contents))
    }

    fn within(part: Part<'_>, contents: &Contents) -> Option<Self> {
        match part {
            Part::Agents => (!contents.agents.is_empty()).then_some(Self::Directory),
            Part::Agent(name) => {
                contents.whose(Owner::Agent(name))?;
                Some(Self::Directory)
            }
            Part::Turns(owner) => {
                contents.turns(contents.whose(owner)?)?;
                Some(Self::Directory)
            }
            Part::File(owner, file) => {
                let whose = contents.whose(owner)?;
                if file == Derived::Turns {
                    contents.turns(whose)?;
                }
                Some(Self::File(whose, file, None))
            }
            Part::Objects => (!contents.objects.is_empty()).then_some(Self::Directory),
            Part::Object(name) => {
                let object = *contents.objects.get(name)?;
                Some(Self::Object(version::of_object(name), object))
            }
            Part::Turn(owner, name) => {
                let whose = contents.whose(owner)?;
                let turn = contents.turn(whose, name)?;
                Some(Self::File(whose, Derived::Full, Some(turn)))
            }
        }
    }

    pub(super) fn kind(self) -> NodeKind {
        match self {
            Self::Directory => NodeKind::Directory,
            Self::File(..) | Self::Object(..) => NodeKind::File,
        }
    }

    /// The attributes, with the outline of the file that it is, or that it is a turn of. None if the document has no such
    /// turn, or there is no outline.
    pub(super) fn attributes(self, state: &State, outline: Option<&Outline>) -> Option<Attributes> {
        let (size, at) = match self {
            Self::Directory => return Some(directory(state.modified)),
            Self::Object(_, object) => (object.size, None),
            Self::File(_, _, None) => (outline?.size, None),
            Self::File(_, _, Some((turn, line))) => {
                let range = outline?.turn(turn)?;
                (range.end - range.start, line.at)
            }
        };
        Some(file(size, at.unwrap_or(state.modified), state.version))
    }

    /// The content, from the rendered file that it is or that it is a turn of.
    pub(super) fn content(self, rendered: &Rendered) -> Option<Slice> {
        let bytes = rendered.bytes.clone();
        match self {
            Self::Directory | Self::Object(..) => None,
            Self::File(_, _, None) => Some(Slice::whole(bytes)),
            Self::File(_, _, Some((turn, _))) => {
                let range = rendered.outline.turn(turn)?;
                Some(Slice { bytes, range })
            }
        }
    }
}

/// The attributes of a file that is a value.
pub(super) fn file(size: u64, modified: SystemTime, version: u64) -> Attributes {
    Attributes {
        kind: NodeKind::File,
        size,
        modified,
        version,
        live: false,
    }
}

/// The attributes of a link with this target.
pub(super) fn link(target: &Path, modified: SystemTime) -> Attributes {
    Attributes {
        kind: NodeKind::Link,
        size: target.as_os_str().len() as u64,
        modified,
        version: 0,
        live: false,
    }
}

/// The attributes of a directory.
pub(super) fn directory(modified: SystemTime) -> Attributes {
    Attributes {
        kind: NodeKind::Directory,
        size: 0,
        modified,
        version: 0,
        live: false,
    }
}
