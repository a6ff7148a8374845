//! Services of versions 0x01 and 0x02: two strings, a name and parameters (`tcpcl`, `ip=192.0.2.1;port=4556;`), as IBR-DTN writes them.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use dhow_bundle::v6::sdnv::Reader;

use super::services::{address_or_sender, named};
use super::{Malformed, write_string};
use crate::discovery::beacon::{Host, Service, ServiceProtocol};

/// The port of a service whose parameters name none.
const DEFAULT_PORT: u16 = 4556;

/// The next service; `None` for one that is not known, or whose parameters are of no use.
pub(super) fn read_service(reader: &mut Reader<'_>) -> Result<Option<Service>, Malformed> {
    let name = reader.number()?;
    let name = reader.octets(name)?;
    let parameters = reader.number()?;
    let parameters = reader.octets(parameters)?;
    let protocol = match name {
        b"tcpcl" => ServiceProtocol::Tcpcl,
        b"udpcl" => ServiceProtocol::Udpcl,
        _ => return Ok(None),
    };
    Ok(core::str::from_utf8(parameters)
        .ok()
        .and_then(|parameters| service(protocol, parameters)))
}

fn service(protocol: ServiceProtocol, parameters: &str) -> Option<Service> {
    let mut service = Service {
        protocol,
        host: Host::Sender,
        port: DEFAULT_PORT,
    };
    for parameter in parameters.split(';') {
        match parameter.split_once('=') {
            Some(("port", port)) => service.port = port.parse().ok()?,
            Some(("ip", host)) => {
                service.host = match host.parse::<IpAddr>() {
                    Ok(address) => address_or_sender(address),
                    Err(_) => named(host).ok()?,
                }
            }
            _ => {}
        }
    }
    Some(service)
}

/// Appends a service; false where it has no form.
pub(super) fn write_service(service: &Service, out: &mut Vec<u8>) -> bool {
    let name = match service.protocol {
        ServiceProtocol::Tcpcl => "tcpcl",
        ServiceProtocol::Udpcl => "udpcl",
        ServiceProtocol::Mtcp => return false,
    };
    write_string(name, out);
    let port = service.port;
    let parameters = match &service.host {
        Host::Sender => format!("port={port};"),
        Host::Address(address) => format!("ip={address};port={port};"),
        Host::Name(host) => format!("ip={host};port={port};"),
    };
    write_string(&parameters, out);
    true
}
