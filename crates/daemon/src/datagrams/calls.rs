//! The system calls of a UDP socket: many datagrams each, in both directions. They do not wait.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use bytes::Bytes;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo, RxqOvfl, UdpGroSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg,
    sendmmsg, setsockopt,
};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::outgoing::{Burst, Cutting, Outgoing};
use crate::streams::listener::Family;

/// Messages of one system call. Each may be many datagrams of one size and peer.
const MESSAGES_PER_CALL: usize = 16;

/// Octets of the longest message: none is cut.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// The addresses between which datagrams pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address of this machine, where the socket has several and one is known.
    pub own: Option<IpAddr>,
    /// The peer's.
    pub peer: SocketAddr,
}

impl From<SocketAddr> for Addresses {
    fn from(peer: SocketAddr) -> Self {
        Self { own: None, peer }
    }
}

/// Datagrams that came together from one address: all have one size, but for the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The sender's address, and the one that it sent them to: an answer leaves between the same.
    pub addresses: Addresses,
    /// The octets of all datagrams.
    pub octets: &'a [u8],
    /// Octets of each datagram, at least 1.
    pub size: usize,
}

impl<'a> Message<'a> {
    /// The datagrams; an empty message is one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        let empty = self.octets.is_empty().then_some(self.octets);
        empty.into_iter().chain(self.octets.chunks(self.size))
    }

    /// The datagrams that have octets, which are copied once for all of them, since the socket's buffers are used again.
    pub fn owned(&self) -> impl Iterator<Item = Bytes> + use<> {
        let (mut octets, size) = (Bytes::copy_from_slice(self.octets), self.size);
        std::iter::from_fn(move || {
            let size = size.min(octets.len());
            (size > 0).then(|| octets.split_to(size))
        })
    }
}

/// The state of a socket that its calls need.
pub struct Calls {
    local: SocketAddr,
    /// Whether the socket has both families.
    is_dual: bool,
    buffers: RefCell<Vec<u8>>,
    cutting: Cell<Cutting>,
    /// Datagrams that the system has dropped since the socket was made, as far as it has said.
    overflowed: Cell<u32>,
}

impl Calls {
    /// A socket at an address; port 0 is any free one. It keeps `waiting` octets until they are read, or as many as the
    /// system allows. Its datagrams are never cut by IP on their way: the system says so where one is too long.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(
        address: SocketAddr,
        family: Family,
        waiting: usize,
    ) -> io::Result<(UdpSocket, Self)> {
        let domain = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, family == Family::Own)?;
            sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?;
        }
        sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
        // The system lets only those who administrate the network have more than its own bound.
        let room = sockopt::set_socket_recv_buffer_size_force(&socket, waiting)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, waiting));
        let wishes = [
            room.map_err(io::Error::from),
            setsockopt(&socket, UdpGroSegment, &true).map_err(io::Error::from),
            setsockopt(&socket, RxqOvfl, &1).map_err(io::Error::from),
            tell_own_address(&socket, address.ip()),
        ];
        for error in wishes.into_iter().filter_map(Result::err) {
            tracing::debug!("an option of UDP cannot be set: {error}");
        }
        rustix::net::bind(&socket, &address)?;
        let socket = UdpSocket::from(socket);
        let calls = Self {
            local: socket.local_addr()?,
            is_dual: address.is_ipv6() && family == Family::Dual,
            buffers: RefCell::new(vec![0; MESSAGES_PER_CALL * MESSAGE_OCTETS_MAX]),
            cutting: Cell::new(Cutting::Done),
            overflowed: Cell::new(0),
        };
        Ok((socket, calls))
    }

    /// The address to which the socket is bound.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether datagrams with this address of the machine as their source can leave by the socket.
    #[must_use]
    pub fn sends_from(&self, own: IpAddr) -> bool {
        let bound = self.local.ip();
        let is_family = bound.is_ipv4() == own.is_ipv4() || self.is_dual;
        bound == own || (bound.is_unspecified() && is_family)
    }

    /// Whether the system cuts datagrams.
    #[must_use]
    pub const fn cutting(&self) -> Cutting {
        self.cutting.get()
    }

    /// The system does not cut datagrams, after all.
    pub fn cut_no_more(&self) {
        self.cutting.set(Cutting::NotDone);
    }

    /// Hands over datagrams that are there, as many as one call takes; how many the system dropped since the last call comes
    /// back.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; else when the socket fails.
    pub fn receive(
        &self,
        socket: &impl AsRawFd,
        mut take: impl FnMut(Message<'_>),
    ) -> io::Result<u64> {
        let mut buffers = self.buffers.borrow_mut();
        let buffers = buffers.chunks_mut(MESSAGE_OCTETS_MAX);
        let mut slices: Vec<_> = buffers.map(|it| [IoSliceMut::new(it)]).collect();
        // A call leaves less room in the headers than it found.
        let room = cmsg_space!(i32, u32, in6_pktinfo);
        let mut headers =
            MultiHeaders::<SockaddrStorage>::preallocate(MESSAGES_PER_CALL, Some(room));
        let fd = socket.as_raw_fd();
        let flags = MsgFlags::empty();
        let arrived = recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)?;
        let before = self.overflowed.get();
        for message in arrived {
            let octets = message.iovs().next().unwrap_or_default();
            let (mut size, mut own) = (octets.len(), None);
            for said in message.cmsgs()? {
                match said {
                    ControlMessageOwned::UdpGroSegments(octets) => {
                        size = usize::try_from(octets).unwrap_or(size);
                    }
                    ControlMessageOwned::RxqOvfl(count) => self.overflowed.set(count),
                    ControlMessageOwned::Ipv4PacketInfo(to) => {
                        own = Some(Ipv4Addr::from(to.ipi_spec_dst.s_addr.to_ne_bytes()).into());
                    }
                    ControlMessageOwned::Ipv6PacketInfo(to) => {
                        let to = IpAddr::from(to.ipi6_addr.s6_addr);
                        own = Some(to.to_canonical());
                    }
                    _ => {}
                }
            }
            let Some(peer) = message.address.as_ref().and_then(address) else {
                continue;
            };
            let size = size.max(1);
            let addresses = Addresses { own, peer };
            take(Message {
                addresses,
                octets,
                size,
            });
        }
        Ok(self.overflowed.get().wrapping_sub(before).into())
    }

    /// Sends what has not left; how many bursts the system took comes back. A socket bound to one address sends from that one, and the system chooses an address
    /// where this machine does not have the given one any more.
    ///
    /// # Errors
    /// When it did not take the first, with what it says of that.
    pub fn send(
        &self,
        socket: &impl AsRawFd,
        between: Addresses,
        outgoing: &Outgoing,
    ) -> io::Result<usize> {
        let peer = between.peer;
        let own = between.own.filter(|own| {
            let is_chosen = self.local.ip().is_unspecified() && self.sends_from(*own);
            is_chosen && own.is_ipv4() == peer.ip().to_canonical().is_ipv4()
        });
        match self.send_from(socket, own, peer, outgoing) {
            // The machine may not have the address any more (IPv6 and IPv4).
            Err(Errno::EINVAL | Errno::ENETUNREACH) if own.is_some() => {
                self.send_from(socket, None, peer, outgoing)
            }
            sent => sent,
        }
        .map_err(io::Error::from)
    }

    fn send_from(
        &self,
        socket: &impl AsRawFd,
        own: Option<IpAddr>,
        to: SocketAddr,
        outgoing: &Outgoing,
    ) -> nix::Result<usize> {
        let bursts = outgoing.bursts();
        let cut = bursts.first().and_then(Burst::cut);
        let alike = bursts.iter().take_while(|burst| burst.cut() == cut);
        let alike = alike.take(MESSAGES_PER_CALL);
        let messages: Vec<Vec<IoSlice<'_>>> = alike.map(|it| outgoing.slices(it)).collect();
        let to = [Some(SockaddrStorage::from(self.mapped(to))); MESSAGES_PER_CALL];
        let flags = MsgFlags::empty();
        let fd = socket.as_raw_fd();
        let count = messages.len();
        let source = own.map(|own| self.source(own));
        // The room is to have the length of all that is said, and no more.
        let room = match (&cut, &source) {
            (None, None) => None,
            (Some(_), None) => Some(cmsg_space!(u16)),
            (None, Some(Source::V4(_))) => Some(cmsg_space!(in_pktinfo)),
            (Some(_), Some(Source::V4(_))) => Some(cmsg_space!(u16, in_pktinfo)),
            (None, Some(Source::V6(_))) => Some(cmsg_space!(in6_pktinfo)),
            (Some(_), Some(Source::V6(_))) => Some(cmsg_space!(u16, in6_pktinfo)),
        };
        let cut = cut.as_ref().map(ControlMessage::UdpGsoSegments);
        let said: Vec<_> = cut
            .into_iter()
            .chain(source.as_ref().map(Source::message))
            .collect();
        let mut headers = MultiHeaders::preallocate(count, room);
        Ok(sendmmsg(fd, &mut headers, messages.iter(), to, said, flags)?.count())
    }

    /// An address of this machine, as the socket's family writes it.
    fn source(&self, own: IpAddr) -> Source {
        match (self.local, own) {
            (SocketAddr::V4(_), IpAddr::V4(own)) => {
                let [own, any] = [own, Ipv4Addr::UNSPECIFIED]
                    .map(|it| u32::from_ne_bytes(it.octets()))
                    .map(|s_addr| in_addr { s_addr });
                Source::V4(in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: own,
                    ipi_addr: any,
                })
            }
            (_, own) => {
                let own = match own {
                    IpAddr::V4(own) => own.to_ipv6_mapped(),
                    IpAddr::V6(own) => own,
                };
                Source::V6(in6_pktinfo {
                    ipi6_addr: in6_addr {
                        s6_addr: own.octets(),
                    },
                    ipi6_ifindex: 0,
                })
            }
        }
    }

    /// An address as the socket's family writes it.
    fn mapped(&self, to: SocketAddr) -> SocketAddr {
        match (self.local, to.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => (ip.to_ipv6_mapped(), to.port()).into(),
            _ => to,
        }
    }
}

/// The address from which datagrams are to leave, as the system is told of it.
enum Source {
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

impl Source {
    const fn message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(own) => ControlMessage::Ipv4PacketInfo(own),
            Self::V6(own) => ControlMessage::Ipv6PacketInfo(own),
        }
    }
}

/// Has the system tell to which address of this machine a datagram came, where the socket has several.
fn tell_own_address(socket: &impl AsFd, bound: IpAddr) -> io::Result<()> {
    match bound {
        _ if !bound.is_unspecified() => Ok(()),
        IpAddr::V4(_) => Ok(setsockopt(socket, Ipv4PacketInfo, &true)?),
        IpAddr::V6(_) => Ok(setsockopt(socket, Ipv6RecvPacketInfo, &true)?),
    }
}

/// An address without what differs among datagrams of one peer.
#[must_use]
pub fn plain(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(address), IpAddr::V6(ip)) => {
            SocketAddrV6::new(ip, address.port(), 0, address.scope_id()).into()
        }
        (address, ip) => (ip, address.port()).into(),
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage
        .as_sockaddr_in()
        .map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| {
        storage
            .as_sockaddr_in6()
            .map(|address| plain(SocketAddrV6::from(*address).into()))
    })
}
