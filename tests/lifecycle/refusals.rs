//! What is refused, and that each refusal says what, where and what to do.

use crate::world::{Who, World, as_root_and_user, not_tested, wait};
use std::process::Stdio;

as_root_and_user!(
    a_mount_point_that_cannot_be_used_is_refused,
    a_mount_point_that_overlaps_a_source_is_refused,
    a_mount_of_ours_is_no_source,
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
    let refused = world.refused(1, &["sessionfs", "mount", &store, &world.mnt()]);
    assert!(
        refused.contains("unmount it: sessionfs unmount "),
        "{refused}"
    );
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
    // What is not ours is not to be unmounted with this program, and the root never.
    refuse(1, &[&store, "/"], "file system is mounted there already");
    let refused = world.refused(1, &["sessionfs", "mount", &store, "/"]);
    assert!(
        refused.ends_with("hint: give an empty directory in it, or elsewhere\n"),
        "{refused}"
    );
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
    // A project folder that is a link lies elsewhere.
    let (linked, project) = (
        world.text("home/linked"),
        world.text("home/elsewhere/project"),
    );
    let inside = format!("{project}/mnt");
    world.must(&["mkdir", "-p", &linked, &inside]);
    let session = format!("{project}/1ab2c3d4-0000-4000-8000-000000000001.jsonl");
    world.must(&["touch", &session]);
    world.must(&["ln", "-s", &project, &format!("{linked}/project")]);
    for (point, what) in [
        (&inside, "lies in the source"),
        (&project, "is the source itself"),
        (&world.text("home/elsewhere"), "holds the source"),
    ] {
        let said = world.refused(1, &["sessionfs", "mount", &linked, point]);
        assert!(said.contains(what), "{point}: {said}");
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

fn a_mount_of_ours_is_no_source(world: &World) {
    let (mnt, point) = (world.mnt(), world.text("home/point"));
    let link = world.text("home/link");
    world.must(&["mkdir", &point]);
    world.must(&["ln", "-s", &mnt, &link]);
    let server = world.serve();
    let sessions = format!("{mnt}/sessions");
    let refuse = |source: &str, what: &str| {
        for words in [
            &["sessionfs", "list", "--source", source][..],
            &["sessionfs", "mount", source, &point],
        ] {
            let said = world.refused(1, words);
            assert!(
                said.contains(source) && said.contains(what),
                "{words:?}: {said}"
            );
            assert_eq!(said.lines().count(), 2, "an error and a hint: {said}");
            assert!(!said.contains("os error"), "{said}");
        }
    };
    for source in [&mnt, &sessions, &link] {
        refuse(
            source,
            "which shows sessions and stores none\nhint: give the folder",
        );
    }
    server.kill();
    for source in [&mnt, &sessions, &link] {
        let hint = format!("hint: unmount it: sessionfs unmount {mnt}\n");
        refuse(source, &format!("whose process has died\n{hint}"));
    }
    world.must(&["sessionfs", "unmount", &mnt]);
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
fn a_full_disk_is_said_once_with_what_to_do() {
    if !nix::unistd::getuid().is_root() {
        not_tested("only root can make a disk that is full");
        return;
    }
    let world = World::new(Who::Root);
    let (store, full) = (world.text("home/store"), world.text("home/full"));
    world.must(&["mkdir", &full]);
    world.must(&["mount", "-t", "tmpfs", "-o", "size=64k", "none", &full]);
    let flood = format!("cat /dev/zero > {full}/filler; true");
    world.must(&["bash", "-c", &flood]);
    let out = format!("{full}/out");
    for words in [
        &["export", "--source", &store, "-o", &out][..],
        &["reconstruct", "7a11", "--source", &store, "-o", &full],
        &["demo", &format!("{full}/demo")],
    ] {
        let said = world.refused(1, &[&["sessionfs"], words].concat());
        assert_eq!(
            said.matches("No space left").count(),
            1,
            "{words:?}: {said}"
        );
        assert!(
            said.contains("\nhint: free some space"),
            "{words:?}: {said}"
        );
        assert!(
            said.contains(&full) && !said.contains(".sessionfs-"),
            "{words:?}: {said}"
        );
        let left = world.must(&["find", &full, "-name", ".sessionfs-*"]);
        assert_eq!(left, "", "nothing half-written stays");
    }
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
