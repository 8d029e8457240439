//! One line of a transcript, read: what it says, who wrote it when, and what it tells about other threads.
//!
//! These types are what a harness's reader hands on; nothing after it knows the harness's fields.

use super::lines::Found;
use super::text::Text;
use super::thread::{Block, Origin, Stamp, TurnKind, Usage};

/// The lines of one file.
#[derive(Clone, Debug, Default)]
pub struct FileLines {
    /// Every record in file order, repeated ones included, but for those that a pause has taken.
    pub lines: Vec<Line>,
    /// Damage and the unfinished tail.
    pub found: Found,
    /// Token counts that were not plain numbers.
    pub counts_not_numbers: u64,
    /// Keys that stood twice in one object; the first holds.
    pub duplicate_keys: u64,
    /// Distinct harness versions, in order of appearance.
    pub versions: Vec<Text>,
    /// Distinct working directories, in order of appearance.
    pub working_directories: Vec<Text>,
    /// Distinct session IDs, in order of appearance.
    pub session_ids: Vec<Text>,
    /// Titles, in order of appearance.
    pub titles: Vec<Title>,
    /// The first text of a prompt that is not blank.
    pub first_prompt: Option<Text>,
    /// The newest statement of which line is the live end of the conversation.
    pub live_leaf: Option<Text>,
    /// The session of which lines are said to be a copy.
    pub forked_from: Option<Text>,
    /// The bytes that all these texts point into.
    pub texts: Vec<u8>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index into the session's list of sources.
    pub source: u32,
    /// Number of its line, from 1.
    pub number: u64,
    /// The identity of the record, whatever file it stands in.
    pub uuid: Option<Text>,
    /// The hash of the uuid ([`super::identity`]); nothing where there is none.
    pub uuid_hash: u64,
    /// The record that it follows.
    pub parent: Option<Text>,
    /// When it was written.
    pub at: Stamp,
    /// Whether it belongs to a thread beside the main one.
    pub sidechain: bool,
    /// What it says.
    pub what: What,
    /// What it tells about agents and background work.
    pub facts: Vec<Fact>,
}

impl Line {
    /// Calls `each` for every text of the line.
    pub fn each_text(&mut self, mut each: impl FnMut(&mut Text)) {
        let each = &mut each;
        [&mut self.uuid, &mut self.parent]
            .into_iter()
            .flatten()
            .for_each(&mut *each);
        if let Stamp::Unreadable(text) = &mut self.at {
            each(text);
        }
        self.what.each_text(each);
        for fact in &mut self.facts {
            fact.each_text(each);
        }
    }
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A turn of its own.
    Turn {
        /// Its kind; a prompt is [`TurnKind::User`] here, and a task only in an agent's thread.
        kind: TurnKind,
        /// Its content.
        blocks: Vec<Block>,
        /// What the line says of its origin.
        origin: Option<Origin>,
    },
    /// A line of a model's response; all lines with one ID are one turn.
    Response(ResponseLine),
    /// The context was compacted here.
    Compaction {
        /// What set it off, as recorded.
        trigger: Option<Text>,
        /// Tokens before.
        pre_tokens: Option<u64>,
        /// Tokens after.
        post_tokens: Option<u64>,
        /// Whether only tool output was dropped.
        micro: bool,
    },
    /// No turn.
    Aside(Aside),
}

impl What {
    /// The blocks of a turn's line.
    pub fn blocks_mut(&mut self) -> Option<&mut Vec<Block>> {
        match self {
            Self::Turn { blocks, .. } => Some(blocks),
            Self::Response(response) => Some(&mut response.blocks),
            Self::Compaction { .. } | Self::Aside(_) => None,
        }
    }

    fn each_text(&mut self, each: &mut impl FnMut(&mut Text)) {
        match self {
            Self::Turn {
                kind: _,
                blocks,
                origin,
            } => {
                if let Some(Origin { kind, from }) = origin {
                    each(kind);
                    from.iter_mut().for_each(&mut *each);
                }
                blocks_texts(blocks, each);
            }
            Self::Response(response) => {
                let ResponseLine {
                    message_id,
                    request_id,
                    model,
                    ..
                } = response;
                [message_id, request_id, model]
                    .into_iter()
                    .flatten()
                    .for_each(&mut *each);
                blocks_texts(&mut response.blocks, each);
            }
            Self::Compaction { trigger, .. } => trigger.iter_mut().for_each(each),
            Self::Aside(aside) => aside.kind.iter_mut().for_each(each),
        }
    }
}

fn blocks_texts(blocks: &mut [Block], each: &mut impl FnMut(&mut Text)) {
    for block in blocks {
        block.each_text(each);
        // A result holds no further results.
        if let Block::ToolResult { content, .. } = block {
            for piece in content {
                piece.each_text(each);
            }
        }
    }
}

/// One line of a model's response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseLine {
    /// Whether the harness wrote it itself: an API error, a synthetic answer. Then it is no response.
    pub error: bool,
    /// The provider's message ID.
    pub message_id: Option<Text>,
    /// The request ID.
    pub request_id: Option<Text>,
    /// The model.
    pub model: Option<Text>,
    /// The usage that this line gives.
    pub usage: Option<Usage>,
    /// Whether it has a stop reason.
    pub has_stop_reason: bool,
    /// Its content.
    pub blocks: Vec<Block>,
}

/// A line that is no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// What its type is a part of, such as `system/`; empty for a type of its own.
    pub family: &'static str,
    /// The type as recorded; none where there is none.
    pub kind: Option<Text>,
    /// Whether this program knows the type, and that it holds nothing to show.
    pub known: bool,
}

/// What a line tells about agents and background work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A structured result names an agent. Only on a line with one result.
    AgentResult {
        /// The call that the line's result answers.
        call: Text,
        /// The agent.
        agent: Text,
        /// Whether the agent was only started and its answer comes later.
        launched: bool,
    },
    /// A structured result says that a workflow was started: its agents lie in a folder of the run's name.
    RunLaunched {
        /// The call that the line's result answers.
        call: Text,
        /// The run.
        run: Text,
        /// The ID under which its end is notified.
        task: Option<Text>,
    },
    /// A structured result says that a team member was started. It names no file, only the member.
    TeammateSpawned {
        /// The call that the line's result answers.
        call: Text,
        /// The member's name.
        name: Text,
    },
    /// A team member's message.
    TeammateMessage {
        /// The member's name.
        from: Text,
        /// Whether it is a record of the host, such as news that the member is idle, and nothing that the member said.
        is_record: bool,
    },
    /// A poll for background work gave its end.
    Poll {
        /// The work's ID; an agent's own ID where it is one.
        task: Text,
    },
    /// News of background work.
    Notification(Notification),
    /// A progress line names an agent and the call that started it.
    Progress {
        /// The call.
        call: Text,
        /// The agent.
        agent: Text,
    },
}

impl Fact {
    fn each_text(&mut self, each: &mut impl FnMut(&mut Text)) {
        match self {
            Self::AgentResult { call, agent, .. } | Self::Progress { call, agent } => {
                each(call);
                each(agent);
            }
            Self::RunLaunched { call, run, task } => {
                each(call);
                each(run);
                task.iter_mut().for_each(each);
            }
            Self::TeammateSpawned { call, name } => {
                each(call);
                each(name);
            }
            Self::TeammateMessage { from, .. } => each(from),
            Self::Poll { task } => each(task),
            Self::Notification(_) => {}
        }
    }
}

/// News of background work, in the thread or in the queue before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// The work's ID; an agent's own ID where it is one.
    pub task: String,
    /// The call that started it.
    pub call: Option<String>,
    /// `completed`, `failed`, `killed` or `stopped`; none for an event of work that goes on.
    pub status: Option<String>,
}

/// A title, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Title {
    /// Who gave it.
    pub by: TitleBy,
    /// The title.
    pub text: Text,
    /// For a summary, the line that it is about: it may be another session's.
    pub leaf: Option<Text>,
}

/// Who gave a title, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleBy {
    /// A summary of a conversation.
    Summary,
    /// The harness's own.
    Harness,
    /// The person's.
    Person,
}
