//! Where sessions lie on disk: sources, discovery, fingerprints, safe read-only opening.
//!
//! The store knows file names and file status; it does not know what a line means. Nothing here writes.

use std::path::{Path, PathBuf};

/// What a file of a session is, by its name and place alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileRole {
    /// The main thread: `<session>.jsonl`.
    Main,
    /// A sub-agent's thread: what stands between `agent-` and `.jsonl` is its ID.
    Agent(String),
    /// A sub-agent's sidecar: `agent-<id>.meta.json`.
    Sidecar(String),
    /// A stored tool result: a file below `tool-results/`.
    ToolResult,
    /// A workflow's journal or run record.
    Workflow,
    /// Anything else that lies in the session's folder.
    Other,
}

/// One stored file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// What it is.
    pub role: FileRole,
    /// Where it lies. For opening only; never shown.
    pub path: PathBuf,
    /// Its path below the session's project folder; what `source/` shows.
    pub name: PathBuf,
    /// Its state when it was discovered.
    pub fingerprint: Fingerprint,
}

impl SourceFile {
    /// The last part of its name, for documents.
    pub fn base_name(&self) -> String {
        self.name
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}

/// A file's state: two equal fingerprints mean the same bytes, as far as a file system can say (`spec/architecture.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint {
    /// Device.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last modification in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Last status change in nanoseconds since the epoch.
    pub ctime_ns: i64,
}

/// The files of one session in one project folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The project folder's name, as the harness encoded it.
    pub folder: String,
    /// Its files, sorted by name.
    pub files: Vec<SourceFile>,
}

/// The files of one session, as they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    /// The session's ID.
    pub id: String,
    /// One a project folder, in the order of the sources and of the folders' names.
    pub fragments: Vec<Fragment>,
    /// Files that could not be used, with why: base name and reason.
    pub unused: Vec<(String, String)>,
}

/// What could not be read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as `open`.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

/// Reads a stored file up to the length that its fingerprint says, and no further, so that a growing file gives one state.
///
/// A file that is shorter by now gives what is there.
pub fn read(path: &Path, length: u64) -> Result<Vec<u8>, StoreError> {
    use std::io::Read;
    let io = |doing| {
        move |source| StoreError::Io {
            path: path.to_path_buf(),
            doing,
            source,
        }
    };
    let file = std::fs::File::open(path).map_err(io("open"))?;
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(io("read"))?;
    Ok(bytes)
}
