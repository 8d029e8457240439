//! Where the sessions lie that tests of whole sessions read.

use std::path::{Path, PathBuf};

/// The projects folder whose sessions the corpus tests read: the one that `SESSIONFS_CORPUS` names, else the corpus that lies
/// beside the repository and is no part of it.
pub(crate) fn corpus() -> PathBuf {
    let path = match std::env::var_os("SESSIONFS_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/projects"),
    };
    assert!(
        path.is_dir(),
        "{} is missing: this test reads the sessions there; SESSIONFS_CORPUS can name another folder of sessions",
        path.display()
    );
    path.canonicalize().unwrap()
}
