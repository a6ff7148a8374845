//! stdout is data, stderr is talk: the only way to both.

use std::io::{self, IsTerminal as _, Write as _};

use dhow_testbed::yardstick::Figure;
use serde::Serialize;

use crate::failure::Failure;

/// The form in which data leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// JSON for programs: one value a line.
    Json,
}

impl Form {
    /// The form that the flag `--json` asks for.
    pub const fn of_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Writes one line of data to stdout, at once.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))
}

/// Writes text that ends with its own line end to stdout.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))
}

/// Writes one value as one line of JSON to stdout.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&json_text(value)?)
}

/// Writes figures to stdout as the testbed takes them: a line of JSON each.
pub fn figures(figures: &[Figure]) -> Result<(), Failure> {
    figures.iter().try_for_each(json)
}

/// One value as JSON text without line ends.
pub fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::refused(format!("cannot write JSON: {error}")))
}

/// Says something to the person at the terminal.
pub fn talk(text: &str) {
    // If nobody reads it, there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Writes lines for programs to stderr, all at once; each ends with its own line end.
pub fn talk_lines(lines: &str) {
    // If nobody reads it, there is nobody to tell.
    let _ = io::stderr().lock().write_all(lines.as_bytes());
}

/// Says something that the person should look at: nothing failed, but something may be wrong.
pub fn note(text: &str) {
    let style = anstyle::AnsiColor::Yellow.on_default().bold();
    talk(&format!("{style}note:{style:#} {text}"));
}

/// Says what the person may do about what was said.
pub fn hint(text: &str) {
    let style = anstyle::AnsiColor::Cyan.on_default().bold();
    talk(&format!("{style}hint:{style:#} {text}"));
}

/// True when a person watches stderr, so that progress may be drawn there.
pub fn stderr_is_watched() -> bool {
    io::stderr().is_terminal()
}
