//! Rows that wait on disk for a collector that is away, in their order, up to a bound.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Octets that are gathered before they go to the disk.
const BLOCK_OCTETS: usize = 64 << 10;

const LENGTH_OCTETS: usize = 4;

/// A file of rows, each behind its length. It is made when the first block is full, and has no name: it goes with the process.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_octets: u64,
    file: Option<File>,
    read_at: u64,
    written: u64,
    /// Rows that were added last.
    tail: Vec<u8>,
    rows: u64,
}

static FILES: AtomicU64 = AtomicU64::new(0);

impl Spool {
    /// A spool in a directory that holds so many octets at most; 0 holds none.
    pub const fn new(directory: PathBuf, limit_octets: u64) -> Self {
        Self {
            directory,
            limit_octets,
            file: None,
            read_at: 0,
            written: 0,
            tail: Vec::new(),
            rows: 0,
        }
    }

    /// Where files of this spool are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// True where nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row; false where it finds no room, on the disk or below the bound. What was read counts until all was.
    pub fn add(&mut self, row: &[u8]) -> bool {
        let octets = row.len() + LENGTH_OCTETS + self.tail.len();
        let after = u64::try_from(octets).map_or(u64::MAX, |octets| self.written + octets);
        let Ok(length) = u32::try_from(row.len()) else {
            return false;
        };
        if after > self.limit_octets {
            return false;
        }
        if self.tail.len() + row.len() > BLOCK_OCTETS && self.write_tail().is_err() {
            return false;
        }
        self.tail.extend(length.to_le_bytes());
        self.tail.extend_from_slice(row);
        self.rows += 1;
        true
    }

    fn write_tail(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(nameless(&self.directory)?);
        }
        if let Some(file) = &self.file {
            file.write_all_at(&self.tail, self.written)?;
        }
        self.written += u64::try_from(self.tail.len()).unwrap_or_default();
        self.tail.clear();
        Ok(())
    }

    /// Takes the first rows, as far as about so many octets, and appends them to `out`. What the disk does not give back is lost, and said.
    pub fn read(&mut self, out: &mut Vec<u8>, octets: usize) -> Result<(), Lost> {
        let end = out.len() + octets;
        while self.read_at < self.written && out.len() < end {
            let outcome = self.read_row(out);
            if let Err(error) = outcome {
                let lost = Lost {
                    rows: self.rows,
                    error,
                };
                self.clear();
                return Err(lost);
            }
            self.rows = self.rows.saturating_sub(1);
        }
        if self.read_at == self.written {
            let mut tail = std::mem::take(&mut self.tail);
            let mut rest = tail.as_slice();
            while let Some((length, after)) = rest.split_first_chunk::<LENGTH_OCTETS>() {
                let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
                let Some((row, after)) = after.split_at_checked(length) else {
                    break;
                };
                out.extend_from_slice(row);
                rest = after;
            }
            tail.clear();
            self.tail = tail;
            self.clear();
        }
        Ok(())
    }

    fn read_row(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut length = [0; LENGTH_OCTETS];
        file.read_exact_at(&mut length, self.read_at)?;
        let length = u32::from_le_bytes(length);
        let start = out.len();
        out.resize(start + usize::try_from(length).unwrap_or_default(), 0);
        let row = out.get_mut(start..).unwrap_or_default();
        let row_at = self.read_at + 4;
        if let Err(error) = file.read_exact_at(row, row_at) {
            out.truncate(start);
            return Err(error);
        }
        self.read_at = row_at + u64::from(length);
        Ok(())
    }

    fn clear(&mut self) {
        self.tail.clear();
        (self.read_at, self.written, self.rows) = (0, 0, 0);
        if let Some(file) = &self.file
            && file.set_len(0).is_err()
        {
            // What is there is written over, at the same bound.
            self.file = None;
        }
    }
}

/// Rows that were on the disk and are not any more.
#[derive(Debug)]
pub struct Lost {
    /// How many.
    pub rows: u64,
    /// What the disk says.
    pub error: io::Error,
}

/// A file without a name.
fn nameless(directory: &Path) -> io::Result<File> {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".dhow-spool-{}-{number}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_in_their_order_and_never_more_than_the_bound() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().to_path_buf(), 300_000);
        let row = |number: u32| format!("{number:0100}").into_bytes();
        for round in 0..3 {
            let kept = (0..10_000)
                .take_while(|number| spool.add(&row(*number)))
                .count();
            assert!((2800..=2884).contains(&kept), "{round}: {kept}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
            let mut expected = (0..u32::try_from(kept).unwrap()).flat_map(row);
            while !spool.is_empty() {
                let mut out = Vec::new();
                spool.read(&mut out, 10_000).unwrap();
                assert!(out.len() < 10_000 + 65_536 + 100);
                assert!(out.into_iter().all(|octet| expected.next() == Some(octet)));
            }
            assert_eq!(expected.next(), None);
        }
    }

    #[test]
    fn a_spool_without_room_takes_nothing() {
        let mut spool = Spool::new("/nowhere".into(), 0);
        assert!(!spool.add(b"row") && spool.is_empty());
        let mut spool = Spool::new("/nowhere/at/all".into(), 1 << 20);
        let kept = (0..10_000).take_while(|_| spool.add(&[0; 100])).count();
        assert_eq!(kept, BLOCK_OCTETS / 104);
    }
}
