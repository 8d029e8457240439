//! `problems.tsv`: the faults that belong to no session.

use super::content::Bytes;
use super::table::Table;
use super::version;
use crate::store::{Problem, Source, Store};
use std::path::Path;
use std::sync::Arc;

/// The faults as of one time.
pub(super) struct Problems {
    pub(super) bytes: Arc<Bytes>,
    /// Of their content.
    pub(super) version: u64,
}

impl Problems {
    /// The faults now; none where there is none.
    pub(super) fn of(store: &Store) -> Option<Self> {
        let index = store.index();
        let problems = index.problems();
        if problems.is_empty() {
            return None;
        }
        let mut table = Table::new(&["source", "path", "problem"]);
        for problem in problems {
            let (source, path) = place(store.sources(), problem);
            table.row([source.as_str(), &path, &problem.why]);
        }
        let bytes = table.into_bytes();
        Some(Self {
            version: version::of_bytes("problems", &bytes),
            bytes: Arc::new(Bytes::new(vec![bytes.into()])),
        })
    }
}

/// The last part of the source's path, and the path below it: where a source lies is nobody's business.
fn place(sources: &[Source], problem: &Problem) -> (String, String) {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let last = |path: &Path| path.file_name().map(|name| text(Path::new(name)));
    let below = |source: &Source| {
        let below = problem.path.strip_prefix(source.root()).ok()?;
        let below = if below.as_os_str().is_empty() {
            ".".to_owned()
        } else {
            text(below)
        };
        Some((last(source.root()).unwrap_or_default(), below))
    };
    let found = sources.iter().find_map(below);
    found.unwrap_or_else(|| (String::new(), last(&problem.path).unwrap_or_default()))
}
