//! Packets as UDP datagrams, many a system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg, sendmmsg,
    setsockopt,
};
use nix::sys::time::TimeSpec;

use super::carrier::{BATCH_PACKETS, Carrier, Ending, Outcome, Packet};
use super::sample::now_ns;

/// The time that a call waits for room or for datagrams.
const PATIENCE: Duration = Duration::from_millis(100);

/// Octets of the largest datagram: none is cut.
const DATAGRAM_OCTETS_MAX: usize = 65_535;

/// Octets that are asked for a socket to keep until they are read; the kernel gives what `net.core.rmem_max` allows.
const WAITING_OCTETS: usize = 4 << 20;

/// So many packets go one by one after a sign that nobody listens: what an earlier packet met is told only where it stops the first
/// packet of a call, and not where it stops a later one.
const ALONE_PACKETS: usize = 8;

/// The sending end, for one receiver.
pub struct DatagramWriter {
    socket: UdpSocket,
    headers: MultiHeaders<SockaddrStorage>,
    zeros: Vec<u8>,
    /// The outcome of a packet that finds no room.
    without_room: Outcome,
    /// So many packets still go one by one.
    alone: usize,
}

impl DatagramWriter {
    /// Sends from a socket that is connected.
    ///
    /// # Errors
    /// When the socket cannot be set up.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            socket,
            headers: MultiHeaders::preallocate(BATCH_PACKETS, None),
            zeros: vec![0; DATAGRAM_OCTETS_MAX],
            without_room: Outcome::default(),
            alone: 0,
        })
    }

    /// Does not wait for room: a packet that finds none is gone.
    ///
    /// # Errors
    /// When the socket cannot be set up so.
    pub fn without_waiting(mut self) -> io::Result<Self> {
        self.socket.set_nonblocking(true)?;
        self.without_room = gone();
        Ok(self)
    }

    fn call(&mut self, packets: &[Packet]) -> io::Result<usize> {
        let slices: Vec<[IoSlice<'_>; 2]> = packets
            .iter()
            .map(|packet| {
                let zeros = self.zeros.get(..packet.zeros()).unwrap_or_default();
                [IoSlice::new(packet.head()), IoSlice::new(zeros)]
            })
            .collect();
        let nowhere_else = [None; BATCH_PACKETS];
        let sent = sendmmsg(
            self.socket.as_raw_fd(),
            &mut self.headers,
            slices.iter(),
            nowhere_else,
            [],
            MsgFlags::empty(),
        )?;
        Ok(sent.count())
    }
}

impl Carrier for DatagramWriter {
    fn send(&mut self, packets: &[Packet]) -> io::Result<Outcome> {
        let together = if self.alone > 0 { 1 } else { BATCH_PACKETS };
        let packets = packets.get(..together).unwrap_or(packets);
        self.alone = self.alone.saturating_sub(1);
        let mut sent = self.call(packets);
        let mut refused = 0;
        // This call is told that an earlier packet met nobody, and has then sent nothing.
        if sent.as_ref().is_err_and(is_refused) {
            refused = 1;
            sent = self.call(packets);
        }
        let outcome = match sent {
            Ok(left) => Outcome {
                left,
                ..Outcome::default()
            },
            Err(error) if is_without_room(&error) => self.without_room,
            Err(error) if is_refused(&error) => Outcome {
                refused: 1,
                ..Outcome::default()
            },
            Err(error) if is_without_way(&error) => gone(),
            Err(error) => return Err(error),
        };
        if refused > 0 || outcome.left < packets.len() {
            self.alone = ALONE_PACKETS;
        }
        Ok(Outcome {
            refused: outcome.refused + refused,
            ..outcome
        })
    }

    fn finish(&mut self) -> io::Result<Ending> {
        let told = self.socket.take_error()?;
        Ok(match told.as_ref().is_some_and(is_refused) {
            true => Ending::Cut,
            false => Ending::Whole,
        })
    }
}

/// The first packet is gone.
fn gone() -> Outcome {
    Outcome {
        failed: 1,
        ..Outcome::default()
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn is_without_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Nobody listens, an interface is down, a filter drops (EPERM), or a queue below is full (ENOBUFS): all of which may pass.
fn is_without_way(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::PermissionDenied
    ) || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When the kernel had it, nanoseconds since 1970.
    pub at_ns: u64,
    /// The octets of the datagram.
    pub payload: &'a [u8],
    /// The address that it came from.
    pub from: SocketAddr,
}

/// The receiving end.
pub struct DatagramReader {
    socket: UdpSocket,
    headers: MultiHeaders<SockaddrStorage>,
    buffers: Vec<u8>,
}

impl DatagramReader {
    /// Reads from a bound socket.
    ///
    /// # Errors
    /// When the socket cannot be set up.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_read_timeout(Some(PATIENCE))?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, WAITING_OCTETS)?;
        Ok(Self {
            socket,
            headers: MultiHeaders::preallocate(BATCH_PACKETS, Some(cmsg_space!(TimeSpec))),
            buffers: vec![0; BATCH_PACKETS * DATAGRAM_OCTETS_MAX],
        })
    }

    /// The socket, for answers.
    #[must_use]
    pub const fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Waits about a tenth of a second at most for datagrams, and hands over those that are there.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn receive(&mut self, mut take: impl FnMut(Arrival<'_>)) -> io::Result<()> {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
            .buffers
            .chunks_mut(DATAGRAM_OCTETS_MAX)
            .map(|buffer| [IoSliceMut::new(buffer)])
            .collect();
        let arrived = recvmmsg(
            self.socket.as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            MsgFlags::MSG_WAITFORONE,
            None,
        );
        let arrived = match arrived.map_err(io::Error::from) {
            Ok(arrived) => arrived,
            // A datagram that was sent from here met nobody.
            Err(error) if is_without_room(&error) || is_without_way(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for message in arrived {
            let Some(from) = message.address.as_ref().and_then(address) else {
                continue;
            };
            take(Arrival {
                at_ns: kernel_time_ns(&message).unwrap_or_else(now_ns),
                payload: message.iovs().next().unwrap_or_default(),
                from,
            });
        }
        Ok(())
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage
        .as_sockaddr_in()
        .map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| {
        storage
            .as_sockaddr_in6()
            .map(|address| SocketAddrV6::from(*address).into())
    })
}

fn kernel_time_ns(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<u64> {
    let time = message.cmsgs().ok()?.find_map(|said| match said {
        ControlMessageOwned::ScmTimestampns(time) => Some(time),
        _ => None,
    })?;
    u64::try_from(Duration::from(time).as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::header::HEADER_OCTETS;

    fn pair() -> (DatagramWriter, DatagramReader) {
        let receiving = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
        sending.connect(receiving.local_addr().unwrap()).unwrap();
        (
            DatagramWriter::new(sending).unwrap(),
            DatagramReader::new(receiving).unwrap(),
        )
    }

    #[test]
    fn datagrams_of_every_length_arrive_whole_with_their_time() {
        let (mut writer, mut reader) = pair();
        let lengths = [1, 12, 29, 30, 1_470, 9_000, 65_507];
        let packets = lengths.map(|octets| Packet {
            header: [7; HEADER_OCTETS],
            octets,
        });
        let before = now_ns();
        let outcome = writer.send(&packets).unwrap();
        assert_eq!((outcome.left, outcome.failed, outcome.refused), (7, 0, 0));
        let mut found = Vec::new();
        while found.len() < lengths.len() {
            reader
                .receive(|arrival| {
                    assert!((before..=now_ns()).contains(&arrival.at_ns));
                    assert!(arrival.payload.iter().take(29).all(|octet| *octet == 7));
                    assert!(arrival.payload.iter().skip(29).all(|octet| *octet == 0));
                    found.push(arrival.payload.len());
                })
                .unwrap();
        }
        assert_eq!(found, lengths);
    }

    #[test]
    fn a_receiver_that_is_gone_costs_packets_and_not_the_sender() {
        let (mut writer, reader) = pair();
        drop(reader);
        let packet = Packet {
            header: [0; HEADER_OCTETS],
            octets: 100,
        };
        let (mut left, mut refused) = (0, 0);
        // Many at once, and one by one.
        for packets in [[packet; BATCH_PACKETS].as_slice(), &[packet]] {
            for _ in 0..100 {
                let outcome = writer.send(packets).unwrap();
                assert_eq!(outcome.failed, 0);
                left += outcome.left;
                refused += outcome.refused;
            }
        }
        let last = usize::from(writer.finish().unwrap() == Ending::Cut);
        // The kernel may tell of several at once where it is late.
        assert!(
            refused > 100 && refused + last <= left,
            "{refused} of {left}"
        );
    }
}
