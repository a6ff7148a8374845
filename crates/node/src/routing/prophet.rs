//! The Probabilistic Routing Protocol using History of Encounters and Transitivity (RFC 6693), with messages of our own (docs/adverts.md).
//!
//! A node has a delivery predictability for each node that it has met or heard of. A neighbour gets a copy where its own is greater
//! (GRTR, RFC 6693 3.6), greatest first.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::cbor::{Reader, write_array, write_unsigned};
use dhow_bundle::{EndpointId, Instant, NodeId, Reading};

use super::Contact;
use super::candidate::Bundle;
use super::scheme::{DIRECT, Scheme};
use crate::memory::{text_octets, tree_octets};

/// Predictabilities are fractions of this.
const ONE: u64 = 1 << 32;

/// RFC 6693 3.3, figure 3.
const ENCOUNTER_MAX: u64 = ONE / 10 * 7;
const ENCOUNTER_FIRST: u64 = ONE / 2;
const FIRST_THRESHOLD: u64 = ONE / 10;
const BETA: u64 = ONE / 10 * 9;
const GAMMA: u64 = ONE / 1_000 * 999;
const DELTA: u64 = ONE / 100;

/// The time in which predictabilities age by [`GAMMA`]. RFC 6693 2.1.2 leaves it to the network: with this they fall by half in two hours.
const TIME_UNIT: Duration = Duration::from_secs(10);

/// The increase of a predictability that neighbours are told of at once.
const NEWS: u64 = ONE / 20;

/// The typical time between two encounters of the same nodes (RFC 6693 3.3, `I_typ`).
const TYPICAL_INTERVAL: Duration = Duration::from_secs(1_800);

/// Nodes with a predictability, at most, here and of a neighbour. Of more, those of which the node heard first stay.
const NODES_BOUND: usize = 4_096;

/// Nodes in a table that is sent, at most: as many as an advert has room for.
const TABLE_NODES: usize = 1_024;

/// Octets of the endpoint IDs in a table, at most.
const TABLE_OCTETS: usize = 24 << 10;

/// The scheme.
#[derive(Default)]
pub(super) struct Prophet {
    nodes: BTreeMap<NodeId, Known>,
    /// The predictabilities of neighbours.
    neighbours: BTreeMap<NodeId, BTreeMap<NodeId, u64>>,
    /// The time until which predictabilities have aged.
    aged: Option<Instant>,
    version: u64,
}

/// A node that was met or heard of.
#[derive(Clone, Copy, Debug)]
struct Known {
    predictability: u64,
    met: Option<Instant>,
}

/// The product of two fractions of [`ONE`], of which one is at most that.
fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(ONE);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// [`GAMMA`] to the power of so many.
fn aging(mut units: u64) -> u64 {
    let (mut factor, mut square) = (ONE, GAMMA);
    // Each turn halves the number.
    while units > 0 && factor > 0 {
        if units & 1 == 1 {
            factor = times(factor, square);
        }
        square = times(square, square);
        units >>= 1;
    }
    factor
}

impl Prophet {
    /// RFC 6693 2.1.2, equation 2.
    fn age(&mut self, now: Instant) {
        let aged = *self.aged.get_or_insert(now);
        let units = now.since(aged).as_nanos() / TIME_UNIT.as_nanos();
        let Ok(whole) = u32::try_from(units) else {
            self.nodes.clear();
            self.aged = Some(now);
            return;
        };
        if whole == 0 {
            return;
        }
        let factor = aging(whole.into());
        for known in self.nodes.values_mut() {
            known.predictability = times(known.predictability, factor);
        }
        // Smaller ones count as none (RFC 6693 2.1.3); a node that was met keeps the time of that.
        let is_of_use = |known: &Known| {
            let is_recent = |met| now.since(met) < TYPICAL_INTERVAL;
            known.predictability >= FIRST_THRESHOLD || known.met.is_some_and(is_recent)
        };
        self.nodes.retain(|_, known| is_of_use(known));
        self.aged = Some(aged + TIME_UNIT * whole);
    }

    /// RFC 6693 2.1.2, equation 1.
    fn meet(&mut self, now: Instant, peer: &NodeId) {
        self.age(now);
        if self.nodes.len() >= NODES_BOUND && !self.nodes.contains_key(peer) {
            return;
        }
        let none = Known {
            predictability: 0,
            met: None,
        };
        let known = self.nodes.entry(peer.clone()).or_insert(none);
        known.predictability = if known.predictability < FIRST_THRESHOLD {
            ENCOUNTER_FIRST
        } else {
            let interval = known.met.map_or(TYPICAL_INTERVAL, |met| now.since(met));
            let part = interval.min(TYPICAL_INTERVAL).as_millis();
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            let typical = u64::try_from(TYPICAL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
            let encounter = times(ENCOUNTER_MAX, ONE / typical * part);
            let room = (ONE - DELTA).saturating_sub(known.predictability);
            known.predictability + times(room, encounter)
        };
        known.met = Some(now);
    }

    fn predictability(&self, node: &NodeId) -> u64 {
        let known = self.nodes.get(node);
        known.map_or(0, |known| known.predictability)
    }

    /// The nodes that others are told of, the greatest predictability first.
    fn likeliest(&self) -> impl Iterator<Item = (u64, &NodeId)> {
        let mut known: Vec<(u64, &NodeId)> = (self.nodes.iter())
            .map(|(node, known)| (known.predictability, node))
            .filter(|(predictability, _)| *predictability >= FIRST_THRESHOLD)
            .collect();
        known.sort_by_key(|(predictability, _)| core::cmp::Reverse(*predictability));
        known.into_iter().take(TABLE_NODES)
    }
}

impl Scheme for Prophet {
    fn copies(&self) -> Option<u64> {
        None
    }

    fn handle_contact(&mut self, now: Instant, peer: &NodeId, contact: Contact) {
        match contact {
            Contact::Up => self.meet(now, peer),
            Contact::Down => drop(self.neighbours.remove(peer)),
        }
    }

    fn rank(&self, peer: &NodeId, bundle: &Bundle) -> Option<u64> {
        let destination = bundle.destination.as_ref()?;
        if destination == peer {
            return Some(DIRECT);
        }
        let there = self.neighbours.get(peer)?.get(destination).copied()?;
        let here = self.predictability(destination);
        (there > here).then(|| DIRECT + 1 + ONE.saturating_sub(there))
    }

    fn table(&mut self, now: Instant) -> Vec<u8> {
        self.age(now);
        let mut out = Vec::new();
        for (predictability, node) in self.likeliest() {
            if out.len() > TABLE_OCTETS {
                break;
            }
            write_array(&mut out, 2);
            node.endpoint().encode(&mut out);
            write_unsigned(&mut out, predictability.min(ONE));
        }
        out
    }

    fn handle_table(&mut self, now: Instant, peer: &NodeId, table: &[u8]) -> bool {
        let table = read_table(table);
        if let Some(table) = &table {
            self.handle_predictabilities(now, peer, table);
        }
        table.is_some()
    }

    fn predictabilities(&mut self, now: Instant) -> Option<BTreeMap<NodeId, u64>> {
        self.age(now);
        let known = self.likeliest();
        Some(known.map(|(it, node)| (node.clone(), it)).collect())
    }

    fn handle_predictabilities(
        &mut self,
        now: Instant,
        peer: &NodeId,
        table: &BTreeMap<NodeId, u64>,
    ) {
        self.age(now);
        let with_peer = self.predictability(peer);
        for (node, &there) in table {
            // RFC 6693 2.1.2, equation 3.
            let through = times(times(with_peer, there), BETA);
            if through < FIRST_THRESHOLD || node == peer {
                continue;
            }
            let is_known = self.nodes.contains_key(node);
            if !is_known && self.nodes.len() >= NODES_BOUND {
                continue;
            }
            let none = Known {
                predictability: 0,
                met: None,
            };
            let known = self.nodes.entry(node.clone()).or_insert(none);
            // A value that is a little greater than before is no news: two neighbours would tell each other for ever.
            if through > known.predictability + NEWS {
                self.version += 1;
            }
            known.predictability = known.predictability.max(through);
        }
        self.neighbours.insert(peer.clone(), table.clone());
    }

    fn has_table(&self) -> bool {
        true
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn memory_octets(&self) -> usize {
        let ids = self.nodes.keys().map(|node| text_octets(node.endpoint()));
        let tables = self.neighbours.values().flat_map(BTreeMap::keys);
        let tables = tables.map(|node| text_octets(node.endpoint()) + 16);
        tree_octets::<(NodeId, Known)>(self.nodes.len())
            .saturating_add(tree_octets::<(NodeId, BTreeMap<NodeId, u64>)>(
                self.neighbours.len(),
            ))
            .saturating_add(ids.chain(tables).sum())
    }
}

/// The predictabilities of a neighbour; none where the octets are no table.
fn read_table(table: &[u8]) -> Option<BTreeMap<NodeId, u64>> {
    let mut reader = Reader::new(table);
    let mut nodes = BTreeMap::new();
    while !reader.is_empty() {
        if nodes.len() >= TABLE_NODES {
            return None;
        }
        let mut array = reader.array().ok()?;
        array.item(&mut reader).ok()?;
        let node = EndpointId::decode(&mut reader, Reading::Strict).ok()?;
        array.item(&mut reader).ok()?;
        let predictability = reader.unsigned().ok().filter(|it| *it <= ONE)?;
        array.end(&mut reader).ok()?;
        nodes.insert(NodeId::new(node).ok()?, predictability);
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(number: u32) -> NodeId {
        alloc::format!("ipn:{number}.0").parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    /// Hundredths.
    fn percent(prophet: &Prophet, of: u32) -> u64 {
        prophet.predictability(&node(of)) * 100 / ONE
    }

    fn bundle(to: u32) -> Bundle {
        Bundle::for_test(Some(node(to)))
    }

    /// RFC 6693 2.1.2 and 3.3, figure 3.
    #[test]
    fn encounters_add_time_takes_away_and_friends_of_friends_count() {
        let mut prophet = Prophet::default();
        prophet.handle_contact(at(0), &node(2), Contact::Up);
        assert_eq!(percent(&prophet, 2), 50, "the first encounter");
        prophet.handle_contact(at(0), &node(2), Contact::Down);
        prophet.handle_contact(at(900), &node(2), Contact::Up);
        // 0.5 × 0.999^90 = 0.457, and 0.7 / 2 of what lacks to 0.99.
        assert_eq!(percent(&prophet, 2), 64, "half of the typical interval");
        prophet.handle_contact(at(910), &node(2), Contact::Up);
        assert_eq!(percent(&prophet, 2), 64, "soon again");
        prophet.age(at(10_910));
        assert_eq!(percent(&prophet, 2), 23, "0.999^1000");
        prophet.age(at(1_000_000));
        assert_eq!(percent(&prophet, 2), 0);
        assert!(prophet.nodes.is_empty(), "it is forgotten");
        prophet.handle_contact(at(1_000_000), &node(2), Contact::Up);
        let mut other = Prophet::default();
        other.handle_contact(at(0), &node(3), Contact::Up);
        let table = other.table(at(0));
        assert!(prophet.handle_table(at(1_000_000), &node(2), &table));
        // 0.5 × 0.5 × 0.9.
        assert_eq!(percent(&prophet, 3), 22);
    }

    #[test]
    fn a_neighbour_gets_what_it_is_likelier_to_deliver() {
        let mut here = Prophet::default();
        let mut there = Prophet::default();
        here.handle_contact(at(0), &node(2), Contact::Up);
        here.handle_contact(at(0), &node(4), Contact::Up);
        there.handle_contact(at(0), &node(3), Contact::Up);
        assert_eq!(here.rank(&node(2), &bundle(3)), None, "before its table");
        here.handle_table(at(0), &node(2), &there.table(at(0)));
        assert_eq!(here.rank(&node(2), &bundle(2)), Some(DIRECT));
        assert!(
            here.rank(&node(2), &bundle(3))
                .is_some_and(|it| it > DIRECT)
        );
        assert_eq!(here.rank(&node(2), &bundle(4)), None);
        assert_eq!(here.rank(&node(2), &Bundle::for_test(None)), None);
        here.handle_contact(at(9), &node(2), Contact::Down);
        assert_eq!(here.rank(&node(2), &bundle(3)), None);
    }

    #[test]
    fn a_table_has_as_many_nodes_as_an_advert_has_room_for() {
        let mut prophet = Prophet::default();
        for number in 1..6_000 {
            prophet.handle_contact(at(0), &node(number), Contact::Up);
        }
        assert_eq!(prophet.nodes.len(), NODES_BOUND);
        let table = prophet.table(at(0));
        assert!(table.len() <= TABLE_OCTETS + 64, "{}", table.len());
        let read = read_table(&table).unwrap();
        assert_eq!(read.len(), TABLE_NODES);
        let longer = [&table[..], &table[..16]].concat();
        assert_eq!(read_table(&longer), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_a_table_or_none(octets in proptest::collection::vec(any::<u8>(), 0..200), seconds in 0_u64..1 << 40) {
            let mut prophet = Prophet::default();
            prophet.handle_contact(at(0), &node(2), Contact::Up);
            prophet.handle_table(at(seconds), &node(2), &octets);
            for known in prophet.nodes.values() {
                prop_assert!(known.predictability <= ONE);
            }
        }
    }
}
