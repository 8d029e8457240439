//! Versions: one number for the state of everything that a file was made from.

use crate::store::{Fingerprint, SessionFiles};
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;

/// A digest of what determines some content, as a number that is never 0. The same on every run, so that inode numbers
/// made of it are.
pub(super) struct Versioner(Sha256);

impl Versioner {
    /// `purpose` keeps versions of different things apart.
    pub(super) fn new(purpose: &str) -> Self {
        let mut versioner = Self(Sha256::new());
        versioner.bytes(purpose.as_bytes());
        versioner
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn fingerprint(&mut self, state: &Fingerprint) {
        for number in [
            state.device,
            state.inode,
            state.size,
            state.mtime_ns.cast_unsigned(),
            state.ctime_ns.cast_unsigned(),
        ] {
            self.number(number);
        }
    }

    pub(super) fn finish(self) -> u64 {
        let digest = self.0.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(first).max(1)
    }
}

/// The version of what is made from a session: of its files' states, and of how blocks are cut.
pub(super) fn of_session(files: &SessionFiles, max_block_bytes: Option<usize>) -> u64 {
    let mut version = Versioner::new("session");
    version.bytes(files.id.as_bytes());
    version.number(max_block_bytes.map_or(u64::MAX, |bytes| bytes as u64));
    for fragment in &files.fragments {
        version.bytes(fragment.folder.as_bytes());
        version.number(fragment.files.len() as u64);
        for file in &fragment.files {
            version.bytes(file.name.as_os_str().as_bytes());
            version.fingerprint(&file.fingerprint);
        }
    }
    version.number(files.record.len() as u64);
    for entry in &files.record {
        version.bytes(entry.name.as_os_str().as_bytes());
        version.fingerprint(&entry.fingerprint);
    }
    version.number(files.record_unread.len() as u64);
    for (name, why) in files.record_unread.iter().chain(&files.unused) {
        version.bytes(name.as_bytes());
        version.bytes(why.as_bytes());
    }
    for older in &files.older {
        version.bytes(older.id.as_bytes());
        version.number(u64::from(older.named));
        version.number(older.mains.len() as u64);
        for main in &older.mains {
            version.fingerprint(&main.fingerprint);
        }
    }
    version.finish()
}

/// What an object's bytes are known by: its name, which they make.
pub(super) fn of_object(name: &str) -> u64 {
    of_bytes("object", name.as_bytes())
}

/// The version of what these bytes are the whole of.
pub(super) fn of_bytes(purpose: &str, bytes: &[u8]) -> u64 {
    let mut version = Versioner::new(purpose);
    version.bytes(bytes);
    version.finish()
}

/// The version of a stored file that only grew so far: of which file it is.
pub(super) fn of_file(state: &Fingerprint) -> u64 {
    let mut version = Versioner::new("file");
    version.number(state.device);
    version.number(state.inode);
    version.finish()
}

/// The version of a stored file that was written anew: of the state in which that was seen.
pub(super) fn of_rewritten(state: &Fingerprint) -> u64 {
    let mut version = Versioner::new("rewritten");
    version.fingerprint(state);
    version.finish()
}
