//! The common part of routers that choose neighbour by neighbour which of them gets a copy of a bundle.
//!
//! A [`Scheme`] ranks the bundles for a neighbour that is there. Those that it ranks are given in that order, each once; the neighbour says in an
//! advert which it has, and what its own scheme goes by. Nothing is kept of a neighbour that has gone, but to which bundles it was given.

mod peer;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::cbor::{BREAK, Kind, Reader, write_indefinite_array, write_unsigned};
use dhow_bundle::header::MAX_PERMITS;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Instant, NodeId, Priority, Reading};

use self::peer::{Peer, Place, Told};
use super::arrived::Arrived;
use super::candidate::Bundle;
use super::fresh::FreshCopies;
use super::given::{Given, named};
use super::scheme::Scheme;
use super::summary::{
    self, ADVERT_BUNDLES, COMPARED_BOUND, Form, GATHERED, Look, Summary, news_interval,
};
use super::{AdvertKey, BundleChange, Contact, Facts, IdentityHash, Passage, Router};
use crate::contacts::ContactTable;
use crate::forwarding::turns::order;
use crate::memory::{text_octets, tree_octets};

/// Bundles that are looked at for one choice.
const LOOK_BOUND: usize = 256;

/// A neighbour that has come is given nothing before its advert is there, or so long.
const ADVERT_WAIT: Duration = Duration::from_secs(1);

/// Neighbours that said nothing in that time and are waited for no more, at most.
const SILENT_BOUND: usize = 4_096;

/// Neighbours that are there are told of a table that has changed after this time: other changes may follow.
const REFRESH: Duration = Duration::from_secs(10);

/// With more bundles their order is made anew once in so long, at most, and otherwise as soon as it has changed.
const REORDERED_BUNDLES: usize = 256;
const REORDERED: Duration = Duration::from_secs(1);

/// Whether a neighbour is to have no copy, whatever its rank: it has one, was given one, or has one on its way.
fn is_out(number: u64, bundle: &Bundle, (id, peer): (&NodeId, &Peer)) -> bool {
    peer.known.contains(&number)
        || bundle.taken.iter().any(|(it, _)| it == id)
        || bundle.given.names(&peer.id)
}

/// The place of a bundle among those for a neighbour; none where it gets no copy as far as is known.
fn place<S: Scheme>(scheme: &S, peer: &NodeId, bundle: &Bundle) -> Option<Place> {
    let rank = scheme.rank(peer, bundle)?;
    Some((Reverse(bundle.priority), rank))
}

/// A router.
pub(super) struct Replication<S> {
    scheme: S,
    now: Instant,
    next_number: u64,
    bundles: BTreeMap<u64, Bundle>,
    numbers: BTreeMap<BundleKey, u64>,
    peers: BTreeMap<NodeId, Peer>,
    /// Neighbours that were told nothing yet.
    untold: BTreeSet<NodeId>,
    silent: BTreeSet<NodeId>,
    /// Bundles that others may have as well, as their adverts will say.
    fresh: FreshCopies,
    arrived: Arrived,
    /// Bundles that their nodes have, as these have said.
    ended: Vec<BundleKey>,
    /// The times that the scheme's table has changed.
    changes: u64,
    /// When neighbours that are there are told again, since bundles have come or the scheme's table has changed.
    due: Look,
}

impl<S: Scheme> Replication<S> {
    pub(super) fn new(scheme: S) -> Self {
        Self {
            scheme,
            now: Instant::START,
            next_number: 0,
            bundles: BTreeMap::new(),
            numbers: BTreeMap::new(),
            peers: BTreeMap::new(),
            untold: BTreeSet::new(),
            silent: BTreeSet::new(),
            fresh: FreshCopies::default(),
            arrived: Arrived::default(),
            ended: Vec::new(),
            changes: 0,
            due: Look::default(),
        }
    }

    /// The scheme's table has changed.
    fn change(&mut self, now: Instant) {
        if self.scheme.has_table() {
            self.changes += 1;
            self.due.be_due(now + REFRESH);
        }
    }

    /// When a neighbour is to be told something again; none where there is nothing.
    fn tells_at(&self, peer: &Peer) -> Option<Instant> {
        let told = peer.told?;
        let (changes, at) = told.table;
        let table = (changes != self.changes).then_some(at + REFRESH);
        let has_news =
            told.arrived < self.arrived.count() || peer.news(&self.bundles).next().is_some();
        let interval = news_interval(self.peers.len());
        let news = has_news.then_some(told.at + interval);
        let first = table.into_iter().chain(news).min();
        first.map(|at| at.max(told.at + interval))
    }

    /// A bundle is held that was not.
    fn hold(&mut self, key: BundleKey) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let bundle = Bundle {
            key,
            destination: None,
            priority: Priority::Normal,
            permits: 0,
            hops: 0,
            octets: 0,
            given: Given::default(),
            taken: Vec::new(),
        };
        self.bundles.insert(number, bundle);
        self.numbers.insert(key, number);
        number
    }

    /// The facts about a bundle: what an earlier run knew of its copies stays.
    fn learn(&mut self, number: u64, facts: Facts<'_>) {
        let own = self.scheme.copies().unwrap_or(1);
        let Some(bundle) = self.bundles.get_mut(&number) else {
            return;
        };
        match (bundle.octets, facts.from) {
            (0, Some(from)) => self.scheme.carried(from, facts.octets),
            (0, None) => {}
            _ => self.scheme.release(bundle),
        }
        bundle.destination = facts.destination.cloned();
        bundle.priority = facts.priority;
        bundle.hops = facts.hops;
        bundle.octets = facts.octets.max(1);
        self.scheme.hold(bundle);
        if bundle.permits == 0 {
            bundle.permits = match facts.is_own || planted(Mutant::PermitsAnew) {
                true => own,
                false => facts.permits.unwrap_or(1),
            };
        }
        if let Some(peer) = facts.from.and_then(|from| self.peers.get_mut(from)) {
            peer.know(number, &self.bundles);
        }
    }

    /// The copies and the nodes that an earlier run noted, as far as the note can be read.
    fn recall(&mut self, number: u64, note: &[u8]) {
        let Some(bundle) = self.bundles.get_mut(&number) else {
            return;
        };
        let mut reader = Reader::new(note);
        let Ok(mut array) = reader.array() else {
            return;
        };
        while let Ok(true) = array.next(&mut reader) {
            if reader.kind() == Ok(Kind::Unsigned) {
                let Ok(permits) = reader.unsigned() else {
                    return;
                };
                bundle.permits = permits.clamp(1, MAX_PERMITS);
                continue;
            }
            let Ok(endpoint) = EndpointId::decode(&mut reader, Reading::Strict) else {
                return;
            };
            if let Ok(node) = NodeId::new(endpoint) {
                bundle.given.add(&named(&node));
            }
        }
    }

    /// Rank a bundle for all neighbours that are there and need not be waited for.
    fn offer(&mut self, number: u64) {
        let Some(bundle) = self.bundles.get(&number) else {
            return;
        };
        for (id, peer) in &mut self.peers {
            let is_out = peer.awaited.is_some() || is_out(number, bundle, (id, peer));
            if !is_out && let Some(rank) = place(&self.scheme, id, bundle) {
                peer.rank(number, rank);
            }
        }
    }

    /// Rank the bundles for a neighbour anew, where their order has changed since.
    fn reorder(&mut self, now: Instant, id: &NodeId) {
        let is_few = self.bundles.len() <= REORDERED_BUNDLES;
        let order = self.scheme.order();
        let is_due =
            |(known, at): (u64, Instant)| known != order && (is_few || at + REORDERED <= now);
        if self.peers.get(id).is_some_and(|peer| is_due(peer.order)) {
            self.offer_all(id);
        }
    }

    /// Rank the newest bundles for a neighbour.
    fn offer_all(&mut self, id: &NodeId) {
        let order = self.scheme.order();
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.awaited = None;
        peer.order = (order, self.now);
        peer.ranked.clear();
        peer.ranks.clear();
        for (&number, bundle) in self.bundles.iter().rev().take(COMPARED_BOUND) {
            let is_out = is_out(number, bundle, (id, peer));
            if !is_out && let Some(rank) = place(&self.scheme, id, bundle) {
                peer.rank(number, rank);
            }
        }
    }

    /// A neighbour has some of the bundles: it is given none of them.
    fn learn_known(&mut self, peer: &NodeId, has: &dyn Fn(BundleKey) -> bool) {
        let Some(peer) = self.peers.get_mut(peer) else {
            return;
        };
        let compared = self.bundles.iter().rev().take(COMPARED_BOUND);
        let known =
            compared.filter(|(number, bundle)| !peer.known.contains(number) && has(bundle.key));
        let known: Vec<u64> = known.map(|(number, _)| *number).collect();
        for number in known {
            peer.unrank(number);
            peer.know(number, &self.bundles);
        }
    }

    /// A neighbour takes a bundle, and with it half of the copies that there may be.
    fn take(&mut self, number: u64, peer: &NodeId) {
        let is_counted = self.scheme.copies().is_some();
        let Some(bundle) = self.bundles.get_mut(&number) else {
            return;
        };
        let is_for_it = bundle.destination.as_ref() == Some(peer);
        let handed = match is_counted && !is_for_it {
            true => bundle.permits / 2,
            false => 0,
        };
        if !planted(Mutant::PermitsNotHalved) {
            bundle.permits -= handed;
        }
        bundle.taken.push((peer.clone(), handed));
        self.finish(number, peer);
        if handed > 0 {
            self.offer(number);
        }
    }

    /// Whether a neighbour that brings a bundle may have brought it to another one too.
    fn is_shared(&self) -> bool {
        self.peers.len() > 2
    }

    /// A neighbour is not to be given a bundle now.
    fn finish(&mut self, number: u64, peer: &NodeId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.unrank(number);
        }
    }
}

impl<S: Scheme> Router for Replication<S> {
    fn handle_contacts(&mut self, _: &ContactTable) {}

    fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact) {
        self.now = now;
        self.scheme.handle_contact(now, peer, contact);
        if contact == Contact::Down {
            self.untold.remove(peer);
            self.peers.remove(peer);
            return;
        }
        self.change(now);
        self.untold.insert(peer.clone());
        let is_silent = self.silent.contains(peer);
        let state = Peer {
            id: named(peer),
            awaited: (!is_silent).then_some(now + ADVERT_WAIT),
            ..Peer::default()
        };
        self.peers.insert(peer.clone(), state);
        if is_silent {
            self.offer_all(peer);
        }
    }

    fn handle_bundle(&mut self, key: BundleKey, change: BundleChange<'_>) {
        let number = self.numbers.get(&key).copied();
        match (change, number) {
            (BundleChange::Held(facts), known) => {
                let number = known.unwrap_or_else(|| self.hold(key));
                self.learn(number, facts);
                let is_met = |from| self.peers.contains_key(from);
                if known.is_none() && self.is_shared() && facts.from.is_some_and(is_met) {
                    self.fresh.add(number, facts.destination);
                }
                self.offer(number);
                if !self.peers.is_empty() {
                    self.due.be_due(self.now + GATHERED);
                }
            }
            (BundleChange::Noted(_, note), None) => {
                let number = self.hold(key);
                self.recall(number, note);
            }
            (BundleChange::Removed, Some(number)) => {
                self.numbers.remove(&key);
                if let Some(bundle) = self.bundles.remove(&number)
                    && bundle.octets > 0
                {
                    self.scheme.release(&bundle);
                }
            }
            (BundleChange::Taken(peer), Some(number)) => self.take(number, peer),
            (BundleChange::Given(peer), Some(number)) => {
                if let Some(bundle) = self.bundles.get_mut(&number) {
                    self.scheme.carried(peer, bundle.octets);
                    bundle.end(peer);
                    if !planted(Mutant::GivenForgotten) {
                        bundle.given.add(&named(peer));
                    }
                }
                // The note may have no room, or forget it before it goes.
                if let Some(state) = self.peers.get_mut(peer)
                    && !planted(Mutant::GivenForgotten)
                {
                    state.know(number, &self.bundles);
                }
            }
            (BundleChange::Barred(peer), Some(number)) => {
                if let Some(bundle) = self.bundles.get_mut(&number) {
                    bundle.permits += bundle.end(peer);
                }
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.know(number, &self.bundles);
                }
                self.offer(number);
            }
            (BundleChange::Returned(peer, at), Some(number)) => {
                if let Some(bundle) = self.bundles.get_mut(&number) {
                    bundle.permits += bundle.end(peer);
                }
                self.offer(number);
                self.finish(number, peer);
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.resting.insert((at, number));
                }
            }
            (BundleChange::Noted(..), Some(_)) | (_, None) => {}
        }
    }

    fn handle_arrived(&mut self, identity: Vec<u8>, until: Instant) {
        self.arrived.add(identity, until);
        if !self.peers.is_empty() {
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
        let awaited = self.peers.get(peer)?.awaited;
        if awaited.is_some_and(|until| now < until) {
            return None;
        }
        if awaited.is_some() {
            if self.silent.len() >= SILENT_BOUND {
                self.silent.clear();
            }
            self.silent.insert(peer.clone());
            self.offer_all(peer);
        }
        self.reorder(now, peer);
        self.fresh.look(now);
        let state = self.peers.get_mut(peer)?;
        while let Some(&(at, number)) = state.resting.first()
            && at <= now
        {
            state.resting.pop_first();
            let bundle = self.bundles.get(&number);
            let rank = bundle.and_then(|bundle| place(&self.scheme, peer, bundle));
            if let Some(rank) = rank {
                state.rank(number, rank);
            }
        }
        let mut over = Vec::new();
        let mut found = None;
        for &(_, number) in state.ranked.iter().take(LOOK_BOUND) {
            let bundle = self.bundles.get(&number);
            let is_ranked = bundle.is_some_and(|bundle| {
                !is_out(number, bundle, (peer, state)) && self.scheme.rank(peer, bundle).is_some()
            });
            let Some(bundle) = bundle.filter(|_| is_ranked) else {
                over.push(number);
                continue;
            };
            match passage(bundle.key) {
                Passage::Open if self.fresh.keeps(number, peer) => {}
                Passage::Open => {
                    found = Some(bundle.key);
                    break;
                }
                Passage::Later => {}
                Passage::Barred => over.push(number),
            }
        }
        for number in over {
            state.unrank(number);
        }
        found
    }

    fn wakes(&mut self, now: Instant, peer: &NodeId) -> Option<Instant> {
        let peer = self.peers.get(peer)?;
        let resting = peer.resting.first().map(|(at, _)| (*at).max(now));
        let fresh = self.fresh.wakes().filter(|at| *at > now);
        peer.awaited.or(resting.into_iter().chain(fresh).min())
    }

    fn note(&self, key: BundleKey) -> Option<Bytes> {
        let bundle = self.bundles.get(self.numbers.get(&key)?)?;
        let mut note = Vec::with_capacity(bundle.given.octets().len() + 12);
        write_indefinite_array(&mut note);
        if self.scheme.copies().is_some() {
            write_unsigned(&mut note, bundle.permits);
        }
        note.extend_from_slice(bundle.given.octets());
        note.push(BREAK);
        Some(note.into())
    }

    fn permits(&self, key: BundleKey, peer: &NodeId) -> Option<u64> {
        self.scheme.copies()?;
        let bundle = self.bundles.get(self.numbers.get(&key)?)?;
        let taken = bundle.taken.iter().find(|(it, _)| it == peer);
        Some(taken.map_or(1, |(_, handed)| (*handed).max(1)))
    }

    fn copies_given(&self, key: BundleKey) -> u64 {
        let number = self.numbers.get(&key);
        let bundle = number.and_then(|number| self.bundles.get(number));
        bundle.map_or(0, |bundle| bundle.given.count())
    }

    fn place(&self, key: BundleKey) -> Option<u64> {
        let bundle = self.bundles.get(self.numbers.get(&key)?)?;
        let place = self.scheme.place(bundle)?;
        Some(order(bundle.priority, place))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.at()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if !self.due.is_over(now) {
            return;
        }
        let peers = self.peers.iter();
        let times = peers.filter_map(|(id, peer)| Some((id, self.tells_at(peer)?)));
        let (now_due, later): (Vec<_>, Vec<_>) = times.partition(|(_, at)| *at <= now);
        let next = later.into_iter().map(|(_, at)| at).min();
        let now_due: Vec<NodeId> = now_due.into_iter().map(|(id, _)| id.clone()).collect();
        self.untold.extend(now_due);
        next.into_iter().for_each(|at| self.due.be_due(at));
    }

    fn has_adverts(&self) -> bool {
        !self.untold.is_empty()
    }

    fn poll_advert(&mut self, key: AdvertKey, hash: IdentityHash<'_>) -> Option<(NodeId, Vec<u8>)> {
        while let Some(id) = self.untold.pop_first() {
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            let newest = peer.news(&self.bundles).rev().take(ADVERT_BUNDLES);
            let hashes = newest.filter_map(|bundle| hash(&key, bundle.key));
            let mut hashes: Vec<u64> = hashes.collect();
            let arrived = peer.told.map_or(0, |told| told.arrived);
            let room = ADVERT_BUNDLES.saturating_sub(hashes.len());
            hashes.extend(self.arrived.hashes(&key, arrived, self.now).take(room));
            let keeps_table = |told: &Told| {
                let (changes, at) = told.table;
                changes == self.changes || self.now < at + REFRESH
            };
            let known = peer.told.filter(keeps_table);
            if let Some((changes, at)) = known.map(|known| known.table)
                && changes != self.changes
            {
                self.due.be_due(at + REFRESH);
            }
            if hashes.is_empty() && known.is_some() {
                continue;
            }
            let table = known.is_none().then(|| self.scheme.table(self.now));
            peer.told = Some(Told {
                at: self.now,
                bundles: self.next_number,
                arrived: self.arrived.count(),
                table: known.map_or((self.changes, self.now), |known| known.table),
            });
            let advert = summary::write(&key, hashes.into_iter(), table.as_deref());
            return Some((id, advert));
        }
        None
    }

    fn tell_anew(&mut self, peer: &NodeId) -> bool {
        let Some(state) = self.peers.get_mut(peer) else {
            return false;
        };
        state.told = None;
        self.untold.insert(peer.clone())
    }

    fn handle_advert(
        &mut self,
        now: Instant,
        peer: &NodeId,
        advert: &[u8],
        hash: IdentityHash<'_>,
    ) -> bool {
        self.now = now;
        let Some(Summary { key, hashes, table }) = summary::read(advert, Form::WithTable) else {
            return false;
        };
        if !self.peers.contains_key(peer) {
            return true;
        }
        let before = self.scheme.version();
        if table.is_some_and(|table| !self.scheme.handle_table(now, peer, table)) {
            return false;
        }
        if self.scheme.version() != before {
            self.change(now);
        }
        let has = |bundle| hash(&key, bundle).is_some_and(|it| hashes.contains(&it));
        let is_its_own = |it: &&Bundle| it.destination.as_ref() == Some(peer) && has(it.key);
        let newest = self.bundles.values().rev().take(COMPARED_BOUND);
        let ended = newest.filter(is_its_own);
        self.ended.extend(ended.map(|it| it.key));
        let is_waited_for = (self.peers.get(peer)).is_some_and(|peer| peer.awaited.is_some());
        match table.is_some() || is_waited_for {
            true => self.handle_known(now, peer, &has),
            false => self.learn_known(peer, &has),
        }
        true
    }

    fn take_ended(&mut self) -> Vec<BundleKey> {
        core::mem::take(&mut self.ended)
    }

    fn handle_known(&mut self, now: Instant, peer: &NodeId, has: &dyn Fn(BundleKey) -> bool) {
        self.now = now;
        if self.peers.contains_key(peer) {
            self.silent.remove(peer);
            self.learn_known(peer, has);
            self.offer_all(peer);
        }
    }

    fn predictabilities(&mut self, now: Instant) -> Option<BTreeMap<NodeId, u64>> {
        self.scheme.predictabilities(now)
    }

    fn handle_predictabilities(
        &mut self,
        now: Instant,
        peer: &NodeId,
        table: &BTreeMap<NodeId, u64>,
    ) {
        self.now = now;
        let before = self.scheme.version();
        if self.peers.contains_key(peer) {
            self.scheme.handle_predictabilities(now, peer, table);
        }
        if self.scheme.version() != before {
            self.change(now);
        }
    }

    fn memory_octets(&self) -> usize {
        let bundles = self.bundles.values();
        let bundles = bundles.map(|bundle| {
            let destination = bundle.destination.as_ref();
            destination.map_or(0, |it| text_octets(it.endpoint()))
                + bundle.given.memory_octets()
                + bundle.taken.capacity() * size_of::<(NodeId, u64)>()
        });
        let of_peer = |(id, peer): (&NodeId, &Peer)| {
            text_octets(id.endpoint())
                + 2 * tree_octets::<(Place, u64)>(peer.ranked.len())
                + tree_octets::<(Instant, u64)>(peer.resting.len())
                + tree_octets::<u64>(peer.known.len())
        };
        tree_octets::<(u64, Bundle)>(self.bundles.len())
            .saturating_add(tree_octets::<(BundleKey, u64)>(self.numbers.len()))
            .saturating_add(tree_octets::<(NodeId, Peer)>(self.peers.len()))
            .saturating_add(tree_octets::<NodeId>(self.silent.len()))
            .saturating_add(self.fresh.memory_octets())
            .saturating_add(self.arrived.memory_octets())
            .saturating_add(bundles.sum())
            .saturating_add(self.peers.iter().map(of_peer).sum())
            .saturating_add(self.scheme.memory_octets())
    }
}

#[cfg(test)]
mod tests;
