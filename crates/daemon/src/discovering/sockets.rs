//! Sockets of beacons: one for each port and family, which hears and sends.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd as _;
use std::rc::Rc;

use dhow_node::config::DiscoverId;
use nix::cmsg_space;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::interface::Interface;
use crate::config::discover::DiscoverSettings;

/// Hops that multicast beacons go: a neighbour is on the same link.
const MULTICAST_HOPS: u32 = 1;

/// A port where beacons are heard, and from which they leave.
pub(super) struct Ear {
    is_v6: bool,
    port: u16,
    /// Those that hear what comes, and the interfaces by which they do where these are named.
    places: Vec<(DiscoverId, Vec<String>)>,
    /// Groups, and the interfaces on which they are joined.
    groups: Vec<(IpAddr, Vec<String>)>,
    joined: RefCell<BTreeSet<(IpAddr, u32)>>,
    /// None while it cannot be had.
    socket: RefCell<Option<Rc<UdpSocket>>>,
    is_told: RefCell<bool>,
}

/// A datagram that came.
pub(super) struct Arrival {
    pub(super) octets: usize,
    pub(super) from: SocketAddr,
    /// The number of the interface by which it came.
    pub(super) by: Option<u32>,
}

/// Reads a datagram.
fn arrival(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut room = cmsg_space!(in_pktinfo, in6_pktinfo);
    let mut slices = [IoSliceMut::new(buffer)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut room), flags)?;
    let by = message.cmsgs()?.find_map(|said| match said {
        ControlMessageOwned::Ipv4PacketInfo(it) => u32::try_from(it.ipi_ifindex).ok(),
        ControlMessageOwned::Ipv6PacketInfo(it) => Some(it.ipi6_ifindex),
        _ => None,
    });
    let from = message.address.as_ref().and_then(|it| {
        let v4 = it.as_sockaddr_in().map(|it| SocketAddrV4::from(*it).into());
        let v6 = || {
            it.as_sockaddr_in6()
                .map(|it| SocketAddrV6::from(*it).into())
        };
        v4.or_else(v6)
    });
    let from: SocketAddr = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(Arrival {
        octets: message.bytes,
        from,
        by,
    })
}

/// A way of a beacon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) to: SocketAddr,
    /// The interface by which it leaves, where that is chosen.
    pub(super) by: Option<&'a Interface>,
}

impl<'a> Way<'a> {
    /// To a group, or to everybody, by each interface that is named, or by all but loopback ones; else one.
    pub(super) fn all(to: SocketAddr, known: &'a [Interface], named: &[String]) -> Vec<Self> {
        let is_broadcast = to.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
        if !to.ip().is_multicast() && !is_broadcast {
            return vec![Self { to, by: None }];
        }
        let chosen = known.iter().filter(|it| is_chosen(it, named));
        let ways = chosen.filter_map(|interface| {
            let by = Some(interface);
            match to {
                SocketAddr::V4(_) if is_broadcast => {
                    let all = interface.broadcast?;
                    let to = SocketAddr::new(all.into(), to.port());
                    Some(Self { to, by })
                }
                SocketAddr::V4(_) => (!interface.v4.is_empty()).then_some(Self { to, by }),
                SocketAddr::V6(group) => {
                    let to = SocketAddrV6::new(*group.ip(), group.port(), 0, interface.index);
                    let to = SocketAddr::V6(to);
                    (!interface.v6.is_empty()).then_some(Self { to, by })
                }
            }
        });
        ways.collect()
    }
}

fn is_chosen(interface: &Interface, named: &[String]) -> bool {
    match named {
        [] => !interface.is_loopback,
        named => named.contains(&interface.name),
    }
}

impl Ear {
    /// The sockets that places need.
    pub(super) fn of(places: &[DiscoverSettings]) -> Vec<Self> {
        let mut ears: Vec<Self> = Vec::new();
        for (id, settings) in (0_u32..).zip(places) {
            for to in &settings.destinations {
                let (is_v6, port) = (to.is_ipv6(), to.port());
                let known = ears
                    .iter()
                    .position(|ear| (ear.is_v6, ear.port) == (is_v6, port));
                let at = known.unwrap_or_else(|| {
                    ears.push(Self::new(is_v6, port));
                    ears.len() - 1
                });
                let Some(ear) = ears.get_mut(at) else {
                    continue;
                };
                if !ear.serves(DiscoverId(id)) {
                    let place = (DiscoverId(id), settings.interfaces.clone());
                    ear.places.push(place);
                }
                if to.ip().is_multicast() {
                    ear.groups.push((to.ip(), settings.interfaces.clone()));
                }
            }
        }
        ears
    }

    const fn new(is_v6: bool, port: u16) -> Self {
        Self {
            is_v6,
            port,
            places: Vec::new(),
            groups: Vec::new(),
            joined: RefCell::new(BTreeSet::new()),
            socket: RefCell::new(None),
            is_told: RefCell::new(false),
        }
    }

    /// The places that hear what comes by an interface of this number: a group that another place has joined elsewhere is heard by this socket too.
    pub(super) fn places(
        &self,
        by: Option<u32>,
        known: &[Interface],
    ) -> impl Iterator<Item = DiscoverId> {
        let name = known.iter().find(|it| Some(it.index) == by);
        let name = name.map(|it| &it.name);
        let hears = move |named: &[String]| {
            named.is_empty() || name.is_some_and(|name| named.contains(name))
        };
        let places = self.places.iter().filter(move |(_, named)| hears(named));
        places.map(|(place, _)| *place)
    }

    fn serves(&self, place: DiscoverId) -> bool {
        self.places.iter().any(|(it, _)| *it == place)
    }

    /// Whether a place's beacons to an address leave from it.
    pub(super) fn sends_to(&self, place: DiscoverId, to: SocketAddr) -> bool {
        self.is_v6 == to.is_ipv6() && self.serves(place)
    }

    /// Has the port, if it can be had and is not yet; true where it was not before.
    pub(super) fn open(&self) -> bool {
        if self.socket.borrow().is_some() {
            return false;
        }
        match self.bind() {
            Ok(socket) => {
                *self.socket.borrow_mut() = Some(Rc::new(socket));
                true
            }
            Err(error) => {
                if !self.is_told.replace(true) {
                    let family = if self.is_v6 { "IPv6" } else { "IPv4" };
                    tracing::warn!(port = self.port, "no beacons over {family}: {error}");
                }
                false
            }
        }
    }

    fn bind(&self) -> io::Result<UdpSocket> {
        let (domain, wildcard) = match self.is_v6 {
            false => (Domain::IPV4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            true => (Domain::IPV6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // Other programs on this machine hear the same groups.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        match self.is_v6 {
            false => {
                socket.set_broadcast(true)?;
                socket.set_multicast_ttl_v4(MULTICAST_HOPS)?;
                setsockopt(&socket, Ipv4PacketInfo, &true)?;
            }
            true => {
                socket.set_only_v6(true)?;
                socket.set_multicast_hops_v6(MULTICAST_HOPS)?;
                setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
            }
        }
        socket.bind(&SocketAddr::new(wildcard, self.port).into())?;
        UdpSocket::from_std(socket.into())
    }

    /// Joins groups on the interfaces on which they are not yet.
    pub(super) fn join(&self, known: &[Interface]) {
        let socket = self.socket.borrow();
        let Some(socket) = socket.as_ref() else {
            return;
        };
        let socket = SockRef::from(socket.as_ref());
        let mut joined = self.joined.borrow_mut();
        // An interface of the same number may be another one.
        joined.retain(|(_, index)| known.iter().any(|it| it.index == *index));
        for (group, named) in &self.groups {
            for interface in known.iter().filter(|it| is_chosen(it, named)) {
                if !joined.insert((*group, interface.index)) {
                    continue;
                }
                let outcome = match group {
                    IpAddr::V4(group) => socket.join_multicast_v4_n(
                        group,
                        &InterfaceIndexOrAddress::Index(interface.index),
                    ),
                    IpAddr::V6(group) => socket.join_multicast_v6(group, interface.index),
                };
                match outcome {
                    Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                        joined.remove(&(*group, interface.index));
                        tracing::debug!(%group, interface = interface.name, "not joined: {error}");
                    }
                    _ => {}
                }
            }
        }
    }

    /// The next datagram.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let socket = self.socket.borrow().clone();
        let Some(socket) = socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let read = || arrival(&socket, buffer);
        socket.async_io(Interest::READABLE, read).await
    }

    /// Sends a datagram, or drops it: another follows.
    pub(super) fn send(&self, datagram: &[u8], way: &Way<'_>) -> io::Result<()> {
        let socket = self.socket.borrow();
        let Some(socket) = socket.as_ref() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let socket = SockRef::from(socket.as_ref());
        if let (Some(interface), IpAddr::V4(_)) = (way.by, way.to.ip())
            && let Some(own) = interface.v4.first()
        {
            socket.set_multicast_if_v4(own)?;
        }
        socket.send_to(datagram, &way.to.into()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_interfaces_hears_what_comes_by_them_alone() {
        let interface = |name: &str, index| Interface {
            name: name.into(),
            index,
            is_loopback: false,
            v4: Vec::new(),
            broadcast: None,
            v6: Vec::new(),
        };
        let known = [interface("eth0", 2), interface("eth1", 3)];
        let mut ear = Ear::new(false, 4551);
        ear.places = vec![
            (DiscoverId(0), vec!["eth0".into()]),
            (DiscoverId(1), vec!["eth1".into(), "eth2".into()]),
            (DiscoverId(2), Vec::new()),
        ];
        let heard = |by| Vec::from_iter(ear.places(by, &known).map(|DiscoverId(id)| id));
        assert_eq!(heard(Some(2)), [0, 2]);
        assert_eq!(heard(Some(3)), [1, 2]);
        assert_eq!(heard(Some(4)), [2], "an interface that is not known yet");
        assert_eq!(heard(None), [2]);
    }
}
