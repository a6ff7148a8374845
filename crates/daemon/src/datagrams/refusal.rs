//! The system's refusals to send a datagram.

use std::io;

use nix::errno::Errno;

use super::path::says_no_way;

/// The consequence of the system's refusal to send a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The datagram is to be sent again when there is room.
    NoRoom,
    /// The datagram is to be sent again.
    Interrupted,
    /// The datagram is too long.
    TooLong,
    /// The datagram is one that the system was to cut, and cannot.
    Uncut,
    /// No way leads there.
    NoWay,
    /// The datagram is lost.
    Lost,
}

impl Refusal {
    /// The refusal that an error is.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw);
        match errno {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::NoRoom,
            _ if says_no_way(error) => Self::NoWay,
            Some(Errno::EINTR) => Self::Interrupted,
            Some(Errno::EMSGSIZE) => Self::TooLong,
            Some(Errno::EINVAL | Errno::EIO | Errno::EOPNOTSUPP) => Self::Uncut,
            _ => Self::Lost,
        }
    }
}
