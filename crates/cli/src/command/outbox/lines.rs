//! Lines about the changes that the node has; their names are a contract (docs/folders.md).

use dhow_client::Created;
use serde::Serialize;

use super::sending::Told;
use crate::digest::hexadecimal;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;

/// Lines that were made and not written.
#[derive(Debug)]
pub struct Lines {
    form: Option<Form>,
    text: String,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    octets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    sequence: u64,
    source: String,
    creation: [u64; 2],
}

impl Lines {
    /// None so far; without a form there will be none.
    pub const fn new(form: Option<Form>) -> Self {
        Self {
            form,
            text: String::new(),
        }
    }

    /// A line about a change of which the node has a bundle.
    pub fn add(&mut self, told: &Told, created: &Created) -> Result<(), Failure> {
        let Some(form) = self.form else {
            return Ok(());
        };
        let line = match (form, &told.file) {
            (Form::Json, file) => output::json_text(&Line {
                event: file.map_or("removed", |_| "sent"),
                path: told.path.as_str(),
                octets: file.map(|it| it.stamp.octets),
                sha256: file.map(|it| hexadecimal(&it.sha256)),
                sequence: told.sequence,
                source: created.source.to_string(),
                creation: [created.creation.time.as_millis(), created.creation.sequence],
            })?,
            (Form::Text, Some(file)) => {
                format!("sent {}, {}", told.path, quantity::size(file.stamp.octets))
            }
            (Form::Text, None) => format!("removed {}", told.path),
        };
        self.text.push_str(&line);
        self.text.push('\n');
        Ok(())
    }

    /// Writes the lines.
    pub fn write(&mut self, progress: &Progress) -> Result<(), Failure> {
        if !self.text.is_empty() {
            progress.hide(|| output::text(&self.text))?;
            self.text.clear();
        }
        Ok(())
    }
}
