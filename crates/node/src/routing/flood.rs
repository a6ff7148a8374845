//! Flooding: each neighbour gets a copy of every bundle that it has not had, by their priorities and in the order in which bundles came.
//!
//! The router numbers the bundles of each priority as they come, and remembers for each neighbour up to which number it has had its turn: a
//! contact costs nothing where nothing is new, however many bundles are held.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::cbor::{BREAK, Reader, write_indefinite_array};
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, NOTE_OCTETS};
use dhow_bundle::{EndpointId, Instant, NodeId, Priority, Reading};

use super::summary::{
    self, ADVERT_BUNDLES, COMPARED_BOUND, Form, GATHERED, NEWS_INTERVAL, Summary,
};
use super::{AdvertKey, BundleChange, Contact, IdentityHash, Passage, Router};
use crate::contacts::ContactTable;
use crate::forwarding::turns::{order, place_of, priority_of};
use crate::memory::{text_octets, tree_octets};

/// Neighbours that are remembered, at most. Of more, the one that went first is forgotten, and is given copies again should it come back, which
/// it then says that it has.
const PEERS_BOUND: usize = 4_096;

/// Octets of the IDs of nodes that were given a bundle, at most: a note's, but for its array.
const GIVEN_OCTETS: usize = NOTE_OCTETS - 2;

/// Bundles that are looked at for one choice, of those that were passed by and of others.
const LOOK_BOUND: usize = 64;

/// A neighbour that has come is given nothing before it has told its bundles, or so long.
const ADVERT_WAIT: Duration = Duration::from_secs(1);

/// The router. The number of a bundle begins with the rank of its priority ([`order`]).
#[derive(Default)]
pub(crate) struct Flood {
    next_number: u64,
    bundles: BTreeMap<u64, BundleKey>,
    numbers: BTreeMap<BundleKey, u64>,
    /// The IDs of the nodes that were given a bundle, in CBOR one behind the other, in as many octets as a note has for them.
    given: BTreeMap<u64, Vec<u8>>,
    peers: BTreeMap<NodeId, Peer>,
    /// Neighbours without a session, by when they went.
    gone: BTreeSet<(Instant, NodeId)>,
    /// Neighbours that are to be told something.
    untold: BTreeSet<NodeId>,
    /// Neighbours that are there.
    present: BTreeSet<NodeId>,
    /// The bundles that came last, in that order: as many as one advert tells of.
    newest: VecDeque<u64>,
    now: Instant,
    /// When neighbours that are there are told again.
    due: Option<Instant>,
}

/// A neighbour, present or remembered.
#[derive(Default)]
struct Peer {
    /// Of each priority all bundles before this number have had their turn; of one that is missing none.
    turns: BTreeMap<Priority, u64>,
    /// Bundles of them that have another turn, and its time.
    again: BTreeMap<u64, Instant>,
    /// Those of them that rest until then, the first to wake first.
    paused: BTreeSet<(Instant, u64)>,
    /// Bundles behind that have no turn: the neighbour has them.
    known: BTreeSet<u64>,
    /// When it went, while it is away.
    went: Option<Instant>,
    /// The neighbour may be about to tell its bundles: it is given nothing before.
    awaited: Option<Instant>,
    /// The time at which the neighbour last told so.
    heard: Option<Instant>,
    /// When it was last told something, and before which number all bundles were, whatever their priority. None where it has come and is to be told of all.
    told: Option<(Instant, u64)>,
    /// Whether the neighbour had the time to tell, and did not: it is waited for no more until it does.
    is_silent: bool,
}

impl Peer {
    /// A bundle has another turn from this time on.
    fn repeat(&mut self, number: u64, at: Instant, now: Option<Instant>) {
        self.finish(number);
        self.again.insert(number, at);
        if now.is_none_or(|now| at > now) {
            self.paused.insert((at, number));
        }
    }

    /// The neighbour has these bundles.
    fn learn(&mut self, known: &[u64]) {
        for &number in known {
            self.finish(number);
            self.know(number);
        }
    }

    /// The number before which all bundles of a priority have had their turn.
    fn turn(&self, priority: Priority) -> u64 {
        let first = || order(priority, 0);
        self.turns.get(&priority).copied().unwrap_or_else(first)
    }

    /// Whether a bundle has had its turn.
    fn is_behind(&self, number: u64) -> bool {
        number < self.turn(priority_of(number))
    }

    /// A bundle has its turn.
    fn pass(&mut self, number: u64) {
        self.turns.insert(priority_of(number), number + 1);
    }

    /// The neighbour has a bundle, or is about to.
    fn know(&mut self, number: u64) {
        if !self.is_behind(number) {
            self.known.insert(number);
        }
    }

    /// A bundle has no other turn.
    fn finish(&mut self, number: u64) {
        if let Some(at) = self.again.remove(&number) {
            self.paused.remove(&(at, number));
        }
    }
}

impl Flood {
    /// Bundles that are held no more have no turns.
    fn tidy(&mut self, peer: &NodeId) {
        let bundles = &self.bundles;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.again.retain(|number, _| bundles.contains_key(number));
            peer.paused
                .retain(|(_, number)| bundles.contains_key(number));
            peer.known.retain(|number| bundles.contains_key(number));
        }
    }

    /// A bundle has its number.
    fn number(&mut self, key: BundleKey, priority: Priority) -> u64 {
        let number = order(priority, self.next_number);
        self.next_number += 1;
        self.bundles.insert(number, key);
        self.numbers.insert(key, number);
        if self.newest.len() >= ADVERT_BUNDLES {
            self.newest.pop_front();
        }
        self.newest.push_back(number);
        if !self.present.is_empty() {
            self.be_due(self.now + GATHERED);
        }
        number
    }

    fn be_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The bundles from a number on that a neighbour which is there is to have a copy of, the newest first: as long as they wait for it, it may be about to give
    /// them to this node.
    fn news(&self, peer: &Peer, from: u64) -> impl Iterator<Item = BundleKey> {
        let since = self.newest.iter().rev();
        let since = since.take_while(move |number| place_of(**number) >= from);
        let waits = |number: &&u64| {
            let is_behind = peer.is_behind(**number);
            !peer.known.contains(*number) && (!is_behind || peer.again.contains_key(*number))
        };
        let waiting = since.filter(waits);
        waiting.filter_map(|number| self.bundles.get(number).copied())
    }

    /// A node was given a bundle.
    fn give(&mut self, number: u64, peer: &NodeId) {
        let mut octets = Vec::new();
        peer.endpoint().encode(&mut octets);
        let given = self.given.entry(number).or_default();
        if given.len() + octets.len() <= GIVEN_OCTETS {
            given.append(&mut octets);
        }
    }

    /// An earlier run gave a bundle to these nodes, as far as the note can be read.
    fn recall(&mut self, number: u64, note: &[u8]) {
        let mut reader = Reader::new(note);
        let Ok(mut array) = reader.array() else {
            return;
        };
        while let Ok(true) = array.next(&mut reader)
            && let Ok(endpoint) = EndpointId::decode(&mut reader, Reading::Strict)
        {
            let Ok(peer) = NodeId::new(endpoint) else {
                continue;
            };
            self.give(number, &peer);
            if !self.peers.contains_key(&peer) {
                self.peer(&peer).went = Some(Instant::START);
                self.gone.insert((Instant::START, peer.clone()));
            }
            self.peer(&peer).known.insert(number);
        }
        self.forget_peers();
    }

    /// Forgets the neighbours that went first, where there are too many.
    fn forget_peers(&mut self) {
        while self.peers.len() > PEERS_BOUND
            && let Some((_, oldest)) = self.gone.pop_first()
        {
            self.peers.remove(&oldest);
        }
    }

    /// The priorities of bundles that are held, the greatest first.
    fn priorities(&self) -> impl Iterator<Item = Priority> {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (&number, _) = self.bundles.range(from?..).next()?;
            let priority = priority_of(number);
            from = order(priority, u64::MAX).checked_add(1);
            Some(priority)
        })
    }

    /// Bundles of a priority that have not had their turn with a neighbour.
    fn fresh(&self, peer: &Peer, priority: Priority) -> btree_map::Range<'_, u64, BundleKey> {
        let end = order(priority, u64::MAX);
        self.bundles.range(peer.turn(priority).min(end)..=end)
    }

    /// Bundles of which a neighbour is to have a copy as far as is known, of each priority those that come last first.
    fn wanted(&self, peer: &Peer) -> impl Iterator<Item = (u64, BundleKey)> {
        let again = peer.again.keys().rev();
        let again = again.filter_map(|number| Some((*number, *self.bundles.get(number)?)));
        let others = self.priorities();
        let others = others.flat_map(move |priority| self.fresh(peer, priority).rev());
        let others = others.map(|(number, key)| (*number, *key));
        others
            .chain(again)
            .filter(|(number, _)| !peer.known.contains(number))
    }

    /// The first of a neighbour's bundles that have another turn now, with its number.
    fn next_again(
        &mut self,
        now: Instant,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<(u64, BundleKey)> {
        let peer = self.peers.get_mut(peer)?;
        let mut over = Vec::new();
        let due = peer.again.iter().filter(|(_, at)| **at <= now);
        let mut found = None;
        for (&number, _) in due.take(LOOK_BOUND) {
            let key = self.bundles.get(&number).copied();
            match key.map(|key| (key, passage(key))) {
                Some((key, Passage::Open)) => {
                    found = Some((number, key));
                    break;
                }
                Some((_, Passage::Later)) => {}
                Some((_, Passage::Barred)) | None => over.push(number),
            }
        }
        for number in over {
            peer.finish(number);
        }
        found
    }

    /// The first of a neighbour's bundles of a priority that have not had their turn; so many are looked at.
    fn next_fresh(
        &mut self,
        now: Instant,
        id: &NodeId,
        priority: Priority,
        (looks, passage): (&mut usize, &dyn Fn(BundleKey) -> Passage),
    ) -> Option<BundleKey> {
        while *looks > 0 {
            *looks -= 1;
            let first = self.fresh(self.peers.get(id)?, priority).next();
            let (number, key) = first.map(|(number, key)| (*number, *key))?;
            let peer = self.peers.get_mut(id)?;
            if !peer.known.remove(&number) {
                match passage(key) {
                    Passage::Open => return Some(key),
                    Passage::Later => peer.repeat(number, now, Some(now)),
                    Passage::Barred => {}
                }
            }
            peer.pass(number);
        }
        None
    }

    /// A neighbour, remembered from now on.
    fn peer(&mut self, peer: &NodeId) -> &mut Peer {
        self.peers.entry(peer.clone()).or_default()
    }
}

impl Router for Flood {
    fn handle_contacts(&mut self, _: &ContactTable) {}

    fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact) {
        self.tidy(peer);
        let went = (contact == Contact::Down).then_some(now);
        self.now = now;
        match contact {
            Contact::Up => {
                self.untold.insert(peer.clone());
                self.present.insert(peer.clone());
            }
            Contact::Down => {
                self.untold.remove(peer);
                self.present.remove(peer);
            }
        }
        let neighbour = self.peer(peer);
        neighbour.told = None;
        let is_told = neighbour.heard.is_some_and(|at| at + ADVERT_WAIT > now);
        let waits = contact == Contact::Up && !is_told && !neighbour.is_silent;
        let wait = match planted(Mutant::AdvertAwaitedForEver) {
            true => ADVERT_WAIT * 86_400,
            false => ADVERT_WAIT,
        };
        neighbour.awaited = waits.then_some(now + wait);
        let before = core::mem::replace(&mut neighbour.went, went);
        if let Some(at) = before {
            self.gone.remove(&(at, peer.clone()));
        }
        if let Some(at) = went {
            self.gone.insert((at, peer.clone()));
        }
        self.forget_peers();
    }

    fn handle_bundle(&mut self, key: BundleKey, change: BundleChange<'_>) {
        let number = self.numbers.get(&key).copied();
        match (change, number) {
            (BundleChange::Held(facts), None) => {
                let number = self.number(key, facts.priority);
                if let Some(from) = facts.from.filter(|from| self.present.contains(*from)) {
                    self.peer(from).know(number);
                }
            }
            (BundleChange::Noted(priority, note), None) => {
                let number = self.number(key, priority);
                self.recall(number, note);
            }
            (BundleChange::Removed, Some(number)) => {
                self.numbers.remove(&key);
                self.bundles.remove(&number);
                self.given.remove(&number);
            }
            (
                BundleChange::Taken(peer) | BundleChange::Given(peer) | BundleChange::Barred(peer),
                Some(number),
            ) => {
                if matches!(change, BundleChange::Given(_)) {
                    self.give(number, peer);
                }
                let peer = self.peer(peer);
                peer.finish(number);
                peer.know(number);
            }
            (BundleChange::Returned(peer, at), Some(number)) => {
                let peer = self.peer(peer);
                if peer.is_behind(number) || peer.known.contains(&number) {
                    peer.repeat(number, at, None);
                }
            }
            (BundleChange::Held(_) | BundleChange::Noted(..), Some(_)) | (_, None) => {}
        }
    }

    fn next(
        &mut self,
        now: Instant,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<BundleKey> {
        self.now = now;
        let neighbour = self.peers.get_mut(peer)?;
        if let Some(until) = neighbour.awaited {
            if now < until {
                return None;
            }
            neighbour.awaited = None;
            neighbour.is_silent = true;
        }
        let again = self.next_again(now, peer, passage);
        let more_urgent =
            |priority: &Priority| again.is_none_or(|(number, _)| *priority > priority_of(number));
        let priorities: Vec<Priority> = self.priorities().take_while(more_urgent).collect();
        let mut looks = LOOK_BOUND;
        let fresh = (priorities.into_iter())
            .find_map(|priority| self.next_fresh(now, peer, priority, (&mut looks, passage)));
        fresh.or(again.map(|(_, key)| key))
    }

    fn wakes(&mut self, now: Instant, peer: &NodeId) -> Option<Instant> {
        let peer = self.peers.get_mut(peer)?;
        while let Some(&(at, _)) = peer.paused.first()
            && at <= now
        {
            peer.paused.pop_first();
        }
        let paused = peer.paused.first().map(|&(at, _)| at);
        peer.awaited.or(paused)
    }

    fn note(&self, key: BundleKey) -> Option<Bytes> {
        let given = self.given.get(self.numbers.get(&key)?)?;
        let mut note = Vec::with_capacity(given.len() + 2);
        write_indefinite_array(&mut note);
        note.extend_from_slice(given);
        note.push(BREAK);
        Some(note.into())
    }

    fn permits(&self, _: BundleKey, _: &NodeId) -> Option<u64> {
        None
    }

    fn copies_given(&self, key: BundleKey) -> u64 {
        let given = (self.numbers.get(&key)).and_then(|number| self.given.get(number));
        given.map_or(0, |given| items(given))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for id in &self.present {
            let Some(peer) = self.peers.get(id) else {
                continue;
            };
            let Some((at, from)) = peer.told else {
                continue;
            };
            if self.news(peer, from).next().is_none() {
                continue;
            }
            let at = at + NEWS_INTERVAL;
            if at <= now {
                self.untold.insert(id.clone());
            } else {
                self.due = Some(self.due.map_or(at, |due| due.min(at)));
            }
        }
    }

    fn has_adverts(&self) -> bool {
        !self.untold.is_empty()
    }

    fn poll_advert(&mut self, key: AdvertKey, hash: IdentityHash<'_>) -> Option<(NodeId, Vec<u8>)> {
        while let Some(id) = self.untold.pop_first() {
            let Some(peer) = self.peers.get(&id) else {
                continue;
            };
            let hashes: Vec<u64> = match peer.told {
                None => {
                    let wanted = self.wanted(peer).take(ADVERT_BUNDLES);
                    wanted
                        .filter_map(|(_, bundle)| hash(&key, bundle))
                        .collect()
                }
                Some((_, from)) => {
                    let news = self.news(peer, from);
                    news.filter_map(|bundle| hash(&key, bundle)).collect()
                }
            };
            if hashes.is_empty() && peer.told.is_some() {
                continue;
            }
            let told = (self.now, self.next_number);
            self.peer(&id).told = Some(told);
            return Some((id, summary::write(&key, hashes.into_iter(), None)));
        }
        None
    }

    fn tell_anew(&mut self, peer: &NodeId) -> bool {
        if !self.present.contains(peer) {
            return false;
        }
        self.peer(peer).told = None;
        self.untold.insert(peer.clone())
    }

    fn handle_advert(
        &mut self,
        now: Instant,
        peer: &NodeId,
        advert: &[u8],
        hash: IdentityHash<'_>,
    ) -> bool {
        let Some(Summary { key, hashes, .. }) = summary::read(advert, Form::Bundles) else {
            return false;
        };
        self.now = now;
        let has = |bundle| hash(&key, bundle).is_some_and(|it| hashes.contains(&it));
        self.handle_known(now, peer, &has);
        true
    }

    fn handle_known(&mut self, now: Instant, peer: &NodeId, has: &dyn Fn(BundleKey) -> bool) {
        let Some(neighbour) = self.peers.get_mut(peer) else {
            return;
        };
        neighbour.awaited = None;
        neighbour.heard = Some(now);
        neighbour.is_silent = false;
        let Some(neighbour) = self.peers.get(peer) else {
            return;
        };
        let compared = self.wanted(neighbour).take(COMPARED_BOUND);
        let known: Vec<u64> = compared
            .filter(|(_, bundle)| has(*bundle))
            .map(|(number, _)| number)
            .collect();
        if planted(Mutant::AdvertForEverybody) {
            (self.peers.values_mut()).for_each(|it| it.learn(&known));
        }
        self.peer(peer).learn(&known);
    }

    fn memory_octets(&self) -> usize {
        let of_peer = |(id, peer): (&NodeId, &Peer)| {
            text_octets(id.endpoint())
                + tree_octets::<(u64, Instant)>(peer.again.len())
                + tree_octets::<(Instant, u64)>(peer.paused.len())
                + tree_octets::<u64>(peer.known.len())
                + tree_octets::<(Priority, u64)>(peer.turns.len())
        };
        tree_octets::<(u64, BundleKey)>(self.bundles.len())
            .saturating_add(tree_octets::<(u64, Vec<u8>)>(self.given.len()))
            .saturating_add(self.given.values().map(Vec::capacity).sum())
            .saturating_add(tree_octets::<(BundleKey, u64)>(self.numbers.len()))
            .saturating_add(tree_octets::<(NodeId, Peer)>(self.peers.len()))
            .saturating_add(tree_octets::<(Instant, NodeId)>(self.gone.len()))
            .saturating_add(tree_octets::<NodeId>(self.present.len()))
            .saturating_add(self.newest.capacity() * size_of::<u64>())
            .saturating_add(self.peers.iter().map(of_peer).sum())
    }
}

/// The number of items of CBOR that stand one behind the other.
pub(super) fn items(octets: &[u8]) -> u64 {
    let mut reader = Reader::new(octets);
    let mut items = 0;
    while reader.skip().is_ok() {
        items += 1;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::*;

    fn advert(flood: &mut Flood, hash: IdentityHash<'_>) -> Vec<u8> {
        let (_, advert) = flood.poll_advert([7; 16], hash).unwrap();
        advert
    }

    fn held(bundles: u32) -> Flood {
        let mut flood = Flood::default();
        for key in 0..bundles {
            flood.handle_bundle(BundleKey(key), BundleChange::Held(Facts::for_test()));
        }
        flood
    }

    fn is_given(flood: &mut Flood, now: Instant, peer: &NodeId) -> Vec<u32> {
        let mut given = Vec::new();
        while let Some(key) = flood.next(now, peer, &|_| Passage::Open) {
            flood.handle_bundle(key, BundleChange::Taken(peer));
            flood.handle_bundle(key, BundleChange::Given(peer));
            given.push(key.0);
        }
        given
    }

    #[test]
    fn a_neighbour_is_given_what_its_advert_does_not_tell_of() {
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
        let (mut here, mut there) = (held(6), held(4));
        here.handle_contact(Instant::START, &peer, Contact::Up);
        there.handle_contact(Instant::START, &peer, Contact::Up);
        assert_eq!(
            is_given(&mut here, Instant::START, &peer),
            [],
            "it is waited for"
        );
        assert_eq!(
            here.wakes(Instant::START, &peer),
            Some(Instant::START + ADVERT_WAIT)
        );
        let advert = advert(&mut there, hash);
        assert!(here.handle_advert(Instant::START, &peer, &advert, hash));
        assert_eq!(is_given(&mut here, Instant::START, &peer), [4, 5]);
    }

    #[test]
    fn a_neighbour_that_tells_nothing_is_waited_for_once() {
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let mut flood = held(1);
        flood.handle_contact(Instant::START, &peer, Contact::Up);
        assert_eq!(is_given(&mut flood, Instant::START, &peer), []);
        let later = Instant::START + ADVERT_WAIT;
        assert_eq!(is_given(&mut flood, later, &peer), [0]);
        flood.handle_contact(later, &peer, Contact::Down);
        flood.handle_bundle(BundleKey(1), BundleChange::Held(Facts::for_test()));
        flood.handle_contact(later, &peer, Contact::Up);
        assert_eq!(is_given(&mut flood, later, &peer), [1]);
    }

    #[test]
    fn an_advert_tells_of_the_newest_of_too_many() {
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
        let mut flood = held(5_000);
        flood.handle_contact(Instant::START, &peer, Contact::Up);
        let advert = advert(&mut flood, hash);
        let Summary { key, hashes, .. } = summary::read(&advert, Form::Bundles).unwrap();
        assert_eq!(key, [7; 16]);
        assert_eq!(hashes, (5_000 - 4_096..5_000).collect());
    }

    fn told(advert: &[u8]) -> Vec<u64> {
        let summary = summary::read(advert, Form::Bundles).unwrap();
        summary.hashes.into_iter().collect()
    }

    #[test]
    fn a_neighbour_that_stays_is_told_of_what_waits_for_it_and_no_more() {
        let peer: NodeId = "ipn:2.0".parse().unwrap();
        let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
        let mut flood = held(2);
        flood.handle_contact(Instant::START, &peer, Contact::Up);
        assert_eq!(told(&advert(&mut flood, hash)), [0, 1]);
        for (key, from) in [(2, None), (3, Some(&peer))] {
            let facts = Facts {
                from,
                ..Facts::for_test()
            };
            flood.handle_bundle(BundleKey(key), BundleChange::Held(facts));
        }
        let gathered = Instant::START + GATHERED;
        assert_eq!(flood.poll_timeout(), Some(gathered));
        flood.handle_timeout(gathered);
        assert!(!flood.has_adverts(), "it was told a second ago");
        let later = Instant::START + NEWS_INTERVAL;
        assert_eq!(flood.poll_timeout(), Some(later));
        flood.handle_timeout(later);
        assert_eq!(told(&advert(&mut flood, hash)), [2], "3 is its own");
        assert_eq!(flood.poll_timeout(), None);
        // It has come to nothing what was said: all is said again.
        assert!(flood.tell_anew(&peer));
        assert_eq!(told(&advert(&mut flood, hash)), [0, 1, 2]);
        // The neighbour has what it was given.
        flood.handle_bundle(BundleKey(4), BundleChange::Held(Facts::for_test()));
        assert_eq!(
            is_given(&mut flood, later + ADVERT_WAIT, &peer),
            [0, 1, 2, 4]
        );
        flood.handle_timeout(later + NEWS_INTERVAL * 2);
        assert!(!flood.has_adverts() && flood.poll_timeout().is_none());
    }
}
