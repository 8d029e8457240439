//! `sessionfs schema`: the schema of a format that others read.

use super::{Failure, output};
use crate::telemetry;
use clap::ValueEnum;

const EXAMPLES: &str = "\
Examples:
  sessionfs schema telemetry > telemetry.schema.json
  sessionfs schema telemetry | jq '.properties | keys'";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The format
    #[arg(value_enum)]
    format: Format,
}

/// A format that has a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// telemetry.json: a JSON Schema
    Telemetry,
}

/// Prints the schema.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match args.format {
        Format::Telemetry => output::print(telemetry::schema().as_bytes()),
    }
}
