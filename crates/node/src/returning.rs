//! Bundles that a session was given and could not get rid of: they wait again, rest, or take another way.

use crate::held::Held;
use crate::outbox::Outbox;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, StoreCommand};
use dhow_link::stream::{RefuseReason, TransferId};

use crate::copies::CopyEnd;
use crate::door::StreamId;
use crate::node::Node;
use crate::passing::Pass;
use crate::retention::State;
use crate::sending::{NOT_ACCEPTABLE_REST, RETRANSMIT_REST};

impl Held {
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

impl Node {
    /// A transfer failed: the bundle waits, rests or takes another way, and never in a hot loop.
    pub(crate) fn failed(
        &mut self,
        now: Now,
        stream: StreamId,
        transfer: TransferId,
        (refused, acknowledged): (Option<RefuseReason>, u64),
    ) {
        let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) else {
            return;
        };
        let keeps = neighbour.keeps_prefixes();
        neighbour.probe_over(now.monotonic, transfer, refused.is_some());
        let Some(outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.window.lost(outgoing.octets);
        let key = outgoing.key;
        match refused {
            None if keeps && acknowledged > outgoing.header_octets => {
                let octets = acknowledged - outgoing.header_octets;
                self.forwarding.handed_over(
                    &self.held,
                    &self.adjacencies,
                    stream,
                    key,
                    outgoing.start,
                    octets,
                );
            }
            // RFC 9174 table 6: the whole is wanted again.
            Some(RefuseReason::Retransmit) => {
                self.forwarding
                    .set_handed(&self.adjacencies, stream, key, None)
            }
            _ => {}
        }
        if let Some(reason) = refused {
            self.refused_by_peer(now, stream, key, reason);
        }
        self.adjacencies.discharge(stream, outgoing.octets);
        if outgoing.fragment {
            self.settle_fragment(now, stream, key, Some(refused));
        } else if !self.pass_over(now, stream, key, Pass::Failed(refused)) {
            self.come_back(now, stream, key, refused);
            self.pay(now, key);
        }
    }

    /// A bundle that a session could not get rid of.
    pub(crate) fn come_back(
        &mut self,
        now: Now,
        stream: StreamId,
        key: BundleKey,
        refused: Option<RefuseReason>,
    ) {
        match self.forwarding.copies.router(key) {
            Some(_) => self.give_back(now, stream, key, rest_after(refused)),
            None => self.not_taken(now, key, refused),
        }
    }

    /// A bundle that somebody was given and has not taken.
    pub(crate) fn not_taken(&mut self, now: Now, key: BundleKey, refused: Option<RefuseReason>) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let is_lost = entry.detour > 0 && planted(Mutant::DetourLostWithSession);
        if entry.state() != State::InFlight || is_lost {
            return;
        }
        match rest_after(refused) {
            Some(duration) => drop(self.rest(now, key, duration)),
            None => self.put_back(now, key),
        }
    }

    /// A session has not got rid of a bundle, which waits again, after a rest where there is one.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        stream: StreamId,
        key: BundleKey,
        rest: Option<Duration>,
    ) {
        match rest {
            _ if self.forwarding.copies.router(key).is_some() => {
                let rest = rest.unwrap_or(Duration::ZERO);
                self.copy_back(now, stream, key, CopyEnd::Returned(rest));
            }
            Some(duration) => drop(self.rest(now, key, duration)),
            None => self.put_back(now, key),
        }
    }

    /// A session is to carry a bundle that may not be intact: it is compared with its checksums first, once nobody reads it.
    pub(crate) fn verify_for(&mut self, now: Now, stream: StreamId, key: BundleKey) {
        if self
            .forwarding
            .copy_over(now, stream, key, CopyEnd::Returned(RETRANSMIT_REST))
        {
            self.verify(now, key);
        }
    }

    /// A session is gone: everything that it was sending comes back.
    pub(crate) fn return_outgoing(&mut self, now: Now, stream: StreamId) {
        let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) else {
            return;
        };
        neighbour.probe = None;
        let outgoing = neighbour.all_closed();
        let splits = core::mem::take(&mut neighbour.splits);
        // The oldest last: it is the first of its queue again.
        for outgoing in outgoing.into_values().rev() {
            if outgoing.fragment {
                self.settle_fragment(now, stream, outgoing.key, Some(None));
            } else if !self.pass_over(now, stream, outgoing.key, Pass::Failed(None)) {
                self.come_back(now, stream, outgoing.key, None);
                self.pay(now, outgoing.key);
            }
        }
        for split in splits {
            self.stop_split(now, stream, split.key, None);
        }
    }
}

/// The rest of a bundle that a neighbour refused for this reason, or gave no answer about.
const fn rest_after(refused: Option<RefuseReason>) -> Option<Duration> {
    match refused {
        None | Some(RefuseReason::NoResources | RefuseReason::SessionTerminating) => None,
        Some(RefuseReason::Retransmit | RefuseReason::Unknown) => Some(RETRANSMIT_REST),
        Some(_) => Some(NOT_ACCEPTABLE_REST),
    }
}
