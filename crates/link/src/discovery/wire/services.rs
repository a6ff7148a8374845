//! Services of version 0x04: tag, length and value, of which the value is a sequence of the same (draft-irtf-dtnrg-ipnd-03 2.6.1 to 2.6.3).

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dhow_bundle::v6::sdnv::{self, Reader};

use super::{Malformed, write_string};
use crate::discovery::beacon::{Host, MAX_NODE_ID_OCTETS, Service, ServiceProtocol};

/// Tags of services.
mod tag {
    pub(super) const TCP_V4: u8 = 64;
    pub(super) const UDP_V4: u8 = 65;
    pub(super) const TCP_V6: u8 = 66;
    pub(super) const UDP_V6: u8 = 67;
    pub(super) const TCP_NAME: u8 = 68;
    pub(super) const UDP_NAME: u8 = 69;
    /// Tags below are primitive, and have no length.
    pub(super) const FIRST_CONSTRUCTED: u8 = 64;
}

/// Tags of the primitive values in services.
mod primitive {
    pub(super) const FIXED16: u8 = 3;
    pub(super) const FIXED32: u8 = 4;
    pub(super) const STRING: u8 = 8;
    pub(super) const BYTES: u8 = 9;
}

/// The next service; `None` for one that is not known, which its length skips.
pub(super) fn read_service(reader: &mut Reader<'_>) -> Result<Option<Service>, Malformed> {
    let tag = reader.octet()?;
    if tag < tag::FIRST_CONSTRUCTED {
        return Err(Malformed);
    }
    let length = reader.number()?;
    let mut content = Reader::new(reader.octets(length)?);
    let protocol = match tag {
        tag::TCP_V4 | tag::TCP_V6 | tag::TCP_NAME => ServiceProtocol::Tcpcl,
        tag::UDP_V4 | tag::UDP_V6 | tag::UDP_NAME => ServiceProtocol::Udpcl,
        _ => return Ok(None),
    };
    // The order of the two is nobody's business (2.6.1).
    let (mut host, mut port) = (None, None);
    while !content.is_empty() {
        match content.octet()? {
            primitive::FIXED16 if port.is_none() => {
                port = Some(u16::from_be_bytes(array(&mut content)?));
            }
            child if host.is_none() => host = Some(read_host(tag, child, &mut content)?),
            _ => return Err(Malformed),
        }
    }
    match (host, port) {
        (Some(host), Some(port)) => Ok(Some(Service {
            protocol,
            host,
            port,
        })),
        _ => Err(Malformed),
    }
}

/// The value of a service's host.
fn read_host(tag: u8, child: u8, content: &mut Reader<'_>) -> Result<Host, Malformed> {
    match (tag, child) {
        (tag::TCP_V4 | tag::UDP_V4, primitive::FIXED32) => {
            let address = Ipv4Addr::from(array::<4>(content)?);
            Ok(address_or_sender(address.into()))
        }
        (tag::TCP_V6 | tag::UDP_V6, primitive::BYTES) => match content.number()? {
            16 => {
                let address = Ipv6Addr::from(array::<16>(content)?);
                Ok(address_or_sender(address.into()))
            }
            _ => Err(Malformed),
        },
        (tag::TCP_NAME | tag::UDP_NAME, primitive::STRING) => {
            let length = content.number()?;
            let name = core::str::from_utf8(content.octets(length)?).map_err(|_| Malformed)?;
            named(name)
        }
        _ => Err(Malformed),
    }
}

/// The host of an address; the unspecified one is the sender's.
pub(super) fn address_or_sender(address: IpAddr) -> Host {
    match address.is_unspecified() {
        true => Host::Sender,
        false => Host::Address(address),
    }
}

/// The host of a name. An empty one is written as one NUL (2.6.1).
pub(super) fn named(name: &str) -> Result<Host, Malformed> {
    let octets = u64::try_from(name.len()).unwrap_or(u64::MAX);
    let is_name = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    if name.is_empty() || octets > MAX_NODE_ID_OCTETS || !name.bytes().all(is_name) {
        return Err(Malformed);
    }
    Ok(Host::Name(name.to_string()))
}

fn array<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], Malformed> {
    let octets = reader.octets(u64::try_from(N).unwrap_or(u64::MAX))?;
    octets.try_into().map_err(|_| Malformed)
}

/// Appends a service, the port first as BBN's and the draft's encoders have it; false where it has no form.
pub(super) fn write_service(service: &Service, out: &mut Vec<u8>) -> bool {
    let (v4, v6, name) = match service.protocol {
        ServiceProtocol::Tcpcl => (tag::TCP_V4, tag::TCP_V6, tag::TCP_NAME),
        ServiceProtocol::Udpcl => (tag::UDP_V4, tag::UDP_V6, tag::UDP_NAME),
        ServiceProtocol::Mtcp => return false,
    };
    let mut content = Vec::new();
    content.push(primitive::FIXED16);
    content.extend_from_slice(&service.port.to_be_bytes());
    let tag = match &service.host {
        Host::Sender => write_v4(Ipv4Addr::UNSPECIFIED, v4, &mut content),
        Host::Address(IpAddr::V4(address)) => write_v4(*address, v4, &mut content),
        Host::Address(IpAddr::V6(address)) => {
            content.push(primitive::BYTES);
            sdnv::write(&mut content, 16);
            content.extend_from_slice(&address.octets());
            v6
        }
        Host::Name(host) => {
            content.push(primitive::STRING);
            write_string(host, &mut content);
            name
        }
    };
    out.push(tag);
    sdnv::write(out, u64::try_from(content.len()).unwrap_or(u64::MAX));
    out.append(&mut content);
    true
}

fn write_v4(address: Ipv4Addr, tag: u8, content: &mut Vec<u8>) -> u8 {
    content.push(primitive::FIXED32);
    content.extend_from_slice(&address.octets());
    tag
}
