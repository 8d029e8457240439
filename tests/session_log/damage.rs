//! A log that was cut or changed anywhere: exactly the events before the cut; an error or the unchanged events.

use super::support::{CREATED, beginning, event, files, frame};
use proptest::prelude::*;
use sessionfs::session_log::{Event, Fault, LogError, Role, SessionLogStore, State};
use std::fs;
use std::path::Path;

/// A log with some of everything, and where each of its frames ends.
fn sample(dir: &Path, texts: &[String], seal: bool) -> (Vec<u8>, Vec<usize>, Vec<Event>) {
    let store = SessionLogStore::new(dir);
    let mut log = store.create("a", CREATED).unwrap();
    let length = || fs::metadata(dir.join("a.session-log")).unwrap().len() as usize;
    let mut ends = vec![length()];
    for (n, text) in texts.iter().enumerate() {
        log.append(Role::ALL[n % 8], text).unwrap();
        ends.push(length());
    }
    let events = log.events().map(Result::unwrap).collect();
    if seal {
        log.seal().unwrap();
        ends.push(length());
    }
    (fs::read(dir.join("a.session-log")).unwrap(), ends, events)
}

fn texts() -> Vec<String> {
    ["hello", "", "ü\n\u{0}\"", "{\"role\":\"x\"}"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn a_cut_at_every_byte_keeps_exactly_the_events_before_it() {
    for seal in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends, events) = sample(dir.path(), &texts(), seal);
        for cut in 0..bytes.len() {
            check_cut(dir.path(), &bytes, &ends, &events, cut);
        }
    }
}

fn check_cut(dir: &Path, bytes: &[u8], ends: &[usize], events: &[Event], cut: usize) {
    let path = dir.join("a.session-log");
    fs::write(&path, &bytes[..cut]).unwrap();
    let store = SessionLogStore::new(dir);
    let whole = ends.iter().filter(|end| **end <= cut).count();
    let before = files(dir);

    let snapshot = store.read("a").unwrap();
    let expected = &events[..whole.saturating_sub(1).min(events.len())];
    let read: Vec<Event> = snapshot.events().map(Result::unwrap).collect();
    assert_eq!(read, expected, "cut at {cut}");
    assert_eq!(files(dir), before, "reading wrote, cut at {cut}");

    match store.open("a") {
        Ok(log) => {
            let end = ends[whole - 1];
            assert_eq!(
                log.events().map(Result::unwrap).collect::<Vec<_>>(),
                expected
            );
            assert_eq!(log.recovery().cut, (cut - end) as u64);
            assert_eq!(snapshot.in_progress(), (cut - end) as u64);
            assert_eq!(fs::read(&path).unwrap(), &bytes[..end], "cut at {cut}");
        }
        Err(error) => {
            assert_eq!(whole, 0, "cut at {cut}: {error}");
            assert_eq!(snapshot.state(), State::Corrupt);
            assert_eq!(files(dir), before, "cut at {cut}");
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_changes_nothing() {
    for seal in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, _, events) = sample(dir.path(), &texts(), seal);
        let (mut accepted, mut lengths) = (0, 0);
        for at in 0..bytes.len() {
            for bits in [0x01, 0x20, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= bits;
                match check_flip(dir.path(), &bytes, &events) {
                    Ok(()) => accepted += 1,
                    Err(LogError::Corrupt {
                        fault: Fault::LengthOfLast | Fault::LengthBeforeFrame(_),
                        ..
                    }) => lengths += 1,
                    Err(_) => {}
                }
            }
        }
        assert_eq!(accepted, 0, "every byte of a log is covered");
        assert!(
            lengths > 50,
            "damaged lengths are told from unfinished frames: {lengths}"
        );
    }
}

fn check_flip(dir: &Path, bytes: &[u8], events: &[Event]) -> Result<(), LogError> {
    fs::write(dir.join("a.session-log"), bytes).unwrap();
    let before = files(dir);
    let store = SessionLogStore::new(dir);
    let read: Vec<Event> = store
        .read("a")
        .unwrap()
        .events()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, events[..read.len()], "reading gives a wrong event");
    let opened = store.open("a");
    match &opened {
        Ok(log) => assert_eq!(log.events().map(Result::unwrap).collect::<Vec<_>>(), events),
        Err(_) => assert_eq!(files(dir), before),
    }
    opened.map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_log_survives_any_cut_and_no_flip_goes_unseen(
        texts in proptest::collection::vec(".{0,40}", 0..5),
        seal: bool,
        cut: prop::sample::Index,
        flip: prop::sample::Index,
        bits in 1..=255_u8,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends, events) = sample(dir.path(), &texts, seal);
        check_cut(dir.path(), &bytes, &ends, &events, cut.index(bytes.len()));
        let mut flipped = bytes.clone();
        flipped[flip.index(bytes.len())] ^= bits;
        prop_assert!(check_flip(dir.path(), &flipped, &events).is_err());
    }
}

/// The first deliberate difference: the published crate would cut good events off here.
#[test]
fn a_damaged_length_field_cuts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let start = beginning("a");
    let frames = [
        event("user-message", "one"),
        event("tool-result", "two"),
        frame(3, b""),
    ];
    for damaged in 0..frames.len() {
        for byte in 1..9 {
            let mut changed = frames.clone();
            changed[damaged][byte] = 0x7f;
            let log = [start.clone(), changed.concat()].concat();
            fs::write(dir.path().join("a.session-log"), &log).unwrap();
            let before = files(dir.path());
            let error = store.open("a").unwrap_err();
            let LogError::Corrupt { offset, fault, .. } = error else {
                panic!("{error}")
            };
            let expected = start.len() + frames[..damaged].concat().len();
            assert_eq!(offset, expected as u64, "frame {damaged}, byte {byte}");
            let next = (expected + frames[damaged].len()) as u64;
            let right = match damaged {
                // A length of one byte may still lie inside the file.
                _ if fault == Fault::Checksum => byte == 1,
                2 => fault == Fault::LengthOfLast || fault == Fault::FooterPayload(0x7f),
                _ => fault == Fault::LengthBeforeFrame(next),
            };
            assert!(right, "frame {damaged}, byte {byte}: {fault}");
            assert_eq!(files(dir.path()), before);
            let snapshot = store.read("a").unwrap();
            assert_eq!(snapshot.state(), State::Corrupt);
            assert_eq!(
                snapshot.event_count(),
                damaged as u64,
                "what stands before it is shown"
            );
        }
    }
}

#[test]
fn an_unfinished_frame_is_cut_whatever_its_text_quotes() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    // Text that looks like frames, but not with their NULs, and frames whose checksum or payload is wrong.
    let mut wrong = event("user-message", "x");
    wrong[15] ^= 1;
    let tails = [
        event("user-message", &"{\\\"role\\\":\\\"object\\\"}".repeat(50)),
        frame(2, &wrong),
        frame(2, &frame(2, b"{\"role\":\"nobody\",\"text\":\"\"}")),
        frame(9, &frame(9, b"x")),
    ];
    for tail in tails {
        let log = [beginning("a"), event("user-message", "kept"), tail.clone()].concat();
        fs::write(dir.path().join("a.session-log"), &log[..log.len() - 1]).unwrap();
        let opened = store.open("a").unwrap();
        assert_eq!(opened.event_count(), 1);
        assert_eq!(opened.recovery().cut, tail.len() as u64 - 1);
    }
}

/// The second deliberate difference: nothing is cut or removed before everything is verified.
#[test]
fn an_opening_that_fails_late_has_changed_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let path = |name: &str| dir.path().join(name);
    let cases = [
        ("identity", beginning("b")),
        (
            "object",
            [beginning("a"), event("pending-object", "x")].concat(),
        ),
        ("header", b"KSESSIONLOG\n\x01\x99".to_vec()),
    ];
    for (what, log) in cases {
        let torn = [log, event("user-message", "torn")[..60].to_vec()].concat();
        fs::write(path("a.session-log"), torn).unwrap();
        fs::write(path("a-5.pending-object"), "orphan").unwrap();
        fs::write(path("a-6.pending-object.tmp"), "unfinished").unwrap();
        let before = files(dir.path());
        assert!(store.open("a").is_err(), "{what}");
        assert_eq!(files(dir.path()), before, "{what}");
    }
}

#[test]
fn every_wrong_structure_says_what_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionLogStore::new(dir.path());
    let start = beginning("a");
    let one = event("user-message", "x");
    let header = &start[12..];
    let overflowing = [&[2_u8][..], &[0xff; 40][..]].concat();
    let cases: [(&[&[u8]], Fault); 9] = [
        (&[b"KSESSIONLOH\n"], Fault::Magic),
        (&[b"KSESSIONLOG\n"], Fault::NoHeader),
        (&[b"KSESSIONLOG\n", &one], Fault::NotHeader(2)),
        (&[&start, header], Fault::SecondHeader),
        (&[&start, &frame(3, b""), &one], Fault::AfterFooter(2)),
        (
            &[&start, &frame(3, b""), &frame(3, b"")],
            Fault::AfterFooter(3),
        ),
        (&[&start, &frame(3, b"x")], Fault::FooterPayload(1)),
        (&[&start, &frame(0, b"x")], Fault::Kind(0)),
        (&[&start, &overflowing], Fault::Length(u64::MAX)),
    ];
    for (pieces, expected) in cases {
        let log = pieces.concat();
        fs::write(dir.path().join("a.session-log"), &log).unwrap();
        let error = store.open("a").unwrap_err();
        let LogError::Corrupt { offset, fault, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(fault, expected);
        let last = pieces.last().unwrap().len();
        let at = if pieces.len() > 1 {
            log.len() - last
        } else if expected == Fault::NoHeader {
            12
        } else {
            0
        };
        assert_eq!(offset, at as u64, "{expected}");
    }
}
