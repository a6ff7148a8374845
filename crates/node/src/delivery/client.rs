//! An application on one stream: its AAP 2.0 session, what it is sending and what it is given.

use alloc::collections::BTreeMap;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Instant};

use crate::api::ClientSession;
use crate::api::seam::DeliveryId;
use crate::driver::StreamId;
use crate::held::endpoints::EndpointIndex;
use crate::node::Node;
use crate::transmission::Preparation;
use crate::transmission::Transmission;

/// One application's stream.
pub(crate) struct Client {
    pub(crate) session: ClientSession,
    /// The endpoint that it holds, once configured.
    pub(crate) endpoint: Option<(EndpointIndex, EndpointId)>,
    pub(crate) subscribed: bool,
    /// The bundle whose payload is coming in.
    pub(crate) transmission: Option<Transmission>,
    pub(crate) preparation: Preparation,
    pub(crate) deliveries: BTreeMap<DeliveryId, BundleKey>,
    pub(crate) next_delivery: u64,
    /// Octets of its responses, as they count among those of all.
    pub(crate) response_octets: usize,
    pub(crate) flush_pending: bool,
    pub(crate) timeout: Option<Instant>,
}

impl Node {
    /// Applications' streams that hold no endpoint yet, the oldest first: the ones to close where too many
    /// are connected.
    pub fn unconfigured_clients(&self) -> impl Iterator<Item = StreamId> {
        self.delivery
            .clients
            .iter()
            .filter(|(_, client)| client.endpoint.is_none())
            .map(|(&stream, _)| stream)
    }
}

impl Client {
    pub(crate) fn new(session: ClientSession) -> Self {
        Self {
            session,
            endpoint: None,
            subscribed: false,
            transmission: None,
            preparation: Preparation::default(),
            deliveries: BTreeMap::new(),
            next_delivery: 0,
            response_octets: 0,
            flush_pending: false,
            timeout: None,
        }
    }
}
