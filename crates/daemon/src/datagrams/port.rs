//! The sockets of a node for datagrams: those that listeners bound, and one of each family for links that none of them serves.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_node::config::{LinkId, ListenerId, Protocol};
use dhow_node::driver::{Purpose, StreamId};
use tokio::sync::Notify;

use super::calls::Addresses;
use super::conversation;
use super::engines::Engines;
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

/// The time that a link waits for the end of a session with the same engine: some more than an engine of LTP takes for it.
const ENDING_WAIT: Duration = Duration::from_secs(15);

/// Wait after a socket failed.
const FAULT_WAIT: Duration = Duration::from_millis(50);

/// The layer whose datagrams a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Bundles over UDP.
    Udpcl,
    /// Segments of LTP.
    Ltp,
}

impl From<Protocol> for Carried {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ltp(_) => Self::Ltp,
            _ => Self::Udpcl,
        }
    }
}

/// A socket, and whose it is.
pub struct Port {
    /// The socket.
    pub socket: DatagramSocket,
    /// The convergence layer that it carries.
    carried: Carried,
    /// The listener that bound the socket.
    listener: Option<ListenerId>,
}

/// All sockets for datagrams, and the neighbours by their addresses.
pub struct Ports {
    core: Core,
    bound: RefCell<Vec<Rc<Port>>>,
    /// A socket of each family, made when it is needed.
    unbound: RefCell<Vec<Rc<Port>>>,
    carriers: Rc<Carriers>,
    /// The neighbours, by address.
    pub peers: RefCell<Peers>,
    /// The neighbours, by engine.
    pub engines: RefCell<Engines>,
    /// The end of a conversation.
    pub parted: Notify,
}

/// The place of a link's conversation among those of all engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody has it.
    Free,
    /// The link has a conversation already.
    Taken,
}

impl Ports {
    /// None yet.
    #[must_use]
    pub fn new(core: Core, carriers: Rc<Carriers>) -> Rc<Self> {
        Rc::new(Self {
            core,
            bound: RefCell::default(),
            unbound: RefCell::default(),
            carriers,
            peers: RefCell::default(),
            engines: RefCell::default(),
            parted: Notify::new(),
        })
    }

    /// A listener has bound a socket: links whose datagrams leave from its address take it.
    pub fn bind(&self, listener: ListenerId, carried: Carried, socket: DatagramSocket) -> Rc<Port> {
        let port = Rc::new(Port {
            socket,
            carried,
            listener: Some(listener),
        });
        self.bound.borrow_mut().push(Rc::clone(&port));
        self.carriers.look();
        port
    }

    /// A listener is closed: links over its sockets take others.
    pub fn part(&self, ports: Vec<Rc<Port>>) {
        let is_parted = |it: &Rc<Port>| ports.iter().any(|other| Rc::ptr_eq(it, other));
        self.bound.borrow_mut().retain(|it| !is_parted(it));
        if !ports.is_empty() {
            self.carriers.look();
        }
    }

    /// The socket by which datagrams take a way: a listener's where one is at its beginning, so that the peer can answer. Over LTP it is a listener's wherever one
    /// can send there, from its own address: a peer hears an engine of the host that its link names alone.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn at(self: &Rc<Self>, way: Path, carried: Carried) -> io::Result<Rc<Port>> {
        let bound = self.bound.borrow();
        let alike = || bound.iter().filter(|it| it.carried == carried);
        let exact = alike().find(|port| port.socket.local().ip() == way.own);
        let any = || alike().find(|it| it.socket.sends_from(way.own));
        if let Some(port) = exact.or_else(any) {
            return Ok(Rc::clone(port));
        }
        let other = || alike().find(|it| way.can_begin_at(it.socket.local().ip()));
        if carried == Carried::Ltp
            && let Some(port) = other()
        {
            return Ok(Rc::clone(port));
        }
        drop(bound);
        let known = self.unbound.borrow();
        let mut alike = known.iter().filter(|it| it.carried == carried);
        if let Some(port) = alike.find(|it| it.socket.sends_from(way.own)) {
            return Ok(Rc::clone(port));
        }
        drop(known);
        let address: SocketAddr = match way.own.is_ipv4() {
            true => (Ipv4Addr::UNSPECIFIED, 0).into(),
            false => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let port = Rc::new(Port {
            socket: DatagramSocket::bind(address, Family::Own)?,
            carried,
            listener: None,
        });
        self.unbound.borrow_mut().push(Rc::clone(&port));
        let reading = Rc::clone(self).read(Rc::clone(&port));
        drop(tokio::task::spawn_local(reading));
        Ok(port)
    }

    /// Waits for the end of a conversation with the engine to which a link leads, where it is ending: under other settings the two begin anew.
    ///
    /// # Errors
    /// It goes on and is another link's, or does not end.
    pub async fn place(&self, link: LinkId, address: SocketAddr) -> io::Result<Place> {
        let in_use = |what| io::Error::new(io::ErrorKind::AddrInUse, what);
        let late = tokio::time::Instant::now() + ENDING_WAIT;
        loop {
            let parted = self.parted.notified();
            let engines = self.core.ask(|node| node.engines(link));
            let holder = engines.and_then(|(ids, _)| self.engines.borrow().holder(address, ids));
            let Some(holder) = holder else {
                return Ok(Place::Free);
            };
            if !self.core.ask(|node| node.is_ending(holder)) {
                return match self
                    .core
                    .ask(|node| node.streams_of(link))
                    .contains(&holder)
                {
                    true => Ok(Place::Taken),
                    false => Err(in_use("another link over LTP leads to the same engine")),
                };
            }
            if tokio::time::timeout_at(late, parted).await.is_err() {
                return Err(in_use("a session with the same engine does not end"));
            }
        }
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
            for (between, datagrams) in arrived {
                let behind = match port.carried {
                    Carried::Udpcl => {
                        self.wait_for_link(between.peer).await;
                        self.hand_over(port, between.peer, datagrams)
                    }
                    Carried::Ltp => self.hand_to_engines(between, datagrams),
                };
                while let Some(behind) = behind
                    && !self.core.takes_octets(behind)
                {
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        Ok(())
    }

    /// Gives datagrams to the engines that they belong to, those that follow each other together. Comes back with one of which the node is to have no more now.
    fn hand_to_engines(&self, between: Addresses, datagrams: Vec<Bytes>) -> Option<StreamId> {
        let mut behind = None;
        let mut runs: Vec<(Option<StreamId>, Vec<Bytes>)> = Vec::new();
        let engines = self.engines.borrow();
        for datagram in datagrams {
            let knows = |stream, number| self.core.ask(|node| node.knows_session(stream, number));
            let stream = engines.find(between.peer, &datagram, knows);
            match runs.last_mut() {
                Some((last, run)) if *last == stream => run.push(datagram),
                _ => runs.push((stream, vec![datagram])),
            }
        }
        drop(engines);
        for (stream, run) in runs {
            let Some(stream) = stream else {
                self.ignore(run.len());
                continue;
            };
            self.engines.borrow_mut().hear(between, stream);
            self.core.handle_datagrams(stream, run);
            if !self.core.takes_octets(stream) {
                behind = Some(stream);
            }
        }
        behind
    }

    fn ignore(&self, datagrams: usize) {
        self.core.count(|counts| {
            counts.datagrams_ignored += u64::try_from(datagrams).unwrap_or(0);
        });
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

    /// Datagrams that are there, those that follow each other between the same addresses together.
    fn receive(&self, port: &Port) -> io::Result<Vec<(Addresses, Vec<Bytes>)>> {
        let mut arrived: Vec<(Addresses, Vec<Bytes>)> = Vec::new();
        let mut buffer = self.core.with_pool(|pool| pool.take());
        let received = port.socket.receive(|between, datagram| {
            let octets = self.keep(&mut buffer, datagram);
            match arrived.last_mut() {
                Some((last, datagrams)) if *last == between => datagrams.push(octets),
                _ => arrived.push((between, vec![octets])),
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
            None => self.ignore(datagrams.len()),
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
