//! Version 0x07, CBOR, in the order in which dtn7-rs writes it:
//!
//! ```text
//! [7, flags, node ID, sequence, [[[convergence layer, port]…], {service: octets…}], period in seconds]
//! ```
//!
//! The services are one array of two items; the flags say whether it and the period are there (0x01 node ID, 0x02 services, 0x04 period). The
//! published note has the sequence number before the node ID, which their CBOR types tell apart.

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::cbor::{Kind, Reader, write_array, write_text, write_unsigned};
use dhow_bundle::{EndpointId, NodeId, Reading};

use super::{Malformed, keep, version};
use crate::discovery::beacon::{
    Beacon, Format, Heard, Host, MAX_NODE_ID_OCTETS, Service, ServiceProtocol,
};
use crate::discovery::refusal::BeaconRefusal;

/// Flags.
mod flag {
    pub(super) const NODE: u64 = 0x01;
    pub(super) const SERVICES: u64 = 0x02;
    pub(super) const PERIOD: u64 = 0x04;
}

/// The empty map, of a beacon without other services.
const EMPTY_MAP: u8 = 0xa0;

/// Octets of the name of a convergence layer, at most.
const MAX_LAYER_OCTETS: u64 = 64;

/// Whether a datagram is an array that begins with the version.
pub(super) fn is_beacon(datagram: &[u8]) -> bool {
    matches!(datagram, [0x83..=0x8f | 0x9f, version::CBOR, ..])
}

pub(super) fn decode(datagram: &[u8]) -> Result<Heard, BeaconRefusal> {
    let mut reader = Reader::new(datagram).with_any_width();
    let mut array = reader.array()?;
    array.item(&mut reader)?;
    let _version = reader.unsigned()?;
    array.item(&mut reader)?;
    let flags = reader.unsigned()?;
    let (mut node, mut sequence) = (None, None);
    while node.is_none() || sequence.is_none() {
        array.item(&mut reader)?;
        match reader.kind()? {
            Kind::Unsigned if sequence.is_none() => sequence = Some(reader.unsigned()?),
            Kind::Unsigned => return Err(BeaconRefusal::NoNode),
            _ if node.is_none() => node = Some(read_node(&mut reader)?),
            _ => return Err(BeaconRefusal::Cbor),
        }
    }
    let node = node.ok_or(BeaconRefusal::NoNode)?;
    let sequence = u32::try_from(sequence.unwrap_or(0)).map_err(|_| BeaconRefusal::Number)?;
    let mut services = Vec::new();
    let rest = (|| -> Result<Option<u64>, Malformed> {
        if flags & flag::SERVICES != 0 {
            array.item(&mut reader)?;
            read_services(&mut reader, &mut services)?;
        }
        match flags & flag::PERIOD {
            0 => Ok(None),
            _ => {
                array.item(&mut reader)?;
                Ok(Some(reader.unsigned()?))
            }
        }
    })();
    let beacon = Beacon {
        node,
        period: rest.unwrap_or_default().map(Duration::from_secs),
        sequence,
        services,
    };
    Ok(Heard {
        format: Format::Cbor,
        beacon,
        is_cut: rest.is_err(),
    })
}

fn read_node(reader: &mut Reader<'_>) -> Result<NodeId, BeaconRefusal> {
    let before = reader.position();
    let endpoint =
        EndpointId::decode(reader, Reading::Lenient).map_err(|_| BeaconRefusal::NodeId)?;
    let octets = u64::try_from(reader.position() - before).unwrap_or(u64::MAX);
    if octets > MAX_NODE_ID_OCTETS {
        return Err(BeaconRefusal::NodeIdTooLong);
    }
    NodeId::new(endpoint).map_err(|_| BeaconRefusal::NodeId)
}

fn read_services(reader: &mut Reader<'_>, services: &mut Vec<Service>) -> Result<(), Malformed> {
    let mut block = reader.array()?;
    block.item(reader)?;
    let mut layers = reader.array()?;
    while layers.next(reader)? {
        let mut layer = reader.array()?;
        layer.item(reader)?;
        let name = reader.text(MAX_LAYER_OCTETS)?;
        let protocol = match name.as_ref() {
            "tcp" => Some(ServiceProtocol::Tcpcl),
            "udp" => Some(ServiceProtocol::Udpcl),
            "mtcp" => Some(ServiceProtocol::Mtcp),
            _ => None,
        };
        // A layer without a port has null, or nothing.
        let mut port = None;
        while layer.next(reader)? {
            match reader.kind()? {
                Kind::Unsigned if port.is_none() => port = Some(reader.unsigned()?),
                _ => reader.skip()?,
            }
        }
        if let (Some(protocol), Some(Ok(port))) = (protocol, port.map(u16::try_from)) {
            let host = Host::Sender;
            keep(
                services,
                Service {
                    protocol,
                    host,
                    port,
                },
            );
        }
    }
    while block.next(reader)? {
        reader.skip()?;
    }
    Ok(())
}

pub(super) fn encode(beacon: &Beacon, out: &mut Vec<u8>) {
    // Its services have no addresses: others' are left out.
    let services = (beacon.services.iter()).filter(|it| it.host == Host::Sender);
    let services: Vec<_> = services.collect();
    let mut flags = flag::NODE;
    let mut items = 4;
    if !services.is_empty() {
        flags |= flag::SERVICES;
        items += 1;
    }
    if beacon.period.is_some() {
        flags |= flag::PERIOD;
        items += 1;
    }
    write_array(out, items);
    write_unsigned(out, u64::from(version::CBOR));
    write_unsigned(out, flags);
    beacon.node.endpoint().encode(out);
    write_unsigned(out, u64::from(beacon.sequence));
    if !services.is_empty() {
        write_array(out, 2);
        write_array(out, u64::try_from(services.len()).unwrap_or(u64::MAX));
        for service in services {
            write_array(out, 2);
            write_text(
                out,
                match service.protocol {
                    ServiceProtocol::Tcpcl => "tcp",
                    ServiceProtocol::Udpcl => "udp",
                    ServiceProtocol::Mtcp => "mtcp",
                },
            );
            write_unsigned(out, u64::from(service.port));
        }
        out.push(EMPTY_MAP);
    }
    if let Some(period_s) = beacon.period_s() {
        write_unsigned(out, period_s);
    }
}
