//! Neighbours that no route names: no host of theirs keeps all others out.

use std::collections::BTreeMap;

use dhow_bundle::Now;
use dhow_link::stream::RefuseReason;

use super::super::peer::{Incoming, PeerId};
use super::super::share::{Place, making_room, under_way};
use super::What;
use super::block::Block;
use super::station::Station;

/// Neighbours that no route names and that are known at a time.
const MAX_STRANGERS: usize = 64;

impl Station<'_> {
    /// Whether there is a place for a neighbour that no route names, or one is made.
    pub(super) fn make_room_for_stranger(&mut self, id: PeerId, now: Now) -> bool {
        let strangers = self.neighbours.values().filter(|it| !it.is_fixed);
        if strangers.count() < MAX_STRANGERS {
            return true;
        }
        // Octets of blocks that come.
        let mut coming: BTreeMap<PeerId, Vec<u64>> = BTreeMap::new();
        for (of, octets) in self.blocks.values().filter_map(coming_of) {
            coming.entry(of.peer).or_default().push(octets);
        }
        let mut places = Vec::new();
        for (id, it) in self.neighbours.iter().filter(|(_, it)| !it.is_fixed) {
            let octets = coming.remove(id).unwrap_or_default();
            // A neighbour of which a block is durable here, or to which one leaves, stays.
            if it.blocks == octets.len() {
                places.push(Place {
                    of: *id,
                    host: id.host,
                    octets: under_way(octets.into_iter(), it.engine.receives()),
                    heard: it.heard,
                });
            }
        }
        let Some(last) = making_room(&places, id.host) else {
            self.note_once_a_while(now, || {
                let PeerId { host, engine } = id;
                format!("engine {engine} at {host} is not heard: {MAX_STRANGERS} others that no route names are, of hosts that have no more places than its own")
            });
            return false;
        };
        let is_of_last = |block: &Block| coming_of(block).is_some_and(|(of, _)| of.peer == last);
        let blocks = self.blocks.iter().filter(|(_, block)| is_of_last(block));
        let numbers: Vec<_> = blocks.map(|(number, _)| *number).collect();
        for number in numbers {
            self.crowd_out(number);
        }
        if let Some(mut neighbour) = self.neighbours.remove(&last) {
            let way = (&self.socket, &self.clock);
            let pace = self.settings.way.pace();
            let key = self.settings.key.as_deref();
            // The cancellations are all that is left to say.
            neighbour.next = now.monotonic;
            // Nothing of files that cannot be read is left to say, either.
            neighbour.send(way, &mut self.leaving, key, pace, &mut Vec::new());
        }
        true
    }

    /// Whether a block of a stranger makes room for one of another host.
    pub(super) fn make_room_for_block(&mut self, newcomer: Incoming) -> bool {
        let mut places = Vec::new();
        for (number, block) in &self.blocks {
            let of = coming_of(block);
            let of =
                of.filter(|(of, _)| self.neighbours.get(&of.peer).is_some_and(|it| !it.is_fixed));
            if let Some((of, octets)) = of {
                places.push(Place {
                    of: *number,
                    host: of.peer.host,
                    octets: Some(octets),
                    heard: block.began,
                });
            }
        }
        let Some(number) = making_room(&places, newcomer.peer.host) else {
            return false;
        };
        self.crowd_out(number);
        true
    }

    fn crowd_out(&mut self, number: u64) {
        self.tell(number, What::Refused);
        self.stop(number, RefuseReason::NoResources);
    }
}

/// The transfer of a block that is still coming, and the octets that came.
fn coming_of(block: &Block) -> Option<(Incoming, u64)> {
    let (of, _) = block.inward?;
    block.file.as_ref()?;
    Some((of, block.came.octets()))
}
