//! Blocks on the disk of a relay: a file is the octets of one block, and behind them the part that is not octets.
//!
//! The trailer is a line of JSON, its length as four octets in network order, and a mark. A file gets its name when it is durable,
//! so one that is found is whole.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dhow_link::ltp::{EndToEnd, MAX_END_REPORT_OCTETS, Service};
use serde::{Deserialize, Serialize};

/// Names of files begin with this.
const PREFIX: &str = "block-";

/// The file that a relay holds locked.
const LOCK: &str = ".lock";

/// The last octets of a file.
const MARK: &[u8; 8] = b"dhowltp1";

/// Octets of the longest trailer that is read.
const MAX_TRAILER_OCTETS: u64 = 4_096;

/// The part of a block that is not octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trailer {
    source: (u64, u64),
    destination: (u64, u64),
    transfer: u64,
    estimate: Option<u64>,
    hops: u8,
    wants_report: bool,
    is_report: bool,
    is_congested: bool,
    /// Octets of the red part.
    pub(super) red: u64,
    /// Octets of the block.
    pub(super) length: u64,
    /// When its life ends, milliseconds since 1970.
    pub(super) expires_ms: u64,
}

/// A block that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) trailer: Trailer,
}

impl Found {
    /// The octets of a block that is a report of this engine; `None` of others.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn own_report(&self, engine: u64) -> io::Result<Option<Bytes>> {
        let trailer = &self.trailer;
        let is_own = trailer.is_report && trailer.source.0 == engine;
        if !is_own || trailer.length > MAX_END_REPORT_OCTETS {
            return Ok(None);
        }
        let mut octets = vec![0; usize::try_from(trailer.length).unwrap_or(0)];
        File::open(&self.path)?.read_exact_at(&mut octets, 0)?;
        Ok(Some(octets.into()))
    }
}

impl Trailer {
    pub(super) fn new(of: &EndToEnd, red: u64, length: u64, expires_ms: u64) -> Self {
        Self {
            source: (of.source.engine, of.source.service),
            destination: (of.destination.engine, of.destination.service),
            transfer: of.transfer,
            estimate: of.length,
            hops: of.hops,
            wants_report: of.wants_report,
            is_report: of.is_report,
            is_congested: of.is_congested,
            red,
            length,
            expires_ms,
        }
    }

    /// The block's part for all hops, with so many seconds of life left.
    pub(super) fn end_to_end(&self, life_s: u64) -> EndToEnd {
        let service = |(engine, service)| Service { engine, service };
        EndToEnd {
            source: service(self.source),
            destination: service(self.destination),
            transfer: self.transfer,
            length: self.estimate,
            life_s,
            hops: self.hops,
            wants_report: self.wants_report,
            is_report: self.is_report,
            is_congested: self.is_congested,
        }
    }

    /// The octets behind those of the block.
    ///
    /// # Errors
    /// When it cannot be written as JSON, which no value is known to cause.
    pub(super) fn octets(&self) -> io::Result<Vec<u8>> {
        let mut out = serde_json::to_vec(self)?;
        let length = u32::try_from(out.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(MARK);
        Ok(out)
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let total = file.metadata()?.len();
        let mut end = [0; 12];
        let Some(at) = total.checked_sub(12) else {
            return Ok(None);
        };
        file.read_exact_at(&mut end, at)?;
        let [a, b, c, d, mark @ ..] = end;
        let length = u64::from(u32::from_be_bytes([a, b, c, d]));
        if mark != *MARK || length > MAX_TRAILER_OCTETS {
            return Ok(None);
        }
        let Some(at) = at.checked_sub(length) else {
            return Ok(None);
        };
        let mut json = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut json, at)?;
        let trailer: Option<Self> = serde_json::from_slice(&json).ok();
        Ok(trailer.filter(|it| it.length == at && it.red <= at && at > 0))
    }
}

/// The name of a block's file.
pub(super) fn name(of: &EndToEnd) -> String {
    format!("{PREFIX}{}-{}", of.source.engine, of.transfer)
}

/// Keeps other relays off a directory as long as the file is held.
///
/// # Errors
/// When another relay has it, or a file cannot be made there.
pub(super) fn lock(directory: &Path) -> io::Result<File> {
    let path = directory.join(LOCK);
    let file = (File::options().write(true).create(true).truncate(false)).open(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another relay uses {}", directory.display()),
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The blocks of a directory in the order of their names, `most` of them; other files are passed over.
///
/// # Errors
/// When the directory cannot be read.
pub(super) fn find(directory: &Path, most: usize) -> io::Result<Vec<Found>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // A pipe would be waited for.
        let is_file = entry.file_type()?.is_file();
        if is_file && name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let file = File::open(&path)?;
        if let Some(trailer) = Trailer::read(&file)?
            && found.len() < most
        {
            found.push(Found { path, trailer });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_with_all_that_it_needs_and_nothing_else_is() {
        let of = EndToEnd {
            source: Service {
                engine: 1,
                service: 2,
            },
            destination: Service {
                engine: 3,
                service: 4,
            },
            transfer: 5,
            length: Some(3),
            life_s: 60,
            hops: 6,
            wants_report: true,
            is_report: false,
            is_congested: true,
        };
        let trailer = Trailer::new(&of, 2, 3, 7_000);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name(&of));
        let whole = [b"abc".to_vec(), trailer.octets().unwrap()].concat();
        std::fs::write(&path, &whole).unwrap();
        for (number, octets) in [&whole[1..], &whole[..whole.len() - 1], b"", b"x"]
            .into_iter()
            .enumerate()
        {
            std::fs::write(directory.path().join(format!("block-x{number}")), octets).unwrap();
        }
        std::fs::write(directory.path().join("other"), &whole).unwrap();
        std::fs::create_dir(directory.path().join("block-directory")).unwrap();
        let [found] = &find(directory.path(), 9).unwrap()[..] else {
            panic!("one block is whole");
        };
        assert_eq!((&found.path, found.trailer), (&path, trailer));
        assert_eq!(found.trailer.end_to_end(60), of);
        assert_eq!(found.own_report(1).unwrap(), None, "a block of a file");
        let report = EndToEnd {
            is_report: true,
            ..of
        };
        let trailer = Trailer::new(&report, 3, 3, 7_000);
        std::fs::write(&path, [b"abc".to_vec(), trailer.octets().unwrap()].concat()).unwrap();
        let [found] = &find(directory.path(), 9).unwrap()[..] else {
            panic!("one block is whole");
        };
        assert_eq!(
            found.own_report(1).unwrap(),
            Some(Bytes::from_static(b"abc"))
        );
        assert_eq!(found.own_report(2).unwrap(), None, "a report of another");
        assert_eq!(find(directory.path(), 0).unwrap().len(), 0);
    }
}
