//! What the program has to say beside its results: on standard error, with levels.

use super::Common;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Says that the kernel did not take an answer. It takes none where the asker was killed meanwhile or the mount was taken away
/// from under it, which are things of every day and no fault.
const ANSWERS: &str = "fuser::reply";

/// Sends what the program has to say to standard error: warnings, with `-v` what it does, with `-vv` everything,
/// with `-q` errors only. A process in the background writes for a log: with the time.
pub(super) fn start(common: Common, detached: bool) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::TRACE,
    };
    let answers = if common.verbose > 0 {
        level
    } else {
        LevelFilter::OFF
    };
    let wanted = Targets::new()
        .with_default(level)
        .with_target(ANSWERS, answers);
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stderr);
    // It fails only where a program that uses this library has set its own; then that one holds.
    let _ = if detached {
        lines.finish().with(wanted).try_init()
    } else {
        lines.without_time().finish().with(wanted).try_init()
    };
}
