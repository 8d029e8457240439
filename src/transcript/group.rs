//! The lines of one thread as its turns and responses.
//!
//! A turn stands where its first line stands; every later line of the same response adds its blocks to it, whatever stands
//! between them (`spec/turns.md`). The lines come without copies: what is a copy is decided where the whole session is seen.

use foldhash::HashMap;

use super::line::{Fact, Line, ResponseLine, What};
use super::text::{Buffers, Form, Raw, Text};
use super::thread::{Response, ResponseKey, Stamp, Turn, TurnKind};
use super::turns::Turns;

/// One thread's lines, grouped.
#[derive(Clone, Debug, Default)]
pub struct Grouped {
    /// The turns, in the order of each one's first line.
    pub turns: Turns,
    /// The responses, in the order of each one's first line.
    pub responses: Vec<Response>,
    /// Every compaction, with the turn that it follows.
    pub compactions: Vec<(Option<usize>, Compaction)>,
    /// What the lines tell about agents and background work, in order.
    pub facts: Vec<PlacedFact>,
    /// Every line's identity, for what is decided by ancestry.
    pub lines: Vec<PlacedLine>,
    answers: HashMap<(bool, ResponseKey), Answer>,
    /// The lines of a response follow one another, as a rule: most are those of the one before, whose key need not be made.
    latest: Option<Answer>,
}

/// A compaction of the context, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// What set it off.
    pub trigger: Option<Text>,
    /// Tokens before.
    pub pre_tokens: Option<u64>,
    /// Tokens after.
    pub post_tokens: Option<u64>,
    /// Whether only tool output was dropped.
    pub micro: bool,
}

/// A fact and where its line stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFact {
    /// The line's turn; none where the line is no turn.
    pub turn: Option<usize>,
    /// How many turns began before the line or with it: where it stands even if it is no turn.
    pub after: usize,
    /// When the line was written.
    pub at: Stamp,
    /// What it tells.
    pub fact: Fact,
}

/// A line's identity and turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedLine {
    /// The line's uuid.
    pub uuid: Option<Text>,
    /// The line that it follows.
    pub parent: Option<Text>,
    /// Its turn; none where it is no turn.
    pub turn: Option<usize>,
    /// When it was written.
    pub at: Stamp,
}

/// Groups the lines of one thread. In an agent's thread a prompt is a task.
pub fn group(lines: Vec<Line>, buffers: &Buffers, agent: bool) -> Grouped {
    let mut grouped = Grouped::expecting(lines.len());
    for line in lines {
        grouped.push(line, buffers, agent);
    }
    grouped
}

/// Where a line's blocks went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The turn.
    pub turn: usize,
    /// The place of the first of them among the turn's blocks.
    pub from: usize,
}

/// A response as far as its lines were seen.
#[derive(Clone, Copy, Debug)]
struct Answer {
    error: bool,
    message_id: Option<Text>,
    turn: usize,
    response: usize,
}

impl Answer {
    /// Whether a line's ID alone says that it is one of this response's.
    fn is_of(&self, line: &ResponseLine, buffers: &Buffers) -> bool {
        let same = |id: Text| Some(buffers.raw(id)) == self.message_id.map(|id| buffers.raw(id));
        self.error == line.error && line.message_id.is_some_and(same)
    }
}

impl Grouped {
    /// Nothing yet, with room for so many lines.
    pub fn expecting(lines: usize) -> Self {
        Self {
            lines: Vec::with_capacity(lines),
            ..Self::default()
        }
    }

    /// Takes up the next line of the thread; in an agent's, a prompt is a task. Says where the line's blocks went, if it is part of
    /// a turn.
    pub fn push(&mut self, line: Line, buffers: &Buffers, agent: bool) -> Option<Added> {
        let Line {
            source,
            number,
            uuid,
            parent,
            at,
            what,
            facts,
            ..
        } = line;
        let added = match what {
            What::Turn {
                mut kind,
                blocks,
                origin,
            } => {
                if agent && kind == TurnKind::User {
                    kind = TurnKind::Task;
                }
                let (message_id, model) = (None, None);
                self.turns.push(Turn {
                    kind,
                    at,
                    message_id,
                    model,
                    origin,
                    blocks,
                    source,
                    line: number,
                });
                let turn = self.turns.len() - 1;
                Some(Added { turn, from: 0 })
            }
            What::Response(response) => {
                let answer = self.answer(&response, uuid, buffers, at, source, number);
                if !response.error {
                    self.responses[answer.response].add(&response, buffers);
                }
                self.turns.get_mut(answer.turn).map(|turn| {
                    let from = turn.blocks.len();
                    turn.blocks.extend(response.blocks);
                    Added {
                        turn: answer.turn,
                        from,
                    }
                })
            }
            What::Compaction {
                trigger,
                pre_tokens,
                post_tokens,
                micro,
            } => {
                let after = self.turns.len().checked_sub(1);
                self.compactions.push((
                    after,
                    Compaction {
                        trigger,
                        pre_tokens,
                        post_tokens,
                        micro,
                    },
                ));
                None
            }
            What::Aside(_) => None,
        };
        let turn = added.map(|added| added.turn);
        let after = self.turns.len();
        let facts = facts.into_iter().map(|fact| PlacedFact {
            turn,
            after,
            at,
            fact,
        });
        self.facts.extend(facts);
        self.lines.push(PlacedLine {
            uuid,
            parent,
            turn,
            at,
        });
        added
    }

    /// The response that a line belongs to, taken up with this line if it is the first.
    fn answer(
        &mut self,
        line: &ResponseLine,
        uuid: Option<Text>,
        buffers: &Buffers,
        at: Stamp,
        source: u32,
        number: u64,
    ) -> Answer {
        let (turns, responses) = (&mut self.turns, &mut self.responses);
        let answer = match self.latest {
            Some(answer) if answer.is_of(line, buffers) => answer,
            _ => {
                let key = response_key(line, uuid, buffers, source, number);
                let key = (line.error, key);
                *self.answers.entry(key).or_insert_with_key(|(_, key)| {
                    let answer = Answer {
                        error: line.error,
                        message_id: line.message_id,
                        turn: turns.len(),
                        response: responses.len(),
                    };
                    turns.push(opening(line, at, source, number));
                    if !line.error {
                        responses.push(Response::new(key.clone()));
                    }
                    answer
                })
            }
        };
        self.latest = Some(answer);
        answer
    }
}

/// The turn that the first line of a response opens, without its blocks.
fn opening(line: &ResponseLine, at: Stamp, source: u32, number: u64) -> Turn {
    Turn {
        kind: if line.error {
            TurnKind::Error
        } else {
            TurnKind::Assistant
        },
        at,
        message_id: line.message_id,
        model: line.model,
        origin: None,
        blocks: Vec::new(),
        source,
        line: number,
    }
}

impl Response {
    fn new(key: ResponseKey) -> Self {
        let (usage, model) = (None, None);
        Self {
            key,
            usage,
            model,
            has_stop_reason: false,
            usage_differs: false,
            usage_lines: 0,
        }
    }

    /// Takes up one more line. The line with the most output tokens speaks for the response, the later one at a tie.
    fn add(&mut self, line: &ResponseLine, buffers: &Buffers) {
        self.has_stop_reason |= line.has_stop_reason;
        let Some(usage) = line.usage else {
            if self.usage.is_none() {
                self.set_model(line, buffers);
            }
            return;
        };
        self.usage_lines += 1;
        let best = self.usage.is_none_or(|best| usage.output >= best.output);
        self.usage_differs |= self.usage.is_some_and(|known| known != usage);
        if best {
            self.usage = Some(usage);
            self.set_model(line, buffers);
        }
    }

    fn set_model(&mut self, line: &ResponseLine, buffers: &Buffers) {
        let model = line.model.map(|model| buffers.raw(model));
        // All lines of a response say the same, as a rule.
        let same = |model: Raw<'_>| {
            let known = self.model.as_ref().map(String::as_bytes);
            model.form == Form::Shown && known == Some(model.bytes)
        };
        if !model.is_some_and(same) {
            self.model = model.map(Raw::to_text);
        }
    }
}

fn response_key(
    line: &ResponseLine,
    uuid: Option<Text>,
    buffers: &Buffers,
    source: u32,
    number: u64,
) -> ResponseKey {
    let text = |text: Text| buffers.raw(text).to_text();
    match (line.message_id, line.request_id, uuid) {
        (Some(id), _, _) => ResponseKey::Message(text(id)),
        (None, Some(id), _) => ResponseKey::Request(text(id)),
        (None, None, Some(uuid)) => ResponseKey::LineUuid(text(uuid)),
        (None, None, None) => ResponseKey::Line {
            source,
            line: number,
        },
    }
}
