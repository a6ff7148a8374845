//! Copies that make room for others, where the operator says so: those of bundles of other nodes, and nobody is busy with them (docs/routing.md).

use alloc::vec::Vec;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::router::DropPolicy;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Instant};

use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::held::retention::State;

/// Copies that are looked at for those that go, at most.
const LOOK_BOUND: usize = 4_096;

/// Copies that go at once, at most.
const DROPPED_BOUND: usize = 512;

/// The rank of a copy among those that may go: whether it is a part, by whose policy, and its rank in that.
type DropRank = (bool, DropPolicy, u64);

impl Forwarding {
    /// Whether copies of bundles for a destination make room for others.
    pub(crate) fn drops_for(&self, destination: &EndpointId) -> bool {
        self.routers.drops() && self.routers.rule(destination).drop != DropPolicy::None
    }

    /// The copies that are to go so that so many octets and so many bundles find room; none where no policy says so, or where all that may go are too few.
    pub(crate) fn copies_to_drop(
        &mut self,
        held: &Held,
        (octets, bundles): (u64, u64),
    ) -> Vec<BundleKey> {
        if (!self.routers.drops() && !planted(Mutant::DropsWithoutPolicy))
            || self.routers.is_empty()
        {
            return Vec::new();
        }
        // Of more copies the next look begins where this one ended: no many that stay hide others.
        let held_here = &self.copies.bundles;
        let copies = held_here
            .range(self.drop_from..)
            .chain(held_here.range(..self.drop_from));
        let mut copies = copies.map(|(key, _)| *key);
        let ranked = copies.by_ref().take(LOOK_BOUND).filter_map(|key| {
            let entry = held.entry(key)?;
            Some((self.drop_rank(held, key, entry)?, key, entry.octets()))
        });
        let mut ranked: Vec<(DropRank, BundleKey, u64)> = ranked.collect();
        let next = copies.next();
        self.drop_from = next.unwrap_or(BundleKey(0));
        ranked.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = ranked.iter().map(|(_, _, its)| its).sum();
        if next.is_none() && all < octets {
            return Vec::new();
        }
        let (mut free, mut dropped) = (0_u64, Vec::new());
        for (_, key, its) in ranked.into_iter().take(DROPPED_BOUND) {
            let count = u64::try_from(dropped.len()).unwrap_or(u64::MAX);
            if free >= octets && count >= bundles.max(1) {
                break;
            }
            free = free.saturating_add(its);
            dropped.push(key);
        }
        dropped
    }

    /// The rank of a copy, of which the greatest goes first: parts before what is whole. None where it stays: bundles in custody or with a session, and what was made here where
    /// the policy is not of all.
    fn drop_rank(&self, held: &Held, key: BundleKey, entry: &Entry) -> Option<DropRank> {
        let is_idle = match entry.state() {
            State::Waiting | State::AwaitingRetry { .. } => true,
            State::InFlight => planted(Mutant::DropsInFlight),
            _ => false,
        };
        if !is_idle || held.custody().has(key) {
            return None;
        }
        let destination = held.endpoints().id(entry.destination());
        let policy = match self.routers.rule(destination).drop {
            DropPolicy::None if planted(Mutant::DropsWithoutPolicy) => DropPolicy::FirstIn,
            policy => policy,
        };
        let is_anothers = entry.previous().is_some() || planted(Mutant::DropsOwn);
        if !is_anothers && !policy.is_of_all() {
            return None;
        }
        // The earlier, the sooner.
        let early = |at: Instant| {
            let nanos = u64::try_from(at.since(Instant::START).as_nanos());
            u64::MAX - nanos.unwrap_or(u64::MAX)
        };
        let router = self.copies.router(key);
        let router = router.and_then(|router| self.routers.get(router));
        let first_in = early(entry.received());
        let rank = match policy {
            DropPolicy::None => return None,
            DropPolicy::FirstIn | DropPolicy::FirstOfAll => first_in,
            DropPolicy::MostCopied => router.map_or(0, |it| it.copies_given(key)),
            DropPolicy::NearestExpiry => early(entry.expires()),
            DropPolicy::Largest => entry.octets(),
            DropPolicy::Last | DropPolicy::LastOfAll => {
                router.and_then(|it| it.place(key)).unwrap_or(first_in)
            }
        };
        Some((entry.fragment().is_some(), policy, rank))
    }
}
