//! Beacons to octets and back. One file a format; `text_services` is shared by versions 0x01 and 0x02.

mod cbor;
mod dtn2;
mod ipnd1;
mod ipnd2;
mod ipnd4;
mod services;
mod text_services;

use alloc::string::ToString;
use alloc::vec::Vec;

use dhow_bundle::cbor::CborError;
use dhow_bundle::v6::Refusal;
use dhow_bundle::v6::sdnv::{self, Reader};
use dhow_bundle::{NodeId, Reading};

use super::beacon::{
    Beacon, Format, Heard, Hearing, MAX_BEACON_OCTETS, MAX_NODE_ID_OCTETS, MAX_SERVICES, Service,
};
use super::refusal::BeaconRefusal;

/// Version octets (draft-irtf-dtnrg-ipnd-03 2.6; 0x07 is dtn7-rs's).
mod version {
    pub(super) const IPND1: u8 = 0x01;
    pub(super) const IPND2: u8 = 0x02;
    pub(super) const IPND4: u8 = 0x04;
    pub(super) const CBOR: u8 = 0x07;
}

/// Flags of versions 0x02 and 0x04 (2.6).
mod flag {
    pub(super) const NODE: u8 = 0x01;
    pub(super) const SERVICES: u8 = 0x02;
    pub(super) const BLOOM: u8 = 0x04;
    pub(super) const PERIOD: u8 = 0x08;
    pub(super) const RESERVED: u8 = 0xf0;
}

/// A service, or the rest of the beacon, is not as it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

impl From<Refusal> for Malformed {
    fn from(_: Refusal) -> Self {
        Self
    }
}

impl From<CborError> for Malformed {
    fn from(_: CborError) -> Self {
        Self
    }
}

pub(super) fn decode(datagram: &[u8], hearing: Hearing) -> Result<Heard, BeaconRefusal> {
    if datagram.len() > MAX_BEACON_OCTETS {
        return Err(BeaconRefusal::TooLong);
    }
    if hearing == Hearing::IpndAndDtn2 && dtn2::is_announcement(datagram) {
        return dtn2::decode(datagram);
    }
    let first = *datagram.first().ok_or(BeaconRefusal::Truncated)?;
    if cbor::is_beacon(datagram) {
        return cbor::decode(datagram);
    }
    match first {
        version::IPND4 => ipnd4::decode(datagram),
        version::IPND2 => ipnd2::decode(datagram),
        version::IPND1 => ipnd1::decode(datagram),
        other => Err(BeaconRefusal::Version(other)),
    }
}

pub(super) fn encode(beacon: &Beacon, format: Format, out: &mut Vec<u8>) {
    match format {
        Format::Ipnd4 => ipnd4::encode(beacon, out),
        Format::Ipnd2 => ipnd2::encode(beacon, out),
        Format::Ipnd1 => ipnd1::encode(beacon, out),
        Format::Dtn2 => dtn2::encode(beacon, out),
        Format::Cbor => cbor::encode(beacon, out),
    }
}

/// A node ID as text behind its length.
fn node(reader: &mut Reader<'_>) -> Result<NodeId, BeaconRefusal> {
    let length = reader.number()?;
    node_of(reader, length)
}

/// A node ID as text of so many octets.
fn node_of(reader: &mut Reader<'_>, length: u64) -> Result<NodeId, BeaconRefusal> {
    if length > MAX_NODE_ID_OCTETS {
        return Err(BeaconRefusal::NodeIdTooLong);
    }
    let text = core::str::from_utf8(reader.octets(length)?).map_err(|_| BeaconRefusal::NodeId)?;
    NodeId::parse(text, Reading::Lenient).map_err(|_| BeaconRefusal::NodeId)
}

fn write_node(beacon: &Beacon, out: &mut Vec<u8>) {
    // IBR-DTN, DTN2 and their kin compare names as text, and have no final slash.
    let text = beacon.node.to_string();
    let text = match text.starts_with("dtn:") {
        true => text.trim_end_matches('/'),
        false => &text,
    };
    write_string(text, out);
}

/// Text behind its length.
fn write_string(text: &str, out: &mut Vec<u8>) {
    sdnv::write(out, u64::try_from(text.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(text.as_bytes());
}

/// Keeps a service, where there is room.
fn keep(services: &mut Vec<Service>, service: Service) {
    if services.len() < MAX_SERVICES && service.port != 0 {
        services.push(service);
    }
}
