//! Small bundles that go on while the store makes them durable.
//!
//! Each sync would be waited for in line: by the sender's node, the echo service's, the receiver's. A small bundle may go on
//! meanwhile, where no other for its destination is on its way into the store and nobody has been told that it is kept:
//!
//! * an answer of the echo service leaves beside its own commit, which it shares with the question's. Its creation
//!   timestamp was reserved durably before, so none like it is made after a crash;
//! * a bundle of an application leaves likewise. The application is answered once it is durable here, and asks again
//!   when it is not answered. If the store cannot keep it, the next hop's answer decides;
//! * a bundle for an application is delivered beside its commit. The neighbour that it came from keeps it until it is
//!   durable here; the confirmation counts, and is made durable, after the commit. One that the store cannot keep
//!   is remembered once it is confirmed, so that it does not come twice when the neighbour sends it again.
//!
//! The bundles of a stream follow each other too closely for that: they share syncs, and their octets are read when they are wanted. A
//! bundle of another flow passes them by.

use alloc::vec;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{Header, Now};

use crate::api::seam::RequestId;
use crate::driver::StreamId;
use crate::forwarding::cut_through::CutThrough;
use crate::local::Locality;
use crate::node::Node;
use crate::steps::Step;

/// The fate of a bundle that somebody has, or may have, and the store could not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// A neighbour's, given to an application.
    Delivery,
    /// An application's, with its request, given to a session.
    Request(StreamId, RequestId),
}

impl Node {
    /// A bundle from a neighbour is whole, and its commit on its way: what can be done with it now is.
    pub(crate) fn go_before_sync(
        &mut self,
        now: Now,
        key: BundleKey,
        header: &Header,
        octets: &Bytes,
    ) {
        let start = header.octets.len();
        let length = usize::try_from(header.payload_octets()).unwrap_or(usize::MAX);
        let Some(end) = start.checked_add(length).filter(|&end| end <= octets.len()) else {
            return;
        };
        if self.held.other_whole(key).is_some() {
            return;
        }
        let payload = octets.slice(start..end);
        match self
            .held
            .endpoints()
            .local()
            .locality(&header.primary.destination)
        {
            Locality::Echo => self.reply_before_sync(now, key, header, &payload),
            Locality::Application => self.deliver_before_sync(now, key, payload),
            Locality::Remote | Locality::Perf | Locality::Routing | Locality::Administrative => {}
        }
    }

    /// Deliver a bundle whose commit is on its way, unless others for the same endpoint are to come before it.
    fn deliver_before_sync(&mut self, now: Now, key: BundleKey, payload: Bytes) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let endpoint = entry.destination();
        if self.forwarding.waits_before(&self.held, key)
            || !self.forwarding.is_first(&self.held, key)
            || self.held.was_delivered(now, key)
        {
            return;
        }
        if let Some(stream) = self.delivery.subscriber_with_room(endpoint) {
            self.forwarding
                .pass_before_sync(&mut self.held, key, CutThrough::Given);
            self.outbox.stepped(&self.held, key, || Step::HandedOver);
            self.delivery.hand_over(
                &mut self.held,
                &mut self.attention,
                now,
                stream,
                key,
                vec![Piece::Octets(payload)],
            );
        }
    }

    /// An application that was given a bundle ahead of its commit has taken it, or has not; false when it is durable.
    pub(crate) fn delivery_over(&mut self, now: Now, key: BundleKey, outcome: CutThrough) -> bool {
        match self.forwarding.cut_through_mut(key) {
            Some(pass @ CutThrough::Given) => *pass = outcome,
            Some(CutThrough::Orphaned(_)) => self.settle_orphan(now, key, outcome),
            _ => return false,
        }
        true
    }
}
