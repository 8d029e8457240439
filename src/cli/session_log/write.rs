//! The verbs that write. Each holds an interrupt back until what it writes is whole.

use super::{Append, Attach, Create, Log, failed};
use crate::cli::{Failure, output};
use crate::session_log::{Recovery, Role, SessionLog};
use jiff::Timestamp;
use std::fmt::Write;
use std::io::Read;

/// The text that stands for standard input.
const STANDARD_INPUT: &str = "-";

pub(super) fn create(args: &Create) -> Result<(), Failure> {
    let now = || format!("{:.3}", Timestamp::now());
    let created_at = args.created_at.clone().unwrap_or_else(now);
    let Log { id, .. } = &args.log;
    let log = output::uninterrupted(|| args.log.store().create(id, &created_at));
    log.map(drop).map_err(|error| failed("create", id, error))
}

pub(super) fn append(args: Append) -> Result<(), Failure> {
    if args.role == Role::PendingObject {
        return Err(
            Failure::wrong_use("an event of the role pending-object names an object")
                .hint("sessionfs log attach makes it"),
        );
    }
    let text = text(args.text.unwrap_or_else(|| STANDARD_INPUT.to_owned()))?;
    let position = output::uninterrupted(|| open(&args.log)?.append(args.role, &text));
    let position = position.map_err(|error| failed("append to", &args.log.id, error))?;
    output::print(format!("{position}\n").as_bytes())
}

pub(super) fn attach(args: Attach) -> Result<(), Failure> {
    let own_name = args.file.file_name().and_then(|name| name.to_str());
    let file_name = args.file_name.as_deref().or(own_name).ok_or_else(|| {
        Failure::wrong_use(format!("{}: its name is no text", args.file.display()))
            .hint("say with --file-name what it is called")
    })?;
    let text = match args.text {
        Some(given) => text(given)?,
        None => file_name.to_owned(),
    };
    let bytes = std::fs::read(&args.file).map_err(|error| {
        Failure::new(format!("cannot read {}", args.file.display())).because(error)
    })?;
    let position = output::uninterrupted(|| {
        open(&args.log)?.attach(&text, file_name, &args.media_type, &bytes)
    });
    let position = position.map_err(|error| failed("attach to", &args.log.id, error))?;
    output::print(format!("{position}\n").as_bytes())
}

pub(super) fn seal(log: &Log) -> Result<(), Failure> {
    output::uninterrupted(|| open(log)?.seal()).map_err(|error| failed("seal", &log.id, error))
}

pub(super) fn recover(log: &Log) -> Result<(), Failure> {
    let opened = output::uninterrupted(|| log.store().open(&log.id));
    let opened = opened.map_err(|error| failed("recover", &log.id, error))?;
    let mut report = mended(opened.recovery());
    if report.is_empty() {
        report.push_str("nothing to mend\n");
    }
    let events = opened.event_count();
    let state = if opened.is_sealed() { "sealed" } else { "open" };
    // Writing to a String never fails.
    let _ = writeln!(report, "{events} event(s), {state}");
    output::print(report.as_bytes())
}

pub(super) fn delete(log: &Log) -> Result<(), Failure> {
    output::uninterrupted(|| log.store().delete(&log.id))
        .map_err(|error| failed("delete", &log.id, error))
}

/// Opens a log for writing and says what was mended.
fn open(log: &Log) -> Result<SessionLog, crate::session_log::LogError> {
    let opened = log.store().open(&log.id)?;
    for line in mended(opened.recovery()).lines() {
        tracing::warn!("{}: {line}", log.id);
    }
    Ok(opened)
}

/// What an opening mended, one line each.
fn mended(recovery: &Recovery) -> String {
    let mut text = String::new();
    if recovery.cut > 0 {
        // Writing to a String never fails.
        let _ = writeln!(
            text,
            "cut an incomplete last frame of {} byte(s)",
            recovery.cut
        );
    }
    for name in &recovery.removed {
        let _ = writeln!(text, "removed {name}, which no event names");
    }
    text
}

/// A text as it was given, or all of standard input, kept exactly.
fn text(given: String) -> Result<String, Failure> {
    if given != STANDARD_INPUT {
        return Ok(given);
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(|error| Failure::new("cannot take the text from standard input").because(error))?;
    Ok(text)
}
