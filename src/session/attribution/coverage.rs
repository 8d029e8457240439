//! Of which times the record says what was received and what was not.

use super::{SLACK, Why};
use crate::record::Entries;
use jiff::Timestamp;

/// From when on the record says something, and where it might say something else.
pub(super) struct Coverage {
    from: Option<Timestamp>,
    /// Whether a damaged entry says no time.
    damaged: bool,
    /// The time in the first damaged entry's name.
    damaged_from: Option<Timestamp>,
}

impl Coverage {
    /// Of these entries.
    pub(super) fn of(entries: &Entries) -> Self {
        Self {
            from: entries.coverage_from(),
            damaged: entries.damaged.iter().any(|entry| entry.at.is_none()),
            damaged_from: entries.damaged.iter().filter_map(|entry| entry.at).min(),
        }
    }

    /// Why the record does not say of a turn of this time what was received and what was not; none if it does.
    pub(super) fn doubt(&self, at: Option<Timestamp>) -> Option<Why> {
        let could_be = |damaged: Timestamp, at| damaged.checked_sub(SLACK).is_ok_and(|d| d <= at);
        match (self.from, at) {
            (None, _) => Some(Why::NoStart),
            (_, None) => Some(Why::NoTime),
            (Some(from), Some(at)) if at < from => Some(Why::BeforeStart),
            (_, Some(at)) if self.damaged || self.damaged_from.is_some_and(|d| could_be(d, at)) => {
                Some(Why::Damaged)
            }
            _ => None,
        }
    }
}
