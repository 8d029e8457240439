//! `sessionfs doctor`: what this machine lacks for mounting, and what mends it.

use super::sources::SourceArgs;
use super::{Failure, Paint, output};
use crate::fuse::{daemon, health};
use crate::transcript::display;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  sessionfs doctor
  sessionfs doctor --json | jq -r '.[] | select(.state == \"bad\") | .mend'

Exit code: 0 when everything is there, 1 when something that mounting needs is not.";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sources: SourceArgs,
    /// Print a JSON array instead of lines
    #[arg(long)]
    json: bool,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Nothing that mounting needs.
    Note,
    /// Mounting needs it.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    says: String,
    /// What to do about it.
    mend: Option<String>,
}

impl Finding {
    fn new(what: &'static str, state: State, says: impl Into<String>) -> Self {
        Self {
            what,
            state,
            says: says.into(),
            mend: None,
        }
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

/// Prints what was found.
pub(super) fn run(args: &Args, paint: Paint) -> Result<(), Failure> {
    let mut findings = vec![device(), helper(), allow_other()];
    mounts(&mut findings);
    sources(args, &mut findings);
    findings.push(log());
    let text = if args.json {
        let json = serde_json::to_string_pretty(&findings);
        json.map_err(|error| Failure::new("cannot write the findings as JSON").because(error))?
            + "\n"
    } else {
        lines(&findings, paint)
    };
    output::print(text.as_bytes())?;
    if findings.iter().any(|finding| finding.state == State::Bad) {
        return Err(Failure::told(1));
    }
    Ok(())
}

fn lines(findings: &[Finding], paint: Paint) -> String {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok  ".to_owned(),
            State::Note => "note".to_owned(),
            State::Bad => paint.red("bad "),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:width$}  {state}  {}",
            finding.what,
            display::line(&finding.says)
        );
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "{:width$}        {}", "", display::line(mend));
        }
    }
    text
}

fn device() -> Finding {
    match health::device() {
        Ok(()) => Finding::new("device", State::Ok, "/dev/fuse can be opened"),
        Err(error) => told("device", &error),
    }
}

fn helper() -> Finding {
    match health::helper() {
        Ok(()) if nix::unistd::geteuid().is_root() => {
            Finding::new("permission", State::Ok, "root mounts without help")
        }
        Ok(()) => Finding::new("permission", State::Ok, "fusermount3 mounts for this user"),
        Err(error) => told("permission", &error),
    }
}

fn told(what: &'static str, error: &crate::fuse::mount::MountError) -> Finding {
    let finding = Finding::new(what, State::Bad, error.to_string());
    match error.hint() {
        Some(hint) => finding.mend(hint),
        None => finding,
    }
}

fn allow_other() -> Finding {
    if health::may_allow_other() {
        Finding::new("allow-other", State::Ok, "mount --allow-other is allowed")
    } else {
        let says = "mount --allow-other is not allowed to this user";
        let mend =
            "only where others shall read it, as root: echo user_allow_other >> /etc/fuse.conf";
        Finding::new("allow-other", State::Note, says).mend(mend)
    }
}

fn mounts(findings: &mut Vec<Finding>) {
    let seen = match health::mounts() {
        Ok(seen) => seen,
        Err(error) => {
            let says = format!("cannot read the list of mounts: {error}");
            return findings.push(Finding::new("mount", State::Bad, says));
        }
    };
    if seen.is_empty() {
        findings.push(Finding::new(
            "mount",
            State::Ok,
            "none now, and no dead one",
        ));
    }
    for mount in seen {
        let shown = mount.point.display();
        findings.push(if mount.is_dead {
            let mend = format!("sessionfs unmount {}", output::shell_word(&mount.point));
            Finding::new(
                "mount",
                State::Bad,
                format!("{shown}: its process has died"),
            )
            .mend(mend)
        } else {
            let log = daemon::log_path(&mount.point).filter(|log| log.is_file());
            let log = log.map_or(String::new(), |log| format!(", log {}", log.display()));
            Finding::new("mount", State::Ok, format!("{shown} answers{log}"))
        });
    }
}

fn sources(args: &Args, findings: &mut Vec<Finding>) {
    let opened = match args.sources.open() {
        Ok(opened) => opened,
        Err(failure) => {
            let mend = "name one: sessionfs mount SOURCE MOUNTPOINT; or write a sample store: sessionfs demo";
            let finding = Finding::new("sources", State::Note, failure.what());
            return findings.push(finding.mend(mend));
        }
    };
    let store = opened.store();
    let index = store.index();
    let roots: Vec<String> = opened
        .roots()
        .iter()
        .map(|r| r.display().to_string())
        .collect();
    let says = format!("{} sessions in {}", index.len(), roots.join(", "));
    findings.push(Finding::new("sources", State::Ok, says));
    if let Some(first) = index.problems().first() {
        let says = format!(
            "{} could not be used, such as {first}",
            index.problems().len()
        );
        let mend = "a mount lists all of them in problems.tsv";
        findings.push(Finding::new("problems", State::Note, says).mend(mend));
    }
}

fn log() -> Finding {
    let Some(path) = daemon::log_path(Path::new("NAME")) else {
        let says = "a mount in the background has no log: neither XDG_STATE_HOME nor HOME is set";
        return Finding::new("log", State::Note, says);
    };
    let shown = path.display();
    let says = format!("a mount in the background on a directory NAME logs to {shown}");
    Finding::new("log", State::Ok, says)
}
