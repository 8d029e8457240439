"""The rows of the table: each measures ours and its yardstick in turn, and gives what it found as lines."""

import hashlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import stores
from machine import Failed

# Kernel and daemon believe a name for a second at most; what is looked up later is looked up anew.
EXPIRED = 1.2


@dataclass
class Line:
    """One line of the table."""

    what: str
    bar: float
    goal: float
    # Ours and the yardstick's, in seconds, one pair a round; or figures that have no yardstick.
    pairs: list = field(default_factory=list)
    figures: list = field(default_factory=list)
    # How a figure is shown: "x" a ratio, "%" a share, "MB" megabytes.
    unit: str = "x"
    notes: list = field(default_factory=list)

    @property
    def values(self):
        return self.figures or [ours / yardstick for ours, yardstick in self.pairs]

    @property
    def best(self):
        """The ratio of the quickest on either side, which other work on the machine disturbs least."""
        if not self.pairs:
            return min(self.figures)
        ours, yardstick = (min(side) for side in zip(*self.pairs))
        return ours / yardstick * (100 if self.unit == "%" else 1)

    @property
    def reached(self):
        value = median(self.values)
        return "goal" if value <= self.goal else "bar" if value <= self.bar else "missed"


class Bench:
    """What rows share: the machine, the rounds, and stores that are made once, when a row first needs them."""

    def __init__(self, machine, generator, rounds, quick):
        self.machine = machine
        self.generator = generator
        self.rounds = rounds
        self.quick = quick
        self.made = {}

    def once(self, name, make):
        """The folder of this name, which `make` fills the first time."""
        if name not in self.made:
            folder = self.machine.disk / name
            self.made[name] = make(folder) or folder
        return self.made[name]

    def forget(self, folder):
        """Removes a store that is large and that no other row looks at."""
        self.made = {name: made for name, made in self.made.items() if made != folder}
        shutil.rmtree(folder)

    def big(self, threads, megabytes):
        def make(folder):
            if self.generator is None:
                return stores.big(folder, threads, megabytes * 1_000_000)
            self.machine.timed([self.generate(), folder / stores.PROJECT, threads, megabytes, 1])
            return stores.found(folder)

        return self.once(f"big-{megabytes}", make)

    def generate(self):
        """The program that the generator's source makes."""
        program = self.machine.disk / "generate"
        if not program.exists():
            done = subprocess.run(["rustc", "-O", "--cap-lints", "allow", "-o", program, self.generator])
            if done.returncode:
                raise Failed(f"cannot compile {self.generator}")
        return program

    def many(self, count, size):
        """A folder of so many sessions; a tenth of them where it must be quick. Gives also how many they are."""
        count = count // 10 if self.quick else count
        return self.once(f"many-{count}-{size}", lambda folder: stores.many(folder, count, size)), count

    def in_turn(self, ours, yardstick, rounds=None):
        """Seconds of both, one after the other, for each round; the first of each is not counted."""
        ours(), yardstick()
        return [(ours(), yardstick()) for _ in range(rounds or self.rounds)]


def cold(bench, threads, megabytes, name, bar, goal):
    """A file of a session that a new daemon reads for the first time, over `cat` of the session's sources."""
    session = bench.big(threads, megabytes)
    mounting, used = [], []

    def ours():
        with bench.machine.mount(session.projects) as mount:
            mounting.append(mount.seconds)
            before = mount.cpu()
            took = bench.machine.cat(mount.file(session, name))
            used.append(mount.cpu() - before)
            return took

    line = Line(f"{session.bytes / 1e6:.0f} MB, {session.threads} threads, new daemon: cat {name}, over cat of the sources", bar, goal)
    line.pairs = bench.in_turn(ours, lambda: bench.machine.cat(*session.sources))
    line.notes.append(f"processor time of the daemon for it: {median(used) * 1e3:.1f} ms; until the mount was ready, not counted: {median(mounting) * 1e3:.1f} ms")
    yield line


def second_read(bench):
    """The largest artefact, and the smallest file of at least 1 MB, read again, over copies in memory."""
    session = bench.big(100, 60)
    machine = bench.machine
    with machine.mount(session.projects) as mount:
        files = [mount.file(session, "artefact.md"), *mount.file(session, "agents").glob("*/artefact.full.md")]
        files = sorted((file for file in files if file.stat().st_size >= 1_000_000), key=lambda file: file.stat().st_size)
        for file in dict.fromkeys((files[0], files[-1])):
            copy = machine.memory / "copy"
            shutil.copyfile(file, copy)
            line = Line(f"second cat of a file of {file.stat().st_size / 1e6:.1f} MB, over a copy on tmpfs", 1.2, 1.1)
            line.pairs = bench.in_turn(lambda: machine.cat(file), lambda: machine.cat(copy), 4 * bench.rounds)
            yield line


def list_warm(bench):
    store, count = bench.many(10_000, 1_500)
    machine = bench.machine
    with machine.mount(store) as mount:
        sessions = mount.point / "sessions"
        copy = machine.memory / "sessions"
        for entry in os.scandir(sessions):
            os.makedirs(copy / entry.name)

        def ours():
            # Names expire after a second: a listing that was just made is what is warm.
            machine.timed(["ls", "-l", sessions])
            return machine.timed(["ls", "-l", sessions])

        line = Line(f"ls -l of {count} sessions, warm, over the same on tmpfs", 1.0, 0.8)
        line.pairs = bench.in_turn(ours, lambda: machine.timed(["ls", "-l", copy]))
        yield line
    shutil.rmtree(copy)


def list_new(bench):
    store, count = bench.many(10_000, 1_500)
    machine = bench.machine

    def look(cache, mounting):
        with machine.mount(store, cache=cache) as mount:
            mounting.append(mount.seconds)
            return machine.timed(["ls", "-l", mount.point / "sessions"])

    kept = machine.new_cache()
    for what, cache in (("nothing remembered", None), ("an earlier daemon's memory kept", kept)):
        mounting = []
        line = Line(f"ls -l of {count} sessions, new daemon, {what}, over find -type f -printf of the source", 4.0, 2.0)
        line.pairs = bench.in_turn(
            lambda: look(cache, mounting),
            lambda: machine.timed(["find", store, "-type", "f", "-printf", "%p %s %T@\n"]),
        )
        line.notes.append(f"until the mount was ready, not counted: {median(mounting) * 1e3:.1f} ms")
        yield line


def search(bench, warm):
    """One search of the artefacts of all sessions: warm over their copies, cold over the lines that they are made of."""
    store, count = bench.many(1_000, 60_000)
    machine = bench.machine
    tool = ["rg", "-c"] if shutil.which("rg") else ["grep", "-c", "-H"]
    sources = sorted(store.glob("*/*.jsonl"))
    names = [source.stem for source in sources]

    def look(folder):
        return machine.timed([*tool, stores.NEEDLE, *(folder / name / "artefact.md" for name in names)])

    if warm:
        with machine.mount(store) as mount:
            sessions = mount.point / "sessions"
            copies = machine.memory / "copies"
            for name in names:
                (copies / name).mkdir(parents=True)
                shutil.copyfile(sessions / name / "artefact.md", copies / name / "artefact.md")
            line = Line(f"{tool[0]} over the artefacts of {count} sessions, warm, over their copies on tmpfs", 1.5, 1.2)
            line.pairs = bench.in_turn(lambda: look(sessions), lambda: look(copies))
        shutil.rmtree(copies)
    else:

        def ours():
            with machine.mount(store) as mount:
                return look(mount.point / "sessions")

        line = Line(f"{tool[0]} over the artefacts of {count} sessions, new daemon, over the source lines", 5.0, 3.0)
        line.pairs = bench.in_turn(ours, lambda: machine.timed([*tool, stores.NEEDLE, *sources]))
    if tool[0] != "rg":
        line.notes.append("rg is not installed: searched with grep")
    yield line


def growth(bench):
    """What one more line costs until `stat` shows the artefact's new size, as a share of what the whole session cost cold.

    The kernel believes a name and a size for a second, and that wait is no work of the daemon's. So the look comes when what is
    believed has expired: what is timed is one `stat` for which the daemon must have taken in the line. What it did before, on its
    own, would be hidden so; its processor time since the line was written is therefore said too.
    """
    machine = bench.machine
    session = bench.big(100, 60)
    copy = machine.disk / "live"
    shutil.copytree(session.projects, copy)
    session = stores.found(copy)
    line = Line(f"one line more in a session of {session.bytes / 1e6:.0f} MB until stat, share of its cold cat", 10.0, 3.0, unit="%")
    used, seen = [], []
    with machine.mount(session.projects) as mount:
        artefact = mount.file(session, "artefact.md")
        machine.cat(artefact)
        for number in range(bench.rounds + 3):
            old = os.stat(artefact).st_size
            cpu = mount.cpu()
            stores.append_line(session, number)
            written = time.perf_counter()
            if number >= bench.rounds:
                # As a person sees it who looks again and again, the wait included.
                seen.append(until_other(artefact, old, written))
                continue
            time.sleep(EXPIRED)
            took = until_other(artefact, old, time.perf_counter())
            used.append(mount.cpu() - cpu)
            with machine.mount(session.projects) as other:
                line.pairs.append((took, machine.cat(other.file(session, "artefact.md"))))
        time.sleep(EXPIRED)
        shown = hashlib.sha256(artefact.read_bytes()).digest()
    fresh = machine.memory / "fresh"
    machine.timed([machine.sessionfs, "cat", f"{session.id}/artefact.md", "--source", session.projects], output=fresh)
    if hashlib.sha256(fresh.read_bytes()).digest() != shown:
        line.notes.append("WRONG: what had grown is not what a new process makes of the same files")
    fresh.unlink()
    shutil.rmtree(copy)
    line.figures = [100 * took / whole for took, whole in line.pairs]
    line.notes.append(f"processor time of the daemon from line to stat: {median(used) * 1e3:.1f} ms")
    line.notes.append(f"seen by one who looks every 10 ms: {median(seen) * 1e3:.0f} ms after the line, the kernel's memory of the old size included")
    yield line


def until_other(file, size, since):
    """Seconds since then until a file has another size."""
    end = time.perf_counter() + 30
    while os.stat(file).st_size == size:
        if time.perf_counter() > end:
            raise Failed("the new line is not seen within 30 s")
        time.sleep(0.01)
    return time.perf_counter() - since


def append(bench):
    """The log's own measurement, `benches/append.rs`: a thousand appends, each after a bare one, their medians."""
    machine = bench.machine
    built = machine.cargo("bench", "--locked", "--quiet", "--no-run", "--bench", "append", "--message-format=json")
    built = [json.loads(line) for line in built.splitlines()]
    measure = next(one["executable"] for one in built if one.get("executable") and one["target"]["name"] == "append")
    runs = []
    for _ in range(2 if bench.quick else 5):
        machine.timed([measure], env=machine.env | {"TMPDIR": str(machine.disk)})
        words = (line.split() for line in machine.output.read_text().splitlines())
        runs.append({line[0]: float(line[1]) / 1e6 for line in words if len(line) == 2 and line[0].endswith("_us")})
    for events in (10, 1_000_000):
        line = Line(f"one event appended to a log of {events}, over a bare append and fdatasync", 1.1, 1.05)
        line.pairs = [(run[f"append_at_{events}_us"], run[f"bare_at_{events}_us"]) for run in runs]
        yield line
    ratio = median(run["last_thousand_us"] / run["first_thousand_us"] for run in runs)
    line.notes.append(f"syncs apart, the last thousand of 100,000 appends over the first thousand: {ratio:.2f}")


def memory(bench):
    """The most that a daemon held, less its bound, over the size of the largest session that it opened."""
    machine = bench.machine
    session = bench.big(100, 60)
    bound = 16 << 20
    single = Line("peak memory for cat artefact.md of 60 MB, less a bound of 16 MiB, over the session's size", 3.0, 2.0)
    every = Line("the same for all artefacts, turns.ndjson and telemetry, all agents' too", 3.0, 2.0)
    for _ in range(1 if bench.quick else 3):
        with machine.mount(session.projects, "--cache-size", str(bound)) as mount:
            machine.cat(mount.file(session, "artefact.md"))
            single.figures.append((mount.memory("VmHWM") - bound) / session.bytes)
            folder = mount.file(session, "")
            machine.cat(*(file for pattern in ("*.*", "agents/*/*.*") for file in sorted(folder.glob(pattern))))
            every.figures.append((mount.memory("VmHWM") - bound) / session.bytes)
    yield single
    yield every


def list_many(bench):
    store, count = bench.many(100_000, 1_500)
    machine = bench.machine
    listed = Line(f"memory with {count} sessions listed by ls -l", 200.0, 100.0, unit="MB")
    every = Line("the same, and sessions.tsv and by-date read", 200.0, 100.0, unit="MB")
    for _ in range(1 if bench.quick else 2):
        with machine.mount(store) as mount:
            took = machine.timed(["ls", "-l", mount.point / "sessions"])
            listed.figures.append(mount.memory("VmRSS") / 1e6)
            peak = mount.memory("VmHWM") / 1e6
            listed.notes = [f"mount ready after {mount.seconds:.2f} s, ls -l {took:.2f} s; at most {peak:.0f} MB until then"]
            table = machine.cat(mount.point / "sessions.tsv")
            dates = machine.timed(["find", mount.point / "by-date"])
            every.figures.append(mount.memory("VmRSS") / 1e6)
            peak = mount.memory("VmHWM") / 1e6
            every.notes = [f"sessions.tsv {table:.2f} s, find by-date {dates:.2f} s; at most {peak:.0f} MB until then"]
    yield listed
    yield every
    bench.forget(store)


ROWS = {
    "cold-25": lambda bench: cold(bench, 55, 25, "artefact.md", 3.0, 2.0),
    "cold-60": lambda bench: cold(bench, 100, 60, "artefact.md", 3.0, 2.0),
    "telemetry-25": lambda bench: cold(bench, 55, 25, "telemetry.json", 2.5, 1.5),
    "telemetry-60": lambda bench: cold(bench, 100, 60, "telemetry.json", 2.5, 1.5),
    "second-read": second_read,
    "list-warm": list_warm,
    "list-new": list_new,
    "search-warm": lambda bench: search(bench, True),
    "search-cold": lambda bench: search(bench, False),
    "growth": growth,
    "append": append,
    "memory": memory,
    "list-100000": list_many,
}
