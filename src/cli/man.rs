//! `sessionfs man`: the manual, in the form that `man` reads.

use super::{Cli, Failure, output};
use clap::CommandFactory;
use clap_mangen::Man;

const EXAMPLES: &str = "\
Examples:
  sessionfs man | man -l -
  sessionfs man > ~/.local/share/man/man1/sessionfs.1
  sessionfs man mount > ~/.local/share/man/man1/sessionfs-mount.1
  sessionfs man log append | man -l -";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The page of this command instead of the whole program's
    command: Vec<String>,
}

/// Prints a page.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut program = Cli::command();
    program.build();
    let mut page = &program;
    for (i, name) in args.command.iter().enumerate() {
        page = page.find_subcommand(name).ok_or_else(|| {
            let whole = args.command[..=i].join(" ");
            Failure::wrong_use(format!("there is no command {whole}"))
                .hint("sessionfs help lists the commands")
        })?;
    }
    let mut text = Vec::new();
    Man::new(page.clone())
        .render(&mut text)
        .map_err(|error| Failure::new("cannot write the manual").because(error))?;
    output::print(&text)
}
