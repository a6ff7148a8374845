//! Reading stored octets, beside the thread that writes.

use std::sync::Arc;

use dhow_bundle::storage::Extent;

use crate::disk::{Disk, DiskError};

/// Reads extents of the log: cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct StoreReader {
    disk: Arc<dyn Disk>,
}

impl StoreReader {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Fills `out` with the octets from `skip` of an extent on. What goes beyond the extent is not asked of the
    /// disk and left alone; the number of octets filled comes back.
    ///
    /// # Errors
    /// The disk refused.
    pub fn read(&self, extent: Extent, skip: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let left = usize::try_from(extent.length.saturating_sub(skip)).unwrap_or(usize::MAX);
        let count = left.min(out.len());
        if let Some(wanted) = out.get_mut(..count)
            && count > 0
        {
            self.disk
                .read_at(extent.offset.saturating_add(skip), wanted)?;
        }
        Ok(count)
    }
}
