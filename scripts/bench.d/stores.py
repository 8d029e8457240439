"""The sessions that are measured. Same arguments give the same bytes."""

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

# What the searches look for: in one session of a hundred.
NEEDLE = "needle"
PROJECT = "-home-user-tally"
WORDS = """the parser of a total in which every line holds one amount should not take names for numbers because then each test
that counts them fails with an error at its first comma while the writer goes on until somebody looks at what it wrote""".split()


@dataclass
class Session:
    """One session: the folder of projects that holds it, its ID and its stored files, the main thread's first."""

    projects: Path
    id: str
    sources: list[Path]

    @property
    def bytes(self):
        return sum(source.stat().st_size for source in self.sources)

    @property
    def threads(self):
        return len(self.sources)


def found(projects):
    """The one session in a folder of projects."""
    (main,) = projects.glob("*/*.jsonl")
    return Session(projects, main.stem, [main, *sorted(main.with_suffix("").glob("**/*.jsonl"))])


def big(projects, threads, size, seed=1):
    """A session of so many threads and about so many bytes: each agent is started and answered in the main thread."""
    text = Texts(seed)
    id = f"{seed:08x}-b160-4000-8000-000000000001"
    main = projects / PROJECT / f"{id}.jsonl"
    agents = main.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    names = [f"a{number:016x}" for number in range(1, threads)]
    each = size // threads
    with main.open("w", encoding="utf-8") as file:
        write_thread(file, Thread(id, text), each, names)
    for name in names:
        with (agents / f"agent-{name}.jsonl").open("w", encoding="utf-8") as file:
            write_thread(file, Thread(id, text, name), each, [])
    return found(projects)


def many(projects, count, size):
    """A folder of projects with so many sessions of about so many bytes, a hundred to a project."""
    text = Texts(count)
    for number in range(count):
        folder = projects / f"-home-user-part{number // 100}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        id = f"{number:08x}-0000-4000-8000-{number:012x}"
        with (folder / f"{id}.jsonl").open("w", encoding="utf-8") as file:
            thread = Thread(id, text)
            if number % 100 == 0:
                file.write(thread.prompt(text.shown(f"Where is the {NEEDLE}?")))
            write_thread(file, thread, size, [])


class Texts:
    """Texts of the kinds that fill transcripts, in JSON form: prose, code, and a terminal's output with its escapes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pool = [self.shown(self.make(kind)) for kind in (self.prose, self.code, self.terminal) for _ in range(100)]

    def any(self):
        return self.random.choice(self.pool)

    @staticmethod
    def shown(text):
        return json.dumps(text, ensure_ascii=False)

    def make(self, kind):
        size = min(60_000, int(self.random.lognormvariate(7.3, 1.1)))
        lines = []
        while size > 0:
            lines.append(kind())
            size -= len(lines[-1])
        return "".join(lines)

    def words(self, count):
        return " ".join(self.random.choices(WORDS, k=count))

    def prose(self):
        return f"- {self.words(12)} `{self.words(1)}()` \u2014 \"{self.words(2)}\".\n"

    def code(self):
        return f"\tlet {self.words(1)}_{self.random.randrange(99)} = {self.words(1)}.get(\"{self.words(1)}\")?; // {self.words(4)}\n"

    def terminal(self):
        return f"test {self.words(1)}::{self.words(1)}_{self.random.randrange(999)} ... \x1b[32mok\x1b[0m\n"


class Thread:
    """The lines of one thread, each after the one before it."""

    def __init__(self, session, text, agent=None):
        self.text = text
        self.agent = agent
        self.session = session
        self.key = f"{session[:8]}-{agent or 'main'}"
        self.count = 0

    def line(self, rest):
        parent = f'"u{self.count}-{self.key}"' if self.count else "null"
        self.count += 1
        second = self.count % 36_000
        at = f"2026-11-30T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z"
        agent = f',"agentId":"{self.agent}"' if self.agent else ""
        return (
            f'{{"parentUuid":{parent},"isSidechain":{"true" if self.agent else "false"}{agent},"userType":"external",'
            f'"cwd":"/home/user/tally","sessionId":"{self.session}","version":"2.1.207","gitBranch":"main",{rest},'
            f'"uuid":"u{self.count}-{self.key}","timestamp":"{at}"}}\n'
        )

    def prompt(self, text):
        return self.line(f'"type":"user","message":{{"role":"user","content":{text}}}')

    def response(self, blocks, stop):
        return self.line(
            f'"type":"assistant","requestId":"req_{self.count}{self.key}","message":{{"id":"msg_{self.count}{self.key}",'
            f'"type":"message","role":"assistant","model":"invented-1","content":[{blocks}],"stop_reason":"{stop}",'
            f'"stop_sequence":null,"usage":{{"input_tokens":4,"cache_creation_input_tokens":{100 + self.count},'
            f'"cache_read_input_tokens":{9_000 + self.count},"output_tokens":{10 + self.count % 500}}}}}'
        )

    def call(self, name, input, content, structured):
        """A tool's call and its result, which is stored a second time in a form of the tool's own."""
        tool = f"toolu_{self.count}{self.key}"
        yield self.response(f'{{"type":"text","text":{self.text.any()}}}', "tool_use")
        yield self.response(f'{{"type":"tool_use","id":"{tool}","name":"{name}","input":{input}}}', "tool_use")
        yield self.line(
            f'"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{tool}",'
            f'"content":{content}}}]}},"toolUseResult":{structured}'
        )


def write_thread(file, thread, size, agents):
    """A prompt that names its thread, then calls until the size is reached, the agents' own among them."""
    left = size

    def put(lines):
        nonlocal left
        for line in lines:
            file.write(line)
            left -= len(line.encode())

    put([thread.prompt(thread.text.shown(prompt(thread.agent)))])
    for agent in agents:
        answer = f'[{{"type":"text","text":{thread.text.any()}}}]'
        asked = f'"description":"One part","prompt":{thread.text.shown(prompt(agent))}'
        put(
            thread.call(
                "Task",
                f'{{{asked},"subagent_type":"general-purpose"}}',
                answer,
                f'{{"status":"completed",{asked},"agentId":"{agent}","content":{answer},"totalTokens":1,"totalToolUseCount":1}}',
            )
        )
    while left > 0:
        output = thread.text.any()
        put(thread.call("Bash", '{"command":"cargo test"}', output, f'{{"stdout":{output},"stderr":"","interrupted":false}}'))
    put([thread.response(f'{{"type":"text","text":{thread.text.shown(conclusion(thread.agent))}}}', "end_turn")])


def prompt(agent):
    """What a thread was asked. It also stands in the call of the thread that started it."""
    return f"Look into the part that is known as {agent or 'the whole'}."


def conclusion(agent):
    """What a thread says last: it stands in no other thread, so that a reader that shows it has read this one."""
    return f"Nothing is left to be done in {agent or 'the whole'}."


def append_line(session, number):
    """One more prompt at the end of a session's main thread, in one write."""
    line = json.dumps(
        {
            "type": "user",
            "isSidechain": False,
            "sessionId": session.id,
            "uuid": f"appended-{number}",
            "timestamp": "2026-12-01T10:00:00.000Z",
            "message": {"role": "user", "content": f"And now step {number}."},
        }
    )
    descriptor = os.open(session.sources[0], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)
