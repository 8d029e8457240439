"""What the rows are measured with: commands that are timed, mounts with a daemon of their own, and folders that go away."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path


# Python ignores it, and what it starts would too.
SIGNALS = [signal.SIGPIPE]


class Failed(Exception):
    """A row cannot be measured, and why."""


class Machine:
    """The programs, and the folders in which everything is done: one on the disk, one in memory. To be closed."""

    def __init__(self, root):
        self.root = root
        self.disk = Path(tempfile.mkdtemp(prefix="sessionfs-bench."))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.memory = Path(tempfile.mkdtemp(prefix="sessionfs-bench.", dir=memory))
        self.output = self.memory / "output"
        self.mounts = []
        self.caches = 0
        home = self.disk / "home"
        home.mkdir()
        # Nothing of the person's own is read, and nothing is left behind in their folders.
        self.env = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        self.env |= {"HOME": str(home), "LC_ALL": "C"}
        for name in ("STATE", "DATA"):
            self.env[f"XDG_{name}_HOME"] = str(home / name.lower())

    def close(self):
        for mount in reversed(self.mounts[:]):
            mount.close()
        shutil.rmtree(self.memory, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)

    def build(self):
        """The release build of the program."""
        self.cargo("build", "--release", "--locked", "--quiet")
        target = os.environ.get("CARGO_TARGET_DIR") or self.root / "target"
        self.sessionfs = str(self.root / target / "release" / "sessionfs")

    def cargo(self, *arguments):
        done = subprocess.run(["cargo", *arguments], cwd=self.root, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise Failed(f"cargo {arguments[0]} failed")
        return done.stdout

    def timed(self, argv, output=None, env=None):
        """Runs a command and gives the seconds it took. Its output goes to a file in memory: some programs do less for /dev/null."""
        argv = [str(word) for word in argv]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        actions = [(os.POSIX_SPAWN_OPEN, 1, str(output or self.output), flags, 0o600)]
        start = time.perf_counter()
        try:
            pid = os.posix_spawnp(argv[0], argv, env or self.env, file_actions=actions, setsigdef=SIGNALS)
        except OSError as error:
            raise Failed(f"cannot run {argv[0]}: {error.strerror}") from error
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        took = time.perf_counter() - start
        if status:
            raise Failed(f"{argv[0]} ended with {os.waitstatus_to_exitcode(status)}")
        return took

    def cat(self, *files):
        """Seconds that `cat` takes for some files, to /dev/null, which it treats as any other."""
        return self.timed(["cat", *files], output="/dev/null")

    def mount(self, projects, *options, cache=None):
        return Mount(self, projects, options, cache)

    def new_cache(self):
        """A folder for what a daemon remembers, in which there is nothing yet."""
        self.caches += 1
        return self.disk / "caches" / str(self.caches)


class Mount:
    """A mount with a new daemon, a child of ours, which remembers nothing of the ones before unless `cache` is given."""

    def __init__(self, machine, projects, options, cache):
        self.machine = machine
        self.point = Path(tempfile.mkdtemp(prefix="mount.", dir=machine.disk))
        env = machine.env | {"XDG_CACHE_HOME": str(cache or machine.new_cache())}
        ready, told = os.pipe()
        os.set_inheritable(told, True)
        argv = [machine.sessionfs, "mount", "-f", "--quiet", "--ready-fd", str(told), *options, str(projects), str(self.point)]
        start = time.perf_counter()
        self.pid = os.posix_spawn(argv[0], argv, env, setsigdef=SIGNALS)
        machine.mounts.append(self)
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            word = pipe.read()
        # What the mount itself took, before it can be looked at.
        self.seconds = time.perf_counter() - start
        if b"READY=1" not in word:
            raise Failed("the mount failed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def file(self, session, name):
        return self.point / "sessions" / session.id / name

    def cpu(self):
        """Seconds of processor time that the daemon has used, by its clock."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self, field):
        """Bytes of memory: VmRSS now, VmHWM at most so far, which is the maximum that `time -v` gives."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise Failed("the daemon has ended")

    def close(self):
        """Ends the daemon, which unmounts; a daemon that does not is killed and its mount taken away."""
        if self not in self.machine.mounts:
            return
        self.machine.mounts.remove(self)
        os.kill(self.pid, signal.SIGTERM)
        if not self.ended(10):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if os.path.ismount(self.point) or not os.path.exists(self.point):
            subprocess.run([self.machine.sessionfs, "unmount", self.point], env=self.machine.env, stderr=subprocess.DEVNULL)
        self.point.rmdir()

    def ended(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return True
            time.sleep(0.002)
        return False
