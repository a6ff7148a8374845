//! A log in memory: nothing outlives the process.

use std::io::IoSlice;
use std::sync::{PoisonError, RwLock};

use super::{Disk, DiskError};

/// Memory is taken in pieces of this many octets, as they are first written with something other than zeros.
const CHUNK_OCTETS: usize = 64 * 1024;

/// A sparse log in memory.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    log: RwLock<Chunks>,
}

#[derive(Debug, Default)]
struct Chunks {
    octets: u64,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl MemoryDisk {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Which chunk an offset lies in, and where in it.
fn locate(offset: u64) -> (usize, usize) {
    let chunk_octets = u64::try_from(CHUNK_OCTETS).unwrap_or(u64::MAX);
    let chunk = usize::try_from(offset / chunk_octets).unwrap_or(usize::MAX);
    (chunk, usize::try_from(offset % chunk_octets).unwrap_or(0))
}

fn add(offset: u64, octets: usize) -> u64 {
    offset.saturating_add(u64::try_from(octets).unwrap_or(u64::MAX))
}

impl Chunks {
    fn write(&mut self, mut offset: u64, mut octets: &[u8]) {
        while !octets.is_empty() {
            let (index, start) = locate(offset);
            let (now, later) = octets.split_at(octets.len().min(CHUNK_OCTETS - start));
            if self.chunks.len() <= index {
                self.chunks.resize_with(index + 1, || None);
            }
            if let Some(chunk) = self.chunks.get_mut(index)
                && (chunk.is_some() || now.iter().any(|octet| *octet != 0))
            {
                let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK_OCTETS].into_boxed_slice());
                if let Some(place) = chunk.get_mut(start..start + now.len()) {
                    place.copy_from_slice(now);
                }
            }
            offset = add(offset, now.len());
            octets = later;
        }
        self.octets = self.octets.max(offset);
    }
}

impl Disk for MemoryDisk {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self
            .log
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .octets)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let log = self.log.read().unwrap_or_else(PoisonError::into_inner);
        let end = add(offset, out.len());
        if end > log.octets {
            return Err(DiskError::PastEnd { end });
        }
        let (mut offset, mut out) = (offset, out);
        while !out.is_empty() {
            let (index, start) = locate(offset);
            let (now, later) = out.split_at_mut(out.len().min(CHUNK_OCTETS - start));
            match log
                .chunks
                .get(index)
                .and_then(Option::as_ref)
                .and_then(|chunk| chunk.get(start..start + now.len()))
            {
                Some(octets) => now.copy_from_slice(octets),
                None => now.fill(0),
            }
            offset = add(offset, now.len());
            out = later;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        let mut offset = offset;
        for slice in octets {
            log.write(offset, slice);
            offset = add(offset, slice.len());
        }
        Ok(())
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        if octets < log.octets {
            let (index, start) = locate(octets);
            log.chunks.truncate(index + 1);
            if let Some(Some(chunk)) = log.chunks.get_mut(index)
                && let Some(cut) = chunk.get_mut(start..)
            {
                cut.fill(0);
            }
        }
        log.octets = octets;
        Ok(())
    }

    fn reserve(&self, octets: u64) -> Result<(), DiskError> {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        log.octets = log.octets.max(octets);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
