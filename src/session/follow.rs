//! How far the files of a session were read, so that a session that grows is read on and not anew.
//!
//! A file is gone on with where it is the same file, is no shorter than what was read of it, and the last bytes that were read
//! still stand where they stood (`spec/architecture.md`, fingerprint). The texts that were kept stay where they are; those that
//! are new go to a buffer of their own.

use foldhash::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::store::{self, Fingerprint, SourceFile, StoreError};
use crate::transcript::claude_code::{File, Paused};
use crate::transcript::line::{FileLines, Line};

use super::objects::Stored;
use super::sidecar::{RunRecord, Sidecar};
use super::weave::Woven;

/// What was read of a session's files.
#[derive(Debug, Default)]
pub struct Reads {
    /// One for each thread's file that could be read.
    threads: Vec<Arc<Read>>,
    /// How many numbers of sources were given.
    pub(super) sources: usize,
    /// Buffers that hold what was kept of them. Further buffers hold stored results.
    pub(super) buffers: usize,
    /// The strands that were made of their lines, if new lines can be added to them.
    pub(super) woven: Option<Woven>,
    /// What agents' sidecars said.
    pub(super) sidecars: Said<Sidecar>,
    /// What workflows' records and journals said, each with its run.
    pub(super) runs: Said<(String, RunRecord)>,
    /// The stored tool results, each with its bytes.
    pub(super) results: Said<(Stored, Arc<Vec<u8>>)>,
}

/// What files beside the threads said, by their paths.
#[derive(Debug)]
pub(super) struct Said<T>(HashMap<PathBuf, (Fingerprint, T)>);

impl<T> Default for Said<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: Clone> Said<T> {
    /// What this file said, if it is as it was when it said it.
    pub(super) fn get(&self, file: &SourceFile) -> Option<T> {
        let (fingerprint, said) = self.0.get(&file.path)?;
        (*fingerprint == file.fingerprint).then(|| said.clone())
    }

    /// Notes what this file says.
    pub(super) fn note(&mut self, file: &SourceFile, said: T) {
        self.0.insert(file.path.clone(), (file.fingerprint, said));
    }
}

impl Reads {
    /// How many of the session's first buffers hold what was kept of threads' files.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// How many threads' files were read.
    pub(super) fn files(&self) -> usize {
        self.threads.len()
    }

    /// Notes what was read of one thread's file.
    pub(super) fn note(&mut self, followed: &Followed) {
        self.threads.push(followed.read.clone());
    }
}

/// What was read of one thread's file.
#[derive(Debug)]
pub(super) struct Read {
    path: PathBuf,
    /// The number that its lines carry.
    source: u32,
    fingerprint: Fingerprint,
    paused: Paused,
    /// What the file says beside its lines, and without the texts.
    said: FileLines,
    /// The lines that what stands behind the last whole line holds all the same; it is read again when the file has grown.
    tail: Vec<Line>,
    /// The last bytes before the place where it was paused.
    end: Vec<u8>,
    /// What was kept: the number of each buffer, and the buffer.
    buffers: Vec<(u32, Arc<Vec<u8>>)>,
}

/// Bytes that are compared before a file is gone on with.
const END: usize = 4096;

/// Buffers that one file's texts lie in at most; then it is read anew, into one.
const MOST_BUFFERS: usize = 1000;

/// Reads the threads' files of one session.
pub(super) struct Reading<'a> {
    /// One for each file.
    files: Vec<Numbered<'a>>,
    /// Whether it will be asked how far the files were read.
    follow: bool,
    /// How many sources there are, those counted of which there is no file.
    sources: usize,
    /// The number of the next buffer that is new beside the files' first ones.
    next_buffer: AtomicU32,
}

/// A file, and the numbers that its lines and its first buffer carry, which it keeps for as long as the session is followed.
struct Numbered<'a> {
    source: u32,
    buffer: u32,
    before: Option<&'a Arc<Read>>,
}

/// What reading one file gave.
pub(super) struct Outcome {
    /// What the file says. The lines are in `followed` if the file is followed.
    pub(super) said: FileLines,
    pub(super) buffers: Vec<(u32, Arc<Vec<u8>>)>,
    pub(super) followed: Option<Followed>,
}

/// What was read of a file that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    read: Arc<Read>,
    /// How many stretches of its lines were read before; none where it was read anew.
    known: Option<usize>,
}

impl Followed {
    /// All lines of the file.
    pub(super) fn lines(&self) -> Vec<Line> {
        let stretches = self.read.paused.lines().iter();
        let lines = stretches.flat_map(|stretch| stretch.iter());
        lines.chain(&self.read.tail).cloned().collect()
    }

    /// The lines that are new, if it was gone on with.
    pub(super) fn new_lines(&self) -> Option<impl Iterator<Item = &Line> + Clone> {
        let new = self.read.paused.lines().get(self.known?..)?;
        Some(new.iter().flat_map(|stretch| stretch.iter()))
    }

    /// Whether none of its lines will be read again.
    pub(super) fn is_settled(&self) -> bool {
        self.read.tail.is_empty()
    }
}

impl<'a> Reading<'a> {
    /// For these files. What was read before serves if no file is gone.
    pub(super) fn new(wanted: &[&SourceFile], before: Option<&'a Reads>, follow: bool) -> Self {
        let known = before.into_iter().flat_map(|before| &before.threads);
        let known: HashMap<&Path, &Arc<Read>> = known.map(|read| (&*read.path, read)).collect();
        let is_known = |file: &&&SourceFile| known.contains_key(&*file.path);
        let all_there = wanted.iter().filter(is_known).count() == known.len();
        let before = before.filter(|_| all_there);
        let (mut sources, mut buffers) = before.map_or((0, 0), |b| (b.sources, b.buffers));
        let files = wanted.iter().map(|file| {
            if let Some(&read) = known.get(&*file.path).filter(|_| all_there) {
                return Numbered {
                    source: read.source,
                    buffer: read.buffers.first().map_or(0, |(number, _)| *number),
                    before: Some(read),
                };
            }
            (sources, buffers) = (sources + 1, buffers + 1);
            Numbered {
                source: sources as u32 - 1,
                buffer: buffers as u32 - 1,
                before: None,
            }
        });
        let files = files.collect();
        Self {
            files,
            follow,
            sources,
            next_buffer: AtomicU32::new(buffers as u32),
        }
    }

    /// The number of the file with this index.
    pub(super) fn source(&self, index: usize) -> u32 {
        self.files[index].source
    }

    /// About how many bytes of the file with this index are to be read.
    pub(super) fn bytes(&self, index: usize, file: &SourceFile) -> u64 {
        let read = self.files[index].before.map(|read| read.paused.offset());
        file.fingerprint.size.saturating_sub(read.unwrap_or(0))
    }

    /// How many sources there are, those counted of which there is no file.
    pub(super) fn sources(&self) -> usize {
        self.sources
    }

    /// How many buffers hold what was kept, once all files are read.
    pub(super) fn buffers(&self) -> usize {
        self.next_buffer.load(Ordering::Relaxed) as usize
    }

    /// Reads the file with this index, through a window that is used again.
    pub(super) fn read(
        &self,
        index: usize,
        file: &SourceFile,
        window: &mut Vec<u8>,
    ) -> Result<Outcome, StoreError> {
        let numbered = &self.files[index];
        if let Some(before) = numbered.before {
            if before.fingerprint == file.fingerprint {
                return Ok(Outcome {
                    said: before.said.clone(),
                    buffers: before.buffers.clone(),
                    followed: Some(Followed {
                        read: before.clone(),
                        known: Some(before.paused.lines().len()),
                    }),
                });
            }
            if before.goes_on(file)? {
                let buffer = self.next_buffer.fetch_add(1, Ordering::Relaxed);
                let on = On {
                    reader: before.paused.resume(buffer),
                    known: Some(before.paused.lines().len()),
                    offset: before.paused.offset(),
                    end: before.end.clone(),
                    buffer,
                    source: numbered.source,
                    buffers: before.buffers.clone(),
                };
                return self.read_on(on, file, window);
            }
        }
        let Numbered { source, buffer, .. } = *numbered;
        let mut reader = File::new(buffer, source);
        reader.expect(file.fingerprint.size);
        let anew = On {
            reader,
            known: None,
            offset: 0,
            end: Vec::new(),
            buffer,
            source,
            buffers: Vec::new(),
        };
        self.read_on(anew, file, window)
    }

    fn read_on(
        &self,
        on: On,
        file: &SourceFile,
        window: &mut Vec<u8>,
    ) -> Result<Outcome, StoreError> {
        let On {
            mut reader,
            known,
            offset,
            mut end,
            buffer,
            source,
            mut buffers,
        } = on;
        let stretch = offset..file.fingerprint.size;
        let rest = store::read_by(&file.path, stretch, window, |piece| {
            let read = reader.take(piece);
            if self.follow {
                let last = &piece[read.saturating_sub(END)..read];
                end.drain(..(end.len() + last.len()).saturating_sub(END).min(end.len()));
                end.extend_from_slice(last);
            }
            read
        })?;
        let paused = self.follow.then(|| reader.pause());
        let mut said = reader.end(rest);
        buffers.push((buffer, Arc::new(std::mem::take(&mut said.texts))));
        let followed = paused.map(|paused| {
            let tail = std::mem::take(&mut said.lines);
            let read = Arc::new(Read {
                path: file.path.clone(),
                source,
                fingerprint: file.fingerprint,
                paused,
                said: said.clone(),
                tail,
                end,
                buffers: buffers.clone(),
            });
            Followed { read, known }
        });
        Ok(Outcome {
            said,
            buffers,
            followed,
        })
    }
}

/// A file in the middle of being read.
struct On {
    source: u32,
    reader: File,
    /// How many stretches of lines were read before; none where it is read anew.
    known: Option<usize>,
    offset: u64,
    end: Vec<u8>,
    buffer: u32,
    buffers: Vec<(u32, Arc<Vec<u8>>)>,
}

impl Read {
    /// Whether what was read still stands at the beginning of this file.
    fn goes_on(&self, file: &SourceFile) -> Result<bool, StoreError> {
        let offset = self.paused.offset();
        // Of the same length with other times it may hold anything.
        let grew =
            file.fingerprint.size > self.fingerprint.size || file.fingerprint == self.fingerprint;
        if self.fingerprint.identity() != file.fingerprint.identity()
            || !grew
            || self.buffers.len() >= MOST_BUFFERS
        {
            return Ok(false);
        }
        let mut now = vec![0; self.end.len()];
        let opened = store::open(&file.path)?;
        let from = offset - self.end.len() as u64;
        let filled = store::read_at(&opened, &mut now, from);
        Ok(filled.is_ok_and(|filled| filled == now.len()) && now == self.end)
    }
}
