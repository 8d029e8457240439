//! What one run remembers for the next: a folder of private files that may be deleted at any time.
//!
//! Nothing here is ever needed: a file that is missing, damaged, foreign or of another program is as good as none, and a folder
//! that cannot be written costs time only. What a file holds is for others to say. Two rules make it safe:
//!
//! - **Whole or not at all.** A file is written beside its place and renamed, and its digest stands in front: whoever reads it
//!   while it is written, after a crash or over a bad disk has the old one, the new one or none. Of two writers the last one wins.
//! - **Of this very program.** What was remembered is believed only by the executable that remembered it: another build may see
//!   or render the same files in another way.

mod learned;
mod table;

pub use table::{Recalled, Table};

use crate::store::Fingerprint;
use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Which form the files have. Whoever changes what follows it gives it the next number.
const FORMAT: &[u8; 16] = b"sessionfs v1   \n";

/// What stands in front of the content: the form, the program, the content's digest.
const HEAD: usize = FORMAT.len() + 2 * size_of::<Digest>();

/// Bytes of the largest file that is read or written.
pub const LARGEST: u64 = 256 << 20;

/// A file that nobody used for so long is removed: its sessions may be gone for good.
const UNUSED: Duration = Duration::from_hours(24 * 60);

/// How long a source file must not have changed for its state to be remembered: two changes within a tick of a file system's clock
/// look like one, and some file systems count in twos of seconds.
const SETTLED: Duration = Duration::from_secs(3);

/// How old a use may be that a file's time tells of.
const NOTED: Duration = Duration::from_hours(24);

/// What a file that is not yet whole is called.
const UNFINISHED: &str = ".unfinished-";

type Digest = [u8; 32];

/// The files in which runs over the same sources remember something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    sources: String,
    program: Digest,
    settled: Duration,
}

impl Cache {
    /// In this user's cache folder, `$XDG_CACHE_HOME/sessionfs` or `~/.cache/sessionfs`, for sources of this identity. None
    /// where there is no such place, or this program cannot tell itself from another.
    pub fn here(sources: &str) -> Option<Self> {
        Self::at(&folder(|name| std::env::var_os(name))?, sources)
    }

    /// In this folder, which need not be there.
    pub fn at(folder: &Path, sources: &str) -> Option<Self> {
        Some(Self {
            folder: folder.to_path_buf(),
            sources: sources.to_owned(),
            program: program()?,
            settled: SETTLED,
        })
    }

    /// Where the files lie; it need not be there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How long files must not have changed for something to be remembered of them, instead of three seconds.
    #[must_use]
    pub fn settled_after(mut self, settled: Duration) -> Self {
        self.settled = settled;
        self
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Table {
        Table::of(Some(self.file(name)))
    }

    fn file(&self, name: &str) -> CacheFile {
        CacheFile {
            cache: self.clone(),
            path: self.folder.join(format!("{}.{name}", self.sources)),
        }
    }
}

/// One file.
#[derive(Clone, Debug)]
struct CacheFile {
    cache: Cache,
    path: PathBuf,
}

impl CacheFile {
    /// Its content; none where there is no file that can be believed.
    fn load(&self) -> Option<Vec<u8>> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(flags.bits());
        let file = opened.open(&self.path).ok()?;
        let status = file.metadata().ok()?;
        if !is_own(&status) || !(HEAD as u64..=LARGEST).contains(&status.len()) {
            return None;
        }
        let mut bytes = Vec::with_capacity(status.len() as usize);
        (&file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        let (head, content) = bytes.split_at_checked(HEAD)?;
        if head != self.head(content) {
            tracing::debug!("{} is not believed", self.path.display());
            return None;
        }
        note_use(&file, &status);
        bytes.drain(..HEAD);
        Some(bytes)
    }

    /// Puts this content in its place.
    fn store(&self, content: &[u8]) -> io::Result<()> {
        if content.len() as u64 > LARGEST - HEAD as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = &self.cache.folder;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        file.write_all(&self.head(content))?;
        file.write_all(content)?;
        // Not synced: what a crash leaves of it is found out by its digest.
        file.persist(&self.path).map_err(|error| error.error)?;
        sweep(folder);
        Ok(())
    }

    fn head(&self, content: &[u8]) -> Vec<u8> {
        let content: Digest = Sha256::digest(content).into();
        [FORMAT, &self.cache.program[..], &content].concat()
    }
}

/// Whether a file is one of this user's own, which nobody else could have written.
fn is_own(status: &Metadata) -> bool {
    status.is_file()
        && status.uid() == nix::unistd::geteuid().as_raw()
        && status.mode().trailing_zeros() >= 6
}

/// Lets a file's time say that it is in use; where it cannot, the file is removed too early at worst.
fn note_use(file: &File, status: &Metadata) {
    if is_older(status, NOTED) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Removes what nobody used for long and what was never finished. Others' files are not touched.
fn sweep(folder: &Path) {
    let Ok(names) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in names.flatten() {
        let Ok(status) = entry.metadata() else {
            continue;
        };
        let name = entry.file_name();
        let most = if name.to_string_lossy().starts_with(UNFINISHED) {
            NOTED
        } else {
            UNUSED
        };
        if is_own(&status) && is_older(&status, most) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_older(status: &Metadata, than: Duration) -> bool {
    let age = status.modified().map(|at| at.elapsed());
    matches!(age, Ok(Ok(age)) if age > than)
}

fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(cache?.join("sessionfs"))
}

/// Which executable this is: by its version, and by which file in which state it lies in.
fn program() -> Option<Digest> {
    static PROGRAM: OnceLock<Option<Digest>> = OnceLock::new();
    *PROGRAM.get_or_init(|| {
        let status = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
        let state = format!("{:?}", Fingerprint::of(&status));
        let version = env!("CARGO_PKG_VERSION");
        Some(Sha256::digest(format!("{version} {state}")).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path) -> CacheFile {
        Cache::at(folder, "s").unwrap().file("a")
    }

    #[test]
    fn what_was_stored_is_loaded_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("cache/sessionfs");
        assert_eq!(file(&folder).load(), None);
        for content in [&b"first"[..], b"", b"the second"] {
            file(&folder).store(content).unwrap();
            assert_eq!(file(&folder).load().unwrap(), content);
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("s.a")), 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn a_file_with_any_byte_changed_or_cut_off_is_none() {
        let home = tempfile::tempdir().unwrap();
        let file = file(home.path());
        file.store(b"content").unwrap();
        let whole = std::fs::read(&file.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&file.path, &damaged).unwrap();
            assert_eq!(file.load(), None, "byte {at} changed");
            std::fs::write(&file.path, &whole[..at]).unwrap();
            assert_eq!(file.load(), None, "cut at {at}");
        }
        std::fs::write(&file.path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(file.load(), None, "longer");
        std::fs::write(&file.path, &whole).unwrap();
        assert_eq!(file.load().unwrap(), b"content");
    }

    #[test]
    fn what_another_program_or_somebody_else_may_have_written_is_none() {
        let home = tempfile::tempdir().unwrap();
        let own = file(home.path());
        let mut other = own.clone();
        other.cache.program[0] ^= 1;
        other.store(b"other").unwrap();
        assert_eq!(own.load(), None);
        assert_eq!(other.load().unwrap(), b"other");
        let open = Permissions::from_mode(0o660);
        std::fs::set_permissions(&own.path, open).unwrap();
        assert_eq!(other.load(), None, "a group could have written it");
        own.store(b"own").unwrap();
        std::fs::rename(&own.path, home.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &own.path).unwrap();
        assert_eq!(own.load(), None, "a link");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("taken"), "").unwrap();
        assert!(file(&home.path().join("taken")).store(b"x").is_err());
        std::fs::create_dir(home.path().join("s.a")).unwrap();
        assert!(file(home.path()).store(b"x").is_err());
        assert_eq!(file(home.path()).load(), None);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_nobody_uses_any_more_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let put = |name: &str, age: Duration| {
            let file = File::create(home.path().join(name)).unwrap();
            let private = Permissions::from_mode(0o600);
            file.set_permissions(private).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        put("gone.a", UNUSED + NOTED);
        put("used.a", UNUSED / 2);
        put(".unfinished-old", NOTED * 2);
        put(".unfinished-new", Duration::ZERO);
        file(home.path()).store(b"x").unwrap();
        let names = std::fs::read_dir(home.path()).unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".unfinished-new", "s.a", "used.a"]);
        // Reading is a use.
        let old = SystemTime::now() - UNUSED;
        let path = home.path().join("s.a");
        let open = || File::options().append(true).open(&path).unwrap();
        open().set_modified(old).unwrap();
        file(home.path()).load().unwrap();
        assert!(open().metadata().unwrap().modified().unwrap() > old + NOTED);
    }

    #[test]
    fn the_folder_is_the_users_own() {
        let folder = |cache: &str, home: &str| {
            let of = |name: &str| match name {
                "XDG_CACHE_HOME" => Some(cache.into()),
                _ => Some(home.into()),
            };
            folder(of).map(|path| path.display().to_string())
        };
        assert_eq!(folder("/c", "/h").as_deref(), Some("/c/sessionfs"));
        assert_eq!(folder("", "/h").as_deref(), Some("/h/.cache/sessionfs"));
        assert_eq!(folder("c", "h"), None, "only absolute places count");
    }
}
