//! Why a command did not do what it was asked, as a person reads it.

use super::Paint;
use crate::transcript::display;
use std::error::Error;
use std::process::ExitCode;

/// Why a command failed: what, on which path, why, and what to do next.
#[derive(Debug)]
pub struct Failure {
    what: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
    end: End,
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Something failed.
    Failed,
    /// The command line asks for something that makes no sense.
    WrongUse,
    /// An entry was not recorded. Never 2: a host takes that as a block.
    Degraded,
    /// Whoever read our output has gone; there is nobody to tell, and nothing went wrong.
    Quiet,
    /// Another process of ours failed with this exit code and has said why.
    Told(u8),
}

impl Failure {
    /// Something failed; `what` says what and on which path.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
            hint: None,
            end: End::Failed,
        }
    }

    /// The command line asks for something that makes no sense.
    pub fn wrong_use(what: impl Into<String>) -> Self {
        Self {
            end: End::WrongUse,
            ..Self::new(what)
        }
    }

    /// An entry of the record was not written, or not known to be. `spec/record.md`: the message goes on, the exit code is 1.
    pub fn degraded(why: impl Into<String>) -> Self {
        Self {
            end: End::Degraded,
            ..Self::new(why)
        }
    }

    /// What failed.
    pub(super) fn what(&self) -> &str {
        &self.what
    }

    /// The reader of our output has gone.
    pub(super) fn broken_pipe() -> Self {
        Self {
            end: End::Quiet,
            ..Self::new("standard output is closed")
        }
    }

    /// Another process of ours failed with this exit code and has said why.
    pub(super) fn told(code: u8) -> Self {
        Self {
            end: End::Told(code),
            ..Self::new("the process in the background failed")
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the error line and the hint to standard error and gives the exit code.
    pub fn report(&self, paint: Paint) -> ExitCode {
        match self.end {
            End::Quiet => return ExitCode::SUCCESS,
            End::Told(code) => return ExitCode::from(code),
            End::Degraded => {
                eprintln!("recording degraded: {}", display::line(&self.line()));
                self.report_hint(paint);
                return ExitCode::FAILURE;
            }
            End::Failed | End::WrongUse => {}
        }
        // A path can hold anything, and a terminal obeys some of it.
        eprintln!("{} {}", paint.red("error:"), display::line(&self.line()));
        self.report_hint(paint);
        ExitCode::from(if self.end == End::WrongUse { 2 } else { 1 })
    }

    fn report_hint(&self, paint: Paint) {
        if let Some(hint) = &self.hint {
            eprintln!("{} {}", paint.bold("hint:"), display::line(hint));
        }
    }

    /// What failed and the chain of causes, in one line.
    fn line(&self) -> String {
        let mut line = self.what.clone();
        let mut cause: Option<&dyn Error> = self.cause.as_ref().map(|c| c.as_ref() as &dyn Error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own words; saying it twice helps nobody.
            if !line.ends_with(&text) {
                line = format!("{line}: {text}");
            }
            cause = error.source();
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open x: {source}")]
    struct Outer {
        source: std::io::Error,
    }

    #[test]
    fn the_line_says_the_whole_chain_once() {
        let outer = Outer {
            source: std::io::Error::other("no such thing"),
        };
        let failure = Failure::new("cannot list").because(outer);
        assert_eq!(failure.line(), "cannot list: cannot open x: no such thing");
    }
}
