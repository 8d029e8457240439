//! What stands before the threads: the title, the facts, the guide, the gaps and the timeline.

use super::Style;
use super::contain::{Inline, List, Or, Page, SafeValue};
use super::guide::{completeness, how_to_read};
use super::names::number;
use super::thread::times;
use crate::session::{Agent, Join, LogState, Role, Session, Thread, ThreadIndex};
use crate::transcript::display::Shown;

/// The head of a whole session's document.
pub(super) fn of_session(session: &Session, style: Style, shown: &Shown, page: &mut Page) {
    page.heading(1, ("Session ", SafeValue::of(&session.id)));
    origin(session, page);
    page.item((
        "title: ",
        Or(session.title.as_deref().map(SafeValue::of), "none"),
    ));
    if let Some(log) = &session.log {
        framed_log(log, page);
    }
    times(&session.span, page);
    let count = |wanted: fn(&Role) -> bool| {
        session
            .threads
            .iter()
            .filter(|thread| wanted(&thread.role))
            .count() as u64
    };
    page.item((
        (
            "threads: ",
            count(|role| matches!(role, Role::Main)),
            " main, ",
        ),
        (count(|role| matches!(role, Role::Agent(_))), " agents, "),
        (count(|role| matches!(role, Role::Service(_))), " service"),
    ));
    let turns = &session.totals.turns;
    page.item((
        ("turns: ", turns.total, " (", turns.user, " user, "),
        (turns.task, " task, ", turns.peer, " peer, "),
        (
            turns.assistant,
            " assistant, ",
            turns.tool_result,
            " tool-result, ",
            turns.other,
            " other)",
        ),
    ));
    page.item(("responses: ", session.totals.api_responses));
    let tokens = &session.totals.tokens;
    page.item((
        (
            "tokens, as recorded: ",
            tokens.total(),
            " (",
            tokens.input,
            " input, ",
        ),
        (
            tokens.output,
            " output, ",
            tokens.cache_creation,
            " cache creation, ",
        ),
        (tokens.cache_read, " cache read)"),
    ));
    if let Some(copied) = &session.copied {
        page.item((
            "of them also in older sessions, of which this one is a copy or a continuation: ",
            copied.tokens.total(),
            " in ",
            List(copied.sessions.iter().map(|id| SafeValue::of(id))),
        ));
    }
    page.end_list();
    how_to_read(style, false, page);
    completeness(session, shown, false, page);
    timeline(session, page);
}

/// The head of one thread's own document. What is known of the thread stands in its section.
pub(super) fn of_thread(
    session: &Session,
    index: ThreadIndex,
    style: Style,
    shown: &Shown,
    page: &mut Page,
) {
    let thread = &session.threads[index];
    match &thread.role {
        Role::Main => page.heading(1, "Main thread"),
        Role::Agent(_) => page.heading(1, ("Agent ", SafeValue::of(&thread.id))),
        Role::Service(_) => page.heading(1, ("Service thread ", SafeValue::of(&thread.id))),
    }
    page.item(("session: ", SafeValue::of(&session.id)));
    origin(session, page);
    page.end_list();
    how_to_read(style, true, page);
    completeness(session, shown, true, page);
}

/// The framed log that the session was read from.
fn framed_log(log: &LogState, page: &mut Page) {
    page.item((
        ("framed log: ", log.state.name(), ", "),
        (log.events, " events, ", log.objects, " objects, "),
        (log.bytes, " bytes, created "),
        Or(log.created_at.as_deref().map(SafeValue::of), "not known"),
    ));
}

/// Where the session comes from.
fn origin(session: &Session, page: &mut Page) {
    let versions = List(
        session
            .versions
            .iter()
            .map(|version| SafeValue::of(version)),
    );
    page.item(("harness: ", session.harness));
    page.item((
        "versions: ",
        Or(
            (!session.versions.is_empty()).then_some(versions),
            "not recorded",
        ),
    ));
    page.item((
        "project: ",
        Or(session.project.as_deref().map(SafeValue::of), "not known"),
    ));
}

/// One row an agent: spans and turns, so that what ran beside what can be seen.
fn timeline(session: &Session, page: &mut Page) {
    page.heading(2, "Timeline");
    let agents = || {
        session
            .threads
            .iter()
            .filter_map(|thread| match &thread.role {
                Role::Agent(agent) => Some((thread, agent)),
                Role::Main | Role::Service(_) => None,
            })
    };
    if agents().next().is_none() {
        page.paragraph("This session has no sub-agents.");
        return;
    }
    page.paragraph(
        "Turns under \"spawned\" and \"joined\" are turns of the parent; several are several runs.",
    );
    page.table(&[
        "agent", "type", "depth", "parent", "spawned", "started", "ended", "joined", "turns",
        "tokens",
    ]);
    for (thread, agent) in agents() {
        row(session, thread, agent, page);
    }
    page.end_list();
}

fn row(session: &Session, thread: &Thread, agent: &Agent, page: &mut Page) {
    let has_runs = !agent.runs.is_empty();
    let spawned = List(agent.runs.iter().map(|run| number(run.spawned.turn)));
    let joined = List(agent.runs.iter().map(|run| Joined(run.joined.as_ref())));
    page.row(&[
        &SafeValue::of(&thread.id),
        &Or(
            agent.agent_type.as_deref().map(SafeValue::of),
            "not recorded",
        ),
        &Or(agent.depth.map(u64::from), "not known"),
        &Or(
            agent
                .parent
                .and_then(|parent| session.threads.get(parent))
                .map(Parent),
            "not known",
        ),
        &Or(has_runs.then_some(spawned), "not found"),
        &Or(thread.span.started, "not known"),
        &Or(thread.span.ended, "not known"),
        &Or(has_runs.then_some(joined), "not found"),
        &thread.totals.turns.total,
        &thread.totals.tokens.total(),
    ]);
}

/// A thread in a table cell: `main`, or its ID.
struct Parent<'a>(&'a Thread);

impl Inline for Parent<'_> {
    fn write(&self, page: &mut Page) {
        match self.0.role {
            Role::Main => "main".write(page),
            Role::Agent(_) | Role::Service(_) => SafeValue::of(&self.0.id).write(page),
        }
    }
}

/// The turn of a join, as far as there is one.
struct Joined<'a>(Option<&'a Join>);

impl Inline for Joined<'_> {
    fn write(&self, page: &mut Page) {
        match self.0.map(|join| join.turn) {
            None => "not found".write(page),
            Some(None) => "at no turn".write(page),
            Some(Some(turn)) => number(turn).write(page),
        }
    }
}
