//! Bundles that a restart found, and what the store says of their octets: whole, damaged or gone.

use crate::held::Held;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::{BundleKey, Extents, StoredBundle};
use dhow_bundle::{BundleId, DtnTime, Instant, Now};

use crate::bundles::{Entry, Fragment, Identity, Removal};
use crate::dispatch::unit_of;
use crate::door::Occurrence;
use crate::expiries::Timed;
use crate::node::{Node, Stage};
use crate::retention::{Retention, State, Trigger};

/// The same of bundles that are read whole: a few octets each.
const VERIFYING_SMALL_BOUND: usize = 2048;

/// Bundles that the store compares with their checksums at a time, at most: it does nothing else meanwhile.
const VERIFYING_BOUND: usize = 256;

/// Bundles up to this size are read from the store in one piece; of larger ones only the header blocks.
pub(crate) const READ_WHOLE_OCTETS: u64 = 16 * 1024;

/// How long a comparison with checksums is good for.
const VERIFIED: Duration = Duration::from_secs(60);

impl Held {
    /// The store holds this bundle from an earlier run.
    pub(crate) fn recover(&mut self, now: Now, bundle: &StoredBundle, extents: Extents) {
        // Time that passed while the node was down counts, as far as the wall clock tells.
        let away_ms = if bundle.received.is_known() && now.dtn.is_known() {
            now.dtn
                .as_millis()
                .saturating_sub(bundle.received.as_millis())
        } else {
            0
        };
        let away_ms = if planted(Mutant::TimeOffForgotten) {
            0
        } else {
            away_ms
        };
        let age_ms = bundle.age_at_reception_ms.saturating_add(away_ms);
        let spent_ms = if planted(Mutant::LifetimeAnew) {
            0
        } else {
            age_ms
        };
        let remaining = Duration::from_millis(bundle.lifetime_ms.saturating_sub(spent_ms));
        let fragment = bundle.id.fragment.map(|range| {
            Box::new(Fragment {
                range,
                total_octets: bundle.total_adu_octets,
            })
        });
        if self.endpoints.find(&bundle.destination).is_none() {
            self.expected_octets += crate::queues::queue_octets(&bundle.destination);
        }
        let entry = Entry {
            source: self.endpoints.acquire(&bundle.id.source),
            destination: self.endpoints.acquire(&bundle.destination),
            report_to: self.endpoints.acquire(&bundle.report_to),
            previous: bundle
                .previous
                .as_ref()
                .map(|id| self.endpoints.acquire(id)),
            creation: bundle.id.creation,
            fragment,
            flags: bundle.flags,
            lifetime_ms: bundle.lifetime_ms,
            age_ms: bundle.age_at_reception_ms,
            held_ms: away_ms,
            received: now.monotonic,
            received_dtn: bundle.received,
            expires: now.monotonic + remaining,
            header_octets: bundle.header_octets,
            payload_octets: bundle.payload_octets,
            octets: extents.length(),
            extents,
            order: 0,
            retention: Retention::RECOVERED,
            sound_until: Instant::START,
            returns: 0,
            detour: 0,
            hops: None,
            doomed: None,
            removal: Removal::Deleted,
            timed: Timed::No,
        };
        self.bundles.insert(entry);
    }

    /// Fragments all of which another bundle here has: parts of a bundle that was coming in, left by a crash
    /// beside a longer one or the whole.
    pub(crate) fn covered(&self) -> BTreeSet<BundleKey> {
        let mut units: BTreeMap<_, Vec<(u64, u64, BundleKey)>> = BTreeMap::new();
        for (key, entry) in self.bundles.iter() {
            if let Some((unit, range)) = unit_of(entry) {
                let end = range.offset.saturating_add(range.length);
                units
                    .entry(unit)
                    .or_default()
                    .push((range.offset, end, key));
            }
        }
        let mut covered = BTreeSet::new();
        for (unit, mut fragments) in units {
            let whole = Identity {
                source: unit.source,
                creation: unit.creation,
                fragment: None,
            };
            let mut reached = self.bundles.find(&whole).map_or(0, |_| unit.total_octets);
            fragments.sort_unstable_by_key(|&(offset, end, _)| (offset, core::cmp::Reverse(end)));
            for (_, end, key) in fragments {
                if end <= reached {
                    covered.insert(key);
                }
                reached = reached.max(end);
            }
        }
        covered
    }

    /// What of a bundle, or of the whole that it stands for, has not been compared with its checksums for a
    /// while: the first of it.
    pub(crate) fn unverified(&mut self, now: Now, key: BundleKey) -> Option<BundleKey> {
        let bundles = &self.bundles;
        let is_intact = |key| {
            let entry = bundles.entry(key);
            entry.is_none_or(|entry| entry.sound_until > now.monotonic)
        };
        if !is_intact(key) {
            return Some(key);
        }
        self.reassembly.unsound(key, is_intact)
    }

    /// What a restart found, or a neighbour found wrong, and is not read whole here, is compared with its
    /// checksums by the store before it leaves.
    pub(crate) fn is_doubtful(&self, key: BundleKey) -> bool {
        self.bundles.entry(key).is_some_and(|entry| {
            entry.sound_until == Instant::START && entry.octets > READ_WHOLE_OCTETS
        })
    }

    /// True while another bundle like this one may be compared with its checksums.
    pub(crate) fn may_verify(&self, key: BundleKey) -> bool {
        let entry = self.bundles.entry(key);
        let is_small = entry.is_some_and(|entry| entry.octets <= READ_WHOLE_OCTETS);
        let bound = match is_small {
            true => VERIFYING_SMALL_BOUND,
            false => VERIFYING_BOUND,
        };
        self.verifying.len() < bound
    }

    /// Octets that have lain on disk for a while are compared with their checksums before an application
    /// gets them: nobody after it would notice.
    pub(crate) fn is_stale(&mut self, now: Now, key: BundleKey) -> bool {
        self.unverified(now, key).is_some()
    }
}

impl Node {
    /// Everything is recovered: send each bundle on its way.
    pub(crate) fn finish_recovery(&mut self, now: Now, removed: Vec<(BundleId, DtnTime)>) {
        self.stage = Stage::Working;
        self.held.expected_octets = 0;
        for (id, until) in removed {
            let left_ms = match now.dtn.is_known() {
                true => until.as_millis().saturating_sub(now.dtn.as_millis()),
                false => until.as_millis(),
            };
            let source = self.held.endpoints.acquire(&id.source);
            let identity = Identity {
                source,
                creation: id.creation,
                fragment: id.fragment,
            };
            let left_ms = if planted(Mutant::ConfirmedForgottenAtStart) {
                0
            } else {
                left_ms
            };
            let until = now.monotonic + Duration::from_millis(left_ms);
            self.held.removed.insert(
                now.monotonic,
                &mut self.held.endpoints,
                identity,
                until,
                Removal::Delivered,
                (0, None),
            );
        }
        let covered = self.held.covered();
        for &key in &covered {
            self.delete(now, key, Removal::Deleted, None);
        }
        let keys: Vec<BundleKey> = self.held.bundles.iter().map(|(key, _)| key).collect();
        for key in keys.into_iter().filter(|key| !covered.contains(key)) {
            self.forwarding.keep(&mut self.held, key);
            if self.held.state(key) == Some(State::DispatchPending) {
                self.dispatch(now, key);
            }
        }
    }

    /// A bundle's octets are what was written.
    pub(crate) fn intact(&mut self, now: Now, key: BundleKey) {
        if let Some(entry) = self.held.bundles.entry_mut(key) {
            entry.sound_until = now.monotonic + VERIFIED;
        }
        let key = self.held.reassembly.stand_in(key).unwrap_or(key);
        self.wake(now, key);
    }

    /// A stored bundle is corrupt on disk: it must not be sent or delivered.
    pub(crate) fn corrupt(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let id = self.held.bundle_id(entry);
        self.held.verifying.remove(&key);
        self.outbox.counters.quarantined += 1;
        self.outbox.occurred(Occurrence::Quarantined { id });
        self.take_apart(now, key);
        match self
            .held
            .bundles
            .entry(key)
            .map_or(State::Deleting, |it| it.state())
        {
            // 8: block unintelligible (RFC 9171 table 1), once it is back from where it is.
            State::InFlight => {
                if let Some(entry) = self.held.bundles.entry_mut(key) {
                    entry.doomed = Some(8);
                }
            }
            State::DispatchPending
            | State::Waiting
            | State::Resting { .. }
            | State::Reassembling => {
                self.forwarding.withdraw(&mut self.held, key);
                self.held.expiries.insert(&mut self.held.bundles, key);
                self.held.advance(&mut self.outbox, key, Trigger::Damaged);
            }
            // Nothing of it is read before it leaves by another way, and then it is compared again.
            State::Arriving | State::Kept | State::Sent | State::Quarantined | State::Deleting => {}
        }
    }

    /// A fragment of a whole that nobody holds is damaged: the others wait for a sound one again.
    fn take_apart(&mut self, now: Now, key: BundleKey) {
        let head = self.held.reassembly.stand_in(key).unwrap_or(key);
        let state = self.held.state(head);
        if !matches!(state, Some(State::Waiting | State::Resting { .. })) {
            return;
        }
        if self.held.reassembly.parts(head).is_none() {
            return;
        }
        self.forwarding.withdraw(&mut self.held, head);
        self.held.expiries.insert(&mut self.held.bundles, head);
        let mut again = None;
        let others = self.held.reassembly.dissolve(head);
        for member in others.into_iter().chain([head]) {
            self.held
                .advance(&mut self.outbox, member, Trigger::UnitBroken);
            let Some(entry) = self.held.bundles.entry(member) else {
                continue;
            };
            let unit = unit_of(entry);
            self.held.expiries.insert(&mut self.held.bundles, member);
            // Without the damaged one the whole may still be there, from fragments that overlap.
            if let Some((unit, range)) = unit.filter(|_| member != key)
                && let Some(head) = self.held.reassembly.add(unit, range, member)
            {
                again = Some(head);
            }
        }
        let destination =
            again.and_then(|head| self.held.bundles.entry(head).map(|it| it.destination));
        if let Some((head, destination)) = again.zip(destination) {
            let locality = self
                .held
                .endpoints
                .local()
                .locality(self.held.endpoints.id(destination));
            self.unit_whole(now, head, locality);
        }
    }
}
