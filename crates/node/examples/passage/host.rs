//! A node, its store, and whether what it executes is counted.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{Piece, StoreCommand};
use dhow_bundle::{DtnTime, Now};
use dhow_link::Gather;
use dhow_node::Node;
use dhow_node::config::Config;
use dhow_node::driver::{Action, Event, StreamId, Telling};

use crate::counted::{counted_handle, counted_poll, counted_poll_octets};
use crate::store::StoreInMemory;

/// Octets polled of a stream at a time, as the daemon does.
const GATHER_OCTETS: usize = 1 << 20;

/// Whether a host's instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    On,
    Off,
}

pub struct Host {
    pub node: Node,
    pub counting: Counting,
    store: StoreInMemory,
    commands: Vec<StoreCommand>,
    /// Streams that have octets to poll.
    pub to_flush: BTreeSet<StreamId>,
    /// Times that the link is to be dialled.
    pub dials: usize,
}

impl Host {
    /// A node that has found its store empty.
    pub fn new(config: Config, now: Now) -> Self {
        let mut host = Self {
            node: Node::new(config).with_telling(Telling::Exceptions),
            counting: Counting::Off,
            store: StoreInMemory::default(),
            commands: Vec::new(),
            to_flush: BTreeSet::new(),
            dials: 0,
        };
        host.handle(
            now,
            Event::Opened {
                reserved_time: DtnTime::UNKNOWN,
                reserved_sequence: 0,
                removed: Vec::new(),
            },
        );
        host
    }

    /// Something happened; what the node asks for is done or noted.
    pub fn handle(&mut self, now: Now, event: Event) {
        self.tell(now, event);
        self.pump(now);
    }

    /// Makes durable what was handed to the store; false when there was nothing.
    pub fn sync(&mut self, now: Now) -> bool {
        if self.commands.is_empty() {
            return false;
        }
        for event in self.store.sync(&mut self.commands) {
            self.tell(now, Event::Store(event));
        }
        self.pump(now);
        true
    }

    /// All that a stream has to write now, as one piece.
    pub fn flush(&mut self, now: Now, stream: StreamId) -> Bytes {
        let mut octets = BytesMut::new();
        loop {
            let mut out = Gather::new();
            match self.counting {
                Counting::On => {
                    counted_poll_octets(&mut self.node, now, stream, GATHER_OCTETS, &mut out)
                }
                Counting::Off => self.node.poll_octets(now, stream, GATHER_OCTETS, &mut out),
            }
            if out.is_empty() {
                break;
            }
            for piece in out.pieces() {
                match piece {
                    Piece::Octets(piece) => octets.extend_from_slice(piece),
                    Piece::Extent(extent) => octets.extend_from_slice(&self.store.read(&[*extent])),
                }
            }
            self.pump(now);
        }
        octets.freeze()
    }

    fn tell(&mut self, now: Now, event: Event) {
        match self.counting {
            Counting::On => counted_handle(&mut self.node, now, event),
            Counting::Off => self.node.handle(now, event),
        }
    }

    fn poll(&mut self, now: Now) -> Option<Action> {
        match self.counting {
            Counting::On => counted_poll(&mut self.node, now),
            Counting::Off => self.node.poll(now),
        }
    }

    fn pump(&mut self, now: Now) {
        loop {
            let mut reads = Vec::new();
            while let Some(action) = self.poll(now) {
                match action {
                    Action::Store(command) => self.commands.push(command),
                    Action::Read { ticket, extents } => reads.push((ticket, extents)),
                    Action::Dial { .. } => self.dials += 1,
                    Action::Flush { stream } => {
                        self.to_flush.insert(stream);
                    }
                    Action::Answer { outcome, .. } => {
                        outcome.expect("the operator knows what it asks")
                    }
                    Action::Occurred(_) => {}
                    other => panic!("unexpected {other:?}"),
                }
            }
            if reads.is_empty() {
                return;
            }
            for (ticket, extents) in reads {
                let octets = Some(self.store.read(&extents));
                self.tell(now, Event::Read { ticket, octets });
            }
        }
    }
}
