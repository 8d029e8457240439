//! Bytes out of the mount equal the bytes of the tree, whatever takes them, and an open file stays what it was.

use crate::harness::{Mounted, errno, start, stat, text, tool, until, word};
use crate::memory::{Memory, Node, bytes};
use nix::errno::Errno;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Around the edges of pages, of read-ahead and of the largest request.
const SIZES: [usize; 14] = [
    0,
    1,
    4095,
    4096,
    4097,
    131_071,
    131_072,
    131_073,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    300_000,
    5_000_000,
    47_500,
];

fn sizes() -> Mounted {
    let memory = Memory::new([("d/link", Node::Link("../d/1".into()))]);
    for size in SIZES {
        memory.put_file(format!("d/{size}"), &bytes(size));
    }
    Mounted::new(memory)
}

#[test]
fn single_file_tools_give_every_byte() {
    let mounted = sizes();
    let copy = mounted.scratch.join("copy");
    for size in SIZES {
        let (path, expected) = (mounted.path(format!("d/{size}")), bytes(size));
        let file = path.to_str().unwrap();
        assert_eq!(
            stat("%s %b %o", &path),
            format!("{size} {} 4096", size.div_ceil(512))
        );
        assert_eq!(tool(&["cat", file]), expected, "cat {size}");
        assert_eq!(text(&tool(&["wc", "-c", file])), format!("{size} {file}"));
        let tail = &expected[size.saturating_sub(5000)..];
        assert_eq!(tool(&["tail", "-c", "5000", file]), tail, "tail {size}");
        let head = &expected[..size.min(5000)];
        assert_eq!(tool(&["head", "-c", "5000", file]), head, "head {size}");
        for block in ["bs=1", "bs=777", "bs=1M"] {
            if block != "bs=1" || size < 10_000 {
                let from = format!("if={file}");
                assert_eq!(
                    tool(&["dd", &from, block, "status=none"]),
                    expected,
                    "dd {block} {size}"
                );
            }
        }
        // A file named to it is mapped: a size too large would kill it, a size too small would hide a match.
        let lines = memchr::memchr_iter(b'-', &expected).count();
        if lines > 0 {
            let found = tool(&["rg", "--mmap", "--count-matches", "-e", "-", file]);
            assert_eq!(text(&found), lines.to_string(), "rg {size}");
        }
        fs::copy(&path, &copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), expected, "fs::copy {size}");
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn tree_tools_give_every_byte() {
    let mounted = sizes();
    let (from, to) = (mounted.path("d"), &mounted.scratch);
    let same = |copy: &Path| {
        for size in SIZES {
            assert!(
                fs::read(copy.join(size.to_string())).unwrap() == bytes(size),
                "{size}"
            );
        }
        assert_eq!(
            fs::read_link(copy.join("link")).unwrap(),
            Path::new("../d/1")
        );
    };
    tool(&[Path::new("cp"), Path::new("-r"), &from, &to.join("cp")]);
    same(&to.join("cp"));
    tool(&[
        Path::new("rsync"),
        Path::new("-a"),
        &from,
        &to.join("rsync"),
    ]);
    same(&to.join("rsync/d"));
    let tar = format!(
        "tar -C {} -cf - d | tar -C {} -xf -",
        word(mounted.mount.point()),
        word(to)
    );
    tool(&["bash", "-c", &format!("set -o pipefail; {tar}")]);
    same(&to.join("d"));
    tool(&[
        Path::new("diff"),
        Path::new("-r"),
        Path::new("--no-dereference"),
        &from,
        &to.join("cp"),
    ]);
    let files = tool(&[Path::new("find"), &from, Path::new("-type"), Path::new("f")]);
    assert_eq!(text(&files).lines().count(), SIZES.len());
    let found = tool(&[
        Path::new("rg"),
        Path::new("-l"),
        Path::new("-e"),
        Path::new("^0-0$"),
        &from,
    ]);
    assert_eq!(
        text(&found).lines().count(),
        SIZES.iter().filter(|size| **size >= 4).count()
    );
}

#[test]
fn eight_readers_at_once_each_get_the_whole() {
    let expected = bytes(5_000_000);
    let mounted = Mounted::new(Memory::new([(
        "f",
        Node::File(1, Arc::new(expected.clone())),
    )]));
    let path = mounted.path("f");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(fs::read(&path).unwrap() == expected));
        }
    });
    // Backwards and across every edge too.
    let file = File::open(&path).unwrap();
    let mut part = vec![0; 131_073];
    for start in (0..expected.len() - part.len()).rev().step_by(99_991) {
        file.read_exact_at(&mut part, start as u64).unwrap();
        assert!(part == expected[start..start + part.len()]);
    }
}

#[test]
fn a_new_version_is_a_new_inode_and_an_open_file_keeps_the_old() {
    let (old, new) = (bytes(47_500), bytes(60_000));
    let mounted = Mounted::new(Memory::new([("d/f", Node::File(1, Arc::new(old.clone())))]));
    let path = mounted.path("d/f");
    let inode = fs::metadata(&path).unwrap().ino();
    let mut held = File::open(&path).unwrap();
    let mut start = vec![0; 1000];
    held.read_exact(&mut start).unwrap();

    let reversed: Vec<u8> = new.iter().rev().copied().collect();
    mounted
        .memory
        .put("d/f", Node::File(2, Arc::new(reversed.clone())));
    until("the new version shows", || {
        fs::metadata(&path).unwrap().len() == 60_000
    });
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
    assert!(fs::read(&path).unwrap() == reversed);
    // The old one, from the page cache and from the tree.
    held.seek(SeekFrom::Start(0)).unwrap();
    let mut whole = Vec::new();
    held.read_to_end(&mut whole).unwrap();
    assert!(whole == old);
    assert_eq!(held.metadata().unwrap().len(), 47_500);
    assert_eq!(held.metadata().unwrap().ino(), inode);

    mounted.memory.clear();
    until("what was deleted is gone", || !path.exists());
    held.seek(SeekFrom::Start(0)).unwrap();
    let mut again = Vec::new();
    held.read_to_end(&mut again).unwrap();
    assert!(again == old);
}

#[test]
fn a_new_version_of_the_same_size_shows_too() {
    let mounted = Mounted::new(Memory::new([(
        "f",
        Node::File(1, Arc::new(vec![b'a'; 9000])),
    )]));
    let path = mounted.path("f");
    assert!(fs::read(&path).unwrap() == [b'a'; 9000]);
    mounted
        .memory
        .put("f", Node::File(2, Arc::new(vec![b'b'; 9000])));
    until("the new version shows", || {
        fs::read(&path).unwrap() == [b'b'; 9000]
    });
}

#[test]
fn an_evicted_old_version_leads_to_the_new_one() {
    let mounted = Mounted::new(Memory::new([("f", Node::File(1, Arc::new(bytes(10))))]));
    let path = mounted.path("f");
    for version in 2..20 {
        assert!(path.exists());
        // The kernel still believes in the old inode and opens it; the tree does not have it any more.
        let expected = bytes(10 * version);
        mounted.memory.evict();
        mounted
            .memory
            .put("f", Node::File(version as u64, Arc::new(expected.clone())));
        assert!(fs::read(&path).unwrap() == expected);
    }
}

#[test]
fn a_live_file_keeps_its_inode_and_is_followed() {
    let live = Arc::new(Mutex::new(bytes(5000)));
    let mounted = Mounted::new(Memory::new([("s/live", Node::Live(Arc::clone(&live)))]));
    let path = mounted.path("s/live");
    let inode = fs::metadata(&path).unwrap().ino();
    let mut held = File::open(&path).unwrap();
    let mut seen = Vec::new();
    held.read_to_end(&mut seen).unwrap();
    assert!(seen == bytes(5000));
    let log = mounted.scratch.join("followed");
    let follow = format!("exec tail -n +1 -s 0.1 -f {} > {}", word(&path), word(&log));
    let _tail = start(&["bash", "-c", &follow]);
    for size in [5001, 8192, 20_000, 300_000] {
        live.lock().unwrap().clone_from(&bytes(size));
        until("the open file grows", || {
            held.read_to_end(&mut seen).unwrap();
            seen.len() >= size
        });
        assert!(seen == bytes(size), "{size}");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        until("tail shows it", || {
            fs::metadata(&log).is_ok_and(|m| m.len() == size as u64)
        });
        assert!(fs::read(&log).unwrap() == bytes(size), "{size}");
    }
}

#[test]
fn nothing_can_be_written() {
    let memory = Memory::new([("d/f", Node::File(1, Arc::new(bytes(10))))]);
    let mounted = Mounted::new(memory);
    let (file, new) = (mounted.path("d/f"), mounted.path("d/new"));
    let write = |path| File::options().write(true).open(path);
    assert_eq!(errno(write(&file)), Errno::EROFS);
    assert_eq!(errno(File::create(&new)), Errno::EROFS);
    assert_eq!(
        errno(File::options().append(true).open(&file)),
        Errno::EROFS
    );
    assert_eq!(errno(fs::remove_file(&file)), Errno::EROFS);
    assert_eq!(errno(fs::create_dir(&new)), Errno::EROFS);
    assert_eq!(errno(fs::remove_dir(mounted.path("d"))), Errno::EROFS);
    assert_eq!(errno(fs::rename(&file, &new)), Errno::EROFS);
    assert_eq!(errno(fs::hard_link(&file, &new)), Errno::EROFS);
    assert_eq!(errno(std::os::unix::fs::symlink("x", &new)), Errno::EROFS);
    let mode = fs::metadata(&file).unwrap().permissions();
    assert_eq!(errno(fs::set_permissions(&file, mode)), Errno::EROFS);
    let copy = mounted.scratch.join("private");
    fs::copy(&file, &copy).unwrap();
    let added = File::options().append(true).open(&copy);
    // A copy is as private as the original: nobody but its owner may read it, and root alone may write it.
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o400);
    if let Ok(mut added) = added {
        added.write_all(b"x").unwrap();
    }
}
