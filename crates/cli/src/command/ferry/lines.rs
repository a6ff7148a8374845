//! Lines about what happens; their names are a contract (docs/ferry.md).

use dhow_bundle::{BundleId, EndpointId, Header};
use dhow_client::ferry::Key;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;

/// The bundle that a line is about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its identity.
    pub id: BundleId,
    /// Its destination.
    pub destination: EndpointId,
    /// Octets of its file.
    pub octets: u64,
}

impl Subject {
    /// The bundle with this header, whose file has so many octets.
    pub fn of(header: &Header, octets: u64) -> Self {
        Self {
            id: header.id(),
            destination: header.primary.destination.clone(),
            octets,
        }
    }

    /// Its key in names of files.
    pub fn key(&self) -> Key {
        Key::of(&self.id)
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    octets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

/// Writes lines.
#[derive(Debug)]
pub struct Lines {
    form: Option<Form>,
    progress: Progress,
    written: u64,
    taken: u64,
    /// The medium that was last said to be here.
    here: Option<String>,
}

impl Lines {
    /// Without a form there are none.
    pub fn new(form: Option<Form>) -> Self {
        Self {
            progress: match form {
                None => Progress::hidden(),
                Some(_) => Progress::words("ferry"),
            },
            form,
            written: 0,
            taken: 0,
            here: None,
        }
    }

    /// Says that something happened to a bundle.
    pub fn bundle(&mut self, event: &str, subject: &Subject) -> Result<(), Failure> {
        self.written += u64::from(event == "written");
        self.taken += u64::from(event == "taken");
        self.progress
            .words_now(format!("{} written, {} taken", self.written, self.taken));
        self.line(&Line {
            event,
            bundle: Some(subject.id.to_string()),
            destination: Some(subject.destination.to_string()),
            octets: Some(subject.octets),
            detail: None,
        })
    }

    /// Says that something happened to a file or the medium.
    pub fn other(&mut self, event: &str, detail: &str) -> Result<(), Failure> {
        self.line(&Line {
            event,
            bundle: None,
            destination: None,
            octets: None,
            detail: Some(detail),
        })
    }

    /// Says that a medium is here; false where it was said.
    pub fn here(&mut self, id: &str) -> Result<bool, Failure> {
        if self.here.as_deref() == Some(id) {
            return Ok(false);
        }
        self.here = Some(id.to_owned());
        self.other("here", id).map(|()| true)
    }

    /// Says that the medium that was here is not in its directory any more.
    pub fn away(&mut self, directory: &str) -> Result<(), Failure> {
        match self.here.take() {
            Some(_) => self.other("away", directory),
            None => Ok(()),
        }
    }

    /// Says something that the user should look at, on stderr.
    pub fn note(&self, text: &str) {
        self.progress.note(text);
    }

    fn line(&self, line: &Line<'_>) -> Result<(), Failure> {
        let text = match self.form {
            None => return Ok(()),
            Some(Form::Json) => output::json_text(line)?,
            Some(Form::Text) => match (&line.bundle, line.octets, line.detail) {
                (Some(bundle), Some(octets), _) => {
                    format!("{} {bundle}, {}", line.event, quantity::size(octets))
                }
                (_, _, detail) => format!("{} {}", line.event, detail.unwrap_or_default()),
            },
        };
        self.progress.hide(|| output::line(&text))
    }
}
