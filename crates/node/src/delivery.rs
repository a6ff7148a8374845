//! Bundles for applications of this node (RFC 9171 5.7): registrations, who takes what, and
//! confirmations.

use crate::attention::Attention;
use crate::held::Held;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{BundleFlags, EndpointId, Now};
use dhow_link::stream::RefuseReason;

use crate::api::seam::{
    ApiRefusal, ClientCommand, Configure, DeliveryFailureAction, DeliveryHead, DeliveryId,
    Subscribes,
};
use crate::client::Client;
use crate::door::{Action, StreamId};
use crate::held::bundles::Removal;
use crate::held::endpoints::EndpointIndex;
use crate::local::Locality;
use crate::node::Node;
use crate::outbox::Outbox;
use crate::passing::Pass;

/// Endpoints with a registration, at most; each costs some hundred octets.
const REGISTRATIONS_BOUND: usize = 65_536;

/// With fewer bundles than this being compared with their checksums, others are asked for ahead of their delivery.
const VERIFYING_LOW: usize = 64;

/// How long a bundle rests that an application could not take.
const DECLINED_REST: Duration = Duration::from_secs(1);

/// One endpoint that applications have asked for.
pub(crate) struct Registration {
    pub(crate) endpoint: EndpointId,
    secret: String,
    pub(crate) failure_action: DeliveryFailureAction,
    /// Connections that share the endpoint.
    connections: BTreeSet<StreamId>,
    /// Those of them that take deliveries, the next one first.
    pub(crate) subscribers: VecDeque<StreamId>,
}

/// All registrations.
#[derive(Default)]
pub(crate) struct Registrations {
    by_endpoint: BTreeMap<EndpointIndex, Registration>,
    /// Those that nobody is connected to, kept because they say that bundles are dropped.
    deserted: BTreeSet<EndpointIndex>,
}

/// Applications, and the bundles that they have.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) registrations: Registrations,
    pub(crate) clients: BTreeMap<StreamId, Box<Client>>,
    /// Bundles that applications have and have not confirmed.
    pub(crate) delivering: usize,
    /// Octets of responses that applications have not taken.
    pub(crate) response_octets: usize,
    /// Endpoints with a registration for which a bundle may wait.
    pub(crate) to_deliver: BTreeSet<EndpointIndex>,
}

impl Delivery {
    /// Ask for an application's octets to be written, once until they are.
    pub(crate) fn flush(&mut self, out: &mut Outbox, stream: StreamId) {
        if let Some(client) = self.clients.get_mut(&stream)
            && client.session.has_octets()
            && !core::mem::replace(&mut client.flush_pending, true)
        {
            out.act(Action::Flush { stream });
        }
    }

    /// The endpoint's registration says that bundles are not kept while nobody takes them.
    pub(crate) fn abandons(&self, held: &Held, key: BundleKey) -> bool {
        held.bundles
            .entry(key)
            .is_some_and(|entry| self.registrations.abandons(entry.destination))
    }

    pub(crate) fn register(
        &mut self,
        held: &mut Held,
        stream: StreamId,
        configure: Configure,
    ) -> Result<Option<EndpointIndex>, ApiRefusal> {
        let Some(endpoint) = configure.endpoint else {
            return match configure.subscribes {
                Subscribes::Yes => Err(ApiRefusal::InvalidRequest(
                    "a subscriber needs an endpoint".into(),
                )),
                Subscribes::No => Ok(None),
            };
        };
        let endpoint = held.endpoints.local().resolve(endpoint);
        match held.endpoints.local().locality(&endpoint) {
            Locality::Application => {}
            Locality::Remote => {
                let node = held.endpoints.local().node_id();
                let why = format!("{endpoint} is no endpoint of this node, which is {node}");
                return Err(ApiRefusal::InvalidRequest(why));
            }
            Locality::Administrative | Locality::Echo | Locality::Perf => {
                return Err(ApiRefusal::Unauthorized(format!(
                    "{endpoint} is served by the node itself"
                )));
            }
        }
        if self.registrations.by_endpoint.len() >= REGISTRATIONS_BOUND
            && !self.forget_deserted(held)
        {
            return Err(ApiRefusal::NoResources(
                "too many endpoints are registered".into(),
            ));
        }
        if !self
            .registrations
            .allows(held.endpoints.find(&endpoint), &configure.secret)
        {
            let why = format!("{endpoint} is held by another application with another secret");
            return Err(ApiRefusal::Unauthorized(why));
        }
        self.unregister(held, stream);
        let index = held.endpoints.acquire(&endpoint);
        let Some(client) = self.clients.get_mut(&stream) else {
            return Ok(None);
        };
        client.endpoint = Some((index, endpoint.clone()));
        client.subscribed = configure.subscribes == Subscribes::Yes;
        if let Some(kept) = self.registrations.by_endpoint.get_mut(&index) {
            // The registration keeps one count of its endpoint; this connection needs none of its own.
            held.endpoints.release(index);
            if kept.connections.is_empty() {
                kept.secret = configure.secret;
                self.registrations.deserted.remove(&index);
            }
            kept.failure_action = configure.failure_action;
        } else {
            self.registrations.by_endpoint.insert(
                index,
                Registration {
                    endpoint,
                    secret: configure.secret,
                    failure_action: configure.failure_action,
                    connections: BTreeSet::new(),
                    subscribers: VecDeque::new(),
                },
            );
        }
        if let Some(registration) = self.registrations.by_endpoint.get_mut(&index) {
            registration.connections.insert(stream);
            if configure.subscribes == Subscribes::Yes {
                registration.subscribers.push_back(stream);
            }
        }
        Ok(Some(index))
    }

    /// An application's connection no longer holds its endpoint.
    pub(crate) fn unregister(&mut self, held: &mut Held, stream: StreamId) {
        let Some(client) = self.clients.get_mut(&stream) else {
            return;
        };
        let Some((index, _)) = client.endpoint.take() else {
            return;
        };
        let Some(registration) = self.registrations.by_endpoint.get_mut(&index) else {
            return;
        };
        registration.connections.remove(&stream);
        registration.subscribers.retain(|&other| other != stream);
        if !registration.connections.is_empty() {
            return;
        }
        match registration.failure_action {
            DeliveryFailureAction::Defer => {
                self.registrations.by_endpoint.remove(&index);
                held.endpoints.release(index);
            }
            DeliveryFailureAction::Abandon => {
                self.registrations.deserted.insert(index);
            }
        }
    }

    /// Make place for a registration: one that nobody is connected to is forgotten, and bundles for it wait again.
    /// False where there is none.
    pub(crate) fn forget_deserted(&mut self, held: &mut Held) -> bool {
        let Some(index) = self.registrations.deserted.pop_first() else {
            return false;
        };
        self.registrations.by_endpoint.remove(&index);
        held.endpoints.release(index);
        true
    }

    pub(crate) fn subscriber_with_room(&mut self, endpoint: EndpointIndex) -> Option<StreamId> {
        let registration = self.registrations.by_endpoint.get_mut(&endpoint)?;
        for _ in 0..registration.subscribers.len() {
            let stream = registration.subscribers.pop_front()?;
            registration.subscribers.push_back(stream);
            if self
                .clients
                .get(&stream)
                .is_some_and(|client| client.session.delivery_room() > 0)
            {
                return Some(stream);
            }
        }
        None
    }

    /// Give an application a bundle, whose payload is in these pieces.
    pub(crate) fn hand_over(
        &mut self,
        held: &mut Held,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        key: BundleKey,
        payload: Vec<Piece>,
    ) {
        let Some(entry) = held.bundles.entry(key) else {
            return;
        };
        let whole = held.reassembly.parts(key).is_some();
        let mut id = held.bundle_id(entry);
        let mut flags = entry.flags & !BundleFlags::AGGREGATED_REPORTS.bits();
        if whole && !planted(Mutant::HeadOfFragment) {
            id.fragment = None;
            flags &= !BundleFlags::FRAGMENT.bits();
        }
        let head = DeliveryHead {
            id,
            destination: held.endpoints.id(entry.destination).clone(),
            report_to: held.endpoints.id(entry.report_to).clone(),
            flags,
            lifetime_ms: entry.lifetime_ms,
            payload_octets: payload.iter().fold(0, |sum, piece| sum + piece.length()),
        };
        let Some(client) = self.clients.get_mut(&stream) else {
            return;
        };
        let delivery = DeliveryId(client.next_delivery);
        client.next_delivery += 1;
        client.deliveries.insert(delivery, key);
        self.delivering += 1;
        self.answer(
            attention,
            now,
            stream,
            ClientCommand::Deliver {
                delivery,
                head,
                payload,
            },
        );
    }

    /// The endpoint that a request without a source is sent from.
    pub(crate) fn own_endpoint(&self, stream: StreamId) -> Result<EndpointId, ApiRefusal> {
        self.clients
            .get(&stream)
            .and_then(|client| client.endpoint.as_ref())
            .map(|(_, endpoint)| endpoint.clone())
            .ok_or_else(|| {
                ApiRefusal::InvalidRequest(
                    "the connection has no endpoint to send from".to_string(),
                )
            })
    }

    /// Give an application session a command, likewise.
    pub(crate) fn answer(
        &mut self,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        command: ClientCommand,
    ) {
        if let Some(client) = self.clients.get_mut(&stream) {
            client.session.handle_command(now, command);
            attention.attend(stream);
        }
    }

    /// An application says who it is.
    pub(crate) fn configure(
        &mut self,
        held: &mut Held,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        configure: Configure,
    ) {
        let outcome = self.register(held, stream, configure);
        let endpoint = outcome.as_ref().ok().copied().flatten();
        self.answer(
            attention,
            now,
            stream,
            ClientCommand::Configured(outcome.map(|_| ())),
        );
        self.to_deliver.extend(endpoint);
    }
}

impl Registrations {
    /// True when bundles for this endpoint are dropped because its registration is passive and says so.
    pub(crate) fn abandons(&self, endpoint: EndpointIndex) -> bool {
        self.by_endpoint.get(&endpoint).is_some_and(|registration| {
            registration.subscribers.is_empty()
                && registration.failure_action == DeliveryFailureAction::Abandon
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (EndpointIndex, &Registration)> {
        self.by_endpoint
            .iter()
            .map(|(&index, registration)| (index, registration))
    }

    /// An application may send from an endpoint when it knows the secret of whoever holds it.
    pub(crate) fn allows(&self, endpoint: Option<EndpointIndex>, secret: &str) -> bool {
        endpoint
            .and_then(|endpoint| self.by_endpoint.get(&endpoint))
            .is_none_or(|registration| {
                registration.connections.is_empty() || registration.secret == secret
            })
    }
}

impl Node {
    /// An application's connection is gone: what it had not confirmed is delivered again.
    pub(crate) fn dismiss(&mut self, now: Now, stream: StreamId) {
        let Some(client) = self.delivery.clients.get_mut(&stream) else {
            return;
        };
        let deliveries = core::mem::take(&mut client.deliveries);
        let transmission = client.transmission.take();
        let timeout = client.timeout.take();
        self.delivery.response_octets -= client.response_octets;
        self.delivery.unregister(&mut self.held, stream);
        self.delivery.clients.remove(&stream);
        if let Some(at) = timeout {
            self.attention.rearm(stream, Some(at), None);
        }
        if let Some(transmission) = transmission {
            self.break_off(now, transmission);
        }
        self.delivery.delivering -= deliveries.len();
        for (_, key) in deliveries {
            if planted(Mutant::LostConnectionConfirms) {
                self.delivered(now, key);
            } else if !self.delivery_over(now, key, Pass::Failed(None)) {
                self.put_back(now, key);
            }
        }
    }

    /// Give an endpoint's subscribers what they have room for, in turn.
    pub(crate) fn deliver(&mut self, now: Now, endpoint: EndpointIndex) {
        self.deliver_next(now, endpoint);
        self.verify_next(now, endpoint);
    }

    /// The next bundles for which subscribers will have room are compared with their checksums while they take what they have: asked for
    /// then, each answer of the store would be waited for, and the flush of the confirmations before it.
    fn verify_next(&mut self, now: Now, endpoint: EndpointIndex) {
        let has_subscriber = |it: &Registration| !it.subscribers.is_empty();
        let registration = self.delivery.registrations.by_endpoint.get(&endpoint);
        // Half of them are asked for at a time, so that this is not looked at for each confirmation.
        if !registration.is_some_and(has_subscriber) || self.held.verifying.len() > VERIFYING_LOW {
            return;
        }
        while let Some(key) = self.forwarding.queues.first_of(endpoint, |_| true) {
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
            let Some(key) = self.forwarding.queues.first_of(endpoint, |_| true) else {
                return;
            };
            if self.has_expired(now, key) {
                if self.outbox.has_turn_left() {
                    continue;
                }
                self.delivery.to_deliver.insert(endpoint);
                return;
            }
            self.forwarding
                .dequeue(&mut self.held, &mut self.outbox, key);
            if self.held.was_delivered(now, key) {
                self.delete(now, key, Removal::Delivered, None);
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

    /// An application has confirmed a delivery: it has the bundle for good once this is durable.
    pub(crate) fn confirmed(&mut self, now: Now, stream: StreamId, delivery: DeliveryId) {
        let Some(client) = self.delivery.clients.get_mut(&stream) else {
            return;
        };
        let endpoint = client.endpoint.as_ref().map(|(index, _)| *index);
        let Some(key) = client.deliveries.remove(&delivery) else {
            return;
        };
        self.delivery.delivering -= 1;
        self.delivery.to_deliver.extend(endpoint);
        if !self.delivery_over(now, key, Pass::Confirmed) {
            self.delivered(now, key);
        }
    }

    /// An application could not take a delivery.
    pub(crate) fn declined(&mut self, now: Now, stream: StreamId, delivery: DeliveryId) {
        let Some(client) = self.delivery.clients.get_mut(&stream) else {
            return;
        };
        let endpoint = client.endpoint.as_ref().map(|(index, _)| *index);
        let Some(key) = client.deliveries.remove(&delivery) else {
            return;
        };
        self.delivery.delivering -= 1;
        // There is room for others.
        self.delivery.to_deliver.extend(endpoint);
        if planted(Mutant::DeclinedIsDelivered) {
            return self.delivered(now, key);
        }
        // Not at once, lest a client that declines everything keeps the node busy.
        if !self.delivery_over(now, key, Pass::Failed(Some(RefuseReason::Retransmit))) {
            self.rest(now, key, DECLINED_REST);
        }
    }
}
