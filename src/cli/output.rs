//! What a command hands over: text on standard output, files that are whole or not there.

use super::Failure;
pub(super) use crate::transcript::display::shell::word as shell_word;
use crate::tree::export::{is_full, new_file_in};
use clap::ColorChoice;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes to standard output.
pub(super) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(failed)
}

/// Why standard output could not be written. A reader that has gone ends the command quietly.
pub(super) fn failed(error: std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        Failure::broken_pipe()
    } else {
        Failure::new("cannot write to standard output").because(error)
    }
}

/// Writes a file of mode 0600, its content given in parts, that is whole or not there: to a temporary file beside it, then renamed over it.
///
/// An interrupt waits until it is done, so that nothing half-written stays.
pub(super) fn write_file(path: &Path, parts: &[&[u8]]) -> Result<(), Failure> {
    uninterrupted(|| try_write_file(path, parts)).map_err(|error| not_written(path, error))
}

/// Why this file or folder could not be written.
pub(super) fn not_written(path: &Path, error: std::io::Error) -> Failure {
    let hint = if is_full(&error) {
        "free some space, or choose a folder on another disk"
    } else {
        "look at the permissions of its folder, or choose another folder"
    };
    Failure::new(format!("cannot write {}", path.display()))
        .because(error)
        .hint(hint)
}

fn try_write_file(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = new_file_in(folder)?;
    for part in parts {
        file.as_file_mut().write_all(part)?;
    }
    file.persist(path)?;
    Ok(())
}

/// Does `work` with SIGINT, SIGTERM and SIGHUP held back; one that came meanwhile ends the program afterwards, as it would have at once.
pub(super) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    static GATE: std::sync::OnceLock<Gate> = std::sync::OnceLock::new();
    let gate = GATE.get_or_init(Gate::install);
    gate.open.store(false, Ordering::SeqCst);
    let result = work();
    gate.open.store(true, Ordering::SeqCst);
    for (signal, came) in &gate.waiting {
        if came.load(Ordering::SeqCst) {
            // It cannot fail for these three, and if it did the program would only go on.
            let _ = low_level::emulate_default_handler(*signal);
        }
    }
    result
}

/// Work that takes long asks whether it should stop, so that it can leave everything whole.
pub(super) struct Stop {
    wanted: Arc<AtomicBool>,
}

impl Stop {
    /// The first SIGINT, SIGTERM or SIGHUP asks the work to stop; a second one ends the program at once.
    pub(super) fn on_signal() -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            // Registering fails only for signals that nobody may catch. The first action comes first.
            let _ = flag::register_conditional_default(signal, Arc::clone(&wanted));
            let _ = flag::register(signal, Arc::clone(&wanted));
        }
        Self { wanted }
    }

    /// True once the work should stop.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.wanted
    }

    /// Ends the program after the work has stopped, as a program that was interrupted does.
    pub(super) fn end() -> ! {
        let _ = low_level::emulate_default_handler(SIGINT);
        // Not reached: the signal ended the program.
        std::process::exit(130)
    }
}

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Whether a signal ends the program at once, and which ones wait.
struct Gate {
    open: Arc<AtomicBool>,
    waiting: [(i32, Arc<AtomicBool>); 3],
}

impl Gate {
    fn install() -> Self {
        let gate = Self {
            open: Arc::new(AtomicBool::new(true)),
            waiting: SIGNALS.map(|signal| (signal, Arc::default())),
        };
        for (signal, came) in &gate.waiting {
            // Registering fails only for signals that nobody may catch. The first action comes first.
            let _ = flag::register_conditional_default(*signal, Arc::clone(&gate.open));
            let _ = flag::register(*signal, Arc::clone(came));
        }
        gate
    }
}

/// Whether output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// By choice; `auto` means on a terminal unless `NO_COLOR` is set to something.
    pub fn new(choice: ColorChoice, terminal: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && wanted,
        })
    }

    /// Whether it is.
    pub fn on(self) -> bool {
        self.0
    }

    /// Bold.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Bold red.
    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_file(&path, &[b"on", b"e"]).unwrap();
        write_file(&path, &[b"two"]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn colour_follows_the_choice_and_the_terminal() {
        assert!(Paint::new(ColorChoice::Always, false).on());
        assert!(!Paint::new(ColorChoice::Never, true).on());
        assert!(!Paint::new(ColorChoice::Auto, false).on());
    }
}
