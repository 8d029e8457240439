//! What the record of messages proves of each prompt, and nothing more.
//!
//! `spec/record.md`, "What the reader may claim", is the source of the rules. No field of an envelope decides anything, and nothing is
//! joined from a sender's entry to a receiver's.
//!
//! The table's rows meet where one message matches a turn that the record does not cover, or that a damaged entry might be: a
//! second message of the same text may then be the one that nobody recorded. A session without a start entry says nothing about
//! what it received (`seeds/000_…txt`, startEntry), so such a turn is *unknown*, and the message is named as what it may be. The same
//! holds for a turn that is more than a message, which is a text and nothing else.

mod coverage;

use crate::record::{Digested, Entries, Entry, Outcome, Side};
use crate::store::{self, SessionFiles, SourceFile};
use crate::transcript::claude_code::unwrapped;
use crate::transcript::{Block, Buffers, Turn, TurnKind, Turns};
use foldhash::{HashMap, HashMapExt as _};
use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;
use std::collections::BTreeMap;

use super::{Role, Session, TurnIndex, last_part};
use coverage::Coverage;

/// Candidates of one turn that are named; further ones are counted.
const MOST_NAMED: usize = 32;

/// How much earlier than its entry a turn may be stamped.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// Index into [`Entries::list`].
pub type EntryIndex = usize;

/// What the record says of a `user` turn of the main thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// Exactly one received message matches this turn, and this turn alone.
    Peer(EntryIndex),
    /// Several messages, or several turns, match; none is chosen.
    Ambiguous(Candidates),
    /// The record covers the time, and nothing in it matches. It is no evidence that the person wrote the turn.
    NothingRecorded,
    /// The record cannot say. The message that matches, if one does, is named and not chosen.
    Unknown(Why, Option<EntryIndex>),
}

/// What a turn may have to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The messages that match the turn, in order.
    pub entries: Vec<EntryIndex>,
    /// The other turns that match one of them, in order.
    pub turns: Vec<TurnIndex>,
    /// Further messages and turns, which are too many to be named.
    pub more: u64,
}

/// Why the record cannot say what a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no start entry: the session may have recorded nothing.
    NoStart,
    /// The turn is before the first start entry.
    BeforeStart,
    /// The turn's time is not known.
    NoTime,
    /// A damaged entry might be the message.
    Damaged,
    /// The turn has a message's text, and a picture, a document or another text beside it.
    MoreThanText,
}

impl Attribution {
    /// Its name in the artefacts and in `turns.ndjson`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Peer(_) => "peer",
            Self::Ambiguous(_) => "ambiguous",
            Self::NothingRecorded => "nothing recorded",
            Self::Unknown(..) => "unknown",
        }
    }
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoStart => "the record holds no start of this session",
            Self::BeforeStart => "this turn is before the session began to record",
            Self::NoTime => "this turn says no time",
            Self::Damaged => "a damaged entry of the record might be this message",
            Self::MoreThanText => "this turn holds more than a message's text",
        }
    }
}

/// Reads a session's record of messages and says what it proves.
pub(super) fn take_in_record(files: &SessionFiles, session: &mut Session) {
    let read = files.record.par_iter().map(|file| {
        let bytes = store::read(&file.path, file.fingerprint.size);
        (file.base_name(), bytes.map_err(|error| error.reason()))
    });
    let unread = files.record_unread.iter().cloned();
    let unread = unread.map(|(name, why)| (name, Err(why)));
    let folder = files.record.first().map(SourceFile::folder_name);
    let entries = Entries::of(
        &folder.unwrap_or_default(),
        read.collect::<Vec<_>>().into_iter().chain(unread),
    );
    if session.project.is_none() {
        let directory = entries.working_directory();
        session.project = directory.as_deref().and_then(last_part).map(str::to_owned);
    }
    let mut threads = session.threads.iter();
    let main = threads.find(|thread| matches!(thread.role, Role::Main));
    let turns = main.map(|main| main.turns.clone()).unwrap_or_default();
    session.attributions = attribute(&turns, &session.buffers, &entries);
    session.completeness.record_entries_damaged = entries.damaged.len() as u64;
    session.entries = entries;
}

/// What the record says of each `user` turn of a main thread.
fn attribute(
    turns: &Turns,
    buffers: &Buffers,
    entries: &Entries,
) -> BTreeMap<TurnIndex, Attribution> {
    let has_candidates = entries.received().any(|(_, entry)| is_candidate(entry));
    let asked = turns.iter().enumerate().filter(|(_, turn)| {
        // A turn that the transcript marks as a peer's may be what an entry is about, and is no more to be explained.
        matches!(turn.kind, TurnKind::User | TurnKind::Peer)
    });
    let prompts: Vec<Prompt> = asked
        .map(|(turn, it)| Prompt {
            turn,
            at: it.at.at(),
            is_user: it.kind == TurnKind::User,
            is_text_alone: matches!(&*it.blocks, [] | [Block::Text(_)]),
            texts: if has_candidates {
                texts(it, buffers)
            } else {
                Vec::new()
            },
        })
        .collect();
    explain(&prompts, entries)
}

/// A turn that a message may have become.
#[derive(Clone, Debug)]
struct Prompt {
    turn: TurnIndex,
    at: Option<Timestamp>,
    is_user: bool,
    /// Whether it is one text and nothing else, as a message is.
    is_text_alone: bool,
    /// Its text as it stands and, where it is in the harness's wrapper, what is inside; of several texts each, and all together.
    texts: Vec<Digested>,
}

fn texts(turn: &Turn, buffers: &Buffers) -> Vec<Digested> {
    let texts = turn.blocks.iter().filter_map(|block| match block {
        Block::Text(part) => Some(buffers.raw(*part).decode()),
        _ => None,
    });
    let mut texts: Vec<_> = texts.collect();
    // A picture alone has no text; a turn of nothing is the empty one.
    if texts.len() > 1 || turn.blocks.is_empty() {
        texts.push(texts.concat().into());
    }
    let mut digests = Vec::new();
    for text in &texts {
        digests.extend(
            std::iter::once(&**text)
                .chain(unwrapped(text))
                .map(Digested::of),
        );
    }
    digests.sort_unstable();
    digests.dedup();
    digests
}

/// Whether a turn may be this entry: a rejected or consumed message became none.
fn is_candidate(entry: &Entry) -> bool {
    let side = entry.message().map(|message| &message.side);
    let queued = |outcome: &Outcome| matches!(outcome, Outcome::Queued | Outcome::Unknown);
    matches!(side, Some(Side::Received { outcome }) if queued(outcome))
}

/// Messages and turns of one text.
#[derive(Default)]
struct Alike {
    /// Each with the earliest time of a turn that it may be, by that time.
    entries: Vec<(Timestamp, EntryIndex)>,
    /// By time; those without one, which may be any message, first.
    turns: Vec<(Option<Timestamp>, TurnIndex)>,
}

impl Alike {
    /// The messages that a turn of this time may be.
    fn entries_until(&self, at: Timestamp) -> &[(Timestamp, EntryIndex)] {
        &self.entries[..self.entries.partition_point(|&(from, _)| from <= at)]
    }

    /// The turns that a message may be that no turn before this time is: those without a time, and those since.
    fn turns_since(&self, from: Timestamp) -> impl Iterator<Item = TurnIndex> + Clone {
        let timeless = self.turns.partition_point(|(at, _)| at.is_none());
        let since = self.turns.partition_point(|&(at, _)| at < Some(from));
        let (without, with) = (&self.turns[..timeless], &self.turns[since.max(timeless)..]);
        without.iter().chain(with).map(|&(_, turn)| turn)
    }
}

fn explain(prompts: &[Prompt], entries: &Entries) -> BTreeMap<TurnIndex, Attribution> {
    let mut alike: HashMap<Digested, Alike> = HashMap::new();
    for (index, entry) in entries.received().filter(|(_, entry)| is_candidate(entry)) {
        if let Some(digest) = entry.digest() {
            let from = entry.at.checked_sub(SLACK).unwrap_or(Timestamp::MIN);
            alike.entry(digest).or_default().entries.push((from, index));
        }
    }
    for prompt in prompts {
        for text in &prompt.texts {
            if let Some(alike) = alike.get_mut(text) {
                alike.turns.push((prompt.at, prompt.turn));
            }
        }
    }
    for group in alike.values_mut() {
        group.entries.sort_unstable();
        group.turns.sort_unstable();
    }
    let record = Coverage::of(entries);
    let user = prompts.iter().filter(|prompt| prompt.is_user);
    user.map(|prompt| {
        let matching = prompt.texts.iter().filter_map(|text| alike.get(text));
        let matched = prompt
            .at
            .and_then(|at| matched(prompt.turn, at, &matching.collect::<Vec<_>>()));
        let more = (!prompt.is_text_alone).then_some(Why::MoreThanText);
        let is = match (matched, record.doubt(prompt.at)) {
            (None, None) => Attribution::NothingRecorded,
            (None, Some(why)) => Attribution::Unknown(why, None),
            (Some(Attribution::Peer(entry)), doubt) => match doubt.or(more) {
                None => Attribution::Peer(entry),
                Some(why) => Attribution::Unknown(why, Some(entry)),
            },
            (Some(matched), _) => matched,
        };
        (prompt.turn, is)
    })
    .collect()
}

/// What a turn of this time is by the messages with its texts; none if none matches.
fn matched(turn: TurnIndex, at: Timestamp, alike: &[&Alike]) -> Option<Attribution> {
    let groups = alike.iter().map(|group| (group, group.entries_until(at)));
    let groups: Vec<_> = groups.filter(|(_, entries)| !entries.is_empty()).collect();
    let entries = || {
        groups
            .iter()
            .flat_map(|(_, entries)| entries.iter().map(|&(_, entry)| entry))
    };
    // Of a group's messages the earliest one may be the most turns.
    let turns = || {
        let since = groups
            .iter()
            .map(|(group, entries)| group.turns_since(entries[0].0));
        since.flatten().filter(|&other| other != turn)
    };
    let (first, several) = {
        let mut entries = entries();
        (entries.next()?, entries.next().is_some())
    };
    if !several && turns().next().is_none() {
        return Some(Attribution::Peer(first));
    }
    let mut candidates = Candidates {
        entries: entries().take(MOST_NAMED).collect(),
        turns: turns().take(MOST_NAMED).collect(),
        more: 0,
    };
    let named = candidates.entries.len() + candidates.turns.len();
    let counted: usize = groups.iter().map(|(_, entries)| entries.len()).sum();
    candidates.more = (counted + turns().count() - named) as u64;
    candidates.entries.sort_unstable();
    candidates.turns.sort_unstable();
    candidates.turns.dedup();
    Some(Attribution::Ambiguous(candidates))
}

#[cfg(test)]
mod tests;
