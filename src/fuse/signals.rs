//! SIGINT, SIGTERM and SIGHUP: what asks a process to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;

/// Catches them as long as this lives. Before, each ends the process; afterwards they do nothing.
pub(super) struct Caught(Handle);

impl Caught {
    /// Calls `tell` with the number of each one that comes, on a thread of its own.
    pub(super) fn new(tell: impl Fn(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        std::thread::Builder::new()
            .name("sessionfs-signals".to_owned())
            .spawn(move || signals.forever().for_each(tell))?;
        Ok(Self(handle))
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        self.0.close();
    }
}
