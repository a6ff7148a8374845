//! The routing handshake with a neighbour that is an IBR-DTN: requests are answered, and sent to neighbours that have sent one (docs/ibr-dtn.md).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::v6::{self, Priority};
use dhow_bundle::{BundleBuilder, BundleFlags, EndpointId, Instant, NodeId, Now, Version};

use crate::handshake::{
    ACKNOWLEDGMENTS, Handshake, Items, LIMITATIONS, PREDICTABILITIES, PURGE_VECTOR, Response,
    SUMMARY_VECTOR,
};
use crate::held::bundles::Removal;
use crate::local::routing_service;
use crate::node::Node;

/// The lifetime of a message, and of what a response tells, seconds: IBR-DTN's.
const LIFETIME_S: u64 = 60;

/// The time between two messages of one kind to, or of, one neighbour, at least.
const INTERVAL: Duration = Duration::from_secs(1);

/// Payloads of version 6 that are read of one neighbour in that time, at most: a request, a response, a notification and an advert.
const READS: usize = 4;

/// Neighbours that are remembered without a need, at most.
const PEERS_BOUND: usize = 1_024;

/// Limitations that a node without any tells: payloads, payloads for other nodes, groups, and bundles for other nodes.
const LIMITATION_NUMBERS: [u64; 4] = [0, 1, 2, 3];

/// The neighbours that shake hands, and when messages went and came.
#[derive(Default)]
pub(crate) struct Handshakes {
    peers: BTreeMap<NodeId, Exchange>,
    /// When a neighbour that could not be asked is.
    due: Option<Instant>,
}

/// The messages of one neighbour.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    /// Whether the neighbour has sent a message.
    speaks: bool,
    /// The last payloads that were read, the oldest first.
    read: [Option<Instant>; READS],
    /// Its last request that was answered, and its last response that was heard.
    answered: Option<Instant>,
    heard: Option<Instant>,
    /// The time of the last request to the neighbour, and whether there was a reason to ask again before another might leave.
    asked: Option<Instant>,
    is_owed: bool,
    /// The last messages to it, as long as no other bundles have their keys.
    request: Option<BundleKey>,
    response: Option<BundleKey>,
}

/// Whether the interval after this time has passed; if so, it begins anew.
fn passes(at: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = at.is_none_or(|at| at + INTERVAL <= now);
    if is_over {
        *at = Some(now);
    }
    is_over
}

impl Handshakes {
    fn exchange(&mut self, peer: &NodeId, now: Instant) -> &mut Exchange {
        if self.peers.len() >= PEERS_BOUND && !self.peers.contains_key(peer) {
            let is_recent = |at: Option<Instant>| at.is_some_and(|at| at + INTERVAL > now);
            self.peers.retain(|_, it| {
                let [.., read] = it.read;
                is_recent(read) || is_recent(it.asked)
            });
        }
        self.peers.entry(peer.clone()).or_default()
    }

    /// Whether a payload of a neighbour may be read now; if so, it is.
    pub(crate) fn may_read(&mut self, peer: &NodeId, now: Instant) -> bool {
        let exchange = self.exchange(peer, now);
        let [oldest, ..] = &mut exchange.read;
        let may = passes(oldest, now);
        if may {
            exchange.read.rotate_left(1);
        }
        may
    }

    /// Whether a neighbour shakes hands.
    pub(crate) fn speaks(&self, peer: &NodeId) -> bool {
        self.peers.get(peer).is_some_and(|it| it.speaks)
    }

    /// A neighbour has sent an advert, and so is no IBR-DTN.
    pub(crate) fn forget(&mut self, peer: &NodeId) {
        if let Some(exchange) = self.peers.get_mut(peer) {
            exchange.speaks = false;
            exchange.is_owed = false;
        }
    }

    /// When [`Node::ask_owed`] is to be called.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The neighbours that may be asked now, and were to be before.
    fn take_owed(&mut self, now: Instant) -> Vec<NodeId> {
        let mut owed = Vec::new();
        self.due = None;
        for (peer, exchange) in self.peers.iter_mut().filter(|(_, it)| it.is_owed) {
            let at = exchange.asked.map_or(now, |at| at + INTERVAL);
            if at <= now {
                exchange.is_owed = false;
                owed.push(peer.clone());
            } else {
                self.due = Some(self.due.map_or(at, |due| due.min(at)));
            }
        }
        owed
    }
}

impl Node {
    /// A payload of version 6 of a neighbour is no advert. False where it is no message, or one too many.
    pub(crate) fn take_handshake(
        &mut self,
        now: Now,
        key: BundleKey,
        peer: &NodeId,
        octets: &[u8],
    ) -> bool {
        let Ok(message) = Handshake::decode(octets) else {
            return false;
        };
        let exchange = self.services.handshakes.exchange(peer, now.monotonic);
        exchange.speaks = true;
        match message {
            Handshake::Request(items) => {
                if !passes(&mut exchange.answered, now.monotonic) {
                    return false;
                }
                self.answer_handshake(now, key, peer, &items);
                self.ask_for_handshake(now, peer);
            }
            Handshake::Response(response) => {
                // Each request has an answer, however soon after the last one.
                let is_answer = exchange.asked > exchange.heard;
                if !passes(&mut exchange.heard, now.monotonic) && !is_answer {
                    return false;
                }
                exchange.heard = Some(now.monotonic);
                let over = self.forwarding.hear_response(
                    &self.held,
                    &mut self.adjacencies,
                    now,
                    peer,
                    &response,
                );
                over.into_iter().for_each(|key| self.purge(now, key));
            }
            Handshake::Notification(_) => self.ask_for_handshake(now, peer),
        }
        true
    }

    /// Ask neighbours that there was a reason to ask too soon after the last request.
    pub(crate) fn ask_owed(&mut self, now: Now) {
        let is_due = |at: Instant| at <= now.monotonic;
        if !self.services.handshakes.due.is_some_and(is_due) {
            return;
        }
        for peer in self.services.handshakes.take_owed(now.monotonic) {
            if self.adjacencies.peers().any(|it| *it == peer) {
                self.ask_for_handshake(now, &peer);
            }
        }
    }

    /// Ask a neighbour for its bundles; one that was asked a moment ago a moment later.
    pub(crate) fn ask_for_handshake(&mut self, now: Now, peer: &NodeId) {
        let here = self.held.endpoints().local().counterpart(peer);
        let (Some(source), Some(destination)) = (routing_service(here), routing_service(peer))
        else {
            return;
        };
        let exchange = self.services.handshakes.exchange(peer, now.monotonic);
        let asked = exchange.asked;
        if !passes(&mut exchange.asked, now.monotonic) {
            exchange.is_owed = true;
            let at = asked.map_or(now.monotonic, |at| at + INTERVAL);
            let due = &mut self.services.handshakes.due;
            *due = Some(due.map_or(at, |due| due.min(at)));
            return;
        }
        exchange.is_owed = false;
        let last = exchange.request.take();
        let mut items: Items = [SUMMARY_VECTOR, PURGE_VECTOR].into();
        if self.forwarding.predictabilities(&self.held, now).is_some() {
            items.extend([PREDICTABILITIES, ACKNOWLEDGMENTS]);
        }
        let request = Handshake::Request(items);
        let key = self.send_handshake(now, (source, destination), &request, last);
        self.services
            .handshakes
            .exchange(peer, now.monotonic)
            .request = key;
    }

    /// Answer a request, which is this bundle, with what it asks for.
    fn answer_handshake(&mut self, now: Now, key: BundleKey, peer: &NodeId, items: &Items) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let local = self.held.endpoints().local();
        let endpoint = |index| self.held.endpoints().id(index).clone();
        let (asked, destination) = (endpoint(entry.destination()), endpoint(entry.source()));
        // A request to the group is answered by the node.
        let here = routing_service(local.counterpart(peer));
        let Some(source) = (local.owns(&asked).then_some(asked)).or(here) else {
            return;
        };
        let asks = |item| items.contains(&item).then_some(());
        let (held, forwarding) = (&self.held, &mut self.forwarding);
        let response = Response {
            lifetime_s: LIFETIME_S,
            summary: asks(SUMMARY_VECTOR).map(|()| forwarding.summary_vector(held)),
            purge: asks(PURGE_VECTOR).map(|()| forwarding.purge_vector(now)),
            predictabilities: asks(PREDICTABILITIES)
                .and_then(|()| forwarding.predictabilities(held, now)),
            acknowledgments: asks(ACKNOWLEDGMENTS).map(|()| forwarding.acknowledgments(now)),
            limitations: asks(LIMITATIONS).map(|()| LIMITATION_NUMBERS.map(|it| (it, 0)).into()),
        };
        let message = Handshake::Response(Box::new(response));
        let last = self.services.handshakes.exchange(peer, now.monotonic);
        let last = last.response.take();
        let key = self.send_handshake(now, (source, destination), &message, last);
        self.services
            .handshakes
            .exchange(peer, now.monotonic)
            .response = key;
    }

    /// Send a message in the place of the last one of its kind, where that is still here; none without room for it.
    fn send_handshake(
        &mut self,
        now: Now,
        (source, destination): (EndpointId, EndpointId),
        message: &Handshake,
        last: Option<BundleKey>,
    ) -> Option<BundleKey> {
        if let Some(last) = last.filter(|&last| self.held.waits_for(last, &destination)) {
            self.delete(now, last, Removal::Deleted, None);
        }
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let expedited = v6::BundleFlags::NONE.with_priority(Priority::Expedited);
        let builder = BundleBuilder::new(source, destination, creation, LIFETIME_S * 1_000)
            .with_version(Version::V6)
            .with_report_to(EndpointId::Null)
            .with_flags(BundleFlags::MUST_NOT_FRAGMENT)
            .with_flags(BundleFlags::from_bits(expedited.bits()));
        let key = self.tell_router(now, &builder, &message.encode())?;
        self.outbox.counters.adverts_sent += 1;
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    #[test]
    fn a_neighbour_is_read_four_times_a_second() {
        let peer: NodeId = "dtn://peer/".parse().unwrap();
        let mut handshakes = Handshakes::default();
        let read = |handshakes: &mut Handshakes, ms| handshakes.may_read(&peer, at(ms));
        for ms in [0, 10, 20, 30] {
            assert!(read(&mut handshakes, ms), "{ms}");
        }
        assert!(!read(&mut handshakes, 999));
        assert!(read(&mut handshakes, 1_000));
        assert!(!read(&mut handshakes, 1_009));
        assert!(read(&mut handshakes, 1_010));
    }

    #[test]
    fn neighbours_are_remembered_as_long_as_there_is_room() {
        let mut handshakes = Handshakes::default();
        for number in 0..2_000 {
            let peer: NodeId = alloc::format!("ipn:{}.0", number + 1).parse().unwrap();
            handshakes.may_read(&peer, at(number * 10));
            handshakes.exchange(&peer, at(number * 10)).speaks = true;
            assert!(handshakes.speaks(&peer));
            assert!(handshakes.peers.len() <= PEERS_BOUND);
        }
        let last: NodeId = "ipn:2000.0".parse().unwrap();
        handshakes.forget(&last);
        assert!(!handshakes.speaks(&last));
    }
}
