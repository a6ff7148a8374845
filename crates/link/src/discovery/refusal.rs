//! [`BeaconRefusal`]: the rule that a datagram breaks which is no beacon.

use dhow_bundle::cbor::CborError;
use dhow_bundle::v6::Refusal;
use thiserror::Error;

use super::beacon::{MAX_BEACON_OCTETS, MAX_NODE_ID_OCTETS};

/// Why a datagram is refused. Shown as a fragment that fits "cannot read the beacon: …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BeaconRefusal {
    /// Longer than any beacon.
    #[error("the datagram has more than {MAX_BEACON_OCTETS} octets")]
    TooLong,
    /// The beacon ends before its fields do.
    #[error("the octets end before the beacon does")]
    Truncated,
    /// A number that does not fit.
    #[error("a number has more than 64 bits or 10 octets")]
    Number,
    /// No version that is read.
    #[error("the version is {0:#04x}, and 0x01, 0x02, 0x04 or 0x07 is required")]
    Version(u8),
    /// Bits that are to be 0 (draft-irtf-dtnrg-ipnd-03 2.6).
    #[error("reserved flags are set in {0:#04x}")]
    ReservedFlags(u8),
    /// Nobody says that it is there.
    #[error("the beacon names no node")]
    NoNode,
    /// The name is longer than names are.
    #[error("the node ID has more than {MAX_NODE_ID_OCTETS} octets")]
    NodeIdTooLong,
    /// The name is none.
    #[error("the beacon names no node by a node ID")]
    NodeId,
    /// A field that is no CBOR, or no such item.
    #[error("a field is not as CBOR beacons have it")]
    Cbor,
    /// The length of DTN2's form is not that of its fields.
    #[error("the lengths of the announcement do not fit the datagram")]
    Lengths,
    /// A convergence layer of DTN2's form that is not read.
    #[error("the announcement is of convergence layer {0}")]
    Layer(u8),
}

impl From<Refusal> for BeaconRefusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Number => Self::Number,
            _ => Self::Truncated,
        }
    }
}

impl From<CborError> for BeaconRefusal {
    fn from(_: CborError) -> Self {
        Self::Cbor
    }
}
