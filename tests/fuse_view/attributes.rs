//! Attributes as `stat`, `df` and the list of mounts show them.

use crate::harness::{Mounted, errno, stat, text, tool, until};
use crate::memory::{Memory, Node, WRITTEN, bytes};
use nix::errno::Errno;
use nix::unistd::{getgid, getuid};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

fn some() -> Arc<Memory> {
    Memory::new([
        ("d/e/f", Node::File(3, Arc::new(bytes(1000)))),
        ("latest", Node::Link("d/e".into())),
    ])
}

#[test]
fn attributes_are_private_and_complete() {
    let mounted = Mounted::new(some());
    let (uid, gid) = (getuid(), getgid());
    let shown = |path: &str| stat("%a %h %s %b %u %g %Y %F", &mounted.path(path));
    let time = WRITTEN.as_secs();
    assert_eq!(
        shown("d/e/f"),
        format!("400 1 1000 2 {uid} {gid} {time} regular file")
    );
    assert_eq!(
        shown("d/e"),
        format!("700 2 0 0 {uid} {gid} {time} directory")
    );
    assert_eq!(shown(""), format!("700 2 0 0 {uid} {gid} {time} directory"));
    assert_eq!(
        shown("latest"),
        format!("777 1 3 1 {uid} {gid} {time} symbolic link")
    );
    let file = fs::metadata(mounted.path("latest/f")).unwrap();
    assert_eq!(file.mtime_nsec(), i64::from(WRITTEN.subsec_nanos()));
    assert_eq!(
        (file.ctime(), file.ctime_nsec()),
        (file.mtime(), file.mtime_nsec())
    );
}

#[test]
fn numbers_are_small_the_same_in_listings_and_the_same_after_a_remount() {
    let numbers = || {
        let mounted = Mounted::new(some());
        let list = |path: &str| -> Vec<(String, u64)> {
            let directory = mounted.path(path);
            let entries = fs::read_dir(directory).unwrap();
            entries
                .map(|entry| {
                    let entry = entry.unwrap();
                    // `ino` is the listing's, `metadata` asks anew.
                    let listed = std::os::unix::fs::DirEntryExt::ino(&entry);
                    assert_eq!(listed, entry.metadata().unwrap().ino(), "{entry:?}");
                    assert!(listed > 1 && listed < 1 << 53);
                    (entry.file_name().into_string().unwrap(), listed)
                })
                .collect()
        };
        let all = [list(""), list("d"), list("d/e")];
        assert_eq!(fs::metadata(mounted.path("")).unwrap().ino(), 1);
        assert_eq!(fs::metadata(mounted.path("d/..")).unwrap().ino(), 1);
        let dots = text(&tool(&[
            Path::new("ls"),
            Path::new("-ai"),
            &mounted.path("d/e"),
        ]));
        for (line, path) in dots.lines().zip(["d/e", "d"]) {
            let number = fs::metadata(mounted.path(path)).unwrap().ino().to_string();
            assert_eq!(
                line.split_whitespace().next(),
                Some(number.as_str()),
                "{line}"
            );
        }
        all
    };
    assert_eq!(numbers(), numbers());
}

#[test]
fn others_may_read_if_they_are_allowed_to() {
    if !getuid().is_root() {
        // Past what the test runner keeps to itself.
        let why = "only root may let others in without a line in /etc/fuse.conf";
        let _ = writeln!(std::io::stderr(), "not tested: {why}");
        return;
    }
    let mounted = Mounted::with(some(), |options| options.allow_other = true);
    assert_eq!(stat("%a", &mounted.path("d/e/f")), "444");
    assert_eq!(stat("%a", &mounted.path("d/e")), "755");
    let file = mounted.path("d/e/f");
    let folder = mounted.mount.point().parent().unwrap();
    tool(&[Path::new("chmod"), Path::new("755"), folder]);
    let read = |path: &Path| {
        let other = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "cat",
        ];
        let words: Vec<_> = other.iter().map(Path::new).chain([path]).collect();
        crate::harness::try_tool(&words)
    };
    assert_eq!(read(&file).stdout, bytes(1000));
    drop(mounted);
    let private = Mounted::new(some());
    tool(&[
        Path::new("chmod"),
        Path::new("755"),
        private.mount.point().parent().unwrap(),
    ]);
    let refused = read(&private.path("d/e/f"));
    assert!(
        text(&refused.stderr).contains("Permission denied"),
        "{refused:?}"
    );
}

#[test]
fn the_mount_is_read_only_and_named_and_df_shows_it() {
    let mounted = Mounted::new(some());
    let point = mounted.mount.point().to_str().unwrap();
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = list.lines().find(|line| line.contains(point)).unwrap();
    for option in ["ro", "nosuid", "nodev", "noexec", "default_permissions"] {
        assert!(
            line.split([' ', ',']).any(|word| word == option),
            "{option} in {line}"
        );
    }
    assert!(
        line.contains(" - fuse.sessionfs a\\040tree_\\040in\\040memory "),
        "{line}"
    );
    // One of no blocks is left out where `df` lists all.
    let blocks = text(&tool(&["stat", "-f", "-c", "%b %s %l", point]));
    assert_eq!(blocks, "1 4096 255");
    let used = text(&tool(&["df", "--output=pcent", point]));
    assert!(used.ends_with(" 0%"), "{used}");
    let used = text(&tool(&[
        Path::new("du"),
        Path::new("--apparent-size"),
        Path::new("-sb"),
        &mounted.path("d"),
    ]));
    assert!(used.starts_with("1000\t"), "{used}");
}

#[test]
fn errors_are_the_right_ones() {
    let mounted = Mounted::new(some());
    let ask = |path: &str| errno(fs::metadata(mounted.path(path)));
    assert_eq!(ask("missing"), Errno::ENOENT);
    assert_eq!(ask(&"n".repeat(255)), Errno::ENOENT);
    assert_eq!(ask(&"n".repeat(256)), Errno::ENAMETOOLONG);
    assert_eq!(ask("d/e/f/g"), Errno::ENOTDIR);
    assert_eq!(errno(fs::read(mounted.path("d"))), Errno::EISDIR);
    assert_eq!(errno(fs::read_dir(mounted.path("d/e/f"))), Errno::ENOTDIR);
    let file = mounted.path("d/e/f");
    let asked = crate::harness::try_tool(&[Path::new("getfattr"), Path::new("-d"), &file]);
    assert!(asked.stdout.is_empty());
}

#[test]
fn what_is_missing_is_not_remembered_as_missing() {
    let mounted = Mounted::new(some());
    let path = mounted.path("d/new");
    assert!(!path.exists());
    mounted.memory.put_file("d/new", b"here");
    // At once: no waiting for a lifetime.
    assert_eq!(fs::read(&path).unwrap(), b"here");
}

#[test]
fn the_kernel_forgets_and_so_does_the_table() {
    let memory = some();
    memory.put_file("held", b"x");
    for number in 0..500 {
        memory.put_file(format!("many/{number}"), b"x");
    }
    let mounted = Mounted::new(memory);
    let root = mounted.mount.statistics();
    assert_eq!((root.inodes, root.files, root.directories), (1, 0, 0));
    let ls = ["ls", "-lR", mounted.mount.point().to_str().unwrap()];
    tool(&ls);
    tool(&ls);
    let paths = mounted.memory.paths();
    assert_eq!(mounted.mount.statistics().inodes, 1 + paths.len());
    let held = fs::File::open(mounted.path("held")).unwrap();
    assert_eq!(mounted.mount.statistics().files, 1);
    // A name that is gone makes the kernel drop what it has of it.
    mounted.memory.clear();
    until("all names are gone", || {
        paths
            .iter()
            .all(|path| fs::symlink_metadata(mounted.path(path)).is_err())
    });
    until("all but the open one are forgotten", || {
        mounted.mount.statistics().inodes == 2
    });
    assert_eq!(std::io::read_to_string(&held).unwrap(), "x");
    drop(held);
    until("all are forgotten", || mounted.mount.statistics() == root);
}
