//! The dispatch of a stored bundle (RFC 9171 5.3), and the store's answers about one that is arriving.

use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleFlags, FragmentRange, Now, Version};

use crate::driver::Occurrence;
use crate::held::bundles::{Entry, Identity, Removal};
use crate::held::reassembly::UnitId;
use crate::held::removed::Recollection;
use crate::held::retention::{State, Trigger};
use crate::local::Locality;
use crate::node::Node;
use crate::steps::Step;

impl Node {
    /// RFC 9171 5.3: deliver it here or forward it.
    pub(crate) fn dispatch(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let locality = self.held.endpoints().locality(entry.destination());
        if locality == Locality::Remote {
            if self.is_purged(now, key) {
                return;
            }
            let returns = self.held.entry(key).map_or(0, |entry| entry.returns());
            if let Some(duration) = return_delay(returns) {
                self.retry_after(now, key, duration);
            } else {
                self.forwarding.enqueue(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                    key,
                );
            }
            return;
        }
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        if self.held.other_whole(key).is_some() {
            // Fragments made on different ways overlap, and the bundle comes beside them: one whole is enough.
            self.delete(now, key, Removal::Deleted, None);
            return;
        }
        let Some((unit, range)) = unit_of(entry) else {
            self.arrive(now, key, locality);
            return;
        };
        let whole = Identity {
            fragment: None,
            ..entry.identity()
        };
        // Its deletion may not be durable yet.
        let is_leaving = || {
            let whole = self.held.find(&whole);
            let whole = whole.and_then(|key| self.held.entry(key));
            whole.is_some_and(|it| {
                it.state() == State::Deleting && it.removal() == Removal::Delivered
            })
        };
        let is_delivered = is_leaving()
            || self.held.removed().recall(&whole, now.monotonic) == Some(Recollection::Delivered);
        if is_delivered && !planted(Mutant::FragmentOfDeliveredTaken) {
            // The whole came another way while this was on its way here.
            self.delete(now, key, Removal::Deleted, None);
            return;
        }
        // RFC 9171 5.9: a fragment waits until the whole is there.
        self.held
            .advance(&mut self.outbox, key, Trigger::PartOfUnit);
        if planted(Mutant::FragmentAcknowledgesWhole) {
            self.acknowledge_arrival(now, key);
        }
        if let Some(head) = self.held.reassembly_mut().add(unit, range, key) {
            self.outbox.counters.reassembled += 1;
            self.outbox.stepped(&self.held, head, || Step::Assembled);
            self.unit_whole(now, head, locality);
        }
    }

    /// A fragment stands for its unit, which is whole.
    pub(crate) fn unit_whole(&mut self, now: Now, head: BundleKey, locality: Locality) {
        if self
            .held
            .advance(&mut self.outbox, head, Trigger::UnitWhole)
        {
            self.arrive(now, head, locality);
        }
    }

    /// A whole application data unit is at its destination.
    pub(crate) fn arrive(&mut self, now: Now, key: BundleKey, locality: Locality) {
        self.acknowledge_arrival(now, key);
        match locality {
            Locality::Administrative => self.administer(now, key),
            Locality::Echo => self.echo(now, key),
            Locality::Perf => self.measure(now, key),
            Locality::Routing => self.take_advert(now, key),
            Locality::Application | Locality::Remote => {
                if self.delivery.abandons(&self.held, key) {
                    self.delete(now, key, Removal::Deleted, None);
                } else {
                    self.forwarding.enqueue(
                        &mut self.held,
                        &mut self.adjacencies,
                        &mut self.delivery,
                        &mut self.outbox,
                        key,
                    );
                }
            }
        }
    }

    /// A bundle is for the node itself: records of version 6 may be custody signals, and those of a tunnel's peer carry bundles.
    fn administer(&mut self, now: Now, key: BundleKey) {
        let record = self.held.entry(key).filter(|entry| {
            let flags = BundleFlags::from_bits(entry.flags());
            flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
        });
        let Some(record) = record else {
            return self.delivered(now, key);
        };
        if record.version() == Version::V6 {
            return self.take_record(now, key);
        }
        let source = self.held.endpoints().id(record.source());
        let is_possible = self.adjacencies.has_tunnels();
        let tunnel = is_possible.then(|| self.adjacencies.tunnel_with(source));
        match tunnel.flatten() {
            Some(session) => self.take_encapsulating(now, key, session),
            None => self.pass_over_record(now, key),
        }
    }

    /// A record that nobody reads here: a report, or what a tunnel carries whose other end this node does not know.
    fn pass_over_record(&mut self, now: Now, key: BundleKey) {
        if let Some(entry) = self.held.entry(key) {
            let id = self.held.bundle_id(entry);
            self.outbox.counters.records_unread += 1;
            self.outbox.occurred(Occurrence::RecordUnread { id });
        }
        self.delete_rest(now, key);
        self.delete(now, key, Removal::Delivered, None);
    }

    /// A bundle has rested, or what it rested for has come.
    pub(crate) fn wake(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let State::AwaitingRetry { until } = entry.state() else {
            return;
        };
        let locality = self.held.endpoints().locality(entry.destination());
        self.held.end_retry(until, key);
        self.held.advance(&mut self.outbox, key, Trigger::Woken);
        match locality {
            Locality::Echo | Locality::Perf | Locality::Routing | Locality::Administrative => {
                self.arrive(now, key, locality)
            }
            Locality::Application | Locality::Remote => self.forwarding.enqueue(
                &mut self.held,
                &mut self.adjacencies,
                &mut self.delivery,
                &mut self.outbox,
                key,
            ),
        }
    }
}

/// The time that a bundle waits which left this node before and is back: 5 s the first time, twice as long each
/// time after it, up to 10 min.
fn return_delay(returns: u8) -> Option<Duration> {
    let doublings = u32::from(returns.checked_sub(1)?);
    let seconds = 5_u64.saturating_mul(1_u64.checked_shl(doublings.min(32)).unwrap_or(u64::MAX));
    Some(Duration::from_secs(seconds.min(600)))
}

pub(crate) fn unit_of(entry: &Entry) -> Option<(UnitId, FragmentRange)> {
    let fragment = entry.fragment()?;
    Some((UnitId::of(entry), fragment.range))
}
