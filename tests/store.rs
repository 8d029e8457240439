//! Discovery on real directories: which sessions there are, which files each one has, and what is said of the rest.

#![allow(clippy::unwrap_used)]

use nix::sys::stat::Mode;
use sessionfs::store::{FileRole, SessionFiles, Source, Store};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const A: &str = "1ab2c3d4-0000-4000-8000-000000000001";
const B: &str = "1ab2c3d4-0000-4000-8000-000000000002";

/// Writes a file and the directories above it.
fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn line(session: &str) -> String {
    format!("{{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"{session}\"}}\n")
}

/// A store that looks again at every question.
fn store(roots: &[&Path]) -> Store {
    let sources = roots.iter().map(|root| Source::recognise(root).unwrap());
    Store::new(sources.collect()).recheck_after(Duration::ZERO)
}

fn ids(store: &Store) -> Vec<String> {
    store.index().ids().map(str::to_owned).collect()
}

fn names(session: &SessionFiles) -> Vec<String> {
    let files = session.fragments.iter().flat_map(|f| &f.files);
    files.map(|f| f.name.display().to_string()).collect()
}

fn problems(store: &Store) -> Vec<String> {
    store.problems().iter().map(ToString::to_string).collect()
}

#[test]
fn finds_sessions_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    // A main file with agents, sidecars and results in its folder.
    write(root, &format!("-p/{A}.jsonl"), &line(A));
    write(root, &format!("-p/{A}/subagents/agent-a1.jsonl"), &line(A));
    write(root, &format!("-p/{A}/subagents/agent-a1.meta.json"), "{}");
    write(root, &format!("-p/{A}/tool-results/b1.txt"), "x");
    // An agent's file beside the mains, with its sidecar.
    write(root, "-p/agent-1a2b3c4d.jsonl", &line(A));
    write(root, "-p/agent-1a2b3c4d.meta.json", "{}");
    // A folder whose main file is gone.
    write(root, &format!("-q/{B}/subagents/agent-b1.jsonl"), &line(B));
    // A folder in which no transcript is left, a stem that is no UUID, an agent whose session has nothing else.
    let empty = "1ab2c3d4-0000-4000-8000-000000000003";
    fs::create_dir_all(root.join("-q").join(empty)).unwrap();
    write(root, "-q/my export.jsonl", &line("x"));
    write(root, "-q/agent-9.jsonl", &line("gone"));
    // What is none of ours.
    write(root, "-q/memory/notes.md", "x");
    write(root, "-q/sessions-index.json", "{}");

    let store = store(&[root]);
    assert_eq!(ids(&store), [A, B, empty, "gone", "my export"]);
    assert_eq!(problems(&store), [""; 0]);

    let a = store.files(A).unwrap();
    assert_eq!(
        names(&a),
        [
            format!("{A}/subagents/agent-a1.jsonl"),
            format!("{A}/subagents/agent-a1.meta.json"),
            format!("{A}/tool-results/b1.txt"),
            format!("{A}.jsonl"),
            "agent-1a2b3c4d.jsonl".to_owned(),
            "agent-1a2b3c4d.meta.json".to_owned(),
        ]
    );
    let roles: Vec<_> = a.fragments[0]
        .files
        .iter()
        .map(|f| f.role.clone())
        .collect();
    let agent = "1a2b3c4d".to_owned();
    assert_eq!(
        roles,
        [
            FileRole::Agent("a1".into()),
            FileRole::Sidecar("a1".into()),
            FileRole::ToolResult,
            FileRole::Main,
            FileRole::Agent(agent.clone()),
            FileRole::Sidecar(agent),
        ]
    );
    assert_eq!(a.fragments[0].folder, "-p");
    assert_eq!(
        names(&store.files(B).unwrap()),
        [format!("{B}/subagents/agent-b1.jsonl")]
    );
    assert_eq!(names(&store.files(empty).unwrap()), [""; 0]);
    assert_eq!(names(&store.files("gone").unwrap()), ["agent-9.jsonl"]);
    assert_eq!(
        names(&store.files("my export").unwrap()),
        ["my export.jsonl"]
    );
    assert!(store.files("nothing").is_none());
}

#[test]
fn a_project_folder_a_session_folder_and_loose_exports_are_sources() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("-p");
    write(&project, &format!("{A}.jsonl"), &line(A));
    write(&project, &format!("{A}/subagents/agent-a1.jsonl"), &line(A));
    write(&project, &format!("{B}.jsonl"), &line(B));
    assert_eq!(ids(&store(&[&project])), [A, B]);
    let one = store(&[&project.join(A)]);
    assert_eq!(ids(&one), [A]);
    assert_eq!(one.files(A).unwrap().fragments[0].files.len(), 2);
    assert!(one.files(B).is_none());

    let export = dir.path().join("export");
    write(&export, &format!("{A}/{A}.jsonl"), &line(A));
    write(&export, &format!("{A}/agent-a1.jsonl"), &line(A));
    let export = store(&[&export]);
    assert_eq!(ids(&export), [A]);
    assert_eq!(
        names(&export.files(A).unwrap()),
        [format!("{A}.jsonl"), "agent-a1.jsonl".to_owned()]
    );
}

#[test]
fn one_session_in_two_projects_has_two_fragments() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &format!("-b/{A}.jsonl"), &line(A));
    write(
        dir.path(),
        &format!("-a/{A}.jsonl"),
        "{\"type\":\"mode\"}\n",
    );
    let store = store(&[dir.path()]);
    assert_eq!(ids(&store), [A]);
    let files = store.files(A).unwrap();
    let folders: Vec<_> = files.fragments.iter().map(|f| f.folder.as_str()).collect();
    assert_eq!(folders, ["-a", "-b"]);
}

#[test]
fn a_second_source_with_other_content_gets_a_name_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    write(&one, &format!("-p/{A}.jsonl"), &line("x"));
    write(&two, &format!("-p/{A}.jsonl"), &line("x"));
    let second = format!("{A}~2");
    let both = store(&[&one, &two]);
    assert_eq!(ids(&both), [A], "the same content is one session");
    // Same length, other bytes; found although no folder changed.
    write(&two, &format!("-p/{A}.jsonl"), &line("y"));
    assert_eq!(ids(&both), [A, &second]);
    let path = both.files(&second).unwrap().fragments[0].files[0]
        .path
        .clone();
    assert!(path.starts_with(&two));
    // The same source twice, by another way, counts once.
    let link = dir.path().join("link");
    symlink(&one, &link).unwrap();
    assert_eq!(ids(&store(&[&one, &link, &one.join("-p")])), [A]);
    // No file's own name is taken for a suffix.
    write(&one, &format!("-p/{A}~2.jsonl"), &line("z"));
    assert_eq!(ids(&both), [A, &format!("{A}%7E2"), &second]);
}

#[test]
fn what_changes_is_seen_at_the_next_question() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&[dir.path()]);
    assert!(store.index().is_empty());
    assert_eq!(store.latest(), None);
    // A new project, a new session in it, growth, a new agent, deletion.
    write(dir.path(), &format!("-p/{A}.jsonl"), &line(A));
    assert_eq!(ids(&store), [A]);
    let before = store.files(A).unwrap();
    write(dir.path(), &format!("-p/{A}.jsonl"), &line(A).repeat(2));
    let after = store.files(A).unwrap();
    assert_ne!(before, after);
    assert_eq!(after, store.files(A).unwrap());
    write(dir.path(), &format!("-p/{A}/subagents/agent-a1.jsonl"), "");
    assert_eq!(names(&store.files(A).unwrap()).len(), 2);
    write(dir.path(), &format!("-p/{B}.jsonl"), &line(B));
    assert_eq!(ids(&store), [A, B]);
    fs::remove_file(dir.path().join(format!("-p/{B}.jsonl"))).unwrap();
    assert_eq!(ids(&store), [A]);
    assert!(store.files(B).is_none());
    fs::remove_dir_all(dir.path().join("-p")).unwrap();
    assert!(store.files(A).is_none());
    // A file that becomes a transcript, an agent that names its session late.
    write(dir.path(), "-p/odd.jsonl", "");
    write(dir.path(), "-p/agent-7.jsonl", "{");
    assert!(store.index().is_empty());
    assert_eq!(store.problems().len(), 2);
    write(dir.path(), "-p/odd.jsonl", &line("odd"));
    write(dir.path(), "-p/agent-7.jsonl", &line("odd"));
    assert_eq!(ids(&store), ["odd"]);
    assert_eq!(
        names(&store.files("odd").unwrap()),
        ["agent-7.jsonl", "odd.jsonl"]
    );
    assert_eq!(problems(&store), [""; 0]);
}

#[test]
fn the_latest_is_the_session_whose_file_changed_last() {
    let dir = tempfile::tempdir().unwrap();
    let touch = |name: &str, seconds| {
        let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = fs::File::options()
            .append(true)
            .open(dir.path().join(name))
            .unwrap();
        file.set_modified(at).unwrap();
        at
    };
    let (a, b) = (format!("-p/{A}.jsonl"), format!("-p/{B}.jsonl"));
    write(dir.path(), &a, "");
    write(dir.path(), &b, "");
    touch(&a, 2_000_000_000);
    let at = touch(&b, 2_000_000_001);
    let store = store(&[dir.path()]);
    assert_eq!(store.latest(), Some((B.to_owned(), at)));
    assert_eq!(store.modified(B), Some(at));
    let at = touch(&a, 2_000_000_002);
    assert_eq!(store.latest(), Some((A.to_owned(), at)));
    // Without a main file the newest agent's time stands for the session's.
    fs::remove_file(dir.path().join(&a)).unwrap();
    let agent = format!("-p/{A}/subagents/agent-a1.jsonl");
    write(dir.path(), &agent, "");
    let at = touch(&agent, 2_000_000_003);
    assert_eq!(store.modified(A), Some(at));
}

#[test]
fn what_cannot_be_used_is_said_where_it_belongs_and_harms_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("projects");
    let outside = dir.path().join("outside.jsonl");
    fs::write(&outside, line("secret")).unwrap();
    write(&root, &format!("-p/{A}.jsonl"), &line(A));
    write(&root, &format!("-p/{A}/subagents/agent-a1.jsonl"), &line(A));
    let p = root.join("-p");
    let fifo = |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    fifo(&p.join("x.jsonl"));
    fifo(&p.join(A).join("subagents/agent-f.jsonl"));
    symlink(&outside, p.join("out.jsonl")).unwrap();
    symlink("nowhere", p.join("dangling.jsonl")).unwrap();
    symlink("loop.jsonl", p.join("loop.jsonl")).unwrap();
    symlink(&outside, p.join(A).join("subagents/agent-out.jsonl")).unwrap();
    fs::create_dir(p.join("folder.jsonl")).unwrap();
    fs::create_dir_all(p.join(B)).unwrap();
    fs::create_dir(p.join(format!("{B}.jsonl"))).unwrap();
    write(&root, "-p/notes.jsonl", "{\"a\":1}\n");
    write(
        &root,
        "-p/agent-orphan.jsonl",
        "{\"type\":\"user\",\"uuid\":\"u\"}\n",
    );
    symlink("/nowhere/at/all", root.join("-gone")).unwrap();

    let store = store(&[&root]);
    assert_eq!(ids(&store), [A, B]);
    let said = |name: &str, why: &str| format!("{}: {why}", root.join(name).display());
    assert_eq!(
        problems(&store),
        [
            said("-gone", "a symbolic link that leads nowhere"),
            said(
                "-p/agent-orphan.jsonl",
                "an agent's transcript that names no session"
            ),
            said("-p/dangling.jsonl", "a symbolic link that leads nowhere"),
            said("-p/folder.jsonl", "a directory, no transcript"),
            said("-p/loop.jsonl", "a symbolic link that leads nowhere"),
            said("-p/notes.jsonl", "no line in its head is a transcript's"),
            said(
                "-p/out.jsonl",
                "a symbolic link that leads out of the source"
            ),
            said("-p/x.jsonl", "a FIFO, which is never opened"),
        ]
    );
    let unused = |name: &str, why: &str| (name.to_owned(), why.to_owned());
    let a = store.files(A).unwrap();
    assert_eq!(a.fragments[0].files.len(), 2);
    assert_eq!(
        a.unused,
        [
            unused("agent-f.jsonl", "a FIFO, which is never opened"),
            unused(
                "agent-out.jsonl",
                "a symbolic link that leads out of the source"
            ),
        ]
    );
    let b = store.files(B).unwrap();
    assert_eq!(
        b.unused,
        [unused(&format!("{B}.jsonl"), "a directory, no transcript")]
    );
}

#[test]
fn links_to_directories_are_followed_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("projects");
    let elsewhere = dir.path().join("elsewhere");
    write(&elsewhere, &format!("{A}.jsonl"), &line(A));
    write(
        &elsewhere,
        &format!("{A}/subagents/agent-a1.jsonl"),
        &line(A),
    );
    fs::create_dir_all(&root).unwrap();
    symlink(&elsewhere, root.join("-p")).unwrap();
    symlink(&elsewhere, root.join("-q")).unwrap();
    // Loops: to itself, to its parent, and a second name of a directory that sorts before the first.
    symlink("..", elsewhere.join(A).join("up")).unwrap();
    symlink("subagents", elsewhere.join(A).join("again")).unwrap();
    symlink("self", root.join("self")).unwrap();
    // A link to a file that stays in the folder to which a link led.
    write(&elsewhere, "notes.txt", &line("copy"));
    symlink("notes.txt", elsewhere.join("copy.jsonl")).unwrap();

    let store = store(&[&root]);
    assert_eq!(ids(&store), [A, "copy"]);
    let files = store.files(A).unwrap();
    assert_eq!(files.fragments.len(), 1);
    let names = names(&files);
    assert!(
        names.contains(&format!("{A}/subagents/agent-a1.jsonl")),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.contains("again")),
        "{names:?}"
    );
    let copy = store.files("copy").unwrap();
    let bytes = sessionfs::store::read(&copy.fragments[0].files[0].path, 1000).unwrap();
    assert_eq!(bytes, line("copy").as_bytes());
}

#[test]
fn a_session_takes_in_nothing_that_lies_outside_of_the_sources() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("projects");
    let outside = dir.path().join("outside");
    write(&outside, "subagents/agent-secret.jsonl", &line(A));
    write(&outside, "secret.txt", "secret");
    write(&root, &format!("-p/{A}.jsonl"), &line(A));
    write(&root, &format!("-p/{A}/subagents/agent-a1.jsonl"), &line(A));
    write(&root, "-q/shared/note.txt", "inside");
    let subagents = root.join(format!("-p/{A}/subagents"));
    symlink(&outside, subagents.join("out")).unwrap();
    symlink(root.join("-q/shared"), subagents.join("in")).unwrap();
    // The folder of a whole session, with its main file and without one.
    write(&root, &format!("-p/{B}.jsonl"), &line(B));
    symlink(&outside, root.join("-p").join(B)).unwrap();
    let other = "1ab2c3d4-0000-4000-8000-000000000003";
    symlink(&outside, root.join("-p").join(other)).unwrap();

    let store = store(&[&root]);
    assert_eq!(ids(&store), [A, B]);
    let why = "a symbolic link that leads out of the source";
    let a = store.files(A).unwrap();
    let in_a = ["subagents/agent-a1.jsonl", "subagents/in/note.txt"];
    let mut expected: Vec<String> = in_a.iter().map(|name| format!("{A}/{name}")).collect();
    expected.push(format!("{A}.jsonl"));
    assert_eq!(names(&a), expected);
    assert_eq!(a.unused, [("out".to_owned(), why.to_owned())]);
    let b = store.files(B).unwrap();
    assert_eq!(names(&b), [format!("{B}.jsonl")]);
    assert_eq!(b.unused, [(B.to_owned(), why.to_owned())]);
    let said = root.join("-p").join(other);
    assert_eq!(problems(&store), [format!("{}: {why}", said.display())]);
}

#[test]
fn one_file_under_two_names_is_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "-p/rewind.jsonl", &line("x"));
    symlink("rewind.jsonl", root.join("-p/inlink.jsonl")).unwrap();
    // The same in another folder, by the file's other name.
    write(root, &format!("-p/{A}.jsonl"), &line(A));
    fs::create_dir(root.join("-q")).unwrap();
    let hard = root.join(format!("-q/{B}.jsonl"));
    fs::hard_link(root.join(format!("-p/{A}.jsonl")), &hard).unwrap();
    // A session that has more than that name stays one.
    symlink("rewind.jsonl", root.join("-p/more.jsonl")).unwrap();
    write(root, "-p/more/subagents/agent-a1.jsonl", &line("more"));

    let store = store(&[root]);
    let left = [A.to_owned(), "more".to_owned(), "rewind".to_owned()];
    assert_eq!(ids(&store), left);
    let same = |second: &str, first: &str| {
        let [second, first] = [second, first].map(|name| root.join(name));
        format!("{}: the same file as {}", second.display(), first.display())
    };
    assert_eq!(
        problems(&store),
        [
            same("-p/inlink.jsonl", "-p/rewind.jsonl"),
            same(&format!("-q/{B}.jsonl"), &format!("-p/{A}.jsonl")),
        ]
    );
    // Once the folders are settled, the same answer is given again.
    std::thread::sleep(Duration::from_millis(100));
    let index = store.index();
    assert!(std::sync::Arc::ptr_eq(&index, &store.index()));
    fs::remove_file(&hard).unwrap();
    fs::write(&hard, line(B)).unwrap();
    assert!(store.index().contains(B), "now it is another file");
}

#[test]
fn hostile_names_become_safe_ids_and_are_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("projects");
    fs::write(dir.path().join("secret.jsonl"), line("x")).unwrap();
    write(&root, "-p/agent-1.jsonl", &line("../../secret"));
    write(&root, "-p/agent-2.jsonl", &line(".."));
    write(&root, "-p/a\u{202e}b\u{7}.jsonl", &line("x"));
    write(&root, "-p/-rf.jsonl", &line("x"));
    let store = store(&[&root]);
    assert_eq!(
        ids(&store),
        ["%2Drf", "%2E%2E", "..%2F..%2Fsecret", "a%E2%80%AEb%07"]
    );
    assert_eq!(
        names(&store.files("..%2F..%2Fsecret").unwrap()),
        ["agent-1.jsonl"]
    );
    assert_eq!(names(&store.files("%2E%2E").unwrap()), ["agent-2.jsonl"]);

    // An ID is no path: what it would lead to neither makes the session be there nor gives it a time.
    fs::create_dir_all(dir.path().join("secret/subagents")).unwrap();
    let source = Source::recognise(&root).unwrap();
    let store = Store::new(vec![source]).recheck_after(Duration::from_hours(1));
    assert!(store.index().contains("..%2F..%2Fsecret"));
    fs::remove_file(root.join("-p/agent-1.jsonl")).unwrap();
    assert!(store.files("..%2F..%2Fsecret").is_none());
    assert_eq!(store.modified("..%2F..%2Fsecret"), None);
}

#[test]
fn excluded_sessions_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &format!("-p/{A}.jsonl"), &line(A));
    write(dir.path(), &format!("-p/{B}.jsonl"), &line(B));
    let store = store(&[dir.path()]).excluding([A.to_owned()]);
    assert_eq!(ids(&store), [B]);
    assert!(store.files(A).is_none());
    assert_eq!(store.modified(A), None);
}
