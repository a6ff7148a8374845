//! Small bundles that go on while the store makes them durable.
//!
//! Each sync would be waited for in line: by the sender's node, the echo service's, the receiver's. A small bundle may go on
//! meanwhile, where no other for its destination is on its way into the store and nobody has been told that it is kept:
//!
//! * an answer of the echo service leaves beside its own commit, which it shares with the question's. Its creation
//!   timestamp was reserved durably before, so none like it is made after a crash;
//! * a bundle of an application leaves likewise. The application is answered once it is durable here, and asks again
//!   when it is not answered. Where the store cannot keep it, the next hop's answer decides;
//! * a bundle for an application is delivered beside its commit. The neighbour that it came from keeps it until it is
//!   durable here; the confirmation counts, and is made durable, after the commit. One that the store cannot keep
//!   is remembered once it is confirmed, so that it does not come twice when the neighbour sends it again.
//!
//! The bundles of a stream follow each other too closely for that: they share syncs, and their octets are read when they are wanted. A
//! bundle of another flow passes them by.

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::outbox::Outbox;
use alloc::vec;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{Header, Now, Reading};

use crate::api::seam::RequestId;
use crate::door::StreamId;
use crate::held::bundles::Identity;
use crate::local::Locality;
use crate::node::Node;
use crate::passing::Pass;
use crate::sending::Outgoing;

/// Bundles that have gone on ahead of their commit, at most: their octets are in memory twice.
const AHEAD_BOUND: usize = 64;

/// Octets of a bundle that goes on ahead of its commit, at most: they are copied, or kept in memory for so long.
const AHEAD_OCTETS: u64 = 16 * 1024;

/// What a bundle is that somebody has, or may have, and the store could not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// A neighbour's, given to an application.
    Delivery,
    /// An application's, with its request, given to a session.
    Request(StreamId, RequestId),
}

impl Forwarding {
    /// No other bundle for its destination is on its way into the store and behind the others.
    pub(crate) fn is_first(&self, held: &Held, key: BundleKey) -> bool {
        self.passes.len() < AHEAD_BOUND && held.arrivals.is_first(key)
    }

    /// A bundle from a neighbour is small, and may go on ahead of its commit.
    pub(crate) fn may_go_ahead(&self, held: &Held, key: BundleKey, header: &Header) -> bool {
        header.total_octets() <= AHEAD_OCTETS
            && header.primary.fragment.is_none()
            && self.is_first(held, key)
    }

    /// A bundle whose commit is on its way goes on.
    pub(crate) fn pass_ahead(&mut self, held: &mut Held, key: BundleKey, pass: Pass) {
        self.passes.insert(key, pass);
        held.arrivals.go_ahead(key);
    }

    /// An application has been given a bundle that is not durable here.
    pub(crate) fn is_in_hand(&self, held: &Held, identity: &Identity) -> bool {
        let pass = (held.bundles.find(identity)).and_then(|key| self.passes.get(&key));
        matches!(
            pass,
            Some(Pass::Handed | Pass::Confirmed | Pass::Orphaned(Orphan::Delivery))
        )
    }

    /// A bundle of this node whose commit is on its way leaves at once, where a session has room and no other for its destination waits.
    pub(crate) fn leave_ahead(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        now: Now,
        key: BundleKey,
        octets: &Bytes,
    ) {
        let Some(entry) = held.bundles.entry(key) else {
            return;
        };
        let is_reserved = held.creation.is_reserved_durably(entry.creation);
        if !is_reserved || !self.is_first(held, key) {
            return;
        }
        let Ok(Some(header)) = Header::decode(octets, Reading::Strict) else {
            return;
        };
        let Some(stream) = self.way_ahead(held, adjacencies, now, key, &header) else {
            return;
        };
        let place = (key, &header);
        let edit = (held).hop_edit(adjacencies, now, stream, place, None);
        let (head, total) = self.head(&header, &edit);
        let Some(neighbour) = adjacencies.neighbours.get(&stream) else {
            return;
        };
        if total > neighbour.transfer_mru() {
            return;
        }
        let outgoing = Outgoing {
            key,
            octets: header.total_octets(),
            fragment: false,
            start: 0,
            header_octets: u64::try_from(head.len()).unwrap_or(u64::MAX),
            begun: now.monotonic,
        };
        adjacencies.charge(held, stream, key);
        let body = octets.slice(header.octets.len()..);
        let ending = adjacencies.ending(stream, &header);
        let [body, end] = ending.of_octets(body, header.payload_octets());
        let pieces = [head, body, end].map(Piece::Octets);
        if let Some(transfer) = adjacencies.transmit(out, now, stream, outgoing, total, pieces) {
            self.pass_ahead(held, key, Pass::Left(stream, transfer));
        }
    }
}

impl Node {
    /// A bundle from a neighbour is whole, and its commit on its way: what can be done with it now is.
    pub(crate) fn go_ahead(&mut self, now: Now, key: BundleKey, header: &Header, octets: &Bytes) {
        let start = header.octets.len();
        let length = usize::try_from(header.payload_octets()).unwrap_or(usize::MAX);
        let Some(end) = start.checked_add(length).filter(|&end| end <= octets.len()) else {
            return;
        };
        if self.held.other_whole(key).is_some() {
            return;
        }
        let payload = octets.slice(start..end);
        match self
            .held
            .endpoints
            .local()
            .locality(&header.primary.destination)
        {
            Locality::Echo => self.reply_ahead(now, key, header, &payload),
            Locality::Application => self.deliver_ahead(now, key, payload),
            Locality::Remote | Locality::Perf | Locality::Administrative => {}
        }
    }

    /// Deliver a bundle whose commit is on its way, unless others for the same endpoint are to come before it.
    fn deliver_ahead(&mut self, now: Now, key: BundleKey, payload: Bytes) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let endpoint = entry.destination;
        if self
            .forwarding
            .queues
            .first_of(endpoint, |_| true)
            .is_some()
            || !self.forwarding.is_first(&self.held, key)
            || self.held.was_delivered(now, key)
        {
            return;
        }
        if let Some(stream) = self.delivery.subscriber_with_room(endpoint) {
            self.forwarding
                .pass_ahead(&mut self.held, key, Pass::Handed);
            self.delivery.hand_over(
                &mut self.held,
                &mut self.attention,
                now,
                stream,
                key,
                vec![Piece::Octets(payload)],
            );
        }
    }

    /// An application that was given a bundle ahead of its commit has taken it, or has not; false when it is durable.
    pub(crate) fn delivery_over(&mut self, now: Now, key: BundleKey, outcome: Pass) -> bool {
        match self.forwarding.passes.get_mut(&key) {
            Some(pass @ Pass::Handed) => *pass = outcome,
            Some(Pass::Orphaned(_)) => self.settle_orphan(now, key, outcome),
            _ => return false,
        }
        true
    }
}
