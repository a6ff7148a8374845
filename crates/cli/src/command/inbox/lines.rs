//! Lines about the changes of a folder; their names are a contract (docs/folders.md).

use std::path::Path;

use dhow_client::folder::Change;
use serde::Serialize;

use super::arrival::{Arrival, Fate};
use super::refused::Reason;
use crate::digest::hexadecimal;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;

/// Notes about refused bundles in a run; `--json` has a line for each.
const NOTES: u64 = 100;

/// Lines that were made and not written.
#[derive(Debug)]
pub struct Lines {
    form: Option<Form>,
    text: String,
    notes: Vec<String>,
    noted: u64,
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    event: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    octets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    sequence: u64,
    source: String,
    creation: [u64; 2],
    delay_ms: Option<u64>,
}

#[derive(Serialize)]
struct RefusedLine<'a> {
    event: &'static str,
    reason: Reason,
    detail: &'a str,
    path: Option<&'a str>,
    source: String,
    creation: [u64; 2],
    kept: Option<&'a Path>,
}

impl Lines {
    /// None so far; without a form there will be none, but for notes.
    pub const fn new(form: Option<Form>) -> Self {
        Self {
            form,
            text: String::new(),
            notes: Vec::new(),
            noted: 0,
        }
    }

    /// A line about the fate of a bundle.
    pub fn add(&mut self, came: &Arrival) -> Result<(), Failure> {
        let creation = came.id.creation;
        let creation = [creation.time.as_millis(), creation.sequence];
        let source = || came.id.source.to_string();
        match (&came.fate, self.form) {
            (Fate::Stale | Fate::Wait, _) | (Fate::Make(_), None) => {}
            (Fate::Make(header), Some(Form::Json)) => {
                let (event, file) = match header.change {
                    Change::File(file) => ("received", Some(file)),
                    Change::Removed => ("removed", None),
                };
                self.push(&output::json_text(&ChangeLine {
                    event,
                    path: header.path.as_str(),
                    octets: file.map(|it| it.octets),
                    sha256: file.map(|it| hexadecimal(&it.sha256)),
                    sequence: header.sequence,
                    source: source(),
                    creation,
                    delay_ms: came.delay_ms,
                })?);
            }
            (Fate::Make(header), Some(Form::Text)) => self.push(&match header.change {
                Change::File(file) => {
                    format!("received {}, {}", header.path, quantity::size(file.octets))
                }
                Change::Removed => format!("removed {}", header.path),
            }),
            (Fate::Refuse(reason, detail, path), form) => {
                let kept = came.kept.as_deref();
                if form == Some(Form::Json) {
                    self.push(&output::json_text(&RefusedLine {
                        event: "refused",
                        reason: *reason,
                        detail,
                        path: path.as_ref().map(|it| it.as_str()),
                        source: source(),
                        creation,
                        kept,
                    })?);
                }
                self.note(
                    &came.id.to_string(),
                    detail,
                    path.as_ref().map(|it| it.as_str()),
                    kept,
                );
            }
        }
        Ok(())
    }

    fn note(&mut self, bundle: &str, detail: &str, path: Option<&str>, kept: Option<&Path>) {
        self.noted += 1;
        if self.noted > NOTES {
            return;
        }
        let path = path.map_or_else(String::new, |path| format!(", {path}"));
        let kept = kept.map_or_else(
            || ", which is not kept".to_owned(),
            |kept| format!("; it is in {}", kept.display()),
        );
        let note = format!("refused bundle {bundle}{path}: {detail}{kept}");
        self.notes.push(note);
        if self.noted == NOTES {
            let note = "further refusals are not noted; --json has a line for each";
            self.notes.push(note.to_owned());
        }
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes the lines.
    pub fn write(&mut self, progress: &Progress) -> Result<(), Failure> {
        for note in self.notes.drain(..) {
            progress.note(&note);
        }
        if !self.text.is_empty() {
            progress.hide(|| output::text(&self.text))?;
            self.text.clear();
        }
        Ok(())
    }
}
