//! [`BeaconOrigin`]: the side from which a beacon came, which decides about the addresses that its node may be at.

use core::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// The side from which a beacon came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BeaconOrigin {
    /// A loopback address: a node of this machine sent it.
    ThisMachine,
    /// Any other address.
    Elsewhere,
}

/// Why no node can be dialled at an address of which a beacon told. Shown as a fragment that fits "cannot connect to …: {error}".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum AddressRefusal {
    /// Zeros: the system would connect to itself.
    #[error("its beacon leads to {0}, which is nobody's address")]
    Unspecified(IpAddr),
    /// An address of this machine alone, of which another one told.
    #[error("its beacon came from elsewhere and leads to {0}, a loopback address")]
    Loopback(IpAddr),
    /// A group.
    #[error("its beacon leads to {0}, a multicast address")]
    Multicast(IpAddr),
    /// All hosts of a network.
    #[error("its beacon leads to {0}, the broadcast address")]
    Broadcast(IpAddr),
    /// An address of one link, and nobody says of which.
    #[error("its beacon leads to {0}, an address of a link that it does not name")]
    OfLink(IpAddr),
}

impl BeaconOrigin {
    /// The origin of a beacon from this address.
    #[must_use]
    pub const fn of(from: IpAddr) -> Self {
        match from.to_canonical().is_loopback() {
            true => Self::ThisMachine,
            false => Self::Elsewhere,
        }
    }

    /// Checks an address that a beacon of this origin names, or that a host name in it has now, whichever form it is in: an IPv4 address in
    /// IPv6 (RFC 4291 2.5.5.2) is reached over IPv4.
    ///
    /// # Errors
    /// No node is to be dialled there.
    pub const fn check(self, address: SocketAddr) -> Result<(), AddressRefusal> {
        let ip = address.ip().to_canonical();
        let is_broadcast = matches!(ip, IpAddr::V4(it) if it.is_broadcast());
        // An address of one link is of use to nodes on it, as a beacon that came from such an address shows.
        let is_of_link = matches!(ip, IpAddr::V6(it) if it.is_unicast_link_local());
        let has_scope = matches!(address, SocketAddr::V6(it) if it.scope_id() != 0);
        match self {
            _ if ip.is_unspecified() => Err(AddressRefusal::Unspecified(ip)),
            Self::Elsewhere if ip.is_loopback() => Err(AddressRefusal::Loopback(ip)),
            _ if ip.is_multicast() => Err(AddressRefusal::Multicast(ip)),
            _ if is_broadcast => Err(AddressRefusal::Broadcast(ip)),
            _ if is_of_link && !has_scope => Err(AddressRefusal::OfLink(ip)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_refused_in_each_of_its_forms() {
        use AddressRefusal::{Broadcast, Loopback, Multicast, OfLink, Unspecified};
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (address, expected) in [
            ("192.0.2.1:9", Ok(())),
            ("[::ffff:192.0.2.1]:9", Ok(())),
            ("[2001:db8::1]:9", Ok(())),
            ("[fe80::1%2]:9", Ok(())),
            ("[fe80::1]:9", Err(OfLink(ip("fe80::1")))),
            ("127.0.0.1:9", Err(Loopback(ip("127.0.0.1")))),
            ("127.9.9.9:9", Err(Loopback(ip("127.9.9.9")))),
            ("[::1]:9", Err(Loopback(ip("::1")))),
            ("[::ffff:127.0.0.1]:9", Err(Loopback(ip("127.0.0.1")))),
            ("0.0.0.0:9", Err(Unspecified(ip("0.0.0.0")))),
            ("[::]:9", Err(Unspecified(ip("::")))),
            ("[::ffff:0.0.0.0]:9", Err(Unspecified(ip("0.0.0.0")))),
            ("224.0.0.77:9", Err(Multicast(ip("224.0.0.77")))),
            ("[::ffff:224.0.0.77]:9", Err(Multicast(ip("224.0.0.77")))),
            ("[ff02::142]:9", Err(Multicast(ip("ff02::142")))),
            ("255.255.255.255:9", Err(Broadcast(ip("255.255.255.255")))),
            (
                "[::ffff:255.255.255.255]:9",
                Err(Broadcast(ip("255.255.255.255"))),
            ),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!(BeaconOrigin::Elsewhere.check(parsed), expected, "{address}");
            // Nodes of one machine may be at its loopback addresses, and nowhere else than others.
            let here = match expected {
                Err(Loopback(_)) => Ok(()),
                other => other,
            };
            assert_eq!(BeaconOrigin::ThisMachine.check(parsed), here, "{address}");
        }
    }

    #[test]
    fn a_beacon_from_a_loopback_address_is_of_this_machine() {
        for (from, origin) in [
            ("127.0.0.2", BeaconOrigin::ThisMachine),
            ("::1", BeaconOrigin::ThisMachine),
            ("::ffff:127.0.0.1", BeaconOrigin::ThisMachine),
            ("192.0.2.1", BeaconOrigin::Elsewhere),
            ("fe80::1", BeaconOrigin::Elsewhere),
        ] {
            assert_eq!(BeaconOrigin::of(from.parse().unwrap()), origin, "{from}");
        }
    }
}
