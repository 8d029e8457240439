//! `sessionfs log show`: a log as it is read. Never writes, and reads one event at a time.

use super::{Log, failed};
use crate::cli::{Failure, Paint, output};
use crate::session_log::{Event, EventPosition, LogError, ObjectHead, Role, Snapshot, State};
use crate::transcript::display::{self, Shown};
use crate::transcript::text::Raw;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;

/// How often a log that is followed is looked at, in milliseconds.
const EVERY: u16 = 100;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    log: Log,
    /// Print a JSON object; with --follow one JSON object an event
    #[arg(long)]
    json: bool,
    /// Go on printing what is appended, until the log is sealed
    #[arg(short, long)]
    follow: bool,
}

/// An object as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    position: u64,
    file_name: &'a str,
    media_type: &'a str,
    length: u64,
}

/// What is wrong as JSON.
#[derive(Clone, Serialize)]
struct Problem {
    offset: u64,
    reason: String,
}

/// An event as JSON, by itself.
#[derive(Serialize)]
struct Line<'a> {
    position: u64,
    role: Role,
    text: &'a str,
}

type Objects = BTreeMap<EventPosition, Result<ObjectHead, LogError>>;

pub(super) fn run(args: &Args, paint: Paint) -> Result<(), Failure> {
    let store = args.log.store();
    let wrong = |error| failed("show", &args.log.id, error);
    let mut snapshot = store.read(&args.log.id).map_err(wrong)?;
    let mut out = Printer {
        out: BufWriter::new(std::io::stdout().lock()),
        paint,
        position: 0,
        json: args.json,
    };
    if args.follow {
        return out.follow(&mut snapshot, &args.log.id);
    }
    let objects: Objects = snapshot.objects().collect();
    let problem = problem(&snapshot, &objects);
    if args.json {
        out.document(&snapshot, &objects, problem.as_ref(), wrong)?;
    } else {
        out.heading(&snapshot, &args.log.id, problem.as_ref())?;
        for event in snapshot.events() {
            let object = objects.get(&EventPosition(out.position));
            out.event(&event.map_err(wrong)?, object)?;
        }
        if let Some(problem) = &problem {
            let line = format!("\nproblem at byte {}: {}", problem.offset, problem.reason);
            out.text(&line)?;
        }
    }
    out.out.flush().map_err(output::failed)?;
    // What could be read is printed; who takes it for the whole log must be told.
    problem.map_or(Ok(()), |problem| {
        let what = format!("{} is damaged at byte {}", args.log.id, problem.offset);
        let failure = Failure::new(format!("{what}: {}", problem.reason));
        Err(failure
            .hint("what is printed is what can be read; sessionfs log verify names every fault"))
    })
}

/// Where and why the log stops being readable, or the first object that is not what its event names.
fn problem(snapshot: &Snapshot, objects: &Objects) -> Option<Problem> {
    if let Some(problem) = snapshot.problem() {
        return Some(Problem {
            offset: problem.offset,
            reason: problem.fault.to_string(),
        });
    }
    objects.values().find_map(|object| match object {
        Err(
            error @ LogError::Object {
                path,
                offset,
                fault,
            },
        ) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let _ = error;
            Some(Problem {
                offset: *offset,
                reason: format!("the object {name} {fault}"),
            })
        }
        Err(error) => Some(Problem {
            offset: 0,
            reason: error.reason(),
        }),
        Ok(_) => None,
    })
}

struct Printer<'a> {
    out: BufWriter<std::io::StdoutLock<'a>>,
    paint: Paint,
    /// Of the next event.
    position: u64,
    json: bool,
}

impl Printer<'_> {
    /// The whole log as one JSON object, written while it is read.
    fn document(
        &mut self,
        snapshot: &Snapshot,
        objects: &Objects,
        problem: Option<&Problem>,
        wrong: impl Fn(LogError) -> Failure,
    ) -> Result<(), Failure> {
        let state = if problem.is_some() {
            State::Corrupt
        } else {
            snapshot.state()
        };
        self.raw("{\"header\":")?;
        self.value(&snapshot.header())?;
        self.raw(",\"state\":")?;
        self.value(&state.name())?;
        self.raw(",\"events\":[")?;
        for (number, event) in snapshot.events().enumerate() {
            self.raw(if number > 0 { "," } else { "" })?;
            self.value(&event.map_err(&wrong)?)?;
        }
        self.raw("],\"objects\":")?;
        let objects = objects.iter().filter_map(|(position, head)| {
            let head = head.as_ref().ok()?;
            Some(Object {
                position: position.0,
                file_name: &head.file_name,
                media_type: &head.media_type,
                length: head.length,
            })
        });
        self.value(&objects.collect::<Vec<_>>())?;
        self.raw(",\"problem\":")?;
        self.value(&problem)?;
        self.raw("}\n")
    }

    fn heading(
        &mut self,
        snapshot: &Snapshot,
        id: &str,
        problem: Option<&Problem>,
    ) -> Result<(), Failure> {
        let state = match problem {
            Some(_) => State::Corrupt.name().to_owned(),
            None if snapshot.in_progress() > 0 => {
                format!(
                    "in progress: {} byte(s) not yet complete",
                    snapshot.in_progress()
                )
            }
            None => snapshot.state().name().to_owned(),
        };
        let created = snapshot.header().map(|header| {
            let at = display::line(&header.created_at);
            format!(", created {at}")
        });
        let (events, objects) = (snapshot.event_count(), snapshot.object_count());
        let heading = format!("session {id}");
        let rest = format!(
            "{}, {state}, {events} event(s), {objects} object(s)",
            created.unwrap_or_default()
        );
        let heading = self.paint.bold(&heading);
        self.text(&format!("{heading}{rest}"))
    }

    /// One event: as a JSON line, or its position and role and, below, its text in display form.
    fn event(
        &mut self,
        event: &Event,
        object: Option<&Result<ObjectHead, LogError>>,
    ) -> Result<(), Failure> {
        let position = self.position;
        self.position += 1;
        if self.json {
            let (role, text) = (event.role, event.text.as_str());
            self.value(&Line {
                position,
                role,
                text,
            })?;
            return self.raw("\n");
        }
        let object = object.map(|object| match object {
            Ok(head) => format!(
                "  {} ({}, {} bytes)",
                display::line(&head.file_name),
                display::line(&head.media_type),
                head.length
            ),
            Err(_) => "  (missing or damaged)".to_owned(),
        });
        let title = format!("{position} {}", event.role.name());
        let title = self.paint.bold(&title);
        self.text(&format!("\n{title}{}", object.unwrap_or_default()))?;
        let mut shown = Vec::new();
        let raw = Raw::plain(event.text.as_bytes());
        display::write(raw, &mut shown, &mut Shown::default());
        // Indented, so that no text looks like the next event.
        for line in shown.split_inclusive(|&b| b == b'\n') {
            self.raw("  ")?;
            self.out.write_all(line).map_err(output::failed)?;
        }
        if shown.ends_with(b"\n") {
            return Ok(());
        }
        self.raw("\n")
    }

    /// Prints the log and then what is appended to it, until it is sealed, damaged or gone, or until nobody reads any more.
    fn follow(&mut self, snapshot: &mut Snapshot, id: &str) -> Result<(), Failure> {
        let wrong = |error| failed("follow", id, error);
        if !self.json {
            self.heading(snapshot, id, None)?;
        }
        let mut mark = None;
        loop {
            let new = match mark.take() {
                Some(mark) => snapshot.events_since(mark),
                None => snapshot.events(),
            };
            for event in new {
                let object = snapshot.object_head(EventPosition(self.position));
                self.event(&event.map_err(wrong)?, object.as_ref())?;
            }
            self.out.flush().map_err(output::failed)?;
            if let Some(problem) = snapshot.problem() {
                return Err(failed(
                    "follow",
                    id,
                    LogError::Corrupt {
                        path: snapshot.path().to_path_buf(),
                        offset: problem.offset,
                        fault: problem.fault.clone(),
                    },
                ));
            }
            if snapshot.state() == State::Sealed {
                return Ok(());
            }
            if Self::reader_has_gone() {
                return Err(Failure::broken_pipe());
            }
            mark = Some(snapshot.mark());
            snapshot.advance().map_err(wrong)?;
        }
    }

    /// Waits until it is time to look again, or until whoever reads the output has gone.
    fn reader_has_gone() -> bool {
        let out = std::io::stdout();
        let mut ends = [PollFd::new(out.as_fd(), PollFlags::empty())];
        // An interrupted wait is only a shorter one.
        let ended = poll(&mut ends, PollTimeout::from(EVERY)).is_ok_and(|ready| ready > 0);
        ended
            && ends[0]
                .revents()
                .is_some_and(|events| events.contains(PollFlags::POLLERR))
    }

    fn text(&mut self, line: &str) -> Result<(), Failure> {
        self.raw(line)?;
        self.raw("\n")
    }

    fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(output::failed)
    }

    fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::new("cannot write the log as JSON").because(error))?;
        self.raw(&text)
    }
}
