//! `sessionfs reconstruct`: one session's artefact and telemetry, as two files.

use super::sources::SourceArgs;
use super::{Failure, output};
use crate::artefact::{self, Style};
use crate::{session, telemetry};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  sessionfs reconstruct 7a11
  sessionfs reconstruct 7a11 -o out --full
  sessionfs reconstruct 7a11 --spine --source ./sessionfs-demo";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The session's ID, or a unique beginning of it
    #[arg(value_name = "SESSION")]
    session: String,
    /// Where to write the two files
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Prompts, answers and tool names only
    #[arg(long, conflicts_with_all = ["full", "max_block_bytes"])]
    spine: bool,
    /// Cut nothing
    #[arg(long, conflicts_with = "max_block_bytes")]
    full: bool,
    /// Cut each block after this many bytes; 0 cuts nothing
    #[arg(long, value_name = "N", default_value_t = 8192)]
    max_block_bytes: usize,
    #[command(flatten)]
    sources: SourceArgs,
}

impl Args {
    fn style(&self) -> Style {
        match (self.spine, self.full, self.max_block_bytes) {
            (true, ..) => Style::Spine,
            (_, true, _) => Style::Full,
            (.., 0) => Style::Cut(None),
            (.., bytes) => Style::Cut(Some(bytes)),
        }
    }
}

/// Writes the files and prints their paths.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let opened = args.sources.open()?;
    opened.refuse_below(&args.output)?;
    if !args.output.is_dir() {
        return Err(
            Failure::new(format!("{} is not a directory", args.output.display())).hint(format!(
                "create it: mkdir -p {}",
                output::shell_word(&args.output)
            )),
        );
    }
    let id = opened.resolve(&args.session)?;
    let session = session::open(&opened.files(&id)?);
    let document = artefact::whole(&session, args.style());
    let telemetry = telemetry::whole(&session, &document.shown);

    let artefact: Vec<&[u8]> = document.segments.iter().map(|segment| &**segment).collect();
    for (kind, parts) in [
        ("artefact.md", artefact.as_slice()),
        ("telemetry.json", &[&telemetry]),
    ] {
        let path = args.output.join(format!("{id}.{kind}"));
        output::write_file(&path, parts)?;
        output::print(format!("{}\n", path.display()).as_bytes())?;
    }
    Ok(())
}
