//! Entries of a record of messages, and what documents say of prompts by them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use crate::common::write;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub const S: &str = "aaaaaaaa-0000-4000-8000-000000000001";
pub const ALONE: &str = "only-in-the-record";
pub const SOCKET: &str = "uds:/run/user/1000/peer.sock";

/// Writes one entry of a session, at a clock time of the day of the invented transcripts.
pub fn entry(record: &Path, id: &str, clock: &str, body: &Value) -> PathBuf {
    let mut body = body.clone();
    body["sessionId"] = json!(id);
    body["at"] = json!(format!("2026-11-24T{clock}Z"));
    let name = format!("2026-11-24T{}Z-000001.json", clock.replace(':', ""));
    let path = record.join(id).join(name);
    write(&path, body.to_string() + "\n");
    path
}

pub fn start() -> Value {
    json!({"kind": "start", "cwd": "/home/user/example", "host": "claude-code", "version": "2.1.314", "inbound": "ask"})
}

pub fn received(text: &str, outcome: &str) -> Value {
    json!({"kind": "message", "side": "received", "peer": {"as": SOCKET}, "text": text, "outcome": outcome,
        "envelope": {"from": SOCKET, "hops": [1]}, "cwd": "/home/user/example"})
}

/// The line under each `user` turn's heading.
pub fn attributions(document: &str) -> Vec<&str> {
    let marker = "Attribution by the record of messages: ";
    document
        .lines()
        .filter_map(|line| line.strip_prefix(marker))
        .collect()
}
