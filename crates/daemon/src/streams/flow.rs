//! One socket's octets: those to be written, and the destination of those that arrive.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::backlog::Backlog;
use super::outgoing::{Outgoing, SLICES_PER_WRITE, Unwritten};
use super::socket::Socket;
use crate::buffers::{ROOM_MIN_OCTETS, ReceivePool};

/// The time that the last octets may take to leave, and the peer to end its half.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// Octets read and dropped while the peer ends its half.
const FAREWELL_OCTETS: usize = 1 << 20;

/// Octets on their way into a socket and out of it, for the one task that reads and writes it.
#[derive(Debug)]
pub struct Flow {
    /// Octets that are to be written.
    pub outgoing: Outgoing,
    /// The bound on what may wait to be sent; the kernel heeds it for TCP.
    backlog: Option<Backlog>,
    /// Whether something was written that TLS may still hold.
    unflushed: bool,
    /// The buffer that is filled further; idle connections hold none.
    buffer: Option<BytesMut>,
}

impl Flow {
    /// No octets yet of a socket; those to be written count among what is unwritten.
    #[must_use]
    pub fn of(socket: &Socket, unwritten: Unwritten) -> Self {
        let is_tcp = !matches!(socket, Socket::Unix(_));
        Self {
            outgoing: Outgoing::within(unwritten),
            backlog: is_tcp.then(Backlog::default),
            unflushed: false,
            buffer: None,
        }
    }

    /// True when everything is written and nothing waits in TLS.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.outgoing.is_empty() && !self.unflushed
    }

    /// The number of octets to be polled next, once all before is written.
    #[must_use]
    pub fn next_octets(&self) -> usize {
        let gather = self
            .backlog
            .as_ref()
            .map_or(usize::MAX, Backlog::gather_octets);
        self.outgoing.next_octets().min(gather)
    }

    /// Write by one call what the socket takes; true when something was written.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<bool> {
        if self.outgoing.is_empty() {
            if self.unflushed && socket.poll_flush(context)?.is_ready() {
                self.unflushed = false;
                return Ok(true);
            }
            return Ok(false);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let count = self.outgoing.slices(&mut slices);
        match socket.poll_write(context, slices.get(..count).unwrap_or(&[]))? {
            Poll::Ready(0) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(octets) => {
                self.outgoing.advance(octets);
                if let Some(backlog) = &mut self.backlog {
                    backlog.take(octets, self.outgoing.is_empty());
                }
                self.unflushed = matches!(socket, Socket::Tls(_));
                Ok(true)
            }
            Poll::Pending => {
                self.outgoing.stand_by();
                if let Some(octets) = self.backlog.as_mut().and_then(Backlog::stop) {
                    socket.let_wait(octets);
                }
                Ok(false)
            }
        }
    }

    /// Read by one call what the socket has; no octets at the stream's end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn read(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut Socket,
        pool: &mut ReceivePool,
    ) -> io::Result<Poll<Bytes>> {
        let mut buffer = match self.buffer.take() {
            Some(buffer) if buffer.capacity() >= ROOM_MIN_OCTETS => buffer,
            full => {
                full.into_iter().for_each(|full| pool.give(full));
                pool.take()
            }
        };
        match socket.poll_read(context, &mut buffer) {
            Poll::Ready(Ok(_)) => {
                let octets = buffer.split().freeze();
                self.buffer = Some(buffer);
                Ok(Poll::Ready(octets))
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                pool.give(buffer);
                Ok(Poll::Pending)
            }
        }
    }
}

/// Ends the sending half and waits, within bounds, for the peer to end its own: a socket closed over
/// unread octets is reset, and the reset may overtake the last octets sent.
pub async fn farewell(socket: &mut Socket) {
    let farewell = async {
        std::future::poll_fn(|context| socket.poll_shutdown(context)).await?;
        let mut buffer = BytesMut::with_capacity(4096);
        let mut dropped = 0;
        while dropped < FAREWELL_OCTETS {
            buffer.clear();
            match std::future::poll_fn(|context| socket.poll_read(context, &mut buffer)).await? {
                0 => break,
                octets => dropped += octets,
            }
        }
        io::Result::Ok(())
    };
    // The node has let go of the connection already: a farewell that fails concerns nobody.
    let _ = tokio::time::timeout(FAREWELL_TIMEOUT, farewell).await;
}
