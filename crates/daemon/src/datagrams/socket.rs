//! A UDP socket of a node, which waits.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::calls::{Addresses, Calls};
use super::outgoing::{Cutting, Outgoing};
use crate::streams::listener::Family;

/// Octets that are asked for a socket to keep until they are read; the kernel gives what `net.core.rmem_max` allows.
const WAITING_OCTETS: usize = 4 << 20;

/// A bound socket. Its datagrams are never cut by IP on their way: the system says so where one is too long.
pub struct DatagramSocket {
    socket: UdpSocket,
    calls: Calls,
}

impl DatagramSocket {
    /// A socket at an address; port 0 is any free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(address: SocketAddr, family: Family) -> io::Result<Self> {
        let (socket, calls) = Calls::bind(address, family, WAITING_OCTETS)?;
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self { socket, calls })
    }

    /// The address to which it is bound.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.calls.local()
    }

    /// Whether datagrams with this address of the machine as their source can leave by it.
    #[must_use]
    pub fn sends_from(&self, own: IpAddr) -> bool {
        self.calls.sends_from(own)
    }

    /// Whether the system cuts datagrams.
    #[must_use]
    pub const fn cutting(&self) -> Cutting {
        self.calls.cutting()
    }

    /// The system does not cut datagrams, after all.
    pub fn cut_no_more(&self) {
        self.calls.cut_no_more();
    }

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// When the runtime has gone.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Waits until there may be room for the datagrams to be sent.
    ///
    /// # Errors
    /// When the runtime has gone.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Hands over datagrams that are there with the addresses between which they came, as many as one call takes; how many the system dropped since
    /// the last call comes back.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; else when the socket fails.
    pub fn receive(&self, mut take: impl FnMut(Addresses, &[u8])) -> io::Result<u64> {
        let call = || {
            self.calls.receive(&self.socket, |message| {
                for datagram in message.datagrams() {
                    take(message.addresses, datagram);
                }
            })
        };
        self.socket.try_io(Interest::READABLE, call)
    }

    /// Sends what has not left; how many bursts the system took comes back.
    ///
    /// # Errors
    /// When it did not take the first, with what it says of that.
    pub fn send(&self, between: Addresses, outgoing: &Outgoing) -> io::Result<usize> {
        let call = || self.calls.send(&self.socket, between, outgoing);
        self.socket.try_io(Interest::WRITABLE, call)
    }
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

    async fn send(socket: &DatagramSocket, to: impl Into<Addresses>, mut outgoing: Outgoing) {
        let to = to.into();
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
        let received = receive_between(socket, count).await;
        let from = |(between, octets): (Addresses, _)| (between.peer, octets);
        received.into_iter().map(from).collect()
    }

    async fn receive_between(socket: &DatagramSocket, count: usize) -> Vec<(Addresses, Vec<u8>)> {
        let mut received = Vec::new();
        while received.len() < count {
            socket.readable().await.unwrap();
            let taken = socket.receive(|it, octets| received.push((it, octets.to_vec())));
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
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let error = own.send(to.into(), &outgoing);
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

    #[tokio::test]
    async fn an_answer_leaves_from_the_address_that_was_sent_to_while_the_machine_has_it() {
        let peer = socket("127.0.0.1:0", Family::Own);
        for (at, family) in [("0.0.0.0:0", Family::Own), ("[::]:0", Family::Dual)] {
            let Ok(all) = DatagramSocket::bind(at.parse().unwrap(), family) else {
                // A machine may have no IPv6.
                continue;
            };
            let port = all.local().port();
            let second = SocketAddr::from(([127, 0, 0, 22], port));
            for sizes in [&[3][..], &[900; 40]] {
                let sent = datagrams(sizes);
                let outgoing = || Outgoing::of(&sent, Cutting::Done);
                send(&peer, second, outgoing()).await;
                let received = receive_between(&all, sent.len()).await;
                let answer = Addresses {
                    own: Some(second.ip()),
                    peer: peer.local(),
                };
                assert!(received.iter().all(|(it, _)| *it == answer), "{at}");
                send(&all, answer, outgoing()).await;
                let from = receive(&peer, sent.len()).await;
                assert!(from.iter().all(|(from, _)| *from == second), "{at}");
                let gone = Addresses {
                    own: Some([192, 0, 2, 1].into()),
                    ..answer
                };
                send(&all, gone, outgoing()).await;
                let first = SocketAddr::from(([127, 0, 0, 1], port));
                let from = receive(&peer, sent.len()).await;
                assert!(from.iter().all(|(from, _)| *from == first), "{at}");
                assert_eq!(all.cutting(), Cutting::Done);
            }
        }
        let one = socket("127.0.0.3:0", Family::Own);
        send(
            &peer,
            one.local(),
            Outgoing::of(&datagrams(&[1]), Cutting::Done),
        )
        .await;
        let [(between, _)] = &receive_between(&one, 1).await[..] else {
            unreachable!("one was asked for");
        };
        assert_eq!(*between, Addresses::from(peer.local()));
    }
}
