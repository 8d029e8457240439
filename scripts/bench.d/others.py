"""What people would use instead, where it is installed: on the same session, in turn, and how much of it each covers."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import stores
from machine import Failed


@dataclass
class Other:
    """One program's times, and what it covered in the last round; or why there is none."""

    what: str
    seconds: list = field(default_factory=list)
    covered: str = ""
    threads: int | None = None
    bytes: int | None = None
    tokens: int | None = None
    missing: str = ""

    @property
    def median(self):
        return median(self.seconds)


def others(bench):
    """Pairs of ours and theirs: the Markdown of a session, and its tokens."""
    # Of our own generator, whose threads can be told apart in whatever is made of them, and whose agents are all named by their calls.
    session = bench.once("others", lambda folder: stores.big(folder / "projects", 55, 25_000_000))
    yield compare(bench, session, "Markdown", "claude-code-log", by_markdown, log_of_claude_code)
    yield compare(bench, session, "tokens", "ccusage", by_telemetry, usage)


def compare(bench, session, what, program, ours, theirs):
    us = Other(f"{what}: sessionfs, new daemon")
    them = Other(f"{what}: {program}")
    found = shutil.which(program, path=bench.machine.env["PATH"])
    if found is None:
        them.missing = f"{program} is not installed"
    for _ in range(min(bench.rounds, 1 if bench.quick else 3)):
        ours(bench.machine, session, us)
        if not them.missing:
            try:
                theirs(bench.machine, session, found, them)
            except Failed as error:
                them.missing = str(error)
    for one in (us, them):
        if one.seconds and not one.missing:
            one.covered = ", ".join(
                words
                for words, known in (
                    (f"{one.threads} of {session.threads} threads", one.threads),
                    (f"{one.bytes} bytes", one.bytes),
                    (f"{one.tokens} tokens", one.tokens),
                )
                if known is not None
            )
    return [us, them]


def by_markdown(machine, session, one):
    with machine.mount(session.projects) as mount:
        artefact = mount.file(session, "artefact.md")
        one.seconds.append(mount.seconds + machine.cat(artefact))
        cover(session, artefact.read_text(), one)


def log_of_claude_code(machine, session, program, one):
    """The whole project's folder, everything shown, nothing kept from an earlier run."""
    folder = Path(tempfile.mkdtemp(dir=machine.disk))
    argv = [program, "--format", "md", "--depth", "hook", "--no-cache", "--output", folder / "log.md", session.sources[0].parent]
    one.seconds.append(machine.timed(argv))
    cover(session, "".join(file.read_text() for file in folder.rglob("*.md")), one)
    shutil.rmtree(folder)


def cover(session, text, one):
    """How many threads' last words are in a text."""
    agents = [None, *(source.stem.removeprefix("agent-") for source in session.sources[1:])]
    one.threads = sum(stores.conclusion(agent) in text for agent in agents)
    one.bytes = len(text.encode())


def by_telemetry(machine, session, one):
    with machine.mount(session.projects) as mount:
        telemetry = mount.file(session, "telemetry.json")
        one.seconds.append(mount.seconds + machine.cat(telemetry))
        one.tokens = json.loads(telemetry.read_bytes())["tokens"]["total"]


def usage(machine, session, program, one):
    env = machine.env | {"CLAUDE_CONFIG_DIR": str(session.projects.parent)}
    one.seconds.append(machine.timed([program, "session", "--json", "--offline"], env=env))
    one.tokens = json.loads(machine.output.read_bytes())["totals"]["totalTokens"]
