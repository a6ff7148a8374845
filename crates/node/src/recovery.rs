//! Bundles that a restart found, and the state of their octets in the store: whole, damaged or gone.

use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleId, DtnTime, Now};

use crate::dispatch::unit_of;
use crate::driver::Occurrence;
use crate::held::bundles::{Identity, Removal};
use crate::held::retention::{State, Trigger};
use crate::node::{Node, Stage};

/// The time for which a comparison with checksums holds.
const VERIFIED: Duration = Duration::from_secs(60);

impl Node {
    /// Everything is recovered: send each bundle on its way.
    pub(crate) fn finish_recovery(&mut self, now: Now, removed: Vec<(BundleId, DtnTime)>) {
        self.stage = Stage::Working;
        self.held.end_expectation();
        for (id, until) in removed {
            let left_ms = match now.dtn.is_known() {
                true => until.as_millis().saturating_sub(now.dtn.as_millis()),
                false => until.as_millis(),
            };
            let source = self.held.endpoints_mut().acquire(&id.source);
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
            self.held.remember(
                now.monotonic,
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
        let keys: Vec<BundleKey> = self.held.bundles().iter().map(|(key, _)| key).collect();
        for key in keys.into_iter().filter(|key| !covered.contains(key)) {
            self.forwarding.keep(&mut self.held, key);
            if self.held.state(key) == Some(State::DispatchPending) {
                self.dispatch(now, key);
            }
        }
        self.forwarding.end_recalling();
    }

    /// A bundle's octets are what was written.
    pub(crate) fn intact(&mut self, now: Now, key: BundleKey) {
        if let Some(entry) = self.held.entry_mut(key) {
            entry.set_sound_until(now.monotonic + VERIFIED);
        }
        let key = self.held.reassembly().stand_in(key).unwrap_or(key);
        self.wake(now, key);
    }

    /// A stored bundle is corrupt on disk: it must not be sent or delivered.
    pub(crate) fn corrupt(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let id = self.held.bundle_id(entry);
        self.held.end_verification(key);
        self.outbox.counters.quarantined += 1;
        self.outbox.occurred(Occurrence::Quarantined { id });
        self.take_apart(now, key);
        match self
            .held
            .entry(key)
            .map_or(State::Deleting, |it| it.state())
        {
            // 8: block unintelligible (RFC 9171 table 1), once it is back from where it is.
            State::InFlight => {
                if let Some(entry) = self.held.entry_mut(key) {
                    entry.mark_pending_deletion(8);
                }
            }
            State::DispatchPending
            | State::Waiting
            | State::AwaitingRetry { .. }
            | State::Reassembling => {
                self.forwarding.withdraw(&mut self.held, key);
                self.held.let_expire(key);
                self.held.advance(&mut self.outbox, key, Trigger::Damaged);
            }
            // Nothing of it is read before it leaves by another way, and then it is compared again.
            State::Arriving | State::Kept | State::Sent | State::Quarantined | State::Deleting => {}
        }
    }

    /// A fragment of a whole that nobody holds is damaged: the others wait for a sound one again.
    fn take_apart(&mut self, now: Now, key: BundleKey) {
        let head = self.held.reassembly().stand_in(key).unwrap_or(key);
        let state = self.held.state(head);
        if !matches!(state, Some(State::Waiting | State::AwaitingRetry { .. })) {
            return;
        }
        if self.held.reassembly().parts(head).is_none() {
            return;
        }
        self.forwarding.withdraw(&mut self.held, head);
        self.held.let_expire(head);
        let mut again = None;
        let others = self.held.reassembly_mut().dissolve(head);
        for member in others.into_iter().chain([head]) {
            self.held
                .advance(&mut self.outbox, member, Trigger::UnitBroken);
            let Some(entry) = self.held.entry(member) else {
                continue;
            };
            let unit = unit_of(entry);
            self.held.let_expire(member);
            // Without the damaged one the whole may still be there, from fragments that overlap.
            if let Some((unit, range)) = unit.filter(|_| member != key)
                && let Some(head) = self.held.reassembly_mut().add(unit, range, member)
            {
                again = Some(head);
            }
        }
        let destination = again.and_then(|head| self.held.entry(head).map(|it| it.destination()));
        if let Some((head, destination)) = again.zip(destination) {
            let locality = self
                .held
                .endpoints()
                .local()
                .locality(self.held.endpoints().id(destination));
            self.unit_whole(now, head, locality);
        }
    }
}
