//! A neighbour that is there: what it is to be given, and what it was told.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use dhow_bundle::{Instant, Priority};

use crate::routing::candidate::Bundle;

/// The place of a bundle among those for a neighbour: by its priority, the greater first, and then by the scheme's rank.
pub(super) type Place = (Reverse<Priority>, u64);

/// Of more bundles that a neighbour has, those that are held no more are forgotten once they are half.
const KNOWN_BOUND: usize = 64;

/// A neighbour that is there.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) id: Vec<u8>,
    /// Bundles that it is to be given, by place and number.
    pub(super) ranked: BTreeSet<(Place, u64)>,
    /// The places that they have there.
    pub(super) ranks: BTreeMap<u64, Place>,
    /// Bundles that rest, the first to wake first.
    pub(super) resting: BTreeSet<(Instant, u64)>,
    /// Bundles that it has.
    pub(super) known: BTreeSet<u64>,
    /// The neighbour may be about to tell its bundles: it is given nothing before.
    pub(super) awaited: Option<Instant>,
    /// The adverts that it was given last.
    pub(super) told: Option<Told>,
    /// The order of the scheme in which its bundles are ranked, and when they were.
    pub(super) order: (u64, Instant),
}

/// The last adverts to a neighbour that is there.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) at: Instant,
    /// All bundles before this number.
    pub(super) bundles: u64,
    /// The bundles that ever came for this node.
    pub(super) arrived: u64,
    /// The table, when it had changed so many times, and when that was.
    pub(super) table: (u64, Instant),
}

impl Peer {
    /// The bundles of some that it needs to be told of: those that it may not have.
    pub(super) fn news<'a>(
        &'a self,
        bundles: &'a BTreeMap<u64, Bundle>,
    ) -> impl DoubleEndedIterator<Item = &'a Bundle> {
        let from = self.told.map_or(0, |told| told.bundles);
        let news = bundles.range(from..);
        let is_news = move |(number, bundle): &(&u64, &Bundle)| {
            self.told.is_none() || !(self.known.contains(*number) || bundle.given.names(&self.id))
        };
        news.filter(is_news).map(|(_, bundle)| bundle)
    }

    /// The neighbour has a bundle of those that are held. Bundles that are held no more are forgotten now and then.
    pub(super) fn know(&mut self, number: u64, bundles: &BTreeMap<u64, Bundle>) {
        self.known.insert(number);
        if self.known.len() > KNOWN_BOUND.max(2 * bundles.len()) {
            self.known.retain(|number| bundles.contains_key(number));
        }
    }

    /// The neighbour is to be given a bundle, in this place.
    pub(super) fn rank(&mut self, number: u64, rank: Place) {
        self.unrank(number);
        self.ranks.insert(number, rank);
        self.ranked.insert((rank, number));
    }

    /// The neighbour is not to be given a bundle now.
    pub(super) fn unrank(&mut self, number: u64) {
        if let Some(rank) = self.ranks.remove(&number) {
            self.ranked.remove(&(rank, number));
        }
    }
}
