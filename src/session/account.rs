//! What a session used: each response once, by one owner, so that the parts add up to the whole (`spec/telemetry.md`).

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::borrow::Cow;

use crate::transcript::identity::Identity;
use crate::transcript::text::Buffers;
use crate::transcript::thread::{Response, ResponseKey, TurnKind};

use super::tools::Tools;
use super::{ModelCount, Totals, TurnCounts};

/// Totals of each thread, in the order given, and what is to be said of the responses counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    pub threads: Vec<Totals>,
    pub usage_without_message_id: u64,
    pub responses_with_differing_usage: u64,
    pub responses_without_stop_reason: u64,
    pub tool_calls_without_result: u64,
    pub tool_results_without_call: u64,
}

/// What of a thread is counted.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    pub responses: &'a [Response],
    pub turns: TurnCounts,
    pub tools: &'a Tools,
}

/// Counts the threads, which come in the order in which they may own a response: the main thread, the normal agents by start,
/// the service threads.
pub(super) fn account(threads: &[Counted<'_>], buffers: &Buffers) -> Accounts {
    let mut accounts = Accounts::default();
    let responses = threads.iter().map(|thread| thread.responses.len()).sum();
    let mut owned: HashSet<&ResponseKey> = HashSet::with_capacity(responses);
    for thread in threads {
        let mut totals = Totals {
            turns: thread.turns,
            ..Totals::default()
        };
        for response in thread.responses {
            if owned.insert(&response.key) {
                add_response(&mut totals, response, &mut accounts);
            }
        }
        accounts.threads.push(totals);
    }
    drop(owned);
    count_tools(threads, buffers, &mut accounts);
    accounts
}

/// The same of threads of which each was counted by itself, if no response, call or result of one has to do with another.
pub(super) fn account_apart<'a>(threads: impl Iterator<Item = &'a Accounts>) -> Accounts {
    let mut whole = Accounts::default();
    for one in threads {
        whole.threads.extend_from_slice(&one.threads);
        whole.usage_without_message_id += one.usage_without_message_id;
        whole.responses_with_differing_usage += one.responses_with_differing_usage;
        whole.responses_without_stop_reason += one.responses_without_stop_reason;
        whole.tool_calls_without_result += one.tool_calls_without_result;
        whole.tool_results_without_call += one.tool_results_without_call;
    }
    whole
}

/// Adds a part to a whole; the result says whether a sum had to stop at its largest value.
pub(super) fn add_totals(whole: &mut Totals, part: &Totals, with_turns: bool) -> bool {
    if with_turns {
        let (to, from) = (&mut whole.turns, &part.turns);
        to.total += from.total;
        to.user += from.user;
        to.task += from.task;
        to.peer += from.peer;
        to.assistant += from.assistant;
        to.tool_result += from.tool_result;
        to.other += from.other;
    }
    whole.api_responses += part.api_responses;
    whole.usage_lines_seen += part.usage_lines_seen;
    let mut saturated = whole.tokens.add(&part.tokens);
    for (name, count) in &part.tool_calls {
        let to = whole.tool_calls.entry(name.clone()).or_default();
        to.calls += count.calls;
        to.errors += count.errors;
    }
    for (model, count) in &part.models {
        let to = whole.models.entry(model.clone()).or_default();
        to.responses += count.responses;
        saturated |= to.tokens.add(&count.tokens);
    }
    saturated
}

fn add_response(totals: &mut Totals, response: &Response, accounts: &mut Accounts) {
    let Some(usage) = response.usage else { return };
    totals.api_responses += 1;
    totals.tokens.add(&usage);
    let model = response.model.as_deref().unwrap_or(UNNAMED);
    let ModelCount { responses, tokens } = match totals.models.get_mut(model) {
        Some(count) => count,
        None => totals.models.entry(model.to_owned()).or_default(),
    };
    *responses += 1;
    tokens.add(&usage);
    accounts.usage_without_message_id +=
        u64::from(!matches!(response.key, ResponseKey::Message(_)));
    accounts.responses_with_differing_usage += u64::from(response.usage_differs);
    accounts.responses_without_stop_reason += u64::from(!response.has_stop_reason);
}

/// What a tool or model without a name is counted under.
const UNNAMED: &str = "(unnamed)";

/// Counts a turn of this kind.
pub(super) fn add_turn(counts: &mut TurnCounts, kind: TurnKind) {
    counts.total += 1;
    let group = match kind {
        TurnKind::User => &mut counts.user,
        TurnKind::Task => &mut counts.task,
        TurnKind::Peer => &mut counts.peer,
        TurnKind::Assistant => &mut counts.assistant,
        TurnKind::ToolResult => &mut counts.tool_result,
        TurnKind::Command
        | TurnKind::Notification
        | TurnKind::Summary
        | TurnKind::Injected
        | TurnKind::Interruption
        | TurnKind::Error
        | TurnKind::Object => &mut counts.other,
    };
    *group += 1;
}

/// Distinct calls by name, and those whose result is an error. A call or result without an ID is one of its own.
fn count_tools(threads: &[Counted<'_>], buffers: &Buffers, accounts: &mut Accounts) {
    let count = threads
        .iter()
        .map(|thread| thread.tools.results.len())
        .sum();
    let mut results: HashMap<Identity<'_>, bool> = HashMap::with_capacity(count);
    for result in threads.iter().flat_map(|thread| &thread.tools.results) {
        match result.call {
            Some(call) => *results.entry(call.identity(buffers)).or_default() |= result.is_error,
            None => accounts.tool_results_without_call += 1,
        }
    }
    let mut called = HashSet::with_capacity(count);
    for (thread, totals) in threads.iter().zip(&mut accounts.threads) {
        for call in &thread.tools.calls {
            let id = call.id.map(|id| id.identity(buffers));
            let result = id.as_ref().and_then(|id| results.get(id));
            if id.is_some_and(|id| !called.insert(id)) {
                continue;
            }
            accounts.tool_calls_without_result += u64::from(result.is_none());
            let unnamed = Cow::Borrowed(UNNAMED.as_bytes());
            let name = call.name.map_or(unnamed, |name| buffers.raw(name).decode());
            let name = String::from_utf8_lossy(&name);
            let count = match totals.tool_calls.get_mut(&*name) {
                Some(count) => count,
                None => totals.tool_calls.entry(name.into_owned()).or_default(),
            };
            count.calls += 1;
            count.errors += u64::from(result == Some(&true));
        }
    }
    accounts.tool_results_without_call +=
        results.keys().filter(|id| !called.contains(*id)).count() as u64;
}
