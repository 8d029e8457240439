//! Reading a file of the tree from its first byte to its last.

use crate::tree::{Attributes, Content, Place, TreeError, View};
use std::sync::Arc;

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// How often a file that changes while it is asked for is asked for anew.
const ATTEMPTS: usize = 5;

/// One version of a file.
pub(super) struct Version {
    /// Its attributes.
    pub(super) attributes: Attributes,
    content: Arc<dyn Content>,
}

/// The version of a file that is current now.
pub(super) fn current(view: &dyn View, place: &Place) -> Result<Version, TreeError> {
    let mut attempt = 1;
    loop {
        let attributes = view.attributes(place)?;
        match view.open(place, attributes.version) {
            Ok(content) => return Ok(Version { attributes, content }),
            Err(TreeError::Stale(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

impl Version {
    /// Its bytes in pieces, in order, as far as they were when it was opened.
    pub(super) fn pieces(&self) -> impl Iterator<Item = std::io::Result<Vec<u8>>> + '_ {
        let size = self.content.size();
        let mut offset = 0;
        std::iter::from_fn(move || {
            if offset >= size {
                return None;
            }
            let wanted = CHUNK.min((size - offset) as usize);
            let piece = self.content.read(offset, wanted);
            match &piece {
                Ok(bytes) if bytes.is_empty() => return None,
                Ok(bytes) => offset += bytes.len() as u64,
                Err(_) => offset = size,
            }
            Some(piece)
        })
    }
}
