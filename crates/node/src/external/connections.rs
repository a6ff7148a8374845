//! Connections of programs at the external socket.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use dhow_bundle::Instant;
use dhow_link::external::frame::FrameReader;

use crate::driver::StreamId;
use crate::routing::RouterId;

/// All connections.
#[derive(Default)]
pub(crate) struct Connections {
    streams: BTreeMap<StreamId, Connection>,
}

/// A connection of a program.
pub(crate) struct Connection {
    pub(crate) reader: FrameReader,
    pub(crate) part: Part,
    /// Its timer, as it was set.
    pub(crate) timeout: Option<Instant>,
    /// Whether the driver is to ask for octets.
    pub(crate) flush_pending: bool,
}

/// The part that a program takes.
pub(crate) enum Part {
    /// The time until which the program has to say which.
    Unknown(Instant),
    /// A router.
    Router(RouterId),
    /// None any more; its last octets.
    Over(Vec<u8>),
}

impl Connections {
    pub(crate) fn welcome(&mut self, stream: StreamId, until: Instant) {
        let connection = Connection {
            reader: FrameReader::default(),
            part: Part::Unknown(until),
            timeout: None,
            flush_pending: false,
        };
        self.streams.insert(stream, connection);
    }

    pub(crate) fn get(&self, stream: StreamId) -> Option<&Connection> {
        self.streams.get(&stream)
    }

    pub(crate) fn get_mut(&mut self, stream: StreamId) -> Option<&mut Connection> {
        self.streams.get_mut(&stream)
    }

    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<Connection> {
        self.streams.remove(&stream)
    }

    /// Connections.
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// The timers of all, as they were set.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn timers(&self) -> impl Iterator<Item = (StreamId, Option<Instant>)> {
        self.streams.iter().map(|(id, it)| (*id, it.timeout))
    }

    /// The timer of a connection: as it is wanted, and as it was set.
    pub(crate) fn rearm(&mut self, stream: StreamId) -> Option<[Option<Instant>; 2]> {
        let connection = self.streams.get_mut(&stream)?;
        let wanted = match connection.part {
            Part::Unknown(until) => Some(until),
            Part::Router(_) | Part::Over(_) => None,
        };
        Some([wanted, core::mem::replace(&mut connection.timeout, wanted)])
    }
}
