//! Copies that make room for others, where the operator says so: those of bundles of other nodes, and nobody is busy with them (docs/routing.md).

use alloc::vec::Vec;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::router::DropPolicy;
use dhow_bundle::storage::BundleKey;

use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::held::retention::State;

/// Copies that are looked at for those that go, at most.
const LOOK_BOUND: usize = 4_096;

/// Copies that go at once, at most.
const DROPPED_BOUND: usize = 64;

impl Forwarding {
    /// The copies that are to go so that so many octets and one bundle find room; none while others go, or where no policy says so.
    pub(crate) fn copies_to_drop(&mut self, held: &Held, octets: u64) -> Vec<BundleKey> {
        if !self.routers.drops() && !planted(Mutant::DropsWithoutPolicy) {
            return Vec::new();
        }
        let is_going = |key: &BundleKey| held.state(*key) == Some(State::Deleting);
        self.dropped.retain(is_going);
        if !self.dropped.is_empty() || self.routers.is_empty() {
            return Vec::new();
        }
        // Of more copies the next look begins where this one ended: no many that stay hide others.
        let bundles = &self.copies.bundles;
        let copies = bundles
            .range(self.drop_from..)
            .chain(bundles.range(..self.drop_from));
        let mut copies = copies.map(|(key, _)| *key);
        let ranked = copies.by_ref().take(LOOK_BOUND).filter_map(|key| {
            let entry = held.entry(key)?;
            Some((self.drop_rank(held, key, entry)?, key, entry.octets()))
        });
        let mut ranked: Vec<((DropPolicy, u64), BundleKey, u64)> = ranked.collect();
        let next = copies.next();
        self.drop_from = next.unwrap_or(BundleKey(0));
        ranked.sort_unstable_by(|one, other| other.cmp(one));
        let mut free = 0_u64;
        for (_, key, its) in ranked.into_iter().take(DROPPED_BOUND) {
            if free >= octets && !self.dropped.is_empty() {
                break;
            }
            free = free.saturating_add(its);
            self.dropped.push(key);
        }
        self.dropped.clone()
    }

    /// How soon a copy goes, the greatest first; none where it stays. What was made here, is in custody, or is with a session stays.
    fn drop_rank(&self, held: &Held, key: BundleKey, entry: &Entry) -> Option<(DropPolicy, u64)> {
        let is_idle = match entry.state() {
            State::Waiting | State::AwaitingRetry { .. } => true,
            State::InFlight => planted(Mutant::DropsInFlight),
            _ => false,
        };
        let is_anothers = entry.previous().is_some() || planted(Mutant::DropsOwn);
        if !is_idle || !is_anothers || held.custody().has(key) {
            return None;
        }
        let destination = held.endpoints().id(entry.destination());
        let policy = match self.routers.rule(destination).drop {
            DropPolicy::None if planted(Mutant::DropsWithoutPolicy) => DropPolicy::FirstIn,
            policy => policy,
        };
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
            DropPolicy::FirstIn => first_in,
            DropPolicy::MostCopied => router.map_or(0, |it| it.copies_given(key)),
            DropPolicy::NearestExpiry => early(entry.expires()),
            DropPolicy::Largest => entry.octets(),
            DropPolicy::Last => router.and_then(|it| it.place(key)).unwrap_or(first_in),
        };
        Some((policy, rank))
    }
}
