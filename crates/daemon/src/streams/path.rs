//! The path that a TCP connection takes, as the system knows it: whether the peer's system still answers.
//!
//! The kernel is asked by `sock_diag` (netlink): one message names the connection by its addresses, the answer
//! carries what TCP counts (`struct tcp_info` of Linux's `tcp.h`).

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use dhow_node::driver::Path;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::route::is_carrier_missing;

/// Length of a netlink message's header, octets.
const HEADER_OCTETS: usize = 16;

/// Length of the fixed part of an answer (`struct inet_diag_msg`), octets.
const ANSWER_OCTETS: usize = 72;

/// Room for one answer, octets: the fixed part and `struct tcp_info` need some 400.
const BUFFER_OCTETS: usize = 4096;

/// Message type that asks for connections of one family (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;

/// The attribute that carries `struct tcp_info` (`INET_DIAG_INFO`).
const INFO: u16 = 2;

/// Stray answers read over before one is given up.
const ANSWERS_MAX: usize = 4;

/// The time from one probe of an idle connection to the next, milliseconds.
pub const PROBE_INTERVAL_MS: u32 = 1_000;

/// The addresses between which a connection runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address of this machine.
    pub own: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

/// Asks the kernel about connections.
#[derive(Debug, Default)]
pub struct Inspector {
    socket: Option<OwnedFd>,
    sequence: u32,
}

impl Inspector {
    /// The state of the path between `ends`.
    pub fn inspect(&mut self, ends: Ends) -> Path {
        if is_own_address_gone(ends.own.ip()) {
            return Path::Lost;
        }
        if is_carrier_missing(ends.peer) {
            return Path::Dark;
        }
        match self.ask(ends) {
            Ok(Some(health)) => health.path(),
            Ok(None) => Path::Unknown,
            Err(error) => {
                tracing::debug!("the system does not tell of connections: {error}");
                self.socket = None;
                Path::Unknown
            }
        }
    }

    fn ask(&mut self, ends: Ends) -> io::Result<Option<Health>> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open()?,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let question = question(ends, self.sequence);
        rustix::net::send(&socket, &question, SendFlags::empty())?;
        // The kernel has answered by the time that it has taken the question.
        let mut buffer = [0_u8; BUFFER_OCTETS];
        let mut found = None;
        for _ in 0..ANSWERS_MAX {
            let (octets, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
            let answer = buffer.get(..octets).unwrap_or_default();
            if number(answer, 8) == Some(self.sequence) {
                found = Health::read(answer);
                break;
            }
        }
        self.socket = Some(socket);
        Ok(found)
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::SOCK_DIAG);
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
    rustix::net::connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// A connection's address that this machine had and has no more: no datagram can be sent from it either.
fn is_own_address_gone(own: IpAddr) -> bool {
    UdpSocket::bind((own, 0)).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: everything in the machine's order of octets but ports and
/// addresses.
fn question(ends: Ends, sequence: u32) -> Vec<u8> {
    /// Octets of the whole message.
    const LENGTH: u32 = 72;
    /// `NLM_F_REQUEST`.
    const REQUEST: u16 = 1;
    const TCP: u8 = 6;
    let family = if ends.own.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    let scope = match ends.own {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(own) => own.scope_id(),
    };
    let mut message = Vec::with_capacity(72);
    message.extend_from_slice(&LENGTH.to_ne_bytes());
    message.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(&[family, TCP, 1 << (INFO - 1), 0]);
    message.extend_from_slice(&u32::MAX.to_ne_bytes());
    message.extend_from_slice(&ends.own.port().to_be_bytes());
    message.extend_from_slice(&ends.peer.port().to_be_bytes());
    for address in [ends.own.ip(), ends.peer.ip()] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => {
                for (to, from) in octets.iter_mut().zip(address.octets()) {
                    *to = from;
                }
            }
            IpAddr::V6(address) => octets = address.octets(),
        }
        message.extend_from_slice(&octets);
    }
    message.extend_from_slice(&scope.to_ne_bytes());
    // Any cookie.
    message.extend_from_slice(&[0xff; 8]);
    message
}

/// TCP's counts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Health {
    /// Times that the oldest octets without an acknowledgment were sent again because time ran out.
    retransmits: u8,
    /// Probes of an idle connection, or of a closed window, that nothing answered yet.
    probes: u8,
    /// Smoothed round trip, microseconds.
    round_trip_us: u32,
}

impl Health {
    /// Reads the kernel's answer; `None` where it holds nothing of a connection.
    fn read(answer: &[u8]) -> Option<Self> {
        let kind = answer.get(4..6)?.first_chunk().copied()?;
        if u16::from_ne_bytes(kind) != BY_FAMILY {
            return None;
        }
        let mut rest = answer.get(HEADER_OCTETS + ANSWER_OCTETS..)?;
        // Each attribute takes four octets at least: the loop ends with the answer.
        while let Some((length, kind)) = rest.get(..4).and_then(attribute) {
            if length < 4 {
                return None;
            }
            if kind == INFO {
                let info = rest.get(4..length)?;
                return Some(Self {
                    retransmits: *info.get(2)?,
                    probes: *info.get(3)?,
                    round_trip_us: number(info, 68)?,
                });
            }
            rest = rest.get(length.next_multiple_of(4)..)?;
        }
        None
    }

    fn path(self) -> Path {
        // The first probe may still be answered; those before the last have had their time, unless the path
        // is longer than that.
        let waited_ms = u32::from(self.probes.saturating_sub(1)).saturating_mul(PROBE_INTERVAL_MS);
        let round_trips_ms = self.round_trip_us / 500;
        if self.retransmits > 0 || waited_ms > round_trips_ms {
            Path::Lost
        } else {
            Path::Open
        }
    }
}

/// Length and type of an attribute (`struct nlattr`).
fn attribute(header: &[u8]) -> Option<(usize, u16)> {
    let length = header.get(..2)?.first_chunk().copied()?;
    let kind = header.get(2..4)?.first_chunk().copied()?;
    Some((
        usize::from(u16::from_ne_bytes(length)),
        u16::from_ne_bytes(kind),
    ))
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    let octets = octets.get(at..at + 4)?.first_chunk().copied()?;
    Some(u32::from_ne_bytes(octets))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        (dialled, accepted)
    }

    fn ends(stream: &TcpStream) -> Ends {
        Ends {
            own: stream.local_addr().unwrap(),
            peer: stream.peer_addr().unwrap(),
        }
    }

    #[test]
    fn the_path_of_a_connection_that_nothing_disturbs_is_open() {
        let mut inspector = Inspector::default();
        let (dialled, accepted) = pair("127.0.0.1:0");
        assert_eq!(inspector.inspect(ends(&dialled)), Path::Open);
        assert_eq!(inspector.inspect(ends(&accepted)), Path::Open);
    }

    #[test]
    fn an_unknown_connection_is_unknown_and_the_next_question_is_answered() {
        let mut inspector = Inspector::default();
        let (dialled, _accepted) = pair("127.0.0.1:0");
        let mut unknown = ends(&dialled);
        unknown.peer.set_port(unknown.own.port());
        assert_eq!(inspector.inspect(unknown), Path::Unknown);
        assert_eq!(inspector.inspect(ends(&dialled)), Path::Open);
    }

    #[test]
    fn a_connection_from_an_address_that_is_gone_is_lost() {
        let (dialled, _accepted) = pair("127.0.0.1:0");
        let mut gone = ends(&dialled);
        // RFC 5737 3: an address of no machine.
        gone.own.set_ip("192.0.2.1".parse().unwrap());
        assert_eq!(Inspector::default().inspect(gone), Path::Lost);
    }

    #[test]
    fn unanswered_octets_or_two_probes_make_a_lost_path() {
        let health = Health {
            retransmits: 0,
            probes: 1,
            round_trip_us: 200,
        };
        assert_eq!(health.path(), Path::Open);
        let unanswered = Health {
            probes: 2,
            ..health
        };
        assert_eq!(unanswered.path(), Path::Lost);
        let far = Health {
            round_trip_us: 600_000,
            ..unanswered
        };
        assert_eq!(far.path(), Path::Open, "the answer is still under way");
        let sent_again = Health {
            retransmits: 1,
            ..health
        };
        assert_eq!(sent_again.path(), Path::Lost);
    }

    #[test]
    fn answers_of_any_length_are_read_without_fault() {
        let mut answer = vec![0_u8; 200];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[88..90].copy_from_slice(&112_u16.to_ne_bytes());
        answer[90..92].copy_from_slice(&INFO.to_ne_bytes());
        assert!(Health::read(&answer).is_some());
        for length in 0..answer.len() {
            assert_eq!(Health::read(&answer[..length]), None, "{length} octets");
        }
    }
}
