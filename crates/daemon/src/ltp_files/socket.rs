//! A UDP socket of this room, and the wait for it.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use dhow_link::datagram::Path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::datagrams::calls::{Addresses, Calls, Message};
use crate::datagrams::outgoing::Outgoing;
use crate::datagrams::path::Path as WayThere;
use crate::datagrams::refusal::Refusal;
use crate::streams::listener::Family;

/// Octets that the socket is to keep until they are read: those of a fifth of a second at 3 Gbit/s. The kernel gives less to those
/// who do not administrate the network.
const WAITING_OCTETS: usize = 64 << 20;

/// The time after which a datagram is sent again that found no way.
pub(super) const NO_WAY_WAIT: Duration = Duration::from_millis(100);

/// A bound socket that does not wait by itself.
pub(super) struct Socket {
    socket: UdpSocket,
    calls: Calls,
    /// The number (`errno`) of the last refusal to send that was not for want of room.
    refused: Cell<Option<i32>>,
}

/// The path to an address, as the system knows it: it may take less than is configured.
pub(super) fn path_to(to: SocketAddr) -> Option<Path> {
    let way = WayThere::find(to).ok()?;
    Some(Path {
        mtu: way.mtu_octets,
        ..Path::default()
    })
}

/// The end of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it left, or was refused for good.
    Whole,
    /// The socket has no room now.
    NoRoom,
    /// No way leads there now.
    NoWay,
}

impl Socket {
    /// A socket at an address; port 0 is any free one.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let family = match address.is_ipv6() && address.ip().is_unspecified() {
            true => Family::Dual,
            false => Family::Own,
        };
        let (socket, calls) = Calls::bind(address, family, WAITING_OCTETS)?;
        Ok(Self {
            socket,
            calls,
            refused: Cell::new(None),
        })
    }

    /// The address to which it is bound.
    pub(super) const fn local(&self) -> SocketAddr {
        self.calls.local()
    }

    /// Refill the batch to be sent, and send it; the number of datagrams that have left comes back.
    pub(super) fn send(&self, between: Addresses, outgoing: &mut Outgoing) -> (Sent, u64) {
        let mut left = 0_u64;
        while let Some(next) = outgoing.bursts().first() {
            let is_cut = next.cut().is_some();
            let error = match self.calls.send(&self.socket, between, outgoing) {
                Ok(bursts) => {
                    left = left.saturating_add(outgoing.advance(bursts));
                    continue;
                }
                Err(error) => error,
            };
            match Refusal::of(&error) {
                Refusal::Interrupted => {}
                Refusal::NoRoom => return (Sent::NoRoom, left),
                Refusal::NoWay => {
                    self.refused.set(error.raw_os_error());
                    return (Sent::NoWay, left);
                }
                Refusal::Uncut if is_cut => {
                    self.calls.cut_no_more();
                    outgoing.part();
                }
                Refusal::TooLong if is_cut => outgoing.part(),
                Refusal::Uncut | Refusal::TooLong | Refusal::Lost => {
                    self.refused.set(error.raw_os_error());
                    left = left.saturating_add(outgoing.advance(1));
                }
            }
        }
        (Sent::Whole, left)
    }

    /// The number (`errno`) of the last refusal to send, once; none that is for want of room.
    pub(super) fn take_refused(&self) -> Option<i32> {
        self.refused.take()
    }

    /// The calls, for what they know of the socket.
    pub(super) const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Hands over what one call takes; `None` when nothing is there, else how many datagrams the system has dropped.
    ///
    /// # Errors
    /// When the socket fails.
    pub(super) fn receive(&self, take: impl FnMut(Message<'_>)) -> io::Result<Option<u64>> {
        match self.calls.receive(&self.socket, take) {
            Ok(dropped) => Ok(Some(dropped)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Waits until there is something to read, room to send if `for_room`, or `also` can be read; for `most` at most.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub(super) fn wait(
        &self,
        for_room: bool,
        also: Option<BorrowedFd<'_>>,
        most: Duration,
    ) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, for_room);
        let socket = PollFd::from_borrowed_fd(self.socket.as_fd(), flags);
        let also = also.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let mut all: Vec<_> = [Some(socket), also].into_iter().flatten().collect();
        let time = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        match poll(&mut all, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
