//! Peers of Bundle-in-Bundle Encapsulation (draft-ietf-dtn-bibect-03): what was sent to them with custody, and the signals that they are owed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::admin::bibe::{
    BibeSignal, BibeTypes, BpduHead, Disposition, MAX_RUNS, Numbering,
};
use dhow_bundle::{EndpointId, Instant, Now};

use super::Outcome;
use super::aggregates::{Aggregates, Limits, NoRoom};
use super::numbers::{Counter, GivenId, Reservation};
use crate::memory::{text_octets, tree_octets};

/// Peers, at most.
pub const PEERS_BOUND: usize = 1_024;

/// Transmissions to one peer whose signal is waited for, at most.
pub const TRANSMISSIONS_BOUND: usize = 65_536;

/// Transmissions to all peers whose signal is waited for, at most.
pub(super) const ALL_TRANSMISSIONS_BOUND: usize = 1 << 20;

/// A signal leaves so much before its peer would need it, beside the time that it takes: ION's margin.
const MARGIN: Duration = Duration::from_secs(10);

/// Transmissions of a bundle before its last that a signal may name, at most.
const EARLIER_BOUND: usize = 16;

/// The longest time for which a signal is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// Octets of a signal before its runs, at most: two arrays of two, a record type, a disposition, and the head of the array of runs.
const HEAD_OCTETS: usize = 16;

/// A peer, as this node is told to treat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BibePeer {
    /// The record type codes that it reads.
    pub types: BibeTypes,
    /// The peer's codes of dispositions.
    pub numbering: Numbering,
    /// The time that a bundle takes to the peer.
    pub latency: Duration,
    /// The first transmission in a signal waits so long for others, if the peer does not expect the signal sooner.
    pub delay: Duration,
    /// Octets of a signal's payload, at most. With 0 each transmission has a signal for itself.
    pub octets: usize,
}

impl Default for BibePeer {
    /// The draft's codes, no latency, 15 s, and 1,024 octets.
    fn default() -> Self {
        Self {
            types: BibeTypes::Draft,
            numbering: Numbering::Draft,
            latency: Duration::ZERO,
            delay: Duration::from_secs(15),
            octets: 1_024,
        }
    }
}

/// A transmission with custody.
#[derive(Debug)]
struct Transmission {
    key: BundleKey,
    /// When its bundle is sent again; none where it was.
    deadline: Option<Instant>,
    /// The time from when it has left here to that.
    wait: Duration,
    /// The bundle that carries it, while it is held here.
    carrier: Option<BundleKey>,
}

/// The transmissions of a bundle to a peer.
#[derive(Debug)]
struct Sent {
    peer: EndpointId,
    /// The last one, while its signal is waited for.
    last: Option<u64>,
    /// Those before, the oldest first: a signal that comes late means the same, that the peer has the bundle.
    earlier: Vec<u64>,
}

/// A peer, and what was sent to it.
#[derive(Debug, Default)]
struct Peer {
    settings: BibePeer,
    counter: Counter,
    sent: BTreeMap<u64, Transmission>,
}

/// All peers.
#[derive(Debug)]
pub(super) struct Peers {
    peers: BTreeMap<EndpointId, Peer>,
    transmissions: BTreeMap<BundleKey, Sent>,
    deadlines: BTreeSet<(Instant, BundleKey)>,
    /// The bundles in those that carry them and are held here.
    carried: BTreeMap<BundleKey, BundleKey>,
    /// The number of times that no signal for a bundle came.
    timeouts: BTreeMap<BundleKey, u8>,
    signals: Aggregates,
}

impl Peers {
    pub(super) const fn new() -> Self {
        Self {
            peers: BTreeMap::new(),
            transmissions: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            carried: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            signals: Aggregates::new(signal_octets),
        }
    }

    /// A peer is there, or is treated differently from now on. False where there are too many.
    pub(super) fn set(&mut self, peer: EndpointId, settings: BibePeer) -> bool {
        if self.peers.len() >= PEERS_BOUND && !self.peers.contains_key(&peer) {
            return false;
        }
        self.peers.entry(peer).or_default().settings = settings;
        true
    }

    pub(super) fn settings(&self, peer: &EndpointId) -> Option<&BibePeer> {
        self.peers.get(peer).map(|peer| &peer.settings)
    }

    /// A peer is one no more: the bundles whose signal was waited for, and what was gathered for it is gone.
    pub(super) fn remove(
        &mut self,
        reservation: &mut Reservation,
        peer: &EndpointId,
    ) -> Vec<BundleKey> {
        self.signals.forget(peer);
        let Some(removed) = self.peers.remove(peer) else {
            return Vec::new();
        };
        reservation.pass(removed.counter.last());
        let mut waited_for = Vec::new();
        for transmission in removed.sent.into_values() {
            self.transmissions.remove(&transmission.key);
            self.timeouts.remove(&transmission.key);
            self.settle(&transmission);
            waited_for.extend(transmission.deadline.map(|_| transmission.key));
        }
        waited_for
    }

    /// A bundle is sent to a peer with custody, and a signal may take so long, or twice as long after each time that none came. None where the
    /// peer is none, has too many, or was given all IDs (draft-ietf-dtn-bibect-03 4.1).
    pub(super) fn send(
        &mut self,
        reservation: &mut Reservation,
        now: Instant,
        peer: &EndpointId,
        key: BundleKey,
        wait: Duration,
    ) -> Option<GivenId> {
        self.end_last(key);
        if (self.transmissions.get(&key)).is_some_and(|sent| sent.peer != *peer) {
            self.forget(key);
        }
        let is_full = |peers: &Self, to: &Peer| {
            peers.transmissions.len() >= ALL_TRANSMISSIONS_BOUND
                || to.sent.len() >= TRANSMISSIONS_BOUND
        };
        if is_full(self, self.peers.get(peer)?) {
            // Its own place is free.
            self.forget(key);
        }
        if is_full(self, self.peers.get(peer)?) {
            return None;
        }
        let timeouts = self.timeouts.get(&key).copied().unwrap_or(0);
        let times = 1_u32.checked_shl(timeouts.into());
        let wait = times.and_then(|times| wait.checked_mul(times));
        let wait = wait.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT));
        let to = self.peers.get_mut(peer)?;
        let given = to.counter.next(reservation)?;
        let deadline = now + wait;
        let transmission = Transmission {
            key,
            deadline: Some(deadline),
            wait,
            carrier: None,
        };
        to.sent.insert(given.id, transmission);
        let none = || Sent {
            peer: peer.clone(),
            last: None,
            earlier: Vec::new(),
        };
        self.transmissions.entry(key).or_insert_with(none).last = Some(given.id);
        self.deadlines.insert((deadline, key));
        Some(given)
    }

    /// The signal of the last transmission of a bundle is waited for no more: it is one of those before.
    pub(super) fn end_last(&mut self, key: BundleKey) {
        let Some(sent) = self.transmissions.get_mut(&key) else {
            return;
        };
        let Some(id) = sent.last.take() else {
            return;
        };
        sent.earlier.push(id);
        let over = (sent.earlier.len() > EARLIER_BOUND).then(|| sent.earlier.remove(0));
        let Some(peer) = self.peers.get_mut(&sent.peer) else {
            return;
        };
        if let Some(over) = over {
            peer.sent.remove(&over);
        }
        if let Some(transmission) = peer.sent.get_mut(&id) {
            let deadline = transmission.deadline.take();
            let carrier = transmission.carrier.take();
            self.deadlines.remove(&(deadline.unwrap_or_default(), key));
            if let Some(carrier) = carrier {
                self.carried.remove(&carrier);
            }
        }
    }

    /// A transmission is known no more.
    fn settle(&mut self, transmission: &Transmission) {
        if let Some(deadline) = transmission.deadline {
            self.deadlines.remove(&(deadline, transmission.key));
        }
        if let Some(carrier) = transmission.carrier {
            self.carried.remove(&carrier);
        }
    }

    /// A bundle is in one that is held here: the time for its signal begins when that has left.
    pub(super) fn carry(&mut self, key: BundleKey, carrier: BundleKey) {
        if let Some(transmission) = self.transmission_mut(key) {
            let before = transmission.carrier.replace(carrier);
            if let Some(before) = before {
                self.carried.remove(&before);
            }
            self.carried.insert(carrier, key);
        }
    }

    /// A bundle has left, or is held no more: if it carried another, the time for the signal of that begins.
    pub(super) fn let_go(&mut self, now: Instant, carrier: BundleKey) {
        let Some(key) = self.carried.remove(&carrier) else {
            return;
        };
        if let Some(transmission) = self.transmission_mut(key) {
            transmission.carrier = None;
            self.postpone(now, key);
        }
    }

    /// The signal of a bundle is waited for from now on.
    fn postpone(&mut self, now: Instant, key: BundleKey) {
        if let Some(transmission) = self.transmission_mut(key)
            && let Some(before) = transmission.deadline
        {
            let deadline = now + transmission.wait;
            transmission.deadline = Some(deadline);
            self.deadlines.remove(&(before, key));
            self.deadlines.insert((deadline, key));
        }
    }

    /// The last transmission of a bundle, while its signal is waited for.
    fn transmission_mut(&mut self, key: BundleKey) -> Option<&mut Transmission> {
        let sent = self.transmissions.get(&key)?;
        self.peers.get_mut(&sent.peer)?.sent.get_mut(&sent.last?)
    }

    /// A bundle is held no more.
    pub(super) fn remove_bundle(&mut self, now: Instant, key: BundleKey) {
        if self.transmissions.is_empty() && self.timeouts.is_empty() {
            return;
        }
        self.forget(key);
        self.timeouts.remove(&key);
        self.let_go(now, key);
    }

    /// Whether a signal for a bundle is waited for.
    pub(super) fn is_sent_bundle(&self, key: BundleKey) -> bool {
        let sent = self.transmissions.get(&key);
        sent.is_some_and(|sent| sent.last.is_some())
    }

    /// No transmission of a bundle is known any more.
    pub(super) fn forget(&mut self, key: BundleKey) {
        let Some(sent) = self.transmissions.remove(&key) else {
            return;
        };
        for id in sent.earlier.into_iter().chain(sent.last) {
            let peer = self.peers.get_mut(&sent.peer);
            if let Some(transmission) = peer.and_then(|peer| peer.sent.remove(&id)) {
                self.settle(&transmission);
            }
        }
    }

    /// The first transmission of a run of IDs that a peer's signal means something for, and its ID (draft-ietf-dtn-bibect-03 4.4). That it has, or had, a
    /// bundle counts whichever transmission of it the signal names; that it has not, of the last alone.
    pub(super) fn resolve(
        &mut self,
        peer: &EndpointId,
        (first, last): (u64, u64),
        disposition: Disposition,
    ) -> Option<(u64, BundleKey, Outcome)> {
        let from = self.peers.get_mut(peer)?;
        let is_last = |it: &Transmission| it.deadline.is_some();
        let mut named = from.sent.range(first..=last);
        let named = named.find(|(_, it)| disposition.releases() || is_last(it));
        let (id, key) = named.map(|(&id, it)| (id, it.key))?;
        if disposition.releases() {
            self.forget(key);
            self.timeouts.remove(&key);
            return Some((id, key, Outcome::Released));
        }
        self.end_last(key);
        self.timeouts.remove(&key);
        Some((id, key, Outcome::ForwardElsewhere(disposition)))
    }

    /// The counter of transmissions to a peer.
    pub(super) fn counter(&self, peer: &EndpointId) -> Option<&Counter> {
        self.peers.get(peer).map(|peer| &peer.counter)
    }

    /// True where a signal of a peer may name an ID of a run.
    pub(super) fn is_sent(&self, peer: &EndpointId, (first, last): (u64, u64)) -> bool {
        let peer = self.peers.get(peer);
        peer.is_some_and(|peer| peer.sent.range(first..=last).next().is_some())
    }

    /// The next bundle for which no signal came in time (draft-ietf-dtn-bibect-03 4.3).
    pub(super) fn poll_timed_out(&mut self, now: Instant) -> Option<BundleKey> {
        // Each turn returns or sets a deadline later than now.
        while let Some(&(deadline, key)) = self.deadlines.first()
            && deadline <= now
        {
            let waits = self.transmission_mut(key);
            if waits.is_some_and(|it| it.carrier.is_some() && !it.wait.is_zero()) {
                self.postpone(now, key);
                continue;
            }
            self.end_last(key);
            let timeouts = self.timeouts.entry(key).or_default();
            *timeouts = timeouts.saturating_add(1);
            return Some(key);
        }
        None
    }

    /// A peer is owed a signal about a transmission (draft-ietf-dtn-bibect-03 4.2). False where it is no peer, or did not ask for custody.
    pub(super) fn owe(
        &mut self,
        now: Now,
        peer: &EndpointId,
        head: &BpduHead,
        disposition: Disposition,
    ) -> Result<bool, NoRoom> {
        let Some(settings) = self.settings(peer).filter(|_| head.asks_for_custody()) else {
            return Ok(false);
        };
        let limits = Limits {
            due: settings.due(now, head),
            octets: settings.octets,
            runs: MAX_RUNS,
        };
        let scope = (peer.clone(), disposition);
        self.signals
            .add(&scope, head.transmission_id, None, limits)?;
        Ok(true)
    }

    /// The next signal that is to leave, its peer and its payload.
    pub(super) fn poll_signal(&mut self, now: Instant) -> Option<(EndpointId, Bytes)> {
        let ((peer, disposition), aggregate) = self.signals.poll(now)?;
        let settings = self.settings(&peer).copied().unwrap_or_default();
        let signal = BibeSignal {
            disposition,
            runs: aggregate.ids.to_vec(),
        };
        Some((peer, signal.encode(settings.types, settings.numbering)))
    }

    /// When the next bundle is to be sent again, or the next signal to leave.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let times = [deadline, self.signals.poll_timeout()];
        times.into_iter().flatten().min()
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        let peers = self.peers.iter().map(|(id, peer)| {
            text_octets(id) + tree_octets::<(u64, Transmission)>(peer.sent.len())
        });
        tree_octets::<(EndpointId, Peer)>(self.peers.len())
            .saturating_add(tree_octets::<(BundleKey, Sent)>(self.transmissions.len()))
            .saturating_add(tree_octets::<(Instant, BundleKey)>(self.deadlines.len()))
            .saturating_add(tree_octets::<(BundleKey, BundleKey)>(self.carried.len()))
            .saturating_add(tree_octets::<(BundleKey, u8)>(self.timeouts.len()))
            .saturating_add(peers.fold(0, usize::saturating_add))
            .saturating_add(self.signals.memory_octets())
    }

    /// Panics where the tables contradict each other.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let sent: usize = self.peers.values().map(|peer| peer.sent.len()).sum();
        let known = |it: &Sent| it.earlier.len() + usize::from(it.last.is_some());
        assert_eq!(sent, self.transmissions.values().map(known).sum());
        let awaited = self.transmissions.values().filter(|it| it.last.is_some());
        assert_eq!(awaited.count(), self.deadlines.len());
        for (key, sent) in &self.transmissions {
            for id in &sent.earlier {
                let transmission = &self.peers[&sent.peer].sent[id];
                assert_eq!((transmission.key, transmission.deadline), (*key, None));
                assert_eq!(transmission.carrier, None);
            }
            let Some(id) = sent.last else { continue };
            let transmission = &self.peers[&sent.peer].sent[&id];
            assert_eq!(transmission.key, *key);
            assert!(
                self.deadlines
                    .contains(&(transmission.deadline.unwrap(), *key))
            );
            if let Some(carrier) = transmission.carrier {
                assert_eq!(self.carried.get(&carrier), Some(key));
            }
        }
        let carriers = |peer: &Peer| peer.sent.values().filter(|it| it.carrier.is_some()).count();
        assert_eq!(self.carried.len(), self.peers.values().map(carriers).sum());
        self.signals.counts();
    }
}

impl BibePeer {
    /// When a signal about a transmission leaves: after the delay, or in time for the peer. A time that makes no sense only makes it sooner.
    fn due(&self, now: Now, head: &BpduHead) -> Instant {
        let mut wait = self.delay;
        if let Some(expected_by) = head.expected_by()
            && now.dtn.is_known()
        {
            let left = (expected_by.as_millis()).saturating_sub(now.dtn.as_millis());
            let needed = self.latency.saturating_add(MARGIN);
            wait = wait.min(Duration::from_millis(left).saturating_sub(needed));
        }
        now.monotonic + wait
    }
}

/// Octets of the payload of a signal, at most.
fn signal_octets(runs: &mut dyn Iterator<Item = (u64, u64)>) -> usize {
    let octets = runs.map(|(first, last)| {
        let count = last.saturating_sub(first).saturating_add(1);
        1 + unsigned_octets(first) + unsigned_octets(count)
    });
    octets.fold(HEAD_OCTETS, usize::saturating_add)
}

/// Octets of an unsigned integer in CBOR (RFC 8949 3).
const fn unsigned_octets(value: u64) -> usize {
    match value {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::runs::IdRuns;
    use super::*;

    proptest! {
        #[test]
        fn a_payload_is_no_longer_than_it_is_measured(ids in proptest::collection::vec(any::<u64>().prop_flat_map(|id| 1..=id.max(1)), 1..30)) {
            let mut runs = IdRuns::default();
            for id in ids {
                runs.insert(id);
            }
            let signal = BibeSignal {
                disposition: Disposition::Other(9),
                runs: runs.to_vec(),
            };
            for types in BibeTypes::ALL {
                let octets = signal.encode(types, Numbering::Draft).len();
                let measured = signal_octets(&mut runs.iter());
                prop_assert!(octets <= measured && measured <= octets + HEAD_OCTETS);
            }
        }
    }
}
