//! Bundles of which several neighbours get a copy: the state of a transfer is kept for each neighbour by itself.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::forwarding::Forwarding;
use crate::forwarding::queues::Choice;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::{State, Trigger};
use crate::local::is_routing;
use crate::memory::tree_octets;
use crate::outbox::Outbox;
use crate::routing::{BundleChange, Contact, Facts, Passage, Router, RouterId, Routers};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, EndpointId, Instant, NodeId, Now, Priority};

/// All such bundles.
#[derive(Default)]
pub(crate) struct Copies {
    pub(super) bundles: BTreeMap<BundleKey, Spread>,
    /// The notes of recovered bundles of which no router has heard.
    recalled: BTreeMap<BundleKey, Bytes>,
    /// Fragments among them, by the bundle that they are of.
    fragments: BTreeSet<(EndpointIndex, CreationTimestamp, BundleKey)>,
    /// Bundles that go by routes for now, as their router has it.
    pub(super) left: BTreeMap<BundleKey, Left>,
}

/// A bundle that goes by routes, although its destination has a router.
pub(super) struct Left {
    pub(super) router: RouterId,
    /// Whether the bundle is its router's again, once it is back from where it is.
    pub(super) is_back: bool,
}

/// The spread of a bundle's copies.
pub(super) struct Spread {
    router: RouterId,
    /// Sessions that have it on their way.
    sessions: Vec<Carrier>,
    /// Payload octets that nodes have already, from the first.
    acknowledged: BTreeMap<NodeId, u64>,
    /// Whether its destination's node has it: it is deleted once no session has it.
    is_over: bool,
}

impl Copies {
    /// The destination's node has a bundle: no other copy is wanted.
    pub(crate) fn end(&mut self, key: BundleKey) {
        if let Some(spread) = self.bundles.get_mut(&key) {
            spread.is_over = true;
        }
    }

    /// Whether the destination's node has a bundle.
    pub(crate) fn is_over(&self, key: BundleKey) -> bool {
        self.bundles.get(&key).is_some_and(|it| it.is_over)
    }

    /// The router that decides about a bundle; none where its queue does.
    pub(crate) fn router(&self, key: BundleKey) -> Option<RouterId> {
        if self.bundles.is_empty() {
            return None;
        }
        self.bundles.get(&key).map(|spread| spread.router)
    }

    /// Sessions that have a bundle on their way.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn sessions(&self, key: BundleKey) -> usize {
        self.bundles
            .get(&key)
            .map_or(0, |spread| spread.sessions.len())
    }

    /// All bundles.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn keys(&self) -> impl Iterator<Item = BundleKey> {
        self.bundles.keys().copied()
    }

    /// Payload octets that a node has already.
    pub(crate) fn acknowledged(&self, key: BundleKey, peer: &NodeId) -> Option<u64> {
        self.bundles.get(&key)?.acknowledged.get(peer).copied()
    }

    /// A node has so many payload octets; none any more.
    pub(crate) fn set_acknowledged(&mut self, key: BundleKey, peer: NodeId, octets: Option<u64>) {
        if let Some(spread) = self.bundles.get_mut(&key) {
            match octets {
                Some(octets) => spread.acknowledged.insert(peer, octets),
                None => spread.acknowledged.remove(&peer),
            };
        }
    }

    /// The fragments of a bundle.
    pub(crate) fn fragments_of(
        &self,
        source: EndpointIndex,
        creation: CreationTimestamp,
    ) -> impl Iterator<Item = BundleKey> {
        let [first, last] = [0, u32::MAX].map(|key| (source, creation, BundleKey(key)));
        self.fragments.range(first..=last).map(|&(_, _, key)| key)
    }

    /// Octets of memory that it takes.
    pub(crate) fn memory_octets(&self) -> usize {
        let notes: usize = self.recalled.values().map(Bytes::len).sum();
        tree_octets::<(BundleKey, Spread)>(self.bundles.len())
            + tree_octets::<(BundleKey, Bytes)>(self.recalled.len())
            + tree_octets::<(BundleKey, Left)>(self.left.len())
            + tree_octets::<(EndpointIndex, CreationTimestamp, BundleKey)>(self.fragments.len())
            + notes
    }
}

/// A session that has a copy on its way.
struct Carrier {
    session: SessionId,
    peer: NodeId,
    /// Whether the node has brought a copy of it meanwhile: it needs none, whatever becomes of this one.
    has_it: bool,
}

/// The end of a copy's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    /// The neighbour has the copy.
    Given,
    /// The neighbour has not, and is given none before so long.
    Returned(Duration),
    /// The neighbour is never to have the copy.
    Barred,
}

impl Forwarding {
    /// True when a router decides about a destination's bundles.
    pub(crate) fn is_routed(&self, held: &Held, key: BundleKey) -> bool {
        self.router_of(held, key).is_some()
    }

    pub(crate) fn router_of(&self, held: &Held, key: BundleKey) -> Option<RouterId> {
        if self.routers.is_empty() {
            return None;
        }
        if self.copies.left.get(&key).is_some_and(|it| !it.is_back) {
            return None;
        }
        let entry = held.entry(key)?;
        // RFC 9171 4.2.3: without a source nothing identifies a bundle, so copies would not be known for copies.
        if held.endpoints().id(entry.source()).is_null() {
            return None;
        }
        let destination = held.endpoints().id(entry.destination());
        if is_routing(destination) {
            return None;
        }
        self.routers.find(destination)
    }

    /// A bundle waits: its router is told, and sessions ask for it. False where it is to wait in its queue.
    pub(crate) fn spread(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        key: BundleKey,
    ) -> bool {
        let Some(router) = self.router_of(held, key) else {
            self.copies.bundles.remove(&key);
            return false;
        };
        let spread = Spread {
            router,
            sessions: Vec::new(),
            acknowledged: BTreeMap::new(),
            is_over: false,
        };
        self.copies.bundles.entry(key).or_insert(spread);
        self.copies.left.remove(&key);
        if let Some(entry) = held.entry(key).filter(|it| it.fragment().is_some()) {
            let place = (entry.source(), entry.creation(), key);
            self.copies.fragments.insert(place);
        }
        if let Some(note) = self.copies.recalled.remove(&key) {
            let priority = held.entry(key).map(Entry::priority).unwrap_or_default();
            self.tell_router(key, BundleChange::Noted(rank_of_copy(priority), &note));
        }
        self.tell_held(held, key);
        adjacencies.serve_peers();
        true
    }

    /// A bundle's router is told that it is held, and what it decides by.
    fn tell_held(&mut self, held: &Held, key: BundleKey) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        let destination = held.endpoints().id(entry.destination()).node_id();
        // RFC 9171 4.4.3: the count is that of the hops before the last.
        let hops = match entry.previous() {
            Some(_) => u64::from(entry.hops().unwrap_or(0)) + 1,
            None => 0,
        };
        let from = entry.previous().map(|from| held.endpoints().id(from));
        let from = from.and_then(|from| NodeId::new(from.clone()).ok());
        let facts = Facts {
            destination: destination.as_ref(),
            priority: rank_of_copy(entry.priority()),
            is_own: entry.previous().is_none(),
            permits: held.permits(key),
            hops,
            octets: entry.octets(),
            from: from.as_ref(),
        };
        self.tell_router(key, BundleChange::Held(facts));
    }

    /// The copies that a neighbour which has a bundle on its way may make of it in its turn, where its router counts them.
    pub(crate) fn permits(
        &mut self,
        adjacencies: &Adjacencies,
        session: SessionId,
        key: BundleKey,
    ) -> Option<u64> {
        let router = self.copies.router(key)?;
        let peer = adjacencies.peer_of(session)?;
        self.routers.get_mut(router)?.permits(key, &peer)
    }

    /// Whether the router of a destination counts copies.
    pub(crate) fn counts_copies(&self, destination: &EndpointId) -> bool {
        self.routers.counts_copies() && self.routers.find(destination).is_some()
    }

    /// The store has this note of a bundle from an earlier run.
    pub(crate) fn recall(&mut self, key: BundleKey, note: Bytes) {
        if !note.is_empty() && !self.routers.is_empty() {
            self.copies.recalled.insert(key, note);
        }
    }

    /// All bundles have been dispatched.
    pub(crate) fn end_recalling(&mut self) {
        self.copies.recalled.clear();
    }

    /// A bundle's router has something to remember of it.
    pub(crate) fn note(&mut self, key: BundleKey) -> Option<Bytes> {
        let router = self.copies.router(key)?;
        self.routers.get_mut(router)?.note(key)
    }

    pub(crate) fn tell_router(&mut self, key: BundleKey, change: BundleChange<'_>) {
        if let Some(router) = self.copies.router(key)
            && let Some(router) = self.routers.get_mut(router)
        {
            router.handle_bundle(key, change);
        }
    }

    /// A neighbour's first session is there, or its last is gone.
    pub(crate) fn contact_changed(&mut self, now: Now, peer: &NodeId, contact: Contact) {
        if self.routers.believes() {
            (self.acknowledgments).handle_contact(now.monotonic, peer, contact);
        }
        for (_, router) in self.routers.iter_mut() {
            router.handle_contact(now.monotonic, peer, contact);
        }
    }

    /// The next bundle of which a session is to carry a copy, if its turn is before that of a choice from the queues.
    #[inline(always)]
    pub(crate) fn next_copy(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        now: Now,
        session: SessionId,
        other: Option<&Choice>,
    ) -> Option<BundleKey> {
        if self.copies.bundles.is_empty() {
            return None;
        }
        self.look_for_copy(held, adjacencies, now, session, other)
    }

    pub(crate) fn look_for_copy(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        now: Now,
        session: SessionId,
        other: Option<&Choice>,
    ) -> Option<BundleKey> {
        let peer = adjacencies.neighbour(session)?.peer_id()?.clone();
        let mut routers = core::mem::take(&mut self.routers);
        let next = self.next_of(
            held,
            adjacencies,
            now.monotonic,
            &mut routers,
            (session, &peer),
        );
        if next.is_none() {
            let wake = |(_, router): (_, &mut dyn Router)| router.wakes(now.monotonic, &peer);
            let at = routers.iter_mut().filter_map(wake).min();
            if let Some(at) = at {
                adjacencies.pause(session, at);
            }
        }
        self.routers = routers;
        let (order, key) = next?;
        let other = other.and_then(|choice| held.entry(choice.key));
        other
            .is_none_or(|other| order < other.order())
            .then_some(key)
    }

    pub(crate) fn next_of(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        now: Instant,
        routers: &mut Routers,
        (session, peer): (SessionId, &NodeId),
    ) -> Option<(u64, BundleKey)> {
        let neighbour = adjacencies.neighbour(session)?;
        let mut first = |most_octets: Option<u64>| {
            let of_router = |(id, router): (RouterId, &mut dyn Router)| {
                let passage = |key| self.passage(held, neighbour, id, key, most_octets);
                let key = router.next(now, peer, &passage)?;
                Some((held.entry(key)?.order(), key))
            };
            routers.iter_mut().filter_map(of_router).min()
        };
        // If the neighbour had no room for a size, smaller ones go before.
        let below = neighbour
            .ceiling_octets()
            .map(|ceiling| ceiling.saturating_sub(1));
        below
            .and_then(|below| first(Some(below)))
            .or_else(|| first(None))
    }

    pub(crate) fn passage(
        &self,
        held: &Held,
        neighbour: &Neighbour,
        router: RouterId,
        key: BundleKey,
        most_octets: Option<u64>,
    ) -> Passage {
        let (Some(entry), Some(spread)) = (held.entry(key), self.copies.bundles.get(&key)) else {
            return Passage::Barred;
        };
        let is_back = entry.previous().is_some() && entry.previous() == neighbour.peer;
        let rests = (neighbour.shortages).rest(entry.source(), entry.octets());
        if rests.is_some() && spread.router == router {
            return Passage::Later;
        }
        let may_go = self.may_go(held, neighbour, key) || is_back && planted(Mutant::CopySentBack);
        if spread.router != router || !may_go {
            return Passage::Barred;
        }
        // A doubtful bundle is compared with its checksums while nobody reads it.
        let is_doubtful = entry.sound_until() == Instant::START && !spread.sessions.is_empty();
        let leaves = matches!(entry.state(), State::Waiting | State::InFlight)
            && entry.pending_deletion().is_none()
            && !spread.is_over
            && !is_doubtful;
        match leaves && most_octets.is_none_or(|most| entry.octets() <= most) {
            true => Passage::Open,
            false => Passage::Later,
        }
    }

    /// A session takes a copy of a bundle.
    pub(crate) fn take_copy(
        &mut self,
        held: &mut Held,
        adjacencies: &Adjacencies,
        out: &mut Outbox,
        session: SessionId,
        key: BundleKey,
    ) {
        if held.state(key) == Some(State::Waiting) {
            held.advance(out, key, Trigger::Taken);
            if let Some(order) = held.entry(key).map(|entry| entry.order()) {
                self.turns.leave(order);
            }
        }
        let Some(peer) = adjacencies.peer_of(session) else {
            return;
        };
        self.tell_router(key, BundleChange::Taken(&peer));
        if let Some(spread) = self.copies.bundles.get_mut(&key) {
            spread.sessions.push(Carrier {
                session,
                peer,
                has_it: false,
            });
        }
    }

    /// A session has no copy of a bundle on its way any more. True when no other has, either.
    pub(crate) fn copy_over(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        end: CopyEnd,
    ) -> bool {
        let Some(spread) = self.copies.bundles.get_mut(&key) else {
            return true;
        };
        let place = spread.sessions.iter().position(|it| it.session == session);
        let Some(carrier) = place.map(|place| spread.sessions.swap_remove(place)) else {
            return spread.sessions.is_empty();
        };
        let peer = carrier.peer;
        let end = match end {
            CopyEnd::Returned(_) if carrier.has_it => CopyEnd::Barred,
            end => end,
        };
        let is_last = spread.sessions.is_empty();
        let change = match end {
            CopyEnd::Given => BundleChange::Given(&peer),
            CopyEnd::Barred => BundleChange::Barred(&peer),
            CopyEnd::Returned(rest) => BundleChange::Returned(&peer, now.monotonic + rest),
        };
        if !matches!(end, CopyEnd::Returned(_)) {
            spread.acknowledged.remove(&peer);
        }
        self.tell_router(key, change);
        is_last
    }

    /// A neighbour says that it has a bundle of which it brought a copy.
    pub(crate) fn copy_known(
        &mut self,
        adjacencies: &Adjacencies,
        key: BundleKey,
        session: SessionId,
    ) {
        let Some(peer) = adjacencies.peer_of(session) else {
            return;
        };
        if let Some(spread) = self.copies.bundles.get_mut(&key) {
            let carriers = spread.sessions.iter_mut();
            for carrier in carriers.filter(|carrier| carrier.peer == peer) {
                carrier.has_it = true;
            }
        }
        self.tell_router(key, BundleChange::Barred(&peer));
    }

    /// A bundle is held no more.
    pub(crate) fn forget_copies(&mut self, held: &Held, key: BundleKey) {
        if !self.copies.fragments.is_empty()
            && let Some(entry) = held.entry(key)
        {
            let place = (entry.source(), entry.creation(), key);
            self.copies.fragments.remove(&place);
        }
        let left = self.copies.left.remove(&key).map(|it| it.router);
        if let Some(router) = self.copies.router(key).or(left)
            && let Some(router) = self.routers.get_mut(router)
        {
            router.handle_bundle(key, BundleChange::Removed);
            self.copies.bundles.remove(&key);
        }
    }
}

/// The priority by which routers order copies.
fn rank_of_copy(priority: Priority) -> Priority {
    match planted(Mutant::PriorityOfCopiesIgnored) {
        true => Priority::Normal,
        false => priority,
    }
}
