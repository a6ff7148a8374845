//! The end of a stored bundle (RFC 9171 5.5, 5.10, 5.11).

use crate::held::reassembly::UnitId;
use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, StoreCommand};

use crate::admission::dtn_expiry;
use crate::driver::Occurrence;
use crate::held::bundles::{Identity, Removal};
use crate::held::retention::{State, Trigger};
use crate::node::Node;
use crate::reports::ReportKind;

impl Node {
    /// RFC 9171 5.5: a bundle's age has exceeded its lifetime.
    pub(crate) fn expire(&mut self, now: Now, key: BundleKey) {
        self.delete_or_mark(now, key, 1);
    }

    /// Whether a bundle has expired whose turn to be deleted has not come: it is, and goes nowhere.
    pub(crate) fn has_expired(&mut self, now: Now, key: BundleKey) -> bool {
        let expires = self.held.entry(key).map(|entry| entry.expires());
        let has_expired = expires.is_some_and(|at| at <= now.monotonic);
        if has_expired {
            self.expire(now, key);
        }
        has_expired
    }

    /// Delete a bundle for a reason, as soon as nobody is busy with it.
    pub(crate) fn delete_or_mark(&mut self, now: Now, key: BundleKey, reason: u8) {
        // A fragment of a whole goes the way of the whole.
        let key = self.held.reassembly().stand_in(key).unwrap_or(key);
        let Some(entry) = self.held.entry_mut(key) else {
            return;
        };
        match entry.state() {
            State::Deleting | State::Arriving | State::Kept => {}
            State::InFlight => entry.mark_pending_deletion(reason),
            State::DispatchPending
            | State::Waiting
            | State::Reassembling
            | State::AwaitingRetry { .. }
            | State::Sent
            | State::Quarantined => {
                self.delete(now, key, Removal::Deleted, Some(u64::from(reason)));
            }
        }
    }

    /// RFC 9171 5.10: delete a bundle; with a reason, report it where that is asked for.
    pub(crate) fn delete(
        &mut self,
        now: Now,
        key: BundleKey,
        removal: Removal,
        reason: Option<u64>,
    ) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        if entry.state() == State::Deleting {
            return;
        }
        if let Some(reason) = reason {
            let (subject, id) = (self.held.subject(entry), self.held.bundle_id(entry));
            if reason == 1 {
                self.outbox.counters.expired += 1;
            } else {
                self.outbox.counters.deleted += 1;
            }
            self.report(now, &subject, ReportKind::Deleted, reason);
            self.outbox.occurred(Occurrence::Deleted { id, reason });
        }
        self.held.release_moved(&mut self.outbox, key);
        self.forwarding.withdraw(&mut self.held, key);
        let whole = self.held.reassembly().parts(key).is_some();
        for member in self.held.reassembly_mut().dissolve(key) {
            self.delete(now, member, removal, None);
        }
        self.held.advance(&mut self.outbox, key, Trigger::Deleted);
        let Some(entry) = self.held.entry_mut(key) else {
            return;
        };
        entry.set_removal(removal);
        let expires = entry.expires();
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let remember = (removal == Removal::Delivered && !planted(Mutant::ConfirmationNotKept))
            .then(|| {
                let mut id = self.held.bundle_id(entry);
                if whole {
                    // The whole was delivered: no fragment of it is wanted again.
                    id.fragment = None;
                }
                (id, dtn_expiry(expires, now))
            });
        let (destination, identity) = (entry.destination(), entry.identity());
        if whole && removal == Removal::Delivered {
            let identity = Identity {
                fragment: None,
                ..identity
            };
            let source = self.held.endpoints_mut().retain(identity.source);
            let identity = Identity { source, ..identity };
            self.held
                .remember(now.monotonic, identity, expires, removal, (0, None));
        }
        self.forwarding.forget(&self.held, destination, key);
        self.held.let_go(now, key);
        self.reporting
            .store_behind_reports(&mut self.outbox, StoreCommand::Delete { key, remember });
    }

    /// A deletion is durable.
    pub(crate) fn deleted(&mut self, now: Now, key: BundleKey) {
        self.held.backlog_mut().release(key);
        let Some(entry) = self.held.bundles_mut().remove(key) else {
            return;
        };
        self.held.end_leaving(key);
        self.held.note_anonymous(now, &entry);
        if !planted(Mutant::RoomOfDeletedKept) {
            self.held.end_sharing(key);
        }
        self.reporting.collections.forget(key);
        self.held.endpoints_mut().release(entry.destination());
        self.held.endpoints_mut().release(entry.report_to());
        if let Some(previous) = entry.previous() {
            self.held.endpoints_mut().release(previous);
        }
        match entry.removal() {
            Removal::Deleted => self.held.endpoints_mut().release(entry.source()),
            removal => {
                let identity = entry.identity();
                let returned = (entry.returns(), entry.hops());
                self.held
                    .remember(now.monotonic, identity, entry.expires(), removal, returned);
            }
        }
    }

    /// RFC 9171 5.7 step 3: a bundle is delivered.
    pub(crate) fn delivered(&mut self, now: Now, key: BundleKey) {
        self.tell_delivered(now, key);
        self.delete_rest(now, key);
        self.delete(now, key, Removal::Delivered, None);
    }

    /// Tell of the delivery of a bundle: a status report, where one is asked for, and an occurrence for the driver.
    pub(crate) fn tell_delivered(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let whole = self.held.reassembly().parts(key).is_some();
        let (mut subject, mut id) = (
            self.held
                .reported(&self.config, entry, ReportKind::Delivered),
            self.held.told(&mut self.outbox, entry),
        );
        if whole {
            for id in subject.iter_mut().map(|it| &mut it.id).chain(&mut id) {
                id.fragment = None;
            }
        }
        let (destination, octets) = (entry.destination(), entry.payload_octets());
        self.outbox.counters.delivered += 1;
        if let Some(subject) = subject.filter(|_| !planted(Mutant::DeliveryNotReported)) {
            self.report(now, &subject, ReportKind::Delivered, 0);
        }
        if let Some(id) = id {
            let endpoint = self.held.endpoints().id(destination).clone();
            self.outbox.occurred(Occurrence::Delivered {
                id,
                endpoint,
                octets,
            });
        }
    }

    /// Fragments that came beside a bundle which is delivered have nothing to wait for.
    pub(crate) fn delete_rest(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let unit = UnitId::of(entry);
        // RFC 9171 4.2.3: without a source they are another bundle's.
        if self.held.endpoints().id(entry.source()).is_null() {
            return;
        }
        if planted(Mutant::FragmentsLeftBehind) {
            return;
        }
        for fragment in self.held.reassembly_mut().take(&unit) {
            self.delete(now, fragment, Removal::Deleted, None);
        }
    }
}
