//! Tool results that the harness stored beside the transcript because they were too long for it.
//!
//! A line then holds a reference: a path on the machine that wrote it, and the beginning of the output. Only the path's last
//! part is used, and only to find a file among those that lie in the session's own `tool-results/`; no path that content names
//! is ever followed (`spec/artefact.md`, `formats/claude-code.md` 1).

use foldhash::{HashMap, HashMapExt as _};
use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use crate::store::{self, SourceFile};
use crate::transcript::text::{Buffers, Form, Text};
use crate::transcript::thread::Block;

use super::follow::Said;
use super::last_part;
use super::objects::Stored;

/// What a reference begins with.
const TAG: &[u8] = b"<persisted-output>";

/// A stored result and its bytes, or why it cannot be read.
type Read = Result<(Stored, Arc<Vec<u8>>), String>;

/// Reads these files, each into a buffer of its own, of which the first has this number. What is known of one that did not change
/// is not read again.
pub(super) fn read<'a>(
    files: &[&'a SourceFile],
    known: &Said<(Stored, Arc<Vec<u8>>)>,
    first: usize,
) -> Vec<(&'a SourceFile, Read)> {
    let read = files.par_iter().enumerate().map(|(i, &file)| {
        let buffer = (first + i) as u32;
        let read = match known.get(file) {
            Some((mut stored, bytes)) => {
                stored.bytes.buffer = buffer;
                Ok((stored, bytes))
            }
            None => read_file(file, buffer),
        };
        (file, read)
    });
    read.collect()
}

fn read_file(file: &SourceFile, buffer: u32) -> Read {
    let bytes = store::read(&file.path, file.fingerprint.size);
    let bytes = bytes.map_err(|error| error.reason())?;
    let at = Text {
        start: 0,
        len: u32::try_from(bytes.len()).map_err(|_| "4 GiB or larger".to_owned())?,
        buffer,
        form: Form::Plain,
    };
    Ok((Stored::new(&file.base_name(), &bytes, at), Arc::new(bytes)))
}

/// Names in references that led to no one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Those that have no file here.
    pub missing: BTreeSet<String>,
    /// Those that several files of different content have, of which nothing says which is meant.
    pub ambiguous: BTreeSet<String>,
}

impl Taken {
    pub(super) fn add(&mut self, other: &Self) {
        self.missing.extend(other.missing.iter().cloned());
        self.ambiguous.extend(other.ambiguous.iter().cloned());
    }
}

/// The stored results by their names.
pub(super) struct Results<'a> {
    by_name: HashMap<&'a str, Vec<u32>>,
}

impl<'a> Results<'a> {
    pub(super) fn of(stored: &'a [Stored]) -> Self {
        let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
        for (i, file) in stored.iter().enumerate() {
            let same = by_name.entry(&file.name).or_default();
            if same
                .iter()
                .all(|&j| stored[j as usize].sha256 != file.sha256)
            {
                same.push(i as u32);
            }
        }
        Self { by_name }
    }

    /// Puts behind each reference in a result the file that it names.
    pub(super) fn take_in(&self, blocks: &mut [Block], buffers: &Buffers, taken: &mut Taken) {
        for block in blocks {
            let Block::ToolResult { content, .. } = block else {
                continue;
            };
            let mut at = 0;
            while let Some(piece) = content.get(at) {
                at += 1;
                let Some(name) = referred(piece, buffers) else {
                    continue;
                };
                match self.by_name.get(name.as_str()).map(Vec::as_slice) {
                    Some(&[result]) => {
                        content.insert(at, Block::Stored { result });
                        at += 1;
                    }
                    Some(_) => {
                        taken.ambiguous.insert(name);
                    }
                    None => {
                        taken.missing.insert(name);
                    }
                }
            }
        }
    }
}

/// The base name in a reference; empty where it has none. None for what is no reference.
fn referred(piece: &Block, buffers: &Buffers) -> Option<String> {
    let Block::Text(text) = piece else {
        return None;
    };
    let raw = buffers.raw(*text);
    if !raw.bytes.trim_ascii_start().starts_with(TAG) {
        return None;
    }
    let text = raw.to_text();
    // The words before the path differ from version to version; the folder in it, or the colon before it, does not.
    let path = ["tool-results", ": "]
        .iter()
        .find_map(|before| Some(text.split_once(before)?.1))
        .unwrap_or_default();
    let path: String = path
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != '<')
        .collect();
    Some(last_part(&path).unwrap_or_default().to_owned())
}
