//! Acknowledgments: bundles that are known to be where they were to go, of which copies end (docs/adverts.md).
//!
//! They are numbered as they become known, and each neighbour is told those above the number up to which it has been told. A neighbour that
//! is forgotten is told all again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::cbor::{BREAK, Reader, write_array, write_indefinite_array, write_unsigned};
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId, Instant, NodeId, Reading};

use super::Contact;
use crate::memory::{text_octets, tree_octets};

/// The name under which they travel in adverts: of no router.
pub(crate) const NAME: &str = "acknowledgments";

/// Those that are known, at most. Of more, the oldest is forgotten: its bundle is copied on as before.
const KNOWN_BOUND: usize = 32_768;

/// Octets of the endpoint IDs that they name, at most.
const TEXT_BOUND: usize = 4 << 20;

/// Neighbours of which is remembered up to which number they were told, at most.
const PEERS_BOUND: usize = 4_096;

/// Octets of the acknowledgments of one advert, at most, but for the last.
const ADVERT_OCTETS: usize = 48 << 10;

/// The time between two adverts to a neighbour that stays, at least: twice that after which the next one is heard.
const INTERVAL: Duration = Duration::from_secs(2);

/// New ones wait so long for others.
const GATHERED: Duration = Duration::from_secs(1);

/// The time that one is kept, at most, whatever is said of the lifetime of its bundle.
const KEPT_MS: u64 = 366 * 86_400_000;

/// A bundle that is where it was to go, or is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgment {
    pub(crate) source: EndpointId,
    pub(crate) creation: CreationTimestamp,
    pub(crate) destination: EndpointId,
    /// When the bundle expires.
    pub(crate) until: Instant,
}

/// Source, creation timestamp and destination: an acknowledgment that names another destination is another one, so that nobody's word keeps a
/// true one out.
type Name = (EndpointId, CreationTimestamp, EndpointId);

impl Acknowledgment {
    fn name(&self) -> Name {
        let (source, destination) = (self.source.clone(), self.destination.clone());
        (source, self.creation, destination)
    }

    /// Whether both tell of the same bundle.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    fn text_octets(&self) -> usize {
        text_octets(&self.source) + text_octets(&self.destination)
    }

    fn write(&self, now: Instant, out: &mut Vec<u8>) {
        write_array(out, 5);
        self.source.encode(out);
        write_unsigned(out, self.creation.time.as_millis());
        write_unsigned(out, self.creation.sequence);
        self.destination.encode(out);
        let left = self.until.since(now).as_millis();
        write_unsigned(out, u64::try_from(left).unwrap_or(u64::MAX));
    }

    fn read(reader: &mut Reader<'_>, now: Instant) -> Option<Self> {
        let mut array = reader.array().ok()?;
        let mut endpoint = |reader: &mut Reader<'_>| {
            array.item(reader).ok()?;
            EndpointId::decode(reader, Reading::Strict).ok()
        };
        let source = endpoint(reader)?;
        let mut numbers = [0; 2];
        for number in &mut numbers {
            array.item(reader).ok()?;
            *number = reader.unsigned().ok()?;
        }
        array.item(reader).ok()?;
        let destination = EndpointId::decode(reader, Reading::Strict).ok()?;
        array.item(reader).ok()?;
        let left = reader.unsigned().ok()?.min(KEPT_MS);
        array.end(reader).ok()?;
        let [time, sequence] = numbers;
        Some(Self {
            source,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(time),
                sequence,
            },
            destination,
            until: now + Duration::from_millis(left),
        })
    }
}

/// A neighbour, present or remembered.
#[derive(Debug, Default)]
struct Peer {
    /// All before this number have been told.
    told: u64,
    /// When it was last told any.
    at: Option<Instant>,
    is_up: bool,
}

/// The acknowledgments that a node knows.
#[derive(Default)]
pub(crate) struct Acknowledgments {
    now: Instant,
    next_number: u64,
    known: BTreeMap<u64, Acknowledgment>,
    numbers: BTreeMap<Name, u64>,
    text_octets: usize,
    peers: BTreeMap<NodeId, Peer>,
    /// Neighbours that are to be told now.
    ready: BTreeSet<NodeId>,
    /// The time at which the next are due.
    due: Option<Instant>,
}

impl Acknowledgments {
    /// Adds an acknowledgment. False where it was known; it is then kept as long as the longer of both lifetimes says.
    pub(crate) fn insert(&mut self, now: Instant, it: Acknowledgment) -> bool {
        self.now = now;
        if it.until <= now {
            return false;
        }
        let name = it.name();
        if let Some(number) = self.numbers.get(&name)
            && let Some(known) = self.known.get_mut(number)
        {
            if now < known.until {
                known.until = known.until.max(it.until);
                return false;
            }
            let number = *number;
            self.forget(number);
        }
        let number = self.next_number;
        self.next_number += 1;
        self.text_octets += it.text_octets();
        self.numbers.insert(name, number);
        self.known.insert(number, it);
        while self.known.len() > KNOWN_BOUND || self.text_octets > TEXT_BOUND {
            self.forget_oldest();
        }
        self.be_due(now + GATHERED);
        true
    }

    fn forget_oldest(&mut self) {
        if let Some((&oldest, _)) = self.known.first_key_value() {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(it) = self.known.remove(&number) {
            self.text_octets -= it.text_octets();
            self.numbers.remove(&it.name());
        }
    }

    fn be_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Whether a bundle of this identity, whole or a fragment, is where it was to go.
    pub(crate) fn knows(
        &self,
        now: Instant,
        source: &EndpointId,
        creation: CreationTimestamp,
        destination: &EndpointId,
    ) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let name = (source.clone(), creation, destination.clone());
        let number = self.numbers.get(&name);
        let known = number.and_then(|number| self.known.get(number));
        known.is_some_and(|it| now < it.until)
    }

    /// The acknowledgments of bundles that live, the newest first.
    pub(crate) fn newest(&self, now: Instant) -> impl Iterator<Item = &Acknowledgment> {
        let newest = self.known.values().rev();
        newest.filter(move |it| now < it.until)
    }

    /// A neighbour has come or gone.
    pub(crate) fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact) {
        self.now = now;
        self.ready.remove(peer);
        if self.peers.len() >= PEERS_BOUND && !self.peers.contains_key(peer) {
            self.peers.retain(|_, it| it.is_up);
        }
        let state = self.peers.entry(peer.clone()).or_default();
        state.is_up = contact == Contact::Up;
        if !state.is_up || state.told == self.next_number {
            return;
        }
        match state.at.map(|at| at + INTERVAL) {
            Some(at) if now < at => self.be_due(at),
            _ => drop(self.ready.insert(peer.clone())),
        }
    }

    /// When neighbours are to be told although nothing happens.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        let mut next = None;
        for (id, peer) in &self.peers {
            if !peer.is_up || peer.told == self.next_number {
                continue;
            }
            match peer.at.map(|at| at + INTERVAL).filter(|at| now < *at) {
                Some(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                None => drop(self.ready.insert(id.clone())),
            }
        }
        self.due = next;
    }

    /// Whether a neighbour is to be told now.
    pub(crate) fn has_adverts(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next of those that a neighbour has not been told.
    pub(crate) fn poll_advert(&mut self) -> Option<(NodeId, Vec<u8>)> {
        while let Some(id) = self.ready.pop_first() {
            let now = self.now;
            let Some(peer) = self.peers.get_mut(&id).filter(|it| it.is_up) else {
                continue;
            };
            let mut body = Vec::new();
            write_indefinite_array(&mut body);
            let start = body.len();
            for (&number, it) in self.known.range(peer.told..) {
                if body.len() > ADVERT_OCTETS {
                    break;
                }
                if now < it.until {
                    it.write(now, &mut body);
                }
                peer.told = number + 1;
            }
            peer.at = Some(now);
            if body.len() == start {
                peer.told = self.next_number;
                continue;
            }
            if peer.told < self.next_number {
                self.be_due(now + INTERVAL);
            }
            body.push(BREAK);
            return Some((id, body));
        }
        None
    }

    /// A neighbour has told those of `accepted`, which are known from now on. The new ones.
    pub(crate) fn handle_advert(
        &mut self,
        now: Instant,
        peer: &NodeId,
        accepted: Vec<Acknowledgment>,
    ) -> Vec<Acknowledgment> {
        let is_even = |it: &Self| {
            let peer = it.peers.get(peer);
            peer.is_some_and(|peer| peer.told == it.next_number)
        };
        let was_even = is_even(self);
        let new = accepted.into_iter();
        let new: Vec<_> = new.filter(|it| self.insert(now, it.clone())).collect();
        // It knows what it has told.
        if was_even && let Some(peer) = self.peers.get_mut(peer) {
            peer.told = self.next_number;
        }
        new
    }

    /// Octets of memory that they take.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(u64, Acknowledgment)>(self.known.len())
            .saturating_add(tree_octets::<(Name, u64)>(self.numbers.len()))
            .saturating_add(tree_octets::<(NodeId, Peer)>(self.peers.len()))
            .saturating_add(self.text_octets)
    }
}

/// Those of the body of an advert; none where it is no such body.
pub(crate) fn read(body: &[u8], now: Instant) -> Option<Vec<Acknowledgment>> {
    let mut reader = Reader::new(body);
    let mut array = reader.array().ok()?;
    let mut all = Vec::new();
    while array.next(&mut reader).ok()? {
        all.push(Acknowledgment::read(&mut reader, now)?);
    }
    reader.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn peer(number: u32) -> NodeId {
        alloc::format!("ipn:{number}.0").parse().unwrap()
    }

    fn of(sequence: u64) -> Acknowledgment {
        Acknowledgment {
            source: "ipn:1.7".parse().unwrap(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(5),
                sequence,
            },
            destination: "dtn://there/in".parse().unwrap(),
            until: at(3_600_000),
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn told(it: &mut Acknowledgments) -> Vec<(NodeId, Vec<u64>)> {
        let mut all = Vec::new();
        while let Some((peer, body)) = it.poll_advert() {
            let body = read(&body, it.now).unwrap();
            let numbers = body.iter().map(|it| it.creation.sequence).collect();
            all.push((peer, numbers));
        }
        all
    }

    #[test]
    fn a_neighbour_is_told_each_once_in_however_many_contacts() {
        let mut it = Acknowledgments::default();
        assert!(it.insert(at(0), of(1)));
        assert!(!it.insert(at(0), of(1)));
        it.handle_contact(at(0), &peer(2), Contact::Up);
        assert_eq!(told(&mut it), [(peer(2), vec![1])]);
        it.handle_contact(at(10), &peer(2), Contact::Down);
        it.insert(at(20), of(2));
        it.handle_contact(at(5_000), &peer(2), Contact::Up);
        it.handle_contact(at(5_000), &peer(3), Contact::Up);
        assert_eq!(told(&mut it), [(peer(2), vec![2]), (peer(3), vec![1, 2])]);
    }

    #[test]
    fn a_neighbour_that_stays_is_told_every_two_seconds_and_not_what_it_told() {
        let mut it = Acknowledgments::default();
        it.handle_contact(at(0), &peer(2), Contact::Up);
        it.handle_contact(at(0), &peer(3), Contact::Up);
        assert_eq!(it.poll_timeout(), None);
        assert_eq!(it.handle_advert(at(0), &peer(2), vec![of(1)]), [of(1)]);
        assert_eq!(it.handle_advert(at(0), &peer(2), vec![of(1)]), []);
        assert_eq!(it.poll_timeout(), Some(at(1_000)));
        it.handle_timeout(at(1_000));
        assert_eq!(told(&mut it), [(peer(3), vec![1])]);
        it.insert(at(1_100), of(2));
        it.handle_timeout(at(2_100));
        assert_eq!(told(&mut it), [(peer(2), vec![2])]);
        it.handle_timeout(at(3_000));
        assert_eq!(told(&mut it), [(peer(3), vec![2])]);
        assert_eq!(it.poll_timeout(), None);
    }

    #[test]
    fn many_are_told_in_several_adverts_and_the_oldest_of_too_many_forgotten() {
        let mut it = Acknowledgments::default();
        let all = u64::try_from(KNOWN_BOUND).unwrap() + 10;
        (0..all).for_each(|sequence| assert!(it.insert(at(0), of(sequence))));
        let destination = of(0).destination;
        let knows = |it: &Acknowledgments, sequence: u64, now| {
            let of = of(sequence);
            it.knows(now, &of.source, of.creation, &destination)
        };
        assert!(!knows(&it, 9, at(0)) && knows(&it, 10, at(0)) && !knows(&it, 10, at(3_600_000)));
        let other: EndpointId = "ipn:9.1".parse().unwrap();
        assert!(!it.knows(at(0), &of(10).source, of(10).creation, &other));
        it.handle_contact(at(0), &peer(2), Contact::Up);
        let mut heard = Vec::new();
        for step in 0..100 {
            for (_, numbers) in told(&mut it) {
                heard.extend(numbers);
            }
            it.handle_timeout(at(2_000 * (step + 1)));
        }
        assert_eq!(heard, (10..all).collect::<Vec<u64>>());
    }

    #[test]
    fn one_that_has_expired_makes_room_for_one_of_the_same_bundle() {
        let mut it = Acknowledgments::default();
        let until = |ms| Acknowledgment {
            until: at(ms),
            ..of(1)
        };
        let knows = |it: &Acknowledgments, ms| {
            let of = of(1);
            it.knows(at(ms), &of.source, of.creation, &of.destination)
        };
        assert!(it.insert(at(0), until(10)));
        assert!(knows(&it, 9) && !knows(&it, 10));
        assert!(!it.insert(at(5), until(20)), "it is known");
        assert!(knows(&it, 19) && !knows(&it, 20), "the longer time counts");
        assert!(it.insert(at(20), until(30)), "it is told again");
        assert_eq!((it.known.len(), it.numbers.len()), (1, 1));
        assert!(!it.insert(at(30), until(30)), "it has expired");
    }

    #[test]
    fn long_names_are_as_bounded_as_many() {
        let mut it = Acknowledgments::default();
        let long = alloc::format!("dtn://{}/in", "n".repeat(1_000));
        for sequence in 0..10_000 {
            let destination: EndpointId = long.parse().unwrap();
            let one = Acknowledgment {
                destination,
                ..of(sequence)
            };
            it.insert(at(0), one);
            let octets = it.known.values().map(Acknowledgment::text_octets);
            assert_eq!(octets.sum::<usize>(), it.text_octets);
            assert!(it.text_octets <= TEXT_BOUND);
        }
        assert!(it.memory_octets() < 3 * TEXT_BOUND);
    }

    proptest! {
        #[test]
        fn any_octets_are_acknowledgments_or_none(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(all) = read(&octets, at(0)) {
                let mut again = Vec::new();
                write_indefinite_array(&mut again);
                all.iter().for_each(|it| it.write(at(0), &mut again));
                again.push(BREAK);
                prop_assert_eq!(read(&again, at(0)), Some(all));
            }
        }
    }
}
