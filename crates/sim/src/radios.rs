//! Radios that do one thing at a time: the busy ones, and the ends that wait for them.
//!
//! Octets are written where the radios at both ends are free, and keep them busy until they have left; with [`Sharing::Reach`], also
//! those of all hosts that have a contact with the sender over that radio. An end that finds a radio busy waits for it behind all others that do.
//!
//! With [`Sharing::Ends`] an end that is within a bundle holds both radios: other bundles wait until that one has left, or its contact has ended. Between two
//! of its turns go messages and bundles that take no more than one turn.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_node::view::Unwritten;
use dhow_scenario::scenario::{Channel, Sharing};

use crate::connection::Wire;
use crate::dialling::road_at;
use crate::queue::{ConnectionKey, MachineIndex, Occurrent, Queue, Side};
use crate::world::World;

/// The time after which it is looked again whether a bundle still holds a radio that is not busy.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A machine's radio, of so many.
type RadioKey = (MachineIndex, u32);

/// One end of a connection.
type End = (ConnectionKey, Side);

/// An end that is within a bundle, and the link of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    end: End,
    road: u32,
}

/// The radios that were ever busy or within reach of another.
#[derive(Debug, Default)]
pub(crate) struct Radios {
    known: BTreeMap<RadioKey, Radio>,
}

/// A radio.
#[derive(Debug, Default)]
struct Radio {
    /// The links for which the radio is busy, and until when.
    busy: Vec<(u32, Instant)>,
    /// The end whose bundle is under way, as far as is known.
    held: Option<Hold>,
    /// Ends of connections that wait until it is not, in order.
    waiting: VecDeque<End>,
    /// Whether a `RadioFree` is on its way.
    is_called: bool,
    /// The machines with which it has a contact.
    near: Vec<MachineIndex>,
}

impl Radios {
    /// Whether a radio at either end of a link is busy.
    pub(crate) fn are_busy(&self, road: &Wire, now: Instant) -> bool {
        let is_busy = |at, radio| {
            let found = self.known.get(&(at, radio));
            found.is_some_and(|it: &Radio| it.busy_until() > now)
        };
        road.channel.is_some_and(|Channel { radio, .. }| {
            is_busy(road.ends.0, radio) || is_busy(road.ends.1, radio)
        })
    }

    /// One end of a connection waits for that radio of its link which is busy longest, or else is held, and is called when it may be free.
    pub(crate) fn wait(&mut self, road: &Wire, waiting: End, now: Instant, queue: &mut Queue) {
        let until = |key: &RadioKey| {
            let it = self.known.get(key)?;
            let is_held = it.held.is_some_and(|hold| hold.end != waiting);
            let busy = it.busy_until();
            Some(((busy > now).then_some(busy), is_held))
        };
        let key = keys(road).max_by_key(until);
        if let Some(key) = key
            && let Some(radio) = self.known.get_mut(&key)
        {
            radio.waiting.push_back(waiting);
            radio.call(key, now, queue);
        }
    }

    /// The ends whose bundles hold the radios of a link, as far as is known.
    fn holders(&self, road: &Wire) -> impl Iterator<Item = End> {
        let held = keys(road).filter_map(|key| self.known.get(&key)?.held);
        held.map(|hold| hold.end)
    }

    /// An end holds the radios of its link, being within a bundle, or holds them no more.
    fn set_held(&mut self, (number, road): (u32, &Wire), end: End, is_held: bool) {
        for key in keys(road) {
            let radio = self.known.entry(key).or_default();
            if is_held {
                radio.held = Some(Hold { end, road: number });
            } else if radio.held.is_some_and(|hold| hold.end == end) {
                radio.held = None;
            }
        }
    }

    /// One end of a link sends, which keeps radios busy until an instant.
    pub(crate) fn occupy(
        &mut self,
        (number, road): (u32, &Wire),
        from: Side,
        (now, until): (Instant, Instant),
    ) {
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
            it.busy.retain(|(_, until)| *until > now);
            it.busy.push((number, until));
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
            let is_held = it.held.is_some_and(|hold| hold.road == number);
            if is_held {
                it.held = None;
            }
            let before = it.busy_until();
            it.busy.retain(|(road, _)| *road != number);
            let is_busy = before > now && it.busy_until() < before;
            if (is_busy || is_held) && !it.waiting.is_empty() {
                queue.push(now, Occurrent::RadioFree(key.0, radio));
            }
        }
    }

    /// The next that waits for a radio, where that is free.
    fn next(&mut self, key: RadioKey, now: Instant) -> Option<(ConnectionKey, Side)> {
        let radio = self
            .known
            .get_mut(&key)
            .filter(|it| it.busy_until() <= now)?;
        radio.waiting.pop_front()
    }
}

impl Radio {
    /// The time until which it is busy.
    fn busy_until(&self) -> Instant {
        let times = self.busy.iter().map(|(_, until)| *until);
        times.max().unwrap_or(Instant::START)
    }

    /// Ends that wait are called when it may be free.
    fn call(&mut self, (at, number): RadioKey, now: Instant, queue: &mut Queue) {
        if !self.waiting.is_empty() && !std::mem::replace(&mut self.is_called, true) {
            let busy = self.busy_until();
            let free = match busy > now {
                true => busy,
                false => now + LOOK_AGAIN,
            };
            queue.push(free, Occurrent::RadioFree(at, number));
        }
    }
}

/// The radios at both ends of a link, where it has such.
fn keys(road: &Wire) -> impl Iterator<Item = RadioKey> + use<> {
    let radio = road.channel.map(|channel| channel.radio);
    let ends = [road.ends.0, road.ends.1].into_iter();
    ends.filter_map(move |end| Some((end, radio?)))
}

impl World {
    /// A radio may be free: ends that wait for it write, until it is busy again.
    pub(crate) fn radio_free(&mut self, at: MachineIndex, number: u32) {
        let (key, now) = ((at, number), self.now);
        let Some(radio) = self.radios.known.get_mut(&key) else {
            return;
        };
        radio.is_called = true;
        for _ in 0..radio.waiting.len() {
            let Some((connection, side)) = self.radios.next(key, now) else {
                break;
            };
            self.writable(connection, side);
        }
        if let Some(radio) = self.radios.known.get_mut(&key) {
            radio.is_called = false;
            radio.call(key, now, &mut self.queue);
        }
    }

    /// Whether one end of a connection is to wait for the radios of its link: while one is busy, and while one is held by another bundle where what the
    /// end has takes more than a turn.
    pub(crate) fn waits_for_radio(&self, number: u32, end: End) -> bool {
        let road = self.roads.get(road_at(number));
        let Some(road) = road.filter(|road| road.channel.is_some() && road.is_open()) else {
            return false;
        };
        if self.radios.are_busy(road, self.now) && !planted(Mutant::RadioNotAwaited) {
            return true;
        }
        let mut others = self.radios.holders(road).filter(|holder| *holder != end);
        others.any(|holder| self.unwritten(holder).begun_octets > 0) && {
            let own = self.unwritten(end);
            own.begun_octets > 0 || own.queued_octets > road.turn_octets()
        }
    }

    /// The octets of bundles that one end of a connection is to write.
    pub(crate) fn unwritten(&self, (key, side): End) -> Unwritten {
        let end = self.connection(key).map(|connection| connection.end(side));
        let unwritten = end.and_then(|end| {
            let machine = self.machines.get(end.machine.at())?;
            Some(machine.running.as_ref()?.node.unwritten(end.stream))
        });
        unwritten.unwrap_or_default()
    }

    /// The octets that are left of the bundle for which one end of a connection holds the radios of its link.
    pub(crate) fn begun_octets(&self, number: u32, end: End) -> Option<u64> {
        let road = self.roads.get(road_at(number))?;
        let begun = || self.unwritten(end).begun_octets;
        (road.goes_by_bundle() && road.is_open())
            .then(begun)
            .filter(|begun| *begun > 0)
    }

    /// One end of a connection has written, and has more to write or has not: it holds the radios of its link while it is within a bundle.
    pub(crate) fn hold_radios(&mut self, number: u32, end: End, has_more: bool) {
        let is_held = has_more && self.begun_octets(number, end).is_some();
        if let Some(road) = self
            .roads
            .get(road_at(number))
            .filter(|road| road.goes_by_bundle())
        {
            self.radios.set_held((number, road), end, is_held);
        }
    }

    /// The radios at the ends of a link learn that a contact of it begins.
    pub(crate) fn join_radios(&mut self, number: u32) {
        if let Some(road) = self.roads.get(road_at(number)) {
            self.radios.handle_contact(road);
            if let Some(channel) = road.channel {
                self.airtime.handle_contact(number, road.ends, channel);
            }
        }
    }

    /// The radios at the ends of a link learn that a contact of it ends.
    pub(crate) fn part_radios(&mut self, number: u32) {
        if let Some(road) = self.roads.get(road_at(number)) {
            self.airtime.handle_contact_end(number, road.ends);
            let queue = &mut self.queue;
            self.radios
                .handle_contact_end((number, road), self.now, queue);
        }
    }
}
