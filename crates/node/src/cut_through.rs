//! Bundles that leave while they still come in.
//!
//! A large bundle for a next hop whose session is up and has nothing to do is sent on as its octets come
//! in, read from where the store has written them. The peer gets the header with the length of the whole at
//! once; what follows the payload is held back until the bundle is durable here, which it becomes only when
//! its checksum is right. So the next hop never has the whole of a bundle that this node has not, and a bundle
//! that turns out wrong, or does not come to its end, ends early there and is refused (RFC 9174 5.2.5.1).
//!
//! Transfers do not interleave (RFC 9174 5.2), so a bundle that comes in slowly would keep others waiting: they
//! get another session where this node can dial one, and the bundle gives way where it cannot.

use crate::admission::dtn_expiry;
use crate::api::seam::ApiRefusal;
use crate::forwarding::cut_through::CutThrough;
use crate::forwarding::cut_through::CutThroughTransfer;
use crate::held::arrivals::Origin;
use crate::held::bundles::Removal;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::Now;
use dhow_bundle::storage::{BundleKey, StoreCommand};
use dhow_link::stream::LinkCommand;

use crate::adjacencies::session_id::SessionId;
use crate::before_sync::Orphan;
use crate::held::retention::Trigger;
use crate::local::Locality;
use crate::node::Node;

/// The time that others wait behind a bundle that is coming in before another session is dialled for them.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

impl Node {
    /// A bundle that was passed on is durable: the rest of it may leave. True when it is in flight now.
    pub(crate) fn finish_cut_through(&mut self, now: Now, key: BundleKey) -> bool {
        let Some(pass) = self.forwarding.take_cut_through(key) else {
            return false;
        };
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        self.arrive_ahead(now, key);
        let Some(entry) = self.held.entry(key) else {
            return false;
        };
        match pass {
            CutThrough::UnderWay(under_way) => {
                let rest = under_way.rest(entry);
                let CutThroughTransfer {
                    session, transfer, ..
                } = under_way;
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.stop_cut_through();
                    for octets in rest {
                        neighbour.command(now, LinkCommand::Supply { transfer, octets });
                    }
                }
                // Others follow it.
                self.adjacencies.serve(session);
                self.adjacencies.flush(&mut self.outbox, session);
            }
            CutThrough::Left(..) | CutThrough::Given | CutThrough::Orphaned(_) => {}
            CutThrough::Confirmed if planted(Mutant::ConfirmedAheadNotDeleted) => {}
            CutThrough::Confirmed | CutThrough::Answered => self.delivered(now, key),
            CutThrough::Taken(session) => self.forwarded(now, session, key),
            CutThrough::Failed(refused) => self.not_taken(now, key, refused),
        }
        true
    }

    /// A bundle that was given away before it was durable is at its destination, if this is it.
    fn arrive_ahead(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let locality = self.held.endpoints().locality(entry.destination());
        if locality != Locality::Remote && entry.fragment().is_none() {
            self.acknowledge_arrival(now, key);
        }
    }

    /// The transfer of a bundle that is not durable yet is over; false when it is another's.
    pub(crate) fn end_cut_through(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        outcome: CutThrough,
    ) -> bool {
        let pass = match self.forwarding.cut_through_mut(key) {
            Some(pass @ (CutThrough::UnderWay(_) | CutThrough::Left(..))) => pass,
            Some(CutThrough::Orphaned(_)) => {
                self.settle_orphan(now, key, outcome);
                return true;
            }
            _ => return false,
        };
        let before = core::mem::replace(pass, outcome);
        if let CutThrough::UnderWay(_) = before
            && let Some(neighbour) = self.adjacencies.neighbour_mut(session)
        {
            neighbour.stop_cut_through();
        }
        true
    }

    /// The store could not keep a bundle that went on ahead. True when whom it came from is told by what becomes of it.
    pub(crate) fn orphan(&mut self, now: Now, key: BundleKey, origin: Origin) -> bool {
        let pass = self.forwarding.cut_through(key);
        let orphan = match (&pass, origin) {
            (Some(CutThrough::Given | CutThrough::Confirmed), _) => Orphan::Delivery,
            (
                Some(CutThrough::Left(..) | CutThrough::Taken(_) | CutThrough::Failed(_)),
                Origin::Client { stream, request },
            ) => Orphan::Request(stream, request),
            _ => {
                self.forwarding.drop_cut_through(
                    &mut self.adjacencies,
                    &mut self.attention,
                    now,
                    key,
                );
                self.outbox.store(StoreCommand::Abandon { key });
                return false;
            }
        };
        // The store refused its end, and has none of its octets. Its abandonment may wait long for an application.
        self.held.backlog_mut().release(key);
        self.forwarding
            .set_cut_through(key, CutThrough::Orphaned(orphan));
        if let Some(
            outcome @ (CutThrough::Confirmed | CutThrough::Taken(_) | CutThrough::Failed(_)),
        ) = pass
        {
            self.settle_orphan(now, key, outcome);
        }
        matches!(orphan, Orphan::Request(..))
    }

    /// A neighbour has taken a bundle that the store could not keep, or has not.
    pub(crate) fn settle_orphan(&mut self, now: Now, key: BundleKey, outcome: CutThrough) {
        let Some(CutThrough::Orphaned(orphan)) = self.forwarding.take_cut_through(key) else {
            return;
        };
        let removal = match outcome {
            CutThrough::Confirmed => {
                self.tell_delivered(now, key);
                Removal::Delivered
            }
            CutThrough::Taken(session) => {
                self.forwarded(now, session, key);
                Removal::Forwarded
            }
            _ => Removal::Deleted,
        };
        let Some(entry) = self.held.entry_mut(key) else {
            return;
        };
        entry.set_removal(removal);
        let (source, creation) = (entry.source(), entry.creation());
        if let Orphan::Request(stream, request) = orphan {
            let created = (self.held.endpoints().id(source).clone(), creation);
            let outcome = match removal {
                Removal::Forwarded => Ok(created),
                _ => Err(ApiRefusal::NoResources(
                    "the store refused it, and it may have left all the same".into(),
                )),
            };
            self.outbox.counters.created += u64::from(outcome.is_ok());
            self.delivery
                .transmission_done(&mut self.attention, now, stream, request, outcome);
        }
        let entry = self.held.entry(key);
        let delivered = entry
            .filter(|it| it.removal() == Removal::Delivered && !planted(Mutant::OrphanForgotten));
        let remember = delivered.map(|it| (self.held.bundle_id(it), dtn_expiry(it.expires(), now)));
        match remember {
            // A confirmation outlives a crash as well where the store did not keep the bundle.
            Some(_) => self.outbox.store(StoreCommand::Delete { key, remember }),
            None => self.outbox.store(StoreCommand::Abandon { key }),
        }
    }
}
