//! Octets of a connection that the other end's system acknowledged: a socket takes far more than leaves, so what was given to it is no rate of a link.
//!
//! The kernel is asked by `sock_diag` (netlink): one message names the connection by its addresses, the answer says how many octets wait for
//! an acknowledgment (`idiag_wqueue` of `struct inet_diag_msg`).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// The time between two questions to the kernel while octets are given: of a connection that breaks no more is known than at the last time.
const LOOK: Duration = Duration::from_millis(100);

/// Length of a question, octets: a netlink message's header and `struct inet_diag_req_v2`.
const QUESTION_OCTETS: u32 = 72;

/// Room for an answer, octets: the fixed part takes 88.
const ANSWER_OCTETS: usize = 1_024;

/// The place in an answer of the number of octets that wait.
const WAITING_AT: usize = 16 + 60;

/// Message type that asks for connections of one family, and answers (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;

/// Counts what is given to a connection, and what of it was acknowledged.
#[derive(Debug)]
pub struct Acknowledged {
    kernel: OwnedFd,
    question: Vec<u8>,
    given: u64,
    known: u64,
    looked: Instant,
}

impl Acknowledged {
    /// Of a connection to which nothing was given so far.
    ///
    /// # Errors
    /// When the kernel does not say what waits.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        let acknowledged = Self {
            kernel: open()?,
            question: question(stream.local_addr()?, stream.peer_addr()?),
            given: 0,
            known: 0,
            looked: Instant::now(),
        };
        acknowledged.waiting().map_err(|error| {
            let what = format!("the kernel does not say what is acknowledged ({error}); load its module: modprobe tcp_diag");
            io::Error::new(error.kind(), what)
        })?;
        Ok(acknowledged)
    }

    /// The socket took so many octets more.
    pub fn give(&mut self, octets: usize) {
        self.given += u64::try_from(octets).unwrap_or(u64::MAX);
        if self.looked.elapsed() >= LOOK {
            self.count();
        }
    }

    /// Octets that are acknowledged by now; none where the connection is no more.
    pub fn count(&mut self) -> Option<u64> {
        self.looked = Instant::now();
        let waiting = self.waiting().ok().flatten()?;
        self.known = self.known.max(self.given.saturating_sub(waiting));
        Some(self.known)
    }

    /// Octets that were acknowledged when the kernel was asked last.
    #[must_use]
    pub const fn known(&self) -> u64 {
        self.known
    }

    /// Octets that were given.
    #[must_use]
    pub const fn given(&self) -> u64 {
        self.given
    }

    /// Octets that wait for an acknowledgment, and one more where the connection's end does; none where there is no connection.
    fn waiting(&self) -> io::Result<Option<u64>> {
        rustix::net::send(&self.kernel, &self.question, SendFlags::empty())?;
        // The kernel has answered by the time that it has taken the question.
        let mut answer = [0_u8; ANSWER_OCTETS];
        let (octets, _) = rustix::net::recv(&self.kernel, &mut answer[..], RecvFlags::DONTWAIT)?;
        let answer = answer.get(..octets).unwrap_or_default();
        let kind = answer.get(4..6).and_then(|kind| kind.first_chunk());
        if kind.is_some_and(|kind| u16::from_ne_bytes(*kind) == BY_FAMILY) {
            let waiting = answer.get(WAITING_AT..).and_then(|rest| rest.first_chunk());
            return Ok(waiting.map(|waiting| u32::from_ne_bytes(*waiting).into()));
        }
        // Else it is a refusal: a number, below 0.
        let refusal = answer.get(16..).and_then(|rest| rest.first_chunk());
        let refusal = refusal.map_or(0, |refusal| i32::from_ne_bytes(*refusal));
        match rustix::io::Errno::from_raw_os_error(-refusal) {
            rustix::io::Errno::NOENT if self.given > 0 => Ok(None),
            error => Err(error.into()),
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
    rustix::net::connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: everything in the machine's order of octets but ports and addresses.
fn question(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    const REQUEST: u16 = 1;
    const TCP: u8 = 6;
    let (family, scope) = match own {
        SocketAddr::V4(_) => (AddressFamily::INET, 0),
        SocketAddr::V6(own) => (AddressFamily::INET6, own.scope_id()),
    };
    let mut message = QUESTION_OCTETS.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // The sequence and the sender: one question is open at a time.
    message.extend([0; 8]);
    message.extend([u8::try_from(family.as_raw()).unwrap_or(0), TCP, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend(own.port().to_be_bytes());
    message.extend(peer.port().to_be_bytes());
    for address in [own.ip(), peer.ip()] {
        match address {
            IpAddr::V4(address) => {
                message.extend(address.octets());
                message.extend([0; 12]);
            }
            IpAddr::V6(address) => message.extend(address.octets()),
        }
    }
    message.extend(scope.to_ne_bytes());
    // Any cookie.
    message.extend([0xff; 8]);
    message
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn octets_that_wait_in_the_socket_are_not_acknowledged() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut receiving, _) = listener.accept().unwrap();
            let mut acknowledged = Acknowledged::of(&stream).unwrap();
            stream.set_nonblocking(true).unwrap();
            while let Ok(octets) = stream.write(&[0; 100_000]) {
                acknowledged.give(octets);
            }
            // Nobody reads: a part is in the receiver's socket, the rest in the sender's.
            let known = acknowledged.count().unwrap();
            assert!(0 < known && known < acknowledged.given(), "{known}");
            drop(stream);
            let mut octets = Vec::new();
            receiving.read_to_end(&mut octets).unwrap();
            assert_eq!(u64::try_from(octets.len()).unwrap(), acknowledged.given());
        }
    }

    #[test]
    fn of_a_connection_that_broke_it_is_known_what_was_last_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut acknowledged = Acknowledged::of(&stream).unwrap();
        let (receiving, _) = listener.accept().unwrap();
        stream.write_all(&[0; 1_000]).unwrap();
        acknowledged.give(1_000);
        while acknowledged.count() != Some(1_000) {}
        // With octets unread the connection is reset.
        drop(receiving);
        while acknowledged.count().is_some() {}
        assert_eq!(acknowledged.known(), 1_000);
    }
}
