//! Radios that do one thing at a time: who is busy, and who waits for whom.
//!
//! Octets are written where the radios at both ends are free, and keep them busy until they have left; with [`Sharing::Reach`], also
//! those of all hosts that have a contact with the sender over that radio. An end that finds a radio busy waits for it behind all others that do.

use std::collections::{BTreeMap, VecDeque};

use dhow_bundle::Instant;
use dhow_scenario::scenario::{Channel, Sharing};

use crate::connection::Wire;
use crate::dialling::road_at;
use crate::queue::{ConnectionKey, MachineIndex, Occurrent, Queue, Side};
use crate::world::World;

/// A machine's radio, of so many.
type RadioKey = (MachineIndex, u32);

/// The radios that were ever busy or within reach of another.
#[derive(Debug, Default)]
pub(crate) struct Radios {
    known: BTreeMap<RadioKey, Radio>,
}

/// A radio.
#[derive(Debug, Default)]
struct Radio {
    /// Until when it is.
    busy: Instant,
    /// The link for which it is.
    road: u32,
    /// Ends of connections that wait until it is not, in order.
    waiting: VecDeque<(ConnectionKey, Side)>,
    /// A `RadioFree` is on its way.
    is_called: bool,
    /// The machines with which it has a contact.
    near: Vec<MachineIndex>,
}

impl Radios {
    /// Whether a radio at either end of a link is busy.
    pub(crate) fn are_busy(&self, road: &Wire, now: Instant) -> bool {
        let is_busy = |at, radio| {
            let found = self.known.get(&(at, radio));
            found.is_some_and(|it: &Radio| it.busy > now)
        };
        road.channel.is_some_and(|Channel { radio, .. }| {
            is_busy(road.ends.0, radio) || is_busy(road.ends.1, radio)
        })
    }

    /// One end of a connection waits for that radio of its link which is busy longest, and is called when it is free.
    pub(crate) fn wait(&mut self, road: &Wire, waiting: (ConnectionKey, Side), queue: &mut Queue) {
        let Some(Channel { radio, .. }) = road.channel else {
            return;
        };
        let ends = [road.ends.0, road.ends.1].map(|end| (end, radio));
        let until = |key: &RadioKey| self.known.get(key).map(|it| it.busy);
        let key = ends.into_iter().max_by_key(until);
        if let Some(key) = key
            && let Some(radio) = self.known.get_mut(&key)
        {
            radio.waiting.push_back(waiting);
            radio.call(key, queue);
        }
    }

    /// One end of a link sends, which keeps radios busy until an instant.
    pub(crate) fn occupy(&mut self, (number, road): (u32, &Wire), from: Side, until: Instant) {
        let Some(Channel { radio, sharing }) = road.channel else {
            return;
        };
        let mut busy = vec![road.ends.0, road.ends.1];
        if sharing == Sharing::Reach {
            let near = self.known.get(&(road.machine(from), radio));
            busy.extend(near.iter().flat_map(|it| &it.near));
        }
        for at in busy {
            let it = self.known.entry((at, radio)).or_default();
            if until > it.busy {
                (it.busy, it.road) = (until, number);
            }
        }
    }

    /// A contact of a link begins.
    pub(crate) fn handle_contact(&mut self, road: &Wire) {
        let Some(Channel { radio, .. }) = road.channel else {
            return;
        };
        for (at, other) in [road.ends, (road.ends.1, road.ends.0)] {
            self.known.entry((at, radio)).or_default().near.push(other);
        }
    }

    /// A contact of a link ends, and with it what keeps radios busy for it.
    pub(crate) fn handle_contact_end(
        &mut self,
        (number, road): (u32, &Wire),
        now: Instant,
        queue: &mut Queue,
    ) {
        let Some(Channel { radio, .. }) = road.channel else {
            return;
        };
        let mut freed = Vec::new();
        for (at, other) in [road.ends, (road.ends.1, road.ends.0)] {
            let it = self.known.entry((at, radio)).or_default();
            freed.push(at);
            freed.extend(&it.near);
            it.near.retain(|near| *near != other);
        }
        for key in freed.into_iter().map(|at| (at, radio)) {
            let Some(it) = self.known.get_mut(&key) else {
                continue;
            };
            if it.road == number && it.busy > now {
                it.busy = now;
                if !it.waiting.is_empty() {
                    queue.push(now, Occurrent::RadioFree(key.0, radio));
                }
            }
        }
    }

    /// The next that waits for a radio, where that is free.
    fn next(&mut self, key: RadioKey, now: Instant) -> Option<(ConnectionKey, Side)> {
        let radio = self.known.get_mut(&key).filter(|it| it.busy <= now)?;
        radio.waiting.pop_front()
    }
}

impl Radio {
    /// Ends that wait are called when it is free.
    fn call(&mut self, (at, number): RadioKey, queue: &mut Queue) {
        if !self.waiting.is_empty() && !std::mem::replace(&mut self.is_called, true) {
            queue.push(self.busy, Occurrent::RadioFree(at, number));
        }
    }
}

impl World {
    /// A radio may be free: whoever waits for it writes, until it is busy again.
    pub(crate) fn radio_free(&mut self, at: MachineIndex, number: u32) {
        let (key, now) = ((at, number), self.now);
        let Some(radio) = self.radios.known.get_mut(&key) else {
            return;
        };
        radio.is_called = false;
        for _ in 0..radio.waiting.len() {
            let Some((connection, side)) = self.radios.next(key, now) else {
                break;
            };
            self.writable(connection, side);
        }
        if let Some(radio) = self.radios.known.get_mut(&key) {
            radio.call(key, &mut self.queue);
        }
    }

    /// The radios at the ends of a link learn that a contact of it begins.
    pub(crate) fn join_radios(&mut self, number: u32) {
        if let Some(road) = self.roads.get(road_at(number)) {
            self.radios.handle_contact(road);
        }
    }

    /// They learn that it ends.
    pub(crate) fn part_radios(&mut self, number: u32) {
        if let Some(road) = self.roads.get(road_at(number)) {
            let queue = &mut self.queue;
            self.radios
                .handle_contact_end((number, road), self.now, queue);
        }
    }
}
