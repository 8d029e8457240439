//! The scanner beside serde_json on whatever lines the fuzzer finds: `cargo fuzz run scanner`, which needs a nightly compiler.

#![no_main]

#[path = "../../tests/support/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|line: &[u8]| oracle::check(line));
