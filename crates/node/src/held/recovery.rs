//! Bundles that a restart found.

use crate::dispatch::unit_of;
use crate::held::Held;
use crate::held::bundles::Fragment;
use crate::held::bundles::Identity;
use crate::held::bundles::{HeldTime, NewEntry};
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::Instant;
use dhow_bundle::Now;
use dhow_bundle::Version;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Extents;
use dhow_bundle::storage::StoredBundle;

impl Held {
    /// The store holds this bundle from an earlier run.
    pub(crate) fn recover(
        &mut self,
        now: Now,
        bundle: &StoredBundle,
        extents: Extents,
    ) -> BundleKey {
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
        let fragment = bundle.id.fragment.map(|range| Fragment {
            range,
            total_octets: bundle.total_adu_octets,
        });
        if self.endpoints.find(&bundle.destination).is_none() {
            self.expected_octets += crate::forwarding::queues::queue_octets(&bundle.destination);
        }
        let entry = NewEntry {
            source: self.endpoints.acquire(&bundle.id.source),
            destination: self.endpoints.acquire(&bundle.destination),
            report_to: self.endpoints.acquire(&bundle.report_to),
            previous: bundle
                .previous
                .as_ref()
                .map(|id| self.endpoints.acquire(id)),
            creation: bundle.id.creation,
            fragment,
            // One of a version that no node holds is found damaged when it is read.
            version: Version::of_number(bundle.version).unwrap_or_default(),
            flags: bundle.flags,
            reads_aggregated_reports: bundle.reads_aggregated_reports,
            priority: bundle.priority,
            lifetime_ms: bundle.lifetime_ms,
            expires: now.monotonic + remaining,
            header_octets: bundle.header_octets,
            payload_octets: bundle.payload_octets,
            octets: extents.length(),
            held: HeldTime::Recovered {
                now: now.monotonic,
                held_ms: away_ms,
                extents,
            },
            sound_until: Instant::START,
            returns: 0,
            hops: None,
        };
        self.bundles.insert(entry)
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
}
