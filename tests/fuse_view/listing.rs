//! Listing is cheap, complete and stable.

use crate::harness::{Mounted, stat, text, tool, until};
use crate::memory::{Memory, Node, bytes};
use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn names_alone_render_nothing_and_a_stat_renders_its_own_file() {
    let memory = Memory::new([("latest", Node::Link("d".into()))]);
    for number in 0..100 {
        memory.put_file(format!("d/{number}"), &bytes(number));
    }
    let mounted = Mounted::new(memory);
    let renderings = || mounted.memory.renderings.load(Ordering::SeqCst);
    let directory = mounted.path("d");
    let d = directory.to_str().unwrap();
    let point = mounted.mount.point().to_str().unwrap();
    for _ in 0..3 {
        assert_eq!(text(&tool(&["ls", d])).lines().count(), 100);
        assert_eq!(text(&tool(&["find", point])).lines().count(), 103);
        assert_eq!(text(&tool(&["rg", "--files", point])).lines().count(), 100);
        tool(&["ls", "-l", point]);
    }
    assert_eq!(renderings(), 0);
    assert_eq!(stat("%s", &mounted.path("d/77")), "77");
    assert_eq!(renderings(), 1);
    // What a listing says of a known one is true, of the others it is not believed.
    for _ in 0..3 {
        let sizes = text(&tool(&["find", d, "-type", "f", "-printf", "%f %s\\n"]));
        for line in sizes.lines() {
            let (name, size) = line.split_once(' ').unwrap();
            assert_eq!(name, size);
        }
        assert_eq!(renderings(), 100);
    }
}

#[test]
fn listing_what_is_open_and_evicted_never_cuts_it_off() {
    let expected = bytes(5_000_000);
    let mounted = Mounted::new(Memory::new([(
        "d/f",
        Node::File(1, Arc::new(expected.clone())),
    )]));
    let mut held = fs::File::open(mounted.path("d/f")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                mounted.memory.evict();
                assert_eq!(fs::read_dir(mounted.path("d")).unwrap().count(), 1);
            }
        });
        let end = Ends(&done);
        let mut whole = Vec::new();
        for _ in 0..100 {
            whole.clear();
            held.rewind().unwrap();
            held.read_to_end(&mut whole).unwrap();
            assert!(whole == expected, "{} bytes", whole.len());
            assert_eq!(held.metadata().unwrap().len(), 5_000_000);
        }
        drop(end);
    });
    assert_eq!(mounted.memory.renderings.load(Ordering::SeqCst), 1);
}

/// Sets a flag when it goes, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn twenty_thousand_names_are_listed_once_each() {
    let memory = Memory::new([]);
    let names: BTreeSet<String> = (0..20_000)
        .map(|n| format!("{n:06}-a-name-of-a-turn.md"))
        .collect();
    for name in &names {
        memory.put_file(format!("turns/{name}"), b"turn");
    }
    let mounted = Mounted::new(memory);
    let directory = mounted.path("turns");
    for _ in 0..2 {
        let listed = text(&tool(&[Path::new("ls"), Path::new("-U"), &directory]));
        assert_eq!(listed.lines().count(), names.len());
        assert_eq!(
            listed.lines().map(str::to_owned).collect::<BTreeSet<_>>(),
            names
        );
    }
    let long = text(&tool(&[Path::new("ls"), Path::new("-l"), &directory]));
    assert_eq!(
        long.lines().filter(|line| line.contains(" 4 ")).count(),
        names.len()
    );
}

#[test]
fn an_open_listing_stays_while_names_change_and_rewinding_takes_a_new_one() {
    let memory = Memory::new([]);
    for number in 0..5000 {
        memory.put_file(format!("d/old-{number:05}"), b"");
    }
    let mounted = Mounted::new(memory);
    let mut directory = Dir::open(
        &mounted.path("d"),
        OFlag::O_RDONLY | OFlag::O_DIRECTORY,
        Mode::empty(),
    )
    .unwrap();
    let name = |entry: nix::Result<nix::dir::Entry>| {
        entry.unwrap().file_name().to_str().unwrap().to_owned()
    };
    let mut listed = BTreeSet::new();
    let mut count = 0;
    for entry in directory.iter() {
        count += 1;
        listed.insert(name(entry));
        if count == 10 {
            mounted.memory.clear();
            for number in 0..10 {
                mounted.memory.put_file(format!("d/a-new-{number}"), b"");
            }
        }
    }
    assert_eq!((count, listed.len()), (5002, 5002));
    assert!(
        listed
            .iter()
            .all(|name| name.starts_with("old-") || name.starts_with('.'))
    );
    // The iterator rewinds when it goes.
    let again: BTreeSet<_> = directory.iter().map(name).collect();
    assert_eq!(again.len(), 12);
    assert!(again.contains("a-new-9") && again.contains(".."));
}

#[test]
fn listing_again_at_once_shows_the_same_and_what_changed_meanwhile() {
    let memory = Memory::new([]);
    for number in 0..1000 {
        memory.put(format!("d/{number:04}"), Node::Directory);
    }
    memory.put_file("d/file", b"1234");
    let mounted = Mounted::new(memory);
    let list = || {
        let command = ["ls", "-lai", "--time-style=full-iso"].map(Path::new);
        text(&tool(
            &[&command[..], &[mounted.path("d").as_path()]].concat(),
        ))
    };
    let first = list();
    assert_eq!(first.lines().count(), 1004);
    for _ in 0..3 {
        assert!(list() == first);
    }
    mounted.memory.put("d/new", Node::Directory);
    assert!(list().lines().any(|line| line.ends_with(" new")));
    mounted.memory.put_file("d/file", b"123456");
    until("the new size shows", || {
        let listed = list();
        let line = listed.lines().find(|line| line.ends_with(" file"));
        line.unwrap().contains(" 6 ")
    });
    assert_eq!(list().lines().count(), 1005);
}

#[test]
fn new_names_show_and_old_ones_go() {
    let mounted = Mounted::new(Memory::new([("d/a", Node::Directory)]));
    let list = || text(&tool(&[Path::new("ls"), &mounted.path("d")]));
    assert_eq!(list(), "a");
    mounted.memory.put("d/b", Node::Directory);
    until("the new name shows", || list() == "a\nb");
    let inside = mounted.path("d/a");
    mounted.memory.clear();
    mounted.memory.put_file("d/a", b"a file now");
    until("the directory became a file", || {
        fs::read(&inside).is_ok_and(|bytes| bytes == b"a file now")
    });
    assert_eq!(list(), "a");
}

#[test]
fn too_many_open_files_are_refused_until_some_are_closed() {
    let mounted = Mounted::new(Memory::new([("f", Node::File(1, Arc::new(bytes(10))))]));
    let file = mounted.path("f");
    let file = file.to_str().unwrap();
    let words: Vec<&str> = ["tail", "-f"]
        .into_iter()
        .chain(std::iter::repeat_n(file, 400))
        .collect();
    let open = || mounted.mount.statistics().files;
    let first = crate::harness::start(&words);
    let second = crate::harness::start(&words);
    until("both hold theirs open", || open() == 800);
    let mut third = crate::harness::start(&words);
    until("no more can be opened", || open() == 1024);
    assert!(
        fs::read(file)
            .is_err_and(|error| error.raw_os_error() == Some(nix::errno::Errno::EMFILE as i32))
    );
    assert!(mounted.path("f").exists());
    third.child().kill().unwrap();
    let said = text(&third.output().stderr);
    assert!(said.contains("Too many open files"), "{said}");
    drop((first, second));
    until("they are closed", || open() == 0);
    assert_eq!(fs::read(file).unwrap(), bytes(10));
}
