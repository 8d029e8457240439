//! One thread's part of the document: its heading, what is known of it, its turns and the markers between them.

use super::blocks::{Blocks, estimate};
use super::contain::{Inline, List, Or, Page, SafeValue, Seconds};
use super::messages::attribution;
use super::names::{Name, When, chain, is_placed, number};
use crate::session::{
    Agent, Marker, MarkerKind, Role, Run, Session, Span, Thread, ThreadIndex, TurnIndex,
};
use crate::transcript::Turn;
use std::ops::Range;

/// A stretch of a thread, rendered: its text, and where each turn's section stands in it.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) page: Page,
    pub(super) sections: Vec<(TurnIndex, Range<usize>)>,
}

impl Part {
    /// Ends the section of this turn, which began at `start`.
    pub(super) fn end_section(&mut self, turn: TurnIndex, start: usize) {
        self.sections.push((turn, start..self.page.len()));
    }
}

/// A thread's turns with these numbers, every block of them.
pub(super) fn turns(
    session: &Session,
    index: ThreadIndex,
    range: Range<TurnIndex>,
    limit: Option<usize>,
) -> Part {
    let thread = &session.threads[index];
    let turns = thread.turns.range(range.clone());
    let blocks = Blocks {
        buffers: &session.buffers,
        stored: &session.stored,
        limit,
    };
    let room = turns
        .clone()
        .map(|turn| estimate(&turn.blocks, limit) + 96)
        .sum();
    let mut part = Part {
        page: Page::with_capacity(room),
        sections: Vec::with_capacity(range.len()),
    };
    let markers = Markers::of(session, index);
    for (turn, number) in turns.zip(range) {
        let start = part.page.len();
        heading(session, turn, number, &mut part.page);
        attribution(session, index, number, &mut part.page);
        if turn.blocks.is_empty() {
            part.page.paragraph("This turn has no content.");
        }
        blocks.write(&turn.blocks, &mut part.page);
        markers.write(Some(number), &mut part.page);
        part.end_section(number, start);
    }
    part
}

/// The heading of a thread's section, and what is known of the thread.
pub(super) fn opening(session: &Session, index: ThreadIndex, page: &mut Page) {
    let thread = &session.threads[index];
    match &thread.role {
        Role::Main => page.heading(2, "Main thread"),
        Role::Agent(_) => page.heading(2, ("Agent ", SafeValue::of(&thread.id))),
        Role::Service(_) => page.heading(2, ("Service thread ", SafeValue::of(&thread.id))),
    }
    match &thread.role {
        Role::Main => {}
        Role::Agent(agent) => agent_facts(session, index, agent, page),
        Role::Service(kind) => page.item(("kind: ", kind.name())),
    }
    page.item(("file: ", SafeValue::of(&thread.source)));
    thread_facts(thread, page);
    page.end_list();
    Markers::of(session, index).write(None, page);
}

/// Times and totals of a thread, as items of a list.
fn thread_facts(thread: &Thread, page: &mut Page) {
    let totals = &thread.totals;
    if !totals.models.is_empty() {
        page.item((
            "models: ",
            List(totals.models.keys().map(|model| SafeValue::of(model))),
        ));
    }
    times(&thread.span, page);
    page.item(("turns: ", totals.turns.total));
    page.item(("responses: ", totals.api_responses));
    page.item(("tokens: ", totals.tokens.total()));
}

/// First and last stamped line, and the time between them.
pub(super) fn times(span: &Span, page: &mut Page) {
    page.item(("started: ", Or(span.started, "not known")));
    page.item(("ended: ", Or(span.ended, "not known")));
    page.item((
        "wall clock seconds: ",
        Or(span.wall_clock_ms().map(Seconds), "not known"),
    ));
    let active = span.wall_clock_ms().map(|_| Seconds(span.active_ms));
    page.item(("active seconds: ", Or(active, "not known")));
}

/// What an agent is, who spawned it where, and where its result arrived; as items of a list.
fn agent_facts(session: &Session, index: ThreadIndex, agent: &Agent, page: &mut Page) {
    page.item((
        "type: ",
        Or(
            agent.agent_type.as_deref().map(SafeValue::of),
            "not recorded",
        ),
    ));
    page.item((
        "description: ",
        Or(
            agent.description.as_deref().map(SafeValue::of),
            "not recorded",
        ),
    ));
    page.item(("depth: ", Or(agent.depth.map(u64::from), "not known")));
    let steps = chain(session, index);
    page.item((
        "chain: ",
        is_placed(agent).then_some(Chain(session, &steps)),
        if is_placed(agent) {
            "this agent"
        } else {
            "not known; nothing places this agent"
        },
    ));
    if !agent.generations.is_empty() {
        page.item((
            "earlier files: ",
            List(agent.generations.iter().map(|name| SafeValue::of(name))),
        ));
    }
    if agent.runs.is_empty() {
        page.item("spawned: not found");
        page.item("joined: not found");
    }
    for (n, run) in agent.runs.iter().enumerate() {
        // An agent that was continued has more runs than one, and then each is numbered.
        let which = (agent.runs.len() > 1).then_some(("run ", number(n), ", "));
        run_facts(session, which, run, page);
    }
}

fn run_facts(session: &Session, which: Option<impl Inline + Copy>, run: &Run, page: &mut Page) {
    let spawn = &run.spawned;
    let host = Name(session, spawn.thread);
    page.item((
        which,
        ("spawned: turn ", number(spawn.turn), " of ", host),
        (", ", When(spawn.at, &session.buffers)),
        (", by tool call ", SafeValue::of(&spawn.tool_use_id)),
        (
            "; evidence: ",
            List(spawn.evidence.iter().map(|evidence| evidence.name())),
        ),
    ));
    let Some(join) = &run.joined else {
        page.item((which, "joined: not found"));
        page.item((which, "CONCURRENCY: not known, because no join was found"));
        return;
    };
    page.item((
        which,
        "joined: ",
        Or(
            join.turn.map(|turn| ("turn ", number(turn), " of ", host)),
            "at no turn",
        ),
        (", ", When(join.at, &session.buffers)),
        ("; evidence: ", join.how.name()),
    ));
    match run.concurrent_turns {
        Some(turns) => page.item((
            which,
            ("CONCURRENCY: ", turns, " turn(s) of ", host),
            " ran between the spawn and the join, and none of them had this agent's result",
        )),
        None => page.item((
            which,
            "CONCURRENCY: not known, because the join has no turn",
        )),
    }
}

/// The steps of a chain, each with an arrow after it.
#[derive(Clone, Copy)]
struct Chain<'a>(&'a Session, &'a [(ThreadIndex, TurnIndex)]);

impl Inline for Chain<'_> {
    fn write(&self, page: &mut Page) {
        for &(thread, turn) in self.1 {
            (Name(self.0, thread), " turn ", number(turn), " › ").write(page);
        }
    }
}

/// A turn's heading, and what the transcript says of where the turn came from.
pub(super) fn heading(session: &Session, turn: &Turn, index: TurnIndex, page: &mut Page) {
    let value = |text| SafeValue::raw(session.buffers.raw(text));
    page.heading(
        3,
        (
            ("Turn ", number(index), " · ", turn.kind.name(), " · "),
            When(turn.at, &session.buffers),
            turn.model.map(|model| (" · ", value(model))),
        ),
    );
    if let Some(origin) = &turn.origin {
        page.paragraph((
            "Origin as the transcript records it: ",
            value(origin.kind),
            origin.from.map(|from| (", from ", value(from))),
        ));
    }
}

/// The markers of a thread, in the order of their turns.
pub(super) struct Markers<'a> {
    session: &'a Session,
    list: Vec<&'a Marker>,
}

impl<'a> Markers<'a> {
    pub(super) fn of(session: &'a Session, index: ThreadIndex) -> Self {
        let mut list: Vec<_> = session.threads[index].markers.iter().collect();
        list.sort_by_key(|marker| marker.turn);
        Self { session, list }
    }

    /// Those at the end of a turn, or before the first one.
    pub(super) fn at(&self, turn: Option<TurnIndex>) -> &[&'a Marker] {
        let start = self.list.partition_point(|marker| marker.turn < turn);
        let end = self.list.partition_point(|marker| marker.turn <= turn);
        &self.list[start..end]
    }

    /// Appends those at the end of a turn, or before the first one, each as a quote.
    pub(super) fn write(&self, turn: Option<TurnIndex>, page: &mut Page) {
        for marker in self.at(turn) {
            self.quote(&marker.what, page);
        }
    }

    fn quote(&self, what: &MarkerKind, page: &mut Page) {
        let session = self.session;
        match what {
            MarkerKind::Spawned(agent) => page.quote((
                ("[SPAWNED ", Name(session, *agent), Type(session, *agent)),
                (
                    " here; its transcript is in section \"",
                    Section(session, *agent),
                    "\"]",
                ),
            )),
            MarkerKind::Joined(agent) => page.quote((
                ("[JOINED ", Name(session, *agent), Type(session, *agent)),
                " here; its result arrived at this turn]",
            )),
            MarkerKind::Compacted {
                trigger,
                pre_tokens,
                post_tokens,
                micro,
            } => page.quote((
                if *micro {
                    "[COMPACTED tool output here"
                } else {
                    "[COMPACTED here"
                },
                (
                    "; trigger ",
                    Or(trigger.as_deref().map(SafeValue::of), "not recorded"),
                ),
                ("; tokens before: ", Or(*pre_tokens, "not recorded")),
                ("; tokens after: ", Or(*post_tokens, "not recorded")),
                "; what stood before it stays in this document]",
            )),
            MarkerKind::Rewound { from } => page.quote((
                "[REWOUND here; the turns from turn ",
                number(*from),
                " up to here were left, and what follows goes on from before them]",
            )),
        }
    }
}

/// An agent's type in brackets, where it has one.
#[derive(Clone, Copy)]
struct Type<'a>(&'a Session, ThreadIndex);

impl Inline for Type<'_> {
    fn write(&self, page: &mut Page) {
        if let Some(Role::Agent(agent)) = self.0.threads.get(self.1).map(|thread| &thread.role) {
            agent
                .agent_type
                .as_deref()
                .map(|name| (" (type ", SafeValue::of(name), ")"))
                .write(page);
        }
    }
}

/// The heading of a thread's section.
#[derive(Clone, Copy)]
struct Section<'a>(&'a Session, ThreadIndex);

impl Inline for Section<'_> {
    fn write(&self, page: &mut Page) {
        match self.0.threads.get(self.1) {
            Some(thread) => ("Agent ", SafeValue::of(&thread.id)).write(page),
            None => "none".write(page),
        }
    }
}
