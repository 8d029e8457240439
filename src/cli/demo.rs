//! `sessionfs demo`: a small sample store, to look at what a mount shows without any session of one's own.
//!
//! The sessions are invented and lie as text beside this file. One fixes a parser: it holds two agents that ran at the same
//! time, a picture and a line that an interrupted write damaged. The other is a single question.

use super::{Failure, output, sources};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const EXAMPLES: &str = "\
Examples:
  sessionfs demo
  sessionfs demo /tmp/sample";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to write it; created, must be empty if it is there
    #[arg(value_name = "DIR", default_value = "./sessionfs-demo")]
    folder: PathBuf,
}

/// One file of the sample store.
struct Sample {
    name: &'static str,
    text: &'static str,
    /// Seconds since the epoch: when its last line says it was written.
    modified: u64,
}

const STORE: &[Sample] = &[
    Sample {
        name: "-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001.jsonl",
        text: include_str!("demo/parser.jsonl"),
        modified: 1_795_511_987,
    },
    Sample {
        name: "-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001/subagents/agent-a1f0e2d3c4b5a697.jsonl",
        text: include_str!("demo/parser-callers.jsonl"),
        modified: 1_795_511_820,
    },
    Sample {
        name: "-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001/subagents/agent-a1f0e2d3c4b5a697.meta.json",
        text: include_str!("demo/parser-callers.meta.json"),
        modified: 1_795_511_723,
    },
    Sample {
        name: "-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001/subagents/agent-a2b3c4d5e6f70819.jsonl",
        text: include_str!("demo/parser-tests.jsonl"),
        modified: 1_795_511_791,
    },
    Sample {
        name: "-home-user-tally/7a11c0de-5ca1-4ab1-8e55-20261124a001/subagents/agent-a2b3c4d5e6f70819.meta.json",
        text: include_str!("demo/parser-tests.meta.json"),
        modified: 1_795_511_726,
    },
    Sample {
        name: "-home-user-notes/b00c0de5-1157-4f0e-9a11-20261120b002.jsonl",
        text: include_str!("demo/notes.jsonl"),
        modified: 1_795_192_815,
    },
];

/// Writes the store and says what to do with it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let folder = &args.folder;
    sources::refuse_below_defaults(folder)?;
    refuse_unless_empty(folder)?;
    for sample in STORE {
        write(sample, &folder.join(sample.name))?;
    }
    let shown = output::shell_word(folder);
    output::print(
        format!(
            "\
Wrote a sample store to {shown}: two sessions, one with two agents.

Try:
  sessionfs list --source {shown}
  sessionfs cat 7a11/artefact.md --source {shown} | less
  mkdir mnt && sessionfs mount {shown} mnt && ls mnt/latest/
  sessionfs unmount mnt
"
        )
        .as_bytes(),
    )
}

/// An empty or new folder only: somebody's own files could be what another mount shows.
fn refuse_unless_empty(folder: &Path) -> Result<(), Failure> {
    let failed = |error| {
        Failure::new(format!("cannot look into {}", folder.display()))
            .because(error)
            .hint("choose another folder: sessionfs demo DIR")
    };
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(Err(error)) => Err(failed(error)),
            Some(Ok(_)) => Err(
                Failure::new(format!("{} is not empty", folder.display())).hint(
                    "if it is an earlier sample store, use it or remove it; otherwise choose another folder: sessionfs demo DIR",
                ),
            ),
        },
    }
}

fn write(sample: &Sample, path: &Path) -> Result<(), Failure> {
    let failed = |error| output::not_written(path, error);
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    output::write_file(path, &[sample.text.as_bytes()])?;
    std::fs::File::options()
        .append(true)
        .open(path)
        .and_then(|file| {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(sample.modified))
        })
        .map_err(failed)
}
