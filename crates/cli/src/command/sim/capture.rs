//! The file of a capture.

use std::path::Path;

use dhow_bundle::Instant;
use dhow_sim::Run;

use super::written::Written;
use crate::failure::Failure;
use crate::output;
use crate::quantity;

/// A capture that is being written.
#[derive(Debug)]
pub struct CaptureFile {
    file: Written,
    /// Octets that were captured and are being written; the buffer is kept to be used again.
    octets: Vec<u8>,
}

impl CaptureFile {
    /// Begins a capture.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            file: Written::create(path)?,
            octets: Vec::new(),
        })
    }

    /// Writes what a run has captured.
    pub fn add(&mut self, run: &mut Run) -> Result<(), Failure> {
        self.octets.clear();
        if let Some(capture) = run.captured() {
            capture.take(&mut self.octets);
        }
        self.file.add(&self.octets)
    }

    /// Writes the rest, and says so where not all of the run is in it.
    pub fn finish(mut self, run: &mut Run) -> Result<(), Failure> {
        self.add(run)?;
        if let Some(at) = run.captured().and_then(|capture| capture.ended()) {
            let since = at.since(Instant::START).as_millis();
            output::note(&format!(
                "{} is full: packets after {} are not in it (--pcap-octets allows more)",
                self.file.path().display(),
                quantity::span(u64::try_from(since).unwrap_or(u64::MAX))
            ));
        }
        self.file.finish()
    }
}
