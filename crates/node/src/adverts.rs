//! Adverts: the messages of routers of neighbours, in bundles between the routing services of their nodes (docs/adverts.md).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::cbor::{Reader, write_array, write_byte_string, write_text, write_unsigned};
use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::{BundleBuilder, BundleFlags, EndpointId, Instant, NodeId, Now, Version};

use crate::handshake::Handshake;
use crate::held::bundles::{Entry, Removal};
use crate::held::retention::Trigger;
use crate::local::routing_service;
use crate::node::{Node, Stage};
use crate::routing::acknowledgments;
use crate::sending::PendingRead;

/// The version of the payload.
const VERSION: u64 = 1;

/// Octets of a payload, at most.
const ADVERT_OCTETS: usize = 64 << 10;

/// The lifetime of an advert: what it tells is soon no longer true.
const LIFETIME_MS: u64 = 60_000;

/// An advert is for the neighbour alone.
const HOP_LIMIT: u8 = 1;

/// The time between two adverts of one name to, or of, one neighbour, at least.
const INTERVAL: Duration = Duration::from_millis(100);

/// Adverts of a neighbour that are read in a second, at most, whatever their names.
const READ_BOUND: u8 = 16;
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Octets of the name of a router, at most.
const NAME_OCTETS: u64 = 64;

/// Neighbours whose times are kept without a need, at most.
const PEERS_BOUND: usize = 1_024;

/// When adverts went and came.
#[derive(Default)]
pub(crate) struct Adverts {
    peers: BTreeMap<NodeId, Exchange>,
}

/// The adverts of one neighbour.
#[derive(Debug, Default)]
struct Exchange {
    /// The subjects by the name under which they go.
    subjects: BTreeMap<String, Subject>,
    /// The number of adverts that were read since this time, of any name.
    read: Option<(Instant, u8)>,
}

/// The adverts of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Subject {
    sent: Option<Instant>,
    /// The last one to it, as long as no other bundle has its key.
    last: Option<BundleKey>,
    heard: Option<Instant>,
}

impl Exchange {
    fn is_recent(&self, now: Instant) -> bool {
        let times = self.subjects.values().flat_map(|it| [it.sent, it.heard]);
        let is_read = self.read.is_some_and(|(since, _)| is_counted(since, now));
        is_read || times.into_iter().any(|it| !is_over(it, now))
    }
}

/// Whether the interval after this time has passed.
fn is_over(at: Option<Instant>, now: Instant) -> bool {
    at.is_none_or(|at| at + INTERVAL <= now)
}

/// Whether adverts that were read since this time count for the bound.
fn is_counted(since: Instant, now: Instant) -> bool {
    since + READ_INTERVAL > now
}

impl Adverts {
    fn exchange(&mut self, peer: &NodeId, now: Instant) -> &mut Exchange {
        if self.peers.len() >= PEERS_BOUND && !self.peers.contains_key(peer) {
            self.peers.retain(|_, it| it.is_recent(now));
        }
        self.peers.entry(peer.clone()).or_default()
    }

    fn subject(&mut self, peer: &NodeId, name: &str, now: Instant) -> &mut Subject {
        let exchange = self.exchange(peer, now);
        exchange.subjects.entry(name.into()).or_default()
    }

    /// Whether a neighbour may be told something now; if so, it is, and this was the last advert of that name to it.
    fn may_say(&mut self, peer: &NodeId, name: &str, now: Instant) -> Option<Option<BundleKey>> {
        let subject = self.subject(peer, name, now);
        is_over(subject.sent, now).then(|| {
            subject.sent = Some(now);
            subject.last.take()
        })
    }

    /// Whether what a neighbour says may be read now; if so, it is.
    fn may_read(&mut self, peer: &NodeId, now: Instant) -> bool {
        let exchange = self.exchange(peer, now);
        let (since, count) = exchange
            .read
            .filter(|(since, _)| is_counted(*since, now))
            .unwrap_or((now, 0));
        let may = count < READ_BOUND;
        exchange.read = Some((since, count + u8::from(may)));
        may
    }

    /// Whether a neighbour may be heard now on a subject that this node knows; if so, it is.
    fn may_hear(&mut self, peer: &NodeId, name: &str, now: Instant) -> bool {
        let subject = self.subject(peer, name, now);
        let may = is_over(subject.heard, now);
        if may {
            subject.heard = Some(now);
        }
        may
    }
}

impl Node {
    /// Tell neighbours what routers have to say.
    pub(crate) fn send_adverts(&mut self, now: Now) {
        if self.stage != Stage::Working {
            return;
        }
        while self.forwarding.has_adverts() {
            let halves = [self.random.next(), self.random.next()].map(u64::to_le_bytes);
            let mut key = [0; 16];
            for (place, octet) in key.iter_mut().zip(halves.into_iter().flatten()) {
                *place = octet;
            }
            if let Some((router, peer, body)) = self.forwarding.poll_advert(&self.held, key)
                && !self.is_behind(now, &router, &peer)
            {
                self.advertise(now, &router, &peer, &body);
            }
        }
    }

    /// Whether the last advert to a neighbour waits, and its router is to say again what was in it.
    fn is_behind(&mut self, now: Now, router: &str, peer: &NodeId) -> bool {
        let Some(destination) = routing_service(peer) else {
            return false;
        };
        let subject = self.services.adverts.subject(peer, router, now.monotonic);
        let last = subject.last;
        let Some(last) = last.filter(|&last| self.held.waits_for(last, &destination)) else {
            return false;
        };
        if !self.forwarding.tell_anew(router, peer) {
            return false;
        }
        self.delete(now, last, Removal::Deleted, None);
        true
    }

    fn advertise(&mut self, now: Now, router: &str, peer: &NodeId, body: &[u8]) {
        if self.services.handshakes.speaks(peer) {
            // It reads no adverts, and says what it has when it is asked.
            self.ask_for_handshake(now, peer);
            return;
        }
        let here = self.held.endpoints().local().counterpart(peer);
        let (Some(source), Some(destination)) = (routing_service(here), routing_service(peer))
        else {
            return;
        };
        let Some(last) = self.services.adverts.may_say(peer, router, now.monotonic) else {
            return;
        };
        // Each acknowledgment is told once: one that waits stays beside the next.
        let last = last.filter(|_| router != acknowledgments::NAME);
        if let Some(last) = last.filter(|&last| self.held.waits_for(last, &destination)) {
            self.delete(now, last, Removal::Deleted, None);
        }
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let builder = BundleBuilder::new(source, destination, creation, LIFETIME_MS)
            .with_report_to(EndpointId::Null)
            .with_flags(BundleFlags::MUST_NOT_FRAGMENT)
            .with_payload_crc_type(self.payload_checksum())
            .with_hop_limit(HOP_LIMIT);
        // Without room nothing is said: a neighbour that hears nothing has what it wants twice, at worst.
        let Some(key) = self.tell_router(now, &builder, &encode(router, body)) else {
            return;
        };
        self.outbox.counters.adverts_sent += 1;
        let subject = self.services.adverts.subject(peer, router, now.monotonic);
        subject.last = Some(key);
    }

    fn version(&self, key: BundleKey) -> Option<Version> {
        self.held.entry(key).map(Entry::version)
    }

    /// The neighbour that a bundle is an advert of: it brought it, and made it.
    fn advertiser(&self, key: BundleKey) -> Option<NodeId> {
        let entry = self.held.entry(key)?;
        let endpoints = self.held.endpoints();
        let source = endpoints.id(entry.source());
        let previous = NodeId::new(endpoints.id(entry.previous()?).clone()).ok()?;
        (routing_service(&previous).as_ref() == Some(source)).then_some(previous)
    }

    /// A bundle for the routing service is here: read its payload.
    pub(crate) fn take_advert(&mut self, now: Now, key: BundleKey) {
        if self.held.is_stale(now, key) {
            self.verify(now, key);
            return;
        }
        // In version 6 it may be a message of an IBR-DTN: which of both is known when it is read.
        let is_version_6 = self.version(key) == Some(Version::V6);
        let most = match is_version_6 {
            true => Handshake::MAX_OCTETS,
            false => ADVERT_OCTETS,
        };
        let extents = self.held.payload_start(key, most + 1);
        let advertiser = self.advertiser(key).filter(|_| !extents.is_empty());
        let may_be_read = advertiser.is_some_and(|peer| match is_version_6 {
            true => self.services.handshakes.may_read(&peer, now.monotonic),
            false => self.services.adverts.may_read(&peer, now.monotonic),
        });
        if !may_be_read {
            self.outbox.counters.adverts_refused += 1;
            self.delivered(now, key);
            return;
        }
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        self.held.read(
            &mut self.outbox,
            PendingRead::Advert { key },
            Extents::Many(extents.into()),
        );
    }

    /// The payload of an advert is here.
    pub(crate) fn hear(&mut self, now: Now, key: BundleKey, octets: &Bytes) {
        let is_version_6 = self.version(key) == Some(Version::V6);
        let is_taken = match (self.advertiser(key), decode(octets)) {
            (Some(peer), Some((name, body))) => {
                self.services.handshakes.forget(&peer);
                self.hear_on(now, &name, &peer, body)
            }
            (Some(peer), None) if is_version_6 => self.take_handshake(now, key, &peer, octets),
            (Some(_), None) | (None, _) => false,
        };
        let counters = &mut self.outbox.counters;
        match is_taken {
            true => counters.adverts_taken += 1,
            false => counters.adverts_refused += 1,
        }
        self.delivered(now, key);
    }

    /// A neighbour says something. False where this node does not know what it is about, or has heard it a moment ago.
    fn hear_on(&mut self, now: Now, name: &str, peer: &NodeId, body: &[u8]) -> bool {
        let are_acknowledgments = name == acknowledgments::NAME;
        let is_known = are_acknowledgments || self.forwarding.has_router(name);
        if !is_known || !self.services.adverts.may_hear(peer, name, now.monotonic) {
            return false;
        }
        match are_acknowledgments {
            true => self.hear_acknowledgments(now, peer, body),
            false => {
                let (held, adjacencies) = (&self.held, &mut self.adjacencies);
                let is_taken = (self.forwarding).hear(held, adjacencies, now, name, peer, body);
                self.end_arrived(now, name);
                is_taken
            }
        }
    }
}

/// The payload of an advert.
pub(crate) fn encode(router: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    write_array(&mut out, 3);
    write_unsigned(&mut out, VERSION);
    write_text(&mut out, router);
    write_byte_string(&mut out, body);
    out
}

/// The router that an advert is for, and the advert's content; none where it is no advert of this version.
pub(crate) fn decode(octets: &[u8]) -> Option<(String, &[u8])> {
    if octets.len() > ADVERT_OCTETS {
        return None;
    }
    let mut reader = Reader::new(octets);
    let mut array = reader.array().ok()?;
    array.item(&mut reader).ok()?;
    if reader.unsigned().ok()? != VERSION {
        return None;
    }
    array.item(&mut reader).ok()?;
    let router = reader.text(NAME_OCTETS).ok()?.into_owned();
    array.item(&mut reader).ok()?;
    let body = reader.byte_string().ok()?;
    array.end(&mut reader).ok()?;
    reader.is_empty().then_some((router, body))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_advert_is_read_as_it_was_written() {
        let octets = encode("flood", b"body");
        assert_eq!(decode(&octets), Some(("flood".into(), &b"body"[..])));
        for end in 0..octets.len() {
            assert_eq!(decode(&octets[..end]), None, "{end}");
        }
        let mut longer = octets.clone();
        longer.push(0);
        assert_eq!(decode(&longer), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_an_advert_or_none(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((router, body)) = decode(&octets) {
                let again = encode(&router, body);
                prop_assert_eq!(decode(&again), Some((router, body)));
            }
        }
    }

    #[test]
    fn an_advert_of_another_version_or_size_is_none() {
        let mut octets = encode("flood", b"body");
        octets[1] = 2;
        assert_eq!(decode(&octets), None);
        let mut octets = encode("flood", b"body");
        octets[3] = 0xff;
        assert_eq!(decode(&octets), None, "no UTF-8");
        let most = ADVERT_OCTETS - encode("flood", &[0; 60_000]).len() + 60_000;
        assert!(decode(&encode("flood", &alloc::vec![0; most])).is_some());
        assert_eq!(decode(&encode("flood", &alloc::vec![0; most + 1])), None);
    }

    #[test]
    fn a_neighbour_is_told_and_heard_ten_times_a_second() {
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let mut adverts = Adverts::default();
        let at = |ms| Instant::START + Duration::from_millis(ms);
        assert!(adverts.may_hear(&peer, "flood", at(0)));
        assert!(!adverts.may_hear(&peer, "flood", at(99)));
        assert!(adverts.may_hear(&peer, "prophet", at(99)));
        assert!(adverts.may_hear(&peer, "flood", at(100)));
        assert_eq!(adverts.may_say(&peer, "flood", at(0)), Some(None));
        assert_eq!(adverts.may_say(&peer, "flood", at(99)), None);
        assert_eq!(adverts.may_say(&peer, "prophet", at(99)), Some(None));
        assert_eq!(adverts.may_say(&peer, "flood", at(100)), Some(None));
        let reads = (0..20).filter(|_| adverts.may_read(&peer, at(0))).count();
        assert_eq!(reads, 16);
        assert!(!adverts.may_read(&peer, at(999)));
        assert!(adverts.may_read(&peer, at(1_000)));
    }
}
