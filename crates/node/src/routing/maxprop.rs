//! MaxProp (Burgess, Gallagher, Jensen, Levine: INFOCOM 2006): every neighbour gets copies, and an order says of which bundles first.
//!
//! A node has a likelihood for each node that it meets, by incremental averaging, and knows the likelihoods of others, which neighbours tell. The
//! cost of a path is the sum of what its meetings lack to certainty. Bundles that have gone over few hops come first, by their hops; all
//! others by the cost of the cheapest path from the neighbour to their destination. The hops that are few follow from what contacts carry: the first
//! bundles of the store take as much as a contact does (docs/routing.md).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::cbor::{Reader, write_array, write_unsigned};
use dhow_bundle::{EndpointId, Instant, NodeId, Reading};

use super::Contact;
use super::candidate::Bundle;
use super::scheme::{DIRECT, Scheme};
use crate::memory::{text_octets, tree_octets};

/// Likelihoods are fractions of this.
const ONE: u64 = 1 << 32;

/// Smaller ones count as none: a node has at most 17 greater ones, since each meeting halves all others.
const LEAST: u64 = ONE >> 16;

/// Hops that are told apart: a hop count is one octet, and the last hop is not in it.
const HOPS_BOUND: u64 = 257;

/// The rank of the first of those bundles that are ordered by their cost.
const BY_COST: u64 = DIRECT + 1 + HOPS_BOUND;

/// The cost of a path that is not known: more than that of any path that is.
const NO_PATH: u64 = 1 << 48;

/// Of bundles with the same cost those of fewer hops come first, so many told apart: a place has 55 bits.
const TIED_HOPS: u64 = 64;

/// Contacts whose octets are averaged: the last ones that carried any.
const CONTACTS: usize = 10;

/// Nodes whose likelihoods are known, at most. Of more, those told of longest ago are forgotten.
const NODES_BOUND: usize = 512;

/// Likelihoods of one node, at most.
const LIKELIHOODS_BOUND: usize = 32;

/// Octets of a table that is sent, at most, but for the last node's.
const TABLE_OCTETS: usize = 24 << 10;

/// The age of a node's likelihoods that is believed, at most.
const AGE_MS: u64 = 366 * 86_400_000;

/// Likelihoods are told on where they were told at least so much later than those that are known: each hop tells the age a little wrong.
const NEWER: Duration = Duration::from_secs(1);

type Likelihoods = BTreeMap<NodeId, u64>;

type Costs = BTreeMap<NodeId, u64>;

/// The scheme.
#[derive(Default)]
pub(super) struct MaxProp {
    /// The likelihoods of this node.
    own: Likelihoods,
    /// The likelihoods of others, and when they were so. None for times before this node began.
    others: BTreeMap<NodeId, (Option<Instant>, Likelihoods)>,
    /// The costs of the cheapest paths to nodes.
    costs: Costs,
    /// The costs from neighbours that are there and have told their likelihoods.
    from: BTreeMap<NodeId, Costs>,
    version: u64,
    /// Octets of the store.
    quota_octets: u64,
    /// Octets of bundles that are held, by their hops.
    held: BTreeMap<u64, u64>,
    /// Octets that were given to and came from neighbours that are there.
    carried: BTreeMap<NodeId, u64>,
    /// Octets that earlier contacts carried, the last one last.
    contacts: VecDeque<u64>,
    /// Bundles of fewer hops come before all others.
    threshold: u64,
}

impl MaxProp {
    /// The scheme of a node whose store has so many octets.
    pub(super) fn new(quota_octets: u64) -> Self {
        Self {
            quota_octets,
            ..Self::default()
        }
    }

    /// Incremental averaging: what a meeting adds, all likelihoods lose in proportion, so that their sum stays 1.
    fn meet(&mut self, peer: &NodeId) {
        if self.own.is_empty() {
            self.own.insert(peer.clone(), ONE);
            return;
        }
        for likelihood in self.own.values_mut() {
            *likelihood /= 2;
        }
        *self.own.entry(peer.clone()).or_default() += ONE / 2;
        self.own.retain(|_, likelihood| *likelihood >= LEAST);
    }

    /// The likelihoods of another node, as they were at a time, where they are newer. True where they are news.
    fn learn(&mut self, node: &NodeId, at: Option<Instant>, likelihoods: Likelihoods) -> bool {
        let known = self.others.get(node);
        let is_newer = known.is_none_or(|(then, _)| at > then.map(|then| then + NEWER));
        is_newer && self.keep(node, at, likelihoods)
    }

    /// The likelihoods of another node from now on. True where they are news.
    fn keep(&mut self, node: &NodeId, at: Option<Instant>, likelihoods: Likelihoods) -> bool {
        let known = self.others.get(node);
        let is_news = known.is_none_or(|(_, known)| *known != likelihoods);
        self.others.insert(node.clone(), (at, likelihoods));
        while self.others.len() > NODES_BOUND {
            let oldest = self.others.iter().min_by_key(|(_, (at, _))| *at);
            let Some(oldest) = oldest.map(|(node, _)| node.clone()) else {
                break;
            };
            self.others.remove(&oldest);
        }
        is_news
    }

    /// The costs of the cheapest paths to all nodes from one with these likelihoods (Dijkstra).
    fn paths(&self, from: &Likelihoods) -> Costs {
        let mut costs = BTreeMap::new();
        let mut open: BTreeSet<(u64, &NodeId)> = BTreeSet::new();
        let cost_of = |likelihood: u64| ONE.saturating_sub(likelihood);
        open.extend(from.iter().map(|(node, it)| (cost_of(*it), node)));
        while let Some((cost, node)) = open.pop_first() {
            if costs.contains_key(node) || cost >= NO_PATH {
                continue;
            }
            costs.insert(node.clone(), cost);
            let further = self.others.get(node).into_iter().flat_map(|(_, it)| it);
            let further = further.filter(|(node, _)| !costs.contains_key(*node));
            open.extend(further.map(|(node, it)| (cost.saturating_add(cost_of(*it)), node)));
        }
        costs
    }

    /// Finds the paths from this node.
    fn find_paths(&mut self) {
        self.costs = self.paths(&self.own);
    }

    /// The cost of the cheapest path that is known to a destination: from a neighbour, where it has told its likelihoods, and else from here.
    fn cost(&self, from: Option<&NodeId>, destination: Option<&NodeId>) -> u64 {
        let costs = from.and_then(|from| self.from.get(from));
        let costs = costs.unwrap_or(&self.costs);
        let cost = destination.and_then(|it| costs.get(it));
        cost.copied().unwrap_or(NO_PATH)
    }

    /// The place of a bundle: those of few hops by these, all others by their cost.
    fn place_from(&self, from: Option<&NodeId>, bundle: &Bundle) -> u64 {
        if bundle.hops < self.threshold {
            return DIRECT + 1 + bundle.hops.min(HOPS_BOUND - 1);
        }
        let cost = self.cost(from, bundle.destination.as_ref());
        BY_COST + cost * TIED_HOPS + bundle.hops.min(TIED_HOPS - 1)
    }

    /// The octets of the store that go by hops: what a contact carries on average, or what the store has beyond that, if that is less. None before a contact has carried anything,
    /// and where a contact carries all that the store holds.
    fn young_octets(&self) -> u64 {
        let count = u64::try_from(self.contacts.len()).unwrap_or(u64::MAX);
        let sum: u64 = self.contacts.iter().sum();
        let mean = sum / count.max(1);
        mean.min(self.quota_octets.saturating_sub(mean))
    }

    /// The hops below which bundles are in those octets, at least in part.
    fn set_threshold(&mut self) {
        let young = self.young_octets();
        let mut octets = 0_u64;
        self.threshold = 0;
        for (hops, its) in &self.held {
            if octets >= young {
                break;
            }
            octets = octets.saturating_add(*its);
            self.threshold = hops + 1;
        }
    }
}

impl Scheme for MaxProp {
    fn copies(&self) -> Option<u64> {
        None
    }

    fn handle_contact(&mut self, _: Instant, peer: &NodeId, contact: Contact) {
        match contact {
            Contact::Up => {
                self.meet(peer);
                self.find_paths();
                self.carried.insert(peer.clone(), 0);
            }
            Contact::Down => {
                self.from.remove(peer);
                let carried = self.carried.remove(peer).unwrap_or(0);
                if carried == 0 {
                    return;
                }
                if self.contacts.len() >= CONTACTS {
                    self.contacts.pop_front();
                }
                self.contacts.push_back(carried);
                self.set_threshold();
            }
        }
    }

    fn hold(&mut self, bundle: &Bundle) {
        let octets = self.held.entry(bundle.hops).or_default();
        *octets = octets.saturating_add(bundle.octets);
        self.set_threshold();
    }

    fn release(&mut self, bundle: &Bundle) {
        if let Some(octets) = self.held.get_mut(&bundle.hops) {
            *octets = octets.saturating_sub(bundle.octets);
            if *octets == 0 {
                self.held.remove(&bundle.hops);
            }
        }
        self.set_threshold();
    }

    fn carried(&mut self, peer: &NodeId, octets: u64) {
        if let Some(carried) = self.carried.get_mut(peer) {
            *carried = carried.saturating_add(octets);
        }
    }

    fn order(&self) -> u64 {
        self.threshold
    }

    fn rank(&self, peer: &NodeId, bundle: &Bundle) -> Option<u64> {
        Some(match bundle.destination.as_ref() == Some(peer) {
            true => DIRECT,
            false => self.place_from(Some(peer), bundle),
        })
    }

    /// The costs are those from here: copies that go from a full store are those that this node brings least likely to where they are to go.
    fn place(&self, bundle: &Bundle) -> Option<u64> {
        Some(self.place_from(None, bundle))
    }

    fn table(&mut self, now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        write_likelihoods(&mut out, &self.own);
        let mut newest: Vec<_> = self.others.iter().collect();
        newest.sort_by_key(|(_, (at, _))| core::cmp::Reverse(*at));
        for (node, (at, likelihoods)) in newest {
            if out.len() > TABLE_OCTETS {
                break;
            }
            let age = at.map_or(AGE_MS.into(), |at| now.since(at).as_millis());
            write_array(&mut out, 3);
            node.endpoint().encode(&mut out);
            write_unsigned(&mut out, u64::try_from(age).unwrap_or(AGE_MS).min(AGE_MS));
            write_likelihoods(&mut out, likelihoods);
        }
        out
    }

    fn handle_table(&mut self, now: Instant, peer: &NodeId, table: &[u8]) -> bool {
        let Some((own, others)) = read_table(table) else {
            return false;
        };
        let mut is_news = self.keep(peer, Some(now), own);
        for (node, age, likelihoods) in others {
            if node != *peer {
                let at = before(now, age);
                is_news |= self.learn(&node, at, likelihoods);
            }
        }
        if is_news {
            self.version += 1;
            self.find_paths();
        }
        let known = self.others.get(peer);
        let costs = known.map(|(_, likelihoods)| self.paths(likelihoods));
        self.from.insert(peer.clone(), costs.unwrap_or_default());
        true
    }

    fn has_table(&self) -> bool {
        true
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn memory_octets(&self) -> usize {
        let tables = self.others.values().map(|(_, likelihoods)| likelihoods);
        let tables = tables.chain(self.from.values());
        let entries = tables.chain([&self.own, &self.costs]).flatten();
        let entries = entries.map(|(node, _)| text_octets(node.endpoint()) + 64);
        let nodes = (self.others.keys())
            .chain(self.from.keys())
            .chain(self.carried.keys());
        let nodes = nodes.map(|node| text_octets(node.endpoint()) + 64);
        tree_octets::<(NodeId, (Option<Instant>, Likelihoods))>(self.others.len())
            .saturating_add(entries.chain(nodes).sum())
    }
}

/// A time so long before another; none before this node began.
fn before(now: Instant, age: Duration) -> Option<Instant> {
    let since = now.since(Instant::START).checked_sub(age)?;
    Some(Instant::START + since)
}

fn write_likelihoods(out: &mut Vec<u8>, likelihoods: &Likelihoods) {
    write_array(out, u64::try_from(likelihoods.len()).unwrap_or(0));
    for (node, likelihood) in likelihoods {
        write_array(out, 2);
        node.endpoint().encode(out);
        write_unsigned(out, *likelihood);
    }
}

/// The likelihoods of a node: at most [`LIKELIHOODS_BOUND`], and together no more than [`ONE`].
fn read_likelihoods(reader: &mut Reader<'_>) -> Option<Likelihoods> {
    let mut array = reader.array().ok()?;
    let mut likelihoods = BTreeMap::new();
    let mut sum = 0_u64;
    while array.next(reader).ok()? {
        let mut pair = reader.array().ok()?;
        pair.item(reader).ok()?;
        let node = EndpointId::decode(reader, Reading::Strict).ok()?;
        pair.item(reader).ok()?;
        let likelihood = reader.unsigned().ok()?;
        pair.end(reader).ok()?;
        sum = sum.checked_add(likelihood).filter(|sum| *sum <= ONE)?;
        likelihoods.insert(NodeId::new(node).ok()?, likelihood);
        if likelihoods.len() > LIKELIHOODS_BOUND {
            return None;
        }
    }
    Some(likelihoods)
}

/// The likelihoods of a neighbour, and of other nodes with their age.
type Table = (Likelihoods, Vec<(NodeId, Duration, Likelihoods)>);

/// A neighbour's table; none where the octets are none.
fn read_table(table: &[u8]) -> Option<Table> {
    let mut reader = Reader::new(table);
    let own = read_likelihoods(&mut reader)?;
    let mut others = Vec::new();
    while !reader.is_empty() {
        if others.len() >= NODES_BOUND {
            return None;
        }
        let mut array = reader.array().ok()?;
        array.item(&mut reader).ok()?;
        let node = EndpointId::decode(&mut reader, Reading::Strict).ok()?;
        array.item(&mut reader).ok()?;
        let age = Duration::from_millis(reader.unsigned().ok()?.min(AGE_MS));
        array.item(&mut reader).ok()?;
        let likelihoods = read_likelihoods(&mut reader)?;
        array.end(&mut reader).ok()?;
        others.push((NodeId::new(node).ok()?, age, likelihoods));
    }
    Some((own, others))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn node(number: u32) -> NodeId {
        alloc::format!("ipn:{number}.0").parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    /// A scheme that has met these nodes one after another.
    fn met(nodes: &[u32]) -> MaxProp {
        let mut maxprop = MaxProp::default();
        for (second, number) in (0..).zip(nodes) {
            maxprop.handle_contact(at(second), &node(*number), Contact::Up);
            maxprop.handle_contact(at(second), &node(*number), Contact::Down);
        }
        maxprop
    }

    fn likelihood(maxprop: &MaxProp, of: u32) -> u64 {
        maxprop.own.get(&node(of)).map_or(0, |it| it * 1_000 / ONE)
    }

    fn bundle(to: u32, hops: u64) -> Bundle {
        let mut bundle = Bundle::for_test(Some(node(to)));
        bundle.hops = hops;
        bundle
    }

    /// Four nodes that are equally likely, of which one is met again: 1/8, 1/8, 5/8, 1/8.
    #[test]
    fn likelihoods_are_averaged_at_each_meeting() {
        let mut maxprop = met(&[2, 3]);
        assert_eq!([2, 3].map(|it| likelihood(&maxprop, it)), [500, 500]);
        maxprop.meet(&node(3));
        assert_eq!([2, 3].map(|it| likelihood(&maxprop, it)), [250, 750]);
        maxprop.own = [2, 3, 4, 5].map(|it| (node(it), ONE / 4)).into();
        maxprop.meet(&node(4));
        let after = [2, 3, 4, 5].map(|it| likelihood(&maxprop, it));
        assert_eq!(after, [125, 125, 625, 125]);
        let many = met(&(2..200).collect::<Vec<_>>());
        assert!(many.own.len() <= 17, "{}", many.own.len());
        assert!(many.own.values().sum::<u64>() <= ONE);
    }

    #[test]
    fn the_cheapest_path_counts_whatever_its_length() {
        let mut here = met(&[2, 3]);
        // Node 2 meets node 9 now and then, node 3 meets node 4 alone, which meets node 9 alone.
        here.learn(&node(2), Some(at(0)), [(node(9), ONE / 10)].into());
        here.learn(&node(3), Some(at(0)), [(node(4), ONE)].into());
        here.learn(&node(4), None, [(node(9), ONE)].into());
        here.find_paths();
        let half = ONE / 2;
        assert_eq!(here.cost(None, Some(&node(2))), half);
        assert_eq!(here.cost(None, Some(&node(9))), half, "by nodes 3 and 4");
        assert_eq!(here.cost(None, Some(&node(8))), NO_PATH);
        assert_eq!(here.cost(None, None), NO_PATH);
    }

    /// One that holds a bundle of 1,000 octets for each of these numbers of hops.
    fn holding(mut maxprop: MaxProp, hops: &[u64]) -> MaxProp {
        for hops in hops {
            maxprop.hold(&bundle(8, *hops));
        }
        maxprop
    }

    /// A contact carries so many octets.
    fn carry(maxprop: &mut MaxProp, octets: u64) {
        maxprop.handle_contact(at(99), &node(6), Contact::Up);
        maxprop.carried(&node(6), octets);
        maxprop.handle_contact(at(99), &node(6), Contact::Down);
    }

    #[test]
    fn bundles_of_few_hops_come_first_and_then_the_likeliest() {
        let mut here = holding(met(&[2, 3, 3]), &[0, 1, 2]);
        here.threshold = 3;
        let rank = |to, hops| here.rank(&node(5), &bundle(to, hops)).unwrap();
        let order = [
            here.rank(&node(5), &bundle(5, 9)).unwrap(),
            rank(8, 0),
            rank(2, 1),
            rank(3, 2),
            rank(3, 3),
            rank(3, 4),
            rank(2, 3),
            rank(8, 3),
            rank(9, 30),
        ];
        assert!(
            order.is_sorted_by(|before, after| before < after),
            "{order:?}"
        );
        assert_eq!(rank(8, 200), rank(9, 100), "not told apart");
        here.threshold = HOPS_BOUND;
        let oldest = here.rank(&node(5), &bundle(8, 256)).unwrap();
        assert!(oldest < BY_COST && BY_COST + NO_PATH * TIED_HOPS < 1 << 55);
    }

    /// A store of 10,000 octets, of which contacts carry these: Burgess et al., section III.
    #[test]
    fn as_many_bundles_go_by_hops_as_a_contact_carries() {
        let mut here = holding(MaxProp::new(10_000), &[0, 0, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(here.threshold, 0, "no contact has carried anything");
        carry(&mut here, 0);
        assert_eq!(here.threshold, 0, "nor has this one");
        for (carried, mean, threshold) in [
            (2_000, 2_000, 1),
            (2_002, 2_001, 2),
            (11_998, 5_333, 2),
            (9_600, 6_400, 2),
        ] {
            carry(&mut here, carried);
            let young = here.young_octets();
            assert_eq!(
                (young, here.threshold),
                (mean.min(10_000 - mean), threshold)
            );
        }
        // The store loses those of one hop: what was beyond them is not.
        for _ in 0..3 {
            here.release(&bundle(8, 1));
        }
        assert_eq!(here.threshold, 3);
        assert!(!here.held.contains_key(&1));
        // Contacts that carry all that the store holds need no order by hops.
        for _ in 0..CONTACTS {
            carry(&mut here, 10_000);
        }
        assert_eq!((here.contacts.len(), here.threshold), (CONTACTS, 0));
    }

    #[test]
    fn the_cost_is_that_from_the_neighbour() {
        let mut here = met(&[2, 3]);
        for (peer, likelihoods) in [(2, [(node(9), ONE)]), (3, [(node(8), ONE)])] {
            let mut table = vec![];
            write_likelihoods(&mut table, &likelihoods.into());
            assert!(here.handle_table(at(9), &node(peer), &table));
        }
        let costs = |peer, to| here.cost(Some(&node(peer)), Some(&node(to)));
        assert_eq!((costs(2, 9), costs(2, 8)), (0, NO_PATH));
        assert_eq!((costs(3, 9), costs(3, 8)), (NO_PATH, 0));
        assert_eq!(costs(7, 9), ONE / 2, "from here, by node 2");
        here.handle_contact(at(9), &node(2), Contact::Down);
        assert!(!here.from.contains_key(&node(2)));
    }

    /// docs/adverts.md.
    #[test]
    fn a_table_has_these_octets() {
        let mut here = met(&[2, 3]);
        here.learn(&node(4), Some(at(1)), [(node(9), ONE)].into());
        here.learn(&node(5), None, BTreeMap::new());
        let expected: &[u8] = &[
            0x82, // two likelihoods of its own: a half each
            0x82, 0x82, 2, 0x82, 2, 0, 0x1a, 0x80, 0, 0, 0, //
            0x82, 0x82, 2, 0x82, 3, 0, 0x1a, 0x80, 0, 0, 0, //
            0x83, 0x82, 2, 0x82, 4, 0, 0x19, 0x03, 0xe8, // node 4, a second ago
            0x81, 0x82, 0x82, 2, 0x82, 9, 0, 0x1b, 0, 0, 0, 1, 0, 0, 0, 0, //
            0x83, 0x82, 2, 0x82, 5, 0, // node 5, a year ago
            0x1b, 0, 0, 0, 7, 0x5c, 0xd7, 0x88, 0, 0x80,
        ];
        let table = here.table(at(2));
        assert_eq!(table, expected);
        let mut there = MaxProp::default();
        there.handle_contact(at(9), &node(7), Contact::Up);
        assert!(there.handle_table(at(9), &node(7), &table));
        assert_eq!(there.version(), 1);
        assert_eq!(there.others[&node(7)].1, here.own);
        assert_eq!(there.others[&node(4)].0, Some(at(8)));
        assert_eq!(there.others[&node(5)].0, None);
        assert_eq!(there.cost(None, Some(&node(9))), NO_PATH);
        assert_eq!(there.cost(None, Some(&node(2))), ONE / 2);
        // The same again is no news, and neither is what is older.
        assert!(there.handle_table(at(20), &node(7), &table));
        assert_eq!(there.version(), 1);
        assert!(!there.learn(&node(4), Some(at(5)), BTreeMap::new()));
    }

    #[test]
    fn what_is_told_of_longest_ago_is_forgotten() {
        let mut here = MaxProp::default();
        for number in 0..2_000_u32 {
            here.learn(&node(number + 1), Some(at(number.into())), BTreeMap::new());
        }
        assert_eq!(here.others.len(), NODES_BOUND);
        assert!(!here.others.contains_key(&node(1)) && here.others.contains_key(&node(2_000)));
        let table = here.table(at(2_000));
        assert!(read_table(&table).is_some());
        let most: Likelihoods = (1..=40).map(|it| (node(it), 1)).collect();
        let mut octets = vec![];
        write_likelihoods(&mut octets, &most);
        assert!(read_table(&octets).is_none(), "too many");
        octets.clear();
        write_likelihoods(&mut octets, &[(node(1), ONE), (node(2), 1)].into());
        assert!(read_table(&octets).is_none(), "more than certain");
    }

    proptest! {
        #[test]
        fn any_octets_are_a_table_or_none(octets in proptest::collection::vec(any::<u8>(), 0..200), seconds in 0_u64..1 << 40) {
            let mut maxprop = met(&[2]);
            maxprop.handle_table(at(seconds), &node(2), &octets);
            prop_assert!(maxprop.costs.values().all(|cost| *cost < NO_PATH));
        }

        #[test]
        fn a_path_costs_no_more_than_any_way_that_is_known(edges in proptest::collection::btree_map((1_u32..8, 1_u32..8), 0..=ONE / 8, 0..30)) {
            let mut maxprop = met(&[1, 2, 3]);
            for from in 1..8 {
                let of = edges.iter().filter(|((it, _), _)| *it == from);
                let likelihoods = of.map(|((_, to), it)| (node(*to), *it)).collect();
                maxprop.learn(&node(from), Some(at(9)), likelihoods);
            }
            maxprop.find_paths();
            for ((from, to), likelihood) in &edges {
                let before = maxprop.cost(None, Some(&node(*from)));
                if before < NO_PATH {
                    prop_assert!(maxprop.cost(None, Some(&node(*to))) <= before + ONE - likelihood);
                }
            }
            for (to, likelihood) in &maxprop.own {
                prop_assert!(maxprop.cost(None, Some(to)) <= ONE - likelihood);
            }
        }
    }
}
