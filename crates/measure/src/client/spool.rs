//! Rows that wait on disk for a collector that is away, in their order, up to a bound.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Octets that are gathered before they go to the disk.
const BLOCK_OCTETS: usize = 64 << 10;

/// Octets before each row: its length (4) and the index of its stream (1).
const HEAD_OCTETS: usize = 5;

/// Rows by the index of their stream.
pub type Counts = BTreeMap<u8, u64>;

/// A file of rows, each behind its length and its stream. It is made when the first block is full, and has no name: it goes with the process.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_octets: u64,
    file: Option<File>,
    read_at: u64,
    written: u64,
    /// Rows that were added last.
    tail: Vec<u8>,
    rows: Counts,
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
            rows: Counts::new(),
        }
    }

    /// The directory in which the spool makes its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// True where nothing waits.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row of a stream; false if there is no room for it, on the disk or below the bound. Rows that were read count
    /// against the bound until all have been.
    pub fn add(&mut self, index: u8, row: &[u8]) -> bool {
        let after = self.written + octets(row.len() + HEAD_OCTETS + self.tail.len());
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
        self.tail.push(index);
        self.tail.extend_from_slice(row);
        *self.rows.entry(index).or_default() += 1;
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

    /// Takes the first rows, as far as about so many octets, and appends them to `out`. Rows that the disk does not give back are lost: the error counts them.
    pub fn read(&mut self, out: &mut Vec<u8>, octets: usize) -> Result<(), Lost> {
        let end = out.len() + octets;
        while self.read_at < self.written && out.len() < end {
            match self.read_row(out) {
                Ok(index) => self.left(index),
                Err(error) => {
                    let rows = std::mem::take(&mut self.rows);
                    self.clear();
                    return Err(Lost { rows, error });
                }
            }
        }
        if self.read_at == self.written {
            let mut tail = std::mem::take(&mut self.tail);
            let mut rest = tail.as_slice();
            while let Some((head, after)) = rest.split_first_chunk() {
                let (length, _) = parts(*head);
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

    fn left(&mut self, index: u8) {
        if let Some(rows) = self.rows.get_mut(&index) {
            *rows = rows.saturating_sub(1);
        }
    }

    /// Appends the next row, and says of which stream it is.
    fn read_row(&mut self, out: &mut Vec<u8>) -> io::Result<u8> {
        let Some(file) = &self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut head = [0; HEAD_OCTETS];
        file.read_exact_at(&mut head, self.read_at)?;
        let (length, index) = parts(head);
        let start = out.len();
        out.resize(start + length, 0);
        let row = out.get_mut(start..).unwrap_or_default();
        let row_at = self.read_at + octets(HEAD_OCTETS);
        if let Err(error) = file.read_exact_at(row, row_at) {
            out.truncate(start);
            return Err(error);
        }
        self.read_at = row_at + octets(length);
        Ok(index)
    }

    /// Has the disk lose the file's octets.
    #[cfg(test)]
    pub fn lose(&self) {
        if let Some(file) = &self.file {
            let _ = file.set_len(0);
        }
    }

    fn clear(&mut self) {
        self.tail.clear();
        self.rows.clear();
        (self.read_at, self.written) = (0, 0);
        if let Some(file) = &self.file
            && file.set_len(0).is_err()
        {
            // A file that cannot be emptied is closed, which frees its octets; the next block makes a new one.
            self.file = None;
        }
    }
}

/// Rows that were on the disk and are not any more.
#[derive(Debug)]
pub struct Lost {
    /// Lost rows by the index of their stream.
    pub rows: Counts,
    /// The error of the disk.
    pub error: io::Error,
}

/// A row's length and the index of its stream.
fn parts(head: [u8; HEAD_OCTETS]) -> (usize, u8) {
    let [a, b, c, d, index] = head;
    let length = u32::from_le_bytes([a, b, c, d]);
    (usize::try_from(length).unwrap_or(usize::MAX), index)
}

fn octets(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
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
                .take_while(|number| spool.add(2, &row(*number)))
                .count();
            assert!((2800..=2857).contains(&kept), "{round}: {kept}");
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
        assert!(!spool.add(2, b"row") && spool.is_empty());
        let mut spool = Spool::new("/nowhere/at/all".into(), 1 << 20);
        let kept = (0..10_000).take_while(|_| spool.add(2, &[0; 100])).count();
        assert_eq!(kept, BLOCK_OCTETS / 105);
    }
}
