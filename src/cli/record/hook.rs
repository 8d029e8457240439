//! `sessionfs record hook`: the start of a session, out of what Claude Code hands its hooks.

use super::Options;
use super::input::{Input, give_up_after};
use crate::cli::Failure;
use crate::record::{Json, Start};
use std::sync::Arc;
use std::time::Duration;

/// How long a host waits for this hook at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records the start of the session that the hook's input names. Never keeps the host waiting: what takes too long is given up.
pub(super) fn run(options: &Options) -> Result<(), Failure> {
    give_up_after(PATIENCE, &Arc::default());
    let input = Input::of_standard_input()?;
    let event = input.text_of("hook_event_name")?;
    if event != "SessionStart" {
        return Err(Failure::degraded(format!(
            "hook_event_name: a session starts with SessionStart, not with {event}"
        )));
    }
    let session = input.text_of("session_id")?;
    let cwd = input.optional("cwd")?.unwrap_or(Json::NULL);
    let more = ["source", "model"].into_iter().filter_map(|key| {
        let value = input.optional(key).ok().flatten()?;
        Some((Json::string(key), value))
    });
    let start = Start {
        host: Some("claude-code".into()),
        more: more.collect(),
        ..Start::default()
    };
    options.recorder(&session, cwd)?.start(&start)?;
    Ok(())
}
