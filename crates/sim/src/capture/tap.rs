//! Calls by which a world shows passing octets to its capture, if there is one.

use dhow_bundle::Instant;

use super::{Capture, Conversation, Ending};
use crate::dialling::road_at;
use crate::queue::{ConnectionKey, MachineIndex, Side};
use crate::trace::What;
use crate::world::World;

impl World {
    fn tap(
        &mut self,
        key: ConnectionKey,
        show: impl FnOnce(&mut Capture, Instant, &mut Conversation),
    ) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        let place = self.connections.get_mut(road_at(key.slot));
        if let Some(connection) = place.and_then(Option::as_mut)
            && connection.key == key
        {
            show(capture, self.now, &mut connection.conversation);
        }
    }

    /// A call has reached the side that listens.
    pub(crate) fn capture_call(&mut self, key: ConnectionKey) {
        self.tap(key, |capture, at, conversation| {
            capture.call(at, conversation);
        });
    }

    /// The answer has reached the side that dialled.
    pub(crate) fn capture_answer(&mut self, key: ConnectionKey) {
        self.tap(key, |capture, at, conversation| {
            capture.answer(at, conversation);
        });
    }

    /// Word that the answer has arrived has reached the side that listens.
    pub(crate) fn capture_acceptance(&mut self, key: ConnectionKey) {
        self.tap(key, |capture, at, conversation| {
            capture.accept(at, conversation);
        });
    }

    /// Octets have reached a side.
    pub(crate) fn capture_octets(&mut self, key: ConnectionKey, to: Side, octets: &[u8]) {
        self.tap(key, |capture, at, conversation| {
            capture.octets(at, conversation, to.other(), octets);
        });
    }

    /// A datagram from a side has reached the other.
    pub(crate) fn capture_datagram(&mut self, road: u32, from: Side, octets: &[u8]) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        if let Some(it) = self.roads.get(road_at(road)) {
            let Some(air) = &it.air else {
                return;
            };
            let ends = (air.protocol(), it.machine(from), it.machine(from.other()));
            capture.datagram(self.now, road, ends, octets);
        }
    }

    /// The other's end has reached a side.
    pub(crate) fn capture_end(&mut self, key: ConnectionKey, to: Side) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let in_order = !connection.broken && connection.end(to.other()).way.closed;
        let ending = if in_order {
            Ending::Finished
        } else {
            Ending::Reset
        };
        self.tap(key, |capture, at, conversation| {
            capture.end(at, conversation, to.other(), ending);
        });
    }

    /// A contact of a link begins or ends.
    pub(crate) fn remark_contact(&mut self, road: u32, what: &str) {
        if let Some(capture) = &mut self.capture {
            capture.remark(self.now, road, what);
        }
    }

    /// A machine comes or goes.
    pub(crate) fn remark_machine(&mut self, at: MachineIndex, what: What) {
        let what = match what {
            What::Started => "starts",
            What::Killed => "is killed",
            What::PowerFailed => "loses power",
            _ => return,
        };
        let Some(capture) = &mut self.capture else {
            return;
        };
        let Some(machine) = self.machines.get(at.at()) else {
            return;
        };
        for road in &machine.roads {
            capture.remark(self.now, *road, &format!("{} {what}", machine.name));
        }
    }
}
