//! The failures of the testbed: a sentence, and a hint of what to do.

use std::fmt;
use std::io;

/// Why something failed; shown as a fragment that fits "cannot run the scenario: {error}".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LabError {
    /// The failure and its reason.
    pub what: String,
    /// The advice for a person, if there is any.
    pub hint: Option<String>,
}

impl LabError {
    /// A failure.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
        }
    }

    /// A call of the system that failed.
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
