//! Bundles whose octets the store has moved.

use crate::held::Held;
use crate::held::retention::State;
use crate::outbox::Outbox;
use alloc::vec::Vec;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Extents;
use dhow_bundle::storage::StoreCommand;

impl Held {
    pub(crate) fn relocated(&mut self, out: &mut Outbox, key: BundleKey, extents: Extents) {
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.set_extents(extents);
        // A fragment of a whole is read where the whole is.
        let holder = self.reassembly.stand_in(key).unwrap_or(key);
        let state = self.state(holder);
        if state == Some(State::InFlight) {
            // Somebody may still read the old places: released when the bundle is back.
            self.moved.insert(key);
        } else {
            out.store(StoreCommand::Released { key });
        }
    }

    /// Nobody reads a bundle's octets, or those of the fragments that it stands for: let go of the places
    /// that they had before they moved.
    pub(crate) fn release_moved(&mut self, out: &mut Outbox, key: BundleKey) {
        if self.moved.is_empty() {
            return;
        }
        let members = self.reassembly.members(key).iter().copied();
        for key in members.chain([key]).collect::<Vec<_>>() {
            if self.moved.remove(&key) {
                out.store(StoreCommand::Released { key });
            }
        }
    }
}
