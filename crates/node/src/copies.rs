//! Bundles of which several neighbours get a copy, as a router decides: sessions have it on their way at a time, and it stays.
//!
//! Such a bundle is in no queue. A session that has room asks the router of its destination for the next one. Of the states in
//! `retention.rs` it has `Waiting` while no session has it, and `InFlight` while any has; what belongs to one transfer is kept for each
//! neighbour by itself. A bundle without a source goes by routes, whatever its destination.

use crate::forwarding::copies::CopyEnd;

use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, StoreCommand};

use crate::adjacencies::session_id::SessionId;
use crate::held::bundles::Removal;
use crate::held::retention::State;
use crate::node::Node;

impl Node {
    /// A neighbour has a copy of a bundle, which stays for others unless it was the destination's node.
    pub(crate) fn copy_given(&mut self, now: Now, session: SessionId, key: BundleKey) {
        let is_last = self.forwarding.copy_over(now, session, key, CopyEnd::Given);
        let peer = self.adjacencies.peer_of(session);
        let destination = self
            .held
            .entry(key)
            .map(|entry| self.held.endpoints().id(entry.destination()));
        let acknowledges = self.adjacencies.neighbour(session);
        let acknowledges = acknowledges.is_some_and(|it| it.session.acknowledges());
        let is_there = acknowledges && destination.is_some_and(|it| it.node_id() == peer);
        if is_there {
            self.forwarding.end_copies(key);
            self.forwarding.note_given(&self.held, now, key);
            self.forwarding.note_arrived(&self.held, key);
        } else if let Some(note) = self.forwarding.note(key) {
            self.outbox.store(StoreCommand::Note { key, note });
            if planted(Mutant::AnyNeighbourIsDestination) {
                self.forwarding.note_delivered(&self.held, now, key);
            }
        }
        self.settle_copies(now, key, is_last);
    }

    /// A session could not get rid of a copy of a bundle.
    pub(crate) fn copy_back(&mut self, now: Now, session: SessionId, key: BundleKey, end: CopyEnd) {
        let is_last = self.forwarding.copy_over(now, session, key, end);
        self.settle_copies(now, key, is_last);
    }

    /// A bundle that no session has on its way waits again, or was to be deleted once that is so.
    fn settle_copies(&mut self, now: Now, key: BundleKey, is_last: bool) {
        let is_over = self.forwarding.copies().is_over(key);
        let deletes = is_over && planted(Mutant::DeletedWhileCopied);
        if !is_last && !deletes {
            return;
        }
        if is_over {
            self.delete(now, key, Removal::Delivered, None);
        } else if self.held.state(key) == Some(State::InFlight) {
            self.put_back(now, key);
        }
    }
}
