//! Sessions with arbitrary values in every field, and what their documents must hold.

use crate::values::{Recipe, display};
use jiff::Timestamp;
use sessionfs::record::Entries;
use sessionfs::session::objects::Stored;
use sessionfs::session::{
    Agent, Completeness, Copied, Evidence, Join, JoinHow, LogProblem, LogState, MainThread, Marker,
    MarkerKind, ModelCount, Role, Run, ServiceKind, Session, SourceUnused, Span, Spawn, Thread,
    ToolCount, Totals,
};
use sessionfs::session_log::State;
use sessionfs::transcript::text::Form;
use sessionfs::transcript::{
    Block, Buffers, Damage, MediaKind, Origin, Stamp, Text, Turn, TurnKind, Usage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whether a session is made with the values of its recipe, or with the letter x in their place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Hostile,
    Benign,
}

/// What a fence must hold.
#[derive(Clone, Debug)]
pub(crate) enum Fence {
    /// This text.
    Text(String),
    /// This JSON, but for white space.
    Json(String),
}

/// A fence of a turn, and whether the reduced artefact keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) fence: Fence,
    pub(crate) in_spine: bool,
}

/// A session and the fences of its turns.
pub(crate) struct Made {
    pub(crate) session: Session,
    /// By thread, then in the order of its turns and blocks.
    pub(crate) fences: Vec<Vec<Expected>>,
    /// The fence of the notes, if there are notes.
    pub(crate) notes: Option<Fence>,
}

/// Makes the session of a recipe. The structure is the same for both kinds of values.
pub(crate) fn make(recipe: &Recipe, values: Values) -> Made {
    let mut maker = Maker {
        recipe,
        values,
        taken: 0,
        chosen: 0,
        stored: Vec::new(),
        buffer: b"padding".to_vec(),
        fences: Vec::new(),
    };
    maker.session()
}

struct Maker<'a> {
    recipe: &'a Recipe,
    values: Values,
    taken: usize,
    chosen: usize,
    buffer: Vec<u8>,
    fences: Vec<Expected>,
    stored: Vec<Stored>,
}

impl Maker<'_> {
    fn choose(&mut self, n: usize) -> usize {
        // The round is mixed in, so that a second pass through the choices is another one.
        let len = self.recipe.choices.len();
        let choice = usize::from(self.recipe.choices[self.chosen % len]) + 7 * (self.chosen / len);
        self.chosen += 1;
        choice % n
    }

    fn flag(&mut self) -> bool {
        self.choose(2) == 0
    }

    fn count(&mut self) -> u64 {
        self.choose(200) as u64
    }

    /// The next value of the recipe, whatever kind of values is made.
    fn taken(&mut self) -> Vec<u8> {
        self.taken += 1;
        self.recipe.pool
            [(self.taken * 5 + self.taken / self.recipe.pool.len()) % self.recipe.pool.len()]
        .clone()
    }

    fn shown(&self, hostile: Vec<u8>) -> Vec<u8> {
        match self.values {
            Values::Hostile => hostile,
            Values::Benign if hostile.contains(&b'\n') => b"x\ny".to_vec(),
            Values::Benign => b"x".to_vec(),
        }
    }

    fn string(&mut self) -> String {
        let value = self.taken();
        String::from_utf8_lossy(&self.shown(value)).into_owned()
    }

    fn maybe_string(&mut self) -> Option<String> {
        self.flag().then(|| self.string())
    }

    fn strings(&mut self) -> Vec<String> {
        (0..self.choose(3)).map(|_| self.string()).collect()
    }

    /// As many different keys for both kinds of values.
    fn keys(&mut self) -> Vec<String> {
        let hostile: BTreeSet<String> = (0..self.choose(4))
            .map(|_| String::from_utf8_lossy(&self.taken()).into_owned())
            .collect();
        match self.values {
            Values::Hostile => hostile.into_iter().collect(),
            Values::Benign => (0..hostile.len()).map(|n| format!("x{n}")).collect(),
        }
    }

    fn store(&mut self, bytes: &[u8], form: Form) -> Text {
        let start = self.buffer.len() as u64;
        self.buffer.extend_from_slice(bytes);
        Text {
            start,
            len: bytes.len() as u32,
            buffer: 0,
            form,
        }
    }

    /// A stored text of either form, and what is shown of it.
    fn text(&mut self) -> (Text, String) {
        let value = self.taken();
        let value = self.shown(value);
        match self.choose(3) {
            0 => (self.store(&value, Form::Plain), display(&value)),
            1 => {
                let json = serde_json::to_string(&String::from_utf8_lossy(&value)).unwrap();
                let inside = &json.as_bytes()[1..json.len() - 1];
                (
                    self.store(inside, Form::JsonString),
                    display(String::from_utf8_lossy(&value).as_bytes()),
                )
            }
            // Stored as it is, escapes or not.
            _ => {
                let text = self.store(&value, Form::JsonString);
                let raw = sessionfs::transcript::text::Raw {
                    bytes: &value,
                    form: Form::JsonString,
                };
                (text, display(&raw.decode()))
            }
        }
    }

    fn value(&mut self) -> Text {
        self.text().0
    }

    fn maybe_value(&mut self) -> Option<Text> {
        self.flag().then(|| self.value())
    }

    fn expect(&mut self, fence: Fence, in_spine: bool) {
        self.fences.push(Expected { fence, in_spine });
    }

    fn blocks(&mut self, kind: TurnKind) -> Vec<Block> {
        let mut blocks = Vec::new();
        for _ in 0..self.choose(4) {
            blocks.push(match self.choose(9) {
                0 | 1 => {
                    let (text, shown) = self.text();
                    let kept = matches!(
                        kind,
                        TurnKind::User | TurnKind::Task | TurnKind::Peer | TurnKind::Assistant
                    );
                    self.expect(Fence::Text(shown), kept);
                    Block::Text(text)
                }
                2 => {
                    let text = self.flag().then(|| {
                        let (text, shown) = self.text();
                        self.expect(Fence::Text(shown), false);
                        text
                    });
                    Block::Thinking { text }
                }
                3 | 4 => Block::ToolCall {
                    id: self.maybe_value(),
                    name: self.maybe_value(),
                    input: self.input(),
                },
                5 => Block::ToolResult {
                    call: self.maybe_value(),
                    is_error: self.flag(),
                    content: (0..self.choose(3)).map(|_| self.piece()).collect(),
                },
                6 => self.media(),
                7 => Block::NotStored {
                    name: self.string(),
                    why: self.string(),
                },
                _ => self.other(),
            });
        }
        blocks
    }

    /// A piece of a tool result.
    fn piece(&mut self) -> Block {
        match self.choose(4) {
            3 => self.stored_result(),
            0 => {
                let (text, shown) = self.text();
                self.expect(Fence::Text(shown), false);
                Block::Text(text)
            }
            1 => self.media(),
            _ => self.other(),
        }
    }

    fn other(&mut self) -> Block {
        let kind = self.maybe_value();
        let (bytes, fence) = self.broken_json();
        self.expect(fence, false);
        let value = self.store(&bytes, Form::JsonValue);
        Block::Other { kind, value }
    }

    /// A result that the harness stored in a file with a hostile name.
    fn stored_result(&mut self) -> Block {
        let name = self.string();
        let bytes = self.taken();
        let bytes = self.shown(bytes);
        let at = self.store(&bytes, Form::Plain);
        let mut stored = Stored::new(&name, &bytes, at);
        stored.media_type = self.maybe_string();
        stored.is_text = self.flag();
        if stored.is_text {
            self.expect(Fence::Text(display(&bytes)), false);
        }
        self.stored.push(stored);
        Block::Stored {
            result: self.stored.len() as u32 - 1,
        }
    }

    fn media(&mut self) -> Block {
        let title = self.maybe_value();
        let media_type = self.maybe_value();
        let kind = if self.flag() {
            MediaKind::Picture
        } else {
            MediaKind::Document
        };
        let (data, base64) = match self.choose(4) {
            0 => (None, true),
            1 => {
                let bytes = self.taken();
                let text =
                    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
                (Some(self.store(text.as_bytes(), Form::JsonString)), true)
            }
            2 => (Some(self.store(b"no base64!", Form::JsonString)), true),
            _ => {
                let (text, shown) = self.text();
                self.expect(Fence::Text(shown), false);
                (Some(text), false)
            }
        };
        Block::Media {
            kind,
            media_type,
            data,
            base64,
            title,
        }
    }

    /// Bytes that are no JSON, which must be shown all the same.
    fn broken_json(&mut self) -> (Vec<u8>, Fence) {
        let value = self.taken();
        let mut bytes = self.shown(value);
        bytes.insert(0, b']');
        let fence = Fence::Text(display(&bytes));
        (bytes, fence)
    }

    fn input(&mut self) -> Option<Text> {
        match self.choose(5) {
            0 => None,
            1 => {
                let (bytes, fence) = self.broken_json();
                self.expect(fence, false);
                Some(self.store(&bytes, Form::JsonValue))
            }
            2 => {
                let text = self.string();
                self.expect(Fence::Text(display(text.as_bytes())), false);
                let json = serde_json::to_string(&text).unwrap();
                Some(self.store(json.as_bytes(), Form::JsonValue))
            }
            _ => {
                let (mut whole, mut rest, mut fields) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..self.choose(4) {
                    let key = serde_json::to_string(&self.string()).unwrap();
                    let text = self.string();
                    let value = serde_json::to_string(&text).unwrap();
                    let member = match self.choose(3) {
                        0 => format!("{key}:{{\"nested\":[{value}, 1]}}"),
                        1 => format!("{key} : -1.5e3"),
                        _ if text.contains('\n') => {
                            fields.push(Fence::Text(display(text.as_bytes())));
                            whole.push(format!("{key}: {value}"));
                            continue;
                        }
                        _ => format!("{key}:{value}"),
                    };
                    rest.push(member.clone());
                    whole.push(member);
                }
                if !rest.is_empty() || fields.is_empty() {
                    self.expect(
                        Fence::Json(display(format!("{{{}}}", rest.join(",")).as_bytes())),
                        false,
                    );
                }
                for field in fields {
                    self.expect(field, false);
                }
                Some(self.store(
                    format!("{{ {} }}", whole.join(" ,\n")).as_bytes(),
                    Form::JsonValue,
                ))
            }
        }
    }

    fn stamp(&mut self) -> Stamp {
        match self.choose(3) {
            0 => Stamp::Missing,
            1 => Stamp::At(at(self.count())),
            _ => Stamp::Unreadable(self.value()),
        }
    }

    fn turn(&mut self) -> Turn {
        let kind = KINDS[self.choose(KINDS.len())];
        Turn {
            kind,
            at: self.stamp(),
            message_id: self.maybe_value(),
            model: self.maybe_value(),
            origin: self.flag().then(|| Origin {
                kind: self.value(),
                from: self.maybe_value(),
            }),
            blocks: self.blocks(kind),
            source: self.choose(3) as u32,
            line: self.count(),
        }
    }

    fn totals(&mut self) -> Totals {
        let tool_calls = self.keys().into_iter().map(|key| {
            (
                key,
                ToolCount {
                    calls: 2,
                    errors: 1,
                },
            )
        });
        let models = self.keys().into_iter().map(|key| {
            let tokens = Usage {
                input: 1,
                ..Usage::default()
            };
            (
                key,
                ModelCount {
                    responses: 1,
                    tokens,
                },
            )
        });
        Totals {
            tool_calls: tool_calls.collect(),
            models: models.collect(),
            ..Totals::default()
        }
    }

    fn run(&mut self, threads: usize) -> Run {
        Run {
            spawned: Spawn {
                thread: self.choose(threads + 1),
                turn: self.choose(4),
                at: self.stamp(),
                tool_use_id: self.string(),
                evidence: [Evidence::Sidecar, Evidence::Text]
                    .into_iter()
                    .take(self.choose(3))
                    .collect(),
            },
            joined: self.flag().then(|| Join {
                turn: self.flag().then(|| self.choose(4)),
                at: self.stamp(),
                how: [JoinHow::Result, JoinHow::Queue][self.choose(2)],
            }),
            concurrent_turns: self.flag().then(|| self.count()),
        }
    }

    fn agent(&mut self, threads: usize) -> Agent {
        Agent {
            agent_type: self.maybe_string(),
            description: self.maybe_string(),
            depth: self.flag().then_some(1),
            parent: self.flag().then(|| self.choose(threads + 1)),
            runs: (0..self.choose(3)).map(|_| self.run(threads)).collect(),
            generations: self.strings(),
        }
    }

    fn marker(&mut self, threads: usize, turns: usize) -> Marker {
        let turn = self.choose(turns + 1).checked_sub(1);
        let what = match self.choose(4) {
            0 => MarkerKind::Spawned(self.choose(threads + 1)),
            1 => MarkerKind::Joined(self.choose(threads + 1)),
            2 => MarkerKind::Compacted {
                trigger: self.maybe_string(),
                pre_tokens: self.flag().then_some(9),
                post_tokens: self.flag().then_some(3),
                micro: self.flag(),
            },
            _ => MarkerKind::Rewound {
                from: self.choose(4),
            },
        };
        Marker { turn, what }
    }

    fn thread(&mut self, role: Role, threads: usize) -> Thread {
        let turns: Vec<Turn> = (0..self.choose(4)).map(|_| self.turn()).collect();
        let markers = (0..self.choose(3))
            .map(|_| self.marker(threads, turns.len()))
            .collect();
        Thread {
            role,
            id: self.string(),
            source: self.string(),
            turns: turns.into_iter().collect(),
            blocks: 0,
            markers,
            totals: self.totals(),
            span: Span {
                started: self.flag().then(|| at(1)),
                ended: self.flag().then(|| at(self.count())),
                active_ms: self.count(),
            },
        }
    }

    fn session(&mut self) -> Made {
        let agents = self.choose(4);
        let service = self.choose(2);
        let mains = self.choose(4).min(1);
        let count = mains + agents + service;
        let (mut threads, mut fences) = (Vec::new(), Vec::new());
        for index in 0..count {
            let role = if index < mains {
                Role::Main
            } else if index < mains + agents {
                Role::Agent(self.agent(count))
            } else {
                Role::Service(ServiceKind::Compaction)
            };
            threads.push(self.thread(role, count));
            fences.push(std::mem::take(&mut self.fences));
        }
        let notes = self.strings();
        let note_fence =
            (!notes.is_empty()).then(|| Fence::Text(display(notes.join("\n").as_bytes())));
        let by_type = |keys: Vec<String>| {
            keys.into_iter()
                .map(|key| (key, 1))
                .collect::<BTreeMap<_, _>>()
        };
        let completeness = Completeness {
            main_thread: if mains == 1 {
                MainThread::Present
            } else {
                MainThread::Missing
            },
            // Always one gap, so that the words about gaps do not depend on the values.
            incomplete_tail_bytes: 1,
            lines_unparseable: (0..self.choose(3))
                .map(|_| Damage {
                    source: self.choose(4) as u32,
                    line: self.count(),
                    offset: self.count(),
                    why: "cut by the next record",
                    recovered: self.flag(),
                })
                .collect(),
            line_types_not_shown: by_type(self.keys()),
            line_types_unknown: by_type(self.keys()),
            sources_unused: (0..self.choose(3))
                .map(|_| SourceUnused {
                    source: self.string(),
                    why: self.string(),
                })
                .collect(),
            log_problem: self
                .maybe_string()
                .map(|reason| LogProblem { offset: 7, reason }),
            notes,
            ..Completeness::default()
        };
        let session = Session {
            id: self.string(),
            harness: "claude-code",
            versions: self.strings(),
            project: self.maybe_string(),
            title: self.maybe_string(),
            sources: (0..3).map(|_| self.string()).collect(),
            threads,
            totals: self.totals(),
            copied: self.maybe_string().map(|id| Copied {
                sessions: vec![id],
                ..Copied::default()
            }),
            agent_types: by_type(self.keys()),
            span: Span::default(),
            log: self.maybe_string().map(|created_at| LogState {
                state: State::Corrupt,
                created_at: Some(created_at),
                events: 1,
                objects: 2,
                bytes: 3,
            }),
            reads: std::sync::Arc::default(),
            completeness,
            entries: Entries::default(),
            attributions: BTreeMap::new(),
            stored: std::mem::take(&mut self.stored),
            buffers: Buffers::new(vec![Arc::new(std::mem::take(&mut self.buffer))]),
        };
        Made {
            session,
            fences,
            notes: note_fence,
        }
    }
}

const KINDS: [TurnKind; 12] = [
    TurnKind::User,
    TurnKind::Task,
    TurnKind::Peer,
    TurnKind::Assistant,
    TurnKind::ToolResult,
    TurnKind::Command,
    TurnKind::Notification,
    TurnKind::Summary,
    TurnKind::Injected,
    TurnKind::Interruption,
    TurnKind::Error,
    TurnKind::Object,
];

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_796_000_000 + second.cast_signed()).unwrap()
}
