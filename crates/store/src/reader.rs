//! Reading stored octets, beside the thread that writes.

use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::Extent;

use crate::disk::{Disk, DiskError};
use crate::wire::length;

/// Reads extents of the log: cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct StoreReader {
    disk: Arc<dyn Disk>,
}

impl StoreReader {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Fills `out` with the octets from `skip` of an extent on. Octets beyond the extent are not asked of the
    /// disk and left alone; the number of octets filled comes back.
    ///
    /// # Errors
    /// The disk refused.
    pub fn read(&self, extent: Extent, skip: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let left = usize::try_from(extent.length.saturating_sub(skip)).unwrap_or(usize::MAX);
        let count = left.min(out.len());
        let mut offset = extent.offset.saturating_add(skip);
        let mut wanted = out.get_mut(..count).unwrap_or_default();
        while !wanted.is_empty() {
            let Some(octets) = self.share(offset, length(wanted.len())) else {
                self.disk.read_at(offset, wanted)?;
                break;
            };
            let (now, later) = wanted.split_at_mut(octets.len());
            now.copy_from_slice(&octets);
            offset = offset.saturating_add(length(octets.len()));
            wanted = later;
        }
        Ok(count)
    }

    /// Has the disk let go of memory that is only there because it may be of use again: the next reads come from the disk.
    pub fn give_back(&self) {
        self.disk.give_back();
    }

    /// Octets of the log from `offset` on, at least one and at most `most`, where they can be had without a copy.
    #[must_use]
    pub fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
        self.disk
            .share(offset, most)
            .filter(|octets| !octets.is_empty())
    }
}
