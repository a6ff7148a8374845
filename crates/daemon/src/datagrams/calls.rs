//! The system calls of a UDP socket: many datagrams each, in both directions. They do not wait.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use bytes::Bytes;
use nix::cmsg_space;
use nix::sys::socket::sockopt::{RxqOvfl, UdpGroSegment};
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

/// Datagrams that came together from one address: all have one size, but for the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The sender's address.
    pub from: SocketAddr,
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
        let room = cmsg_space!(i32, u32);
        let mut headers =
            MultiHeaders::<SockaddrStorage>::preallocate(MESSAGES_PER_CALL, Some(room));
        let fd = socket.as_raw_fd();
        let flags = MsgFlags::empty();
        let arrived = recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)?;
        let before = self.overflowed.get();
        for message in arrived {
            let octets = message.iovs().next().unwrap_or_default();
            let mut size = octets.len();
            for said in message.cmsgs()? {
                match said {
                    ControlMessageOwned::UdpGroSegments(octets) => {
                        size = usize::try_from(octets).unwrap_or(size);
                    }
                    ControlMessageOwned::RxqOvfl(count) => self.overflowed.set(count),
                    _ => {}
                }
            }
            let Some(from) = message.address.as_ref().and_then(address) else {
                continue;
            };
            let size = size.max(1);
            take(Message { from, octets, size });
        }
        Ok(self.overflowed.get().wrapping_sub(before).into())
    }

    /// Sends what has not left to an address; how many bursts the system took comes back.
    ///
    /// # Errors
    /// When it did not take the first, with what it says of that.
    pub fn send(
        &self,
        socket: &impl AsRawFd,
        to: SocketAddr,
        outgoing: &Outgoing,
    ) -> io::Result<usize> {
        let bursts = outgoing.bursts();
        let cut = bursts.first().and_then(Burst::cut);
        let alike = bursts.iter().take_while(|burst| burst.cut() == cut);
        let alike = alike.take(MESSAGES_PER_CALL);
        let messages: Vec<Vec<IoSlice<'_>>> = alike.map(|it| outgoing.slices(it)).collect();
        let to = [Some(SockaddrStorage::from(self.mapped(to))); MESSAGES_PER_CALL];
        let flags = MsgFlags::empty();
        let fd = socket.as_raw_fd();
        let count = messages.len();
        let taken = match &cut {
            Some(size) => {
                let room = cmsg_space!(u16);
                let mut headers = MultiHeaders::preallocate(count, Some(room));
                let said = [ControlMessage::UdpGsoSegments(size)];
                sendmmsg(fd, &mut headers, messages.iter(), to, said, flags)?.count()
            }
            None => {
                let mut headers = MultiHeaders::preallocate(count, None);
                sendmmsg(fd, &mut headers, messages.iter(), to, [], flags)?.count()
            }
        };
        Ok(taken)
    }

    /// An address as the socket's family writes it.
    fn mapped(&self, to: SocketAddr) -> SocketAddr {
        match (self.local, to.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => (ip.to_ipv6_mapped(), to.port()).into(),
            _ => to,
        }
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
