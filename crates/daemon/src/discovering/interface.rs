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
    /// Those of all others on its network.
    pub(super) broadcast: Option<Ipv4Addr>,
    /// Those of the link alone behind the others.
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
                if let Some(IpAddr::V4(all)) = ip(entry.broadcast.as_ref())
                    && entry.flags.contains(InterfaceFlags::IFF_BROADCAST)
                {
                    interface.broadcast.get_or_insert(all);
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

#[cfg(test)]
mod tests {
    use super::*;

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
