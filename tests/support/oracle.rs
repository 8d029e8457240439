//! What the scanner must have in common with `serde_json`, for the property tests and for the fuzzer.

use serde_json::{Map, Value};
use sessionfs::transcript::json::{Kind, Malformed, Scanner};
use sessionfs::transcript::text::{Form, Raw};

/// Checks one line: the scanner ends, accepts it if `serde_json` does, and then gives the same value.
///
/// # Panics
///
/// If it does not.
pub(crate) fn check(line: &[u8]) {
    let mut scanner = Scanner::new(line, 0..line.len());
    let skipped = scanner.skip().is_ok() && scanner.at_end();
    // serde_json accepts no more than 128 levels, so that reading recurses no deeper.
    let Ok(expected) = serde_json::from_slice::<Value>(line) else {
        return;
    };
    let shown = String::from_utf8_lossy(line);
    assert!(skipped, "skipped: {shown}");
    let mut scanner = Scanner::new(line, 0..line.len());
    let value = read(&mut scanner).unwrap_or_else(|error| panic!("{error:?}: {shown}"));
    assert!(scanner.at_end(), "read to its end: {shown}");
    assert_eq!(value, expected, "{shown}");
}

/// Reads a value with the scanner alone, so that every string that it gives out is compared.
fn read(scanner: &mut Scanner<'_>) -> Result<Value, Malformed> {
    Ok(match scanner.kind()? {
        Kind::String => {
            let range = scanner.string()?;
            let raw = Raw {
                bytes: scanner.bytes(&range),
                form: Form::JsonString,
            };
            raw.to_text().into()
        }
        Kind::Object => {
            let mut members = scanner.object()?;
            let mut map = Map::new();
            while let Some(key) = scanner.key(&mut members)? {
                let key = String::from_utf8_lossy(&key).into_owned();
                map.insert(key, read(scanner)?);
            }
            map.into()
        }
        Kind::Array => {
            let mut members = scanner.array()?;
            let mut list = Vec::new();
            while scanner.item(&mut members)? {
                list.push(read(scanner)?);
            }
            list.into()
        }
        Kind::Scalar => {
            let range = scanner.skip()?;
            let scalar = scanner.bytes(&range);
            serde_json::from_slice(scalar).expect("a number or a literal of serde_json's own")
        }
    })
}
