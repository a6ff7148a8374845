//! Interfaces of the machine, with their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

/// Interfaces that are looked at, at most.
const INTERFACES_MAX: usize = 64;

/// Addresses of one family of an interface that are remembered, at most.
const ADDRESSES_MAX: usize = 16;

/// An interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) is_loopback: bool,
    pub(super) v4: Vec<Ipv4Addr>,
    /// The broadcast address of its network.
    pub(super) broadcast: Option<Ipv4Addr>,
    /// IPv6 addresses, those of the link alone behind the others.
    pub(super) v6: Vec<Ipv6Addr>,
}

impl Interface {
    /// Whether one of its addresses is this one.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(&address),
            IpAddr::V6(address) => self.v6.contains(&address),
        }
    }
}

/// All that are up; none where the system does not tell.
pub(super) fn interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let Ok(addresses) = getifaddrs() else {
        return found;
    };
    for entry in addresses.filter(|it| it.flags.contains(InterfaceFlags::IFF_UP)) {
        let known = found.iter().position(|it| it.name == entry.interface_name);
        let known = known.or_else(|| {
            let index = if_nametoindex(entry.interface_name.as_str()).ok()?;
            (found.len() < INTERFACES_MAX).then(|| {
                found.push(Interface {
                    name: entry.interface_name.clone(),
                    index,
                    is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                    v4: Vec::new(),
                    broadcast: None,
                    v6: Vec::new(),
                });
                found.len() - 1
            })
        });
        let Some(interface) = known.and_then(|at| found.get_mut(at)) else {
            continue;
        };
        let ip = |address: Option<&SockaddrStorage>| {
            let address = address?;
            let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
        };
        match ip(entry.address.as_ref()) {
            Some(IpAddr::V4(address)) if interface.v4.len() < ADDRESSES_MAX => {
                interface.v4.push(address);
                if let Some(IpAddr::V4(mask)) = ip(entry.netmask.as_ref())
                    && entry.flags.contains(InterfaceFlags::IFF_BROADCAST)
                {
                    let all = broadcast_of(address, mask);
                    interface.broadcast = interface.broadcast.or(all);
                }
            }
            Some(IpAddr::V6(address)) if interface.v6.len() < ADDRESSES_MAX => {
                interface.v6.push(address);
            }
            _ => {}
        }
    }
    for interface in &mut found {
        interface.v6.sort_by_key(Ipv6Addr::is_unicast_link_local);
    }
    found
}

/// The address of all on a network; none where it has two hosts at most (RFC 3021). Systems tell it only where somebody set it.
fn broadcast_of(address: Ipv4Addr, mask: Ipv4Addr) -> Option<Ipv4Addr> {
    let hosts = !mask.to_bits();
    (hosts > 1).then(|| Ipv4Addr::from_bits(address.to_bits() | hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_two_hosts_has_no_broadcast_address() {
        let of = |mask: [u8; 4]| broadcast_of([192, 0, 2, 77].into(), mask.into());
        assert_eq!(of([255, 255, 255, 0]), Some([192, 0, 2, 255].into()));
        assert_eq!(of([255, 255, 255, 252]), Some([192, 0, 2, 79].into()));
        assert_eq!(of([255, 255, 255, 254]), None);
        assert_eq!(of([255, 255, 255, 255]), None);
    }

    #[test]
    fn the_loopback_interface_is_found_with_its_address() {
        let all = interfaces();
        let own = all
            .iter()
            .find(|it| it.has(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(
            own.is_none_or(|it| it.is_loopback && it.index > 0),
            "{all:?}"
        );
    }
}
