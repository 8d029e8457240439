//! The scanner beside `serde_json`: whatever that accepts is accepted, with the same value. `fuzz/` looks for what is not tried here.

#![allow(clippy::unwrap_used)]

#[path = "support/oracle.rs"]
mod oracle;

use oracle::check;
use proptest::prelude::*;
use serde_json::Value;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_what_serde_json_writes(value in any_json(), pretty in any::<bool>()) {
        let line = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        check(&line.unwrap());
    }

    /// A few bytes put in anywhere: much of that is no JSON any more, and what still is must be the same for both.
    #[test]
    fn reads_what_is_still_json_when_bytes_come_in(
        value in any_json(),
        bytes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b" \t\n\r{}[]\",:\\u0019eE-+.".to_vec())), 1..4),
    ) {
        let mut line = serde_json::to_vec(&value).unwrap();
        for (at, byte) in bytes {
            line.insert(at.index(line.len() + 1), byte);
        }
        check(&line);
    }

    #[test]
    fn accepts_at_least_what_serde_json_accepts(
        line in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0019dtruefalsn -.e\n\xff".to_vec()), 0..60),
    ) {
        check(&line);
    }
}

#[test]
fn the_later_of_two_equal_keys_counts_for_both() {
    check(br#"{"a":1,"\u0061":[2],"a":{"b":3}}"#);
}

#[test]
fn strings_of_every_length_end_where_they_do_for_both() {
    for len in 0..200 {
        for end in ["", r"\\", r#"\""#, r"\u00e9", "\u{e9}"] {
            let line = format!(r#"{{"{}{end}":"{0}{end}","b":[]}}"#, "x".repeat(len));
            check(line.as_bytes());
        }
    }
}
