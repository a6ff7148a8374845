//! Version 0x04 (draft-irtf-dtnrg-ipnd-03 2.6):
//!
//! ```text
//! 0x04 | flags | sequence (16 bits) | node ID: SDNV length, text | number of services: SDNV, services | period: SDNV, seconds
//! ```

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::v6::sdnv::{self, Reader};

use super::services::{read_service, write_service};
use super::{Malformed, flag, keep, node, version, write_node};
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
    // ION keeps a beacon of which an optional part is malformed, and so do we: the node is there.
    let rest = rest(&mut reader, flags, &mut services);
    let beacon = Beacon {
        node,
        period: rest.unwrap_or_default().map(Duration::from_secs),
        sequence,
        services,
    };
    Ok(Heard {
        format: Format::Ipnd4,
        beacon,
        is_cut: rest.is_err(),
    })
}

/// Version, flags and sequence number, which versions 0x02 and 0x04 have in common.
pub(super) fn head(reader: &mut Reader<'_>) -> Result<(u8, u32), BeaconRefusal> {
    let _version = reader.octet()?;
    let flags = reader.octet()?;
    if flags & flag::RESERVED != 0 {
        return Err(BeaconRefusal::ReservedFlags(flags));
    }
    let sequence = u16::from_be_bytes([reader.octet()?, reader.octet()?]);
    Ok((flags, u32::from(sequence)))
}

/// Services and period; octets behind them are ignored, since ION writes an empty period also where no flag says so.
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
    write_head(version::IPND4, beacon, count, out);
    if count > 0 {
        sdnv::write(out, count);
        out.append(&mut services);
    }
    if let Some(period_s) = beacon.period_s() {
        sdnv::write(out, period_s);
    }
}

/// Version, flags, sequence number and node ID of a beacon with so many services.
pub(super) fn write_head(version: u8, beacon: &Beacon, services: u64, out: &mut Vec<u8>) {
    let mut flags = flag::NODE;
    if services > 0 {
        flags |= flag::SERVICES;
    }
    if beacon.period.is_some() {
        flags |= flag::PERIOD;
    }
    let [.., high, low] = beacon.sequence.to_be_bytes();
    out.extend_from_slice(&[version, flags, high, low]);
    write_node(beacon, out);
}
