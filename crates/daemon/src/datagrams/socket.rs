//! A UDP socket: many datagrams a system call, in both directions.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use nix::cmsg_space;
use nix::sys::socket::sockopt::{RxqOvfl, UdpGroSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg,
    sendmmsg, setsockopt,
};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::outgoing::{Burst, Cutting, Outgoing};
use crate::streams::listener::Family;

/// Messages of one system call. Each may be many datagrams of one size and peer.
const MESSAGES_PER_CALL: usize = 16;

/// Octets of the longest message: none is cut.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// Octets that are asked for a socket to keep until they are read; the kernel gives what `net.core.rmem_max` allows.
const WAITING_OCTETS: usize = 4 << 20;

/// A bound socket. Its datagrams are never cut by IP on their way: the system says so where one is too long.
pub struct DatagramSocket {
    socket: UdpSocket,
    local: SocketAddr,
    /// It has both families.
    is_dual: bool,
    buffers: RefCell<Vec<u8>>,
    cutting: Cell<Cutting>,
    /// Datagrams that the system has dropped since the socket was made, as far as it has said.
    overflowed: Cell<u32>,
}

impl DatagramSocket {
    /// A socket at an address; port 0 is any free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(address: SocketAddr, family: Family) -> io::Result<Self> {
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
        let wishes = [
            sockopt::set_socket_recv_buffer_size(&socket, WAITING_OCTETS).map_err(io::Error::from),
            setsockopt(&socket, UdpGroSegment, &true).map_err(io::Error::from),
            setsockopt(&socket, RxqOvfl, &1).map_err(io::Error::from),
        ];
        for error in wishes.into_iter().filter_map(Result::err) {
            tracing::debug!("an option of UDP cannot be set: {error}");
        }
        rustix::net::bind(&socket, &address)?;
        let socket = UdpSocket::from_std(std::net::UdpSocket::from(socket))?;
        Ok(Self {
            local: socket.local_addr()?,
            is_dual: address.is_ipv6() && family == Family::Dual,
            socket,
            buffers: RefCell::new(vec![0; MESSAGES_PER_CALL * MESSAGE_OCTETS_MAX]),
            cutting: Cell::new(Cutting::Done),
            overflowed: Cell::new(0),
        })
    }

    /// The address to which it is bound.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether datagrams with this address of the machine as their source can leave by it.
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

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// When the runtime has gone.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Waits until there may be room for what is to be sent.
    ///
    /// # Errors
    /// When the runtime has gone.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Hands over datagrams that are there with where they came from, as many as one call takes; how many the system dropped since
    /// the last call comes back.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; else when the socket fails.
    pub fn receive(&self, take: impl FnMut(SocketAddr, &[u8])) -> io::Result<u64> {
        let call = || self.call_for_datagrams(take);
        self.socket.try_io(Interest::READABLE, call)
    }

    fn call_for_datagrams(&self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<u64> {
        let mut buffers = self.buffers.borrow_mut();
        let buffers = buffers.chunks_mut(MESSAGE_OCTETS_MAX);
        let mut slices: Vec<_> = buffers.map(|it| [IoSliceMut::new(it)]).collect();
        // A call leaves less room in the headers than it found.
        let room = cmsg_space!(i32, u32);
        let mut headers =
            MultiHeaders::<SockaddrStorage>::preallocate(MESSAGES_PER_CALL, Some(room));
        let fd = self.socket.as_raw_fd();
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
            if octets.is_empty() {
                take(from, octets);
            }
            for datagram in octets.chunks(size.max(1)) {
                take(from, datagram);
            }
        }
        Ok(self.overflowed.get().wrapping_sub(before).into())
    }

    /// Sends what has not left to an address; how many bursts the system took comes back.
    ///
    /// # Errors
    /// When it did not take the first, with what it says of that.
    pub fn send(&self, to: SocketAddr, outgoing: &Outgoing) -> io::Result<usize> {
        let bursts = outgoing.bursts();
        let cut = bursts.first().and_then(Burst::cut);
        let alike = bursts.iter().take_while(|burst| burst.cut() == cut);
        let alike = alike.take(MESSAGES_PER_CALL);
        let messages: Vec<Vec<IoSlice<'_>>> = alike.map(|it| outgoing.slices(it)).collect();
        let to = [Some(SockaddrStorage::from(self.mapped(to))); MESSAGES_PER_CALL];
        let flags = MsgFlags::empty();
        let fd = self.socket.as_raw_fd();
        let count = messages.len();
        self.socket.try_io(Interest::WRITABLE, || {
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
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(address: &str, family: Family) -> DatagramSocket {
        DatagramSocket::bind(address.parse().unwrap(), family).unwrap()
    }

    /// Datagrams of so many octets, each of other ones.
    fn datagrams(sizes: &[usize]) -> Vec<Vec<u8>> {
        let datagram = |(number, size): (u8, &usize)| vec![number; *size];
        (1..).zip(sizes).map(datagram).collect()
    }

    async fn send(socket: &DatagramSocket, to: SocketAddr, mut outgoing: Outgoing) {
        while !outgoing.is_empty() {
            match socket.send(to, &outgoing) {
                Ok(bursts) => drop(outgoing.advance(bursts)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn receive(socket: &DatagramSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut received = Vec::new();
        while received.len() < count {
            socket.readable().await.unwrap();
            let taken = socket.receive(|from, octets| received.push((from, octets.to_vec())));
            if let Err(error) = taken {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            }
        }
        received
    }

    #[tokio::test]
    async fn datagrams_arrive_as_they_were_whoever_cuts_them() {
        let (own, other) = (
            socket("127.0.0.1:0", Family::Own),
            socket("127.0.0.1:0", Family::Own),
        );
        let mut sizes = vec![1, 2, 2, 1_232, 1_232, 1_232, 7, 65_507];
        sizes.extend([1_000; 70]);
        sizes.extend((1..=40).rev());
        let sent = datagrams(&sizes);
        for cutting in [Cutting::Done, Cutting::NotDone] {
            let outgoing = Outgoing::of(&sent, cutting);
            let (_, received) = tokio::join!(
                send(&own, other.local(), outgoing),
                receive(&other, sent.len())
            );
            let expected = sent.iter().cloned().map(|octets| (own.local(), octets));
            assert!(expected.eq(received), "{cutting:?}");
        }
    }

    #[tokio::test]
    async fn a_datagram_that_the_device_does_not_take_is_refused_as_too_long() {
        let own = socket("127.0.0.1:0", Family::Own);
        own.writable().await.unwrap();
        let outgoing = Outgoing::of(&datagrams(&[65_508]), Cutting::Done);
        let error = own.send("127.0.0.1:9".parse().unwrap(), &outgoing);
        let error = error.unwrap_err().raw_os_error();
        assert_eq!(error, Some(rustix::io::Errno::MSGSIZE.raw_os_error()));
    }

    #[tokio::test]
    async fn a_socket_of_both_families_has_addresses_as_they_are() {
        let address = "[::]:0".parse().unwrap();
        let Ok(dual) = DatagramSocket::bind(address, Family::Dual) else {
            // A machine may have no IPv6.
            return;
        };
        let own = socket("127.0.0.1:0", Family::Own);
        let to = SocketAddr::from(([127, 0, 0, 1], dual.local().port()));
        assert!(dual.sends_from(to.ip()) && !own.sends_from("::1".parse().unwrap()));
        send(&own, to, Outgoing::of(&datagrams(&[3]), Cutting::Done)).await;
        let received = receive(&dual, 1).await;
        assert_eq!(received, [(own.local(), vec![1; 3])]);
        let answer = Outgoing::of(&datagrams(&[4]), Cutting::Done);
        send(&dual, own.local(), answer).await;
        assert_eq!(receive(&own, 1).await, [(to, vec![1; 4])]);
    }
}
