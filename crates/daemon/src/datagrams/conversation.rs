//! One conversation's task: sends what the node gives, and ends when the node wants that.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dhow_node::config::LinkId;
use dhow_node::driver::{Event, Purpose, StreamId};

use super::outgoing::Outgoing;
use super::path::{Path, is_missing};
use super::peers::{Heard, STRANGER_IDLE};
use super::port::{Carried, Port, Ports};
use super::refusal::Refusal;
use super::seal::SegmentKey;
use crate::core::Core;
use crate::streams::carrier::Carriers;
use crate::streams::path::Ends;
use crate::streams::rest::rest;
use crate::streams::wishes::Wishes;

/// Batches that are sent before the others of the thread get their turn.
const BATCHES_PER_TURN: usize = 8;

/// Waits for a stranger's end: the node's wish, another in its place, or silence. Nothing is sent to strangers.
pub async fn hear_stranger(core: &Core, stream: StreamId, heard: &Heard) {
    loop {
        let silence = core.now().monotonic.since(heard.get());
        let left = STRANGER_IDLE.saturating_sub(silence);
        tokio::select! {
            () = end(core, stream) => return,
            () = tokio::time::sleep(left) => {}
        }
        if core.now().monotonic.since(heard.get()) >= STRANGER_IDLE {
            return;
        }
    }
}

/// The next wish of the node for a conversation.
async fn wishes(core: &Core, stream: StreamId) -> Wishes {
    std::future::poll_fn(|context| {
        let wishes = core.wishes(stream, context.waker());
        match wishes.flush || is_end(wishes) {
            true => Poll::Ready(wishes),
            false => Poll::Pending,
        }
    })
    .await
}

/// Waits until the node wants a conversation to end.
async fn end(core: &Core, stream: StreamId) {
    while !is_end(wishes(core, stream).await) {}
}

const fn is_end(wishes: Wishes) -> bool {
    wishes.close || wishes.cut
}

/// A link's conversation with its peer.
pub struct Conversation {
    core: Core,
    ports: Rc<Ports>,
    port: Rc<Port>,
    link: LinkId,
    stream: StreamId,
    to: SocketAddr,
    carried: Carried,
    /// Octets of the longest datagram that the way takes, as the node was told.
    mtu_octets: Option<u64>,
    outgoing: Outgoing,
    /// The key of all segments, over LTP.
    key: Option<Arc<SegmentKey>>,
}

/// The end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// All of it left, or was refused for good.
    Whole,
    /// The node wants the conversation to end.
    Ended,
    /// The system says that no way leads there.
    NoWay,
}

impl Conversation {
    /// Begins one of a link on a way; the node knows of it when this returns.
    ///
    /// # Errors
    /// When the system gives no socket, or another link leads to the same address.
    pub fn begin(
        core: Core,
        ports: Rc<Ports>,
        link: LinkId,
        (way, carried): (Path, Carried),
        key: Option<Arc<SegmentKey>>,
    ) -> io::Result<Self> {
        let port = ports.at(way, carried)?;
        let in_use = |what| io::Error::new(io::ErrorKind::AddrInUse, what);
        let engine_in_use = || in_use("another link over LTP leads to the same engine");
        if carried == Carried::Udpcl && ports.peers.borrow().link(way.to).is_some() {
            return Err(in_use("another link over UDP leads to the same address"));
        }
        let engines = core.ask(|node| node.engines(link));
        if let Some((ids, authentication)) = engines {
            let expected = key.as_deref().map(SegmentKey::policy);
            if authentication != expected.unwrap_or_default() {
                let what =
                    "its key is of another kind than when the node read its file (dhow reload)";
                return Err(io::Error::other(what));
            }
            if ports.engines.borrow().holder(way.to, ids).is_some() {
                return Err(engine_in_use());
            }
        }
        let ends = Ends {
            own: port.socket.local(),
            peer: way.to,
        };
        let stream = core.open_stream(Purpose::Dialled { link }, Some(ends));
        match engines {
            Some((ids, _)) => {
                let authentication = key.as_ref().map(SegmentKey::authentication);
                let mut engines = ports.engines.borrow_mut();
                if !engines.join(way.to, ids, stream, authentication) {
                    drop(engines);
                    core.close_stream(stream);
                    return Err(engine_in_use());
                }
            }
            None => ports.peers.borrow_mut().join(way.to, stream),
        }
        let mut conversation = Self {
            core,
            ports,
            port,
            link,
            stream,
            to: way.to,
            carried,
            mtu_octets: None,
            outgoing: Outgoing::default(),
            key,
        };
        conversation.narrow(way);
        Ok(conversation)
    }

    /// Goes on until the node wants its end. The way is looked at when the network changes, and `every` so often.
    pub async fn last(mut self, carriers: Rc<Carriers>, every: Duration) {
        let mut is_end = false;
        while !is_end {
            let sent = tokio::select! {
                wishes = wishes(&self.core, self.stream) => match self::is_end(wishes) {
                    true => Sent::Ended,
                    false => self.send_all().await,
                },
                () = carriers.changed(every) => self.look(),
            };
            match sent {
                Sent::Whole => {}
                Sent::Ended => is_end = true,
                Sent::NoWay => self.lose(&carriers, every),
            }
        }
        self.ports.peers.borrow_mut().part(self.to, self.stream);
        self.ports.engines.borrow_mut().part(self.to, self.stream);
        self.core.close_stream(self.stream);
        self.ports.parted.notify_waiters();
    }

    /// Whether the way is as it was when the conversation began.
    fn look(&mut self) -> Sent {
        if is_missing(self.to) {
            return Sent::NoWay;
        }
        let Ok(way) = Path::find(self.to) else {
            return Sent::Whole;
        };
        self.narrow(way);
        match self.ports.at(way, self.carried) {
            Ok(port) if !Rc::ptr_eq(&port, &self.port) => Sent::Ended,
            _ => Sent::Whole,
        }
    }

    /// Tells the node that nothing leads to the peer: it ends the conversation, and bundles that have not left wait.
    fn lose(&mut self, carriers: &Rc<Carriers>, every: Duration) {
        self.outgoing.clear();
        let (core, link, to) = (self.core.clone(), self.link, self.to);
        self.ports.peers.borrow_mut().await_way(link, to);
        let tell = move |carrier| core.handle(Event::CarrierChanged { link, carrier });
        carriers.lose(link, every, move || is_missing(to), tell);
    }

    /// Sends until the node has no more.
    async fn send_all(&mut self) -> Sent {
        loop {
            for _ in 0..BATCHES_PER_TURN {
                let cutting = self.port.socket.cutting();
                let (core, stream, key) = (&self.core, self.stream, self.key.as_deref());
                if !self.outgoing.refill(core, stream, cutting, key) {
                    // The disk failed: the node has what has not left again, and begins anew.
                    return Sent::Ended;
                }
                if self.outgoing.is_empty() {
                    return Sent::Whole;
                }
                let (sent, left) = self.send().await;
                if left > 0 {
                    let (stream, datagrams) = (self.stream, left);
                    self.core.handle(Event::Left { stream, datagrams });
                }
                if sent != Sent::Whole {
                    return sent;
                }
            }
            rest().await;
        }
    }

    /// Sends a batch; how it ended and how many datagrams have left comes back.
    async fn send(&mut self) -> (Sent, u64) {
        let mut left = 0;
        while let Some(next) = self.outgoing.bursts().first() {
            let (is_cut, size) = (next.cut().is_some(), next.size());
            let between = self.ports.engines.borrow().addresses(self.to, self.stream);
            let error = match self.port.socket.send(between, &self.outgoing) {
                Ok(bursts) => {
                    let datagrams = self.outgoing.advance(bursts);
                    self.core.count(|it| it.datagrams_out += datagrams);
                    left += datagrams;
                    continue;
                }
                Err(error) => error,
            };
            match Refusal::of(&error) {
                Refusal::Interrupted => {}
                Refusal::NoRoom => {
                    tokio::select! {
                        () = end(&self.core, self.stream) => return (Sent::Ended, left),
                        _ = self.port.socket.writable() => {}
                    }
                }
                Refusal::NoWay => return (Sent::NoWay, left),
                Refusal::Uncut if is_cut => {
                    tracing::debug!("the system does not cut datagrams: {error}");
                    self.port.socket.cut_no_more();
                    self.outgoing.part();
                }
                Refusal::TooLong if is_cut => self.outgoing.part(),
                refusal => {
                    tracing::debug!(to = %self.to, size, "a datagram was refused: {error}");
                    let datagrams = self.outgoing.advance(1);
                    self.core.count(|it| it.datagrams_refused += datagrams);
                    left += datagrams;
                    if refusal == Refusal::TooLong
                        && let Ok(way) = Path::find(self.to)
                    {
                        self.narrow(way);
                    }
                }
            }
        }
        (Sent::Whole, left)
    }

    /// Tells the node how long the datagrams are that a way takes, where that is news.
    fn narrow(&mut self, way: Path) {
        if let Some(octets) = way.mtu_octets
            && self.mtu_octets.replace(octets) != Some(octets)
        {
            let stream = self.stream;
            self.core.handle(Event::Narrowed { stream, octets });
        }
    }
}
