//! A file that is written while seeds run, and gets its name when it is finished.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::interrupt::UnfinishedFile;

/// A file under way; it goes where it is not finished.
#[derive(Debug)]
pub struct Written {
    path: PathBuf,
    unfinished: UnfinishedFile,
    file: BufWriter<File>,
}

impl Written {
    /// Begins one that will have this path.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let unfinished = UnfinishedFile::new(part.into());
        let file = File::create(unfinished.path()).map_err(|error| failed(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            file: BufWriter::new(file),
        })
    }

    /// The path that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes octets behind those before.
    pub fn add(&mut self, octets: &[u8]) -> Result<(), Failure> {
        (self.file.write_all(octets)).map_err(|error| failed(&self.path, &error))
    }

    /// The file is whole: it gets its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        (self.file.flush())
            .and_then(|()| fs::rename(self.unfinished.path(), &self.path))
            .map_err(|error| failed(&self.path, &error))?;
        self.unfinished.keep();
        Ok(())
    }
}

/// Why a file is not there.
pub fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!("cannot write {}: {error}", path.display()))
}
