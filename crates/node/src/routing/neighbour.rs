//! A neighbour of a router that floods: which bundles have had their turn with it.

use alloc::collections::{BTreeMap, BTreeSet};

use dhow_bundle::{Instant, Priority};

use super::lot::Lot;
use crate::forwarding::turns::{order, priority_of};

/// A neighbour, present or remembered.
#[derive(Default)]
pub(super) struct Peer {
    /// Of each priority all bundles before this number have had their turn; of one that is missing none.
    pub(super) turns: BTreeMap<Priority, u64>,
    /// Those of them that have another, and when.
    pub(super) again: BTreeMap<u64, Instant>,
    /// Those of them that rest until then, the first to wake first.
    pub(super) paused: BTreeSet<(Instant, u64)>,
    /// Those behind that have none: it has them.
    pub(super) known: BTreeSet<u64>,
    /// When it went, while it is away.
    pub(super) went: Option<Instant>,
    /// It may be about to tell what it holds: it is given nothing before.
    pub(super) awaited: Option<Instant>,
    /// When it last told so.
    pub(super) heard: Option<Instant>,
    /// When it was last told something, and before which number all bundles were, whatever their priority. None where it has come and is to be told of all.
    pub(super) told: Option<(Instant, u64)>,
    /// It had the time to tell, and did not: it is waited for no more until it does.
    pub(super) is_silent: bool,
    /// The order by lot in which it is given bundles where others may be giving it the same.
    pub(super) lot: Lot,
}

impl Peer {
    /// A bundle has another turn from this time on.
    pub(super) fn repeat(&mut self, number: u64, at: Instant, now: Option<Instant>) {
        self.finish(number);
        self.again.insert(number, at);
        if now.is_none_or(|now| at > now) {
            self.paused.insert((at, number));
        }
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

    /// It has a bundle, or is about to.
    pub(super) fn know(&mut self, number: u64) {
        if !self.is_behind(number) {
            self.known.insert(number);
        }
    }

    /// A bundle has no other turn.
    pub(super) fn finish(&mut self, number: u64) {
        if let Some(at) = self.again.remove(&number) {
            self.paused.remove(&(at, number));
        }
    }
}
