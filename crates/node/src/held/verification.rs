//! The octets of held bundles, compared with their checksums: the bundles that were, and the times.

use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::{Instant, Now, Version};

use crate::config::FirstRead;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::sending::is_record;

/// Bundles that the store compares with their checksums at a time, at most: it does nothing else meanwhile.
const VERIFYING_BOUND: usize = 256;

/// The same of bundles that are read whole: a few octets each.
const VERIFYING_SMALL_BOUND: usize = 2048;

/// Bundles up to this size are read from the store in one piece; of larger ones only the header blocks.
const READ_WHOLE_OCTETS: u64 = 16 * 1024;

impl Held {
    /// A bundle that a restart found, or a neighbour found wrong, and that is not read whole here, is compared with its
    /// checksums by the store before it leaves.
    pub(crate) fn is_doubtful(&self, key: BundleKey) -> bool {
        self.bundles.entry(key).is_some_and(|entry| {
            entry.sound_until() == Instant::START && !self.is_read_whole(entry)
        })
    }

    /// Whether a bundle is read whole before it leaves.
    fn is_read_whole(&self, entry: &Entry) -> bool {
        entry.octets() <= READ_WHOLE_OCTETS
            && (self.first_read == FirstRead::Whole || is_record(entry.flags()))
    }

    /// The places of the blocks of a bundle that is to be sent: all of a small one, and else all but the payload.
    pub(crate) fn blocks_to_read(&self, entry: &Entry) -> Extents {
        if self.is_read_whole(entry) {
            return entry.extents().part(0, entry.octets());
        }
        let header = u64::from(entry.header_octets());
        if entry.version() == Version::V7 || entry.trailer_octets() == 0 {
            return entry.extents().part(0, header);
        }
        let mut extents = entry.extents().slice(0, header);
        let payload_end = header.saturating_add(entry.payload_octets());
        extents.extend(entry.extents().slice(payload_end, entry.trailer_octets()));
        Extents::Many(extents.into())
    }

    /// True while another bundle like this one may be compared with its checksums.
    pub(crate) fn may_verify(&self, key: BundleKey) -> bool {
        let entry = self.bundles.entry(key);
        let is_small = entry.is_some_and(|entry| entry.octets() <= READ_WHOLE_OCTETS);
        let bound = match is_small {
            true => VERIFYING_SMALL_BOUND,
            false => VERIFYING_BOUND,
        };
        self.verifying.len() < bound
    }

    /// The parts of a bundle, or of the whole that it stands for, that have not been compared with its checksums for a
    /// while: the first of it.
    pub(crate) fn unverified(&mut self, now: Now, key: BundleKey) -> Option<BundleKey> {
        let bundles = &self.bundles;
        let is_intact = |key| {
            let entry = bundles.entry(key);
            entry.is_none_or(|entry| entry.sound_until() > now.monotonic)
        };
        if !is_intact(key) {
            return Some(key);
        }
        self.reassembly.unsound(key, is_intact)
    }

    /// Octets that have lain on disk for a while are compared with their checksums before an application
    /// gets them: nobody after it would notice.
    pub(crate) fn is_stale(&mut self, now: Now, key: BundleKey) -> bool {
        self.unverified(now, key).is_some()
    }
}
