//! `sessionfs unmount`: ends a mount, also one whose process has died.

use super::Failure;
use super::mount::failure;
use crate::fuse::point;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  sessionfs unmount mnt

A mount that somebody uses is left alone, and the command says who it is.";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where it is mounted
    #[arg(value_name = "MOUNTPOINT")]
    mountpoint: PathBuf,
}

/// Unmounts.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let point = point::unmount(&args.mountpoint)
        .map_err(|error| failure(error.to_string(), error.hint()))?;
    tracing::info!("unmounted {}", point.display());
    Ok(())
}
