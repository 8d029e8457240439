//! The program: parse, run, print one error line, exit.

use clap::Parser;
use sessionfs::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::wrong_use(&error, std::env::args_os().skip(1)),
    };
    let paint = cli.common.paint_errors();
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(paint),
    }
}
