//! Custody of bundles of version 6 on its way from node to node (RFC 5050 5.10 to 5.12, 6.3): taken once a bundle is durable here, told to the
//! custodian before, and kept until a signal says that the next one has it.

use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::v6::admin::AdministrativeRecord;
use dhow_bundle::v7::admin::bibe::Disposition;
use dhow_bundle::{Header, Now, Version};

use crate::adjacencies::session_id::SessionId;
use crate::custody::Outcome;
use crate::held::bundles::{Entry, Removal};
use crate::held::custody::custodian_of;
use crate::held::retention::{State, Trigger};
use crate::node::{Node, Stage};
use crate::reports::{Parcel, ReportKind};
use crate::sending::{PendingRead, is_record};

/// Octets of an administrative record that is read, at most: an aggregate signal of as many runs as are taken has fewer.
const RECORD_OCTETS: usize = 64 * 1024;

/// The lifetime of a custody signal, milliseconds: a custodian that did not hear within a day has sent the bundle again.
const SIGNAL_LIFETIME_MS: u64 = 86_400_000;

/// IBR-DTN writes the status of a signal with "accepted" in the lowest bit, where the reason is: this reason of a failure means nothing else
/// (RFC 5050 6.1.2 reserves it).
const ACCEPTED_OF_IBR_DTN: u8 = 1;

/// The time after which a bundle is tried again that a hop does not take into custody.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// The round trip to the next custodian is not known: the wait is as long as the policy says.
const ROUND_TRIP: Duration = Duration::ZERO;

impl Node {
    /// A bundle that begins to come in may ask for custody. Destinations of routers are left out: copies of a bundle have no custodian.
    pub(crate) fn take_custody(&mut self, key: BundleKey, header: &Header) {
        if header.version() == Version::V6 && self.forwarding.router_of(&self.held, key).is_none() {
            self.held.request_custody(&mut self.outbox, key, header);
        }
    }

    /// A copy of a bundle came that this node holds, or had: its custodian may stop to wait (RFC 5050 6.1.2, "redundant reception").
    pub(crate) fn tell_redundant(&mut self, now: Now, held: Option<BundleKey>, header: &Header) {
        let Some(custodian) = custodian_of(header) else {
            return;
        };
        let is_own = self.held.endpoints().is_here(&custodian.endpoint);
        if is_own || custodian.endpoint.is_null() || planted(Mutant::RedundantNotTold) {
            return;
        }
        let custody = self.held.custody_mut().value_mut();
        match held {
            Some(key) => drop(custody.handle_duplicate(now.monotonic, key, custodian)),
            None => custody.handle_refused(now.monotonic, custodian, Disposition::Redundant),
        }
    }

    /// RFC 5050 5.10.1: report that this node has custody of a bundle, where that is asked for.
    pub(crate) fn report_custody(&mut self, now: Now, key: BundleKey) {
        let entry = self.held.entry(key);
        let subject =
            entry.and_then(|it| self.held.reported(&self.config, it, ReportKind::Accepted));
        if let Some(subject) = subject {
            self.report(now, &subject, ReportKind::Accepted, 0);
        }
    }

    /// A bundle in custody has left, and the next hop has it: it stays until a signal says who has custody.
    pub(crate) fn await_signal(&mut self, now: Now, key: BundleKey) {
        let custody = self.held.custody_mut().value_mut();
        custody.handle_sent(now.monotonic, key, ROUND_TRIP);
        // The next hop had all of it: if no signal comes, all of it leaves again.
        self.forwarding.forget_acknowledged(key);
        self.stay_sent(now, key);
    }

    /// Whether a bundle that leaves through a tunnel stays until the peer signals that it has it (draft-ietf-dtn-bibect-03 4.1). One in custody of
    /// version 6 that leaves as it is has other signals, and copies of routers have none. The carrier of a bundle through another tunnel of this node
    /// is made again, should it be lost, where that bundle is in custody: two tunnels through each other would wait for ever more signals.
    pub(crate) fn asks_peer_for_custody(&self, session: SessionId, key: BundleKey) -> bool {
        let policy = self.adjacencies.tunnel_policy(session);
        let Some(entry) = self.held.entry(key) else {
            return false;
        };
        let has_signals =
            self.held.custody().has(key) && !self.adjacencies.translates(session, entry.version());
        policy.is_some_and(|(_, policy)| policy.custody)
            && self.held.endpoints().id(entry.destination()).is_singleton()
            && !has_signals
            && !self.is_own_carrier(entry)
            && self.forwarding.copies().router(key).is_none()
    }

    /// Whether this node made a bundle to carry another through a tunnel.
    fn is_own_carrier(&self, entry: &Entry) -> bool {
        let destination = self.held.endpoints().id(entry.destination());
        entry.previous().is_none()
            && is_record(entry.flags())
            && self.adjacencies.tunnel_with(destination).is_some()
    }

    /// A bundle has left through a tunnel whose peer was asked for custody.
    pub(crate) fn await_peer(&mut self, now: Now, key: BundleKey) {
        match self.held.custody().value().is_encapsulated(key) {
            true => self.stay_sent(now, key),
            // The time for its signal was over before the disk was ready.
            false => self.put_back(now, key),
        }
    }

    /// An administrative record of version 6 is for this node: read it.
    pub(crate) fn take_record(&mut self, now: Now, key: BundleKey) {
        if self.held.is_stale(now, key) {
            self.verify(now, key);
            return;
        }
        let extents = self.held.payload_start(key, RECORD_OCTETS + 1);
        if extents.is_empty() {
            self.delivered(now, key);
            return;
        }
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        self.held.read(
            &mut self.outbox,
            PendingRead::Record { key },
            Extents::Many(extents.into()),
        );
    }

    /// The record is here. One that is no custody signal says nothing to the node.
    pub(crate) fn hear_record(&mut self, now: Now, key: BundleKey, octets: &Bytes) {
        match AdministrativeRecord::decode(octets) {
            Ok(AdministrativeRecord::CustodySignal(signal)) => {
                let is_success = signal.is_success || signal.reason == ACCEPTED_OF_IBR_DTN;
                let disposition = Disposition::from_signal(is_success, signal.reason);
                let subject = self.held.signalled(&signal.subject, disposition.releases());
                let custody = self.held.custody_mut().value_mut();
                match subject {
                    Some(subject) => custody.handle_signal(subject, disposition),
                    None => self.outbox.counters.signals_ignored += 1,
                }
            }
            Ok(AdministrativeRecord::AggregateSignal(signal)) => {
                let disposition = Disposition::from_signal(signal.is_success, signal.reason);
                let custody = self.held.custody_mut().value_mut();
                custody.handle_aggregate(disposition, &signal.runs);
            }
            Ok(AdministrativeRecord::StatusReport(_)) | Err(_) => {}
        }
        self.delivered(now, key);
    }

    /// Work of custody that is due: bundles that others have, or that leave again, and signals to custodians.
    pub(crate) fn attend_custody(&mut self, now: Now) {
        let due = self.held.custody().value().poll_timeout();
        if due.is_none_or(|due| due > now.monotonic) || self.stage != Stage::Working {
            return;
        }
        while self.outbox.has_turn_left()
            && let Some((key, outcome)) = self
                .held
                .custody_mut()
                .value_mut()
                .poll_outcome(now.monotonic)
        {
            match outcome {
                Outcome::Released => self.custody_released(now, key),
                Outcome::ForwardElsewhere(_) => self.leave_again(now, key, Some(REFUSED_RETRY)),
                Outcome::SendAgain => self.leave_again(now, key, None),
            }
        }
        while self.outbox.has_turn_left()
            && let Some(signal) = self.held.custody_mut().value_mut().poll_signal(now)
        {
            let parcel = Parcel {
                version: Version::V6,
                report_to: signal.custodian,
                lifetime_ms: SIGNAL_LIFETIME_MS,
                record: signal.record.encode().into(),
            };
            // Without room nothing is said: the custodian sends its bundle again.
            if planted(Mutant::SignalNotSent) {
                continue;
            }
            if let Some(key) = self.send_record(now, parcel) {
                self.outbox.counters.signals_sent += 1;
                self.held.custody_mut().note_signal(key, signal.settles);
            }
        }
        while self.outbox.has_turn_left()
            && let Some((peer, record)) =
                (self.held.custody_mut().value_mut()).poll_bibe_signal(now.monotonic)
        {
            let parcel = Parcel {
                version: Version::V7,
                report_to: peer,
                lifetime_ms: SIGNAL_LIFETIME_MS,
                record,
            };
            if self.send_record(now, parcel).is_some() {
                self.outbox.counters.signals_sent += 1;
            }
        }
    }

    /// RFC 5050 5.11: another node has custody. The bundle goes, unless it is leaving once more: then it goes when that is over.
    fn custody_released(&mut self, now: Now, key: BundleKey) {
        match self.held.state(key) {
            Some(State::Sent | State::Waiting | State::AwaitingRetry { .. }) => {
                self.delete(now, key, Removal::Forwarded, None);
            }
            Some(State::InFlight) => self.held.custody_mut().release_leaving(key),
            _ => {}
        }
    }

    /// RFC 5050 5.12: no signal came in time, or a hop does not take custody. The bundle leaves again, at once or later.
    pub(crate) fn leave_again(&mut self, now: Now, key: BundleKey, after: Option<Duration>) {
        if self.held.state(key) != Some(State::Sent) {
            return;
        }
        // All of it leaves: octets that a next hop has are in nobody's custody before a signal says so.
        self.forwarding.forget_acknowledged(key);
        self.held.advance(&mut self.outbox, key, Trigger::Woken);
        match after {
            Some(duration) => drop(self.retry_after(now, key, duration)),
            None => self.put_back(now, key),
        }
    }
}
