//! The program: parse, run, print one error line, exit.

use clap::Parser;
use sessionfs::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let paint = cli.common.paint_errors();
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(paint),
    }
}
