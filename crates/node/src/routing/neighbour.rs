//! A neighbour of a router that floods: which bundles have had their turn with it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::{Instant, Priority};

use super::lot::Lot;
use crate::forwarding::turns::{order, priority_of};

/// Bundles whose rest is over that have their turn at once, at most: the next choice wakes others.
const WOKEN: usize = 1_024;

/// Bundles that are held no more, and that one choice forgets the neighbour to have.
const STALE: usize = 4;

/// A neighbour, present or remembered.
#[derive(Default)]
pub(super) struct Peer {
    /// Of each priority all bundles before this number have had their turn; of one that is missing none.
    pub(super) turns: BTreeMap<Priority, u64>,
    /// Those of them that have another now.
    pub(super) ready: BTreeSet<u64>,
    /// Those of them that have another then.
    pub(super) resting: BTreeMap<u64, Instant>,
    /// The same, the first to wake first.
    pub(super) wakes: BTreeSet<(Instant, u64)>,
    /// Those behind that have none: it has them.
    pub(super) known: BTreeSet<u64>,
    /// When it went, while it is away.
    pub(super) went: Option<Instant>,
    /// It may be about to tell what it holds: it is given nothing before.
    pub(super) awaited: Option<Instant>,
    /// When it last told so.
    pub(super) heard: Option<Instant>,
    /// The last advert to it. None where it has come and is to be told of all.
    pub(super) told: Option<Told>,
    /// Whether the last choice ended before all bundles were looked at that might go: it is asked again at once.
    pub(super) has_more: bool,
    /// It had the time to tell, and did not: it is waited for no more until it does.
    pub(super) is_silent: bool,
    /// The order by lot in which it is given bundles where others may be giving it the same.
    pub(super) lot: Lot,
}

/// The last advert to a neighbour that is there.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) at: Instant,
    /// All bundles before this number, whatever their priority.
    pub(super) bundles: u64,
    /// The bundles that ever came for this node.
    pub(super) arrived: u64,
}

impl Peer {
    /// A bundle has another turn now.
    pub(super) fn repeat(&mut self, number: u64) {
        self.finish(number);
        self.ready.insert(number);
    }

    /// A bundle has another turn from this time on.
    pub(super) fn rest(&mut self, number: u64, until: Instant) {
        self.finish(number);
        self.resting.insert(number, until);
        self.wakes.insert((until, number));
    }

    /// Bundles whose rest is over, of which so many have another turn now.
    pub(super) fn wake(&mut self, now: Instant) -> Vec<u64> {
        let mut woken = Vec::new();
        while woken.len() < WOKEN
            && let Some(&(at, number)) = self.wakes.first()
            && at <= now
        {
            self.repeat(number);
            woken.push(number);
        }
        woken
    }

    /// Whether a bundle that has had its turn has another.
    pub(super) fn is_repeated(&self, number: u64) -> bool {
        self.ready.contains(&number) || self.resting.contains_key(&number)
    }

    /// It has these bundles.
    pub(super) fn learn(&mut self, known: &[u64]) {
        for &number in known {
            self.finish(number);
            self.know(number);
        }
    }

    /// The number before which all bundles of a priority have had their turn.
    pub(super) fn turn(&self, priority: Priority) -> u64 {
        let first = || order(priority, 0);
        self.turns.get(&priority).copied().unwrap_or_else(first)
    }

    /// Whether a bundle has had its turn.
    pub(super) fn is_behind(&self, number: u64) -> bool {
        number < self.turn(priority_of(number))
    }

    /// A bundle has its turn.
    pub(super) fn pass(&mut self, number: u64) {
        self.turns.insert(priority_of(number), number + 1);
    }

    /// No bundle of a priority is held before this one that has not had its turn.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.turns.insert(priority_of(number), number);
        for _ in 0..STALE {
            let stale = order(priority_of(number), 0)..number;
            let Some(&stale) = self.known.range(stale).next() else {
                break;
            };
            self.known.remove(&stale);
        }
    }

    /// It has a bundle, or is about to.
    pub(super) fn know(&mut self, number: u64) {
        if !self.is_behind(number) {
            self.known.insert(number);
        }
    }

    /// A bundle has no other turn.
    pub(super) fn finish(&mut self, number: u64) {
        self.ready.remove(&number);
        if let Some(at) = self.resting.remove(&number) {
            self.wakes.remove(&(at, number));
        }
    }
}
