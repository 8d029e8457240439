//! Invented transcripts, line by line, in the harness's form.

use serde_json::{Value, json};

/// One thread's lines. Each line's uuid and time follow from its place, so the same calls give the same bytes.
pub struct Lines {
    session: String,
    agent: Option<String>,
    records: Vec<String>,
    last: Value,
}

impl Lines {
    /// The main thread of a session.
    pub fn main(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            agent: None,
            records: Vec::new(),
            last: Value::Null,
        }
    }

    /// The thread of an agent of that session.
    pub fn agent(session: &str, id: &str) -> Self {
        Self {
            agent: Some(id.to_owned()),
            ..Self::main(session)
        }
    }

    /// What the person, or the spawner, said.
    pub fn prompt(self, text: &str) -> Self {
        self.record(
            "user",
            &json!({"message": {"role": "user", "content": text}}),
        )
    }

    /// What the person said, in blocks.
    pub fn prompt_of(self, blocks: &Value) -> Self {
        self.record(
            "user",
            &json!({"message": {"role": "user", "content": blocks}}),
        )
    }

    /// A response of one line that says something.
    pub fn answer(self, message: &str, text: &str, output: u64) -> Self {
        self.assistant(message, &json!({"type": "text", "text": text}), output)
    }

    /// A response's line that calls a tool.
    pub fn call(
        self,
        message: &str,
        tool_use: &str,
        tool: &str,
        input: &Value,
        output: u64,
    ) -> Self {
        self.assistant(
            message,
            &json!({"type": "tool_use", "id": tool_use, "name": tool, "input": input}),
            output,
        )
    }

    /// What a tool answered.
    pub fn result(self, tool_use: &str, text: &str) -> Self {
        self.record(
            "user",
            &json!({"message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": tool_use, "content": text}
            ]}}),
        )
    }

    /// Bytes as they stand, as one line.
    pub fn raw(mut self, line: &str) -> Self {
        self.records.push(line.to_owned());
        self
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.records.join("\n") + "\n"
    }

    fn assistant(self, message: &str, block: &Value, output: u64) -> Self {
        self.record(
            "assistant",
            &json!({"requestId": format!("req_{message}"), "message": {
                "id": message, "type": "message", "role": "assistant", "model": "claude-opus-5",
                "content": [block], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {
                    "input_tokens": 3, "output_tokens": output,
                    "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
                    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0}
                }
            }}),
        )
    }

    fn record(mut self, kind: &str, fields: &Value) -> Self {
        let number = self.records.len();
        let owner = self
            .agent
            .as_deref()
            .map_or(0, |id| id.bytes().map(u64::from).sum());
        let uuid = format!(
            "00000000-0000-4000-{:04x}-{number:012x}",
            0x8000 + owner % 0x1000
        );
        let mut line = json!({
            "parentUuid": self.last,
            "isSidechain": self.agent.is_some(),
            "type": kind,
            "uuid": uuid,
            "timestamp": format!("2026-11-24T10:{:02}:{:02}.000Z", number / 60 % 60, number % 60),
            "userType": "external",
            "cwd": "/home/user/example",
            "sessionId": self.session,
            "version": "2.1.207",
            "gitBranch": "main"
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            line[name] = value.clone();
        }
        if let Some(agent) = &self.agent {
            line["agentId"] = json!(agent);
        }
        self.last = json!(uuid);
        self.records.push(line.to_string());
        self
    }
}
