//! What the small files beside the threads say: an agent's sidecar, a workflow's record and journal.

use foldhash::HashMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::store::{self, SourceFile};

/// What an agent's sidecar says of it. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sidecar {
    pub agent_type: Option<String>,
    pub description: Option<String>,
    /// The call that spawned it.
    pub tool_use_id: Option<String>,
    /// The agent that spawned it.
    pub parent_agent: Option<String>,
    /// The name by which others call it.
    pub name: Option<String>,
}

/// What a workflow's record and journal say of the agents that it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunRecord {
    /// What the workflow calls each agent's work, by agent ID.
    pub labels: HashMap<String, String>,
    /// Every agent named.
    pub agents: BTreeSet<String>,
}

impl RunRecord {
    /// Takes up what another file says of the same run.
    pub(super) fn add(&mut self, other: Self) {
        self.labels.extend(other.labels);
        self.agents.extend(other.agents);
    }
}

/// Reads a sidecar, or says why it is none.
pub(super) fn read(file: &SourceFile) -> Result<Sidecar, String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(&bytes(file, LARGEST_SIDECAR)?) else {
        return Err("not a JSON object".to_owned());
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Sidecar {
        agent_type: text("agentType"),
        description: text("description"),
        tool_use_id: text("toolUseId"),
        parent_agent: text("parentAgentId"),
        name: text("name"),
    })
}

/// Reads a workflow's record (`workflows/<run>.json`) or journal (`subagents/workflows/<run>/journal.jsonl`): the run's ID and
/// what it says, or why it is neither.
pub(super) fn read_run(file: &SourceFile) -> Result<(String, RunRecord), String> {
    let bytes = bytes(file, LARGEST_RECORD)?;
    let mut record = RunRecord::default();
    if let Some(run) = run_of(&file.name) {
        // A journal's line that is none costs itself.
        let lines = bytes
            .split(|&b| b == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok());
        lines.for_each(|line: Value| record.name(&line));
        return Ok((run, record));
    }
    let run = file
        .name
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let whole: Value = serde_json::from_slice(&bytes).map_err(|_| "not JSON".to_owned())?;
    let progress = whole.get("workflowProgress").and_then(Value::as_array);
    progress
        .into_iter()
        .flatten()
        .for_each(|entry| record.name(entry));
    Ok((run.unwrap_or_default(), record))
}

/// The run in whose folder a file lies: `.../workflows/<run>/<file>`.
pub(super) fn run_of(name: &Path) -> Option<String> {
    let folder = name.parent()?;
    let is_workflow = folder.parent()?.file_name() == Some(OsStr::new("workflows"));
    is_workflow
        .then(|| folder.file_name())?
        .map(|run| run.to_string_lossy().into_owned())
}

impl RunRecord {
    fn name(&mut self, entry: &Value) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(agent) = text("agentId") else { return };
        if let Some(label) = text("label") {
            self.labels.insert(agent.clone(), label);
        }
        self.agents.insert(agent);
    }
}

/// A sidecar is a few hundred bytes; a larger file under its name is something else.
const LARGEST_SIDECAR: u64 = 1 << 20;
/// A journal holds every agent's answer.
const LARGEST_RECORD: u64 = 64 << 20;

fn bytes(file: &SourceFile, largest: u64) -> Result<Vec<u8>, String> {
    if file.fingerprint.size > largest {
        return Err("too large for what its name says".to_owned());
    }
    store::read(&file.path, file.fingerprint.size).map_err(|error| error.reason())
}
