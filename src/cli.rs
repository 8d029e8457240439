//! The commands, one file each: [`Cli`] is what a command line says, [`run`] does it.
//!
//! A command is a `clap::Args` type and a function `run` that takes it. Results go to standard output through
//! `output`, everything else to standard error; what goes wrong is a [`Failure`]. `spec/commands.md` is the source.

mod cat;
mod completions;
mod demo;
mod doctor;
mod export;
mod failure;
mod list;
mod log;
mod man;
mod mount;
mod output;
mod reconstruct;
mod schema;
mod session_log;
mod sources;
mod unmount;
mod verify;

pub use failure::Failure;
pub use output::Paint;

use clap::{ArgAction, ColorChoice, Parser, Subcommand};
use std::io::IsTerminal;

const EXAMPLES: &str = "\
Examples:
  sessionfs demo                                     write a small sample store to ./sessionfs-demo
  sessionfs mount ./sessionfs-demo mnt               mount it on the empty directory mnt
  sessionfs list                                     the sessions of this machine, newest first
  sessionfs cat 7a11/artefact.md                     read one session without mounting anything
  sessionfs unmount mnt

Exit code: 0 done, 1 something found or failed, 2 wrong use.";

/// A command line.
#[derive(Debug, Parser)]
#[command(name = "sessionfs", version, about, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Set where `mount` starts the program again to stay in the background
    #[arg(long, hide = true)]
    detached: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Common {
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Whether the output is coloured.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(help = "Colour the output: by default on a terminal, unless NO_COLOR is set")]
    pub color: ColorChoice,
}

impl Common {
    /// Whether standard output is coloured.
    pub fn paint(self) -> Paint {
        Paint::new(self.color, std::io::stdout().is_terminal())
    }

    /// Whether standard error is coloured.
    pub fn paint_errors(self) -> Paint {
        Paint::new(self.color, std::io::stderr().is_terminal())
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount sessions as a read-only file system
    Mount(mount::Args),
    /// End a mount
    Unmount(unmount::Args),
    /// List the sessions, newest first
    List(list::Args),
    /// Write a session's artefact and telemetry as two files
    Reconstruct(reconstruct::Args),
    /// Print one file of what a mount would show
    Cat(cat::Args),
    /// Write the tree, or some sessions of it, as real files
    Export(export::Args),
    /// Check every frame and object of framed session logs
    Verify(verify::Args),
    /// Write and look at framed session logs
    Log(session_log::Args),
    /// Write a small sample store
    Demo(demo::Args),
    /// Print the schema of a format
    Schema(schema::Args),
    /// Say what this machine lacks for mounting, and what mends it
    Doctor(doctor::Args),
    /// Print what a shell needs to complete command lines
    Completions(completions::Args),
    /// Print the manual
    Man(man::Args),
}

/// Does what the command line says.
pub fn run(cli: Cli) -> Result<(), Failure> {
    log::start(cli.common, cli.detached);
    match cli.command {
        Command::Mount(args) => mount::run(&args, cli.common, cli.detached),
        Command::Unmount(args) => unmount::run(&args),
        Command::List(args) => list::run(&args, cli.common.paint()),
        Command::Reconstruct(args) => reconstruct::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Verify(args) => verify::run(&args, cli.common),
        Command::Log(args) => session_log::run(args, cli.common, cli.common.paint()),
        Command::Demo(args) => demo::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Doctor(args) => doctor::run(&args, cli.common.paint()),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
