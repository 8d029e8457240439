//! Where a test mounts: a mount namespace of its own, which takes every mount with it when it goes.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// An ordinary user's and group's number.
const USER: &str = "65534";

/// Who mounts. Tests that are not run by root mount as who runs them, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    /// Through fusermount3. The test makes its device, because the machine's may be root's alone.
    User,
}

/// Makes each of these functions two tests: one as root, one as an ordinary user.
macro_rules! as_root_and_user {
    ($($name:ident),* $(,)?) => {
        mod as_root {
            $(#[test] fn $name() { super::$name(&crate::world::World::new(crate::world::Who::Root)); })*
        }
        mod as_user {
            $(#[test] fn $name() { super::$name(&crate::world::World::new(crate::world::Who::User)); })*
        }
    };
}
pub(crate) use as_root_and_user;

/// A home with a sample store and a mount point, in a mount namespace of its own.
pub(crate) struct World {
    pub(crate) who: Who,
    /// Keeps the namespace; ends when its input does, also when the test is killed.
    keeper: Option<Child>,
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(who: Who) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let mut world = Self {
            who,
            keeper: None,
            folder,
        };
        for name in ["home", "home/mnt", "home/store"] {
            std::fs::create_dir(world.path(name)).unwrap();
        }
        std::fs::write(world.path("sessionfs"), "").unwrap();
        if nix::unistd::getuid().is_root() {
            let made = format!(
                "set -e; chmod 755 {path}; mount --bind {program} {path}/sessionfs",
                program = env!("CARGO_BIN_EXE_sessionfs")
            );
            let device = format!(
                "mkdir {path}/dev; mount -t tmpfs none {path}/dev
                 mknod -m 666 {path}/dev/fuse c 10 229; mount --bind {path}/dev/fuse /dev/fuse
                 touch {path}/fuse.conf; mount --bind {path}/fuse.conf /etc/fuse.conf
                 chown -R {USER}:{USER} {path}/home"
            );
            let device = if who == Who::User {
                device
            } else {
                String::new()
            };
            world.keeper = Some(keep(&format!("{made}\n{device}\necho made; exec cat")));
        } else {
            std::fs::remove_file(world.path("sessionfs")).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sessionfs"), world.path("sessionfs"))
                .unwrap();
        }
        world.must(&["sessionfs", "demo", &world.text("home/store")]);
        world
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The mount point.
    pub(crate) fn mnt(&self) -> String {
        self.text("home/mnt")
    }

    /// A command in this world; `sessionfs` is the built program.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.command_as(words, self.who == Who::User)
    }

    fn command_as<S: AsRef<OsStr>>(&self, words: &[S], as_user: bool) -> Command {
        let mut prefix: Vec<String> = Vec::new();
        if let Some(keeper) = &self.keeper {
            prefix.extend(["nsenter", "-m", "-t"].map(str::to_owned));
            prefix.push(keeper.id().to_string());
            if as_user {
                prefix.push("setpriv".to_owned());
                prefix.extend(["--reuid", USER, "--regid", USER].map(str::to_owned));
                prefix.push("--clear-groups".to_owned());
            }
        }
        let path = std::env::var("PATH").unwrap();
        let here = self.folder.path().display();
        prefix.extend(["env", "-i", "LC_ALL=C", "RUST_BACKTRACE=0"].map(str::to_owned));
        prefix.push(format!("PATH={here}:{path}:/usr/sbin:/sbin"));
        prefix.push(format!("HOME={}", self.text("home")));
        prefix.push(format!(
            "NOTIFY_SOCKET={}",
            std::env::var("NOTIFY_SOCKET").unwrap_or_default()
        ));
        let mut command = Command::new(&prefix[0]);
        command
            .args(&prefix[1..])
            .args(words)
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end. One that hangs in a mount is not waited for.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Output {
        finish(self.command(words))
    }

    /// The same as root in this world, where the tests are root's.
    pub(crate) fn run_as_root<S: AsRef<OsStr>>(&self, words: &[S]) -> Output {
        finish(self.command_as(words, false))
    }

    /// Runs a command that must succeed, and gives what it prints.
    pub(crate) fn must<S: AsRef<OsStr>>(&self, words: &[S]) -> String {
        let output = self.run(words);
        let shown: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        assert!(output.status.success(), "{shown:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with this exit code, and gives what it says.
    pub(crate) fn refused<S: AsRef<OsStr>>(&self, code: i32, words: &[S]) -> String {
        let output = self.run(words);
        let shown: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(code), "{shown:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Mounts the sample store in the foreground and waits until it answers.
    pub(crate) fn serve(&self) -> Server<'_> {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, options: &[&str]) -> Server<'_> {
        let (store, mnt) = (self.text("home/store"), self.mnt());
        let mut words = vec!["sessionfs", "mount", "-f"];
        words.extend(options);
        words.extend([store.as_str(), mnt.as_str()]);
        let mut child = self.command(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(
            line.starts_with(&format!("Mounted on {mnt}. To unmount: ")),
            "the mount tests need a working /dev/fuse: {line}"
        );
        Server {
            world: self,
            child,
            said,
        }
    }

    /// How many mounts of ours lie on the mount point.
    pub(crate) fn mounts(&self) -> usize {
        self.mounts_on(&self.mnt())
    }

    pub(crate) fn mounts_on(&self, point: &str) -> usize {
        let process = self
            .keeper
            .as_ref()
            .map_or("self".to_owned(), |keeper| keeper.id().to_string());
        let list = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap();
        let here = |line: &&str| line.split(' ').nth(4) == Some(point);
        list.lines()
            .filter(here)
            .filter(|line| line.contains(" - fuse.sessionfs "))
            .count()
    }

    /// What `ls` says of the mount point if it fails.
    pub(crate) fn fault(&self) -> String {
        self.refused(2, &["ls", &self.mnt()])
    }

    pub(crate) fn answers(&self) -> bool {
        let readme = format!("{}/README.md", self.mnt());
        self.run(&["cat", &readme]).status.success()
    }

    /// Holds a file of the mount open.
    pub(crate) fn hold(&self, name: &str) -> Holder {
        self.holder(r#"exec 9<"$0"; echo held; read; cat <&9 | sha256sum"#, name)
    }

    /// Works in a directory of the mount.
    pub(crate) fn work_in(&self, name: &str) -> Holder {
        self.holder(r#"cd "$0"; echo held; read; ls"#, name)
    }

    fn holder(&self, script: &str, name: &str) -> Holder {
        let path = format!("{}/{name}", self.mnt());
        let mut child = self
            .command(&[
                "bash",
                "-c",
                &format!("set -e -o pipefail; {script}"),
                &path,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Holder {
            input: child.stdin.take(),
            output,
            child,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            // Everything that still runs in the namespace would keep it.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        } else {
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", "--"])
                .arg(self.mnt())
                .output();
        }
    }
}

/// Starts a script in a mount namespace of its own and waits until it says that all is made.
fn keep(script: &str) -> Child {
    let mut keeper = Command::new("unshare")
        .args(["-m", "--propagation", "private", "bash", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare is needed by this test");
    let mut line = String::new();
    BufReader::new(keeper.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "made\n", "the namespace could not be made");
    keeper
}

/// Runs to the end or the limit. Output goes through files: a process that is left behind must not keep us reading.
fn finish(mut command: Command) -> Output {
    let [mut stdout, mut stderr] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    command
        .stdout(stdout.try_clone().unwrap())
        .stderr(stderr.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    Output {
        status,
        stdout: read(&mut stdout),
        stderr: read(&mut stderr),
    }
}

fn read(file: &mut std::fs::File) -> Vec<u8> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Waits for a child to end by itself.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("the process ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Waits until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A mount in the foreground.
pub(crate) struct Server<'a> {
    world: &'a World,
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Server<'_> {
    /// Bytes of memory that it holds now.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mut lines = status.lines();
        let held = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        held.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        self.world
            .must(&["bash", "-c", &format!("kill -{name} {pid}")]);
    }

    /// Waits for the end and gives the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let status = wait(&mut self.child);
        let mut said = String::new();
        while self
            .said
            .read_line(&mut said)
            .is_ok_and(|length| length > 0)
        {}
        assert_eq!(said, "", "an end that was asked for is nothing to speak of");
        status.code()
    }

    /// Ends it as nobody should.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(wait(&mut self.child).signal(), Some(9));
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // A test that failed; the namespace goes with what is left in it.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
        }
    }
}

/// A process that uses a mount until it is told to go on.
pub(crate) struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Holder {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it use what it holds, and gives what it found out; nothing if it could not.
    pub(crate) fn go_on(mut self) -> Option<String> {
        self.input.take().unwrap().write_all(b"\n").unwrap();
        let status = wait(&mut self.child);
        let mut found = String::new();
        while self
            .output
            .read_line(&mut found)
            .is_ok_and(|length| length > 0)
        {}
        status.success().then_some(found)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
        }
    }
}

/// The process in the background whose command line ends with this.
pub(crate) fn process(end: &str) -> String {
    let mut found = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let ours = line.contains("sessionfs --detached ") && line.trim_end().ends_with(end);
        ours.then(|| entry.file_name().into_string().unwrap())
    });
    found.next().expect("the process behind the mount runs")
}

/// Says on the terminal, past what the test runner keeps to itself, what a test could not do.
pub(crate) fn not_tested(why: &str) {
    let _ = writeln!(std::io::stderr(), "not tested: {why}");
}
