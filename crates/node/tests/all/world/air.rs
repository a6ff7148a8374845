//! The carrier of datagrams between nodes, which may lose, double and delay them.

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::Piece;
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_node::config::{LinkId, ListenerId, Protocol};
use dhow_node::driver::{Event, Purpose, StreamId};

use super::World;

#[derive(Default)]
pub struct Air {
    conversations: Vec<Conversation>,
    under_way: Vec<Datagram>,
    /// Lost datagrams of a thousand.
    pub lost: u64,
    /// Datagrams of fewer octets are lost.
    pub least: usize,
    /// Datagrams of a thousand that come twice.
    pub doubled: u64,
    /// Whether datagrams come in any order.
    pub shuffled: bool,
    /// Datagrams that have left.
    pub sent: u64,
    /// Octets of the longest datagram that left.
    pub longest: usize,
}

#[derive(Clone, Copy)]
struct Conversation {
    at: usize,
    stream: StreamId,
    to: usize,
}

#[derive(Clone)]
struct Datagram {
    from: usize,
    to: usize,
    octets: Bytes,
}

impl Air {
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub fn has(&self, at: usize, stream: StreamId) -> bool {
        self.conversations
            .iter()
            .any(|it| (it.at, it.stream) == (at, stream))
    }

    /// A datagram is under way.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn inject(&mut self, from: usize, to: usize, octets: Bytes) {
        self.under_way.push(Datagram { from, to, octets });
    }

    /// All that is under way is lost.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn lose_all(&mut self) {
        self.under_way.clear();
    }

    /// A node's conversation is over, or all of them.
    pub fn forget(&mut self, at: usize, stream: Option<StreamId>) {
        self.conversations
            .retain(|it| it.at != at || stream.is_some_and(|stream| it.stream != stream));
    }
}

impl World {
    /// Give a node datagrams of another at once.
    pub fn hear_at_once(&mut self, from: usize, to: usize, datagrams: Vec<Bytes>) {
        let mut conversations = self.air.conversations.iter();
        let found = conversations.find(|it| (it.at, it.to) == (to, from));
        let Conversation { at, stream, .. } = *found.expect("they converse");
        self.handle(at, Event::Datagrams { stream, datagrams });
    }

    pub(super) fn speaks_datagrams(&self, at: usize, link: LinkId) -> bool {
        let link = self.machines[at]
            .config
            .links
            .get(usize::try_from(link.0).unwrap());
        // One that was added is of TCPCL.
        link.is_some_and(|link| matches!(link.protocol, Protocol::Udp(_) | Protocol::Ltp(_)))
    }

    pub(super) fn converse(&mut self, at: usize, link: LinkId, to: usize) {
        let stream = self.stream();
        self.air.conversations.push(Conversation { at, stream, to });
        let purpose = Purpose::Dialled { link };
        self.handle(at, Event::Connected { stream, purpose });
    }

    /// A node takes what comes from another as from a stranger.
    pub fn hear(&mut self, at: usize, from: usize) -> StreamId {
        let (stream, to) = (self.stream(), from);
        self.air.conversations.push(Conversation { at, stream, to });
        let listener = ListenerId(0);
        let purpose = Purpose::Heard { listener };
        self.handle(at, Event::Connected { stream, purpose });
        stream
    }

    pub(super) fn send_datagrams(&mut self, at: usize, stream: StreamId) {
        let now = self.now(at);
        let limit = Limit {
            datagrams: 16,
            octets: 65_507,
        };
        loop {
            let found = self.air.conversations.iter();
            let found = found.copied().find(|it| (it.at, it.stream) == (at, stream));
            let (Some(conversation), Some(node)) = (found, self.machines[at].node.as_mut()) else {
                return;
            };
            let mut out = Batch::new();
            node.poll_datagrams(now, stream, limit, &mut out);
            if out.is_empty() {
                return;
            }
            let datagrams = u64::try_from(out.len()).unwrap();
            self.air.sent += datagrams;
            for pieces in out.datagrams() {
                let mut octets = BytesMut::new();
                for piece in pieces {
                    match piece {
                        Piece::Octets(piece) => octets.extend_from_slice(piece),
                        Piece::Extent(extent) => {
                            octets.extend_from_slice(&self.machines[at].store.read(&[*extent]));
                        }
                    }
                }
                self.air.longest = self.air.longest.max(octets.len());
                let datagram = Datagram {
                    from: at,
                    to: conversation.to,
                    octets: octets.freeze(),
                };
                if self.random(1_000) < self.air.doubled {
                    self.air.under_way.push(datagram.clone());
                }
                let is_lost = datagram.octets.len() < self.air.least;
                if self.random(1_000) >= self.air.lost && !is_lost {
                    self.air.under_way.push(datagram);
                }
            }
            if let Some(node) = self.machines[at].node.as_mut() {
                node.handle(now, Event::Left { stream, datagrams });
            }
            self.check(at);
        }
    }

    /// One datagram arrives, or vanishes where nobody has a conversation with its sender; false when there is none.
    pub(super) fn carry_datagrams(&mut self) -> bool {
        if self.air.is_empty() {
            return false;
        }
        let count = u64::try_from(self.air.under_way.len()).unwrap();
        let which = if self.air.shuffled {
            self.random(count.min(50))
        } else {
            0
        };
        let datagram = self.air.under_way.remove(usize::try_from(which).unwrap());
        let to = self.air.conversations.iter();
        let to = to
            .copied()
            .find(|it| (it.at, it.to) == (datagram.to, datagram.from));
        if let Some(Conversation { at, stream, .. }) = to {
            let datagrams = vec![datagram.octets];
            self.handle(at, Event::Datagrams { stream, datagrams });
        }
        true
    }
}
