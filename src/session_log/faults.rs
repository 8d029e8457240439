//! Each step of a writer stopped, failed and shortened in turn: what was acknowledged is there afterwards.

use super::files::{Files, RealFiles};
use super::{LogError, Role, SessionLog, SessionLogStore};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What happens at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It fails and does nothing.
    Fails,
    /// It is done, and fails.
    FailsAfterwards,
    /// A write takes half of its bytes and says so.
    Short,
    /// A write takes half of its bytes and fails; anything else fails.
    Half,
    /// Like `Half`, and every later step fails: the process is gone, or the disk.
    Stops,
}

const ALL: [How; 5] = [
    How::Fails,
    How::FailsAfterwards,
    How::Short,
    How::Half,
    How::Stops,
];

#[derive(Debug)]
struct Faulty {
    how: How,
    /// The step at which it happens.
    at: usize,
    steps: AtomicUsize,
}

impl Faulty {
    fn step(&self, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let step = self.steps.fetch_add(1, Relaxed);
        let fault = io::Error::from_raw_os_error(5);
        if step < self.at || (step > self.at && self.how != How::Stops) {
            return act();
        }
        if self.how == How::FailsAfterwards {
            act()?;
        }
        Err(fault)
    }

    /// Whether the fault has happened.
    fn happened(&self) -> bool {
        self.steps.load(Relaxed) > self.at
    }
}

impl Files for Faulty {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        RealFiles.create_directory(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let mut file = None;
        let created = self.step(|| {
            file = Some(RealFiles.create(path)?);
            Ok(())
        });
        match (created, file) {
            (Ok(()), Some(file)) => Ok(file),
            (Err(error), Some(_)) => {
                // A creation that fails has created nothing.
                RealFiles.remove(path)?;
                Err(error)
            }
            (_, None) => Err(io::Error::from_raw_os_error(5)),
        }
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let half = bytes.len() / 2;
        let now = self.steps.load(Relaxed) == self.at;
        let mut taken = bytes.len();
        let result = self.step(|| {
            taken = RealFiles.write(file, bytes)?;
            Ok(())
        });
        match self.how {
            How::Short if now => RealFiles.write(file, &bytes[..half]),
            How::Half | How::Stops if now => {
                RealFiles.write(file, &bytes[..half])?;
                result.map(|()| taken)
            }
            _ => result.map(|()| taken),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step(|| RealFiles.sync(file))
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.step(|| RealFiles.truncate(file, length))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| RealFiles.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        // To remove what is not there is no step that can fail otherwise.
        if !path.exists() {
            return RealFiles.remove(path);
        }
        self.step(|| RealFiles.remove(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.step(|| RealFiles.sync_directory(path))
    }
}

/// Every file of a directory with its content.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Runs a scenario with a fault at each step in turn, until a step is beyond the last.
fn at_each_step(scenario: impl Fn(&Path, Arc<Faulty>)) {
    for how in ALL {
        for at in 0.. {
            assert!(at < 100, "the scenario has no end");
            let dir = tempfile::tempdir().unwrap();
            let faulty = Arc::new(Faulty {
                how,
                at,
                steps: AtomicUsize::new(0),
            });
            scenario(dir.path(), faulty.clone());
            if !faulty.happened() {
                break;
            }
        }
    }
}

/// Texts of a log's events, and the log verified and its objects with it.
fn reopened(directory: &Path) -> (SessionLog, Vec<String>) {
    let log = SessionLogStore::new(directory).open("a").unwrap();
    let texts = log.events().map(|event| event.unwrap().text).collect();
    (log, texts)
}

/// Appends, attaches and seals, and gives the texts that were acknowledged.
fn work(log: &mut SessionLog) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let directory = log.path().parent().unwrap().display().to_string();
    let mut note = |text: &str, done: Result<_, LogError>| match done {
        Ok(_) => acknowledged.push(text.to_owned()),
        Err(error) => assert!(
            error.to_string().contains(&directory),
            "says where: {error}"
        ),
    };
    note("one", log.append(Role::UserMessage, "one"));
    note("two", log.attach("two", "n", "a/b", b"bytes of two"));
    note("three", log.append(Role::ToolResult, "three"));
    acknowledged
}

#[test]
fn what_was_acknowledged_is_there_whatever_fails() {
    at_each_step(|dir, faulty| {
        SessionLogStore::new(dir).create("a", "now").unwrap();
        let store = SessionLogStore::with_files(dir, faulty.clone());
        let mut log = store.open("a").unwrap();
        let acknowledged = work(&mut log);
        let context = format!("{faulty:?}: {acknowledged:?}");
        if !faulty.happened() {
            assert_eq!(reopened(dir).1, acknowledged);
            return;
        }
        if faulty.how != How::Stops && log.broken.is_none() {
            // One failure: the handle goes on, and exactly what it acknowledged is there.
            assert!(acknowledged.len() >= 2, "{context}");
            log.append(Role::UserMessage, "after").unwrap();
            let (_, texts) = reopened(dir);
            assert_eq!(texts[..texts.len() - 1], acknowledged, "{context}");
            return;
        }
        if let Err(error) = log.append(Role::UserMessage, "after") {
            let text = error.to_string();
            assert!(text.contains("/a"), "{text}");
        }
        drop(log);
        let (mut log, texts) = reopened(dir);
        let mut rest = texts.iter();
        for text in &acknowledged {
            assert!(rest.any(|there| there == text), "{context}: {texts:?}");
        }
        log.append(Role::UserMessage, "later").unwrap();
        log.seal().unwrap();
        let names: Vec<String> = files(dir).into_iter().map(|(name, _)| name).collect();
        assert!(names.len() <= 2, "nothing stays behind: {names:?}");
    });
}

#[test]
fn a_handle_whose_end_is_not_known_says_so() {
    let dir = tempfile::tempdir().unwrap();
    SessionLogStore::new(dir.path()).create("a", "now").unwrap();
    let faulty = Arc::new(Faulty {
        how: How::Stops,
        at: 1,
        steps: AtomicUsize::new(0),
    });
    let store = SessionLogStore::with_files(dir.path(), faulty);
    let mut log = store.open("a").unwrap();
    log.append(Role::UserMessage, "x").unwrap_err();
    for _ in 0..2 {
        let error = log.append(Role::UserMessage, "y").unwrap_err();
        assert!(matches!(error, LogError::Broken { .. }), "{error}");
        assert!(error.to_string().contains("open it again"), "{error}");
    }
}

#[test]
fn a_seal_that_failed_can_be_tried_again() {
    at_each_step(|dir, faulty| {
        SessionLogStore::new(dir).create("a", "now").unwrap();
        let store = SessionLogStore::with_files(dir, faulty.clone());
        let mut log = store.open("a").unwrap();
        let sealed = log.seal().is_ok();
        assert!(!sealed || log.is_sealed());
        let (mut log, _) = reopened(dir);
        assert!(!sealed || log.is_sealed(), "{faulty:?}");
        log.seal().unwrap();
        assert!(reopened(dir).0.is_sealed());
    });
}

#[test]
fn a_log_that_was_not_created_is_no_log() {
    at_each_step(|dir, faulty| {
        let store = SessionLogStore::with_files(dir, faulty.clone());
        let real = SessionLogStore::new(dir);
        if store.create("a", "now").is_ok() {
            real.open("a").unwrap();
        } else if faulty.how != How::Stops && !files(dir).is_empty() {
            panic!("{faulty:?} left something");
        } else if !files(dir).is_empty() {
            real.delete("a").unwrap();
            real.create("a", "now").unwrap();
        }
    });
}

#[test]
fn an_opening_that_was_interrupted_can_be_repeated() {
    at_each_step(|dir, faulty| {
        let path = dir.join("a.session-log");
        let mut log = SessionLogStore::new(dir).create("a", "now").unwrap();
        log.append(Role::UserMessage, "one").unwrap();
        let whole = fs::read(&path).unwrap();
        let torn = [&whole[..], &[2, 9, 0]].concat();
        fs::write(&path, torn).unwrap();
        fs::write(dir.join("a-1.pending-object"), "x").unwrap();
        fs::write(dir.join("a-1.pending-object.tmp"), "x").unwrap();
        let _ = SessionLogStore::with_files(dir, faulty).open("a");
        assert_eq!(reopened(dir).1, ["one"]);
        assert_eq!(files(dir), [("a.session-log".to_owned(), whole)]);
    });
}

#[test]
fn a_deletion_that_was_interrupted_can_be_repeated() {
    at_each_step(|dir, faulty| {
        let real = SessionLogStore::new(dir);
        let mut log = real.create("a", "now").unwrap();
        log.attach("x", "n", "a/b", b"x").unwrap();
        log.attach("y", "n", "a/b", b"y").unwrap();
        if SessionLogStore::with_files(dir, faulty)
            .delete("a")
            .is_err()
            && !files(dir).is_empty()
        {
            real.delete("a").unwrap();
        }
        assert!(files(dir).is_empty());
    });
}
