//! The table of `spec/record.md` row by row, on invented records.

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

fn explained(files: &[(String, Result<Vec<u8>, String>)], prompts: &[Prompt]) -> Vec<Attribution> {
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
