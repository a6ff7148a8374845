//! Waiting bundles, indexed by the thing that they wait for: a queue for each destination, and for each next hop the
//! destinations that it could serve, so that a link that comes up never makes a million bundles be
//! looked at.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Priority};

use crate::config::{LinkId, SendOrder};
use crate::forwarding::ordered::Ordered;
use crate::forwarding::turns::priority_of;
use crate::held::bundles::Bundles;
use crate::held::endpoints::EndpointIndex;
use crate::memory::{text_octets, tree_octets};
use crate::routing::Hop;

/// Destinations and bundles that are looked at for one choice: bounds the work when what is first in a
/// queue may not go over the session that asks.
const LOOK_BOUND: usize = 64;

/// Destinations of a hop that are passed by for one choice because another hop of theirs is better: each
/// takes some tens of nanoseconds.
const DESTINATIONS_BOUND: usize = 16_384;

/// Places of a queue that are looked at for one choice, those that bundles have left among them.
const PLACES_BOUND: usize = 1_024;

/// A queue: a destination's, or that of its bundles that may not go over the first hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId {
    pub(crate) destination: EndpointIndex,
    /// The destination's hop that comes first, counted from the best; those before it come last.
    pub(crate) detour: u8,
}

impl QueueId {
    /// The queue of a destination's bundles that may go over its best hop.
    pub(crate) const fn straight(destination: EndpointIndex) -> Self {
        let detour = 0;
        Self {
            destination,
            detour,
        }
    }

    /// Hops, the best of the destination first, in the order of this queue.
    fn in_order(self, mut hops: Vec<Hop>) -> Vec<Hop> {
        if !hops.is_empty() {
            let first = usize::from(self.detour) % hops.len();
            hops.rotate_left(first);
            if first > 0 && planted(Mutant::DetourWithoutOthers) {
                hops.truncate(1);
            }
        }
        hops
    }
}

/// A bundle's places in a queue: by arrival and by expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) arrival: u64,
    pub(crate) expiry: u64,
}

impl Place {
    fn is_expedited(self) -> bool {
        priority_of(self.arrival) > Priority::Normal
    }
}

/// The bundles of one destination that wait.
#[derive(Default)]
struct Queue {
    by_arrival: Ordered,
    /// Kept only where some link sends by expiry.
    by_expiry: BTreeSet<(u64, BundleKey)>,
    hops: Vec<Hop>,
    /// Octets of memory that it takes whatever waits: itself and its hops.
    fixed_octets: usize,
    /// The heads under which it is listed at its hops. They may be those of a while ago: never behind what is
    /// the first now.
    listed: Heads,
}

/// The first places of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Heads {
    arrival: Option<u64>,
    expiry: Option<u64>,
}

impl Heads {
    fn of(self, order: SendOrder) -> Option<u64> {
        match order {
            SendOrder::Arrival => self.arrival,
            SendOrder::Expiry => self.expiry,
        }
    }
}

impl Queue {
    fn first(&self, bundles: &Bundles, order: SendOrder) -> Option<(u64, BundleKey)> {
        match order {
            SendOrder::Arrival => self.by_arrival.first(bundles),
            SendOrder::Expiry => self.by_expiry.first().copied(),
        }
    }

    /// The first in order that `wanted` says; not many are looked at.
    fn looked_at(
        &self,
        bundles: &Bundles,
        order: SendOrder,
        wanted: impl Fn(BundleKey) -> bool,
    ) -> Option<(u64, BundleKey)> {
        let wanted = |&(_, key): &(u64, BundleKey)| wanted(key);
        match order {
            SendOrder::Arrival => {
                let mut looks = self.by_arrival.iter(bundles, PLACES_BOUND).take(LOOK_BOUND);
                looks.find(wanted)
            }
            SendOrder::Expiry => {
                let mut looks = self.by_expiry.iter().copied().take(LOOK_BOUND);
                looks.find(wanted)
            }
        }
    }

    fn take_hops(&mut self, hops: Vec<Hop>) {
        let texts = hops.iter().map(|hop| match hop {
            Hop::Peer(peer) => text_octets(peer.endpoint()),
            Hop::Link(_) => 0,
        });
        self.fixed_octets =
            size_of::<Self>() + hops.capacity() * size_of::<Hop>() + texts.sum::<usize>();
        self.hops = hops;
    }

    /// Octets of memory that it takes.
    fn memory_octets(&self) -> usize {
        self.fixed_octets
            + self.by_arrival.memory_octets()
            + tree_octets::<(u64, BundleKey)>(self.by_expiry.len())
    }

    fn heads(&self, bundles: &Bundles) -> Heads {
        let place = |order| self.first(bundles, order).map(|(place, _)| place);
        Heads {
            arrival: place(SendOrder::Arrival),
            expiry: place(SendOrder::Expiry),
        }
    }
}

/// A bundle that is to go, and what may follow it without another choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) key: BundleKey,
    queue: QueueId,
    order: SendOrder,
    /// Up to here its queue has the oldest.
    before: u64,
}

/// Octets of memory that the queue of a destination with one bundle takes, about: most have one hop or two.
pub(crate) fn queue_octets(destination: &EndpointId) -> usize {
    size_of::<Queue>()
        + 2 * size_of::<Hop>()
        + text_octets(destination)
        + tree_octets::<(QueueId, Box<Queue>)>(TREE_PART) / TREE_PART
        + 2 * tree_octets::<(Hop, u64, QueueId)>(TREE_PART) / TREE_PART
}

/// Entries of which the part of one is taken.
const TREE_PART: usize = 1 << 10;

/// All queues.
#[derive(Default)]
pub(crate) struct Queues {
    queues: BTreeMap<QueueId, Box<Queue>>,
    /// The heads of queues at each hop, in one tree: most destinations have a hop of their own, their node.
    by_hop: BTreeSet<(Hop, u64, QueueId)>,
    /// An empty queue for the next destination: where each bundle leaves at once, each would make one.
    spare: Option<Box<Queue>>,
    /// Octets of memory that the queues take.
    octets: usize,
    /// Links that send by expiry.
    expiry_links: BTreeSet<LinkId>,
    /// Bundles in all queues of a greater priority than normal.
    expedited: usize,
}

impl Queues {
    /// A link sends by expiry. The first one comes before all bundles: queues keep that order only where it is asked for.
    pub(crate) fn add_by_expiry(&mut self, link: LinkId) {
        self.expiry_links.insert(link);
    }

    /// Put a bundle into a queue; its destination's `hops` are asked for when the queue is new.
    pub(crate) fn push(
        &mut self,
        bundles: &mut Bundles,
        id: QueueId,
        place: Place,
        key: BundleKey,
        hops: impl FnOnce() -> Vec<Hop>,
    ) {
        let expiry = !self.expiry_links.is_empty();
        let mut before = None;
        let spare = &mut self.spare;
        let queue = self.queues.entry(id);
        let queue = queue
            .and_modify(|queue| before = Some(queue.memory_octets()))
            .or_insert_with(|| {
                let mut queue = spare.take().unwrap_or_default();
                queue.take_hops(id.in_order(hops()));
                queue
            });
        queue.by_arrival.insert(bundles, key);
        self.expedited += usize::from(place.is_expedited());
        if expiry {
            queue.by_expiry.insert((place.expiry, key));
        }
        self.octets += queue.memory_octets();
        self.octets -= before.unwrap_or(0);
        let ahead = |listed: Option<u64>, place| listed.is_none_or(|listed| place < listed);
        if ahead(queue.listed.arrival, place.arrival)
            || (expiry && ahead(queue.listed.expiry, place.expiry))
        {
            self.list(bundles, id);
        }
    }

    /// Take a bundle out of its queue.
    pub(crate) fn remove(
        &mut self,
        bundles: &mut Bundles,
        id: QueueId,
        place: Place,
        key: BundleKey,
    ) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        self.octets -= queue.memory_octets();
        let before = queue.by_arrival.len();
        queue.by_arrival.remove(bundles, key);
        if before > queue.by_arrival.len() {
            self.expedited -= usize::from(place.is_expedited());
        }
        queue.by_expiry.remove(&(place.expiry, key));
        if queue.by_arrival.is_empty() {
            self.list(bundles, id);
            self.spare = self.queues.remove(&id);
            if let Some(spare) = &mut self.spare {
                spare.take_hops(Vec::new());
                spare.listed = Heads::default();
            }
        } else {
            self.octets += queue.memory_octets();
        }
    }

    /// Whether a bundle of a greater priority than normal waits.
    pub(crate) const fn holds_expedited(&self) -> bool {
        self.expedited > 0
    }

    /// Octets of memory that all of it takes.
    pub(crate) fn memory_octets(&self) -> usize {
        self.octets
            .saturating_add(tree_octets::<(QueueId, Box<Queue>)>(self.queues.len()))
            .saturating_add(tree_octets::<(Hop, u64, QueueId)>(self.by_hop.len()))
    }

    /// The queues that are listed at a hop, by their heads.
    fn served(&self, hop: &Hop) -> impl Iterator<Item = (u64, QueueId)> {
        let first = (hop.clone(), 0, QueueId::straight(EndpointIndex::FIRST));
        self.by_hop
            .range(first..)
            .take_while(move |(other, _, _)| other == hop)
            .map(|&(_, head, id)| (head, id))
    }

    /// The first bundle in order that may go over a session reached by `hops`, each with its order.
    /// `best` tells which of a destination's hops is the best that is up; `acceptable` whether a bundle
    /// may go over this session.
    /// Beside it come queues that are to be listed anew, for [`Self::refresh`].
    pub(crate) fn next(
        &self,
        bundles: &Bundles,
        hops: &[Hop],
        best: impl Fn(&[Hop]) -> Option<usize>,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> (Option<Choice>, Vec<QueueId>) {
        let mut found: Option<(u64, Choice)> = None;
        let mut stale = Vec::new();
        for hop in hops {
            let order = self.order_of(hop);
            let served = self.served(hop);
            let mut looks = 0;
            for (head, id) in served.take(DESTINATIONS_BOUND) {
                if let Some((place, choice)) = &mut found {
                    if choice.queue == id {
                        continue;
                    }
                    if looks >= LOOK_BOUND || *place <= head {
                        choice.before = choice.before.min(head);
                        break;
                    }
                } else if looks >= LOOK_BOUND {
                    break;
                }
                let Some(queue) = self.queues.get(&id) else {
                    continue;
                };
                let ours = best(&queue.hops).and_then(|best| queue.hops.get(best));
                // A queue with a better hop does not stand in the way of one that has none.
                if !ours.is_some_and(|best| hops.contains(best)) {
                    continue;
                }
                looks += 1;
                if queue
                    .first(bundles, order)
                    .is_some_and(|(first, _)| head < first)
                {
                    stale.push(id);
                }
                let Some((place, key)) = queue.looked_at(bundles, order, &acceptable) else {
                    continue;
                };
                let before = match &mut found {
                    Some((other, choice)) if *other <= place => {
                        choice.before = choice.before.min(place);
                        continue;
                    }
                    Some((other, choice)) => choice.before.min(*other),
                    None => u64::MAX,
                };
                let choice = Choice {
                    key,
                    queue: id,
                    order,
                    before,
                };
                found = Some((place, choice));
            }
        }
        let choice = found.map(|(_, choice)| choice);
        // With one destination to choose from there is nothing to compare its head with.
        if choice.is_some_and(|choice| choice.before == u64::MAX) && stale.len() == 1 {
            stale.clear();
        }
        (choice, stale)
    }

    /// List these queues by what is their first now.
    pub(crate) fn refresh(&mut self, bundles: &Bundles, stale: Vec<QueueId>) {
        for id in stale {
            self.list(bundles, id);
        }
    }

    /// The bundle behind one that was chosen and has left its queue, if no other destination's is before it.
    pub(crate) fn following(&self, bundles: &Bundles, choice: &Choice) -> Option<Choice> {
        let queue = self.queues.get(&choice.queue)?;
        let (place, key) = queue.first(bundles, choice.order)?;
        (place < choice.before).then_some(Choice { key, ..*choice })
    }

    /// Bundles at the heads of queues that this session should serve and that may not go over it: they
    /// stand in the way of others.
    pub(crate) fn obstacles(
        &self,
        bundles: &Bundles,
        hops: &[Hop],
        best: impl Fn(&[Hop]) -> Option<usize>,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> Vec<BundleKey> {
        let mut found = Vec::new();
        for hop in hops {
            let order = self.order_of(hop);
            let served = self.served(hop);
            let queues = served
                .take(DESTINATIONS_BOUND)
                .filter_map(|(_, id)| self.queues.get(&id));
            let ours = queues.filter(|queue| {
                let best = best(&queue.hops).and_then(|best| queue.hops.get(best));
                best.is_some_and(|best| hops.contains(best))
            });
            for queue in ours.take(LOOK_BOUND) {
                let seen = core::cell::RefCell::new(&mut found);
                queue.looked_at(bundles, order, |key| {
                    if !acceptable(key) {
                        seen.borrow_mut().push(key);
                    }
                    false
                });
            }
        }
        found
    }

    /// The first bundle of one destination that is acceptable, of those that go over its best hop.
    pub(crate) fn first_of(
        &self,
        bundles: &Bundles,
        destination: EndpointIndex,
        acceptable: impl Fn(BundleKey) -> bool,
    ) -> Option<BundleKey> {
        let queue = self.queues.get(&QueueId::straight(destination))?;
        let found = queue.looked_at(bundles, SendOrder::Arrival, acceptable)?;
        Some(found.1)
    }

    /// True when a bundle waits in its queue.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn holds(
        &self,
        id: QueueId,
        entry: &crate::held::bundles::Entry,
        key: BundleKey,
    ) -> bool {
        let queue = self.queues.get(&id);
        queue.is_some_and(|queue| queue.by_arrival.contains(entry, key))
    }

    /// Whether the bundles of each queue are in order, and as many as it counts.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn are_whole(&self, bundles: &Bundles) -> bool {
        let mut queues = self.queues.values();
        queues.all(|queue| queue.by_arrival.is_whole(bundles))
    }

    /// Bundles that wait for one destination.
    pub(crate) fn waiting(&self, destination: EndpointIndex) -> usize {
        let queues = self.queues_of(destination);
        queues.map(|queue| queue.by_arrival.len()).sum()
    }

    /// The hops of what waits for one destination, best first.
    pub(crate) fn hops_to(&self, destination: EndpointIndex) -> &[Hop] {
        let first = self.queues_of(destination).next();
        first.map_or(&[], |queue| &queue.hops)
    }

    fn queues_of(&self, destination: EndpointIndex) -> impl Iterator<Item = &Queue> {
        let first = QueueId::straight(destination);
        let last = QueueId {
            detour: u8::MAX,
            ..first
        };
        let queues = self.queues.range(first..=last);
        queues.map(|(_, queue)| queue.as_ref())
    }

    /// The hops of a queue, best first.
    pub(crate) fn hops(&self, id: QueueId) -> &[Hop] {
        self.queues.get(&id).map_or(&[], |queue| &queue.hops)
    }

    /// The number of bundles that wait for each next hop; `best` says which one a destination's bundles wait for.
    pub(crate) fn by_best_hop<'a>(
        &'a self,
        best: impl Fn(EndpointIndex, &'a [Hop]) -> Option<&'a Hop>,
    ) -> BTreeMap<Option<&'a Hop>, u64> {
        let mut sums = BTreeMap::new();
        for (id, queue) in &self.queues {
            let bundles = u64::try_from(queue.by_arrival.len()).unwrap_or(u64::MAX);
            if bundles > 0 {
                let best = best(id.destination, &queue.hops);
                *sums.entry(best).or_default() += bundles;
            }
        }
        sums
    }

    /// Routes changed: ask for the hops of every destination again.
    pub(crate) fn reroute(&mut self, bundles: &Bundles, hops: impl Fn(EndpointIndex) -> Vec<Hop>) {
        self.by_hop.clear();
        let ids: Vec<QueueId> = self.queues.keys().copied().collect();
        for id in ids {
            if let Some(queue) = self.queues.get_mut(&id) {
                self.octets -= queue.memory_octets();
                queue.take_hops(id.in_order(hops(id.destination)));
                queue.listed = Heads::default();
                self.octets += queue.memory_octets();
            }
            self.list(bundles, id);
        }
    }

    fn order_of(&self, hop: &Hop) -> SendOrder {
        match hop {
            Hop::Link(link) if self.expiry_links.contains(link) => SendOrder::Expiry,
            Hop::Link(_) | Hop::Peer(_) => SendOrder::Arrival,
        }
    }

    /// List a queue at its hops by what is the first of it now; nowhere when it is empty.
    fn list(&mut self, bundles: &Bundles, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let heads = queue.heads(bundles);
        let before = core::mem::replace(&mut queue.listed, heads);
        if before == heads {
            return;
        }
        for hop in &queue.hops {
            let order = match hop {
                Hop::Link(link) if self.expiry_links.contains(link) => SendOrder::Expiry,
                Hop::Link(_) | Hop::Peer(_) => SendOrder::Arrival,
            };
            if let Some(old) = before.of(order) {
                self.by_hop.remove(&(hop.clone(), old, id));
            }
            if let Some(new) = heads.of(order) {
                self.by_hop.insert((hop.clone(), new, id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::EndpointId;
    use proptest::prelude::*;

    use super::*;
    use dhow_bundle::Instant;

    use crate::held::bundles::tests::entry;
    use crate::held::endpoints::Endpoints;
    use crate::held::endpoints::tests::endpoints;

    fn place(arrival: u64, expiry: u64) -> Place {
        Place { arrival, expiry }
    }

    /// Hold a bundle whose place in its queue is this one.
    fn hold(bundles: &mut Bundles, order: u64) -> BundleKey {
        let key = bundles.insert(entry(order, Instant::START));
        bundles.entry_mut(key).unwrap().set_order(order);
        key
    }

    #[test]
    fn the_oldest_bundle_of_all_destinations_goes_first_and_the_best_hop_serves_alone() {
        let mut endpoints = endpoints();
        let mut destination = |node| {
            endpoints.acquire(&EndpointId::Ipn {
                allocator: 0,
                node,
                service: 1,
            })
        };
        let (four, five) = (destination(4), destination(5));
        let (beta, gamma) = (Hop::Link(LinkId(0)), Hop::Link(LinkId(1)));
        let mut queues = Queues::default();
        let mut bundles = Bundles::new(1);
        let all = &mut bundles;
        let [one, two, three] = [1, 2, 3].map(|order| hold(all, order));
        queues.push(all, QueueId::straight(four), place(2, 0), two, || {
            Vec::from([beta.clone(), gamma.clone()])
        });
        queues.push(all, QueueId::straight(five), place(1, 0), one, || {
            Vec::from([gamma.clone()])
        });
        queues.push(all, QueueId::straight(four), place(3, 0), three, || {
            unreachable!("the queue exists")
        });
        let both_up = |hops: &[Hop]| (!hops.is_empty()).then_some(0);
        let over_gamma = queues.next(all, core::slice::from_ref(&gamma), both_up, |_| true);
        assert_eq!(over_gamma.0.map(|it| it.key), Some(one));
        queues.remove(all, QueueId::straight(five), place(1, 0), one);
        // Destination four prefers beta, which is up.
        assert_eq!(
            queues
                .next(all, core::slice::from_ref(&gamma), both_up, |_| true)
                .0,
            None
        );
        let beta_down = |hops: &[Hop]| hops.iter().position(|hop| *hop == gamma);
        assert_eq!(
            queues
                .next(all, core::slice::from_ref(&gamma), beta_down, |_| true)
                .0
                .map(|it| it.key),
            Some(two)
        );
        queues.reroute(all, |_| Vec::new());
        let anything = queues.next(all, &[beta, gamma], both_up, |_| true);
        assert_eq!(anything.0, None, "without routes nothing leaves");
    }

    #[test]
    fn a_link_that_sends_by_expiry_takes_the_most_urgent_first() {
        let mut endpoints = endpoints();
        let four = endpoints.acquire(&EndpointId::Ipn {
            allocator: 0,
            node: 4,
            service: 1,
        });
        let link = Hop::Link(LinkId(0));
        let mut queues = Queues::default();
        queues.add_by_expiry(LinkId(0));
        let mut bundles = Bundles::new(1);
        let all = &mut bundles;
        let [one, two] = [1, 2].map(|order| hold(all, order));
        let four = QueueId::straight(four);
        queues.push(all, four, place(1, 900), one, || Vec::from([link.clone()]));
        queues.push(all, four, place(2, 100), two, Vec::new);
        let next = queues.next(all, core::slice::from_ref(&link), |_| Some(0), |_| true);
        assert_eq!(next.0.map(|it| it.key), Some(two));
    }

    fn ipn(endpoints: &mut Endpoints, node: u32) -> EndpointIndex {
        endpoints.acquire(&EndpointId::Ipn {
            allocator: 0,
            node,
            service: 1,
        })
    }

    proptest! {
        /// Bundles of any destinations leave in the order of their places, chosen or following, whatever came back.
        #[test]
        fn what_follows_is_what_would_be_chosen(
            steps in proptest::collection::vec((0_u8..5, 4_u32..8, any::<prop::sample::Index>()), 0..300)
        ) {
            let mut endpoints = endpoints();
            let (link, other) = (Hop::Link(LinkId(0)), Hop::Link(LinkId(1)));
            let hops = [link.clone(), other.clone()];
            let mut queues = Queues::default();
            let mut bundles = Bundles::new(1);
            let all = &mut bundles;
            let mut waiting: BTreeMap<u64, (EndpointIndex, BundleKey)> = BTreeMap::new();
            let mut away = Vec::new();
            let mut last: Option<Choice> = None;
            for (number, (step, node, which)) in (0_u32..).zip(steps) {
                let destination = ipn(&mut endpoints, node);
                let hops_of = || Vec::from(if node == 4 { [other.clone(), link.clone()] } else { hops.clone() });
                match step {
                    0..2 => {
                        let order = u64::from(number) * 3;
                        let key = hold(all, order);
                        queues.push(all, QueueId::straight(destination), place(order, 0), key, hops_of);
                        waiting.insert(order, (destination, key));
                        last = None;
                    }
                    2 if !away.is_empty() => {
                        let (order, (destination, key)) = away.swap_remove(which.index(away.len()));
                        queues.push(all, QueueId::straight(destination), place(order, 0), key, || Vec::from(hops.clone()));
                        waiting.insert(order, (destination, key));
                        // A bundle that came may precede the one that follows: the session chooses anew.
                        last = None;
                    }
                    _ => {
                        let best = |hops: &[Hop]| (!hops.is_empty()).then_some(0);
                        let followed = last.as_ref().and_then(|last| queues.following(all, last));
                        let choice = followed.or_else(|| {
                            let (choice, stale) = queues.next(all, &hops, best, |_| true);
                            queues.refresh(all, stale);
                            choice
                        });
                        let first = waiting.pop_first();
                        prop_assert_eq!(choice.map(|it| it.key), first.map(|(_, (_, key))| key));
                        if let Some((order, (destination, key))) = first {
                            queues.remove(all, QueueId::straight(destination), place(order, 0), key);
                            away.push((order, (destination, key)));
                        }
                        last = choice;
                    }
                }
            }
            for (order, (destination, key)) in waiting {
                prop_assert!(queues.holds(QueueId::straight(destination), all.entry(key).unwrap(), key));
                prop_assert!(queues.are_whole(all));
                queues.remove(all, QueueId::straight(destination), place(order, 0), key);
            }
            prop_assert!(queues.queues.is_empty() && queues.by_hop.is_empty());
        }
    }
}
