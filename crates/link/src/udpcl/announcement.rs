//! The peer's announcements (draft 3.7).

use alloc::collections::VecDeque;
use core::time::Duration;

use dhow_bundle::{Instant, NodeId};

use super::config::Peer;
use super::fault::{Fault, Faults};
use super::wire::Extensions;
use crate::datagram::DatagramEvent;

/// Time between two changes that are heeded: a flood of announcements makes no flood of events. A change that comes
/// earlier is heeded when it is repeated.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);

/// Draft 3.5.3: a peer listens no more after three intervals without Sender Listen.
const INTERVALS_MISSED: u32 = 3;

/// The peer's newest announcement.
#[derive(Debug)]
pub(super) struct PeerState {
    peer: Peer,
    is_up: bool,
    node_id: Option<NodeId>,
    listens: Option<Duration>,
    /// The peer listens until then, unless it says so again.
    until: Option<Instant>,
    /// No change before this is heeded.
    next_change: Instant,
}

impl PeerState {
    pub(super) fn new(peer: Peer, events: &mut VecDeque<DatagramEvent>) -> Self {
        let mut state = Self {
            peer,
            is_up: false,
            node_id: None,
            listens: None,
            until: None,
            next_change: Instant::START,
        };
        if let Peer::Known(peer) = &state.peer {
            events.push_back(DatagramEvent::Up { peer: peer.clone() });
            state.is_up = true;
        }
        state
    }

    /// A map with or without items of an announcement came.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        extensions: &Extensions,
        faults: &mut Faults,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        let said = extensions.node_id.as_ref();
        if matches!((&self.peer, said), (Peer::Known(peer), Some(said)) if peer != said) {
            faults.count(Fault::AnotherNode);
        }
        let is_same = said.is_none_or(|said| self.node_id.as_ref() == Some(said))
            && extensions
                .listens
                .is_none_or(|listens| self.listens == Some(listens));
        if !is_same && now >= self.next_change {
            self.next_change = now + CHANGE_INTERVAL;
            self.node_id = said.or(self.node_id.as_ref()).cloned();
            self.listens = extensions.listens.or(self.listens);
            if let (Peer::Announced, false, Some(peer)) = (&self.peer, self.is_up, said) {
                self.is_up = true;
                events.push_back(DatagramEvent::Up { peer: peer.clone() });
            }
            self.tell(events);
        }
        if let (Some(_), Some(listens)) = (extensions.listens, self.listens) {
            self.until = Some(now + listens.saturating_mul(INTERVALS_MISSED));
        }
    }

    /// When the peer is taken to listen no more.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Look whether the peer has been silent for too long.
    pub(super) fn expire(&mut self, now: Instant, events: &mut VecDeque<DatagramEvent>) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.listens = None;
            self.tell(events);
        }
    }

    /// Time passed in which the peer could not be heard, from `since` on.
    pub(super) fn shift(&mut self, since: Instant, now: Instant) {
        let heard = |until: Instant| until + now.since(since);
        self.until = self.until.map(heard);
    }

    fn tell(&self, events: &mut VecDeque<DatagramEvent>) {
        events.push_back(DatagramEvent::Announced {
            node_id: self.node_id.clone(),
            listens: self.listens,
        });
    }
}
