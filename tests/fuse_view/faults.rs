//! What panics or is slow harms nobody else.

use crate::harness::{Mounted, errno, start, stat, text, tool, until};
use crate::memory::{Memory, Node, bytes};
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn good() -> Node {
    Node::File(1, Arc::new(bytes(10_000)))
}

#[test]
fn a_panic_costs_its_own_call_and_nothing_else() {
    let mounted = Mounted::new(Memory::new([
        ("d/good", good()),
        ("d/bad", Node::PanicsAtOnce),
        ("d/worse", Node::PanicsWhenRead),
    ]));
    for _ in 0..10 {
        assert_eq!(errno(fs::metadata(mounted.path("d/bad"))), Errno::EIO);
        assert_eq!(errno(fs::read(mounted.path("d/worse"))), Errno::EIO);
        assert_eq!(stat("%s", &mounted.path("d/worse")), "10");
        assert!(fs::read(mounted.path("d/good")).unwrap() == bytes(10_000));
        assert_eq!(
            text(&tool(&[Path::new("ls"), &mounted.path("d")])),
            "bad\ngood\nworse"
        );
    }
    let statistics = mounted.mount.statistics();
    until("what failed is closed", || {
        mounted.mount.statistics().files == 0
    });
    assert!(statistics.inodes <= 5, "{statistics:?}");
}

/// Far more at once than there are threads of any kind.
const MANY: usize = 60;

/// A tree in which one session has many slow nodes, and another none.
fn slow(node: &Node) -> Mounted {
    let memory = Memory::new([("sessions/b/good", good())]);
    for number in 0..MANY {
        memory.put(format!("sessions/a/slow-{number}"), node.clone());
    }
    Mounted::new(memory)
}

/// Starts many that are held up, each by a node of its own, and checks that all else answers meanwhile.
fn others_answer(mounted: &Mounted, tool: &str) {
    let start = |number| {
        let slow = mounted.path(format!("sessions/a/slow-{number}"));
        start(&[Path::new(tool), &slow])
    };
    let held: Vec<_> = (0..MANY).map(start).collect();
    until("some are held up", || {
        mounted.memory.waiting.load(Ordering::SeqCst) >= 4
    });
    for round in 0..20 {
        mounted.memory.evict();
        assert!(fs::read(mounted.path("sessions/b/good")).unwrap() == bytes(10_000));
        let new = format!("sessions/b/new-{round}");
        mounted.memory.put(&new, good());
        assert_eq!(fs::metadata(mounted.path(&new)).unwrap().len(), 10_000);
        assert_eq!(fs::read_dir(mounted.path("sessions")).unwrap().count(), 2);
        assert!(fs::read_dir(mounted.path("sessions/b")).unwrap().count() >= 2);
        assert!(!mounted.path("sessions/missing").exists());
    }
    // Nothing slow goes on by itself, so nothing above waited for it.
    mounted.memory.let_go();
    for reader in held {
        let output = reader.output();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn many_who_wait_for_slow_files_keep_nobody_waiting() {
    let mounted = slow(&Node::Slow(Arc::new(bytes(5000))));
    others_answer(&mounted, "cat");
    assert!(fs::read(mounted.path("sessions/a/slow-7")).unwrap() == bytes(5000));
}

#[test]
fn many_who_read_slowly_keep_nobody_waiting() {
    others_answer(&slow(&Node::SlowToRead(Arc::new(bytes(5000)))), "cat");
}

#[test]
fn many_who_list_slowly_keep_nobody_waiting() {
    others_answer(&slow(&Node::SlowToList), "ls");
}
