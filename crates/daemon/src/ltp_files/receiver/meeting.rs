//! Engines that a receiver has not heard before, and the room for them.

use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::DatagramEvent;
use dhow_link::ltp::{Config, Engine};
use dhow_link::stream::RefuseReason;
use dhow_link::{DatagramLink as _, LinkCommand};

use super::super::peer::{Incoming, Peer, PeerId};
use super::super::share::{Place, making_room, under_way};
use super::{Lost, Reception, Told};
use crate::datagrams::calls::Addresses;

/// Engines that are known at a time. Others are answered, and forgotten: `share` says which of those that are known makes room.
const MAX_PEERS: usize = 64;

/// The time between two notes about strangers.
const NOTE_EVERY: Duration = Duration::from_secs(10);

impl Reception<'_> {
    /// Datagrams of an engine came.
    pub(super) fn handle(&mut self, id: PeerId, came: Addresses, datagrams: &[Bytes], now: Now) {
        let between = Addresses {
            peer: self.settings.reply.unwrap_or(came.peer),
            ..came
        };
        let key = self.config.authentication.as_ref();
        let is_authentic = |datagram| key.is_none_or(|key| key.accepts_all(datagram));
        let Some(peer) = self.peers.get_mut(&id) else {
            let is_named = self.settings.from.is_empty() || self.settings.from.contains(&id.engine);
            if !is_named || self.ending.is_some() {
                return;
            }
            let is_heard = datagrams.iter().any(is_authentic);
            return match is_heard {
                true => self.meet(id, between, datagrams, now),
                false => self.unheard.count(id, datagrams.len()),
            };
        };
        // With a key, nobody else says where an engine is, and what it sends to.
        let neighbour = &mut peer.neighbour;
        let is_known = (between.own, between.peer) == (neighbour.own, neighbour.to);
        if is_known || datagrams.iter().any(is_authentic) {
            (neighbour.own, neighbour.to) = (between.own, between.peer);
            neighbour.heard = now.monotonic;
        }
        peer.neighbour.engine.handle_datagrams(now, datagrams);
        self.take_events(id, now.monotonic);
    }

    /// Datagrams of an engine came that is not known. It gets a place if a block comes from it, and an answer in any case: to a segment for another
    /// client service, or to a cancellation, the answer is all there is to say.
    fn meet(&mut self, id: PeerId, between: Addresses, datagrams: &[Bytes], now: Now) {
        let config = Config {
            remote_engine: id.engine,
            ..self.config.clone()
        };
        // Session numbers are the sender's; of the seed follow first serial numbers.
        let seed = self.settings.seed ^ now.monotonic.as_nanos() ^ id.engine.rotate_left(32);
        let engine = Engine::new(config, seed, now);
        let mut peer = Peer::new(engine, between, now.monotonic);
        peer.neighbour.engine.handle_datagrams(now, datagrams);
        let receives = peer.neighbour.engine.receives();
        if receives && self.make_room_for_engine(id, now.monotonic) {
            self.peers.insert(id, peer);
            return self.take_events(id, now.monotonic);
        }
        while let Some(event) = peer.neighbour.engine.poll_event() {
            match event {
                DatagramEvent::Piece { transfer, .. } => {
                    let reason = RefuseReason::NoResources;
                    let refuse = LinkCommand::Refuse { transfer, reason };
                    peer.neighbour.engine.handle_command(now, refuse);
                }
                DatagramEvent::Fault { rule, .. } => {
                    let PeerId { host, engine } = id;
                    self.note_once_a_while(now.monotonic, || {
                        format!("engine {engine} at {host}: {rule}")
                    });
                }
                _ => {}
            }
        }
        // An answer that gets lost is made again when the segment comes again.
        peer.answer(&self.socket, &self.clock, self.settings.key.as_deref());
    }

    /// Whether there is a place for an engine, or one is made.
    fn make_room_for_engine(&mut self, id: PeerId, now: Instant) -> bool {
        if self.peers.len() < MAX_PEERS {
            return true;
        }
        let places: Vec<_> = self
            .peers
            .iter()
            .map(|(id, peer)| Place {
                of: *id,
                host: id.host,
                octets: under_way(
                    peer.files.values().map(|it| it.octets),
                    peer.neighbour.engine.receives(),
                ),
                heard: peer.neighbour.heard,
            })
            .collect();
        let Some(last) = making_room(&places, id.host) else {
            self.note_once_a_while(now, || {
                let PeerId { host, engine } = id;
                format!("engine {engine} at {host} is refused: {MAX_PEERS} others send, of hosts that have no more places than its own")
            });
            return false;
        };
        let transfers = self.peers.get(&last).map(|peer| peer.files.keys().copied());
        let files: Vec<_> = transfers.into_iter().flatten().collect();
        for transfer in files {
            let of = Incoming {
                peer: last,
                transfer,
            };
            self.fail(of, Lost::Crowded);
        }
        if let Some(mut peer) = self.peers.remove(&last) {
            peer.answer(&self.socket, &self.clock, self.settings.key.as_deref());
        }
        true
    }

    /// Whether a place is made for a file of a host, where there is none.
    pub(super) fn make_room_for_file(&mut self, host: std::net::IpAddr) -> bool {
        let mut places = Vec::new();
        for (id, peer) in &self.peers {
            let coming = peer.files.iter().filter(|(_, it)| it.file.is_some());
            places.extend(coming.map(|(transfer, it)| Place {
                of: Incoming {
                    peer: *id,
                    transfer: *transfer,
                },
                host: id.host,
                octets: Some(it.octets),
                heard: it.began,
            }));
        }
        let Some(of) = making_room(&places, host) else {
            return false;
        };
        self.fail(of, Lost::Crowded);
        true
    }

    /// Says something that strangers can bring about as often as they like.
    fn note_once_a_while(&mut self, now: Instant, what: impl FnOnce() -> String) {
        let is_due = |at: Instant| now.since(at) >= NOTE_EVERY;
        if self.noted.is_none_or(is_due) {
            self.noted = Some(now);
            self.watch.hear(Told::Note(what()));
        }
    }
}
