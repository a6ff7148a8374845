//! Observations that oracles are shown, and the violations that they find.

use std::sync::Arc;

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, FragmentRange};
use dhow_node::api::wire::BundleAdu;
use dhow_scenario::scenario::{Clock, OnSent};

use crate::connection::EndState;
use crate::dialling::road_at;
use crate::ledger::{BundleName, UnitName};
use crate::oracle::{Blocked, Burst, Foul, Moment, Seen, Sending, Wrong};
use crate::portion::Portion;
use crate::queue::{ConnectionKey, MachineIndex, Side};
use crate::transmitter::Leaving;
use crate::world::World;

impl World {
    /// Now, and how far clocks may be apart.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            tolerance: self.tolerance(),
        }
    }

    /// A machine broke a rule that an oracle knows.
    pub(crate) fn accuse_wrong(&mut self, at: MachineIndex, (oracle, what): Wrong) {
        let sentence = format!("{} {what}", self.name(at));
        self.accuse(oracle, sentence, &[at]);
    }

    /// One end of a connection has said or heard something: bundles of which it is the end or the beginning.
    pub(crate) fn judge_passage(&mut self, key: ConnectionKey, side: Side) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        let at = connection.end(side).machine;
        let chosen_since = connection.end(side).way.quiet;
        let to = connection.end(side.other()).machine;
        let Some(referee) = &mut connection.referee else {
            return;
        };
        let seen = referee.take_seen(side);
        if seen.is_empty() {
            return;
        }
        let moment = self.moment();
        let to = self.numbers.get(to.at()).copied();
        for seen in seen {
            self.judge_copy(at, &seen, to);
            let judged = self.judge_seen(at, seen, (chosen_since, to), moment);
            if let Err(wrong) = judged {
                self.accuse_wrong(at, wrong);
            }
        }
    }

    /// One end of a connection in one direction has written octets, which its socket has.
    pub(crate) fn judge_written(&mut self, key: ConnectionKey, side: Side, portion: &Portion) {
        let now = self.now;
        let place = self.connection_mut(key);
        if place.is_none_or(|connection| connection.onlooker.is_none()) {
            return;
        }
        for octets in portion.clone().into_pieces() {
            let Some(connection) = self.connection_mut(key) else {
                return;
            };
            let Some(onlooker) = &mut connection.onlooker else {
                return;
            };
            let judged = match side {
                Side::Dialling => onlooker.handle_said(&octets, now),
                Side::Accepting => Err(Foul::new("sends something where it only receives")),
            };
            let on_sent = onlooker.on_sent();
            match judged {
                Ok(seen) => self.judge_one_way(key, side, seen, on_sent),
                Err(foul) => return self.call_foul(key, side, &foul),
            }
        }
    }

    /// One end of a connection in one direction has read octets.
    pub(crate) fn judge_read(&mut self, key: ConnectionKey, side: Side, octets: &[u8]) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        if let Some(onlooker) = &mut connection.onlooker {
            let (seen, on_sent) = (onlooker.handle_heard(octets), onlooker.on_sent());
            self.judge_one_way(key, side, seen, on_sent);
        }
    }

    fn judge_one_way(&mut self, key: ConnectionKey, side: Side, seen: Vec<Seen>, on_sent: OnSent) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let (end, other) = (connection.end(side), connection.end(side.other()));
        let (at, chosen_since) = (end.machine, end.way.quiet);
        let to = self.numbers.get(other.machine.at()).copied();
        let moment = self.moment();
        for seen in seen {
            if let Seen::HeardWhole(parcel) = &seen {
                self.await_taken(at, parcel.name, parcel.range());
            }
            let left = match &seen {
                Seen::SaidWhole(parcel, _) => Some(Arc::clone(parcel)),
                _ => None,
            };
            if let Err(wrong) = self.judge_seen(at, seen, (chosen_since, to), moment) {
                self.accuse_wrong(at, wrong);
            }
            let Some(parcel) = left else { continue };
            let is_rotten = self.ledger.record(parcel.name).rotten;
            let station = self.voyages.as_mut().and_then(|it| it.station_mut(at));
            let judged = station.map_or(Ok(()), |station| station.handle_left(&parcel));
            if let Some(wrong) = judged.err().filter(|_| !is_rotten) {
                self.accuse_wrong(at, wrong);
            }
            self.custodies.handle_given(at, &parcel, parcel.octets());
            let how = (parcel.total_octets(), on_sent);
            self.ledger.let_go(parcel.name, parcel.range(), how);
        }
    }

    pub(crate) fn judge_seen(
        &mut self,
        at: MachineIndex,
        seen: Seen,
        (chosen_since, to): (dhow_bundle::Instant, Option<u32>),
        moment: Moment,
    ) -> Result<(), Wrong> {
        if self.voyages.is_some() {
            self.judge_custody(at, &seen)?;
        }
        if let Seen::Said(parcel) = &seen {
            self.judge_order(at, parcel, (to, chosen_since));
        }
        let beside = (&self.ledger, &self.payloads);
        let Some(voyages) = &mut self.voyages else {
            return Ok(());
        };
        let is_rotten = |name| beside.0.record(name).rotten;
        match seen {
            // Rot within a large bundle is found by the node that receives it.
            Seen::Said(parcel) if is_rotten(parcel.name) => Ok(()),
            Seen::SaidWhole(parcel, _) if is_rotten(parcel.name) => Ok(()),
            Seen::Said(parcel) => {
                let unit = beside.0.carried(parcel.name);
                let made = unit
                    .and_then(|unit| beside.0.unit(unit))
                    .map(|unit| unit.sent);
                let sending = Sending {
                    chosen_since,
                    made,
                    to,
                };
                voyages.handle_said(at, &parcel, sending, moment)
            }
            Seen::SaidWhole(parcel, octets) => {
                voyages.handle_said_whole(at, &parcel, &octets, beside, moment)
            }
            Seen::Nonsense(_) if self.counts.rotted > 0 => Ok(()),
            Seen::Nonsense(what) => Err(("passage", what)),
            Seen::Acknowledges(parcel, octets) => match voyages.station(at) {
                Some(station) => {
                    let unit = beside.0.carried(parcel.name);
                    let unit = unit.and_then(|unit| beside.0.unit(unit));
                    let is_delivered = unit
                        .is_some_and(|it| it.to == station.number && it.delivered.is_some())
                        || voyages.is_there(&parcel);
                    station.handle_acknowledges(&parcel, octets, (moment, is_delivered))
                }
                None => Ok(()),
            },
            Seen::Heard(parcel) => {
                if let Some(station) = voyages.station_mut(at) {
                    station.handle_heard(&parcel, moment.now);
                }
                Ok(())
            }
            Seen::HeardWhole(parcel) => {
                if let Some(station) = voyages.station_mut(at) {
                    station.handle_heard_whole(&parcel);
                }
                Ok(())
            }
            Seen::Acknowledged(parcel, octets) => {
                if let Some(station) = voyages.station_mut(at) {
                    station.handle_acknowledged(&parcel, octets);
                }
                Ok(())
            }
        }
    }

    /// An application is told that its payload is safe, as this bundle.
    pub(crate) fn judge_accepted(&mut self, at: MachineIndex, name: UnitName, bundle: BundleName) {
        self.note_waiting(at, bundle);
        let station = self.voyages.as_ref().and_then(|it| it.station(at));
        let Some((station, unit)) = station.zip(self.ledger.unit(name)) else {
            return;
        };
        let range = FragmentRange {
            offset: 0,
            length: unit.octets,
        };
        if station.has_durably(bundle, range) || station.has_given(bundle, range) {
            return;
        }
        let sentence = format!(
            "{} is accepted and not durable anywhere",
            self.describe(name)
        );
        self.accuse("durable", sentence, &[at]);
    }

    /// An application is given a payload, of which its node says this.
    pub(crate) fn judge_delivery(&mut self, at: MachineIndex, name: UnitName, adu: &BundleAdu) {
        let moment = self.moment();
        let flow = usize::try_from(name.traffic).ok();
        let flow = flow.and_then(|place| self.traffic.get(place));
        let Some((flow, unit)) = flow.zip(self.ledger.unit(name)) else {
            return;
        };
        let found = bundle_of(adu);
        if let Some(bundle) = found.filter(|_| unit.bundle.is_none()) {
            // The application that sent it may not have been told yet that it was accepted.
            self.ledger.record_mut(bundle).unit.get_or_insert(name);
        }
        let Some(unit) = self.ledger.unit(name) else {
            return;
        };
        let is_other = unit.bundle.is_some_and(|bundle| Some(bundle) != found);
        // RFC 9171 4.2.3: a whole is no fragment.
        let is_part = adu.bundle_flags.unwrap_or(0) & 1 != 0;
        let wrong_head = adu.dst_eid != flow.to || is_other || is_part;
        let is_translated =
            adu.bundle_version.unwrap_or(7) != u32::from(flow.traffic.version().number());
        let wrong_life = adu.lifetime_ms.is_some_and(|lifetime_ms| {
            let more = u128::from(lifetime_ms).checked_sub(unit.lifetime.as_millis());
            // A lifetime of version 6 is in whole seconds, rounded up with what the creation time loses (docs/gateway.md).
            more.is_none_or(|more| more > 0 && !(is_translated && more < 2_000))
        });
        let ends = [at, flow.from];
        let have_clocks = ends.iter().all(|end| {
            let machine = self.machines.get(end.at());
            machine.is_some_and(|machine| machine.wall != Clock::None)
        });
        let late = moment.now.since(unit.expires() + moment.tolerance);
        if wrong_head || wrong_life {
            let sentence = format!(
                "{} is delivered as another bundle: {adu:?}",
                self.describe(name)
            );
            self.accuse("applications", sentence, &[at]);
        } else if have_clocks && !late.is_zero() {
            let sentence = format!(
                "{} is delivered {late:?} after its lifetime",
                self.describe(name)
            );
            self.accuse("late", sentence, &[at]);
        }
    }

    /// An application is given a status report, of which its node says this.
    pub(crate) fn judge_report(&mut self, at: MachineIndex, adu: &BundleAdu, payload: &[u8]) {
        let moment = self.moment();
        let from: Option<dhow_bundle::EndpointId> = adu.src_eid.parse().ok();
        let Some(dhow_bundle::EndpointId::Ipn { node, .. }) = from else {
            let sentence = format!("node {} has a report of {}", self.name(at), adu.src_eid);
            return self.accuse("reports", sentence, &[at]);
        };
        let record = (adu.bundle_version.unwrap_or(7).into(), payload);
        let Some(voyages) = &mut self.voyages else {
            return;
        };
        if let Err(wrong) = voyages.handle_report(node, record, &self.ledger, moment) {
            self.accuse_wrong(at, wrong);
        }
    }

    /// Octets leave one side of a link: its radios do nothing else then, and the batteries at both ends have energy for it.
    pub(crate) fn judge_sending(&mut self, (number, from): (u32, Side), leaving: Leaving) {
        let now = self.now;
        let Some(road) = self.roads.get(road_at(number)) else {
            return;
        };
        let (sender, receiver) = (road.machine(from), road.machine(from.other()));
        // The set-up of a connection takes no time.
        let time = leaving.ends.since(leaving.begins);
        let channel = road.channel.filter(|_| !time.is_zero());
        let burst = channel.map(|channel| Burst {
            link: number,
            channel,
            from: sender,
            to: receiver,
            begins: leaving.begins,
            ends: leaving.ends,
        });
        if let Some(other) = burst.and_then(|burst| self.airtime.handle_sent(now, burst)) {
            let [one, another] = [other.from, other.to].map(|at| self.name(at));
            let what = format!(
                "sends to {} while their channel is busy: {one} sends to {another}",
                self.name(receiver)
            );
            self.accuse_wrong(sender, ("airtime", what));
        }
        for (at, is_sending) in [(sender, true), (receiver, false)] {
            let empty = self.energy.handle_use(now, at, (is_sending, time));
            if let Some(empty) = empty {
                let what = format!(
                    "{} although its battery has been empty for {empty:?}",
                    if is_sending { "sends" } else { "receives" }
                );
                self.accuse_wrong(at, ("energy", what));
            }
        }
    }

    /// One end of a connection broke a rule of the session's protocol.
    pub(crate) fn call_foul(&mut self, key: ConnectionKey, side: Side, foul: &Foul) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let ends = [side, side.other()].map(|side| connection.end(side).machine);
        let [speaker, listener] = ends.map(|at| self.name(at));
        let sentence = format!("in a session with {listener}, {speaker} {foul}");
        self.accuse("wire", sentence, &ends);
    }

    /// Looks whether both ends that are there have done their duties in time.
    pub(crate) fn check_time(&mut self, key: ConnectionKey) {
        let now = self.now;
        for side in [Side::Dialling, Side::Accepting] {
            let Some(connection) = self.connection(key) else {
                return;
            };
            let end = connection.end(side);
            let is_there = end.state == EndState::Open && self.lives(end.machine, end.life);
            if !is_there || connection.broken {
                continue;
            }
            let Some(connection) = self.connection_mut(key) else {
                return;
            };
            let wants = connection.end(side).way.wants;
            let has_unread = !connection.towards_mut(side).unread.is_empty();
            let Some(referee) = &mut connection.referee else {
                return;
            };
            if wants {
                referee.handle_blocked(side, Blocked::Writing, now);
            }
            if has_unread {
                referee.handle_blocked(side, Blocked::Reading, now);
            }
            if let Err(foul) = referee.check_time(side, now) {
                self.call_foul(key, side, &foul);
            }
        }
    }
}

/// The bundle that an application is given.
fn bundle_of(adu: &BundleAdu) -> Option<BundleName> {
    Some(BundleName::of(&BundleId {
        source: adu.src_eid.parse().ok()?,
        creation: CreationTimestamp {
            time: DtnTime::from_millis(adu.creation_timestamp_ms),
            sequence: adu.sequence_number,
        },
        fragment: None,
    }))
}
