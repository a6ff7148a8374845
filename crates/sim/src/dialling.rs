//! The making of connections: a call that takes the link's delay, an answer that takes it again, and word of the answer that takes it
//! once more, ahead of all octets. The side that dials is connected after two delays, the side that accepts after three.

use std::time::Duration;

use bytes::Bytes;
use dhow_node::config::LinkId;
use dhow_node::driver::{Event, Path, Purpose, StreamId};
use dhow_scenario::scenario::{AtEnd, Fidelity};

use crate::capture::Conversation;
use crate::connection::{Connection, Direction, End, EndState};
use crate::listeners::listener_of;
use crate::oracle::Onlooker;
use crate::portion::Portion;
use crate::queue::{ConnectionKey, Life, MachineIndex, Occurrent, Side};
use crate::world::World;

/// The time after which the dialling side gives up a call that is not answered, beside the link's longest round trip.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time in which the system finds that no interface leads there.
const NO_ROUTE: Duration = Duration::from_millis(1);

/// Bits of the connection's slot in a stream's number: above the side, below the count of streams.
const SLOT_BITS: u32 = 24;

/// A connection that is being made.
#[derive(Clone, Debug)]
pub struct Dial {
    machine: MachineIndex,
    life: Life,
    link: LinkId,
    road: u32,
    /// The number of the decision about the link that the dial carries out.
    order: u32,
    /// The connection, or the reason why there is none.
    outcome: Result<ConnectionKey, &'static str>,
}

impl World {
    /// A node wants a link's neighbour called.
    pub(crate) fn dial(&mut self, at: MachineIndex, link: LinkId) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let place = usize::try_from(link.0).unwrap_or(usize::MAX);
        let Some(&number) = machine.blueprint.leads.get(place) else {
            return;
        };
        if self
            .roads
            .get(road_at(number))
            .is_some_and(|it| it.air.is_some())
        {
            return self.converse(at, number, link);
        }
        let life = machine.life;
        let Some((running, road)) = machine
            .running
            .as_mut()
            .zip(self.roads.get(road_at(number)))
        else {
            return;
        };
        let order = *running.dials.entry(link).or_default();
        let mut dial = Dial {
            machine: at,
            life,
            link,
            road: number,
            order,
            outcome: Err("connection timed out"),
        };
        let (open, delay, at_end) = (road.is_open(), road.delay(now), road.at_end);
        if open {
            let dial = self.add_dial(dial);
            self.queue.push(now + delay, Occurrent::Called(dial));
        } else {
            let after = match at_end {
                AtEnd::Reset => {
                    dial.outcome = Err("network is unreachable");
                    NO_ROUTE
                }
                // A system would send the call again when a contact has begun; here the next call is that.
                AtEnd::Silence => DIAL_TIMEOUT,
            };
            let dial = self.add_dial(dial);
            self.queue.push(now + after, Occurrent::Answered(dial));
        }
    }

    fn add_dial(&mut self, dial: Dial) -> u32 {
        let place = self.free_dials.pop().unwrap_or_else(|| {
            self.dials.push(None);
            u32::try_from(self.dials.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.dials.get_mut(road_at(place)) {
            *slot = Some(dial);
        }
        place
    }

    /// Dials of a link that are under way are not answered.
    pub(crate) fn stop_dialling(&mut self, at: MachineIndex, link: LinkId) {
        if let Some(running) = self.running_mut(at) {
            *running.dials.entry(link).or_default() += 1;
        }
    }

    /// A call reaches the machine that it is for.
    pub(crate) fn called(&mut self, number: u32) {
        let now = self.now;
        let Some(Some(dial)) = self.dials.get(road_at(number)).cloned() else {
            return;
        };
        let Some(road) = self.roads.get(road_at(dial.road)) else {
            return;
        };
        let is_back = dial.machine != road.ends.0;
        let callee = if is_back { road.ends.0 } else { road.ends.1 };
        let (protocol, delay) = (road.protocol, road.delay(now));
        let patience = road.round_trip.saturating_add(DIAL_TIMEOUT);
        let up = self
            .machines
            .get(callee.at())
            .filter(|machine| machine.running.is_some());
        let Some(machine) = up.filter(|_| road.is_open()) else {
            let after = patience.saturating_sub(delay);
            self.queue.push(now + after, Occurrent::Answered(number));
            return;
        };
        let life = machine.life;
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.connections.push(None);
            u32::try_from(self.connections.len() - 1).unwrap_or(u32::MAX)
        });
        self.next_serial = self.next_serial.wrapping_add(1);
        let key = ConnectionKey {
            slot,
            serial: self.next_serial,
        };
        let streams = (self.stream(slot, 0), self.stream(slot, 1));
        let road = self.roads.get(road_at(dial.road));
        let end = |machine, life, stream, state| End {
            machine,
            life,
            stream,
            state,
            way: road.map_or_else(Direction::default, |road| road.way(now)),
        };
        let has_octets = self.fidelity == Fidelity::Octet;
        let connection = Connection {
            key,
            road: dial.road,
            broken: false,
            dialling: end(dial.machine, dial.life, streams.0, EndState::Unheard),
            accepting: end(callee, life, streams.1, EndState::Unheard),
            referee: (has_octets && !protocol.is_one_way()).then(Box::default),
            onlooker: Onlooker::of(protocol).map(Box::new),
            is_back,
            conversation: Conversation::new(key.serial, dial.road, (dial.machine, callee)),
        };
        if let Some(place) = self.connections.get_mut(road_at(slot)) {
            *place = Some(connection);
        }
        if let Some(road) = self.roads.get_mut(road_at(dial.road)) {
            road.connections.push(key);
        }
        if let Some(Some(dial)) = self.dials.get_mut(road_at(number)) {
            dial.outcome = Ok(key);
        }
        self.counts.connections += 1;
        self.capture_call(key);
        self.queue.push(now + delay, Occurrent::Answered(number));
    }

    /// The accepting side hears that its answer has arrived.
    pub(crate) fn accepted(&mut self, key: ConnectionKey) {
        self.capture_acceptance(key);
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let end = &mut connection.accepting;
        end.state = EndState::Open;
        let (at, stream, road) = (end.machine, end.stream, connection.road);
        if let Some(onlooker) = &mut connection.onlooker {
            onlooker.handle_open(now);
        }
        let road = self.roads.get(road_at(road));
        let (protocol, speaks) = road.map_or_else(Default::default, |it| (it.protocol, it.speaks));
        let listener = listener_of(protocol, speaks);
        let purpose = Purpose::Accepted { listener };
        self.tell(at, Event::Connected { stream, purpose });
    }

    /// The dialling side hears the outcome of a call.
    pub(crate) fn answered(&mut self, number: u32) {
        let place = self.dials.get_mut(road_at(number));
        let Some(dial) = place.and_then(Option::take) else {
            return;
        };
        self.free_dials.push(number);
        let orders = self.machines.get(dial.machine.at()).and_then(|machine| {
            let running = machine
                .running
                .as_ref()
                .filter(|_| machine.life == dial.life)?;
            Some(running.dials.get(&dial.link).copied().unwrap_or(0))
        });
        let wanted = orders == Some(dial.order);
        match dial.outcome {
            Ok(key) => {
                self.capture_answer(key);
                let open = self.connection(key).is_some_and(|it| !it.broken);
                if wanted && open {
                    let link = dial.link;
                    let purpose = Purpose::Dialled { link };
                    let Some(connection) = self.connection_mut(key) else {
                        return;
                    };
                    connection.dialling.state = EndState::Open;
                    let stream = connection.dialling.stream;
                    self.send(key, Side::Dialling, Portion::Octets(Bytes::new()));
                    self.tell(dial.machine, Event::Connected { stream, purpose });
                } else {
                    self.vanish(key, Side::Dialling);
                    self.send_end(key, Side::Dialling);
                    if wanted {
                        self.fail_dial(&dial, "connection reset");
                    }
                }
            }
            Err(reason) if wanted => self.fail_dial(&dial, reason),
            Err(_) => {}
        }
    }

    fn fail_dial(&mut self, dial: &Dial, reason: &str) {
        self.counts.dial_failures += 1;
        let (link, reason) = (dial.link, reason.to_owned());
        self.tell(dial.machine, Event::DialFailed { link, reason });
    }

    fn stream(&mut self, slot: u32, side: u64) -> StreamId {
        self.next_stream += 1;
        StreamId((self.next_stream << (SLOT_BITS + 1)) | (u64::from(slot) << 1) | side)
    }

    /// The connection and side that a node's stream is.
    pub(crate) fn locate(
        &self,
        at: MachineIndex,
        stream: StreamId,
    ) -> Option<(ConnectionKey, Side)> {
        let slot = (stream.0 >> 1) & ((1 << SLOT_BITS) - 1);
        let side = if stream.0 & 1 == 0 {
            Side::Dialling
        } else {
            Side::Accepting
        };
        let place = self.connections.get(usize::try_from(slot).ok()?)?;
        let connection = place.as_ref()?;
        let end = connection.end(side);
        (end.stream == stream && end.machine == at).then_some((connection.key, side))
    }

    pub(crate) fn connection(&self, key: ConnectionKey) -> Option<&Connection> {
        let connection = self.connections.get(road_at(key.slot))?.as_ref()?;
        (connection.key == key).then_some(connection)
    }

    pub(crate) fn connection_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(road_at(key.slot))?.as_mut()?;
        (connection.key == key).then_some(connection)
    }

    /// The state of a stream's path, as a driver sees it.
    pub(crate) fn path(&self, at: MachineIndex, stream: StreamId) -> Path {
        let Some((key, side)) = self.locate(at, stream) else {
            return Path::Lost;
        };
        let Some(connection) = self.connection(key) else {
            return Path::Lost;
        };
        let open = self
            .roads
            .get(road_at(connection.road))
            .is_some_and(|road| road.is_open());
        let way = &connection.end(side).way;
        if connection.broken || way.unanswered || !open && !way.held.is_empty() {
            Path::Lost
        } else {
            Path::Open
        }
    }
}

/// A number as a position.
pub(crate) fn road_at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
