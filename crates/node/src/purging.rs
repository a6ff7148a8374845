//! Copies of bundles that are where they were to go end (docs/adverts.md): a node tells of those that it knows, and
//! believes the neighbours that its configuration names.

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{NodeId, Now};

use crate::held::bundles::Removal;
use crate::held::retention::State;
use crate::node::Node;
use crate::steps::Step;

impl Node {
    /// A whole bundle is at its destination, durably.
    #[inline]
    pub(crate) fn acknowledge_arrival(&mut self, now: Now, key: BundleKey) {
        self.forwarding.note_arrived(&self.held, key);
        if self.forwarding.believes() {
            self.forwarding.note_delivered(&self.held, now, key);
        }
    }

    /// A neighbour tells of bundles that are where they were to go. False where it tells of none.
    pub(crate) fn hear_acknowledgments(&mut self, now: Now, peer: &NodeId, body: &[u8]) -> bool {
        let is_verified = self.adjacencies.is_verified(peer);
        let from = (peer, is_verified);
        let heard = (self.forwarding).hear_acknowledgments(&self.held, now, from, body);
        let Some(new) = heard else {
            return false;
        };
        for acknowledgment in new {
            for key in self.forwarding.acknowledged(&self.held, &acknowledgment) {
                self.purge(now, key);
            }
        }
        true
    }

    /// A neighbour has told a router which bundles it has: no copy is wanted of those for its own node, which it could take itself.
    pub(crate) fn end_arrived(&mut self, now: Now, router: &str) {
        for key in self.forwarding.take_ended(&self.held, router) {
            self.forwarding.note_delivered(&self.held, now, key);
            self.purge(now, key);
        }
    }

    /// No copy of a bundle is wanted any more: it is deleted, as soon as nobody is busy with it.
    pub(crate) fn purge(&mut self, now: Now, key: BundleKey) {
        if self.forwarding.ends_in_flight(&self.held, key) && !planted(Mutant::DeletedWhileCopied) {
            return;
        }
        // RFC 5050 5.10: a custodian keeps it until the next one has it.
        if self.held.custody().has(key) {
            return;
        }
        match self.held.state(key) {
            None | Some(State::Deleting | State::Arriving | State::Kept) => {}
            Some(_) => {
                self.forwarding.note_arrived(&self.held, key);
                self.outbox.counters.purged += 1;
                self.outbox.stepped(&self.held, key, || Step::Purged);
                self.delete(now, key, Removal::Delivered, None);
            }
        }
    }

    /// A bundle is to leave here that is where it was to go: it is deleted. False where that is not known.
    #[inline]
    pub(crate) fn is_purged(&mut self, now: Now, key: BundleKey) -> bool {
        let is_over =
            !self.held.custody().has(key) && self.forwarding.is_acknowledged(&self.held, now, key);
        if is_over {
            self.outbox.counters.purged += 1;
            self.outbox.stepped(&self.held, key, || Step::Purged);
            self.delete(now, key, Removal::Delivered, None);
        }
        is_over
    }
}
