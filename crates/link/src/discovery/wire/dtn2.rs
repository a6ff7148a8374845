//! The announcement of DTN2 from before IPND. Numbers are in network order:
//!
//! ```text
//! convergence layer (8 bits: 1 TCPCL, 2 UDPCL) | interval (8 bits, tenths of a second) | octets of the whole (16 bits) |
//!     IPv4 address (0.0.0.0: the sender's) | port (16 bits) | octets of the name (16 bits) | name | zeros to a multiple of four octets
//! ```

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use dhow_bundle::v6::sdnv::Reader;

use super::node_of;
use super::services::address_or_sender;
use crate::discovery::beacon::{Beacon, Format, Heard, Host, Service, ServiceProtocol};
use crate::discovery::refusal::BeaconRefusal;

/// Codes of convergence layers.
mod layer {
    pub(super) const TCP: u8 = 1;
    pub(super) const UDP: u8 = 2;
}

/// Octets before the name.
const HEAD_OCTETS: usize = 12;

/// Milliseconds of one unit of the interval.
const INTERVAL_UNIT_MS: u64 = 100;

/// Whether a datagram has the length that it says.
pub(super) fn is_announcement(datagram: &[u8]) -> bool {
    let said = match datagram {
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => return false,
    };
    said == datagram.len() && said >= HEAD_OCTETS && said.is_multiple_of(4)
}

pub(super) fn decode(datagram: &[u8]) -> Result<Heard, BeaconRefusal> {
    let mut reader = Reader::new(datagram);
    let protocol = match reader.octet()? {
        layer::TCP => ServiceProtocol::Tcpcl,
        layer::UDP => ServiceProtocol::Udpcl,
        other => return Err(BeaconRefusal::Layer(other)),
    };
    let interval = u64::from(reader.octet()?);
    let _octets = short(&mut reader)?;
    let mut address = [0; 4];
    for octet in &mut address {
        *octet = reader.octet()?;
    }
    let port = short(&mut reader)?;
    let name = short(&mut reader)?;
    let node = node_of(&mut reader, u64::from(name))?;
    let padding = datagram.get(reader.position()..).unwrap_or_default();
    if padding.len() >= 4 {
        return Err(BeaconRefusal::Lengths);
    }
    let service = Service {
        protocol,
        host: address_or_sender(IpAddr::V4(Ipv4Addr::from(address))),
        port,
    };
    Ok(Heard {
        format: Format::Dtn2,
        beacon: Beacon {
            node,
            period: Some(Duration::from_millis(interval * INTERVAL_UNIT_MS)),
            sequence: 0,
            services: Vec::from_iter((port != 0).then_some(service)),
        },
        is_cut: false,
    })
}

fn short(reader: &mut Reader<'_>) -> Result<u16, BeaconRefusal> {
    Ok(u16::from_be_bytes([reader.octet()?, reader.octet()?]))
}

pub(super) fn encode(beacon: &Beacon, out: &mut Vec<u8>) {
    let has_form = |service: &&Service| {
        service.protocol != ServiceProtocol::Mtcp
            && matches!(service.host, Host::Sender | Host::Address(IpAddr::V4(_)))
    };
    let service = beacon.services.iter().find(has_form);
    let code = match service.map(|it| it.protocol) {
        Some(ServiceProtocol::Udpcl) => layer::UDP,
        _ => layer::TCP,
    };
    let address = match service.map(|it| &it.host) {
        Some(Host::Address(IpAddr::V4(address))) => *address,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let port = service.map_or(0, |it| it.port);
    let period = beacon.period.unwrap_or_default().as_millis();
    let interval = u8::try_from(period.div_ceil(u128::from(INTERVAL_UNIT_MS))).unwrap_or(u8::MAX);
    let name = beacon.node.to_string();
    let name = name.trim_end_matches('/').as_bytes();
    let octets = (HEAD_OCTETS + name.len()).next_multiple_of(4);
    let length = |octets: usize| u16::try_from(octets).unwrap_or(u16::MAX).to_be_bytes();
    out.extend_from_slice(&[code, interval]);
    out.extend_from_slice(&length(octets));
    out.extend_from_slice(&address.octets());
    out.extend_from_slice(&port.to_be_bytes());
    out.extend_from_slice(&length(name.len()));
    out.extend_from_slice(name);
    out.resize(out.len() + octets - HEAD_OCTETS - name.len(), 0);
}
