//! A log in memory: nothing outlives the process.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use dhow_bundle::storage::Medium;

use super::aligned::{Source, WriteBuffers};
use super::buffers::Buffers;
use super::{CachingDisk, Chunk, Disk, DiskError};

/// A sparse log in memory: octets that were never written take none. Large pieces that are appended are kept as they came, and what was
/// written is lent, not copied.
#[derive(Debug)]
pub struct MemoryDisk {
    log: RwLock<Log>,
    /// Memory is kept for use again: to have it from the system anew costs more than all else.
    rooms: Mutex<WriteBuffers>,
}

/// Octets of which a stretch takes a multiple.
const GRAIN_OCTETS: usize = 64;

/// Fewer octets are copied to where others lie.
const KEPT_OCTETS: usize = 16 << 10;

#[derive(Debug, Default)]
struct Log {
    octets: u64,
    /// Pieces that were written, by their first octet; no two have an octet in common. Zeros lie between.
    stretches: BTreeMap<u64, Bytes>,
    /// Ranges that have room: ends by beginnings.
    rooms: BTreeMap<u64, u64>,
    room_octets: u64,
    /// Octets that may have room; `None` for as many as anybody wants.
    most_octets: Option<u64>,
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::with_buffers(Buffers::with_octets(u64::MAX))
    }
}

impl MemoryDisk {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty log, which takes what it copies into from a pool.
    #[must_use]
    pub fn with_buffers(buffers: Buffers) -> Self {
        Self {
            log: RwLock::default(),
            rooms: Mutex::new(WriteBuffers::new(buffers, GRAIN_OCTETS)),
        }
    }

    /// Gives no more octets of the log room.
    #[must_use]
    pub fn with_bound(self, octets: u64) -> Self {
        self.log_mut().most_octets = Some(octets);
        self
    }

    fn log(&self) -> RwLockReadGuard<'_, Log> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a copy.
    fn copy_at(&self, offset: u64, chunks: &[Chunk<'_>]) {
        let mut left: usize = chunks.iter().map(|chunk| chunk.octets().len()).sum();
        let mut source = Source::of(chunks);
        let mut offset = offset;
        while left > 0 {
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            let count = rooms.offer(left);
            let written = rooms.put_together(count, |room| source.read(count, room));
            drop(rooms);
            self.log_mut().put(offset, written.slice(..count));
            offset = add(offset, count);
            left -= count;
        }
    }

    fn log_mut(&self) -> RwLockWriteGuard<'_, Log> {
        self.log.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(offset: u64, octets: usize) -> u64 {
    offset.saturating_add(u64::try_from(octets).unwrap_or(u64::MAX))
}

fn index(octets: u64) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX)
}

impl Log {
    fn put(&mut self, offset: u64, octets: Bytes) {
        let end = add(offset, octets.len());
        self.clear(offset, end);
        self.octets = self.octets.max(end);
        self.stretches.insert(offset, octets);
    }

    /// The octets written from `offset` on, up to the end of their stretch.
    fn at(&self, offset: u64) -> Option<Bytes> {
        let (start, octets) = self.stretches.range(..=offset).next_back()?;
        let skipped = index(offset - start);
        (skipped < octets.len()).then(|| octets.slice(skipped..))
    }

    /// Zeros from `start` to `end`.
    fn clear(&mut self, start: u64, end: u64) {
        while let Some((&first, octets)) = self.stretches.range(..end).next_back()
            && add(first, octets.len()) > start
        {
            let octets = octets.clone();
            self.stretches.remove(&first);
            if add(first, octets.len()) > end {
                let behind = octets.slice(index(end - first)..);
                self.stretches.insert(end, behind);
            }
            if first < start {
                let before = octets.slice(..index(start - first));
                self.stretches.insert(first, before);
            }
        }
    }
}

impl Disk for MemoryDisk {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self.log().octets)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let log = self.log();
        let end = add(offset, out.len());
        if end > log.octets {
            return Err(DiskError::PastEnd { end });
        }
        let (mut offset, mut out) = (offset, out);
        while !out.is_empty() {
            let written = log.at(offset);
            let next = log
                .stretches
                .range(offset..)
                .next()
                .map_or(end, |(next, _)| *next);
            let count = written
                .as_ref()
                .map_or(index(next - offset), Bytes::len)
                .min(out.len());
            let (now, later) = out.split_at_mut(count);
            match written.as_deref().and_then(|written| written.get(..count)) {
                Some(written) => now.copy_from_slice(written),
                None => now.fill(0),
            }
            offset = add(offset, count);
            out = later;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let chunks: Vec<Chunk<'_>> = octets.iter().map(|slice| Chunk::Lent(slice)).collect();
        self.copy_at(offset, &chunks);
        Ok(())
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        let mut log = self.log_mut();
        log.clear(octets, u64::MAX);
        log.octets = octets;
        Ok(())
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        let mut log = self.log_mut();
        let before = log.rooms.get(&from).copied().unwrap_or(from);
        let more = until.saturating_sub(before);
        let wanted = log.room_octets.saturating_add(more);
        if more > 0 && log.most_octets.is_some_and(|most| wanted > most) {
            return Err(DiskError::Full);
        }
        log.room_octets = wanted;
        log.rooms.insert(from, until.max(before));
        log.octets = log.octets.max(until);
        Ok(())
    }

    fn medium(&self) -> Medium {
        Medium::Memory
    }

    fn available(&self) -> Option<u64> {
        let log = self.log();
        Some(log.most_octets?.saturating_sub(log.room_octets))
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn caching(&self) -> Option<&dyn CachingDisk> {
        Some(self)
    }
}

impl CachingDisk for MemoryDisk {
    fn append_at(&self, offset: u64, octets: &[Chunk<'_>]) -> Result<(), DiskError> {
        let mut offset = offset;
        let is_kept = |chunk: &Chunk<'_>| matches!(chunk, Chunk::Shared(octets) if octets.len() >= KEPT_OCTETS);
        for chunks in octets.chunk_by(|before, after| !is_kept(before) && !is_kept(after)) {
            match chunks {
                [chunk @ Chunk::Shared(octets)] if is_kept(chunk) => {
                    self.log_mut().put(offset, Bytes::clone(octets));
                }
                copied => self.copy_at(offset, copied),
            }
            let octets = chunks.iter().map(|chunk| chunk.octets().len()).sum();
            offset = add(offset, octets);
        }
        Ok(())
    }

    fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
        let mut octets = self.log().at(offset)?;
        octets.truncate(index(most));
        Some(octets)
    }

    fn forget(&self, offset: u64, octets: u64) {
        self.log_mut().clear(offset, offset.saturating_add(octets));
    }
}
