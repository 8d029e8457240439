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
use crate::transcript::{Block, Buffers, Turn, TurnKind};
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
    let turns = main.map_or(&[][..], |main| &main.turns);
    session.attributions = attribute(turns, &session.buffers, &entries);
    session.completeness.record_entries_damaged = entries.damaged.len() as u64;
    session.entries = entries;
}

/// What the record says of each `user` turn of a main thread.
fn attribute(
    turns: &[Turn],
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
mod tests {
    use super::*;

    /// A clock time of the day on which all this happens.
    fn at(clock: &str) -> Timestamp {
        format!("2026-11-30T{clock}Z").parse().unwrap()
    }

    fn file(clock: &str, body: &str) -> (String, Result<Vec<u8>, String>) {
        let name = format!("2026-11-30T{}Z-1.json", clock.replace(':', ""));
        let whose = format!(r#"{{"sessionId":"s","at":"2026-11-30T{clock}Z","#);
        (name, Ok(body.replacen('{', &whose, 1).into_bytes()))
    }

    fn start(clock: &str) -> (String, Result<Vec<u8>, String>) {
        file(clock, r#"{"kind":"start"}"#)
    }

    fn received(clock: &str, text: &str) -> (String, Result<Vec<u8>, String>) {
        received_as(clock, text, "queued")
    }

    fn received_as(clock: &str, text: &str, outcome: &str) -> (String, Result<Vec<u8>, String>) {
        let body = format!(
            r#"{{"kind":"message","side":"received","peer":{{"as":"p"}},"text":"{text}","outcome":"{outcome}"}}"#
        );
        file(clock, &body)
    }

    fn said(turn: TurnIndex, clock: &str, texts: &[&str]) -> Prompt {
        Prompt {
            turn,
            at: Some(at(clock)),
            is_user: true,
            is_text_alone: true,
            texts: texts
                .iter()
                .map(|text| Digested::of(text.as_bytes()))
                .collect(),
        }
    }

    fn explained(
        files: &[(String, Result<Vec<u8>, String>)],
        prompts: &[Prompt],
    ) -> Vec<Attribution> {
        let entries = Entries::of("s", files.to_vec());
        explain(prompts, &entries).into_values().collect()
    }

    fn one(files: &[(String, Result<Vec<u8>, String>)], prompt: Prompt) -> Attribution {
        explained(files, &[prompt]).remove(0)
    }

    #[test]
    fn one_message_and_one_turn_with_its_text_are_a_peers() {
        let files = [start("10:00:00"), received("10:00:05", "go on")];
        assert_eq!(
            one(&files, said(3, "10:00:06", &["go on"])),
            Attribution::Peer(1)
        );
        // Long after it was queued, since the agent was busy.
        assert_eq!(
            one(&files, said(3, "18:00:00", &["go on"])),
            Attribution::Peer(1)
        );
        // In the harness's wrapper.
        let wrapped = said(3, "10:00:06", &["<wrapper>go on</wrapper>", "go on"]);
        assert_eq!(one(&files, wrapped), Attribution::Peer(1));
    }

    #[test]
    fn one_message_is_named_and_not_chosen_where_another_may_have_gone_unrecorded() {
        let ask = |files: &[_]| one(files, said(3, "10:00:06", &["go on"]));
        let message = received("10:00:05", "go on");
        assert_eq!(
            ask(std::slice::from_ref(&message)),
            Attribution::Unknown(Why::NoStart, Some(0))
        );
        assert_eq!(
            ask(&[message.clone(), start("10:00:07")]),
            Attribution::Unknown(Why::BeforeStart, Some(0))
        );
        let damaged = |clock| file(clock, r#"{"kind":"mess"#);
        let files = |other| [start("10:00:00"), message.clone(), other];
        assert_eq!(
            ask(&files(damaged("10:00:04"))),
            Attribution::Unknown(Why::Damaged, Some(1))
        );
        // It was written after the turn.
        assert_eq!(ask(&files(damaged("10:00:09"))), Attribution::Peer(1));
        // Two are ambiguous whatever else might be.
        let two = [message.clone(), received("10:00:05.5", "go on")];
        assert!(matches!(ask(&two), Attribution::Ambiguous(_)));
    }

    #[test]
    fn a_turn_that_is_more_than_a_text_is_no_message() {
        let files = [start("10:00:00"), received("10:00:05", "go on")];
        let more = Prompt {
            is_text_alone: false,
            ..said(3, "10:00:06", &["go on"])
        };
        assert_eq!(
            one(&files, more.clone()),
            Attribution::Unknown(Why::MoreThanText, Some(1))
        );
        // It may be the message, so that another turn is not this one alone.
        let both = explained(&files, &[more, said(4, "10:00:08", &["go on"])]);
        assert!(
            both.iter()
                .all(|is| matches!(is, Attribution::Ambiguous(_)))
        );
    }

    #[test]
    fn a_turn_may_be_two_seconds_earlier_and_no_more() {
        let files = [start("10:00:00"), received("10:00:05.000", "go on")];
        let ask = |clock| one(&files, said(0, clock, &["go on"]));
        assert_eq!(ask("10:00:03.000"), Attribution::Peer(1));
        assert_eq!(ask("10:00:02.999"), Attribution::NothingRecorded);
    }

    #[test]
    fn a_text_is_the_same_byte_for_byte_or_another() {
        let files = [start("10:00:00"), received("10:00:05", "go on")];
        for text in ["go on ", "Go on", "go on\n", ""] {
            let asked = said(0, "10:00:06", &[text]);
            assert_eq!(one(&files, asked), Attribution::NothingRecorded, "{text:?}");
        }
        let empty = [start("10:00:00"), received("10:00:05", "")];
        assert_eq!(
            one(&empty, said(0, "10:00:06", &[""])),
            Attribution::Peer(1)
        );
    }

    #[test]
    fn what_was_rejected_or_consumed_became_no_turn() {
        for (outcome, expected) in [
            ("queued", Attribution::Peer(1)),
            ("unknown", Attribution::Peer(1)),
            ("of a later version", Attribution::Peer(1)),
            ("rejected", Attribution::NothingRecorded),
            ("consumed", Attribution::NothingRecorded),
        ] {
            let files = [start("10:00:00"), received_as("10:00:05", "go on", outcome)];
            assert_eq!(
                one(&files, said(0, "10:00:06", &["go on"])),
                expected,
                "{outcome}"
            );
        }
        // What this session sent is nothing that it received.
        let sent = r#"{"kind":"message","side":"sent","text":"go on","isQueued":true}"#;
        let files = [start("10:00:00"), file("10:00:05", sent)];
        let asked = said(0, "10:00:06", &["go on"]);
        assert_eq!(one(&files, asked), Attribution::NothingRecorded);
    }

    #[test]
    fn several_messages_or_turns_are_ambiguous_and_all_are_named() {
        let files = [
            start("10:00:00"),
            received("10:00:05", "yes"),
            received("10:00:07", "yes"),
            received("11:00:00", "yes"),
        ];
        let named = |entries: &[usize], turns: &[usize]| {
            Attribution::Ambiguous(Candidates {
                entries: entries.to_vec(),
                turns: turns.to_vec(),
                more: 0,
            })
        };
        // Two peers with one text.
        assert_eq!(
            one(&files, said(4, "10:00:08", &["yes"])),
            named(&[1, 2], &[])
        );
        // One message, two turns, and one before both, which is another's.
        let two = [
            said(1, "10:00:01", &["yes"]),
            said(2, "10:00:06", &["yes"]),
            said(5, "10:30:00", &["yes"]),
        ];
        let answers = explained(&files[..2], &two);
        let expected = [
            Attribution::NothingRecorded,
            named(&[1], &[5]),
            named(&[1], &[2]),
        ];
        assert_eq!(answers, expected);
        // The later message is the later turn's alone, but the earlier one may be it too.
        let answers = explained(
            &files[1..3],
            &[said(0, "10:00:05", &["yes"]), said(1, "10:00:08", &["yes"])],
        );
        assert_eq!(answers, [named(&[0, 1], &[1]), named(&[0, 1], &[0])]);
        // A turn that the transcript marks as a peer's, and one without a time, may be the message.
        let marked = Prompt {
            is_user: false,
            ..said(1, "10:00:06", &["yes"])
        };
        let asked = said(2, "10:00:09", &["yes"]);
        assert_eq!(
            explained(&files[..2], &[marked, asked.clone()]),
            [named(&[1], &[1])]
        );
        let timeless = Prompt {
            at: None,
            ..said(1, "10:00:06", &["yes"])
        };
        let answers = explained(&files[..2], &[timeless, asked]);
        assert_eq!(
            answers,
            [Attribution::Unknown(Why::NoTime, None), named(&[1], &[1])]
        );
        // As it stands it is one message, without the wrapper another.
        let files = [
            received("10:00:05", "<w>yes</w>"),
            received("10:00:06", "yes"),
        ];
        let wrapped = said(0, "10:00:08", &["<w>yes</w>", "yes"]);
        assert_eq!(one(&files, wrapped), named(&[0, 1], &[]));
    }

    #[test]
    fn too_many_candidates_are_counted() {
        let files: Vec<_> = (0..40)
            .map(|n| received(&format!("10:00:05.{n:03}"), "ok"))
            .collect();
        let prompts: Vec<_> = (0..50)
            .map(|n| said(n, &format!("11:00:00.{n:03}"), &["ok"]))
            .collect();
        let Attribution::Ambiguous(named) = &explained(&files, &prompts)[7] else {
            panic!("ambiguous");
        };
        assert_eq!((named.entries.len(), named.turns.len()), (32, 32));
        assert_eq!(named.more, 40 + 49 - 64);
    }

    #[test]
    fn nothing_recorded_needs_coverage_of_the_time() {
        let ask = |files: &[_], clock| one(files, said(0, clock, &["mine"]));
        let files = [
            start("10:00:00"),
            received("10:00:05", "theirs"),
            start("12:00:00"),
        ];
        assert_eq!(ask(&files, "10:00:00"), Attribution::NothingRecorded);
        assert_eq!(ask(&files, "11:00:00"), Attribution::NothingRecorded);
        // A resumed session's copied turns are before its own start.
        assert_eq!(
            ask(&files, "09:59:59.999"),
            Attribution::Unknown(Why::BeforeStart, None)
        );
        assert_eq!(
            ask(&files[1..2], "11:00:00"),
            Attribution::Unknown(Why::NoStart, None)
        );
        assert_eq!(
            ask(&[], "11:00:00"),
            Attribution::Unknown(Why::NoStart, None)
        );
    }

    #[test]
    fn a_damaged_entry_may_be_the_message_by_the_time_in_its_name() {
        let ask = |files: &[_], clock| one(files, said(0, clock, &["mine"]));
        let files = [start("10:00:00"), file("10:30:00.000", r#"{"kind":"mess"#)];
        assert_eq!(ask(&files, "10:29:57.999"), Attribution::NothingRecorded);
        assert_eq!(
            ask(&files, "10:29:58"),
            Attribution::Unknown(Why::Damaged, None)
        );
        assert_eq!(
            ask(&files, "23:00:00"),
            Attribution::Unknown(Why::Damaged, None)
        );
        let unnamed = ("entry.json".to_owned(), Ok(Vec::new()));
        let files = [start("10:00:00"), unnamed];
        assert_eq!(
            ask(&files, "10:00:00"),
            Attribution::Unknown(Why::Damaged, None)
        );
        assert_eq!(
            ask(&files, "09:00:00"),
            Attribution::Unknown(Why::BeforeStart, None)
        );
    }

    #[test]
    fn a_message_of_which_only_length_and_hash_are_kept_matches_by_them() {
        let digest = Digested::of(b"a secret");
        let body = |length: u64| {
            let hash = digest.hex();
            format!(
                r#"{{"kind":"message","side":"received","textLength":{length},"textSha256":"{hash}","outcome":"queued"}}"#
            )
        };
        let asked = || said(0, "10:00:06", &["a secret"]);
        let files = [start("10:00:00"), file("10:00:05", &body(8))];
        assert_eq!(one(&files, asked()), Attribution::Peer(1));
        let files = [start("10:00:00"), file("10:00:05", &body(9))];
        assert_eq!(one(&files, asked()), Attribution::NothingRecorded);
    }
}
