//! Sources: the directories where sessions are looked for, and what each one is.

use super::listing::{self, Kind, Listing};
use super::logs;
use super::open::kind_of;
use super::record;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory that holds sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it is, as given.
    pub(super) root: PathBuf,
    /// The same without links, for telling what lies inside.
    pub(super) canonical: PathBuf,
    /// The only session that it stands for; none for all that are there.
    pub(super) only: Option<OsString>,
    pub(super) holds: Holds,
}

/// What lies in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Transcripts, in project folders or in one of them.
    Transcripts,
    /// Framed logs with their pending objects, in one flat directory (`spec/session-log.md`).
    Logs,
    /// The record of messages, one folder a session (`spec/record.md`).
    Record,
}

/// Why a directory is no source. `spec/commands.md`: an error says what, where, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing is there.
    #[error("{}: there is no such directory; give the folder that holds the sessions, such as ~/.claude/projects", .0.display())]
    Missing(PathBuf),
    /// It is a transcript.
    #[error("{}: a source is a directory and this is a transcript; give its folder, {}", path.display(), folder.display())]
    Transcript {
        /// What was given.
        path: PathBuf,
        /// What to give.
        folder: PathBuf,
    },
    /// It is neither a directory nor a transcript.
    #[error("{}: a source is a directory and this is {kind}", path.display())]
    NotDirectory {
        /// What was given.
        path: PathBuf,
        /// What it is, with its article.
        kind: &'static str,
    },
    /// The file system refused.
    #[error("{}: this source cannot be read: {source}", path.display())]
    Unreadable {
        /// What was given.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Source {
    /// Recognises what a directory holds: a config folder with `projects/`, framed logs, a record of messages, one session's folder, else a
    /// projects folder or one project's folder. An empty directory is a source in which nothing is yet.
    pub fn recognise(path: &Path) -> Result<Self, SourceError> {
        let listing = list(path)?;
        let canonical = canonical(path)?;
        // What is given as `.` has its name only in its canonical form.
        let named = path.file_name().map_or(canonical.as_path(), |_| path);
        let projects = OsStr::new("projects");
        if path.join(projects).is_dir() && named.file_name() != Some(projects) {
            return Self::at(&path.join(projects), None);
        }
        if logs::are_in(&listing) {
            return Self::logs(path);
        }
        if record::is_record(path, &listing) {
            return Self::record(path);
        }
        match session_folder(named, &listing) {
            Some((project, id)) => Self::at(&project, Some(id)),
            None => Self::at(path, None),
        }
    }

    /// A record directory, whatever it holds.
    pub fn record(path: &Path) -> Result<Self, SourceError> {
        Ok(Self {
            holds: Holds::Record,
            ..Self::at(path, None)?
        })
    }

    /// A directory of transcripts, whatever it looks like.
    pub fn transcripts(path: &Path) -> Result<Self, SourceError> {
        Self::at(path, None)
    }

    /// A directory of framed logs, whatever it looks like.
    pub fn logs(path: &Path) -> Result<Self, SourceError> {
        Ok(Self {
            holds: Holds::Logs,
            ..Self::at(path, None)?
        })
    }

    /// Whether it is a record directory.
    pub fn is_record(&self) -> bool {
        self.holds == Holds::Record
    }

    /// Whether it is a directory of framed logs.
    pub fn is_logs(&self) -> bool {
        self.holds == Holds::Logs
    }

    /// The directory: a projects folder, one project's folder, one of framed logs, or a record directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says which source it is, in parts.
    pub(super) fn identify(&self, part: &mut dyn FnMut(&[u8])) {
        let holds = match self.holds {
            Holds::Transcripts => "transcripts",
            Holds::Logs => "logs",
            Holds::Record => "record",
        };
        part(holds.as_bytes());
        part(self.canonical.as_os_str().as_bytes());
        let only = self.only.as_ref().map(|only| only.as_bytes());
        part(only.unwrap_or_default());
    }

    /// Whether a path without links lies in this source.
    pub(super) fn holds(&self, canonical: &Path) -> bool {
        canonical.starts_with(&self.canonical)
    }

    /// Where sessions lie when nobody says so: `projects` in each member of `config_dirs` (the value of
    /// `CLAUDE_CONFIG_DIR`, a comma list whose members may themselves be such a folder), else in `~/.claude` and
    /// `~/.config/claude`. The places need not be there.
    pub fn default_places(home: Option<&Path>, config_dirs: Option<&OsStr>) -> Vec<PathBuf> {
        let given = config_dirs.map(OsStr::as_bytes).unwrap_or_default();
        let mut places: Vec<PathBuf> = given
            .split(|&b| b == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|member| !member.is_empty())
            .map(|member| {
                let folder = match (home, member.strip_prefix(b"~/")) {
                    (Some(home), Some(rest)) => home.join(OsStr::from_bytes(rest)),
                    _ => PathBuf::from(OsStr::from_bytes(member)),
                };
                if folder.file_name() == Some(OsStr::new("projects")) {
                    folder
                } else {
                    folder.join("projects")
                }
            })
            .collect();
        if places.is_empty() {
            places = [".claude/projects", ".config/claude/projects"]
                .into_iter()
                .filter_map(|place| Some(home?.join(place)))
                .collect();
        }
        places
    }

    /// The default places of this process's environment, whether or not they are there.
    pub fn default_places_here() -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let config = std::env::var_os("CLAUDE_CONFIG_DIR");
        Self::default_places(home.as_deref().map(Path::new), config.as_deref())
    }

    fn at(root: &Path, only: Option<OsString>) -> Result<Self, SourceError> {
        list(root)?;
        Ok(Self {
            root: root.to_path_buf(),
            canonical: canonical(root)?,
            only,
            holds: Holds::Transcripts,
        })
    }
}

fn canonical(path: &Path) -> Result<PathBuf, SourceError> {
    path.canonicalize()
        .map_err(|source| SourceError::unreadable(path, source))
}

impl SourceError {
    /// What to do about it, where the error itself does not say.
    pub fn hint(&self) -> Option<&'static str> {
        let Self::Unreadable { source, .. } = self else {
            return None;
        };
        match source.kind() {
            io::ErrorKind::PermissionDenied => {
                Some("look at its permissions, and at those of the folders above it")
            }
            io::ErrorKind::NotConnected => Some(
                "the process behind what is mounted there has died: mount it again, or unmount it",
            ),
            _ => None,
        }
    }

    fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// Whether a name has the form of a session's ID: 8, 4, 4, 4 and 12 hexadecimal digits.
pub(super) fn is_uuid(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.len() == 36
        && name.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Lists the directory; the error says why it is no source.
fn list(path: &Path) -> Result<Listing, SourceError> {
    let unreadable = |source| SourceError::unreadable(path, source);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SourceError::Missing(path.to_path_buf()));
        }
        Err(error) => return Err(unreadable(error)),
    };
    if metadata.is_dir() {
        return listing::read(path, &metadata).map_err(unreadable);
    }
    if metadata.is_file() && path.extension() == Some(OsStr::new("jsonl")) {
        return Err(SourceError::Transcript {
            path: path.to_path_buf(),
            folder: parent(path).to_path_buf(),
        });
    }
    Err(SourceError::NotDirectory {
        path: path.to_path_buf(),
        kind: kind_of(&metadata),
    })
}

/// The project folder and the session's ID, if this directory is the folder of one session: its main file lies beside
/// it, or its name is an ID and it holds what only sessions hold.
fn session_folder(path: &Path, listing: &Listing) -> Option<(PathBuf, OsString)> {
    let name = path.file_name()?;
    let mut main = name.to_owned();
    main.push(".jsonl");
    let beside = std::fs::metadata(parent(path).join(main)).is_ok_and(|main| main.is_file());
    let holds = |part: &str| listing.kind(OsStr::new(part)) == Some(Kind::Directory);
    let parts = ["subagents", "tool-results", "workflows"];
    (beside || (is_uuid(name) && parts.into_iter().any(holds)))
        .then(|| (parent(path).to_path_buf(), name.to_owned()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1ab2c3d4-0000-4000-8000-000000000001";

    fn root_of(path: &Path) -> (PathBuf, Option<String>) {
        let source = Source::recognise(path).unwrap();
        let only = source.only.map(|id| id.to_string_lossy().into_owned());
        (source.root, only)
    }

    #[test]
    fn recognises_what_a_directory_holds() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        let projects = config.join("projects");
        let project = projects.join("-home-u-a");
        let session = project.join(ID);
        std::fs::create_dir_all(session.join("subagents")).unwrap();
        std::fs::write(config.join("history.jsonl"), "{}").unwrap();

        assert_eq!(root_of(&config), (projects.clone(), None));
        assert_eq!(root_of(&projects), (projects.clone(), None));
        assert_eq!(root_of(&project), (project.clone(), None));
        let one = (project.clone(), Some(ID.to_owned()));
        assert_eq!(root_of(&session), one, "its main file is gone");

        std::fs::write(project.join("odd.jsonl"), "").unwrap();
        std::fs::create_dir(project.join("odd")).unwrap();
        let one = (project.clone(), Some("odd".to_owned()));
        assert_eq!(
            root_of(&project.join("odd")),
            one,
            "its main file is beside"
        );

        // A project that is called "projects" is no config folder's.
        std::fs::create_dir(projects.join("projects")).unwrap();
        assert_eq!(root_of(&projects), (projects, None));
    }

    #[test]
    fn recognises_framed_logs() {
        let dir = tempfile::tempdir().unwrap();
        let is_logs = || Source::recognise(dir.path()).unwrap().is_logs();
        std::fs::write(dir.path().join("no log.session-log"), "").unwrap();
        assert!(!is_logs());
        std::fs::write(dir.path().join("a.session-log"), "").unwrap();
        assert!(is_logs());
        std::fs::write(dir.path().join("b.jsonl"), "").unwrap();
        assert!(!is_logs(), "transcripts lie here too");
        assert!(Source::logs(dir.path()).unwrap().is_logs());
        std::fs::remove_file(dir.path().join("b.jsonl")).unwrap();
        assert!(!Source::transcripts(dir.path()).unwrap().is_logs());
    }

    #[test]
    fn an_empty_directory_is_a_source() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(root_of(dir.path()), (dir.path().to_path_buf(), None));
    }

    #[test]
    fn says_why_something_is_no_source() {
        let dir = tempfile::tempdir().unwrap();
        let text = |name: &str| {
            Source::recognise(&dir.path().join(name))
                .unwrap_err()
                .to_string()
        };
        assert!(text("nothing").contains("no such directory"));
        std::fs::write(dir.path().join("a.jsonl"), "").unwrap();
        let folder = format!("give its folder, {}", dir.path().display());
        assert!(text("a.jsonl").contains(&folder));
        std::fs::write(dir.path().join("a.txt"), "").unwrap();
        assert!(text("a.txt").contains("this is a file"));
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(text("fifo").contains("this is a FIFO"));
    }

    #[test]
    fn the_advice_fits_the_reason() {
        let hint = |reason: io::ErrorKind| {
            let error = SourceError::unreadable(Path::new("x"), reason.into());
            error.hint().unwrap_or_default()
        };
        assert!(hint(io::ErrorKind::PermissionDenied).contains("permissions"));
        assert!(hint(io::ErrorKind::NotConnected).contains("unmount"));
        assert_eq!(hint(io::ErrorKind::InvalidFilename), "");
    }

    #[test]
    fn default_places_come_from_the_environment() {
        let places = |config: Option<&str>| {
            Source::default_places(Some(Path::new("/h")), config.map(OsStr::new))
        };
        let usual = ["/h/.claude/projects", "/h/.config/claude/projects"].map(PathBuf::from);
        assert_eq!(places(None), usual);
        assert_eq!(places(Some(" ,")), usual);
        assert_eq!(
            places(Some("/a, /b/projects,~/c")),
            ["/a/projects", "/b/projects", "/h/c/projects"].map(PathBuf::from)
        );
        assert!(Source::default_places(None, None).is_empty());
    }
}
