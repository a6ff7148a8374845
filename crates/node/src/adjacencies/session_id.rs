//! The identity of a session.

use crate::driver::StreamId;

/// A session with a neighbour, or a conversation with it by datagrams. It begins with its connection or conversation, of which it has
/// the number: a driver uses none twice. A tunnel has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(u64);

impl SessionId {
    /// The session over a connection or conversation, if that is a neighbour's.
    #[inline]
    pub(crate) const fn over(StreamId(number): StreamId) -> Self {
        Self(number)
    }

    /// The tunnel of a number.
    pub(crate) const fn of_tunnel(number: u64) -> Self {
        Self::over(StreamId::of_tunnel(number))
    }

    /// The next number.
    pub(crate) const fn following(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether it is a tunnel.
    pub(crate) const fn is_tunnel(self) -> bool {
        self.stream().is_tunnel()
    }

    /// Its connection or conversation, as the driver knows it, which knows none of a tunnel.
    #[inline]
    pub(crate) const fn stream(self) -> StreamId {
        StreamId(self.0)
    }
}
