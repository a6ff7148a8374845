//! Octets on their way: written by one end, carried by the link, read by the other end.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::driver::{Event, Path, StreamId};

use crate::congestion::Unanswered;
use crate::connection::{EndState, Flight, Wire, length};
use crate::dialling::road_at;
use crate::portion::Portion;
use crate::queue::{ConnectionKey, MachineIndex, Occurrent, Side};
use crate::world::World;

/// The time, at most, after which a sender that gets no answer tries again.
const RETRANSMISSION: Duration = Duration::from_secs(1);

impl World {
    /// A node has octets for a stream.
    pub(crate) fn flush_stream(&mut self, at: MachineIndex, stream: StreamId) {
        let Some((key, side)) = self.locate(at, stream) else {
            return;
        };
        self.check_time(key);
        let now = self.now;
        if let Some(connection) = self.connection_mut(key) {
            let way = &mut connection.end_mut(side).way;
            if !std::mem::replace(&mut way.wants, true) {
                way.quiet = now;
            }
        }
        self.write(key, side);
    }

    pub(crate) fn writable(&mut self, key: ConnectionKey, side: Side) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let end = connection.end_mut(side);
        end.way.unsynced = false;
        let at = end.machine;
        if end.way.wants {
            self.write(key, side);
            self.turn(at);
        }
    }

    /// Writes as much as one end may, and what its node has.
    pub(crate) fn write(&mut self, key: ConnectionKey, side: Side) {
        let now = self.now;
        loop {
            let Some(connection) = self.connection_mut(key) else {
                return;
            };
            let (number, broken) = (connection.road, connection.broken);
            let end = connection.end(side);
            let (machine, life, stream, state) = (end.machine, end.life, end.stream, end.state);
            if !matches!(state, EndState::Open | EndState::Closing) || !self.lives(machine, life) {
                return;
            }
            let waits = !broken && self.waits_for_radio(number, (key, side));
            let begun = self.begun_octets(number, (key, side));
            let Some(road) = self.roads.get(road_at(number)) else {
                return;
            };
            let Some(connection) = self
                .connections
                .get_mut(road_at(key.slot))
                .and_then(Option::as_mut)
            else {
                return;
            };
            let way = &mut connection.end_mut(side).way;
            if waits {
                // An end whose `Writable` is on its way comes back by that.
                if !std::mem::replace(&mut way.unsynced, true) {
                    self.radios.wait(road, (key, side), now, &mut self.queue);
                }
                return;
            }
            let room = if broken {
                u64::MAX
            } else {
                road.room(way, now)
            };
            if room == 0 {
                // Reading and contacts make room again; the line does by itself, and answers do.
                let again = road.again(way, now).filter(|_| !way.unsynced);
                if let Some(at) = again {
                    way.unsynced = true;
                    self.queue.push(at, Occurrent::Writable(key, side));
                }
                return;
            }
            // The bundle behind the one that has begun waits until the radios are free again.
            let most = room.min(1 << 20).min(begun.unwrap_or(u64::MAX));
            let limit = usize::try_from(most).unwrap_or(usize::MAX);
            let at = machine;
            let machine = self.machines.get_mut(machine.at());
            let gather = &mut self.gather;
            let portion = machine.and_then(|it| it.poll_freight(now, stream, limit, gather));
            let Some(portion) = portion else {
                // The disk does not give what was to be sent.
                return self.drop_end(key, side);
            };
            let octets = portion.octets();
            // A node that gives less than it may has no more, and says so when that changes; unless it learns by the next call that all is
            // written.
            let counts = octets > 0 && self.counts_written(at, stream);
            let is_all = octets < most && !counts;
            if is_all && let Some(connection) = self.connection_mut(key) {
                connection.end_mut(side).way.wants = false;
            }
            if octets > 0 && !broken {
                if let Some(connection) = self.connection_mut(key) {
                    connection.end_mut(side).way.under_way += octets;
                }
                self.put_on(key, side, portion);
            } else if octets > 0 {
                // The socket has taken it, and nobody will see it.
                self.judge_written(key, side, &portion);
            }
            if !broken {
                self.hold_radios(number, (key, side), !is_all);
            }
            if is_all {
                if state == EndState::Closing {
                    self.finish_end(key, side);
                }
                return;
            }
        }
    }

    fn counts_written(&self, at: MachineIndex, stream: StreamId) -> bool {
        let machine = self.machines.get(at.at());
        let running = machine.and_then(|machine| machine.running.as_ref());
        running.is_some_and(|running| running.node.counts_written(stream))
    }

    /// Judges the octets that a node has written, and sends them.
    fn put_on(&mut self, key: ConnectionKey, side: Side, portion: Portion) {
        let now = self.now;
        self.judge_written(key, side, &portion);
        if let Some(connection) = self.connection_mut(key)
            && let Some(referee) = &mut connection.referee
            && let Portion::Octets(octets) = &portion
            && let Err(foul) = referee.handle_written(side, octets, now)
        {
            self.call_foul(key, side, &foul);
        }
        self.judge_passage(key, side);
        self.send(key, side, portion);
    }

    /// Puts octets on the line, or keeps them for the next contact.
    pub(crate) fn send(&mut self, key: ConnectionKey, side: Side, portion: Portion) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let road = road_at(connection.road);
        if self.roads.get(road).is_some_and(Wire::is_open) {
            self.launch(key, side, portion);
        } else if let Some(connection) = self.connection_mut(key) {
            connection.end_mut(side).way.held.push_back(portion);
            self.doubt(key, side);
        }
    }

    /// Nothing answers what one end has written: its system will see that.
    pub(crate) fn doubt(&mut self, key: ConnectionKey, side: Side) {
        let at = self.now + RETRANSMISSION;
        if let Some(connection) = self.connection_mut(key) {
            let way = &mut connection.end_mut(side).way;
            if !std::mem::replace(&mut way.doubted, true) {
                self.queue.push(at, Occurrent::Doubted(key, side));
            }
        }
    }

    /// A system sees that octets that it has sent are not answered, and tells its node.
    pub(crate) fn doubted(&mut self, key: ConnectionKey, side: Side) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let end = connection.end_mut(side);
        end.way.doubted = false;
        let (at, life, stream, state) = (end.machine, end.life, end.stream, end.state);
        let path = self.path(at, stream);
        if path == Path::Lost && state == EndState::Open && self.lives(at, life) {
            self.tell(at, Event::PathChecked { stream, path });
        }
    }

    /// Puts octets on the line.
    pub(crate) fn launch(&mut self, key: ConnectionKey, side: Side, portion: Portion) {
        let now = self.now;
        let place = self.connections.get_mut(road_at(key.slot));
        let Some(connection) = place.and_then(Option::as_mut) else {
            return;
        };
        let Some(road) = self.roads.get_mut(road_at(connection.road)) else {
            return;
        };
        let (number, line) = (connection.road, connection.side_of_link(side));
        let way = &mut connection.end_mut(side).way;
        let congestion = way.congestion.as_deref();
        let carriage = road.carry(line, now, portion.octets(), congestion);
        // Octets stay in order, also behind what was lost and where the delay becomes less.
        let sent = carriage.sent.max(way.last_departure(now));
        let arrives = way.last_arrival(sent + road.delay(sent) + carriage.late);
        if let Some(congestion) = &mut way.congestion {
            let left = carriage.leaving.ends;
            let sent = Unanswered {
                left,
                answered: left + road.delay(left) * 2 + carriage.late,
                octets: portion.octets(),
                is_lost: carriage.is_lost,
                is_pressed: way.busy >= now,
            };
            congestion.handle_sent(now, sent);
        }
        way.busy = carriage.free;
        let busy = (now, carriage.free);
        self.radios.occupy((number, road), line, busy);
        let leaving = carriage.leaving;
        let sending = leaving.ends.since(leaving.begins);
        way.flying.push_back(Flight {
            leaving: carriage.leaving,
            sent,
            arrives,
            portion,
        });
        self.queue
            .push(arrives, Occurrent::Arrival(key, side.other()));
        self.judge_sending((number, line), leaving);
        self.spend(number, line, sending);
    }

    /// Octets are there.
    pub(crate) fn arrive(&mut self, key: ConnectionKey, side: Side) {
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let state = connection.end(side).state;
        let (machine, broken) = (connection.end(side).machine, connection.broken);
        let way = connection.towards_mut(side);
        let Some(portion) = way.flying.pop_front_if_due(now) else {
            return;
        };
        let octets = portion.octets();
        if self.capture.is_some() {
            for piece in portion.clone().into_pieces() {
                self.capture_octets(key, side, &piece);
            }
        }
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let way = connection.towards_mut(side);
        if state == EndState::Gone {
            way.under_way = way.under_way.saturating_sub(octets);
            // A machine that is up answers that there is no such connection; one that is off says nothing.
            let up = self
                .machines
                .get(machine.at())
                .is_some_and(|it| it.running.is_some());
            if up && !broken {
                self.send_end(key, side);
            } else if let Some(connection) = self.connection_mut(key) {
                connection.towards_mut(side).unanswered = true;
                self.doubt(key, side.other());
            }
            return;
        }
        if state == EndState::Unheard {
            // Nothing is ahead of word that the answer has arrived, and it has no octets of its own.
            return self.accepted(key);
        }
        match portion {
            Portion::Octets(octets) => way.unread.push_back(octets),
            portion @ Portion::Sparse(_) => way.unread.extend(portion.into_pieces()),
        }
        if let Some(running) = self.running_mut(machine) {
            if !running.unread.contains(&(key, side)) {
                running.unread.push((key, side));
            }
            self.turn(machine);
        }
    }

    /// Gives a node octets that have arrived, if it takes any.
    pub(crate) fn feed_unread(&mut self, at: MachineIndex) -> bool {
        let now = self.now;
        let mut place = 0;
        loop {
            let Some(running) = self.running_mut(at) else {
                return false;
            };
            let Some(&(key, side)) = running.unread.get(place) else {
                return false;
            };
            let Some(connection) = self.connection_mut(key) else {
                self.forget_unread(at, place);
                continue;
            };
            let stream = connection.end(side).stream;
            let gone = connection.end(side).state == EndState::Gone;
            let delay = road_at(connection.road);
            let way = connection.towards_mut(side);
            if gone || way.unread.is_empty() {
                let ending = way.ending && !gone;
                way.unread.clear();
                self.forget_unread(at, place);
                if ending {
                    self.drop_end(key, side);
                    return true;
                }
                continue;
            }
            let takes = self
                .machines
                .get(at.at())
                .and_then(|machine| machine.running.as_ref())
                .is_some_and(|running| running.node.takes_octets(stream));
            if !takes {
                place += 1;
                continue;
            }
            let delay = self
                .roads
                .get(delay)
                .map_or(Duration::ZERO, |road| road.delay(now));
            let Some(connection) = self.connection_mut(key) else {
                return false;
            };
            let way = connection.towards_mut(side);
            let Some(octets) = way.unread.pop_front() else {
                return false;
            };
            way.under_way = way.under_way.saturating_sub(length(&octets));
            let defer_sync = (way.wants && !way.unsynced).then(|| way.busy.max(now + delay));
            way.unsynced |= defer_sync.is_some();
            if let Some(referee) = &mut connection.referee {
                referee.handle_read(side, &octets, now);
            }
            self.judge_passage(key, side);
            self.judge_read(key, side, &octets);
            if let Some(at) = defer_sync {
                self.queue.push(at, Occurrent::Writable(key, side.other()));
            }
            if let Some(running) = self.running_mut(at) {
                running.inbox.push_back(Event::Octets { stream, octets });
            }
            return true;
        }
    }

    fn forget_unread(&mut self, at: MachineIndex, place: usize) {
        if let Some(running) = self.running_mut(at)
            && place < running.unread.len()
        {
            running.unread.remove(place);
        }
    }

    /// A node closes a stream once all is written.
    pub(crate) fn close(&mut self, at: MachineIndex, stream: StreamId) {
        let Some((key, side)) = self.locate(at, stream) else {
            return;
        };
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        if connection.end(side).state == EndState::Open {
            connection.end_mut(side).state = EndState::Closing;
            connection.end_mut(side).way.wants = true;
            self.write(key, side);
        }
    }

    /// A node drops a stream with all that is not written.
    pub(crate) fn abort(&mut self, at: MachineIndex, stream: StreamId) {
        let now = self.now;
        let Some((key, side)) = self.locate(at, stream) else {
            return;
        };
        if let Some(connection) = self.connection_mut(key) {
            connection.end_mut(side).way.cut(now);
        }
        self.drop_end(key, side);
        self.send_end(key, side);
    }

    /// All is written, and the node has no more to do with it.
    fn finish_end(&mut self, key: ConnectionKey, side: Side) {
        if let Some(connection) = self.connection_mut(key) {
            connection.end_mut(side).way.closed = true;
        }
        self.drop_end(key, side);
        self.send_end(key, side);
    }

    /// One end is gone, and its node is told.
    pub(crate) fn drop_end(&mut self, key: ConnectionKey, side: Side) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let end = connection.end(side);
        let (at, life, stream, state) = (end.machine, end.life, end.stream, end.state);
        if state == EndState::Gone {
            return;
        }
        self.vanish(key, side);
        if self.lives(at, life)
            && state != EndState::Unheard
            && let Some(running) = self.running_mut(at)
        {
            running.inbox.push_back(Event::Disconnected { stream });
        }
    }

    /// One end of the connection is gone.
    pub(crate) fn vanish(&mut self, key: ConnectionKey, side: Side) {
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        connection.end_mut(side).state = EndState::Gone;
        let (road, is_over) = (road_at(connection.road), connection.is_over());
        let place = connection.side_of_link(side);
        if let Some(road) = self.roads.get_mut(road) {
            match place {
                Side::Dialling => road.parted.0 = now,
                Side::Accepting => road.parted.1 = now,
            }
            if is_over {
                road.connections.retain(|it| *it != key);
            }
        }
        if is_over && let Some(place) = self.connections.get_mut(road_at(key.slot)) {
            *place = None;
            self.free_slots.push(key.slot);
        }
    }

    /// The other end will learn, behind all that was written, that this one is gone.
    pub(crate) fn send_end(&mut self, key: ConnectionKey, side: Side) {
        let now = self.now;
        let Some(connection) = self.connection(key) else {
            return;
        };
        let Some(road) = self.roads.get(road_at(connection.road)) else {
            return;
        };
        let (open, delay) = (road.is_open(), road.delay(now));
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let way = &mut connection.end_mut(side).way;
        if !open {
            way.finished = true;
            return;
        }
        let at = way.last_arrival(now + delay);
        self.queue.push(at, Occurrent::Ended(key, side.other()));
    }

    /// One end learns that the other is gone.
    pub(crate) fn ended(&mut self, key: ConnectionKey, side: Side) {
        self.capture_end(key, side);
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let end = connection.end(side);
        let (at, state) = (end.machine, end.state);
        if state == EndState::Gone {
            return;
        }
        let way = connection.towards_mut(side);
        if way.unread.is_empty() || state == EndState::Unheard {
            self.drop_end(key, side);
        } else {
            way.ending = true;
        }
        self.turn(at);
    }

    /// A machine that has started again answers what was sent to connections of its earlier lives.
    pub(crate) fn refuse_old(&mut self, at: MachineIndex) {
        let now = self.now;
        for (key, side) in self.connections_of(at) {
            let waits = self.connection_mut(key).is_some_and(|connection| {
                connection.end(side).state == EndState::Gone
                    && connection.towards_mut(side).unanswered
            });
            if waits {
                let open = self.connection(key).and_then(|connection| {
                    let road = self.roads.get(road_at(connection.road))?;
                    (road.is_open() && !connection.broken).then_some(road.delay(now))
                });
                if let Some(delay) = open {
                    let at = now + RETRANSMISSION + delay;
                    self.queue.push(at, Occurrent::Ended(key, side.other()));
                }
            }
        }
    }

    /// The ends of connections at a machine.
    pub(crate) fn connections_of(&self, at: MachineIndex) -> Vec<(ConnectionKey, Side)> {
        let roads = self.machines.get(at.at()).map(|machine| &machine.roads);
        let roads = roads
            .into_iter()
            .flatten()
            .filter_map(|road| self.roads.get(road_at(*road)));
        let ends = roads.flat_map(|road| {
            let here = [Side::Dialling, Side::Accepting];
            let sides = here.into_iter().filter(|side| road.machine(*side) == at);
            sides.flat_map(|side| {
                let keys = road.connections.iter();
                keys.map(move |key| match self.connection(*key) {
                    Some(connection) => (*key, connection.side_of_link(side)),
                    None => (*key, side),
                })
            })
        });
        ends.collect()
    }
}

/// The first flight of a queue, once it is due.
trait Due {
    /// The octets of the first flight, if it has arrived by now.
    fn pop_front_if_due(&mut self, now: Instant) -> Option<Portion>;
}

impl Due for std::collections::VecDeque<Flight> {
    fn pop_front_if_due(&mut self, now: Instant) -> Option<Portion> {
        if self.front()?.arrives > now {
            return None;
        }
        self.pop_front().map(|flight| flight.portion)
    }
}
