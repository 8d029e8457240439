//! Bounded looks at the ends of a file. The head: is it a transcript, and of which session? The tail: which session goes on
//! where this one ends?

use super::open::{open, read_at};
use super::{Fingerprint, StoreError};
use memchr::memmem;
use quick_cache::sync::Cache;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// How much of a file is looked at, at first and at most. The first lines of nearly every transcript fit into the first.
const LOOKS: [usize; 2] = [16 << 10, 256 << 10];

/// How much of a file's end is looked at. What names the next session is among the last lines that a harness writes, and
/// those beside it are short.
const TAIL: u64 = 64 << 10;

/// Files whose answer is remembered.
const REMEMBERED: usize = 65_536;

/// What the head of a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What the tail of a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tail {
    /// The sessions in which its lines of type `continued-in` say that it goes on.
    pub(super) continued_in: Vec<String>,
}

/// Answers that were given, each good for one state of its file.
pub(super) struct Probes<T>(Cache<PathBuf, (Fingerprint, T)>);

impl<T: Clone> Probes<T> {
    pub(super) fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// What was answered for this state of the file; where nothing was, what this look says.
    pub(super) fn ask(
        &self,
        path: &Path,
        state: Fingerprint,
        look: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some((seen, answer)) = self.0.get(path)
            && seen == state
        {
            return Ok(answer);
        }
        let answer = look()?;
        self.0.insert(path.to_path_buf(), (state, answer.clone()));
        Ok(answer)
    }
}

impl Probes<Head> {
    /// What the head of this file says, read only if the file changed since it was last asked for.
    pub(super) fn head(&self, path: &Path, state: Fingerprint) -> Result<Head, StoreError> {
        self.ask(path, state, || {
            look_at_head(&mut Peeked::new(path, &mut Vec::new()))
        })
    }
}

/// A file whose ends are read; it is opened when the first of them is.
pub(super) struct Peeked<'a> {
    path: &'a Path,
    file: Option<File>,
    /// Memory for what is read, of one file after another.
    bytes: &'a mut Vec<u8>,
}

impl<'a> Peeked<'a> {
    /// Nothing is read yet.
    pub(super) fn new(path: &'a Path, bytes: &'a mut Vec<u8>) -> Self {
        Self {
            path,
            file: None,
            bytes,
        }
    }

    /// Reads up to so many bytes, fewer only at the end.
    fn read(&mut self, from: u64, length: usize) -> Result<&[u8], StoreError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open(self.path)?,
        };
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        let bytes = &mut self.bytes[..length];
        let filled = read_at(self.file.insert(file), bytes, from)
            .map_err(|source| StoreError::io(self.path, "read", source))?;
        Ok(&self.bytes[..filled])
    }
}

/// Reads the tail of a file of this size.
pub(super) fn look_at_tail(file: &mut Peeked<'_>, size: u64) -> Result<Tail, StoreError> {
    // One byte more than is looked at tells whether the first line in it is whole.
    let start = size.saturating_sub(TAIL + 1);
    let bytes = file.read(start, (size - start) as usize)?;
    let whole = match start {
        0 => bytes,
        _ => memchr::memchr(b'\n', bytes).map_or(&[][..], |end| &bytes[end + 1..]),
    };
    Ok(read_tail(whole))
}

fn read_tail(mut bytes: &[u8]) -> Tail {
    const KIND: &str = "continued-in";
    let mut tail = Tail::default();
    // Nearly no line says so, and looking for the word costs far less than looking at lines.
    while let Some(at) = memmem::find(bytes, KIND.as_bytes()) {
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |feed| feed + 1);
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |feed| at + feed);
        let keys = read_keys(&bytes[start..end]);
        bytes = &bytes[end..];
        if keys.kind.as_deref() == Some(KIND)
            && let Some(next) = keys.continued_in
            && !tail.continued_in.contains(&next)
        {
            tail.continued_in.push(next);
        }
    }
    tail
}

/// Reads the head of a file.
pub(super) fn look_at_head(file: &mut Peeked<'_>) -> Result<Head, StoreError> {
    let mut head = Head::default();
    for size in LOOKS {
        let bytes = file.read(0, size)?;
        head = read_head(bytes);
        if bytes.len() < size || head.is_whole() {
            break;
        }
    }
    Ok(head)
}

fn read_head(bytes: &[u8]) -> Head {
    let mut head = Head::default();
    for line in bytes.split(|&b| b == b'\n') {
        let keys = read_keys(line);
        head.transcript |= keys.kind.is_some() && (keys.uuid.is_some() || keys.session.is_some());
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
    kind: Option<String>,
    uuid: Option<String>,
    session: Option<String>,
    forked_from: Option<String>,
    continued_in: Option<String>,
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
                "type" => text_into(&mut self.0.kind, &mut map)?,
                "uuid" => text_into(&mut self.0.uuid, &mut map)?,
                "sessionId" => text_into(&mut self.0.session, &mut map)?,
                "continuedInSessionId" => text_into(&mut self.0.continued_in, &mut map)?,
                "forkedFrom" => self.0.forked_from = map.next_value::<ForkedFrom>()?.session,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a key's value. Of two equal keys the first counts, as everywhere.
fn text_into<'de, A: MapAccess<'de>>(
    field: &mut Option<String>,
    map: &mut A,
) -> Result<(), A::Error> {
    let text = map.next_value_seed(TextSeed)?;
    *field = field.take().or(text);
    Ok(())
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
    fn the_tail_names_the_sessions_in_which_this_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let tail = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut bytes = Vec::new();
            let mut file = Peeked::new(&path, &mut bytes);
            look_at_tail(&mut file, text.len() as u64)
                .unwrap()
                .continued_in
        };
        let line = "{\"type\":\"continued-in\",\"continuedInSessionId\":\"t\"}\n";
        assert_eq!(tail(line), ["t"]);
        assert_eq!(tail(&line.repeat(2)), ["t"]);
        let second = line.replace("\"t\"", "\"u\"");
        assert_eq!(tail(&format!("{line}{{}}\n{second}")), ["t", "u"]);
        let other = line.replace("\"continued-in\"", "\"mode\",\"a\":\"continued-in\"");
        assert_eq!(tail(&other), [""; 0], "no other line says so");
        let cut = line.trim_end_matches("\"}\n");
        assert_eq!(tail(cut), [""; 0], "an ID that is not whole is none");
        // The bound, to the byte.
        let last = "x".repeat(usize::try_from(TAIL).unwrap() - line.len());
        let before = "{\"a\":1}\n";
        assert_eq!(tail(&format!("{before}{line}{last}")), ["t"]);
        assert_eq!(tail(&format!("{before}{line}{last}x")), [""; 0]);
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
