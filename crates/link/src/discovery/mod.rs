//! Beacons, by which nodes on a network find each other: the datagrams of IPND (draft-irtf-dtnrg-ipnd) in its versions 0x01, 0x02 and 0x04, the
//! older announcement of DTN2, and the CBOR form 0x07 of dtn7-rs.
//!
//! Start reading at [`beacon`], the type that all of them become; `wire` has one file a format. docs/discovery.md has the formats to the octet.
//! Nothing in a beacon is proven: a node takes it for a hint, and a session has to confirm it.
//!
//! This room never knows a socket, a period of its own or a neighbour.
//!
//! ```
//! use dhow_link::discovery::{Beacon, Format, Hearing, Host, Service, ServiceProtocol};
//!
//! let beacon = Beacon {
//!     node: "ipn:5.0".parse()?,
//!     period: Some(core::time::Duration::from_secs(10)),
//!     sequence: 1,
//!     services: vec![Service {
//!         protocol: ServiceProtocol::Tcpcl,
//!         host: Host::Sender,
//!         port: 4556,
//!     }],
//! };
//! let mut datagram = Vec::new();
//! beacon.encode(Format::Ipnd4, &mut datagram);
//! let heard = Beacon::decode(&datagram, Hearing::Ipnd)?;
//! assert_eq!((heard.format, heard.beacon), (Format::Ipnd4, beacon));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

pub mod beacon;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod refusal;
mod wire;

#[cfg(test)]
mod tests;

pub use beacon::{
    Beacon, Format, Heard, Hearing, Host, MAX_BEACON_OCTETS, MAX_NODE_ID_OCTETS, MAX_SERVICES,
    Service, ServiceProtocol,
};
pub use refusal::BeaconRefusal;
