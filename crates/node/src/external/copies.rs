//! The copies of bundles that a program decides about: sessions ask for them, and tell their fate.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::cbor::{BREAK, Reader, write_indefinite_array};
use dhow_bundle::storage::{BundleKey, NOTE_OCTETS};
use dhow_bundle::{EndpointId, Instant, NodeId, Reading};

use super::router::{External, Routed, add};
use super::wire::{Outcome, Told};
use crate::contacts::ContactTable;
use crate::memory::{text_octets, tree_octets};
use crate::routing::{AdvertKey, BundleChange, Contact, IdentityHash, Passage, Router};

/// Bundles that are looked at for one choice.
const LOOK_BOUND: usize = 64;

/// Octets of the IDs of nodes that were given a bundle, at most: a note's, but for its array.
const GIVEN_OCTETS: usize = NOTE_OCTETS - 2;

impl External {
    /// The outcome of a copy, which the program is told where it knows the bundle.
    fn settle(&mut self, number: u64, peer: &NodeId, outcome: Outcome) {
        let Some(routed) = self.bundles.get_mut(&number) else {
            return;
        };
        routed.taken.retain(|other| other != peer);
        match outcome {
            Outcome::Given => {
                add(&mut routed.done, peer);
                if octets(&routed.given) + octets(core::slice::from_ref(peer)) <= GIVEN_OCTETS {
                    add(&mut routed.given, peer);
                }
            }
            Outcome::Barred => add(&mut routed.barred, peer),
            Outcome::Returned => {}
        }
        if routed.is_told {
            self.tell(&Told::Copy {
                number,
                peer,
                outcome,
            });
        }
        if outcome != Outcome::Returned {
            self.unwant(peer, number);
        }
        self.offer(number);
    }

    /// A neighbour is given none of a bundle before this time.
    fn rest(&mut self, peer: &NodeId, number: u64, at: Instant) {
        self.unwant(peer, number);
        let paused = self.paused.entry(peer.clone()).or_default();
        paused.insert((at, number));
    }

    /// Bundles that have rested are a neighbour's again.
    fn end_rests(&mut self, now: Instant, peer: &NodeId) {
        let Some(paused) = self.paused.get_mut(peer) else {
            return;
        };
        while let Some(&(at, number)) = paused.first()
            && at <= now
        {
            paused.pop_first();
            let is_for = self.bundles.get(&number).is_some_and(|it| it.is_for(peer));
            if is_for {
                self.wanted.entry(peer.clone()).or_default().insert(number);
            }
        }
        if paused.is_empty() {
            self.paused.remove(peer);
        }
    }

    fn take(&mut self, number: u64, peer: &NodeId) {
        let Some(routed) = self.bundles.get_mut(&number) else {
            return;
        };
        add(&mut routed.taken, peer);
        self.unwant(peer, number);
    }

    fn remove(&mut self, key: BundleKey) {
        let Some(number) = self.numbers.remove(&key) else {
            return;
        };
        self.answered(number);
        self.set_timer(number, None);
        let Some(routed) = self.bundles.remove(&number) else {
            return;
        };
        for peer in routed.hops() {
            self.unwant(peer, number);
        }
        if routed.is_told {
            self.tell(&Told::Gone { number });
        }
    }

    /// An earlier run gave a bundle to these nodes, as far as the note can be read.
    fn recall(&mut self, number: u64, note: &[u8]) {
        let mut reader = Reader::new(note);
        let (Ok(mut array), Some(routed)) = (reader.array(), self.bundles.get_mut(&number)) else {
            return;
        };
        while let Ok(true) = array.next(&mut reader)
            && let Ok(endpoint) = EndpointId::decode(&mut reader, Reading::Strict)
        {
            if let Ok(peer) = NodeId::new(endpoint)
                && note.len() <= NOTE_OCTETS
            {
                add(&mut routed.given, &peer);
            }
        }
    }
}

/// Octets of nodes in a note.
fn octets(nodes: &[NodeId]) -> usize {
    let mut out = Vec::new();
    for node in nodes {
        node.endpoint().encode(&mut out);
    }
    out.len()
}

impl Router for External {
    fn handle_contacts(&mut self, _: &ContactTable) {}

    fn handle_contact(&mut self, _: Instant, peer: &NodeId, contact: Contact) {
        match contact {
            Contact::Up => drop(self.up.insert(peer.clone())),
            Contact::Down => drop(self.up.remove(peer)),
        }
        if self.session.is_some() {
            self.changed.insert(peer.clone());
        }
    }

    fn handle_bundle(&mut self, key: BundleKey, change: BundleChange<'_>) {
        let number = self.numbers.get(&key).copied();
        match (change, number) {
            (BundleChange::Held(_), None) => drop(self.number(key)),
            (BundleChange::Noted(_, note), None) => {
                let number = self.number(key);
                self.recall(number, note);
            }
            (BundleChange::Removed, Some(_)) => self.remove(key),
            (BundleChange::Taken(peer), Some(number)) => self.take(number, peer),
            (BundleChange::Given(peer), Some(number)) => {
                self.settle(number, peer, Outcome::Given);
            }
            (BundleChange::Returned(peer, at), Some(number)) => {
                self.settle(number, peer, Outcome::Returned);
                self.rest(peer, number, at);
            }
            (BundleChange::Barred(peer), Some(number)) => {
                self.settle(number, peer, Outcome::Barred);
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
        self.end_rests(now, peer);
        let mut over = Vec::new();
        let mut found = None;
        for &number in self.wanted.get(peer)?.iter().take(LOOK_BOUND) {
            let Some(routed) = self.bundles.get(&number) else {
                over.push((number, None));
                continue;
            };
            if !routed.is_for(peer) {
                over.push((number, None));
                continue;
            }
            match passage(routed.key) {
                Passage::Open => {
                    found = Some(routed.key);
                    break;
                }
                Passage::Later => {}
                Passage::Barred => over.push((number, Some(Outcome::Barred))),
            }
        }
        for (number, outcome) in over {
            self.unwant(peer, number);
            if let Some(outcome) = outcome {
                self.settle(number, peer, outcome);
            }
        }
        found
    }

    fn wakes(&mut self, _: Instant, peer: &NodeId) -> Option<Instant> {
        let paused = self.paused.get(peer)?;
        paused.first().map(|&(at, _)| at)
    }

    fn note(&self, key: BundleKey) -> Option<Bytes> {
        let routed = self.bundles.get(self.numbers.get(&key)?)?;
        if routed.given.is_empty() || routed.is_spent() {
            return None;
        }
        let mut note = Vec::new();
        write_indefinite_array(&mut note);
        for node in &routed.given {
            node.endpoint().encode(&mut note);
        }
        note.push(BREAK);
        Some(note.into())
    }

    fn permits(&self, _: BundleKey, _: &NodeId) -> Option<u64> {
        None
    }

    fn copies_given(&self, _: BundleKey) -> u64 {
        0
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn has_adverts(&self) -> bool {
        !self.adverts.is_empty()
    }

    fn poll_advert(&mut self, _: AdvertKey, _: IdentityHash<'_>) -> Option<(NodeId, Vec<u8>)> {
        self.adverts.pop_first()
    }

    fn handle_advert(
        &mut self,
        _: Instant,
        peer: &NodeId,
        advert: &[u8],
        _: IdentityHash<'_>,
    ) -> bool {
        self.tell(&Told::Advert {
            peer,
            octets: advert,
        });
        self.session.is_some()
    }

    fn memory_octets(&self) -> usize {
        let of_bundle = |routed: &Routed| {
            let nodes = [&routed.given, &routed.done, &routed.barred, &routed.taken];
            let nodes = nodes.into_iter().flatten().chain(routed.hops());
            nodes
                .map(|it| size_of::<NodeId>() + text_octets(it.endpoint()))
                .sum::<usize>()
        };
        tree_octets::<(u64, Routed)>(self.bundles.len())
            .saturating_add(self.bundles.values().map(of_bundle).sum())
            .saturating_add(tree_octets::<(BundleKey, u64)>(self.numbers.len()))
            .saturating_add(tree_octets::<u64>(self.unasked.len()))
            .saturating_add(tree_octets::<(Instant, u64)>(self.timers.len()))
            .saturating_add(
                self.wanted
                    .values()
                    .map(|it| tree_octets::<u64>(it.len()))
                    .sum(),
            )
            .saturating_add(self.adverts.values().map(Vec::capacity).sum())
            .saturating_add(self.out.capacity())
    }
}
