//! The identity of a session.

use crate::driver::StreamId;

/// A session with a neighbour, or a conversation with it by datagrams. It begins with its connection or conversation, of which it has
/// the number: a driver uses none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(u64);

impl SessionId {
    /// The session over a connection or conversation, if that is a neighbour's.
    #[inline]
    pub(crate) const fn over(StreamId(number): StreamId) -> Self {
        Self(number)
    }

    /// Its connection or conversation, as the driver knows it.
    #[inline]
    pub(crate) const fn stream(self) -> StreamId {
        StreamId(self.0)
    }
}
