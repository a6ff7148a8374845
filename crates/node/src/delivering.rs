//! Bundles for applications of this node (RFC 9171 5.7): registrations, their subscribers, and
//! confirmations.

use crate::delivery::Registration;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;
use dhow_link::stream::RefuseReason;

use crate::api::seam::DeliveryId;
use crate::driver::StreamId;
use crate::forwarding::cut_through::CutThrough;
use crate::held::bundles::{Identity, Removal};
use crate::held::endpoints::EndpointIndex;
use crate::node::Node;
use crate::steps::Step;

/// With fewer bundles than this being compared with their checksums, others are asked for ahead of their delivery.
const VERIFYING_LOW: usize = 64;

/// The time after which a bundle that an application could not take is tried again.
const DECLINED_RETRY: Duration = Duration::from_secs(1);

impl Node {
    /// An application's connection is gone: what it had not confirmed is delivered again.
    pub(crate) fn dismiss(&mut self, now: Now, stream: StreamId) {
        let Some(client) = self.delivery.client_mut(stream) else {
            return;
        };
        let deliveries = core::mem::take(&mut client.deliveries);
        let transmission = client.transmission.take();
        let timeout = client.timeout.take();
        self.delivery.forget(&mut self.held, stream);
        if let Some(at) = timeout {
            self.attention.rearm(stream, Some(at), None);
        }
        if let Some(transmission) = transmission {
            self.break_off(now, transmission);
        }
        self.delivery.taken_back(deliveries.len());
        for (_, key) in deliveries {
            if planted(Mutant::LostConnectionConfirms) {
                self.delivered(now, key);
            } else if !self.delivery_over(now, key, CutThrough::Failed(None)) {
                self.put_back(now, key);
            }
        }
    }

    /// Give an endpoint's subscribers the bundles that they have room for, in turn.
    pub(crate) fn deliver(&mut self, now: Now, endpoint: EndpointIndex) {
        self.deliver_next(now, endpoint);
        self.verify_next(now, endpoint);
    }

    /// The next bundles for which subscribers will have room are compared with their checksums while they take what they have: asked for
    /// then, each answer of the store would be waited for, and the flush of the confirmations before it.
    fn verify_next(&mut self, now: Now, endpoint: EndpointIndex) {
        let has_subscriber = |it: &Registration| !it.subscribers.is_empty();
        let registration = self.delivery.registrations().get(endpoint);
        // Half of them are asked for at a time, so that this is not looked at for each confirmation.
        if !registration.is_some_and(has_subscriber) || self.held.verifications() > VERIFYING_LOW {
            return;
        }
        while let Some(key) =
            self.forwarding
                .queues()
                .first_of(self.held.bundles(), endpoint, |_| true)
        {
            if !self.held.may_verify(key) || !self.held.is_stale(now, key) {
                return;
            }
            self.forwarding
                .dequeue(&mut self.held, &mut self.outbox, key);
            self.verify(now, key);
        }
    }

    fn deliver_next(&mut self, now: Now, endpoint: EndpointIndex) {
        while let Some(stream) = self.delivery.subscriber_with_room(endpoint) {
            let Some(key) =
                self.forwarding
                    .queues()
                    .first_of(self.held.bundles(), endpoint, |_| true)
            else {
                return;
            };
            if self.has_expired(now, key) {
                if self.outbox.has_turn_left() {
                    continue;
                }
                self.delivery.wake(endpoint);
                return;
            }
            self.forwarding
                .dequeue(&mut self.held, &mut self.outbox, key);
            if self.held.was_delivered(now, key) {
                self.delete(now, key, Removal::Delivered, None);
                continue;
            }
            if self.is_in_hand_in_one_piece(key) {
                self.retry_after(now, key, DECLINED_RETRY);
                continue;
            }
            if self.held.is_stale(now, key) {
                self.verify(now, key);
                if !self.held.may_verify(key) {
                    return;
                }
                continue;
            }
            let payload = self.held.payload_pieces(key);
            self.outbox.stepped(&self.held, key, || Step::HandedOver);
            self.delivery.hand_over(
                &mut self.held,
                &mut self.attention,
                now,
                stream,
                key,
                payload,
            );
        }
    }

    /// An application has the bundle in hand that fragments make a whole of, and nobody knows yet whether it will confirm it: it came in
    /// one piece as well, and is not durable.
    fn is_in_hand_in_one_piece(&self, key: BundleKey) -> bool {
        let Some(entry) = self.held.entry(key).filter(|it| it.fragment().is_some()) else {
            return false;
        };
        let whole = Identity {
            fragment: None,
            ..entry.identity()
        };
        !self.held.endpoints().id(entry.source()).is_null()
            && self.forwarding.is_in_hand(&self.held, &whole)
    }

    /// An application has confirmed a delivery: it has the bundle for good once this is durable.
    pub(crate) fn confirmed(&mut self, now: Now, stream: StreamId, delivery: DeliveryId) {
        let Some(key) = self.delivery.end_delivery(stream, delivery) else {
            return;
        };
        if !self.delivery_over(now, key, CutThrough::Confirmed) {
            self.delivered(now, key);
        }
    }

    /// An application could not take a delivery.
    pub(crate) fn declined(&mut self, now: Now, stream: StreamId, delivery: DeliveryId) {
        let Some(key) = self.delivery.end_delivery(stream, delivery) else {
            return;
        };
        if planted(Mutant::DeclinedIsDelivered) {
            return self.delivered(now, key);
        }
        // Not at once, lest a client that declines everything keeps the node busy.
        if !self.delivery_over(now, key, CutThrough::Failed(Some(RefuseReason::Retransmit))) {
            self.retry_after(now, key, DECLINED_RETRY);
        }
    }
}
