//! Version 0x02 (draft-irtf-dtnrg-ipnd-01, with IBR-DTN's period):
//!
//! ```text
//! 0x02 | flags | sequence (16 bits) | node ID: SDNV length, text | number of services: SDNV, each two strings |
//!     Bloom filter: SDNV length, octets | period: SDNV, seconds
//! ```

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::v6::sdnv::{self, Reader};

use super::ipnd4::{head, write_head};
use super::text_services::{read_service, write_service};
use super::{Malformed, flag, keep, node, version};
use crate::discovery::beacon::{Beacon, Format, Heard, Service};
use crate::discovery::refusal::BeaconRefusal;

pub(super) fn decode(datagram: &[u8]) -> Result<Heard, BeaconRefusal> {
    let mut reader = Reader::new(datagram);
    let (flags, sequence) = head(&mut reader)?;
    if flags & flag::NODE == 0 {
        return Err(BeaconRefusal::NoNode);
    }
    let node = node(&mut reader)?;
    let mut services = Vec::new();
    let rest = rest(&mut reader, flags, &mut services);
    let beacon = Beacon {
        node,
        period: rest.unwrap_or_default().map(Duration::from_secs),
        sequence,
        services,
    };
    Ok(Heard {
        format: Format::Ipnd2,
        beacon,
        is_cut: rest.is_err(),
    })
}

fn rest(
    reader: &mut Reader<'_>,
    flags: u8,
    services: &mut Vec<Service>,
) -> Result<Option<u64>, Malformed> {
    if flags & flag::SERVICES != 0 {
        let mut left = reader.number()?;
        // Each service has two octets at least, so that the datagram bounds the loop.
        while left > 0 {
            if let Some(service) = read_service(reader)? {
                keep(services, service);
            }
            left -= 1;
        }
    }
    if flags & flag::BLOOM != 0 {
        let length = reader.number()?;
        let _filter = reader.octets(length)?;
    }
    match flags & flag::PERIOD {
        0 => Ok(None),
        _ => Ok(Some(reader.number()?)),
    }
}

pub(super) fn encode(beacon: &Beacon, out: &mut Vec<u8>) {
    let mut services = Vec::new();
    let written = beacon.services.iter();
    let written = written.filter(|service| write_service(service, &mut services));
    let count = u64::try_from(written.count()).unwrap_or(u64::MAX);
    write_head(version::IPND2, beacon, count, out);
    if count > 0 {
        sdnv::write(out, count);
        out.append(&mut services);
    }
    if let Some(period_s) = beacon.period_s() {
        sdnv::write(out, period_s);
    }
}
