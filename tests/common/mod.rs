//! What the integration tests share: invented stores, the built program, mounts that never stay.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod count;
pub mod lines;
pub mod python;
pub mod world;

use assert_cmd::Command;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The session of the sample store that has two agents.
pub const PARSER: &str = "7a11c0de-5ca1-4ab1-8e55-20261124a001";
/// The other one.
pub const NOTES: &str = "b00c0de5-1157-4f0e-9a11-20261120b002";

/// A home of its own: nothing of the machine's own sessions is seen or touched.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, run in this home.
    pub fn sessionfs<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .args(args);
        command
    }

    /// What the program prints when all goes well.
    pub fn output<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let bytes = self
            .sessionfs(args)
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        String::from_utf8(bytes).unwrap()
    }

    /// What the program says on standard error when it fails with this exit code.
    pub fn failure<S: AsRef<OsStr>>(&self, code: i32, args: impl IntoIterator<Item = S>) -> String {
        let assert = self.sessionfs(args).assert().code(code);
        let output = assert.get_output();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "",
            "a failure prints no result"
        );
        String::from_utf8(output.stderr.clone()).unwrap()
    }

    /// The sample store, written to a folder of this name.
    pub fn demo(&self, name: &str) -> PathBuf {
        self.sessionfs(["demo", name]).assert().success();
        self.path(name)
    }

    /// Mounts these sources on a new directory of this name.
    pub fn mount(&self, sources: &[&Path], name: &str) -> Mounted<'_> {
        let point = self.path(name);
        std::fs::create_dir(&point).unwrap();
        let mut args: Vec<&OsStr> = vec!["mount".as_ref()];
        args.extend(sources.iter().map(|source| source.as_os_str()));
        args.push(point.as_os_str());
        self.sessionfs(args).assert().success();
        Mounted { home: self, point }
    }
}

/// A mount that ends with the test, whatever becomes of it.
pub struct Mounted<'a> {
    home: &'a Home,
    /// Where it is.
    pub point: PathBuf,
}

impl Mounted<'_> {
    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let ended = self
            .home
            .sessionfs(["unmount".as_ref(), self.point.as_os_str()])
            .output()
            .is_ok_and(|output| output.status.success());
        if !ended {
            // Whoever left it busy or dead, the machine must not keep it.
            let _ = std::process::Command::new("fusermount3")
                .args(["-u", "-z", "--"])
                .arg(&self.point)
                .output();
        }
        if !std::thread::panicking() {
            assert!(ended, "unmounting {} failed", self.point.display());
        }
    }
}

/// The built program.
pub fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin("sessionfs")
}

/// How long something that must happen may take before a test gives up.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file of this text, with the folders above it.
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Runs a tool that must be there and must succeed, and gives what it prints.
pub fn tool<S: AsRef<OsStr>>(name: &str, args: impl IntoIterator<Item = S>) -> Vec<u8> {
    let args: Vec<_> = args
        .into_iter()
        .map(|arg| arg.as_ref().to_owned())
        .collect();
    let output = std::process::Command::new(name)
        .args(&args)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| {
            panic!("{name} is needed by this test: {error}; scripts/test installs it")
        });
    assert!(
        output.status.success(),
        "{name} {args:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Every file, folder and link below a folder: its path, and what it is with mode and content. Links are not followed.
pub fn snapshot(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(here) = waiting.pop() {
        for entry in std::fs::read_dir(&here).unwrap() {
            let path = entry.unwrap().path();
            let status = path.symlink_metadata().unwrap();
            let what = if status.is_dir() {
                waiting.push(path.clone());
                format!("folder {:o}", status.permissions().mode())
            } else if status.is_symlink() {
                format!("link to {}", path.read_link().unwrap().display())
            } else if status.is_file() {
                format!(
                    "file {:o}, changed {}.{}, {}",
                    status.permissions().mode(),
                    status.mtime(),
                    status.mtime_nsec(),
                    hash(&std::fs::read(&path).unwrap())
                )
            } else {
                "special".to_owned()
            };
            found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), what);
        }
    }
    found
}

/// The SHA-256 of some bytes.
pub fn hash(bytes: &[u8]) -> String {
    use sha2::Digest;
    format!("{:x?}", sha2::Sha256::digest(bytes).as_slice())
}
