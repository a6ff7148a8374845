//! The registration that a client asks for on its connection.

use alloc::format;

use dhow_bundle::EndpointId;

use super::delivery::DELIVERY_WINDOW_MAX;
use super::request::parse;
use super::seam::{ApiRefusal, Configure, DeliveryFailureAction, Subscribes};
use super::wire::{
    AUTH_TYPE_BUNDLE_DISPATCH, AUTH_TYPE_DEFAULT, AUTH_TYPE_FIB_AND_DISPATCH,
    AUTH_TYPE_FIB_CONTROL, ConnectionConfig, FAILURE_ABANDON, FAILURE_DEFER,
};

/// The part of a client's configuration that the session keeps until the node has accepted it.
#[derive(Debug)]
pub(super) struct Asked {
    /// Whether the client takes deliveries.
    pub(super) subscribes: Subscribes,
    /// Interval of keepalives in seconds; 0 for none.
    pub(super) keepalive_s: u32,
    /// Deliveries that may be unconfirmed at a time.
    pub(super) window: usize,
}

impl Asked {
    /// The request of a connection that has not been configured.
    pub(super) const NOTHING: Self = Self {
        subscribes: Subscribes::No,
        keepalive_s: 0,
        window: 1,
    };

    pub(super) fn read(config: &ConnectionConfig) -> Self {
        Self {
            subscribes: subscribes(config),
            keepalive_s: config.keepalive_seconds,
            window: usize::try_from(config.delivery_window)
                .unwrap_or(usize::MAX)
                .clamp(1, DELIVERY_WINDOW_MAX),
        }
    }
}

const fn subscribes(config: &ConnectionConfig) -> Subscribes {
    if config.is_subscriber {
        Subscribes::Yes
    } else {
        Subscribes::No
    }
}

/// The registration that a client asks for, for the node to decide.
pub(super) fn read_config(config: &ConnectionConfig) -> Result<Configure, ApiRefusal> {
    match config.auth_type {
        AUTH_TYPE_DEFAULT => {}
        AUTH_TYPE_FIB_CONTROL | AUTH_TYPE_BUNDLE_DISPATCH | AUTH_TYPE_FIB_AND_DISPATCH => {
            return Err(ApiRefusal::Unauthorized(
                "this node offers neither bundle dispatch nor link control to applications".into(),
            ));
        }
        other => {
            return Err(ApiRefusal::InvalidRequest(format!(
                "authorization type {other} is unknown"
            )));
        }
    }
    let endpoint = match config.endpoint_id.as_str() {
        "" => None,
        text => Some(parse(text, "endpoint ID")?),
    };
    if endpoint == Some(EndpointId::Null) {
        return Err(ApiRefusal::InvalidRequest(
            "the null endpoint is nobody's".into(),
        ));
    }
    let subscribes = subscribes(config);
    if subscribes == Subscribes::Yes && endpoint.is_none() {
        return Err(ApiRefusal::InvalidRequest(
            "a subscriber needs an endpoint ID".into(),
        ));
    }
    let failure_action = match config.failure_action {
        FAILURE_DEFER => DeliveryFailureAction::Defer,
        FAILURE_ABANDON => DeliveryFailureAction::Abandon,
        other => {
            return Err(ApiRefusal::InvalidRequest(format!(
                "delivery failure action {other} is unknown"
            )));
        }
    };
    Ok(Configure {
        endpoint,
        subscribes,
        secret: config.secret.clone(),
        failure_action,
    })
}
