//! The program: parse, run, print one error line, exit.

fn main() {}
