//! A disk that is slower than it is, to see what a node does on one.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::storage::Medium;
use dhow_store::{CachingDisk, Disk, DiskError};

/// A disk whose flushes take longer by a fixed time: a test aid, set by `flush_delay`.
pub struct SlowDisk {
    disk: Arc<dyn Disk>,
    delay: Duration,
}

impl SlowDisk {
    /// `disk` with `delay` added to every flush.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, delay: Duration) -> Self {
        Self { disk, delay }
    }
}

impl Disk for SlowDisk {
    fn size(&self) -> Result<u64, DiskError> {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        self.disk.write_at(offset, octets)
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        self.disk.resize(octets)
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        self.disk.reserve(from, until)
    }

    fn medium(&self) -> Medium {
        self.disk.medium()
    }

    fn available(&self) -> Option<u64> {
        self.disk.available()
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.sync()?;
        std::thread::sleep(self.delay);
        Ok(())
    }

    fn caching(&self) -> Option<&dyn CachingDisk> {
        // Its octets are kept as they would be without the delay.
        self.disk.caching()
    }
}
