//! Version 0x01 (draft-irtf-dtnrg-ipnd-00, as IBR-DTN writes it):
//!
//! ```text
//! 0x01 | flags | SDNV length of all that follows | node ID: SDNV length, text | services, each two strings, to the end
//! ```
//!
//! A beacon with flag 0x01 is a short one: nothing follows, and no node is named.

use alloc::vec::Vec;

use dhow_bundle::v6::sdnv::{self, Reader};

use super::text_services::{read_service, write_service};
use super::{Malformed, keep, node, version, write_node};
use crate::discovery::beacon::{Beacon, Format, Heard, Service};
use crate::discovery::refusal::BeaconRefusal;

/// Nothing follows.
const SHORT: u8 = 0x01;

pub(super) fn decode(datagram: &[u8]) -> Result<Heard, BeaconRefusal> {
    let mut reader = Reader::new(datagram);
    let _version = reader.octet()?;
    if reader.octet()? & SHORT != 0 {
        return Err(BeaconRefusal::NoNode);
    }
    let length = reader.number()?;
    let mut content = Reader::new(reader.octets(length)?);
    let node = node(&mut content)?;
    let mut services = Vec::new();
    let rest = rest(&mut content, &mut services);
    Ok(Heard {
        format: Format::Ipnd1,
        beacon: Beacon {
            node,
            period: None,
            sequence: 0,
            services,
        },
        is_cut: rest.is_err(),
    })
}

fn rest(reader: &mut Reader<'_>, services: &mut Vec<Service>) -> Result<(), Malformed> {
    // Each service has two octets at least, so that the datagram bounds the loop.
    while !reader.is_empty() {
        if let Some(service) = read_service(reader)? {
            keep(services, service);
        }
    }
    Ok(())
}

pub(super) fn encode(beacon: &Beacon, out: &mut Vec<u8>) {
    let mut content = Vec::new();
    write_node(beacon, &mut content);
    for service in &beacon.services {
        write_service(service, &mut content);
    }
    out.extend_from_slice(&[version::IPND1, 0]);
    sdnv::write(out, u64::try_from(content.len()).unwrap_or(u64::MAX));
    out.append(&mut content);
}
