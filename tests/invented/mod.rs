//! Sessions out of invented lines, opened as the program opens them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use sessionfs::session::{Agent, Role, Run, Session, Thread, open};
use sessionfs::store::{Source, Store};

/// The session's ID.
pub const S: &str = "11111111-0000-4000-8000-000000000001";

/// The session of one project folder with these files, each given as its lines. `S` in a path and `$S` in a line stand for its ID.
pub fn session(files: &[(&str, &[&str])]) -> Session {
    let folder = tempfile::tempdir().unwrap();
    for (path, lines) in files {
        let path = folder
            .path()
            .join("-home-user-example")
            .join(path.replace('S', S));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = lines.join("\n").replace("$S", S) + "\n";
        std::fs::write(path, text).unwrap();
    }
    session_in(folder.path(), S)
}

/// A session of this ID out of a folder of projects.
pub fn session_in(projects: &std::path::Path, id: &str) -> Session {
    let store = Store::new(vec![Source::recognise(projects).unwrap()]);
    open(&store.files(id).unwrap())
}

/// The session of a main file alone.
pub fn main_of(lines: &[&str]) -> Session {
    session(&[("S.jsonl", lines)])
}

/// The kinds of a thread's turns.
pub fn kinds(thread: &Thread) -> Vec<&'static str> {
    thread.turns.iter().map(|turn| turn.kind.name()).collect()
}

/// The agent with this ID.
pub fn agent<'a>(session: &'a Session, id: &str) -> (&'a Thread, &'a Agent) {
    let thread = session.threads.iter().find(|thread| thread.id == id);
    let thread = thread.unwrap_or_else(|| panic!("no thread {id}"));
    let Role::Agent(agent) = &thread.role else {
        panic!("{id} is no agent")
    };
    (thread, agent)
}

/// Where a run was spawned and joined: the thread, and the numbers of the turns.
pub fn points(run: &Run) -> (usize, usize, Option<usize>) {
    let joined = run.joined.as_ref().and_then(|join| join.turn);
    (
        run.spawned.thread,
        run.spawned.turn + 1,
        joined.map(|turn| turn + 1),
    )
}
