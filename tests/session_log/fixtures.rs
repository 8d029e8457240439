//! Every shared case: what opening for writing does, and every file afterwards, is what the published crate does.

use super::support::files;
use serde_json::{Value, json};
use sessionfs::session_log::{SessionLog, SessionLogStore};
use std::path::{Path, PathBuf};

#[test]
fn every_case_opens_as_the_published_crate_opens_it() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures/session-log");
    let Ok(entries) = std::fs::read_dir(&cases) else {
        // `scripts/test` says so; the other tests here make the same cases themselves.
        return;
    };
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 30, "{} cases", cases.len());
    for case in cases {
        check(&case);
    }
}

fn check(case: &Path) {
    let name = case.display();
    let text = std::fs::read_to_string(case.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let input = std::fs::read_dir(case.join("in")).unwrap();
    for file in input.map(Result::unwrap) {
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let store = SessionLogStore::new(dir.path());
    let before = files(dir.path());

    // Reading first: it must change nothing, and see the same events.
    let snapshot = store.read("case-1").unwrap();
    let bad_object = snapshot.objects().any(|(_, head)| head.is_err());
    let whole = snapshot.problem().is_none() && !bad_object;
    assert_eq!(json!(whole), expected["ok"], "{name}: reading");
    let read: Vec<_> = snapshot.events().map(Result::unwrap).collect();
    assert_eq!(
        files(dir.path()),
        before,
        "{name}: reading changed something"
    );

    let opened = store.open("case-1");
    assert_eq!(json!(opened.is_ok()), expected["ok"], "{name}: opening");
    match opened {
        Ok(log) => {
            let events: Vec<_> = log.events().map(Result::unwrap).collect();
            assert_eq!(json!(events), expected["events"], "{name}");
            assert_eq!(events, read, "{name}: reading sees what writing sees");
            assert_eq!(json!(log.header().unwrap()), expected["header"], "{name}");
            assert_eq!(json!(log.is_sealed()), expected["sealed"], "{name}");
            assert_eq!(objects(&log), expected["objects"], "{name}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("case-1"), "{name}: says where: {text}");
            assert!(text.contains("byte"), "{name}: says at which byte: {text}");
            assert_eq!(
                files(dir.path()),
                before,
                "{name}: a failed opening changed something"
            );
        }
    }
    let after: serde_json::Map<_, _> = files(dir.path())
        .into_iter()
        .map(|(file, (length, sha256))| (file, json!({ "length": length, "sha256": sha256 })))
        .collect();
    assert_eq!(
        Value::Object(after),
        expected["filesAfter"],
        "{name}: files"
    );
}

fn objects(log: &SessionLog) -> Value {
    let objects = log.object_positions().map(|position| {
        let object = log.object(position).unwrap();
        json!({
            "position": position.0,
            "fileName": object.file_name,
            "mediaType": object.media_type,
            "length": object.bytes.len(),
        })
    });
    Value::Array(objects.collect())
}
