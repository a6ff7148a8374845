//! Logs: places of a fixed size, written with zeros beforehand and then again and again from the start.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// Octets that are written at once while a log is prepared.
const PREPARE_OCTETS: usize = 1 << 20;

/// Slices handed to the system in one call (`IOV_MAX` of Linux).
const SLICES_PER_CALL: usize = 1024;

/// The condition that holds before something is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It lies in memory.
    Memory,
    /// It was written to the log's file.
    Os,
    /// It was written and synced to the disk.
    Sync,
}

/// A file of fixed size, written over from its start when its end is reached.
#[derive(Debug)]
pub struct Log {
    file: File,
    octets: u64,
    at: u64,
    flush: Option<Duration>,
    flushes: u64,
}

impl Log {
    /// Opens a log of `octets`; fills it with zeros and syncs them unless it has that size already.
    ///
    /// # Errors
    /// The system refused.
    pub fn open(path: &Path, octets: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.len() != octets {
            file.set_len(0)?;
            fill(&file, octets)?;
        }
        // Octets that an earlier run left unwritten must not be this one's burden.
        file.sync_all()?;
        Ok(Self {
            file,
            octets,
            at: 0,
            flush: None,
            flushes: 0,
        })
    }

    /// Syncs after each append, and waits for `delay` then as a slower disk would make it.
    #[must_use]
    pub fn with_flush(mut self, delay: Duration) -> Self {
        self.flush = Some(delay);
        self
    }

    /// The number of its syncs.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Appends all slices with as few writes as they fit in, and syncs where that is asked for.
    ///
    /// # Errors
    /// The system refused.
    pub fn append(&mut self, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut rest = slices;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            if self.at >= self.octets {
                self.at = 0;
            }
            let written = self.write(rest)?;
            self.at += u64::try_from(written).unwrap_or(u64::MAX);
            IoSlice::advance_slices(&mut rest, written);
        }
        if let Some(delay) = self.flush {
            self.file.sync_data()?;
            self.flushes += 1;
            if !delay.is_zero() {
                std::thread::sleep(delay);
            }
        }
        Ok(())
    }

    /// One gather-write of what fits before the end of the file.
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let room = usize::try_from(self.octets - self.at).unwrap_or(usize::MAX);
        let mut octets = 0_usize;
        let fitting = slices
            .iter()
            .take(SLICES_PER_CALL)
            .take_while(|slice| {
                octets = octets.saturating_add(slice.len());
                octets <= room
            })
            .count();
        let written = match slices.split_at_checked(fitting) {
            Some((whole, _)) if !whole.is_empty() => {
                rustix::io::pwritev(&self.file, whole, self.at)?
            }
            _ => {
                let first = slices.first().map_or(&[][..], |slice| slice);
                self.file
                    .write_at(first.get(..room).unwrap_or(first), self.at)?
            }
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(written)
    }
}

fn fill(file: &File, octets: u64) -> io::Result<()> {
    let zeros = vec![0; PREPARE_OCTETS];
    let mut at = 0;
    while at < octets {
        let piece = usize::try_from(octets - at)
            .unwrap_or(usize::MAX)
            .min(PREPARE_OCTETS);
        file.write_all_at(zeros.get(..piece).unwrap_or(&zeros), at)?;
        at += u64::try_from(piece).unwrap_or(u64::MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &mut Log, pieces: &[&[u8]]) {
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        log.append(&mut slices).unwrap();
    }

    #[test]
    fn a_new_log_is_zeros_of_its_whole_size() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        Log::open(&path, 3 << 20).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 3 << 20]);
    }

    #[test]
    fn appended_slices_lie_one_after_the_other() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let mut log = Log::open(&path, 16).unwrap();
        append(&mut log, &[b"one", b"", b"two"]);
        append(&mut log, &[b"three"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"onetwothree\0\0\0\0\0");
    }

    #[test]
    fn a_full_log_is_written_over_from_its_start_and_never_grows() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let mut log = Log::open(&path, 8).unwrap();
        append(&mut log, &[b"abcdef"]);
        append(&mut log, &[b"ghijkl", b"mn"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"ijklmngh");
        append(&mut log, &[b"0123456789"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"23456789");
    }

    #[test]
    fn more_slices_than_one_call_takes_are_all_written() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let octets: Vec<u8> = (0..=250).cycle().take(SLICES_PER_CALL * 3 + 7).collect();
        let mut log = Log::open(&path, u64::try_from(octets.len()).unwrap()).unwrap();
        append(&mut log, &octets.chunks(1).collect::<Vec<_>>());
        assert_eq!(std::fs::read(&path).unwrap(), octets);
    }

    #[test]
    fn an_append_is_one_flush_where_flushes_are_asked_for() {
        let room = tempfile::tempdir().unwrap();
        let mut log = Log::open(&room.path().join("log"), 4096).unwrap();
        append(&mut log, &[b"quiet"]);
        assert_eq!(log.flushes(), 0);
        let mut log = log.with_flush(Duration::ZERO);
        append(&mut log, &[b"first", b"second"]);
        append(&mut log, &[b"third"]);
        assert_eq!(log.flushes(), 2);
    }

    #[test]
    fn a_log_that_has_its_size_is_recycled() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        append(&mut Log::open(&path, 8).unwrap(), &[b"before"]);
        append(&mut Log::open(&path, 8).unwrap(), &[b"af"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"affore\0\0");
    }
}
