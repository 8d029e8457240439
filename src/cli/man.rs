//! `sessionfs man`: the manual, in the form that `man` reads.

use super::{Cli, Failure, output};
use clap::CommandFactory;
use clap_mangen::Man;

const EXAMPLES: &str = "\
Examples:
  sessionfs man | man -l -
  sessionfs man > ~/.local/share/man/man1/sessionfs.1
  sessionfs man mount > ~/.local/share/man/man1/sessionfs-mount.1";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The page of this command instead of the whole program's
    command: Option<String>,
}

/// Prints a page.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut program = Cli::command();
    program.build();
    let page = match &args.command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            found.ok_or_else(|| {
                Failure::wrong_use(format!("there is no command {name}"))
                    .hint("sessionfs help lists the commands")
            })?
        }
    };
    let mut text = Vec::new();
    Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::new("cannot write the manual").because(error))?;
    output::print(&text)
}
