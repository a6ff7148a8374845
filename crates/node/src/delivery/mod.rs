//! Delivery: registrations, applications, and bundles on their way to them.

pub(crate) mod client;

use crate::api::seam::ApiRefusal;
use crate::api::seam::ClientCommand;
use crate::api::seam::Configure;
use crate::api::seam::DeliveryFailureAction;
use crate::api::seam::DeliveryHead;
use crate::api::seam::DeliveryId;
use crate::api::seam::RequestId;
use crate::api::seam::Subscribes;
use crate::api::session::RESPONSES_OCTETS_MAX;
use crate::attention::Attention;
use crate::delivery::client::Client;
use crate::driver::Action;
use crate::driver::StreamId;
use crate::held::Held;
use crate::held::endpoints::EndpointIndex;
use crate::local::Locality;
use crate::memory::length;
use crate::outbox::Outbox;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use dhow_bundle::BundleFlags;
use dhow_bundle::CreationTimestamp;
use dhow_bundle::EndpointId;
use dhow_bundle::Instant;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Piece;

/// Endpoints with a registration, at most; each costs some hundred octets.
const REGISTRATIONS_BOUND: usize = 65_536;

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

/// Octets of a bundle that an application has and has not confirmed: its head, and where its payload lies.
const DELIVERY_OCTETS: usize = 256;

/// Applications that do not take their responses have this part of the index's memory together before each is held to
/// [`RESPONSES_OCTETS_MIN`].
const RESPONSES_SHARE: u64 = 16;

/// Octets of responses that an application may leave in any case: clients that read while they write need no more.
const RESPONSES_OCTETS_MIN: usize = 64 << 10;

/// Applications, and the bundles that they have.
#[derive(Default)]
pub(crate) struct Delivery {
    registrations: Registrations,
    clients: BTreeMap<StreamId, Box<Client>>,
    /// Bundles that applications have and have not confirmed.
    delivering: usize,
    /// Octets of responses that applications have not taken.
    response_octets: usize,
    /// Endpoints with a registration for which a bundle may wait.
    to_deliver: BTreeSet<EndpointIndex>,
}

impl Delivery {
    /// Octets of memory that bundles with applications take, and responses that they have not taken.
    #[inline]
    pub(crate) fn memory_octets(&self) -> usize {
        let deliveries = self.delivering.saturating_mul(DELIVERY_OCTETS);
        deliveries.saturating_add(self.response_octets)
    }

    /// Applications by their connections, in order.
    #[inline]
    pub(crate) fn clients(&self) -> impl Iterator<Item = (StreamId, &Client)> {
        (self.clients.iter()).map(|(&stream, client)| (stream, client.as_ref()))
    }

    #[inline]
    pub(crate) fn has_client(&self, stream: StreamId) -> bool {
        self.clients.contains_key(&stream)
    }

    /// An application's connection is there.
    #[inline]
    pub(crate) fn welcome(&mut self, stream: StreamId, client: Client) {
        self.clients.insert(stream, Box::new(client));
    }

    /// An application's connection is gone: its registrations end. The bundles that it has are the caller's to take back.
    pub(crate) fn forget(&mut self, held: &mut Held, stream: StreamId) {
        if let Some(client) = self.clients.get(&stream) {
            self.response_octets -= client.response_octets;
        }
        self.unregister(held, stream);
        self.clients.remove(&stream);
    }

    #[inline]
    pub(crate) const fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// A bundle may wait for an endpoint here.
    #[inline]
    pub(crate) fn wake(&mut self, endpoint: EndpointIndex) {
        self.to_deliver.insert(endpoint);
    }

    /// An endpoint for which a bundle may wait; it is looked at.
    #[inline]
    pub(crate) fn next_endpoint(&mut self) -> Option<EndpointIndex> {
        self.to_deliver.pop_first()
    }

    /// Applications have so many bundles less.
    #[inline]
    pub(crate) fn taken_back(&mut self, count: usize) {
        self.delivering -= count;
    }

    /// The bundle of a delivery, which the application has no longer; there is room for others of its endpoint.
    pub(crate) fn end_delivery(
        &mut self,
        stream: StreamId,
        delivery: DeliveryId,
    ) -> Option<BundleKey> {
        let client = self.clients.get_mut(&stream)?;
        let endpoint = client.endpoint.as_ref().map(|(index, _)| *index);
        let key = client.deliveries.remove(&delivery)?;
        self.delivering -= 1;
        self.to_deliver.extend(endpoint);
        Some(key)
    }

    /// Count an application's responses, which get a share of the memory; then its session's timer: as it wants it, and as it was set.
    pub(crate) fn rearm(
        &mut self,
        stream: StreamId,
        memory_octets: u64,
    ) -> Option<[Option<Instant>; 2]> {
        let client = self.clients.get_mut(&stream)?;
        let octets = client.session.response_octets();
        let before = core::mem::replace(&mut client.response_octets, octets);
        self.response_octets = self.response_octets + octets - before;
        let allowed = allowed_responses(self.response_octets, memory_octets);
        client.session.allow_responses(allowed);
        let wanted = client.session.poll_timeout();
        Some([wanted, core::mem::replace(&mut client.timeout, wanted)])
    }

    #[inline]
    pub(crate) fn client(&self, stream: StreamId) -> Option<&Client> {
        self.clients.get(&stream).map(Box::as_ref)
    }

    #[inline]
    pub(crate) fn client_mut(&mut self, stream: StreamId) -> Option<&mut Client> {
        self.clients.get_mut(&stream).map(Box::as_mut)
    }

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
    #[inline]
    pub(crate) fn abandons(&self, held: &Held, key: BundleKey) -> bool {
        held.entry(key)
            .is_some_and(|entry| self.registrations.abandons(entry.destination()))
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
        let endpoint = held.endpoints().local().resolve(endpoint);
        match held.endpoints().local().locality(&endpoint) {
            Locality::Application => {}
            Locality::Remote => {
                let node = held.endpoints().local().node_id();
                let why = format!("{endpoint} is not an endpoint of this node, which is {node}");
                return Err(ApiRefusal::InvalidRequest(why));
            }
            Locality::Administrative | Locality::Echo | Locality::Perf | Locality::Routing => {
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
            .allows(held.endpoints().find(&endpoint), &configure.secret)
        {
            let why = format!("{endpoint} is held by another application with another secret");
            return Err(ApiRefusal::Unauthorized(why));
        }
        self.unregister(held, stream);
        let index = held.endpoints_mut().acquire(&endpoint);
        let Some(client) = self.clients.get_mut(&stream) else {
            return Ok(None);
        };
        client.endpoint = Some((index, endpoint.clone()));
        client.subscribed = configure.subscribes == Subscribes::Yes;
        if let Some(kept) = self.registrations.by_endpoint.get_mut(&index) {
            // The registration keeps one count of its endpoint; this connection needs none of its own.
            held.endpoints_mut().release(index);
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
                held.endpoints_mut().release(index);
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
        held.endpoints_mut().release(index);
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
        let Some(entry) = held.entry(key) else {
            return;
        };
        let whole = held.reassembly().parts(key).is_some();
        let mut id = held.bundle_id(entry);
        let mut flags = entry.flags();
        if whole && !planted(Mutant::HeadOfFragment) {
            id.fragment = None;
            flags &= !BundleFlags::FRAGMENT.bits();
        }
        let head = DeliveryHead {
            id,
            destination: held.endpoints().id(entry.destination()).clone(),
            report_to: held.endpoints().id(entry.report_to()).clone(),
            version: entry.version(),
            flags,
            priority: entry.priority(),
            lifetime_ms: entry.lifetime_ms(),
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
    #[inline]
    pub(crate) fn get(&self, endpoint: EndpointIndex) -> Option<&Registration> {
        self.by_endpoint.get(&endpoint)
    }

    /// True when bundles for this endpoint are dropped because its registration is passive and says so.
    pub(crate) fn abandons(&self, endpoint: EndpointIndex) -> bool {
        self.by_endpoint.get(&endpoint).is_some_and(|registration| {
            registration.subscribers.is_empty()
                && registration.failure_action == DeliveryFailureAction::Abandon
        })
    }

    #[inline]
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

impl Delivery {
    /// Answer an application's request.
    pub(crate) fn transmission_done(
        &mut self,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        request: RequestId,
        outcome: Result<(EndpointId, CreationTimestamp), ApiRefusal>,
    ) {
        if let Some(client) = self.clients.get_mut(&stream) {
            if client
                .transmission
                .as_ref()
                .is_some_and(|transmission| transmission.request == request)
            {
                client.transmission = None;
            }
            client
                .session
                .handle_command(now, ClientCommand::Sent { request, outcome });
            // Answers come in batches: the session is attended to once for all of them.
            attention.attend(stream);
        }
    }
}

/// Octets of responses that one application may leave where all leave so many.
fn allowed_responses(all: usize, memory_octets: u64) -> usize {
    match length(all) < memory_octets / RESPONSES_SHARE {
        true => RESPONSES_OCTETS_MAX,
        false => RESPONSES_OCTETS_MIN,
    }
}
