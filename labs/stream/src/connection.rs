//! A TCPCLv4 session over a socket: octets in and out until there is news.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use dhow_bundle::storage::Piece;
use dhow_bundle::{DtnTime, Instant, NodeId, Now};
use dhow_link::Gather;
use dhow_link::stream::{LinkCommand, LinkEvent, StreamSession as _};
use dhow_link::tcpcl::v4::{Config, Role, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;

/// Octets read at a time, and written.
const BUFFER_OCTETS: usize = 256 << 10;

/// Slices of one write call: as many as the system takes.
const SLICES: usize = 1024;

/// The longest time in which nothing may move.
const PATIENCE: Duration = Duration::from_secs(60);

/// One neighbour.
pub struct Connection {
    socket: TcpStream,
    session: Session,
    gather: Gather,
    outgoing: VecDeque<Bytes>,
    /// The session had no more than it was asked for last.
    dry: bool,
    spare: Spare,
}

/// The buffers that are read into, used again as soon as nobody has slices of them: while the processor's caches hold them.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Box<[u8]>>>>);

/// A buffer whose slices are in use.
struct Lent {
    octets: Box<[u8]>,
    back: Spare,
}

impl Connection {
    /// The session with a neighbour, established.
    ///
    /// # Errors
    /// The connection failed, or the neighbour is no TCPCLv4 node.
    pub fn establish(socket: TcpStream, role: Role, node_id: NodeId) -> Result<Self, Failure> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut config = Config::new(node_id);
        // A program that waits for an order does not look after the session.
        config.keepalive_s = 0;
        config.segment_length = u64::try_from(BUFFER_OCTETS).unwrap_or(u64::MAX);
        let mut connection = Self {
            socket,
            session: Session::new(role, config, now()),
            gather: Gather::new(),
            outgoing: VecDeque::new(),
            dry: false,
            spare: Spare::default(),
        };
        loop {
            if let LinkEvent::Up(_) = connection.next()? {
                return Ok(connection);
            }
        }
    }

    /// Tells the session what to do.
    pub fn command(&mut self, command: LinkCommand) {
        self.dry = false;
        self.session.handle_command(now(), command);
    }

    /// Whether the session has nothing more to send.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.dry && self.outgoing.is_empty()
    }

    /// The next event; waits for it.
    ///
    /// # Errors
    /// The connection failed or is over, or nothing moved for a minute.
    pub fn next(&mut self) -> Result<LinkEvent, Failure> {
        loop {
            if let Some(event) = self.step()? {
                return Ok(event);
            }
        }
    }

    /// Writes and reads what goes; waits where nothing does. The event, if there was one.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn step(&mut self) -> Result<Option<LinkEvent>, Failure> {
        if let Some(event) = self.session.poll_event() {
            return match event {
                LinkEvent::Down(reason) => Err(Failure::Session(reason.to_string())),
                event => Ok(Some(event)),
            };
        }
        let written = self.write()?;
        let read = self.read()?;
        if !written && !read {
            self.wait(self.session.wants_octets())?;
        }
        Ok(None)
    }

    /// Writes all that the session has to send.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn flush(&mut self) -> Result<(), Failure> {
        loop {
            let written = self.write()?;
            if !written && self.outgoing.is_empty() {
                return Ok(());
            }
            if !written {
                self.wait(false)?;
            }
        }
    }

    /// Writes once; false when nothing went.
    fn write(&mut self) -> Result<bool, Failure> {
        if self.outgoing.is_empty() {
            self.gather.clear();
            self.session
                .poll_octets(now(), 4 * BUFFER_OCTETS, &mut self.gather);
            self.dry = self.gather.octets() < 4 * u64::try_from(BUFFER_OCTETS).unwrap_or(u64::MAX);
            let pieces = self.gather.pieces().iter();
            self.outgoing.extend(pieces.filter_map(|piece| match piece {
                Piece::Octets(octets) => Some(octets.clone()),
                Piece::Extent(_) => None,
            }));
        }
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        let slices = self.outgoing.iter().take(SLICES);
        let slices: Vec<IoSlice<'_>> = slices.map(|octets| IoSlice::new(octets)).collect();
        let mut count = match self.socket.write_vectored(&slices) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        while let Some(first) = self.outgoing.front_mut() {
            let gone = count.min(first.len());
            first.advance(gone);
            count -= gone;
            if !first.is_empty() {
                break;
            }
            self.outgoing.pop_front();
        }
        Ok(true)
    }

    /// Reads once; false when nothing was there.
    fn read(&mut self) -> Result<bool, Failure> {
        if !self.session.wants_octets() {
            return Ok(false);
        }
        let mut buffer = self.spare.take();
        match self.socket.read(&mut buffer) {
            Ok(0) => self
                .session
                .handle_command(now(), LinkCommand::Disconnected),
            Ok(count) => {
                let octets = self.spare.lend(buffer).slice(..count);
                self.session.handle_octets(now(), octets);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.spare.put(buffer);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Waits until something can be written, or read where that is wanted.
    fn wait(&self, for_octets: bool) -> Result<(), Failure> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, for_octets);
        flags.set(PollFlags::OUT, !self.outgoing.is_empty());
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&patience)) {
            Ok(0) => Err(Failure::Stalled(PATIENCE.as_secs())),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl Spare {
    fn take(&self) -> Box<[u8]> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let octets = spare.pop();
        octets.unwrap_or_else(|| vec![0; BUFFER_OCTETS].into())
    }

    fn put(&self, octets: Box<[u8]>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(octets);
    }

    fn lend(&self, octets: Box<[u8]>) -> Bytes {
        Bytes::from_owner(Lent {
            octets,
            back: self.clone(),
        })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.back.put(std::mem::take(&mut self.octets));
    }
}

/// Both kinds of time.
#[must_use]
pub fn now() -> Now {
    let wall = clock_gettime(ClockId::Realtime);
    let milliseconds = u64::try_from(wall.tv_sec).unwrap_or(0).saturating_mul(1000)
        + u64::try_from(wall.tv_nsec).unwrap_or(0) / 1_000_000;
    let monotonic = clock_gettime(ClockId::Monotonic);
    let nanoseconds = u64::try_from(monotonic.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        + u64::try_from(monotonic.tv_nsec).unwrap_or(0);
    Now {
        monotonic: Instant::from_nanos(nanoseconds),
        dtn: DtnTime::from_unix_millis(milliseconds),
    }
}

/// Seconds of the system's monotonic clock (`CLOCK_MONOTONIC`).
#[must_use]
pub fn seconds() -> f64 {
    Duration::from_nanos(now().monotonic.as_nanos()).as_secs_f64()
}
