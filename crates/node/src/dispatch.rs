//! Where a stored bundle goes, and how it ends (RFC 9171 5.3, 5.5, 5.10, 5.11).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::{BundleKey, Extents, StoreCommand, StoreRefusal, StoredBundle};
use dhow_bundle::{BundleId, DtnTime, FragmentRange, Instant, Now};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::admission::dtn_expiry;
use crate::api::seam::{ApiRefusal, RequestId};
use crate::bundles::{Entry, Fragment, Identity, Removal, State};
use crate::door::{Occurrence, StreamId};
use crate::endpoints::EndpointIndex;
use crate::local::Locality;
use crate::node::{Node, Stage};
use crate::queues::Place;
use crate::reassembly::UnitId;
use crate::reception::Refused;
use crate::reports::{ReportKind, Subject};
use crate::routing::Hop;

/// How long the store may take to compare a bundle with its checksums before it is asked again.
const VERIFY_PATIENCE: Duration = Duration::from_secs(60);

/// Where a bundle that is arriving comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A neighbour's transfer, to be acknowledged.
    Neighbour {
        stream: StreamId,
        transfer: TransferId,
    },
    /// An application's request, to be answered.
    Client {
        stream: StreamId,
        request: RequestId,
    },
    /// The node itself.
    Own,
}

/// A bundle on its way into the store.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) origin: Origin,
    /// Octets given to the store.
    pub(crate) appended: u64,
    /// Octets that the store has reported durable.
    pub(crate) durable: u64,
}

impl Arrival {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            appended: 0,
            durable: 0,
        }
    }
}

impl Node {
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
        let age_ms = bundle.age_at_reception_ms.saturating_add(away_ms);
        let remaining = Duration::from_millis(bundle.lifetime_ms.saturating_sub(age_ms));
        let fragment = bundle.id.fragment.map(|range| {
            Box::new(Fragment {
                range,
                total_octets: bundle.total_adu_octets,
            })
        });
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
            age_ms,
            received: now.monotonic,
            received_dtn: bundle.received,
            expires: now.monotonic + remaining,
            header_octets: bundle.header_octets,
            payload_octets: bundle.payload_octets,
            octets: extents.length(),
            extents,
            order: 0,
            state: State::Waiting,
            verified: false,
            doomed: None,
            removal: Removal::Deleted,
        };
        self.bundles.insert(entry);
    }

    /// Everything is recovered: send each bundle on its way.
    pub(crate) fn finish_recovery(&mut self, now: Now, removed: Vec<(BundleId, DtnTime)>) {
        self.stage = Stage::Working;
        for (id, until) in removed {
            let left_ms = match now.dtn.is_known() {
                true => until.as_millis().saturating_sub(now.dtn.as_millis()),
                false => until.as_millis(),
            };
            let source = self.endpoints.acquire(&id.source);
            let identity = Identity {
                source,
                creation: id.creation,
                fragment: id.fragment,
            };
            let until = now.monotonic + Duration::from_millis(left_ms);
            self.removed.insert(
                &mut self.endpoints,
                identity,
                until,
                Removal::Delivered,
                None,
            );
        }
        let keys: Vec<BundleKey> = self.bundles.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.keep(key);
            self.dispatch(now, key);
        }
    }

    /// A bundle's octets are complete: keep it.
    pub(crate) fn commit(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let bundle = Box::new(self.stored_bundle(entry));
        self.store(StoreCommand::Commit { key, bundle });
    }

    /// A bundle that is arriving will not be completed, or is not wanted any more.
    pub(crate) fn abandon(&mut self, key: BundleKey) {
        self.forget_arrival(key);
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.state = State::Deleting;
            entry.removal = Removal::Deleted;
        }
        self.store(StoreCommand::Abandon { key });
    }

    fn forget_arrival(&mut self, key: BundleKey) -> Option<Arrival> {
        let arrival = self.arrivals.remove(&key)?;
        let left = arrival.appended.saturating_sub(arrival.durable);
        self.backlog_octets = self.backlog_octets.saturating_sub(left);
        Some(arrival)
    }

    /// Octets of a bundle that is arriving are durable. They are acknowledged only with the whole: a
    /// peer may resume after acknowledged octets with a fragment, and what came before would be lost
    /// with a transfer that fails.
    pub(crate) fn appended(&mut self, key: BundleKey, octets: u64) {
        if let Some(arrival) = self.arrivals.get_mut(&key) {
            let more = octets.saturating_sub(arrival.durable);
            arrival.durable = arrival.durable.max(octets);
            self.backlog_octets = self.backlog_octets.saturating_sub(more);
        }
    }

    /// A bundle is durable: say so to whom it came from, and send it on its way.
    pub(crate) fn committed(&mut self, now: Now, key: BundleKey, extents: Extents) {
        let arrival = self.forget_arrival(key);
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.extents = extents;
        entry.state = State::Waiting;
        let octets = entry.octets;
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let id = self.bundle_id(entry);
        let subject = self.subject(entry);
        match arrival.map(|arrival| arrival.origin) {
            Some(Origin::Neighbour { stream, transfer }) => {
                self.counters.received += 1;
                self.counters.received_octets += octets;
                if let Some(neighbour) = self.neighbours.get_mut(&stream) {
                    neighbour.bundles_received += 1;
                    neighbour.octets_received += octets;
                    if let Some(from) = neighbour.peer_id().cloned() {
                        self.occurred(Occurrence::Received { id, from, octets });
                    }
                }
                self.command(now, stream, LinkCommand::Acknowledge { transfer, octets });
                self.report(now, &subject, ReportKind::Received, 0);
            }
            Some(Origin::Client { stream, request }) => {
                self.counters.created += 1;
                let outcome = Ok((id.source.clone(), id.creation));
                self.occurred(Occurrence::Created { id, octets });
                self.transmission_done(now, stream, request, outcome);
            }
            Some(Origin::Own) | None => self.counters.created += 1,
        }
        self.keep(key);
        self.dispatch(now, key);
    }

    /// Give a bundle its place in the order of arrival and its expiry.
    fn keep(&mut self, key: BundleKey) {
        let order = self.order();
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.order = order;
            self.expiries.insert((entry.expires, key));
        }
    }

    /// RFC 9171 5.3: deliver it here or forward it.
    fn dispatch(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let locality = self.local.locality(self.endpoints.id(entry.destination));
        if locality == Locality::Remote {
            self.enqueue(key);
            return;
        }
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let Some((unit, range)) = unit_of(entry) else {
            self.arrive(now, key, locality);
            return;
        };
        // RFC 9171 5.9: a fragment waits until the whole is there.
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.state = State::Reassembling;
        }
        if let Some(head) = self.reassembly.add(unit, range, key) {
            self.counters.reassembled += 1;
            self.arrive(now, head, locality);
        }
    }

    /// A whole application data unit is at its destination.
    fn arrive(&mut self, now: Now, key: BundleKey, locality: Locality) {
        match locality {
            Locality::Administrative => self.delivered(now, key),
            Locality::Echo => self.echo(now, key),
            Locality::Application | Locality::Remote => {
                if self.abandons(key) {
                    self.delete(now, key, Removal::Deleted, None);
                } else {
                    self.enqueue(key);
                }
            }
        }
    }

    /// Put a bundle into its destination's queue and wake who could take it.
    pub(crate) fn enqueue(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.state = State::Waiting;
        let (destination, place) = (entry.destination, place(entry));
        let (routes, endpoints, local) = (&self.routes, &self.endpoints, &self.local);
        self.queues.push(destination, place, key, || {
            let id = endpoints.id(destination);
            if local.locality(id) == Locality::Remote {
                routes.hops(id)
            } else {
                Vec::new()
            }
        });
        if self.is_own(self.endpoints.id(destination)) {
            self.to_deliver.insert(destination);
            return;
        }
        for hop in self.queues.hops(destination) {
            match hop {
                Hop::Peer(peer) => self
                    .to_serve
                    .extend(self.peers.get(peer).into_iter().flatten()),
                Hop::Link(link) => {
                    let link = usize::try_from(link.0)
                        .ok()
                        .and_then(|link| self.links.get(link));
                    self.to_serve
                        .extend(link.into_iter().flat_map(|link| &link.streams));
                }
            }
        }
    }

    /// Take a waiting bundle out of its queue.
    pub(crate) fn dequeue(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.state = State::InFlight;
        let (destination, place) = (entry.destination, place(entry));
        self.queues.remove(destination, place, key);
    }

    /// A bundle is back from where it was in flight without having been taken.
    pub(crate) fn put_back(&mut self, now: Now, key: BundleKey) {
        let doomed = self.bundles.entry(key).and_then(|entry| entry.doomed);
        match doomed {
            Some(reason) => self.delete(now, key, Removal::Deleted, Some(reason)),
            None => self.enqueue(key),
        }
    }

    /// Let a bundle rest before it is tried again.
    pub(crate) fn rest(&mut self, now: Now, key: BundleKey, duration: Duration) {
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.state = State::Resting;
            self.rests.insert((now.monotonic + duration, key));
        }
    }

    /// A bundle has rested.
    pub(crate) fn wake(&mut self, key: BundleKey) {
        if self
            .bundles
            .entry(key)
            .is_some_and(|entry| entry.state == State::Resting)
        {
            self.enqueue(key);
        }
    }

    /// RFC 9171 5.5: a bundle's age has exceeded its lifetime.
    pub(crate) fn expire(&mut self, now: Now, key: BundleKey) {
        self.doom_or_delete(now, key, 1);
    }

    /// Delete a bundle for a reason, as soon as nobody is busy with it.
    pub(crate) fn doom_or_delete(&mut self, now: Now, key: BundleKey, reason: u64) {
        // A fragment of a whole goes the way of the whole.
        let key = self.reassembly.stand_in(key).unwrap_or(key);
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        match entry.state {
            State::Deleting | State::Arriving => {}
            State::InFlight => entry.doomed = Some(reason),
            State::Waiting | State::Reassembling | State::Resting | State::Quarantined => {
                self.delete(now, key, Removal::Deleted, Some(reason));
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
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        if entry.state == State::Deleting {
            return;
        }
        if let Some(reason) = reason {
            let (subject, id) = (self.subject(entry), self.bundle_id(entry));
            if reason == 1 {
                self.counters.expired += 1;
            } else {
                self.counters.deleted += 1;
            }
            self.report(now, &subject, ReportKind::Deleted, reason);
            self.occurred(Occurrence::Deleted { id, reason });
        }
        self.withdraw(key);
        let whole = self.reassembly.parts(key).is_some();
        for member in self.reassembly.dissolve(key) {
            self.delete(now, member, removal, None);
        }
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.state = State::Deleting;
        entry.removal = removal;
        let expires = entry.expires;
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let mut id = self.bundle_id(entry);
        if whole {
            // What was delivered is the whole: no fragment of it is wanted again.
            id.fragment = None;
        }
        let remember = (removal == Removal::Delivered).then(|| (id, dtn_expiry(expires, now)));
        if whole && removal == Removal::Delivered {
            let identity = Identity {
                fragment: None,
                ..entry.identity()
            };
            let source = self.endpoints.retain(identity.source);
            let identity = Identity { source, ..identity };
            self.removed
                .insert(&mut self.endpoints, identity, expires, removal, None);
        }
        self.store(StoreCommand::Delete { key, remember });
    }

    /// Take a bundle out of everything that waits or counts time for it.
    fn withdraw(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        self.expiries.remove(&(entry.expires, key));
        match entry.state {
            State::Waiting => {
                let (destination, place) = (entry.destination, place(entry));
                self.queues.remove(destination, place, key);
            }
            State::Reassembling => {
                if let Some((unit, range)) = unit_of(entry) {
                    self.reassembly.remove(&unit, range, key);
                }
            }
            // A resting bundle's timer finds nothing that rests.
            State::Arriving
            | State::InFlight
            | State::Resting
            | State::Quarantined
            | State::Deleting => {}
        }
    }

    /// A deletion is durable.
    pub(crate) fn deleted(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.bundles.remove(key) else {
            return;
        };
        self.endpoints.release(entry.destination);
        self.endpoints.release(entry.report_to);
        let _ = now;
        match entry.removal {
            Removal::Deleted => {
                self.endpoints.release(entry.source);
                if let Some(previous) = entry.previous {
                    self.endpoints.release(previous);
                }
            }
            removal => {
                let identity = entry.identity();
                self.removed.insert(
                    &mut self.endpoints,
                    identity,
                    entry.expires,
                    removal,
                    entry.previous,
                );
            }
        }
    }

    pub(crate) fn relocated(&mut self, key: BundleKey, extents: Extents) {
        let Some(entry) = self.bundles.entry_mut(key) else {
            return;
        };
        entry.extents = extents;
        if entry.state == State::InFlight || self.reassembly.stand_in(key).is_some() {
            // Somebody may still read the old places: released when the bundle is back.
            self.moved.insert(key);
        } else {
            self.store(StoreCommand::Released { key });
        }
    }

    /// The store could not keep a bundle that was arriving.
    pub(crate) fn store_refused(&mut self, now: Now, key: BundleKey, refusal: StoreRefusal) {
        let Some(arrival) = self.forget_arrival(key) else {
            return;
        };
        self.occurred(Occurrence::StoreRefused { refusal });
        let why = match refusal {
            StoreRefusal::Full => "the store is full",
            StoreRefusal::Disk => "the disk failed",
        };
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.state = State::Deleting;
        }
        self.store(StoreCommand::Abandon { key });
        match arrival.origin {
            Origin::Neighbour { stream, transfer } => {
                if let Some(neighbour) = self.neighbours.get_mut(&stream) {
                    neighbour.receptions.remove(&transfer);
                }
                let refused = Refused {
                    reason: RefuseReason::NoResources,
                    why: why.into(),
                };
                self.refuse(now, stream, transfer, refused);
            }
            Origin::Client { stream, request } => {
                self.transmission_done(
                    now,
                    stream,
                    request,
                    Err(ApiRefusal::NoResources(why.into())),
                );
            }
            Origin::Own => {}
        }
    }

    /// Ask the store whether a bundle from an earlier run is what was written; it is back when the answer
    /// comes, or after a while when the disk gives none.
    pub(crate) fn verify(&mut self, now: Now, key: BundleKey) {
        self.rest(now, key, VERIFY_PATIENCE);
        self.store(StoreCommand::Verify { key });
        self.verifying += 1;
    }

    /// A bundle's octets are what was written.
    pub(crate) fn intact(&mut self, key: BundleKey) {
        self.verifying = self.verifying.saturating_sub(1);
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.verified = true;
        }
        self.wake(key);
    }

    /// A stored bundle is corrupt on disk: it must not be sent or delivered.
    pub(crate) fn corrupt(&mut self, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let (id, state) = (self.bundle_id(entry), entry.state);
        self.verifying = self.verifying.saturating_sub(1);
        self.counters.quarantined += 1;
        self.occurred(Occurrence::Quarantined { id });
        match state {
            // 8: block unintelligible (RFC 9171 table 1), once it is back from where it is.
            State::InFlight => {
                if let Some(entry) = self.bundles.entry_mut(key) {
                    entry.doomed = Some(8);
                }
            }
            State::Waiting | State::Resting | State::Reassembling => {
                let expiry = self.bundles.entry(key).map(|entry| entry.expires);
                self.withdraw(key);
                self.expiries.extend(expiry.map(|at| (at, key)));
                if let Some(entry) = self.bundles.entry_mut(key) {
                    entry.state = State::Quarantined;
                }
            }
            State::Arriving | State::Quarantined | State::Deleting => {}
        }
    }

    pub(crate) fn subject(&self, entry: &Entry) -> Subject {
        Subject {
            id: self.bundle_id(entry),
            flags: entry.flags,
            report_to: self.endpoints.id(entry.report_to).clone(),
            lifetime_ms: entry.lifetime_ms,
        }
    }

    /// The endpoint's registration says that bundles are not kept while nobody takes them.
    fn abandons(&self, key: BundleKey) -> bool {
        self.bundles
            .entry(key)
            .is_some_and(|entry| self.registrations.abandons(entry.destination))
    }

    /// A bundle held under this identity.
    pub(crate) fn find_bundle(&self, id: &BundleId) -> Option<BundleKey> {
        let source: EndpointIndex = self.endpoints.find(&id.source)?;
        self.bundles.find(&Identity {
            source,
            creation: id.creation,
            fragment: id.fragment,
        })
    }
}

/// A bundle's places in its queue.
pub(crate) fn place(entry: &Entry) -> Place {
    Place {
        arrival: entry.order,
        expiry: instant_order(entry.expires),
    }
}

fn instant_order(at: Instant) -> u64 {
    at.as_nanos()
}

fn unit_of(entry: &Entry) -> Option<(UnitId, FragmentRange)> {
    let fragment = entry.fragment.as_ref()?;
    let unit = UnitId {
        source: entry.source,
        creation: entry.creation,
        destination: entry.destination,
        total_octets: fragment.total_octets,
    };
    Some((unit, fragment.range))
}
