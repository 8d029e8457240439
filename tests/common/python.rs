//! A Python of the tests' own, with the packages that people read tables and JSON with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What is installed into it.
const PACKAGES: [&str; 2] = ["duckdb", "pandas"];

/// The interpreter, installed when it is first asked for and kept below cargo's directory for tests. Fails with one line
/// where it cannot be had.
pub fn interpreter() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| make().unwrap_or_else(|why| panic!("{why}")))
        .clone()
}

fn make() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = folder.join("python");
    let python = place.join("bin/python3");
    let has_packages = |python: &Path| {
        let import = format!("import {}", PACKAGES.join(", "));
        let tried = Command::new(python).args(["-c", &import]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if has_packages(&python) {
        return Ok(python);
    }
    // An environment knows its own place, so it is made there; two test programs must not do that at once.
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let lock = std::fs::File::create(folder.join("python.lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if has_packages(&python) {
        return Ok(python);
    }
    let place = place.to_str().ok_or("the target directory is no text")?;
    run(
        "python3",
        &["-m", "venv", "--clear", place],
        "scripts/test installs python3-venv",
    )?;
    let mut install = vec![
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    install.extend(PACKAGES);
    let python_text = python.to_str().ok_or("the target directory is no text")?;
    run(
        python_text,
        &install,
        "these tests need DuckDB and pandas from a Python package index",
    )?;
    Ok(python)
}

fn run(program: &str, args: &[&str], hint: &str) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}; {hint}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("{program} {}: {last}; {hint}", args.join(" ")))
}
