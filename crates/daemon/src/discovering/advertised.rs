//! The services that a beacon names: the node's listeners, at addresses of the interface by which it leaves.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use dhow_link::discovery::{Format, Host, Service, ServiceProtocol};

use super::interface::Interface;
use super::sockets::Way;

/// The node's listeners whose convergence layers beacons have a name for.
#[derive(Clone, Debug, Default)]
pub struct Advertised(Vec<(ServiceProtocol, SocketAddr)>);

impl Advertised {
    /// The listeners at these addresses.
    #[must_use]
    pub const fn new(listeners: Vec<(ServiceProtocol, SocketAddr)>) -> Self {
        Self(listeners)
    }

    /// The listeners that a node can reach which gets a beacon on this way. If a convergence layer has a listener for the network of the
    /// beacon, those at addresses of other networks are for neighbours there, which may be spoken to in another way.
    pub(super) fn services(&self, format: Format, way: &Way<'_>) -> Vec<Service> {
        let mut services = Vec::new();
        let own = match way.by {
            Some(_) => None,
            None => own_towards(way.to),
        };
        let is_of_way = |bound: SocketAddr| match way.by {
            _ if bound.ip().is_unspecified() => true,
            Some(interface) => interface.has(bound.ip()),
            None => own == Some(bound.ip()),
        };
        for &(protocol, bound) in &self.0 {
            let mut same = self.0.iter().filter(|(other, _)| *other == protocol);
            if !is_of_way(bound) && same.any(|&(_, other)| is_of_way(other)) {
                continue;
            }
            for host in hosts(bound, format, way) {
                let service = Service {
                    protocol,
                    host,
                    port: bound.port(),
                };
                if !services.contains(&service) {
                    services.push(service);
                }
            }
        }
        services
    }
}

/// The hosts at which a listener is.
fn hosts(bound: SocketAddr, format: Format, way: &Way<'_>) -> Vec<Host> {
    let by = way.by;
    let ip = bound.ip();
    if !ip.is_unspecified() {
        let is_own = by.is_none_or(|it| it.has(ip));
        return match format {
            // The form has no addresses: the service is at the one from which the beacon comes.
            Format::Cbor if is_own => vec![Host::Sender],
            Format::Cbor => Vec::new(),
            _ if ip.is_loopback() && !is_own => Vec::new(),
            _ => vec![Host::Address(ip)],
        };
    }
    // A listener at [::] takes IPv4 too, unless another one does.
    let takes = |other: IpAddr| bound.is_ipv6() || other.is_ipv4();
    if format != Format::Ipnd4 {
        return match takes(way.to.ip()) {
            true => vec![Host::Sender],
            false => Vec::new(),
        };
    }
    // Version 0x04 has no word for the sender's address.
    let mut addresses = match by {
        Some(interface) => own_addresses(interface),
        None => Vec::from_iter(own_towards(way.to)),
    };
    // An address of the link says nothing without its interface, which a beacon over IPv6 shows.
    let is_of_link =
        |it: IpAddr| matches!(it, IpAddr::V6(address) if address.is_unicast_link_local());
    addresses.retain(|&address| takes(address) && (way.to.is_ipv6() || !is_of_link(address)));
    // The address of the beacon's family comes first: its way is known to work.
    addresses.sort_by_key(|address| address.is_ipv4() != way.to.is_ipv4());
    addresses.into_iter().map(Host::Address).collect()
}

/// One address of each family.
fn own_addresses(interface: &Interface) -> Vec<IpAddr> {
    let v4 = interface.v4.first().copied().map(IpAddr::V4);
    let v6 = interface.v6.first().copied().map(IpAddr::V6);
    v4.into_iter().chain(v6).collect()
}

/// The address from which this machine sends to another.
fn own_towards(to: SocketAddr) -> Option<IpAddr> {
    let any = match to {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth0".into(),
            index: 2,
            is_loopback: false,
            v4: vec!["192.0.2.1".parse().unwrap()],
            broadcast: Some("192.0.2.255".parse().unwrap()),
            v6: vec!["2001:db8::1".parse().unwrap(), "fe80::1".parse().unwrap()],
        }
    }

    fn services(bound: &str, format: Format, to: &str) -> Vec<String> {
        services_of(&[bound], format, to)
    }

    fn services_of(bound: &[&str], format: Format, to: &str) -> Vec<String> {
        let listeners = bound.iter();
        let listeners = listeners
            .map(|it| (ServiceProtocol::Tcpcl, it.parse().unwrap()))
            .collect();
        let interface = interface();
        let way = Way {
            to: to.parse().unwrap(),
            by: Some(&interface),
        };
        let services = Advertised::new(listeners).services(format, &way);
        let shown = |it: Service| match it.host {
            Host::Sender => format!("sender:{}", it.port),
            Host::Address(address) => SocketAddr::new(address, it.port).to_string(),
            Host::Name(name) => format!("{name}:{}", it.port),
        };
        services.into_iter().map(shown).collect()
    }

    const GROUP: &str = "224.0.0.142:4551";

    #[test]
    fn a_listener_everywhere_is_at_the_addresses_of_the_interface() {
        let both = ["192.0.2.1:4556", "[2001:db8::1]:4556"];
        assert_eq!(services("[::]:4556", Format::Ipnd4, GROUP), both);
        let v6 = services("[::]:4556", Format::Ipnd4, "[ff02::142]:4551");
        assert_eq!(v6, ["[2001:db8::1]:4556", "192.0.2.1:4556"]);
        let v4 = services("0.0.0.0:4556", Format::Ipnd4, "[ff02::142]:4551");
        assert_eq!(v4, ["192.0.2.1:4556"]);
        assert_eq!(services("[::]:9", Format::Ipnd2, GROUP), ["sender:9"]);
        assert_eq!(services("[::]:9", Format::Cbor, GROUP), ["sender:9"]);
    }

    #[test]
    fn a_listener_at_one_address_is_there_and_not_told_where_it_cannot_be_reached() {
        let here = services("192.0.2.1:9", Format::Ipnd4, GROUP);
        assert_eq!(here, ["192.0.2.1:9"]);
        assert_eq!(services("192.0.2.1:9", Format::Cbor, GROUP), ["sender:9"]);
        let elsewhere = services("198.51.100.7:9", Format::Ipnd2, GROUP);
        assert_eq!(elsewhere, ["198.51.100.7:9"]);
        for format in Format::ALL {
            assert!(services("127.0.0.1:9", format, GROUP).is_empty());
        }
    }

    #[test]
    fn of_listeners_on_several_networks_that_of_the_beacons_network_is_told() {
        for other in ["192.0.2.1:9", "0.0.0.0:9"] {
            for format in [Format::Ipnd4, Format::Ipnd2] {
                let both = services_of(&["198.51.100.7:9", other], format, GROUP);
                assert_eq!(both.len(), 1, "{both:?}");
                assert!(!both[0].starts_with("198."), "{both:?}");
            }
        }
    }
}
