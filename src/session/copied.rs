//! What a session has from older ones: forking, going on in the background, and resuming in old versions begin a session
//! with the lines of another (`formats/claude-code.md` 6.7, `formats/hard-cases.md` T16 to T18).

use foldhash::{HashSet, HashSetExt as _};

use jiff::Timestamp;

use crate::store::{self, Older};
use crate::transcript::claude_code;
use crate::transcript::group::{Grouped, group};
use crate::transcript::text::Buffers;
use crate::transcript::thread::ResponseKey;

use super::{Completeness, Copied};

/// One older session's main thread, as far as it matters here.
#[derive(Default)]
struct Other {
    responses: HashSet<ResponseKey>,
    /// The identities of its lines, and when each was written.
    lines: Vec<(Vec<u8>, Option<Timestamp>)>,
}

/// The responses of a main thread that an older session has too; `named` are the sessions that its lines call their origin.
/// Where nothing says which of two sessions is the copy, neither is called one, and a note says so.
pub(super) fn copied(
    main: &Grouped,
    buffers: &Buffers,
    older: &[Older],
    named: &[String],
    completeness: &mut Completeness,
) -> Option<Copied> {
    let ours = if older.is_empty() {
        Vec::new()
    } else {
        lines(main, buffers)
    };
    let mut copied = Copied::default();
    let mut theirs: HashSet<ResponseKey> = HashSet::new();
    for session in older {
        let Some(other) = read(session) else {
            let id = &session.id;
            let why = "cannot be read, so what is copied from it is not known";
            completeness.unknown_copy(format!("session {id} {why}"));
            continue;
        };
        if session.named || is_older(&other.lines, &ours) {
            copied.sessions.push(session.id.clone());
            // A response that nothing names is known by its line, which is another one in every file.
            let named = |key: &ResponseKey| !matches!(key, ResponseKey::Line { .. });
            theirs.extend(other.responses.into_iter().filter(named));
        } else if !is_older(&ours, &other.lines) {
            let id = &session.id;
            let why = "begins with the same line or goes on as this one, and nothing says which is the copy";
            completeness.unknown_copy(format!("session {id} {why}"));
        }
    }
    for absent in named
        .iter()
        .filter(|id| older.iter().all(|session| session.id != **id))
    {
        let why = "which is not here, so what is copied from it is not known";
        completeness.unknown_copy(format!("lines call session {absent} their origin, {why}"));
    }
    for response in main
        .responses
        .iter()
        .filter(|response| theirs.contains(&response.key))
    {
        let Some(usage) = response.usage else {
            continue;
        };
        copied.tokens.add(&usage);
        copied.api_responses += 1;
        copied.usage_lines_seen += response.usage_lines;
    }
    (!copied.sessions.is_empty()).then_some(copied)
}

fn read(session: &Older) -> Option<Other> {
    let mut other = Other::default();
    for main in &session.mains {
        let bytes = store::read(&main.path, main.fingerprint.size).ok()?;
        let read = claude_code::read(&bytes, 0, 0);
        let buffers = Buffers::new(vec![std::sync::Arc::new(read.texts)]);
        let grouped = group(read.lines, &buffers, false);
        let responses = grouped.responses.iter();
        other
            .responses
            .extend(responses.map(|response| response.key.clone()));
        other.lines.extend(lines(&grouped, &buffers));
    }
    Some(other)
}

fn lines(grouped: &Grouped, buffers: &Buffers) -> Vec<(Vec<u8>, Option<Timestamp>)> {
    let lines = grouped.lines.iter();
    lines
        .filter_map(|line| Some((buffers.raw(line.uuid?).decode().into_owned(), line.at.at())))
        .collect()
}

/// Whether the first of two sessions that begin alike is the older: it went no further, or went on before the other did.
fn is_older(this: &[(Vec<u8>, Option<Timestamp>)], that: &[(Vec<u8>, Option<Timestamp>)]) -> bool {
    let own = |of: &[(Vec<u8>, Option<Timestamp>)], not_of: &[(Vec<u8>, Option<Timestamp>)]| {
        let shared: HashSet<&[u8]> = not_of.iter().map(|(uuid, _)| uuid.as_slice()).collect();
        of.iter()
            .find(|(uuid, _)| !shared.contains(uuid.as_slice()))
            .map(|(_, at)| *at)
    };
    match (own(this, that), own(that, this)) {
        (None, Some(_)) => true,
        (Some(Some(this)), Some(Some(that))) => this < that,
        _ => false,
    }
}
