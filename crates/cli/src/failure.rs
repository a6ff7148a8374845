//! The end of a command, and the words about its failure.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::output;

/// The end of a command that could say all it had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything asked for was done: exit code 0.
    Done,
    /// Something asked for did not happen, and the output says so: exit code 1.
    Incomplete,
    /// The user interrupted it, and it has cleaned up: exit code 130.
    Interrupted,
    /// As the same command did in namespaces of its own, which has said all: its exit code.
    AsInside(u8),
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Incomplete => 1,
            Ending::Interrupted => EXIT_INTERRUPTED,
            Ending::AsInside(code) => code,
        })
    }
}

/// Exit code of an interrupted command: 128 + SIGINT, as shells count.
pub const EXIT_INTERRUPTED: u8 = 130;

/// The kind of a failure, as far as the exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused or failed: exit code 1.
    Refused,
    /// Bad usage or configuration: exit code 2.
    Usage,
    /// Nobody reads the output any more: exit code 1, and nothing is said.
    OutputClosed,
}

/// Why a command failed: what failed and why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    fault: Fault,
    what: String,
    hint: Option<String>,
}

impl Failure {
    /// Something was refused or failed; `what` reads like "cannot open the file: no such file".
    pub fn refused(what: impl Into<String>) -> Self {
        Self {
            fault: Fault::Refused,
            what: what.into(),
            hint: None,
        }
    }

    /// The command line or the configuration is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self {
            fault: Fault::Usage,
            what: what.into(),
            hint: None,
        }
    }

    /// stdout (or another output) refused what was written to it.
    pub fn output(error: &io::Error) -> Self {
        let fault = if error.kind() == io::ErrorKind::BrokenPipe {
            Fault::OutputClosed
        } else {
            Fault::Refused
        };
        Self {
            fault,
            what: format!("cannot write the output: {error}"),
            hint: None,
        }
    }

    /// Adds what the user may do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says on stderr what failed, why, and what to do.
    pub fn report(&self) {
        if self.fault == Fault::OutputClosed {
            return;
        }
        let error = anstyle::AnsiColor::Red.on_default().bold();
        output::talk(&format!("{error}error:{error:#} {}", self.what));
        if let Some(text) = &self.hint {
            output::hint(text);
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        Self::from(match failure.fault {
            Fault::Refused | Fault::OutputClosed => 1,
            Fault::Usage => 2,
        })
    }
}
