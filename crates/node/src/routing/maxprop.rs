//! MaxProp (Burgess, Gallagher, Jensen, Levine: INFOCOM 2006): every neighbour gets copies, and an order says of which bundles first.
//!
//! A node has a likelihood for each node that it meets, by incremental averaging, and knows the likelihoods of others, which neighbours tell. The
//! cost of a path is the sum of what its meetings lack to certainty. Bundles that have gone over few hops come first, by their hops; all
//! others by the cost of the cheapest path to their destination (docs/routing.md).

use alloc::collections::{BTreeMap, BTreeSet};
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

/// Bundles that have gone over fewer hops come before all others.
const YOUNG_HOPS: u64 = 3;

/// The rank of the first of those that come behind.
const BY_COST: u64 = DIRECT + 1 + YOUNG_HOPS;

/// The cost of a path that is not known: more than that of any path that is.
const NO_PATH: u64 = 1 << 48;

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

/// The scheme.
#[derive(Default)]
pub(super) struct MaxProp {
    /// Those of this node.
    own: Likelihoods,
    /// Those of others, and when they were so. None for times before this node began.
    others: BTreeMap<NodeId, (Option<Instant>, Likelihoods)>,
    /// The costs of the cheapest paths to nodes.
    costs: BTreeMap<NodeId, u64>,
    version: u64,
}

impl MaxProp {
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

    /// The cheapest paths to all nodes (Dijkstra).
    fn find_paths(&mut self) {
        let mut costs = BTreeMap::new();
        let mut open: BTreeSet<(u64, &NodeId)> = BTreeSet::new();
        let cost_of = |likelihood: u64| ONE.saturating_sub(likelihood);
        open.extend(self.own.iter().map(|(node, it)| (cost_of(*it), node)));
        while let Some((cost, node)) = open.pop_first() {
            if costs.contains_key(node) || cost >= NO_PATH {
                continue;
            }
            costs.insert(node.clone(), cost);
            let further = self.others.get(node).into_iter().flat_map(|(_, it)| it);
            let further = further.filter(|(node, _)| !costs.contains_key(*node));
            open.extend(further.map(|(node, it)| (cost.saturating_add(cost_of(*it)), node)));
        }
        self.costs = costs;
    }

    /// The cost of the cheapest path that is known to a destination.
    fn cost(&self, destination: Option<&NodeId>) -> u64 {
        let cost = destination.and_then(|it| self.costs.get(it));
        cost.copied().unwrap_or(NO_PATH)
    }
}

impl Scheme for MaxProp {
    fn copies(&self) -> Option<u64> {
        None
    }

    fn handle_contact(&mut self, _: Instant, peer: &NodeId, contact: Contact) {
        if contact == Contact::Up {
            self.meet(peer);
            self.find_paths();
        }
    }

    fn rank(&self, peer: &NodeId, bundle: &Bundle) -> Option<u64> {
        Some(match bundle.destination.as_ref() == Some(peer) {
            true => DIRECT,
            false => self.place(bundle)?,
        })
    }

    /// Those of few hops by these, all others by their cost.
    fn place(&self, bundle: &Bundle) -> Option<u64> {
        Some(match bundle.hops < YOUNG_HOPS {
            true => DIRECT + 1 + bundle.hops,
            false => BY_COST + self.cost(bundle.destination.as_ref()),
        })
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
        let entries = tables.chain([&self.own, &self.costs]).flatten();
        let entries = entries.map(|(node, _)| text_octets(node.endpoint()) + 64);
        let nodes = self.others.keys().map(|node| text_octets(node.endpoint()));
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

    /// One that has met these nodes one after another.
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
        assert_eq!(here.cost(Some(&node(2))), half);
        assert_eq!(here.cost(Some(&node(9))), half, "by nodes 3 and 4");
        assert_eq!(here.cost(Some(&node(8))), NO_PATH);
        assert_eq!(here.cost(None), NO_PATH);
    }

    #[test]
    fn bundles_of_few_hops_come_first_and_then_the_likeliest() {
        let here = met(&[2, 3, 3]);
        let rank = |to, hops| here.rank(&node(5), &bundle(to, hops)).unwrap();
        let order = [
            here.rank(&node(5), &bundle(5, 9)).unwrap(),
            rank(8, 0),
            rank(2, 1),
            rank(3, 2),
            rank(3, 3),
            rank(2, 3),
            rank(8, 3),
        ];
        assert!(
            order.is_sorted_by(|before, after| before < after),
            "{order:?}"
        );
        assert_eq!(rank(8, 30), rank(9, 3));
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
        assert_eq!(there.cost(Some(&node(9))), NO_PATH);
        assert_eq!(there.cost(Some(&node(2))), ONE / 2);
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
                let before = maxprop.cost(Some(&node(*from)));
                if before < NO_PATH {
                    prop_assert!(maxprop.cost(Some(&node(*to))) <= before + ONE - likelihood);
                }
            }
            for (to, likelihood) in &maxprop.own {
                prop_assert!(maxprop.cost(Some(to)) <= ONE - likelihood);
            }
        }
    }
}
