//! One connection's task: reads what is there, writes what the node gives, both bounded per turn.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use dhow_link::Gather;
use dhow_node::door::{Event, Purpose, StreamId};
use rustls::pki_types::ServerName;

use super::identity::peer_identities;
use super::outgoing::{Outgoing, SLICES_PER_WRITE};
use super::socket::Socket;
use super::tls::Tls;
use crate::buffers::ROOM_MIN_OCTETS;
use crate::core::Core;

/// Octets polled from the node at a time: some buffers' worth, so that a write call carries much and an
/// acknowledgment behind it does not wait long.
const GATHER_OCTETS: usize = 1 << 20;

/// Reads and writes of one connection before the others of the thread get their turn.
const STEPS_PER_TURN: usize = 8;

/// How long a TLS handshake may take: RFC 9174 sets no bound, and a peer that stalls holds a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long what is written last may take to leave, and the peer to end its half.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// Octets read and dropped while the peer ends its half.
const FAREWELL_OCTETS: usize = 1 << 20;

/// One connection.
pub struct Connection {
    core: Core,
    stream: StreamId,
    outgoing: Outgoing,
    gather: Gather,
    /// The node may have more octets than it gave last.
    more: bool,
    /// Something was written that TLS may still hold.
    unflushed: bool,
    buffer: BytesMut,
}

/// Why a connection's run of turns ended.
enum Stop {
    /// TLS is to start.
    StartTls,
    /// Everything is written and the node wants the connection closed.
    Close,
    /// The peer ended it, or it failed.
    Gone,
}

/// Who the other side is, as far as TLS needs to know before its certificate.
#[derive(Clone, Debug)]
pub enum Side {
    /// It was dialled by this name or address.
    Dialled(ServerName<'static>),
    /// It came by itself.
    Accepted,
}

/// Serve a connected socket until it is gone.
pub async fn serve(core: Core, mut socket: Socket, purpose: Purpose, side: Side, tls: Option<Tls>) {
    let stream = core.open_stream(purpose, socket.peer());
    let mut connection = Connection {
        core,
        stream,
        outgoing: Outgoing::default(),
        gather: Gather::new(),
        more: true,
        unflushed: false,
        buffer: BytesMut::new(),
    };
    loop {
        match std::future::poll_fn(|context| connection.turn(context, &mut socket)).await {
            Stop::StartTls => match connection.secure(socket, &side, tls.as_ref()).await {
                Some(secured) => socket = secured,
                None => break,
            },
            Stop::Close => {
                farewell(&mut socket).await;
                break;
            }
            Stop::Gone => break,
        }
    }
    connection.core.close_stream(stream);
}

impl Connection {
    fn turn(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> Poll<Stop> {
        for _ in 0..STEPS_PER_TURN {
            match self.step(context, socket) {
                Ok(Step::Progress) => {}
                Ok(Step::Nothing) => return Poll::Pending,
                Ok(Step::Stop(stop)) => return Poll::Ready(stop),
                Err(error) => {
                    tracing::debug!(stream = self.stream.0, "connection failed: {error}");
                    return Poll::Ready(Stop::Gone);
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes once and reads once, as far as both go without waiting.
    fn step(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<Step> {
        let wishes = self.core.wishes(self.stream, context.waker());
        if wishes.cut {
            socket.reset_on_close();
            return Ok(Step::Stop(Stop::Gone));
        }
        self.more |= wishes.flush;
        if self.outgoing.is_empty() && self.more {
            self.poll_octets()?;
        }
        let mut progress = self.write(context, socket)?;
        let written = self.outgoing.is_empty() && !self.more && !self.unflushed;
        if written && wishes.close {
            return Ok(Step::Stop(Stop::Close));
        }
        if written && wishes.start_tls {
            return Ok(Step::Stop(Stop::StartTls));
        }
        if !wishes.close && !wishes.start_tls && self.core.takes_octets(self.stream) {
            match self.read(context, socket)? {
                Poll::Ready(0) => return Ok(Step::Stop(Stop::Gone)),
                Poll::Ready(_) => progress = true,
                Poll::Pending => {}
            }
        }
        Ok(if progress {
            Step::Progress
        } else {
            Step::Nothing
        })
    }

    fn poll_octets(&mut self) -> io::Result<()> {
        let out = self.outgoing.refill();
        if !self
            .core
            .poll_octets(self.stream, GATHER_OCTETS, &mut self.gather, out)
        {
            return Err(io::Error::other("stored octets cannot be read"));
        }
        self.more = !out.is_empty();
        Ok(())
    }

    /// True when something was written.
    fn write(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<bool> {
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
                self.unflushed = matches!(socket, Socket::Tls(_));
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    fn read(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<Poll<usize>> {
        if self.buffer.capacity() < ROOM_MIN_OCTETS {
            let full = std::mem::take(&mut self.buffer);
            self.buffer = self.core.with_pool(|pool| {
                if full.capacity() > 0 {
                    pool.give(full);
                }
                pool.take()
            });
        }
        let Poll::Ready(octets) = socket.poll_read(context, &mut self.buffer)? else {
            if self.buffer.is_empty() {
                self.rest();
            }
            return Ok(Poll::Pending);
        };
        if octets > 0 {
            self.core
                .handle_octets(self.stream, self.buffer.split().freeze());
        }
        Ok(Poll::Ready(octets))
    }

    /// Nothing is there to be read: the buffer goes back, so that idle connections hold none.
    fn rest(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.core.with_pool(|pool| pool.give(buffer));
    }

    /// The TLS handshake (RFC 9174 4.4.3: whoever dialled is its client).
    async fn secure(&self, socket: Socket, side: &Side, tls: Option<&Tls>) -> Option<Socket> {
        self.core.tls_started(self.stream);
        let peer = socket.peer();
        let (Socket::Tcp(stream), Some(tls)) = (socket, tls) else {
            self.core
                .insecure(self.stream, "TLS is wanted where there is none");
            return None;
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.handshake(stream, side)).await {
            Ok(Ok(stream)) => {
                let dialled = match side {
                    Side::Dialled(name) => Some(name),
                    Side::Accepted => None,
                };
                let identities = peer_identities(&stream, dialled, peer.map(|peer| peer.ip()));
                self.core.handle(Event::Secured {
                    stream: self.stream,
                    identities,
                });
                Some(Socket::Tls(Box::new(stream)))
            }
            Ok(Err(error)) => {
                let why = format!("TLS handshake failed: {error}");
                self.core.insecure(self.stream, &why);
                None
            }
            Err(_) => {
                let patience = HANDSHAKE_TIMEOUT.as_secs();
                let why = format!("TLS handshake was not done within {patience} s");
                self.core.insecure(self.stream, &why);
                None
            }
        }
    }
}

/// What one step of a connection did.
enum Step {
    Progress,
    Nothing,
    Stop(Stop),
}

/// Ends the sending half and waits, within bounds, for the peer to end its own: a socket closed over
/// unread octets is reset, and the reset may overtake the last octets sent.
async fn farewell(socket: &mut Socket) {
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
