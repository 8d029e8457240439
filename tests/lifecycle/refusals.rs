//! What is refused, and that each refusal says what, where and what to do.

use crate::world::{Who, World, as_root_and_user, not_tested, wait};
use std::process::Stdio;

as_root_and_user!(
    a_mount_point_that_cannot_be_used_is_refused,
    a_mount_point_that_overlaps_a_source_is_refused,
    what_is_not_ours_is_not_unmounted,
    a_link_from_a_source_into_the_mount_hangs_nobody,
);

fn a_mount_point_that_cannot_be_used_is_refused(world: &World) {
    let store = world.text("home/store");
    let file = world.text("home/file");
    world.must(&["touch", &file]);
    let refuse = |code, words: &[&str], what: &str| {
        for option in ["-f", "--color=never"] {
            let words = [&["sessionfs", "mount", option], words].concat();
            let said = world.refused(code, &words);
            assert!(
                said.starts_with("error: ") && said.contains(what),
                "{words:?}: {said}"
            );
            assert!(said.contains("\nhint: ") || code == 2, "{words:?}: {said}");
        }
    };
    refuse(1, &[&store, &world.text("home/none")], "does not exist");
    refuse(1, &[&store, &file], "is not a directory");
    refuse(1, &[&store, &world.text("home")], "holds the source");
    refuse(1, &[&world.text("home/mnt"), &store], "is not empty");
    refuse(2, &[&store], "the mount point is missing");
    refuse(1, &[&world.mnt()], "no sessions here");
    let server = world.serve();
    refuse(
        1,
        &[&store, &world.mnt()],
        "a fuse.sessionfs file system is mounted there already",
    );
    refuse(
        1,
        &[&store, &format!("{}/sessions", world.mnt())],
        "is not empty",
    );
    assert_eq!(world.mounts(), 1);
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
}

fn a_mount_point_that_overlaps_a_source_is_refused(world: &World) {
    let (store, inside) = (world.text("home/store"), world.text("home/store/in/side"));
    let other = world.text("home/other");
    world.must(&["mkdir", "-p", &inside, &other]);
    let link = world.text("home/link");
    world.must(&["ln", "-s", &world.text("home/store/in"), &link]);
    for (words, what) in [
        ([&store, &store], "is the source itself"),
        ([&store, &inside], "lies in the source"),
        ([&store, &link], "lies in the source"),
        ([&store, &format!("{link}/side")], "lies in the source"),
        ([&store, &world.text("home")], "holds the source"),
        ([&inside, &world.text("home/store/in")], "holds the source"),
    ] {
        let words = ["sessionfs", "mount", &other, words[0], words[1]];
        let said = world.refused(1, &words);
        assert!(said.contains(what), "{words:?}: {said}");
    }
    if world.who == Who::Root && nix::unistd::getuid().is_root() {
        // The same directory by another way.
        let bound = world.text("home/bound");
        world.must(&["mkdir", &bound]);
        world.must(&["mount", "--bind", &store, &bound]);
        let side = format!("{bound}/in/side");
        let said = world.refused(1, &["sessionfs", "mount", &store, &side]);
        assert!(said.contains("lies in the source"), "{said}");
    }
}

fn what_is_not_ours_is_not_unmounted(world: &World) {
    let said = world.refused(1, &["sessionfs", "unmount", &world.mnt()]);
    assert!(said.contains("nothing is mounted there"), "{said}");
    let said = world.refused(1, &["sessionfs", "unmount", &world.text("home/none/none")]);
    assert!(said.contains("No such file"), "{said}");
    let said = world.refused(1, &["sessionfs", "unmount", "/proc"]);
    assert!(
        said.contains("/proc: this is a proc file system, not one of sessionfs"),
        "{said}"
    );
    if nix::unistd::getuid().is_root() {
        let mnt = world.mnt();
        world.run_as_root(&["mount", "-t", "tmpfs", "none", &mnt]);
        let said = world.refused(1, &["sessionfs", "unmount", &mnt]);
        assert!(said.contains("this is a tmpfs file system"), "{said}");
        let said = world.refused(1, &["sessionfs", "mount", &world.text("home/store"), &mnt]);
        assert!(
            said.contains("a tmpfs file system is mounted there already"),
            "{said}"
        );
    }
}

fn a_link_from_a_source_into_the_mount_hangs_nobody(world: &World) {
    let session = world.text("home/store/-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001");
    let subagents = format!("{session}/subagents");
    world.must(&["ln", "-s", &world.mnt(), &format!("{session}/loop")]);
    world.must(&[
        "ln",
        "-s",
        &format!("{}/latest", world.mnt()),
        &format!("{subagents}/loop"),
    ]);
    world.must(&["ln", "-s", &world.mnt(), &world.text("home/store/loop")]);
    let server = world.serve();
    let mnt = world.mnt();
    for _ in 0..3 {
        let found = world.must(&["find", &mnt, "-type", "f"]);
        assert!(found.contains("artefact.md"), "{found}");
        world.must(&["bash", "-c", &format!("cat {mnt}/sessions/*/*.md | wc -c")]);
    }
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    if !nix::unistd::getuid().is_root() {
        return not_tested("only root can take a machine's device away for a test");
    }
    let world = World::new(Who::User);
    let (store, mnt) = (world.text("home/store"), world.mnt());
    let mount = ["sessionfs", "mount", &store, &mnt];

    let said = world.refused(1, &["sessionfs", "mount", "--allow-other", &store, &mnt]);
    assert!(
        said.contains("user_allow_other") && said.contains("/etc/fuse.conf"),
        "{said}"
    );

    let without = [&["env", "FUSERMOUNT_PATH=/none"][..], &mount].concat();
    let said = world.refused(1, &without);
    assert!(
        said.contains("fusermount3 is missing") && said.contains("apt install fuse3"),
        "{said}"
    );

    world.run_as_root(&["chmod", "700", &world.text("home/mnt")]);
    world.run_as_root(&["chown", "0:0", &world.text("home/mnt")]);
    let said = world.refused(1, &mount);
    assert!(
        said.starts_with("error: ") && said.contains("Permission denied"),
        "{said}"
    );
    world.run_as_root(&["chown", "65534:65534", &world.text("home/mnt")]);

    world.run_as_root(&["chmod", "600", "/dev/fuse"]);
    let said = world.refused(1, &mount);
    assert!(
        said.contains("cannot open /dev/fuse: Permission denied"),
        "{said}"
    );

    let bare = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3";
    assert!(world.run_as_root(&["bash", "-c", bare]).status.success());
    let said = world.refused(1, &mount);
    assert!(
        said.contains("/dev/fuse is missing") && said.contains("modprobe fuse"),
        "{said}"
    );
    assert_eq!(world.mounts(), 0);
}

#[test]
fn an_interrupt_while_it_starts_leaves_no_mount() {
    let world = World::new(Who::Root);
    let (store, mnt) = (world.text("home/store"), world.mnt());
    // The terminal's interrupt goes to both processes, however far they are. What is not said to be mounted is not.
    for round in 0..40 {
        let mut child = world
            .command(&["setsid", "sessionfs", "mount", &store, &mnt])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let group = format!("-{}", child.id());
        let wait_a_little = format!("sleep 0.0{:02}; kill -INT -- {group}", round % 20);
        world.run(&["bash", "-c", &wait_a_little]);
        if wait(&mut child).success() {
            world.run(&["sessionfs", "unmount", &mnt]);
        }
        crate::world::until("nothing is mounted", || world.mounts() == 0);
    }
}
