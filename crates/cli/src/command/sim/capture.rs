//! The file of a capture.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dhow_sim::Run;

use crate::failure::Failure;
use crate::interrupt::UnfinishedFile;
use crate::output;
use crate::quantity;

/// A capture that is being written; it gets its name when it is finished.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    unfinished: UnfinishedFile,
    file: File,
    /// What was captured and is being written; kept to be used again.
    octets: Vec<u8>,
}

impl CaptureFile {
    /// Begins one.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let unfinished = UnfinishedFile::new(part.into());
        let file = File::create(unfinished.path()).map_err(|error| failed(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            file,
            octets: Vec::new(),
        })
    }

    /// Writes what a run has captured.
    pub fn add(&mut self, run: &mut Run) -> Result<(), Failure> {
        self.octets.clear();
        if let Some(capture) = run.captured() {
            capture.take(&mut self.octets);
        }
        (self.file.write_all(&self.octets)).map_err(|error| failed(&self.path, &error))
    }

    /// Writes the rest, and says so where not all of the run is in it.
    pub fn finish(mut self, run: &mut Run) -> Result<(), Failure> {
        self.add(run)?;
        fs::rename(self.unfinished.path(), &self.path)
            .map_err(|error| failed(&self.path, &error))?;
        self.unfinished.keep();
        if let Some(at) = run.captured().and_then(|capture| capture.ended()) {
            let since = at.since(dhow_bundle::Instant::START);
            output::note(&format!(
                "{} has its size: what passed after {} is not in it (--pcap-octets allows more)",
                self.path.display(),
                quantity::span(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            ));
        }
        Ok(())
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format!("cannot write {}: {error}", path.display()))
}
