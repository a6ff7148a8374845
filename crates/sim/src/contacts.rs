//! The beginning and end of contacts, and the effect on connections.

use dhow_channel::channel;
use dhow_node::driver::{Carrier, Event};
use dhow_scenario::scenario::AtEnd;

use crate::connection::{EndState, Wire};
use crate::dialling::road_at;
use crate::queue::{ConnectionKey, MachineIndex, Occurrent, Side};
use crate::world::World;

impl World {
    /// A contact of the scenario begins; so will the next of its kind.
    pub(crate) fn contact_begins(&mut self, number: u32) {
        let now = self.now;
        let Some(contact) = self.contacts.get(road_at(number)).copied() else {
            return;
        };
        let link = u32::try_from(contact.link.0).unwrap_or(u32::MAX);
        self.queue
            .push(now + contact.length, Occurrent::ContactEnds(link));
        if let Some(every) = contact.every {
            self.queue
                .push(now + every, Occurrent::ContactBegins(number));
        }
        let Some(road) = self.roads.get_mut(contact.link.0) else {
            return;
        };
        if road.silent_ends > 0 {
            road.hidden_contacts += 1;
            return;
        }
        road.contacts += 1;
        if road.contacts == 1 {
            self.open_road(link);
        }
    }

    /// The first contact of a link at present begins.
    pub(crate) fn open_road(&mut self, link: u32) {
        let now = self.now;
        // One that begins as the run ends is none.
        self.counts.contacts += u64::from(now < self.end);
        self.remark_contact(link, "a contact begins");
        self.join_radios(link);
        let Some(road) = self.roads.get_mut(road_at(link)) else {
            return;
        };
        road.open.1 = now;
        if let Some(air) = &mut road.air {
            air.handle_contact(now, channel::Contact::Up);
        }
        let (ends, at_end) = (road.ends, road.at_end);
        for key in road.connections.clone() {
            self.resume(key);
        }
        if at_end == AtEnd::Reset {
            // The interface has a carrier again.
            self.tell_carrier(link, Carrier::Present);
            self.tell(ends.1, Event::NetworkChanged);
        }
    }

    /// The machines that have a link in their configuration learn whether it has a carrier: the side that dials, and over UDP both.
    fn tell_carrier(&mut self, number: u32, carrier: Carrier) {
        let now = self.now;
        let road = self.roads.get_mut(road_at(number));
        if let Some(air) = road.and_then(|road| road.air.as_mut()) {
            air.handle_path(carrier == Carrier::Present, now);
        }
        let linked = self.roads.get(road_at(number)).map(Wire::linked);
        for (at, link) in linked.into_iter().flatten() {
            self.tell(at, Event::CarrierChanged { link, carrier });
        }
    }

    /// A node that has just started learns which of its links have no carrier, before it dials any.
    pub(crate) fn tell_carriers(&mut self, at: MachineIndex) {
        let roads = self.machines.get(at.at()).map(|it| it.roads.clone());
        for number in roads.into_iter().flatten() {
            let road = self.roads.get(road_at(number));
            let is_dark = |road: &&Wire| road.at_end == AtEnd::Reset && !road.is_open();
            let mut linked = road.filter(is_dark).into_iter().flat_map(Wire::linked);
            let Some((_, link)) = linked.find(|(end, _)| *end == at) else {
                continue;
            };
            let carrier = Carrier::Absent;
            let event = Event::CarrierChanged { link, carrier };
            self.note_event(at, &event);
            let now = self.now;
            if let Some(running) = self.running_mut(at) {
                let shown = running.now(now);
                running.node.handle(shown, event);
            }
        }
    }

    /// Octets that were held go on.
    fn resume(&mut self, key: ConnectionKey) {
        for side in [Side::Dialling, Side::Accepting] {
            let Some(connection) = self.connection_mut(key) else {
                return;
            };
            let at = connection.end(side).machine;
            let way = &mut connection.end_mut(side).way;
            let held = std::mem::take(&mut way.held);
            let (finished, wants) = (way.finished, way.wants);
            for portion in held {
                self.launch(key, side, portion);
            }
            if finished {
                self.send_end(key, side);
            } else if wants {
                self.write(key, side);
                self.turn(at);
            }
        }
    }

    pub(crate) fn contact_ends(&mut self, number: u32) {
        let Some(road) = self.roads.get_mut(road_at(number)) else {
            return;
        };
        if road.silent_ends > 0 {
            road.hidden_contacts = road.hidden_contacts.saturating_sub(1);
            return;
        }
        road.contacts = road.contacts.saturating_sub(1);
        if road.contacts == 0 {
            self.close_road(number);
        }
    }

    /// The last contact of a link at present has ended.
    pub(crate) fn close_road(&mut self, number: u32) {
        let now = self.now;
        let Some(road) = self.roads.get_mut(road_at(number)) else {
            return;
        };
        road.open.0 += now.since(road.open.1);
        road.cut(now);
        if let Some(air) = &mut road.air {
            air.handle_contact(now, channel::Contact::Down);
        }
        let (at_end, connections) = (road.at_end, road.connections.clone());
        self.part_radios(number);
        self.remark_contact(number, "the contact ends");
        for key in connections {
            match at_end {
                AtEnd::Reset => self.break_connection(key),
                AtEnd::Silence => self.hold(key),
            }
        }
        // In silence nobody learns that the contact is over.
        if at_end == AtEnd::Reset {
            self.tell_carrier(number, Carrier::Absent);
        }
    }

    fn hold(&mut self, key: ConnectionKey) {
        let now = self.now;
        if let Some(connection) = self.connection_mut(key) {
            let parts = [Side::Dialling, Side::Accepting].map(|side| {
                let way = &mut connection.end_mut(side).way;
                let part = way.hold(now);
                if let Some(congestion) = &mut way.congestion {
                    congestion.handle_silence();
                }
                (side, part)
            });
            let ways =
                [Side::Dialling, Side::Accepting].map(|side| (side, &connection.end(side).way));
            let held = ways.map(|(side, way)| (!way.held.is_empty()).then_some(side));
            for (side, part) in parts {
                if let Some(arrives) = part {
                    let arrival = Occurrent::Arrival(key, side.other());
                    self.queue.push(arrives, arrival);
                }
            }
            for side in held.into_iter().flatten() {
                self.doubt(key, side);
            }
        }
    }

    /// Connections of a link are reset, by chance.
    pub(crate) fn chance_reset(&mut self, number: u32) {
        self.plan_reset(number);
        let keys = self
            .roads
            .get(road_at(number))
            .map(|road| road.connections.clone());
        for key in keys.into_iter().flatten() {
            self.break_connection(key);
        }
    }

    /// Nothing more gets through: octets that have left by now arrive, and then each end is told.
    pub(crate) fn break_connection(&mut self, key: ConnectionKey) {
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        if connection.broken {
            return;
        }
        connection.broken = true;
        self.spreads.disturb();
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        for side in [Side::Dialling, Side::Accepting] {
            connection.end_mut(side).way.cut(now);
        }
        let told = [Side::Dialling, Side::Accepting].map(|side| {
            let last = connection.towards_mut(side).last_arrival(now);
            (side, last, connection.end(side).state)
        });
        for (side, last, state) in told {
            // A dialling side that has not heard of the connection yet is told so by the answer.
            if state != EndState::Unheard || side == Side::Accepting {
                self.queue.push(last, Occurrent::Ended(key, side));
            }
        }
    }
}

impl Wire {
    /// The time of all contacts up to now.
    #[must_use]
    pub fn open_for(&self, now: dhow_bundle::Instant) -> std::time::Duration {
        if self.is_open() {
            self.open.0 + now.since(self.open.1)
        } else {
            self.open.0
        }
    }
}
