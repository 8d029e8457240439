//! Stored files as they are: one version as long as a file only grows, so that whoever follows it goes on reading.
//!
//! What somebody has read must stay the beginning of the file. So the last bytes seen at an opening are remembered and
//! compared before growth is believed (`spec/architecture.md`, "Decisions").

use super::content::Stored;
use super::version;
use crate::store::{self, Fingerprint, StoreError};
use quick_cache::sync::Cache;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How many of the last bytes are compared.
const TAIL: u64 = 4096;

/// Files that are remembered.
const REMEMBERED: usize = 16_384;

/// What is remembered of the stored files, by device and inode number.
pub(super) struct Live(Cache<(u64, u64), Arc<Mutex<Followed>>>);

struct Followed {
    state: Fingerprint,
    version: u64,
    /// The bytes before `state.size`, once somebody has opened the file.
    tail: Option<Vec<u8>>,
}

impl Live {
    pub(super) fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// The version and the state of a file now.
    pub(super) fn look(&self, path: &Path) -> Result<(u64, Fingerprint), StoreError> {
        loop {
            let found = store::status(path)?;
            let followed = self.followed(&found);
            let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
            // Looked at again under the lock: who looked earlier must not take the file for one that shrank since.
            let now = store::status(path)?;
            if now.identity() == found.identity() {
                followed.meet(now, || store::open(path).ok());
                return Ok((followed.version, now));
            }
        }
    }

    /// Opens a file in this version; none if it is in another one by now.
    pub(super) fn open(&self, path: &Path, version: u64) -> Result<Option<Stored>, StoreError> {
        let opened = store::open(path)?;
        let status = || store::status_of(&opened, path);
        let followed = self.followed(&status()?);
        let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.meet(status()?, || opened.try_clone().ok());
        if followed.version != version {
            return Ok(None);
        }
        followed.tail = tail(&opened, followed.state.size);
        Ok(Some(Stored(opened)))
    }

    fn followed(&self, state: &Fingerprint) -> Arc<Mutex<Followed>> {
        let first = || {
            Ok::<_, std::convert::Infallible>(Arc::new(Mutex::new(Followed {
                state: *state,
                version: version::of_file(state),
                tail: None,
            })))
        };
        let Ok(followed) = self.0.get_or_insert_with(&state.identity(), first);
        followed
    }
}

impl Followed {
    /// Takes note of the state in which the file is now. Where it changed beyond what somebody has read, or nobody has, there
    /// is nothing that could have changed under a reader.
    ///
    /// New times with the old length say nothing by themselves: the kernel stamps a file before an append shows in its
    /// length, and a writer may be stopped between the two for as long as the machine is busy.
    fn meet(&mut self, now: Fingerprint, open: impl FnOnce() -> Option<File>) {
        if now == self.state {
            return;
        }
        let shrank = now.size < self.state.size;
        let kept = match &self.tail {
            _ if shrank => false,
            None => true,
            Some(seen) => {
                let opened = open();
                let there = opened.as_ref().and_then(|file| tail(file, self.state.size));
                let kept = there.as_ref() == Some(seen);
                self.tail = opened.and_then(|file| tail(&file, now.size));
                kept
            }
        };
        if !kept {
            self.version = version::of_rewritten(&now);
            self.tail = None;
        }
        self.state = now;
    }
}

/// The last bytes of a file before this length.
fn tail(file: &File, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length.min(TAIL) as usize];
    let from = length - bytes.len() as u64;
    let filled = store::read_at(file, &mut bytes, from).ok()?;
    bytes.truncate(filled);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Content;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn growth_keeps_the_version_and_the_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let live = Live::new();
        std::fs::write(&path, "a\n".repeat(5000)).unwrap();
        let (version, _) = live.look(&path).unwrap();
        let open = live.open(&path, version).unwrap().unwrap();
        for size in [10_005, 10_010, 10_015] {
            append(&path, "more\n");
            let (now, state) = live.look(&path).unwrap();
            assert_eq!((now, state.size), (version, size));
        }
        assert_eq!(open.size(), 10_015);
        assert_eq!(open.read(10_010, 100).unwrap(), b"more\n");
    }

    #[test]
    fn a_rewritten_or_shrunk_file_is_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let live = Live::new();
        let mut versions = std::collections::HashSet::new();
        // Longer, but what was read is not its beginning any more; shorter; of the same length.
        for text in ["0123456789", "0123456_89 and more", "short", "other"] {
            std::fs::write(&path, text).unwrap();
            // Two writes within one tick of the file system's clock look alike.
            let at = std::time::SystemTime::UNIX_EPOCH
                + std::time::Duration::from_secs(versions.len() as u64);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(at)
                .unwrap();
            let version = live.look(&path).unwrap().0;
            for old in &versions {
                assert!(live.open(&path, *old).unwrap().is_none(), "{text}");
            }
            assert!(live.open(&path, version).unwrap().is_some(), "{text}");
            assert!(versions.insert(version), "{text}");
        }
    }

    /// What a look sees between the stamping and the growing of an append.
    #[test]
    fn a_stamp_that_comes_before_its_bytes_is_no_rewrite() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let live = Live::new();
        std::fs::write(&path, "one\n").unwrap();
        let (version, _) = live.look(&path).unwrap();
        let _open = live.open(&path, version).unwrap().unwrap();
        let at = std::time::SystemTime::UNIX_EPOCH;
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(at).unwrap();
        assert_eq!(live.look(&path).unwrap().0, version);
        // However long the writer is stopped there.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(live.look(&path).unwrap().0, version);
        append(&path, "two\n");
        assert_eq!(live.look(&path).unwrap().0, version);
        assert!(live.open(&path, version).unwrap().is_some());
    }

    #[test]
    fn a_file_that_was_replaced_is_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let live = Live::new();
        std::fs::write(&path, "one").unwrap();
        let (version, _) = live.look(&path).unwrap();
        let open = live.open(&path, version).unwrap().unwrap();
        std::fs::write(dir.path().join("other"), "two and more").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert_ne!(live.look(&path).unwrap().0, version);
        assert!(live.open(&path, version).unwrap().is_none());
        assert_eq!(open.read(0, 100).unwrap(), b"one", "what is open reads on");
    }
}
