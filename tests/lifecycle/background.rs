//! A mount in the background: it comes back once it answers, tells who listens, and lets go of everything.

use crate::world::{Who, World, as_root_and_user, process, until};
use std::os::unix::net::UnixDatagram;

as_root_and_user!(
    it_comes_back_when_it_answers_and_lets_go,
    it_tells_a_descriptor_and_a_socket,
    it_holds_nothing_of_whoever_started_it,
    the_commands_that_it_names_work_for_any_name,
    what_fails_in_the_background_is_seen_as_it_was_said,
    its_log_is_private_and_holds_what_happened,
);

fn mount(world: &World) -> String {
    let (store, mnt) = (world.text("home/store"), world.mnt());
    let output = world.run(&["sessionfs", "mount", &store, &mnt]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

fn it_comes_back_when_it_answers_and_lets_go(world: &World) {
    let said = mount(world);
    let mnt = world.mnt();
    assert_eq!(
        said,
        format!("Mounted on {mnt}. To unmount: sessionfs unmount {mnt}\n")
    );
    assert!(world.answers());
    let pid = process(&world.mnt());
    let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(link("cwd").to_str(), Some("/"));
    assert_eq!(link("fd/0").to_str(), Some("/dev/null"));
    assert_eq!(link("fd/1").to_str(), Some("/dev/null"));
    assert_eq!(
        link("fd/2"),
        world.path("home/.local/state/sessionfs/mnt.log")
    );
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = status
        .rsplit(") ")
        .next()
        .unwrap()
        .split(' ')
        .nth(3)
        .unwrap();
    assert_eq!(session, pid, "it leads a session of its own");
    world.must(&["sessionfs", "unmount", &mnt]);
    until("the process has ended", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    });
    // A script that reads what the command says comes to the end of it.
    let (store, read) = (
        world.text("home/store"),
        "said=$(sessionfs mount \"$0\" \"$1\" 2>&1); echo \"[$said]\"",
    );
    let said = world.must(&["bash", "-c", read, &store, &mnt]);
    assert!(
        said.starts_with("[Mounted on ") && said.ends_with("]\n"),
        "{said}"
    );
    assert_eq!(world.must(&["sessionfs", "--quiet", "unmount", &mnt]), "");
    assert_eq!(world.must(&["sessionfs", "mount", "-q", &store, &mnt]), "");
    world.must(&["sessionfs", "unmount", &mnt]);
}

fn it_tells_a_descriptor_and_a_socket(world: &World) {
    let (store, mnt) = (world.text("home/store"), world.mnt());
    let socket = UnixDatagram::bind(world.path("notify")).unwrap();
    world.run_as_root(&["chmod", "777", &world.text("notify")]);
    for option in ["", "-f"] {
        // `cat` comes to its end when nobody holds the pipe any more, and that is before the mount ends.
        let script = r#"exec 3>&1; { sessionfs mount $3 --ready-fd 7 "$0" "$1" 7>&1 >&3 2>/dev/null & } | cat"#;
        let notify = format!("NOTIFY_SOCKET={}", world.text("notify"));
        let said = world.must(&[
            "env", &notify, "bash", "-c", script, &store, &mnt, "", option,
        ]);
        assert_eq!(said, "READY=1\n");
        assert!(world.answers());
        let mut told = [0; 100];
        let length = socket.recv(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[..length]).into_owned();
        assert!(
            told.starts_with("MAINPID=") && told.ends_with("\nREADY=1\n"),
            "{told}"
        );
        world.must(&["sessionfs", "unmount", &mnt]);
    }
    let said = world.refused(2, &["sessionfs", "mount", "--ready-fd", "77", &store, &mnt]);
    assert!(
        said.contains("--ready-fd: descriptor 77 is not open\nhint: open it"),
        "{said}"
    );
    assert_eq!(world.mounts(), 0);
}

fn it_holds_nothing_of_whoever_started_it(world: &World) {
    let (store, mnt) = (world.text("home/store"), world.mnt());
    // Its own lock, and a pipe to who waits for its end.
    let script = r#"exec 7>"$2" 8>&1; flock 7; sessionfs mount --ready-fd 9 "$0" "$1" 9>"$2.ready" >/dev/null 2>&1"#;
    let lock = world.text("home/lock");
    world.must(&["bash", "-c", script, &store, &mnt, &lock]);
    assert!(world.answers());
    world.must(&["flock", "--nonblock", &lock, "true"]);
    assert_eq!(world.must(&["cat", &format!("{lock}.ready")]), "READY=1\n");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", process(&mnt))).unwrap();
    for descriptor in descriptors {
        let target = std::fs::read_link(descriptor.unwrap().path()).unwrap();
        assert!(!target.starts_with(&lock), "{}", target.display());
    }
    world.must(&["sessionfs", "unmount", &mnt]);
}

fn the_commands_that_it_names_work_for_any_name(world: &World) {
    let store = world.text("home/store");
    for name in ["two words", "a\nb\t'c'\u{202e}", "it's $HOME"] {
        let mnt = format!("{}/{name}", world.text("home"));
        let said = world.refused(1, &["sessionfs", "mount", &store, &mnt]);
        let (_, make) = said.trim_end().split_once("make it first: ").unwrap();
        world.must(&["bash", "-c", make]);
        let output = world.run(&["sessionfs", "mount", &store, &mnt]);
        let said = String::from_utf8(output.stderr).unwrap();
        let (_, end) = said.trim_end().split_once("To unmount: ").unwrap();
        assert!(
            !end.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{said}"
        );
        world.must(&["ls", &format!("{mnt}/README.md")]);
        world.must(&["bash", "-c", end]);
        let said = world.refused(1, &["sessionfs", "unmount", &mnt]);
        assert!(said.contains("nothing is mounted there"), "{said}");
    }
    let logs = world.must(&["ls", "-1", "-b", &world.text("home/.local/state/sessionfs")]);
    assert!(
        logs.lines().any(|log| log == "a%0Ab%09'c'%E2%80%AE.log"),
        "{logs}"
    );
}

fn what_fails_in_the_background_is_seen_as_it_was_said(world: &World) {
    let (store, mnt) = (world.text("home/store"), world.mnt());
    world.must(&["mkdir", &format!("{mnt}/something")]);
    for option in ["-f", "-q"] {
        let said = world.refused(1, &["sessionfs", "mount", option, &store, &mnt]);
        assert_eq!(
            said,
            format!("error: {mnt}: the mount point is not empty\nhint: give an empty directory\n")
        );
    }
    assert_eq!(world.mounts(), 0);
}

fn its_log_is_private_and_holds_what_happened(world: &World) {
    let (store, mnt) = (world.text("home/store"), world.mnt());
    let state = format!("XDG_STATE_HOME={}", world.text("home/state"));
    world.must(&["env", &state, "sessionfs", "-v", "mount", &store, &mnt]);
    let pid = process(&world.mnt());
    world.must(&["kill", &pid]);
    until("the process has ended", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    });
    let log = world.text("home/state/sessionfs/mnt.log");
    let written = world.must(&["cat", &log]);
    let last = written.lines().last().unwrap();
    assert!(last.ends_with("unmounted on signal 15"), "{written}");
    assert!(last.starts_with("20"), "it says when: {written}");
    assert!(!written.contains('\u{1b}'), "{written}");
    assert_eq!(world.must(&["stat", "-c", "%a", &log]), "600\n");
}

#[test]
fn memory_over_the_cache_is_given_back_when_nobody_reads() {
    let world = World::new(Who::Root);
    let session = "1ab2c3d4-0000-4000-8000-000000000001";
    let file = world.path(&format!("home/store/-hole/{session}.jsonl"));
    let line = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}"#;
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let hole = 96 << 20;
    let opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.set_len(hole).unwrap();
    let server = world.serve_with(&["--cache-size", "8M"]);
    let before = server.memory();
    let artefact = format!("{}/sessions/{session}/artefact.md", world.mnt());
    world.must(&["stat", &artefact]);
    assert!(world.must(&["cat", &artefact]).contains("hello"));
    until("the memory is given back", || {
        server.memory() < before + hole / 4
    });
    server.signal("TERM");
    assert_eq!(server.end(), Some(0));
}
