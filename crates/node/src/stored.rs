//! The answers of the store about bundles that are arriving: durable, or refused.

use crate::api::seam::ApiRefusal;
use crate::driver::Occurrence;
use crate::held::arrivals::Origin;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::reception::Refused;
use crate::reports::ReportKind;
use alloc::format;
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Extents;
use dhow_bundle::storage::StoreRefusal;
use dhow_link::stream::RefuseReason;

/// "Depleted storage" (RFC 9171 9.5).
const DEPLETED_STORAGE: u8 = 4;

impl Node {
    /// A bundle is durable: say so to its giver, and send it on its way.
    pub(crate) fn committed(&mut self, now: Now, key: BundleKey, extents: Extents) {
        let arrival = self.held.forget_arrival(key);
        if let Some(arrival) = &arrival {
            self.held
                .backlog_mut()
                .settle(arrival.origin, arrival.waiting());
        }
        let takes_custody = self.held.custody_mut().stored(now.monotonic, key);
        let is_part = matches!(&arrival, Some(it) if it.origin == Origin::ReactiveFragment);
        match is_part {
            true => self
                .held
                .advance(&mut self.outbox, key, Trigger::PartStored),
            false => self.held.advance(&mut self.outbox, key, Trigger::Stored),
        };
        let Some(entry) = self.held.entry_mut(key) else {
            return;
        };
        entry.set_extents(extents);
        let octets = entry.octets();
        if !self.held.reactive().is_empty() {
            self.drop_reactive(now, key);
        }
        if !is_part {
            self.tell_stored(key);
        }
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        match arrival.map(|arrival| arrival.origin) {
            Some(Origin::Neighbour { session, transfer }) => {
                let subject = self
                    .held
                    .reported(&self.config, entry, ReportKind::Received);
                let id = self.held.told(&mut self.outbox, entry);
                self.outbox.counters.count_received(now.monotonic, octets);
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.bundles_received += 1;
                    neighbour.octets_received += octets;
                    if let Some((id, from)) = id.zip(neighbour.sender_id().cloned()) {
                        self.outbox
                            .occurred(Occurrence::Received { id, from, octets });
                    }
                }
                self.forwarding.acknowledge(
                    &mut self.adjacencies,
                    &mut self.attention,
                    now,
                    key,
                    (session, transfer),
                    octets,
                );
                if let Some(subject) = subject {
                    self.report(now, &subject, ReportKind::Received, 0);
                }
                if takes_custody {
                    self.report_custody(now, key);
                }
            }
            Some(Origin::Client { stream, request }) => {
                let outcome = Ok((
                    self.held.endpoints().id(entry.source()).clone(),
                    entry.creation(),
                ));
                let id = self.held.told(&mut self.outbox, entry);
                self.outbox.counters.created += 1;
                if let Some(id) = id {
                    self.outbox.occurred(Occurrence::Created { id, octets });
                }
                self.delivery
                    .transmission_done(&mut self.attention, now, stream, request, outcome);
            }
            Some(Origin::ReactiveFragment) => return self.part_kept(now, key),
            Some(Origin::Own) | None => self.outbox.counters.created += 1,
            Some(Origin::Encapsulating { session, transfer }) => {
                self.outbox.counters.created += 1;
                self.adjacencies
                    .encapsulated(&mut self.attention, (session, transfer), None);
            }
        }
        self.forwarding.keep(&mut self.held, key);
        if self.reporting.collections.is_part(key) {
            self.part_stored(now, key);
        } else if !self.finish_cut_through(now, key) {
            self.dispatch(now, key);
        } else if let Some(entry) = self.held.entry(key) {
            self.forwarding.leave_turn(entry.order());
        }
    }

    /// Octets of a bundle that is arriving are durable. They are acknowledged only with the whole, or once a
    /// fragment holds them: a peer may resume after acknowledged octets with a fragment, and what came before
    /// would be lost with a transfer that fails.
    pub(crate) fn appended(&mut self, now: Now, key: BundleKey, octets: u64) {
        if self.held.note_durable(key, octets) {
            self.held.keep_more(
                &mut self.adjacencies,
                &mut self.outbox,
                &self.config,
                now,
                key,
            );
        }
    }

    /// The store could not keep a bundle that was arriving.
    pub(crate) fn store_refused(&mut self, now: Now, key: BundleKey, refusal: StoreRefusal) {
        let Some(arrival) = self.held.end_arrival(key) else {
            // It was promised kept before it was durable, and the disk has failed since.
            self.outbox.occurred(Occurrence::StoreRefused { refusal });
            self.delete_or_mark(now, key, DEPLETED_STORAGE);
            return;
        };
        self.outbox.occurred(Occurrence::StoreRefused { refusal });
        self.held.end_rivalry(key);
        self.end_reactive(now, key, None);
        let why = match refusal {
            StoreRefusal::Full => {
                format!("the store is full: {}", self.held.bound_told(&self.config))
            }
            StoreRefusal::Disk => "the disk failed".into(),
            StoreRefusal::Gaps => "octets of it are missing".into(),
        };
        self.held.advance(&mut self.outbox, key, Trigger::Deleted);
        self.held.let_go(now, key);
        self.forwarding.forget_acknowledged(key);
        if self.orphan(now, key, arrival.origin) {
            return;
        }
        match arrival.origin {
            Origin::Neighbour { session, transfer } => {
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.receptions.remove(&transfer);
                }
                let refused = Refused::new(RefuseReason::NoResources, why);
                self.refuse(now, session, transfer, refused);
            }
            Origin::Client { stream, request } => {
                self.delivery.transmission_done(
                    &mut self.attention,
                    now,
                    stream,
                    request,
                    Err(ApiRefusal::NoResources(why)),
                );
            }
            Origin::ReactiveFragment => self.part_refused(now, key),
            Origin::Encapsulating { session, transfer } => self.adjacencies.encapsulated(
                &mut self.attention,
                (session, transfer),
                Some(RefuseReason::NoResources),
            ),
            Origin::Own => {}
        }
    }
}
