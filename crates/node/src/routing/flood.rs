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
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Instant, NodeId, Priority, Reading};

use super::arrived::Arrived;
use super::direct::DirectBundles;
use super::fresh::FreshCopies;
use super::given::{Given, named};
use super::lot::Lot;
use super::neighbour::{Peer, Told};
use super::summary::{
    self, ADVERT_BUNDLES, COMPARED_BOUND, Form, GATHERED, Look, Summary, news_interval,
};
use super::{AdvertKey, BundleChange, Contact, IdentityHash, Passage, Router};
use crate::contacts::ContactTable;
use crate::forwarding::turns::{order, place_of, priority_of};
use crate::memory::{text_octets, tree_octets};

/// Neighbours that are remembered, at most. Of more, the one that went first is forgotten, and is given copies again should it come back, which
/// it then says that it has.
const PEERS_BOUND: usize = 4_096;

/// Bundles that may go as far as the neighbour is known which are looked at for one choice, of those that were passed by and of others.
const LOOK_BOUND: usize = 64;

/// Bundles that a neighbour is known to have which are passed by for one choice.
const PASSED_BOUND: usize = 1_024;

/// Bundles among which the lot is drawn where others may be giving a neighbour the same, and bundles that are looked at for them.
const DRAWN: usize = 64;
const DRAWN_LOOKS: usize = 256;

/// A neighbour that has come is given nothing before it has told its bundles, or so long.
const ADVERT_WAIT: Duration = Duration::from_secs(1);

/// The work that is left for one choice.
struct Work {
    looks: usize,
    passes: usize,
}

/// The router. The number of a bundle begins with the rank of its priority ([`order`]).
#[derive(Default)]
pub(crate) struct Flood {
    lot: Lot,
    next_number: u64,
    bundles: BTreeMap<u64, BundleKey>,
    numbers: BTreeMap<BundleKey, u64>,
    direct: DirectBundles,
    /// The nodes that were given a bundle.
    given: BTreeMap<u64, Given>,
    peers: BTreeMap<NodeId, Peer>,
    /// Neighbours without a session, by when they went.
    gone: BTreeSet<(Instant, NodeId)>,
    /// Neighbours that are to be told something.
    untold: BTreeSet<NodeId>,
    /// Neighbours that are there.
    present: BTreeSet<NodeId>,
    /// Bundles that others may have as well, as their adverts will say.
    fresh: FreshCopies,
    arrived: Arrived,
    /// Bundles that their nodes have, as these have said.
    ended: Vec<BundleKey>,
    /// The bundles that came last, in that order: as many as one advert tells of.
    newest: VecDeque<u64>,
    now: Instant,
    /// When neighbours that are there are told again.
    due: Look,
}

impl Flood {
    /// The router of a node.
    pub(super) fn new(node: Option<&NodeId>) -> Self {
        Self {
            lot: node
                .map(|node| Lot::default().with(node))
                .unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Bundles that are held no more have no turns.
    fn tidy(&mut self, peer: &NodeId) {
        let bundles = &self.bundles;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.ready.retain(|number| bundles.contains_key(number));
            peer.resting
                .retain(|number, _| bundles.contains_key(number));
            peer.wakes
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
            self.due.be_due(self.now + GATHERED);
        }
        number
    }

    /// The bundles from a number on that a neighbour which is there is to have a copy of, the newest first: as long as they wait for it, it may be about to give
    /// them to this node.
    fn news(&self, peer: &Peer, from: u64) -> impl Iterator<Item = BundleKey> {
        let since = self.newest.iter().rev();
        let since = since.take_while(move |number| place_of(**number) >= from);
        let waits = |number: &&u64| {
            let is_behind = peer.is_behind(**number);
            let is_fresh = !is_behind && !peer.known.contains(*number);
            is_fresh || peer.is_repeated(**number)
        };
        let waiting = since.filter(waits);
        waiting.filter_map(|number| self.bundles.get(number).copied())
    }

    /// A node was given a bundle.
    fn give(&mut self, number: u64, peer: &NodeId) {
        self.given.entry(number).or_default().add(&named(peer));
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
        let again = peer.ready.iter().rev().chain(peer.resting.keys().rev());
        let again = again.filter_map(|number| Some((*number, *self.bundles.get(number)?)));
        let others = self.priorities();
        let others = others.flat_map(move |priority| self.fresh(peer, priority).rev());
        let others = others.map(|(number, key)| (*number, *key));
        others
            .filter(|(number, _)| !peer.known.contains(number))
            .chain(again)
    }

    /// Whether a neighbour that brings a bundle may have brought it to another one too.
    fn is_shared(&self) -> bool {
        self.present.len() > 2
    }

    /// The first of the bundles for a neighbour itself that may leave, with its number.
    fn next_direct(
        &mut self,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<(u64, BundleKey)> {
        let (found, over) = first_open(&self.bundles, self.direct.of(peer), passage);
        for number in over {
            self.direct.finish(number, peer);
        }
        found
    }

    /// The first of a neighbour's bundles that have another turn now, with its number.
    fn next_again(
        &mut self,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<(u64, BundleKey)> {
        let peer = self.peers.get_mut(peer)?;
        let ready = peer.ready.iter().copied();
        let (found, over) = first_open(&self.bundles, ready, passage);
        for number in over {
            peer.finish(number);
        }
        found
    }

    /// One by lot of the first of a neighbour's bundles of a priority that have not had their turn.
    fn next_drawn(
        &mut self,
        id: &NodeId,
        priority: Priority,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<BundleKey> {
        let peer = self.peers.get(id)?;
        let lot = peer.lot;
        let first = self.fresh(peer, priority).take(DRAWN_LOOKS);
        let open = first
            .filter(|(number, _)| !peer.known.contains(*number) && !self.fresh.keeps(**number, id));
        let mut drawn: Vec<(u64, u64, BundleKey)> = open
            .take(DRAWN)
            .map(|(&number, &key)| (lot.place(number), number, key))
            .collect();
        drawn.sort_unstable();
        let peer = self.peers.get_mut(id)?;
        for (_, number, key) in drawn {
            match passage(key) {
                Passage::Open => return Some(key),
                Passage::Later => {
                    peer.repeat(number);
                    peer.know(number);
                }
                Passage::Barred => peer.know(number),
            }
        }
        None
    }

    /// The first of a neighbour's bundles of a priority that have not had their turn, as far as the work goes that is left.
    fn next_fresh(
        &mut self,
        id: &NodeId,
        priority: Priority,
        (work, passage): (&mut Work, &dyn Fn(BundleKey) -> Passage),
    ) -> Option<BundleKey> {
        let is_shared = self.present.len() > 1;
        while work.looks > 0 && work.passes > 0 {
            let first = self.fresh(self.peers.get(id)?, priority).next();
            let (number, key) = first.map(|(number, key)| (*number, *key))?;
            let peer = self.peers.get_mut(id)?;
            peer.skip_to(number);
            // It had its turn before those ahead of it: once, as the advert or the lot that said so did.
            if peer.known.remove(&number) {
                work.passes -= 1;
            } else {
                work.looks -= 1;
                match passage(key) {
                    Passage::Open if !is_shared => return Some(key),
                    Passage::Open => return self.next_drawn(id, priority, passage),
                    Passage::Later => peer.repeat(number),
                    Passage::Barred => {}
                }
            }
            peer.pass(number);
        }
        self.peers.get_mut(id)?.has_more = true;
        None
    }

    /// A neighbour has some of the bundles that it was to have, these: it is given none of them.
    fn learn_known(
        &mut self,
        now: Instant,
        peer: &NodeId,
        has: &dyn Fn(BundleKey) -> bool,
    ) -> Vec<u64> {
        let Some(neighbour) = self.peers.get_mut(peer) else {
            return Vec::new();
        };
        neighbour.awaited = None;
        neighbour.heard = Some(now);
        neighbour.is_silent = false;
        let Some(neighbour) = self.peers.get(peer) else {
            return Vec::new();
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
        for number in &known {
            self.direct.finish(*number, peer);
        }
        known
    }

    /// The node that a bundle is for is known, where it is a single one: it is to have it, but if an earlier run has given it.
    fn learn_destination(&mut self, number: u64, destination: Option<&NodeId>) {
        let Some(destination) = destination.filter(|_| !self.direct.has(number)) else {
            return;
        };
        self.direct.add(number, destination);
        let peer = self.peers.get(destination);
        if peer.is_some_and(|it| it.known.contains(&number)) {
            self.direct.finish(number, destination);
        }
    }

    /// A neighbour, remembered from now on.
    fn peer(&mut self, peer: &NodeId) -> &mut Peer {
        let lot = self.lot;
        self.peers.entry(peer.clone()).or_insert_with(|| Peer {
            lot: lot.with(peer),
            ..Peer::default()
        })
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
            (BundleChange::Held(facts), known) => {
                let number = known.unwrap_or_else(|| self.number(key, facts.priority));
                self.learn_destination(number, facts.destination);
                if known.is_some() {
                    return;
                }
                if let Some(from) = facts.from.filter(|from| self.present.contains(*from)) {
                    self.peer(from).know(number);
                    if self.is_shared() {
                        self.fresh.add(number, facts.destination);
                    }
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
                self.direct.remove(number);
            }
            (
                BundleChange::Taken(peer) | BundleChange::Given(peer) | BundleChange::Barred(peer),
                Some(number),
            ) => {
                if matches!(change, BundleChange::Given(_)) {
                    self.give(number, peer);
                }
                self.direct.finish(number, peer);
                let peer = self.peer(peer);
                peer.finish(number);
                peer.know(number);
            }
            (BundleChange::Returned(peer, at), Some(number)) => {
                let neighbour = self.peer(peer);
                if neighbour.is_behind(number) || neighbour.known.contains(&number) {
                    neighbour.rest(number, at);
                    self.direct.finish(number, peer);
                }
            }
            (BundleChange::Noted(..), Some(_)) | (_, None) => {}
        }
    }

    fn handle_arrived(&mut self, identity: Vec<u8>, until: Instant) {
        self.arrived.add(identity, until);
        if !self.present.is_empty() {
            self.due.be_due(self.now + GATHERED);
        }
    }

    fn next(
        &mut self,
        now: Instant,
        peer: &NodeId,
        passage: &dyn Fn(BundleKey) -> Passage,
    ) -> Option<BundleKey> {
        self.now = now;
        self.fresh.look(now);
        let neighbour = self.peers.get_mut(peer)?;
        if let Some(until) = neighbour.awaited {
            if now < until {
                return None;
            }
            neighbour.awaited = None;
            neighbour.is_silent = true;
        }
        neighbour.has_more = false;
        for number in neighbour.wake(now) {
            self.direct.wait(number, peer);
        }
        let direct = match planted(Mutant::DestinationNotFirst) {
            true => None,
            false => self.next_direct(peer, passage),
        };
        let again = self.next_again(peer, passage);
        let is_before = |(number, _): &(u64, BundleKey)| {
            direct.is_none_or(|(direct, _)| priority_of(*number) > priority_of(direct))
        };
        let known = again.filter(is_before).or(direct);
        let more_urgent =
            |priority: &Priority| known.is_none_or(|(number, _)| *priority > priority_of(number));
        let priorities: Vec<Priority> = self.priorities().take_while(more_urgent).collect();
        let mut work = Work {
            looks: LOOK_BOUND,
            passes: PASSED_BOUND,
        };
        let fresh = (priorities.into_iter())
            .find_map(|priority| self.next_fresh(peer, priority, (&mut work, passage)));
        fresh.or(known.map(|(_, key)| key))
    }

    fn wakes(&mut self, now: Instant, peer: &NodeId) -> Option<Instant> {
        let peer = self.peers.get(peer)?;
        let more = peer.has_more.then_some(now);
        let resting = peer.wakes.first().map(|&(at, _)| at.max(now));
        let fresh = self.fresh.wakes().filter(|at| *at > now);
        let first = more.into_iter().chain(resting).chain(fresh).min();
        peer.awaited.or(first)
    }

    fn note(&self, key: BundleKey) -> Option<Bytes> {
        let given = self.given.get(self.numbers.get(&key)?)?;
        let mut note = Vec::with_capacity(given.octets().len() + 2);
        write_indefinite_array(&mut note);
        note.extend_from_slice(given.octets());
        note.push(BREAK);
        Some(note.into())
    }

    fn permits(&self, _: BundleKey, _: &NodeId) -> Option<u64> {
        None
    }

    fn copies_given(&self, key: BundleKey) -> u64 {
        let given = (self.numbers.get(&key)).and_then(|number| self.given.get(number));
        given.map_or(0, Given::count)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.at()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if !self.due.is_over(now) {
            return;
        }
        for id in &self.present {
            let Some(peer) = self.peers.get(id) else {
                continue;
            };
            let Some(told) = peer.told else {
                continue;
            };
            let has_arrived = told.arrived < self.arrived.count();
            if !has_arrived && self.news(peer, told.bundles).next().is_none() {
                continue;
            }
            let at = told.at + news_interval(self.present.len());
            if at <= now {
                self.untold.insert(id.clone());
            } else {
                self.due.be_due(at);
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
            let mut hashes: Vec<u64> = match peer.told {
                None => {
                    let wanted = self.wanted(peer).take(ADVERT_BUNDLES);
                    wanted
                        .filter_map(|(_, bundle)| hash(&key, bundle))
                        .collect()
                }
                Some(told) => {
                    let news = self.news(peer, told.bundles);
                    news.filter_map(|bundle| hash(&key, bundle)).collect()
                }
            };
            let arrived = peer.told.map_or(0, |told| told.arrived);
            let room = ADVERT_BUNDLES.saturating_sub(hashes.len());
            hashes.extend(self.arrived.hashes(&key, arrived, self.now).take(room));
            if hashes.is_empty() && peer.told.is_some() {
                continue;
            }
            let told = Told {
                at: self.now,
                bundles: self.next_number,
                arrived: self.arrived.count(),
            };
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
        let known = self.learn_known(now, peer, &has);
        let its_own = known
            .iter()
            .filter(|number| self.direct.is_for(**number, peer));
        let ended = its_own.filter_map(|number| self.bundles.get(number).copied());
        self.ended.extend(ended);
        true
    }

    fn take_ended(&mut self) -> Vec<BundleKey> {
        core::mem::take(&mut self.ended)
    }

    fn handle_known(&mut self, now: Instant, peer: &NodeId, has: &dyn Fn(BundleKey) -> bool) {
        self.learn_known(now, peer, has);
    }

    fn memory_octets(&self) -> usize {
        let of_peer = |(id, peer): (&NodeId, &Peer)| {
            text_octets(id.endpoint())
                + tree_octets::<u64>(peer.ready.len())
                + tree_octets::<(u64, Instant)>(peer.resting.len())
                + tree_octets::<(Instant, u64)>(peer.wakes.len())
                + tree_octets::<u64>(peer.known.len())
                + tree_octets::<(Priority, u64)>(peer.turns.len())
        };
        tree_octets::<(u64, BundleKey)>(self.bundles.len())
            .saturating_add(tree_octets::<(u64, Given)>(self.given.len()))
            .saturating_add(self.given.values().map(Given::memory_octets).sum())
            .saturating_add(tree_octets::<(BundleKey, u64)>(self.numbers.len()))
            .saturating_add(tree_octets::<(NodeId, Peer)>(self.peers.len()))
            .saturating_add(tree_octets::<(Instant, NodeId)>(self.gone.len()))
            .saturating_add(tree_octets::<NodeId>(self.present.len()))
            .saturating_add(self.fresh.memory_octets())
            .saturating_add(self.arrived.memory_octets())
            .saturating_add(self.direct.memory_octets())
            .saturating_add(self.newest.capacity() * size_of::<u64>())
            .saturating_add(self.peers.iter().map(of_peer).sum())
    }
}

/// The first of some bundles that may leave now, with its number, and the numbers before it of those that may not leave at all.
fn first_open(
    bundles: &BTreeMap<u64, BundleKey>,
    numbers: impl Iterator<Item = u64>,
    passage: &dyn Fn(BundleKey) -> Passage,
) -> (Option<(u64, BundleKey)>, Vec<u64>) {
    let mut over = Vec::new();
    for number in numbers.take(LOOK_BOUND) {
        let key = bundles.get(&number).copied();
        match key.map(|key| (key, passage(key))) {
            Some((key, Passage::Open)) => return (Some((number, key)), over),
            Some((_, Passage::Later)) => {}
            Some((_, Passage::Barred)) | None => over.push(number),
        }
    }
    (None, over)
}

#[cfg(test)]
mod tests;
