//! Logs for the tests, and what is in a directory.

use sessionfs::session_log::{Event, Role, SessionLogStore};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// When the sessions of the tests begin.
pub(crate) const CREATED: &str = "2026-11-30T00:00:00.000Z";

/// The name, length and digest of every file in a directory.
pub(crate) fn files(directory: &Path) -> BTreeMap<String, (u64, String)> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let state = entries.map(|entry| {
        let bytes = std::fs::read(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (bytes.len() as u64, hex(&Sha256::digest(&bytes))))
    });
    state.collect()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// A frame, made without the code that is tested.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(Sha256::digest(payload));
    bytes.extend(payload);
    bytes
}

/// The beginning of a log: the magic and the header.
pub(crate) fn beginning(id: &str) -> Vec<u8> {
    let mut bytes = b"KSESSIONLOG\n".to_vec();
    let header =
        format!(r#"{{"formatVersion":"0.2.1","sessionId":"{id}","createdAt":"{CREATED}"}}"#);
    bytes.extend(frame(1, header.as_bytes()));
    bytes
}

/// An event's frame; the text must need no escapes.
pub(crate) fn event(role: &str, text: &str) -> Vec<u8> {
    frame(
        2,
        format!(r#"{{"role":"{role}","text":"{text}"}}"#).as_bytes(),
    )
}

/// All events of a log as it is read.
pub(crate) fn read(directory: &Path, id: &str) -> Vec<Event> {
    let snapshot = SessionLogStore::new(directory).read(id).unwrap();
    snapshot.events().map(Result::unwrap).collect()
}

/// An event of the person.
pub(crate) fn said(text: &str) -> Event {
    Event {
        role: Role::UserMessage,
        text: text.to_owned(),
    }
}

/// This program again, to run one of its tests alone as the other process, on a directory.
pub(crate) fn again(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, directory);
    command
}

/// The directory that a test was given which is the other process ([`again`]); none for the test itself.
pub(crate) fn as_other_process() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

const DIRECTORY: &str = "SESSIONFS_TEST_OTHER_PROCESS";
