//! The files of a session, each read and parsed once, side by side.

use foldhash::{HashMap, HashMapExt as _};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::parallel;
use crate::store::{FileRole, SessionFiles, SourceFile};
use crate::transcript::line::{FileLines, Line};
use crate::transcript::text::Buffers;

use super::follow::{Followed, Reading, Reads};
use super::objects::Stored;
use super::sidecar::{self, RunRecord, Sidecar};
use super::{SourceUnused, stored};

/// Bytes that are worth a worker.
const WORTH: usize = 128 << 10;

/// Everything that the files of a session hold, before anything is put together.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// What is kept of every thread's file, and the stored tool results.
    pub buffers: Buffers,
    /// Base names, with an ordinal where two are equal, of every thread's file, by the file's number; empty where no file has a number.
    pub sources: Vec<String>,
    /// One for each thread's file, in the order of the fragments and of the names.
    pub threads: Vec<ThreadFile>,
    /// What the workflows' records and journals say, by run.
    pub runs: BTreeMap<String, RunRecord>,
    /// What the sidecars say, by agent ID.
    pub sidecars: HashMap<String, Sidecar>,
    /// The stored tool results.
    pub stored: Vec<Stored>,
    /// Files that nothing was made of.
    pub unused: Vec<SourceUnused>,
    /// Whether a main thread's file is there but could not be read.
    pub main_unreadable: bool,
    /// How far the threads' files were read.
    pub reads: Reads,
}

/// One thread's file.
#[derive(Debug)]
pub(super) struct ThreadFile {
    /// The agent's ID; none for a main thread.
    pub agent: Option<String>,
    /// Index into the session's sources.
    pub source: u32,
    /// The workflow's run in whose folder it lies.
    pub run: Option<String>,
    /// What it says; its lines only if it is not followed.
    pub said: FileLines,
    /// What was read of it, if it is followed.
    pub followed: Option<Followed>,
}

impl ThreadFile {
    /// Its lines: a copy if it is followed, else they are taken.
    pub(super) fn take_lines(&mut self) -> Vec<Line> {
        match &self.followed {
            Some(followed) => followed.lines(),
            None => std::mem::take(&mut self.said.lines),
        }
    }
}

/// Reads the files of a session. What was read of them before is not read again; how far they are read now is said only if
/// somebody will `follow` the session.
pub(super) fn read(session: &SessionFiles, before: Option<&Reads>, follow: bool) -> Files {
    let mut files = Files::default();
    let nothing = Reads::default();
    let known = before.unwrap_or(&nothing);
    let mut wanted: Vec<&SourceFile> = Vec::new();
    let mut results: Vec<&SourceFile> = Vec::new();
    for (base, why) in &session.unused {
        files.unused.push(SourceUnused {
            source: base.clone(),
            why: why.clone(),
        });
    }
    for file in session
        .fragments
        .iter()
        .flat_map(|fragment| &fragment.files)
    {
        match &file.role {
            FileRole::Main | FileRole::Agent(_) => wanted.push(file),
            FileRole::Sidecar(agent) => {
                let said = known.sidecars.get(file);
                match said.map_or_else(|| sidecar::read(file), Ok) {
                    Ok(said) => {
                        if follow {
                            files.reads.sidecars.note(file, said.clone());
                        }
                        files.sidecars.entry(agent.clone()).or_insert(said);
                    }
                    Err(why) => unused(&mut files, file, &why),
                }
            }
            FileRole::ToolResult => results.push(file),
            FileRole::Workflow => {
                let said = known.runs.get(file);
                match said.map_or_else(|| sidecar::read_run(file), Ok) {
                    Ok((run, record)) => {
                        if follow {
                            files.reads.runs.note(file, (run.clone(), record.clone()));
                        }
                        files.runs.entry(run).or_default().add(record);
                    }
                    Err(why) => unused(&mut files, file, &why),
                }
            }
            // What they hold is no transcript.
            FileRole::Log | FileRole::PendingObject(_) | FileRole::Entry => {}
            FileRole::Other => unused(
                &mut files,
                file,
                "not a file that the harness is known to write",
            ),
        }
    }
    let reading = Reading::new(&wanted, before, follow);
    // The largest first, so that two workers end together.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(wanted[i].fingerprint.size));
    let bytes = (0..wanted.len()).map(|i| reading.bytes(i, wanted[i]));
    let bytes = usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX);
    let least = parallel::least(order.len(), bytes, WORTH);
    let windows = Windows::default();
    let mut read: Vec<(usize, Result<_, _>)> = order
        .into_par_iter()
        .with_min_len(least)
        .with_max_len(least)
        .map(|i| {
            let mut window = windows.take();
            let outcome = reading.read(i, wanted[i], &mut window);
            windows.put(window);
            (i, outcome)
        })
        .collect();
    read.sort_by_key(|(i, _)| *i);
    let mut buffers = vec![Arc::default(); reading.buffers()];
    files.sources = vec![String::new(); reading.sources()];
    let names = distinct_names(wanted.iter().map(|file| file.base_name()));
    for (i, name) in names.into_iter().enumerate() {
        files.sources[reading.source(i) as usize] = name;
    }
    for (i, outcome) in read {
        let file = wanted[i];
        let agent = match &file.role {
            FileRole::Agent(id) => Some(id.clone()),
            _ => None,
        };
        match outcome {
            Ok(outcome) => {
                for (number, buffer) in outcome.buffers {
                    buffers[number as usize] = buffer;
                }
                if let Some(followed) = &outcome.followed {
                    files.reads.note(followed);
                }
                files.threads.push(ThreadFile {
                    agent,
                    source: reading.source(i),
                    run: sidecar::run_of(&file.name),
                    said: outcome.said,
                    followed: outcome.followed,
                });
            }
            Err(error) => {
                files.main_unreadable |= agent.is_none();
                unused(&mut files, file, &error.reason());
            }
        }
    }
    files.reads.sources = reading.sources();
    files.reads.buffers = buffers.len();
    for (file, read) in stored::read(&results, &known.results, buffers.len()) {
        let bytes = match read {
            Ok((stored, bytes)) => {
                if follow {
                    files
                        .reads
                        .results
                        .note(file, (stored.clone(), bytes.clone()));
                }
                files.stored.push(stored);
                bytes
            }
            Err(why) => {
                unused(&mut files, file, &why);
                Arc::default()
            }
        };
        buffers.push(bytes);
    }
    files.buffers = Buffers::new(buffers);
    files
}

/// Windows that files are read through, each used again: memory that was never used before costs more than reading into it.
#[derive(Default)]
struct Windows(Mutex<Vec<Vec<u8>>>);

impl Windows {
    fn take(&self) -> Vec<u8> {
        self.free().pop().unwrap_or_default()
    }

    fn put(&self, window: Vec<u8>) {
        self.free().push(window);
    }

    /// No code of others runs under the lock, so a poisoned one is whole.
    fn free(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unused(files: &mut Files, file: &SourceFile, why: &str) {
    files.unused.push(SourceUnused {
        source: file.base_name(),
        why: why.to_owned(),
    });
}

/// Names in order, the second and later of an equal name with an ordinal behind.
fn distinct_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: HashMap<String, u64> = HashMap::new();
    names
        .map(|name| {
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 {
                name
            } else {
                format!("{name} ({count})")
            }
        })
        .collect()
}
