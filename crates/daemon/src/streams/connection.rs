//! One connection's task: reads octets of the peer, writes octets of the node, both bounded per turn.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dhow_link::Gather;
use dhow_link::stream::PeerIdentities;
use dhow_node::driver::{Event, Purpose, StreamId};
use rustls::pki_types::ServerName;

use super::flow::{Flow, farewell};
use super::identity::peer_identities;
use super::pipe::Pipe;
use super::refusals;
use super::relay::relay;
use super::rest::rest;
use super::socket::Socket;
use super::tls::Tls;
use super::worker::Assignment;
use crate::core::Core;

/// Reads and writes of one connection before the others of the thread get their turn.
const STEPS_PER_TURN: usize = 8;

/// Longest turn, about: a peer whose octets cost much (segments of one octet, say) gets fewer of them into a turn.
pub const TURN_TIME: Duration = Duration::from_millis(2);

/// The time that a TLS handshake may take: RFC 9174 sets no bound, and a peer that stalls holds a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection.
pub struct Connection {
    core: Core,
    stream: StreamId,
    flow: Flow,
    gather: Gather,
    /// Whether the node may have more octets than it gave last.
    more: bool,
}

/// Why a connection's turn ended.
enum Stop {
    /// The thread's others are to have theirs.
    Rest,
    /// TLS is to start.
    StartTls,
    /// Everything is written and the node wants the connection closed.
    Close,
    /// The peer ended it, or it failed.
    Gone,
}

/// The other side, as far as TLS needs to know it before its certificate.
#[derive(Clone, Debug)]
pub enum Side {
    /// The neighbour was dialled by this name or address.
    Dialled(ServerName<'static>),
    /// The neighbour's connection, accepted here.
    Accepted,
}

/// Serve a connected socket until it is gone, on a thread for connections where the node has some. The node knows of it when this
/// returns, so that the next one finds it counted.
pub fn serve(
    core: Core,
    socket: Socket,
    purpose: Purpose,
    side: Side,
    tls: Option<Tls>,
) -> impl Future<Output = ()> {
    let stream = core.open_stream(purpose, socket.ends());
    serve_stream(core, socket, stream, side, tls)
}

async fn serve_stream(core: Core, socket: Socket, stream: StreamId, side: Side, tls: Option<Tls>) {
    if !core.has_workers() {
        return serve_here(core, socket, stream, side, tls).await;
    }
    let pipe = Arc::new(Pipe::default());
    let assigned = socket.detach().is_ok_and(|socket| {
        core.assign(Assignment {
            pipe: Arc::clone(&pipe),
            unwritten: core.unwritten.clone(),
            socket,
            side,
            tls,
        })
    });
    if !assigned {
        pipe.end();
    }
    relay(core, stream, pipe).await;
}

/// Serve a connected socket on the node's own thread.
async fn serve_here(
    core: Core,
    mut socket: Socket,
    stream: StreamId,
    side: Side,
    tls: Option<Tls>,
) {
    let flow = Flow::of(&socket, core.unwritten.clone());
    let mut connection = Connection {
        core,
        stream,
        flow,
        gather: Gather::new(),
        more: true,
    };
    loop {
        match std::future::poll_fn(|context| connection.turn(context, &mut socket)).await {
            Stop::Rest => rest().await,
            Stop::StartTls => {
                connection.core.tls_started(stream);
                match side.secure(socket, tls.as_ref()).await {
                    Ok((secured, identities)) => {
                        socket = secured;
                        let event = Event::Secured { stream, identities };
                        connection.core.handle(event);
                    }
                    Err(why) => {
                        connection.core.insecure(stream, &why);
                        break;
                    }
                }
            }
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
        let begun = self.core.now().monotonic;
        for _ in 0..STEPS_PER_TURN {
            match self.step(context, socket) {
                Ok(Step::Progress) if self.core.now().monotonic.since(begun) > TURN_TIME => break,
                Ok(Step::Progress) => {}
                Ok(Step::Nothing) => return Poll::Pending,
                Ok(Step::Stop(stop)) => return Poll::Ready(stop),
                Err(error) => {
                    tracing::debug!(stream = self.stream.0, "connection failed: {error}");
                    // Under TLS 1.3 the side that dialled is done with the handshake before it hears of a refusal.
                    if let Some(why) = refusals::why(&error) {
                        self.core.insecure(self.stream, &why);
                    }
                    return Poll::Ready(Stop::Gone);
                }
            }
        }
        Poll::Ready(Stop::Rest)
    }

    /// Writes once and reads once, as far as both go without waiting.
    fn step(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<Step> {
        let wishes = self.core.wishes(self.stream, context.waker());
        if wishes.cut {
            socket.reset_on_close();
            return Ok(Step::Stop(Stop::Gone));
        }
        self.more |= wishes.flush;
        if self.flow.outgoing.is_empty() && self.more {
            self.poll_octets()?;
        }
        let mut progress = self.flow.write(context, socket)?;
        let written = self.flow.is_written() && !self.more;
        if written && wishes.close {
            return Ok(Step::Stop(Stop::Close));
        }
        if written && wishes.start_tls {
            return Ok(Step::Stop(Stop::StartTls));
        }
        if !wishes.close && !wishes.start_tls && self.core.takes_octets(self.stream) {
            let Self { core, flow, .. } = self;
            match core.with_pool(|pool| flow.read(context, socket, pool))? {
                Poll::Ready(octets) if octets.is_empty() => return Ok(Step::Stop(Stop::Gone)),
                Poll::Ready(octets) => {
                    core.handle_octets(self.stream, octets);
                    progress = true;
                }
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
        let limit = self.flow.next_octets();
        let out = self.flow.outgoing.refill();
        if !self
            .core
            .poll_octets(self.stream, limit, &mut self.gather, out)
        {
            return Err(io::Error::other("stored octets cannot be read"));
        }
        self.more = !out.is_empty();
        self.flow.outgoing.refilled();
        Ok(())
    }
}

impl Side {
    /// The TLS handshake (RFC 9174 4.4.3: the side that dialled is its client), and the identities that it proves; or why it failed.
    ///
    /// # Errors
    /// The handshake failed, was not done in time, or there is no TLS here.
    pub async fn secure(
        &self,
        socket: Socket,
        tls: Option<&Tls>,
    ) -> Result<(Socket, PeerIdentities), String> {
        let peer = socket.peer();
        let (Socket::Tcp(stream), Some(tls)) = (socket, tls) else {
            return Err("TLS is wanted where there is none".to_owned());
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.handshake(stream, self)).await {
            Ok(Ok(stream)) => {
                let dialled = match self {
                    Self::Dialled(name) => Some(name),
                    Self::Accepted => None,
                };
                let identities = peer_identities(&stream, dialled, peer.map(|peer| peer.ip()));
                Ok((Socket::Tls(Box::new(stream)), identities))
            }
            Ok(Err(error)) => {
                let why = refusals::why(&error);
                Err(why.unwrap_or_else(|| format!("TLS handshake failed: {error}")))
            }
            Err(_) => {
                let patience = HANDSHAKE_TIMEOUT.as_secs();
                Err(format!("TLS handshake was not done within {patience} s"))
            }
        }
    }
}

/// The outcome of one step of a connection.
enum Step {
    Progress,
    Nothing,
    Stop(Stop),
}
