//! What the program has to say beside its results: on standard error, with levels.

use super::Common;
use tracing::level_filters::LevelFilter;

/// Sends what the program has to say to standard error: warnings, with `-v` what it does, with `-vv` everything,
/// with `-q` errors only.
pub(super) fn start(common: Common) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::TRACE,
    };
    // It fails only where a program that uses this library has set its own; then that one holds.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .without_time()
        .with_ansi(common.paint_errors().on())
        .with_writer(std::io::stderr)
        .try_init();
}
