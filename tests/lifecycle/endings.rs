//! How mounts end: by signals, by others' hands, by sudden death.

use crate::world::{Who, World, as_root_and_user, not_tested, process, until, wait};

as_root_and_user!(
    a_signal_ends_an_idle_mount,
    a_signal_ends_a_mount_while_a_file_is_open,
    a_signal_ends_a_mount_while_somebody_works_in_it,
    somebody_else_unmounts_it,
    an_aborted_mount_is_taken_away,
    a_lazy_unmount_serves_whoever_is_left_and_spares_the_next_mount,
    a_signal_after_a_lazy_unmount_spares_the_next_mount,
    a_dead_mount_says_so_and_the_next_mount_mends_it,
    a_dead_mount_that_is_open_is_unmounted,
    a_moved_mount_is_found,
    unmount_says_who_keeps_it_busy,
    unmount_says_who_waits_for_an_answer,
);

fn a_signal_ends_an_idle_mount(world: &World) {
    for signal in ["TERM", "INT", "HUP"] {
        let server = world.serve();
        assert!(world.answers());
        assert_eq!(world.mounts(), 1);
        server.signal(signal);
        assert_eq!(server.end(), Some(0), "{signal}");
        assert_eq!(world.mounts(), 0, "{signal}");
        assert!(!world.answers());
        assert_eq!(world.must(&["ls", "-A", &world.mnt()]), "");
    }
}

fn a_signal_ends_a_mount_while_a_file_is_open(world: &World) {
    let server = world.serve();
    let holder = world.hold("latest/artefact.md");
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
    assert_eq!(world.mounts(), 0);
    // It never saw the file's pages, and now there is nobody to ask for them.
    assert_eq!(holder.go_on(), None);
}

fn a_signal_ends_a_mount_while_somebody_works_in_it(world: &World) {
    let server = world.serve();
    let worker = world.work_in("sessions");
    server.signal("INT");
    until("it is unmounted", || world.mounts() == 0);
    // A second one ends the wait for who is left.
    server.signal("INT");
    assert_eq!(server.end(), Some(0));
    assert_eq!(worker.go_on(), None);
}

/// Unmounts without us.
fn by_hand(world: &World, lazily: bool) {
    let mnt = world.mnt();
    let root = world.who == Who::Root && nix::unistd::getuid().is_root();
    match (root, lazily) {
        (true, false) => world.must(&["umount", &mnt]),
        (true, true) => world.must(&["umount", "-l", &mnt]),
        (false, false) => world.must(&["fusermount3", "-u", &mnt]),
        (false, true) => world.must(&["fusermount3", "-uz", &mnt]),
    };
}

fn somebody_else_unmounts_it(world: &World) {
    let server = world.serve();
    by_hand(world, false);
    assert_eq!(server.end(), Some(0));
    let server = world.serve();
    by_hand(world, true);
    assert_eq!(server.end(), Some(0));
    let server = world.serve();
    world.must(&["sessionfs", "unmount", &world.mnt()]);
    assert_eq!(server.end(), Some(0));
    assert_eq!(world.mounts(), 0);
}

fn an_aborted_mount_is_taken_away(world: &World) {
    if !nix::unistd::getuid().is_root() {
        return not_tested("only root can force an unmount");
    }
    let server = world.serve();
    let holder = world.hold("latest/artefact.md");
    // It cuts the connection, and then finds that the mount is busy.
    let forced = world.run_as_root(&["umount", "-f", &world.mnt()]);
    assert!(!forced.status.success(), "{forced:?}");
    assert_eq!(server.end(), Some(0));
    assert_eq!(world.mounts(), 0);
    assert_eq!(holder.go_on(), None);
}

fn a_lazy_unmount_serves_whoever_is_left_and_spares_the_next_mount(world: &World) {
    let mut first = world.serve();
    let expected = world.must(&[
        "bash",
        "-c",
        &format!("sha256sum < {}/latest/artefact.md", world.mnt()),
    ]);
    let holder = world.hold("latest/artefact.md");
    by_hand(world, true);
    let second = world.serve();
    assert!(first.runs());
    assert_eq!(holder.go_on(), Some(expected), "who has it open reads on");
    assert_eq!(first.end(), Some(0), "nobody is left");
    assert_eq!(world.mounts(), 1);
    assert!(world.answers());
    second.signal("TERM");
    assert_eq!(second.end(), Some(0));
    assert_eq!(world.mounts(), 0);
}

fn a_signal_after_a_lazy_unmount_spares_the_next_mount(world: &World) {
    let first = world.serve();
    let _holder = world.hold("latest/artefact.md");
    by_hand(world, true);
    let second = world.serve();
    first.signal("TERM");
    first.signal("TERM");
    assert_eq!(first.end(), Some(0));
    assert_eq!(world.mounts(), 1);
    assert!(world.answers());
    second.signal("TERM");
    assert_eq!(second.end(), Some(0));
}

fn a_dead_mount_says_so_and_the_next_mount_mends_it(world: &World) {
    world.serve().kill();
    assert_eq!(world.mounts(), 1);
    let fault = world.fault();
    assert!(
        fault.contains("Transport endpoint is not connected"),
        "{fault}"
    );
    // At once, while the kernel may still remember what the root looked like.
    let server = world.serve();
    assert_eq!(world.mounts(), 1);
    assert!(world.answers());
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
    assert_eq!(world.mounts(), 0);
}

fn a_dead_mount_that_is_open_is_unmounted(world: &World) {
    let server = world.serve();
    let holder = world.hold("latest/artefact.md");
    let worker = world.work_in("sessions");
    server.kill();
    world.must(&["sessionfs", "unmount", &world.mnt()]);
    assert_eq!(world.mounts(), 0);
    assert_eq!(world.must(&["ls", "-A", &world.mnt()]), "");
    assert_eq!(holder.go_on(), None);
    assert_eq!(worker.go_on(), None);
}

fn a_moved_mount_is_found(world: &World) {
    world.must(&["mkdir", &world.text("home/a")]);
    let (store, point) = (world.text("home/store"), world.text("home/a/mnt"));
    world.must(&["mkdir", &point]);
    let link = world.text("home/link");
    world.must(&["ln", "-s", &point, &link]);
    // Named by a link, in the background.
    world.must(&["sessionfs", "mount", &store, &link]);
    assert_eq!(world.mounts_on(&point), 1);
    world.must(&["mv", &world.text("home/a"), &world.text("home/b")]);
    let moved = world.text("home/b/mnt");
    assert_eq!(world.mounts_on(&moved), 1);
    world.must(&["kill", &process(&format!("mount {store} {link}"))]);
    until("it is unmounted where it is now", || {
        world.mounts_on(&moved) == 0
    });
}

fn unmount_says_who_keeps_it_busy(world: &World) {
    let server = world.serve();
    let holder = world.hold("latest/telemetry.json");
    let worker = world.work_in("sessions");
    let said = world.refused(1, &["sessionfs", "unmount", &world.mnt()]);
    for (process, what) in [(&holder, "telemetry.json open"), (&worker, "works in it")] {
        let who = format!("bash (process {})", process.pid());
        assert!(said.contains(&who) && said.contains(what), "{said}");
    }
    assert!(said.contains("hint: "), "{said}");
    assert!(world.answers(), "it is left as it was");
    assert!(holder.go_on().is_some());
    assert!(worker.go_on().is_some());
    world.must(&["sessionfs", "unmount", &world.mnt()]);
    assert_eq!(server.end(), Some(0));
}

fn unmount_says_who_waits_for_an_answer(world: &World) {
    let server = world.serve();
    server.signal("STOP");
    // It holds nothing open: it is told nothing of what it asks for.
    let status = format!("{}/latest/telemetry.json", world.mnt());
    let mut asking = world
        .command(&["stat", &status])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let waits = || {
        let place = std::fs::read_to_string(format!("/proc/{}/wchan", asking.id()));
        place.is_ok_and(|place| place == "request_wait_answer")
    };
    until("it waits", waits);
    let said = world.refused(1, &["sessionfs", "unmount", &world.mnt()]);
    let who = format!("stat (process {}) waits for an answer", asking.id());
    assert!(said.contains(&who), "{said}");
    server.signal("CONT");
    assert!(wait(&mut asking).success());
    world.must(&["sessionfs", "unmount", &world.mnt()]);
    assert_eq!(server.end(), Some(0));
}
