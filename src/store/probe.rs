//! A bounded look at the head of a file whose name does not say whose it is: is it a transcript, and of which session?

use super::open::{open, read_at};
use super::{Fingerprint, StoreError};
use quick_cache::sync::Cache;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::path::{Path, PathBuf};

/// How much of a file is looked at, at first and at most. The first lines of nearly every transcript fit into the first.
const LOOKS: [usize; 2] = [16 << 10, 256 << 10];

/// Files whose answer is remembered.
const REMEMBERED: usize = 65_536;

/// What the head of a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Head {
    /// Whether some line is an object with a `type` and a `uuid` or `sessionId`.
    pub(super) transcript: bool,
    /// The first `sessionId`.
    pub(super) session: Option<String>,
    /// The first `uuid`.
    pub(super) first: Option<String>,
    /// The first session of which a line says that it was copied (`forkedFrom`).
    pub(super) forked_from: Option<String>,
}

/// Answers that were given, each good for one state of its file.
pub(super) struct Probes(Cache<PathBuf, (Fingerprint, Head)>);

impl Probes {
    pub(super) fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// What the head of this file says, read only if the file changed since it was last asked for.
    pub(super) fn head(&self, path: &Path, state: Fingerprint) -> Result<Head, StoreError> {
        self.head_or(path, state, || look(path))
    }

    /// The same, with `look` in place of reading it.
    pub(super) fn head_or(
        &self,
        path: &Path,
        state: Fingerprint,
        look: impl FnOnce() -> Result<Head, StoreError>,
    ) -> Result<Head, StoreError> {
        if let Some((seen, head)) = self.0.get(path)
            && seen == state
        {
            return Ok(head);
        }
        let head = look()?;
        self.0.insert(path.to_path_buf(), (state, head.clone()));
        Ok(head)
    }
}

/// Reads the head of this file.
pub(super) fn look(path: &Path) -> Result<Head, StoreError> {
    let file = open(path)?;
    let mut head = Head::default();
    for size in LOOKS {
        let mut bytes = vec![0; size];
        let filled =
            read_at(&file, &mut bytes, 0).map_err(|source| StoreError::io(path, "read", source))?;
        bytes.truncate(filled);
        head = read_head(&bytes);
        if filled < size || head.is_whole() {
            break;
        }
    }
    Ok(head)
}

fn read_head(bytes: &[u8]) -> Head {
    let mut head = Head::default();
    for line in bytes.split(|&b| b == b'\n') {
        let keys = read_keys(line);
        head.transcript |= keys.kind && (keys.uuid.is_some() || keys.session.is_some());
        head.session = head.session.or(keys.session);
        head.first = head.first.or(keys.uuid);
        head.forked_from = head.forked_from.or(keys.forked_from);
        if head.is_whole() {
            break;
        }
    }
    head
}

impl Head {
    /// Whether further lines can add nothing: a copy says so on its first line.
    fn is_whole(&self) -> bool {
        self.transcript && self.session.is_some() && self.first.is_some()
    }
}

/// The keys of a line that matter here.
#[derive(Default)]
struct Keys {
    kind: bool,
    uuid: Option<String>,
    session: Option<String>,
    forked_from: Option<String>,
}

/// The value of `forkedFrom`.
#[derive(serde::Deserialize)]
struct ForkedFrom {
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

/// Reads a line's keys as far as the line goes: what stands before a cut or a fault counts.
fn read_keys(line: &[u8]) -> Keys {
    let mut keys = Keys::default();
    // A crash leaves runs of NUL in front of a line, and hand-made files a byte order mark.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let start = line.iter().position(|&b| b != 0).unwrap_or(line.len());
    let mut json = serde_json::Deserializer::from_slice(&line[start..]);
    // An error only says where the line stopped being readable.
    let _ = json.deserialize_map(KeysVisitor(&mut keys));
    keys
}

struct KeysVisitor<'a>(&'a mut Keys);

impl<'de> Visitor<'de> for KeysVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "type" => self.0.kind |= map.next_value_seed(TextSeed)?.is_some(),
                "uuid" => {
                    let uuid = map.next_value_seed(TextSeed)?;
                    self.0.uuid = self.0.uuid.take().or(uuid);
                }
                "forkedFrom" => self.0.forked_from = map.next_value::<ForkedFrom>()?.session,
                "sessionId" => {
                    let session = map.next_value_seed(TextSeed)?;
                    // Of two equal keys the first counts, as everywhere.
                    self.0.session = self.0.session.take().or(session);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A string that is not empty; none for any other value.
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text)
            .filter(|text| !text.is_empty())
            .map(str::to_owned))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> (bool, Option<String>) {
        let head = read_head(text.as_bytes());
        (head.transcript, head.session)
    }

    #[test]
    fn says_whether_a_file_is_a_transcript() {
        let yes = |session: &str| (true, Some(session.to_owned()));
        let no = (false, None);
        assert_eq!(
            head("{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\"}"),
            yes("s")
        );
        assert_eq!(
            head("// note\n[1]\n7\n{\"sessionId\":\"s\",\"type\":\"mode\"}\n"),
            yes("s")
        );
        assert_eq!(head("{\"type\":\"user\",\"uuid\":\"u\"}"), (true, None));
        let nul = "\0\0\u{feff}x\n\0\0{\"type\":\"a\",\"uuid\":\"u\"}";
        assert_eq!(head(nul), (true, None));
        assert_eq!(head("{\"type\":\"user\"}"), no);
        let history = "{\"display\":\"x\",\"sessionId\":\"s\"}";
        assert_eq!(head(history), (false, Some("s".to_owned())));
        assert_eq!(head(""), no);
        assert_eq!(
            head("{\"sessionId\":{\"a\":[1]},\"type\":null,\"uuid\":5}"),
            no
        );
    }

    #[test]
    fn a_cut_or_damaged_line_gives_what_stands_before_the_fault() {
        let cut = "{\"sessionId\":\"s\",\"type\":\"user\",\"message\":{\"content\":\"long";
        assert_eq!(head(cut), (true, Some("s".to_owned())));
        let surrogate = "{\"sessionId\":\"s\",\"slug\":\"\\ud83d\",\"type\":\"user\"}";
        assert_eq!(head(surrogate), (true, Some("s".to_owned())));
        let deep = format!("{{\"a\":{}, \"type\":\"x\"", "[".repeat(200_000));
        assert_eq!(head(&deep), (false, None));
    }

    #[test]
    fn looks_again_only_when_the_file_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let probes = Probes::new();
        let ask = || {
            let state = Fingerprint::of(&std::fs::metadata(&path).unwrap());
            probes.head(&path, state).unwrap().transcript
        };
        std::fs::write(&path, "{}\n").unwrap();
        assert!(!ask());
        std::fs::write(&path, "{}\n{\"type\":\"a\",\"uuid\":\"b\"}\n").unwrap();
        assert!(ask());
    }
}
