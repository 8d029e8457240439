//! `sessionfs verify`: every frame and object of the framed logs in some sources, and every entry of their records of messages,
//! checked and counted.

use super::sources::{Outright, recognise};
use super::{Common, Failure, output};
use crate::record;
use crate::session_log::{LogError, SessionLogStore};
use crate::store::Source;
use crate::transcript::display;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  sessionfs verify logs
  sessionfs verify --record record
  sessionfs verify --json logs | jq -r '.faults[] | .path'";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders that hold sessions, by default where they are kept
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    outright: Outright,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What was checked and found.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Framed logs.
    logs: u64,
    /// Their verified events.
    events: u64,
    /// Pending objects that events name.
    objects: u64,
    /// Record directories.
    records: u64,
    /// Their entries.
    entries: u64,
    /// Bytes of the logs and of the entries.
    bytes: u64,
    /// Logs whose last frame is not complete yet, which is no fault.
    in_progress: Vec<InProgress>,
    /// What is wrong.
    faults: Vec<Fault>,
}

#[derive(Debug, Serialize)]
struct InProgress {
    path: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Fault {
    path: String,
    /// Byte at which the frame begins that is wrong, or the frame of the event whose object is; none where it is no byte's.
    offset: Option<u64>,
    reason: String,
}

/// Checks everything in the sources that can be checked.
pub(super) fn run(args: &Args, common: Common) -> Result<(), Failure> {
    let sources = recognise(&args.sources, &args.outright)?;
    let roots = |wanted: fn(&Source) -> bool| -> Vec<&Path> {
        let wanted = sources.iter().filter(|source| wanted(source));
        wanted.map(Source::root).collect()
    };
    let mut report = Report::default();
    report.logs(&roots(Source::is_logs), None, common)?;
    for root in roots(Source::is_record) {
        report.record(root)?;
    }
    report.print(args.json)
}

/// Checks the logs of a directory, or one of them.
pub(super) fn logs(
    directory: &Path,
    id: Option<&str>,
    json: bool,
    common: Common,
) -> Result<(), Failure> {
    if !directory.is_dir() {
        return Err(Failure::new(format!(
            "{}: there is no such directory",
            directory.display()
        ))
        .hint("give the directory that holds the logs"));
    }
    let mut report = Report::default();
    report.logs(&[directory], id, common)?;
    report.print(json)
}

fn size(store: &SessionLogStore, id: &str) -> u64 {
    let path = store.directory().join(format!("{id}.session-log"));
    // Only how far the check is depends on it.
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

impl Report {
    fn logs(&mut self, roots: &[&Path], id: Option<&str>, common: Common) -> Result<(), Failure> {
        let mut found: Vec<(SessionLogStore, String)> = Vec::new();
        for root in roots {
            let store = SessionLogStore::new(*root);
            let ids = match id {
                Some(id) => vec![id.to_owned()],
                None => store
                    .session_ids()
                    .map_err(|error| Failure::new("cannot look for logs").because(error))?,
            };
            found.extend(ids.into_iter().map(|id| (store.clone(), id)));
        }
        let sizes = found.iter().map(|(store, id)| size(store, id));
        let mut progress = Progress::new(sizes.sum(), common.quiet);
        for (store, id) in &found {
            self.log(store, id, &mut progress)?;
        }
        progress.end();
        Ok(())
    }

    fn record(&mut self, root: &Path) -> Result<(), Failure> {
        let verified = record::verify(root)
            .map_err(|error| Failure::new("cannot verify a record").because(error))?;
        self.records += 1;
        self.entries += verified.entries;
        self.bytes += verified.bytes;
        for fault in verified.faults {
            self.fault(&fault.path, None, &fault.why);
        }
        Ok(())
    }

    fn log(
        &mut self,
        store: &SessionLogStore,
        id: &str,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let snapshot = match store.read_watched(id, &mut |at| progress.set(at)) {
            Ok(snapshot) => snapshot,
            Err(error @ (LogError::InvalidId { .. } | LogError::Missing { .. })) => {
                return Err(Failure::new(format!("cannot verify {id}")).because(error));
            }
            Err(error) => {
                let path = store.directory().join(format!("{id}.session-log"));
                self.fault(&path, None, &error.reason());
                return Ok(());
            }
        };
        self.logs += 1;
        self.events += snapshot.event_count();
        self.bytes += snapshot.length();
        if let Some(problem) = snapshot.problem() {
            let reason = problem.fault.to_string();
            self.fault(snapshot.path(), Some(problem.offset), &reason);
        } else if snapshot.in_progress() > 0 {
            self.in_progress.push(InProgress {
                path: shown(snapshot.path()),
                bytes: snapshot.in_progress(),
            });
        }
        for (_, object) in snapshot.objects() {
            self.objects += 1;
            match object {
                Ok(_) => {}
                Err(LogError::Object {
                    path,
                    offset,
                    fault,
                }) => self.fault(&path, Some(offset), &fault.to_string()),
                Err(error) => self.fault(snapshot.path(), None, &error.reason()),
            }
            progress.show();
        }
        progress.done(snapshot.length());
        Ok(())
    }

    fn fault(&mut self, path: &Path, offset: Option<u64>, reason: &str) {
        self.faults.push(Fault {
            path: shown(path),
            offset,
            reason: display::line(reason),
        });
    }

    /// Prints what was found; a fault is a failure.
    fn print(&self, json: bool) -> Result<(), Failure> {
        let text = if json {
            let mut text = serde_json::to_string_pretty(self)
                .map_err(|error| Failure::new("cannot write the report as JSON").because(error))?;
            text.push('\n');
            text
        } else {
            self.text()
        };
        output::print(text.as_bytes())?;
        match self.faults.len() {
            0 => Ok(()),
            n => Err(Failure::new(format!("{n} fault(s) found"))),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String never fails.
        for fault in &self.faults {
            let at = fault.offset.map(|at| format!("byte {at}: "));
            let at = at.unwrap_or_default();
            let _ = writeln!(text, "{}: {at}{}", fault.path, fault.reason);
        }
        for log in &self.in_progress {
            let _ = writeln!(
                text,
                "{}: in progress: {} byte(s) not yet complete",
                log.path, log.bytes
            );
        }
        let entries = match self.records {
            0 => String::new(),
            _ => format!("{} record file(s), ", self.entries),
        };
        let _ = writeln!(
            text,
            "{} log(s), {} event(s), {} object(s), {entries}{} byte(s): {} fault(s)",
            self.logs,
            self.events,
            self.objects,
            self.bytes,
            self.faults.len()
        );
        text
    }
}

fn shown(path: &Path) -> String {
    display::line(&path.to_string_lossy())
}

/// How far the check is: a bar on a terminal, once it has taken a second.
struct Progress {
    total: u64,
    /// Bytes of the logs that are done.
    before: u64,
    /// Bytes of the present log that are verified.
    at: u64,
    start: Instant,
    wanted: bool,
    bar: Option<ProgressBar>,
}

/// How long a check takes before it shows how far it is.
const PATIENCE: Duration = Duration::from_secs(1);

impl Progress {
    fn new(total: u64, quiet: bool) -> Self {
        Self {
            total,
            before: 0,
            at: 0,
            start: Instant::now(),
            wanted: !quiet && std::io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// So many bytes of the present log are verified.
    fn set(&mut self, at: u64) {
        self.at = at;
        self.show();
    }

    /// The present log, of this length, is done.
    fn done(&mut self, length: u64) {
        self.before += length;
        self.set(0);
    }

    /// Shows how far it is, also where an object was verified, which takes time and is none of the log's bytes.
    fn show(&mut self) {
        if self.bar.is_none() && self.wanted && self.start.elapsed() > PATIENCE {
            let bar = ProgressBar::new(self.total);
            // The template is ours; if it were wrong the bar would have its usual form.
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes}") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.before + self.at);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
