//! The peers of links, and strangers, by their addresses.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::config::{LinkId, ListenerId};
use dhow_node::driver::StreamId;

/// Strangers that are listened to at a time, of all listeners: the one that was not heard for the longest time gives way to another.
pub const STRANGERS_MAX: usize = 256;

/// A stranger that was not heard for so long is forgotten: no segment of a transfer comes as late (draft-ietf-dtn-udpcl-04 3.6.2).
pub const STRANGER_IDLE: Duration = Duration::from_secs(60);

/// When a stranger was last heard.
pub type Heard = Rc<Cell<Instant>>;

/// The conversations of all addresses.
#[derive(Debug, Default)]
pub struct Peers {
    links: BTreeMap<SocketAddr, StreamId>,
    /// The address of each link to which no way led when somebody looked.
    awaited: BTreeMap<LinkId, SocketAddr>,
    strangers: BTreeMap<(ListenerId, SocketAddr), (StreamId, Heard)>,
}

impl Peers {
    /// The conversation of the link that leads to an address.
    #[must_use]
    pub fn link(&self, address: SocketAddr) -> Option<StreamId> {
        self.links.get(&address).copied()
    }

    /// A link has a conversation with an address.
    pub fn join(&mut self, address: SocketAddr, stream: StreamId) {
        self.links.insert(address, stream);
        self.awaited.retain(|_, it| *it != address);
    }

    /// No way leads to the address of a link: as soon as one does, it has a conversation again.
    pub fn await_way(&mut self, link: LinkId, address: SocketAddr) {
        self.awaited.insert(link, address);
    }

    /// Whether a link waits for a way to an address. It is said once, so that a forged address has nobody wait.
    pub fn awaits(&mut self, address: SocketAddr) -> bool {
        let before = self.awaited.len();
        self.awaited.retain(|_, it| *it != address);
        self.awaited.len() < before
    }

    /// A link's conversation is over.
    pub fn part(&mut self, address: SocketAddr, stream: StreamId) {
        if self.link(address) == Some(stream) {
            self.links.remove(&address);
        }
    }

    /// A stranger was heard: its conversation, if it has one.
    pub fn hear(
        &self,
        listener: ListenerId,
        address: SocketAddr,
        now: Instant,
    ) -> Option<StreamId> {
        let (stream, heard) = self.strangers.get(&(listener, address))?;
        heard.set(now);
        Some(*stream)
    }

    /// The stranger that gives way to another, where there are as many as there may be. It is forgotten here.
    pub fn make_room(&mut self) -> Option<StreamId> {
        if self.strangers.len() < STRANGERS_MAX {
            return None;
        }
        let strangers = self.strangers.iter();
        let (&place, &(stream, _)) = strangers.min_by_key(|(_, (_, heard))| heard.get())?;
        self.strangers.remove(&place);
        Some(stream)
    }

    /// A stranger has a conversation.
    pub fn enter(
        &mut self,
        listener: ListenerId,
        address: SocketAddr,
        (stream, now): (StreamId, Instant),
    ) -> Heard {
        let heard = Heard::new(Cell::new(now));
        let known = (stream, Rc::clone(&heard));
        self.strangers.insert((listener, address), known);
        heard
    }

    /// A stranger's conversation is over.
    pub fn leave(&mut self, listener: ListenerId, address: SocketAddr, stream: StreamId) {
        let place = (listener, address);
        if self
            .strangers
            .get(&place)
            .is_some_and(|(it, _)| *it == stream)
        {
            self.strangers.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn the_stranger_not_heard_for_the_longest_time_gives_way_and_the_peer_of_a_link_never_does() {
        let listener = ListenerId(0);
        let mut peers = Peers::default();
        peers.join(address(1), StreamId(9_999));
        for (number, port) in (0..).zip(10_u16..).take(STRANGERS_MAX) {
            assert_eq!(peers.make_room(), None);
            peers.enter(listener, address(port), (StreamId(number), at(number)));
        }
        assert_eq!(
            peers.hear(listener, address(10), at(9_000)),
            Some(StreamId(0))
        );
        assert_eq!(peers.make_room(), Some(StreamId(1)));
        assert_eq!(peers.make_room(), None, "there is room for one");
        assert_eq!(peers.hear(listener, address(11), at(9_001)), None);
        assert_eq!(peers.link(address(1)), Some(StreamId(9_999)));
    }

    #[test]
    fn a_link_without_a_way_is_awaited_once_and_not_while_it_has_a_conversation() {
        let mut peers = Peers::default();
        peers.await_way(LinkId(3), address(1));
        assert!(!peers.awaits(address(2)));
        assert!(peers.awaits(address(1)));
        assert!(!peers.awaits(address(1)));
        peers.await_way(LinkId(3), address(1));
        peers.join(address(1), StreamId(1));
        assert!(!peers.awaits(address(1)));
    }

    #[test]
    fn the_end_of_an_older_conversation_changes_nothing_for_the_one_that_followed() {
        let listener = ListenerId(0);
        let mut peers = Peers::default();
        peers.enter(listener, address(1), (StreamId(1), at(0)));
        peers.enter(listener, address(1), (StreamId(2), at(1)));
        peers.leave(listener, address(1), StreamId(1));
        assert_eq!(peers.hear(listener, address(1), at(2)), Some(StreamId(2)));
        assert_eq!(peers.hear(ListenerId(1), address(1), at(2)), None);
        peers.join(address(1), StreamId(3));
        peers.join(address(1), StreamId(4));
        peers.part(address(1), StreamId(3));
        assert_eq!(peers.link(address(1)), Some(StreamId(4)));
    }
}
