//! The parameters of an application's connection.

use std::time::Duration;

use dhow_bundle::EndpointId;
use dhow_node::api::seam::{DeliveryFailureAction, Subscribes};
use dhow_node::api::wire::{
    AUTH_TYPE_DEFAULT, AapMessage, Body, ConnectionConfig, FAILURE_ABANDON, FAILURE_DEFER,
};

/// The parameters of an application's connection: endpoint, secret, keepalive, failure action and
/// window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    endpoint: Option<EndpointId>,
    secret: String,
    keepalive: Duration,
    failure_action: DeliveryFailureAction,
    window: u32,
}

impl Registration {
    /// The application at an endpoint of the node.
    #[must_use]
    pub const fn new(endpoint: EndpointId) -> Self {
        Self {
            endpoint: Some(endpoint),
            secret: String::new(),
            keepalive: Duration::ZERO,
            failure_action: DeliveryFailureAction::Defer,
            window: 1,
        }
    }

    /// An application without an endpoint: it can send anonymous bundles only.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            endpoint: None,
            ..Self::new(EndpointId::Null)
        }
    }

    /// The secret that all connections to the endpoint share (default: none).
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = secret.into();
        self
    }

    /// The interval of keepalives: the node probes a receiver that has been silent for this long, and
    /// closes a sender's connection after twice this time without octets from it; whole seconds, zero
    /// for never (default). A receiver answers in [`next_delivery`](crate::Receiver::next_delivery) and
    /// while it reads a payload.
    #[must_use]
    pub const fn with_keepalive(mut self, interval: Duration) -> Self {
        self.keepalive = interval;
        self
    }

    /// The fate of bundles while nobody receives at the endpoint (default: they wait).
    #[must_use]
    pub const fn with_failure_action(mut self, action: DeliveryFailureAction) -> Self {
        self.failure_action = action;
        self
    }

    /// Deliveries that may be unconfirmed at a time; 1 (default) to 1024.
    #[must_use]
    pub const fn with_window(mut self, deliveries: u32) -> Self {
        self.window = deliveries;
        self
    }

    /// Octets of the endpoint ID as text.
    pub(crate) fn endpoint_octets(&self) -> usize {
        self.endpoint
            .as_ref()
            .map(EndpointId::to_string)
            .unwrap_or_default()
            .len()
    }

    /// The message that asks for the registration.
    pub(crate) fn message(&self, subscribes: Subscribes) -> AapMessage {
        AapMessage::new(Body::Config(ConnectionConfig {
            is_subscriber: subscribes == Subscribes::Yes,
            auth_type: AUTH_TYPE_DEFAULT,
            secret: self.secret.clone(),
            endpoint_id: self
                .endpoint
                .as_ref()
                .map(EndpointId::to_string)
                .unwrap_or_default(),
            keepalive_seconds: u32::try_from(self.keepalive.as_secs()).unwrap_or(u32::MAX),
            failure_action: match self.failure_action {
                DeliveryFailureAction::Defer => FAILURE_DEFER,
                DeliveryFailureAction::Abandon => FAILURE_ABANDON,
            },
            delivery_window: self.window,
        }))
    }
}
