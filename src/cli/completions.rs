//! `sessionfs completions`: what a shell needs to complete a command line.

use super::{Cli, Failure, output};
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  sessionfs completions bash > ~/.local/share/bash-completion/completions/sessionfs
  sessionfs completions fish > ~/.config/fish/completions/sessionfs.fish
  sessionfs completions zsh > ~/.zfunc/_sessionfs          with ~/.zfunc in fpath";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sessionfs", &mut script);
    output::print(&script)
}
