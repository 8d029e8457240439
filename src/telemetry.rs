//! The telemetry: one JSON object that says what a session used and what is not known of it.

use crate::session::{Session, ThreadIndex};
use crate::transcript::display::Shown;

/// The telemetry of a whole session; `shown` is what `artefact.md` of the same session changed and cut.
pub fn whole(_session: &Session, _shown: &Shown) -> Vec<u8> {
    Vec::new()
}

/// The telemetry of one sub-agent: its entry of `agents`, with the completeness keys.
pub fn agent(_session: &Session, _thread: ThreadIndex, _shown: &Shown) -> Vec<u8> {
    Vec::new()
}

/// The JSON Schema of the telemetry.
pub fn schema() -> String {
    String::new()
}
