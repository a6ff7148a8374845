//! Why a file was not accepted.

use std::fmt;
use std::path::{Path, PathBuf};

/// A fault in a file, and its place; shown as `FILE:LINE: what`, a fragment that fits "cannot read the
/// configuration: {error}".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; `None` when the fault is not in one place.
    pub line: Option<usize>,
    /// The fault.
    pub what: String,
    /// A hint of the remedy.
    pub hint: Option<String>,
}

impl FileError {
    /// A fault of the file as a whole.
    #[must_use]
    pub fn of_file(file: &Path, what: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            line: None,
            what: what.into(),
            hint: None,
        }
    }

    /// A fault at a line, from 1.
    #[must_use]
    pub fn at(file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::of_file(file, what)
        }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)
    }
}

impl std::error::Error for FileError {}

/// The name in `known` that is nearest to `name`, when it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this likeness (0 to 1, Jaro-Winkler) a suggestion misleads more than it helps.
    const LIKENESS_MIN: f64 = 0.7;
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The names that there are, in their order, for a hint where nothing is near; of many the first ten.
#[must_use]
pub fn there_are(names: impl ExactSizeIterator<Item = String>) -> String {
    const NAMES_MAX: usize = 10;
    let count = names.len();
    let shown: Vec<String> = names.take(NAMES_MAX).collect();
    let shown = shown.join(", ");
    match count {
        1 => format!("there is one: {shown}"),
        0..=NAMES_MAX => format!("there are {count}: {shown}"),
        _ => format!("there are {count}: {shown}, …"),
    }
}
