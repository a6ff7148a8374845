//! Endpoint IDs that both versions have.

use super::untranslatable::Untranslatable;
use crate::eid::EndpointId;

/// An endpoint ID as it is in version 7.
pub(super) fn in_v7(
    field: &'static str,
    endpoint: &EndpointId,
) -> Result<EndpointId, Untranslatable> {
    if endpoint.is_local_node() {
        return Err(refused(field, endpoint));
    }
    Ok(endpoint.clone())
}

/// An endpoint ID as it is in version 6, whose `ipn` scheme has two numbers (RFC 6260 2.1).
pub(super) fn in_v6(
    field: &'static str,
    endpoint: &EndpointId,
) -> Result<EndpointId, Untranslatable> {
    if matches!(endpoint, EndpointId::Ipn { allocator: 1.., .. }) {
        return Err(refused(field, endpoint));
    }
    in_v7(field, endpoint)
}

fn refused(field: &'static str, endpoint: &EndpointId) -> Untranslatable {
    Untranslatable::Endpoint {
        field,
        endpoint: endpoint.clone(),
    }
}
