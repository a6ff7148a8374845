//! The system's routes: whether the interface on the way to an address has a carrier.
//!
//! A packet towards an interface without one is lost, and costs more than itself: the system begins to look
//! for the neighbour's address, asks once a second, and goes on with that when the carrier is back.

use std::io;
use std::net::SocketAddr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Message types: a question for a route, and a route (`RTM_GETROUTE`, `RTM_NEWROUTE`).
const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;

/// The route as it is in the table, not what comes of it for one destination (`RTM_F_FIB_MATCH`).
const AS_IN_TABLE: u32 = 0x2000;

/// The next hop's interface has no carrier (`RTNH_F_LINKDOWN`).
const LINK_DOWN: u32 = 0x10;

/// Attributes: the destination, the interface (`RTA_DST`, `RTA_OIF`).
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;

/// Room for the answer, octets; only its first 28 are of interest.
const BUFFER_OCTETS: usize = 2048;

/// True when the system says that the interface which leads to `to` has no carrier. If there is no route, or
/// none of one interface alone, that is left to find out by trying.
#[must_use]
pub fn is_carrier_missing(to: SocketAddr) -> bool {
    match flags(to) {
        Ok(flags) => flags.is_some_and(|flags| flags & LINK_DOWN != 0),
        Err(error) => {
            tracing::debug!("the system does not tell of routes: {error}");
            false
        }
    }
}

fn flags(to: SocketAddr) -> io::Result<Option<u32>> {
    let kind = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // The protocol's number is 0: routes.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, kind, None)?;
    rustix::net::connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    rustix::net::send(&socket, &question(to), SendFlags::empty())?;
    // The kernel has answered by the time that it has taken the question.
    let mut buffer = [0_u8; BUFFER_OCTETS];
    let (octets, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
    Ok(read(buffer.get(..octets).unwrap_or_default()))
}

/// `struct nlmsghdr`, `struct rtmsg` and attributes, all in the machine's order of octets but addresses.
fn question(to: SocketAddr) -> Vec<u8> {
    /// `NLM_F_REQUEST`.
    const REQUEST: u16 = 1;
    let scope = match to {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(to) => to.scope_id(),
    };
    let (family, address) = match to.ip().to_canonical() {
        std::net::IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        std::net::IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let mut body = vec![u8::try_from(family.as_raw()).unwrap_or(0)];
    body.push(u8::try_from(address.len() * 8).unwrap_or(0));
    body.extend_from_slice(&[0; 6]);
    body.extend_from_slice(&AS_IN_TABLE.to_ne_bytes());
    attribute(&mut body, DESTINATION, &address);
    if scope != 0 {
        attribute(&mut body, INTERFACE, &scope.to_ne_bytes());
    }
    let mut message = Vec::with_capacity(16 + body.len());
    let length = u32::try_from(16 + body.len()).unwrap_or(0);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&GET_ROUTE.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);
    message
}

/// Adds an attribute whose value needs no padding.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(0);
    body.extend_from_slice(&length.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
}

/// The flags of the route that an answer holds.
fn read(answer: &[u8]) -> Option<u32> {
    let kind = answer.get(4..6)?.first_chunk().copied()?;
    if u16::from_ne_bytes(kind) != NEW_ROUTE {
        return None;
    }
    let flags = answer.get(24..28)?.first_chunk().copied()?;
    Some(u32::from_ne_bytes(flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_carrier() {
        assert!(!is_carrier_missing("127.0.0.1:1".parse().unwrap()));
        assert!(!is_carrier_missing("[::ffff:127.0.0.1]:1".parse().unwrap()));
    }

    #[test]
    fn the_system_knows_the_way_to_loopback() {
        assert!(flags("127.0.0.1:1".parse().unwrap()).unwrap().is_some());
    }

    #[test]
    fn questions_say_their_length_and_answers_of_any_length_are_read() {
        for to in ["192.0.2.1:4556", "[2001:db8::1]:4556", "[fe80::1%3]:4556"] {
            let question = question(to.parse().unwrap());
            let length = u32::from_ne_bytes(question[..4].try_into().unwrap());
            assert_eq!(usize::try_from(length).unwrap(), question.len());
        }
        let mut answer = vec![0_u8; 28];
        answer[4..6].copy_from_slice(&NEW_ROUTE.to_ne_bytes());
        answer[24..28].copy_from_slice(&LINK_DOWN.to_ne_bytes());
        assert_eq!(read(&answer), Some(LINK_DOWN));
        for length in 0..answer.len() {
            assert_eq!(read(&answer[..length]), None);
        }
    }
}
