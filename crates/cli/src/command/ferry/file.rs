//! A file on a medium that says to be a bundle.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::time::SystemTime;

use bytes::Bytes;
use dhow_bundle::header::MAX_HEADER_OCTETS;
use dhow_bundle::{Header, Reading};
use dhow_client::ferry::name::{Digest, FileKind};
use dhow_client::ferry::{Found, Stick};

/// Octets that are read at a time.
pub const PIECE_OCTETS: usize = 64 << 10;

/// The beginning of a file, read and checked.
#[derive(Debug)]
pub struct BundleFile {
    /// The file, at its beginning.
    pub file: File,
    /// The bundle's header.
    pub header: Header,
    /// Octets of the file.
    pub octets: u64,
    /// When it was written.
    pub modified: SystemTime,
}

/// Why a file is no bundle that can be taken.
#[derive(Debug)]
pub enum Fault {
    /// The system refuses, or it is gone.
    System(io::Error),
    /// The file is torn, or not what its name says.
    Torn(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl BundleFile {
    /// Reads the beginning of a file.
    pub fn open(stick: &Stick, found: &Found) -> Result<Self, Fault> {
        let (mut file, octets, modified) = stick.read(found)?;
        let mut head = Vec::new();
        let limit = u64::try_from(MAX_HEADER_OCTETS).unwrap_or(0);
        (&mut file).take(limit).read_to_end(&mut head)?;
        file.seek(SeekFrom::Start(0))?;
        let header = match Header::decode(&Bytes::from(head), Reading::Lenient) {
            Ok(Some(header)) => header,
            Ok(None) => return Err(Fault::Torn("it ends within its header".into())),
            Err(refusal) => return Err(Fault::Torn(refusal.to_string())),
        };
        let total = header.total_octets();
        let is_whole = match header.has_open_end() {
            true => octets > total,
            false => octets == total,
        };
        if !is_whole {
            return Err(Fault::Torn(format!("it has {octets} of {total} octets")));
        }
        if dhow_client::ferry::Key::of(&header.id()) != found.name.key {
            return Err(Fault::Torn("its name is another bundle's".into()));
        }
        Ok(Self {
            file,
            header,
            octets,
            modified,
        })
    }

    /// Reads the whole file: whether its octets are those that its name says.
    pub fn matches_name(
        mut self,
        found: &Found,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut digest = Digest::default();
        let mut piece = vec![0; PIECE_OCTETS];
        loop {
            let count = self.file.read(&mut piece)?;
            if count == 0 {
                return Ok(FileKind::Bundle(digest.finish()) == found.name.kind);
            }
            digest.update(piece.get(..count).unwrap_or_default());
            if !goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}
