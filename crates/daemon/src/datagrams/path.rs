//! The way of datagrams to an address, as far as the system knows it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::sockopt;

use crate::streams::route::is_carrier_missing;

/// Octets of the header of IPv4 without options, and of that of UDP.
const HEADERS_V4: u32 = 20 + 8;

/// Octets of the header of IPv6, and of that of UDP.
const HEADERS_V6: u32 = 40 + 8;

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address to which it leads.
    pub to: SocketAddr,
    /// The address of this machine that it begins at.
    pub own: IpAddr,
    /// Octets of UDP payload in the longest datagram that it takes, where the system says so.
    pub mtu_octets: Option<u64>,
}

impl Path {
    /// The way to an address now. Nothing is sent.
    ///
    /// # Errors
    /// There is none, or the system gives no socket.
    pub fn find(to: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        let mtu = match to {
            SocketAddr::V4(_) => sockopt::ip_mtu(&socket).map(|octets| (octets, HEADERS_V4)),
            SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket).map(|octets| (octets, HEADERS_V6)),
        };
        let payload = |(octets, headers): (u32, u32)| octets.saturating_sub(headers).into();
        Ok(Self {
            to,
            own: socket.local_addr()?.ip(),
            mtu_octets: mtu.ok().map(payload),
        })
    }

    /// Whether datagrams can leave for the same address from another one of this machine.
    #[must_use]
    pub fn can_begin_at(&self, own: IpAddr) -> bool {
        own.is_ipv4() == self.to.is_ipv4()
            && UdpSocket::bind((own, 0)).is_ok_and(|socket| socket.connect(self.to).is_ok())
    }
}

/// Whether nothing that is sent to an address could leave now.
#[must_use]
pub fn is_missing(to: SocketAddr) -> bool {
    is_carrier_missing(to) || Path::find(to).is_err_and(|error| says_no_way(&error))
}

/// Whether the system says that no way leads somewhere.
#[must_use]
pub fn says_no_way(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_loopback_begins_there_and_takes_what_the_device_does() {
        for (to, own) in [("127.0.0.1:9", "127.0.0.1"), ("[::1]:9", "::1")] {
            let Ok(way) = Path::find(to.parse().unwrap()) else {
                // A machine may have no IPv6.
                continue;
            };
            assert_eq!(way.own, own.parse::<IpAddr>().unwrap());
            assert!(way.mtu_octets.unwrap() > 1_000);
            assert!(!is_missing(way.to));
        }
    }

    #[test]
    fn a_way_can_begin_at_another_address_of_the_machine() {
        let way = Path::find("127.0.0.1:9".parse().unwrap()).unwrap();
        for (own, can) in [("127.0.0.22", true), ("192.0.2.1", false), ("::1", false)] {
            assert_eq!(way.can_begin_at(own.parse().unwrap()), can, "{own}");
        }
    }
}
