//! The sockets of a node for datagrams: those that listeners bound, and one of each family for links that none of them serves.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_node::config::ListenerId;
use dhow_node::driver::{Purpose, StreamId};

use super::conversation;
use super::path::Path;
use super::peers::Peers;
use super::socket::DatagramSocket;
use crate::core::Core;
use crate::pace::Pace;
use crate::streams::carrier::Carriers;
use crate::streams::listener::Family;
use crate::streams::path::Ends;
use crate::streams::rest::rest;

/// System calls before the others of the thread get their turn.
const CALLS_PER_TURN: usize = 8;

/// The interval at which the node is asked whether it takes datagrams again, which wait in the socket meanwhile.
const LOOK: Duration = Duration::from_millis(1);

/// The time that the datagrams of a link to which no way led wait until it has a conversation: the system says so some turns later.
const RETURN_WAIT: Duration = Duration::from_millis(50);

/// Wait after a socket failed.
const FAULT_WAIT: Duration = Duration::from_millis(50);

/// A socket, and whose it is.
pub struct Port {
    /// The socket.
    pub socket: DatagramSocket,
    /// The listener that bound it.
    listener: Option<ListenerId>,
}

/// All sockets for datagrams, and who is at which address.
pub struct Ports {
    core: Core,
    bound: Vec<Rc<Port>>,
    /// One of each family, made when it is needed.
    unbound: RefCell<Vec<Rc<Port>>>,
    carriers: Rc<Carriers>,
    /// Whose the addresses are.
    pub peers: RefCell<Peers>,
}

impl Ports {
    /// Those that listeners bound.
    #[must_use]
    pub fn new(
        core: Core,
        carriers: Rc<Carriers>,
        bound: Vec<(ListenerId, DatagramSocket)>,
    ) -> Rc<Self> {
        let port = |(listener, socket)| {
            Rc::new(Port {
                socket,
                listener: Some(listener),
            })
        };
        Rc::new(Self {
            core,
            bound: bound.into_iter().map(port).collect(),
            unbound: RefCell::default(),
            carriers,
            peers: RefCell::default(),
        })
    }

    /// Those that listeners bound.
    #[must_use]
    pub fn bound(&self) -> &[Rc<Port>] {
        &self.bound
    }

    /// The socket by which datagrams take a way: a listener's where one is at its beginning, so that the peer can answer.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn at(self: &Rc<Self>, way: Path) -> io::Result<Rc<Port>> {
        let mut bound = self.bound.iter();
        let exact = bound.find(|port| port.socket.local().ip() == way.own);
        let any = || self.bound.iter().find(|it| it.socket.sends_from(way.own));
        if let Some(port) = exact.or_else(any) {
            return Ok(Rc::clone(port));
        }
        let known = self.unbound.borrow();
        if let Some(port) = known.iter().find(|it| it.socket.sends_from(way.own)) {
            return Ok(Rc::clone(port));
        }
        drop(known);
        let address: SocketAddr = match way.own.is_ipv4() {
            true => (Ipv4Addr::UNSPECIFIED, 0).into(),
            false => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let port = Rc::new(Port {
            socket: DatagramSocket::bind(address, Family::Own)?,
            listener: None,
        });
        self.unbound.borrow_mut().push(Rc::clone(&port));
        let reading = Rc::clone(self).read(Rc::clone(&port));
        drop(tokio::task::spawn_local(reading));
        Ok(port)
    }

    /// Hands datagrams to the node for as long as it runs.
    pub async fn read(self: Rc<Self>, port: Rc<Port>) {
        let mut pace = Pace::default();
        loop {
            let failed = match port.socket.readable().await {
                Ok(()) => self.read_turn(&port).await.err(),
                Err(error) => Some(error),
            };
            if let Some(error) = failed {
                if let Some(more) = pace.say(self.core.now().monotonic) {
                    let address = port.socket.local();
                    tracing::warn!(more, %address, "datagrams cannot be read: {error}");
                }
                tokio::time::sleep(FAULT_WAIT).await;
            }
            rest().await;
        }
    }

    async fn read_turn(self: &Rc<Self>, port: &Rc<Port>) -> io::Result<()> {
        for _ in 0..CALLS_PER_TURN {
            let arrived = match self.receive(port) {
                Ok(arrived) => arrived,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            for (from, datagrams) in arrived {
                self.wait_for_link(from).await;
                if let Some(behind) = self.hand_over(port, from, datagrams) {
                    while !self.core.takes_octets(behind) {
                        tokio::time::sleep(LOOK).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for the conversation of a link that has just been without a way to an address, since datagrams come from there: a stranger would have a part of
    /// their transfers, and the link the rest.
    async fn wait_for_link(&self, from: SocketAddr) {
        if !self.peers.borrow_mut().awaits(from) {
            return;
        }
        self.carriers.look();
        let end = tokio::time::Instant::now() + RETURN_WAIT;
        while self.peers.borrow().link(from).is_none() && tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Datagrams that are there, those that follow each other from one address together.
    fn receive(&self, port: &Port) -> io::Result<Vec<(SocketAddr, Vec<Bytes>)>> {
        let mut arrived: Vec<(SocketAddr, Vec<Bytes>)> = Vec::new();
        let mut buffer = self.core.with_pool(|pool| pool.take());
        let received = port.socket.receive(|from, datagram| {
            let octets = self.keep(&mut buffer, datagram);
            match arrived.last_mut() {
                Some((last, datagrams)) if *last == from => datagrams.push(octets),
                _ => arrived.push((from, vec![octets])),
            }
        });
        self.core.with_pool(|pool| pool.give(buffer));
        let overflowed = received?;
        self.core
            .count(|counts| counts.datagrams_overflowed += overflowed);
        Ok(arrived)
    }

    /// A copy in buffers of the pool: small bundles share one, and the socket's own are used again at once.
    fn keep(&self, buffer: &mut BytesMut, octets: &[u8]) -> Bytes {
        let has_room = |buffer: &BytesMut| buffer.capacity() - buffer.len() >= octets.len();
        if !has_room(buffer) {
            self.core.with_pool(|pool| {
                pool.give(std::mem::take(buffer));
                *buffer = pool.take();
            });
        }
        if !has_room(buffer) {
            return Bytes::copy_from_slice(octets);
        }
        buffer.extend_from_slice(octets);
        buffer.split().freeze()
    }

    /// Gives datagrams to the conversation that they belong to. Comes back with it where the node is to have no more of it now.
    fn hand_over(
        self: &Rc<Self>,
        port: &Rc<Port>,
        from: SocketAddr,
        datagrams: Vec<Bytes>,
    ) -> Option<StreamId> {
        let of_link = self.peers.borrow().link(from);
        if let Some(stream) = of_link {
            self.core.handle_datagrams(stream, datagrams);
            return (!self.core.takes_octets(stream)).then_some(stream);
        }
        let stream = port.listener.map(|it| self.stranger(port, it, from));
        // Others are not to wait for a stranger.
        match stream.filter(|stream| self.core.takes_octets(*stream)) {
            Some(stream) => self.core.handle_datagrams(stream, datagrams),
            None => self.core.count(|counts| {
                counts.datagrams_ignored += u64::try_from(datagrams.len()).unwrap_or(0);
            }),
        }
        None
    }

    /// The conversation of a stranger, perhaps in the place of another's.
    fn stranger(self: &Rc<Self>, port: &Port, listener: ListenerId, from: SocketAddr) -> StreamId {
        let now = self.core.now().monotonic;
        let known = self.peers.borrow().hear(listener, from, now);
        if let Some(stream) = known {
            return stream;
        }
        let oldest = self.peers.borrow_mut().make_room();
        if let Some(oldest) = oldest {
            self.core.count(|counts| counts.strangers_cut += 1);
            self.core.cut(oldest);
        }
        let ends = Ends {
            own: port.socket.local(),
            peer: from,
        };
        let stream = self
            .core
            .open_stream(Purpose::Heard { listener }, Some(ends));
        let mut peers = self.peers.borrow_mut();
        let heard = peers.enter(listener, from, (stream, now));
        drop(peers);
        let (core, ports) = (self.core.clone(), Rc::clone(self));
        drop(tokio::task::spawn_local(async move {
            conversation::hear_stranger(&core, stream, &heard).await;
            ports.peers.borrow_mut().leave(listener, from, stream);
            core.close_stream(stream);
        }));
        stream
    }
}
