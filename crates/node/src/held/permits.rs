//! Copies that may be made of bundles which came with their number (binary spray and wait): kept beside each from its first octet on, and in its
//! note, so that a restart finds it.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::cbor::{BREAK, write_indefinite_array, write_unsigned};
use dhow_bundle::storage::BundleKey;

use crate::held::Held;

impl Held {
    /// A bundle that is coming in may be copied so often.
    pub(crate) fn set_permits(&mut self, key: BundleKey, permits: u64) {
        self.permits.insert(key, permits);
    }

    /// The copies that may be made of a bundle, where it came with their number.
    pub(crate) fn permits(&self, key: BundleKey) -> Option<u64> {
        self.permits.get(&key).copied()
    }

    /// The first note of a bundle that came with a number: as its router writes them, with the nodes that were given it behind the number.
    pub(crate) fn permits_note(&self, key: BundleKey) -> Bytes {
        let Some(permits) = self.permits(key) else {
            return Bytes::new();
        };
        let mut note = Vec::new();
        write_indefinite_array(&mut note);
        write_unsigned(&mut note, permits);
        note.push(BREAK);
        note.into()
    }

    /// A bundle is held no longer: nobody waits for a signal about it, and nobody copies it.
    pub(crate) fn let_go(&mut self, now: Now, key: BundleKey) {
        self.custody.removed(now.monotonic, key);
        // Mostly there are none, and each bundle comes by here.
        if !self.permits.is_empty() {
            self.permits.remove(&key);
        }
        if !self.depths.is_empty() {
            self.depths.remove(&key);
        }
    }
}
