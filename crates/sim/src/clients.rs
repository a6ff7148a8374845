//! Clients: the requests of applications to their node, and their reactions to its answers.

use dhow_bundle::Instant;
use dhow_node::api::wire::BundleAdu;
use dhow_node::driver::{Event, Purpose, StreamId};
use dhow_scenario::scenario::Fidelity;

use crate::application::{Answer, Heard, Role};
use crate::faults::CLIENTS_DOWN;
use crate::ledger::Confirmation;
use crate::oracle::{altered, redelivered};
use crate::payload::Payloads;
use crate::queue::{MachineIndex, Occurrent};
use crate::world::World;

/// Octets that an application writes or is written at once.
const CLIENT_CHUNK_OCTETS: usize = 256 * 1024;

/// Streams with this bit belong to applications; the others to connections.
pub(crate) const CLIENT: u64 = 1 << 63;

impl World {
    /// Gives the node octets that it has not taken, or something that an application wants to send; false when there is
    /// nothing that it takes.
    pub(crate) fn feed(&mut self, at: MachineIndex) -> bool {
        self.feed_unread(at) || self.feed_datagrams(at) || self.feed_request(at)
    }

    fn feed_request(&mut self, at: MachineIndex) -> bool {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return false;
        };
        let Some(running) = &mut machine.running else {
            return false;
        };
        if !running.may_request {
            return false;
        }
        running.may_request = false;
        let mut applications = machine.blueprint.applications.iter_mut();
        let sender = applications.find_map(|application| {
            let stream = application.stream()?;
            let wants = application.is_sending() || application.wants_to_send();
            running.may_request |= wants;
            let may = wants && running.node.takes_octets(stream);
            may.then_some((application, stream))
        });
        let Some((application, stream)) = sender else {
            return false;
        };
        if !application.is_sending() {
            let Role::Sender { traffic } = application.role else {
                return false;
            };
            let flow = usize::try_from(traffic)
                .ok()
                .and_then(|at| self.traffic.get_mut(at));
            let at_once = flow.as_ref().map_or(0, |flow| flow.traffic.at_once_octets);
            let next = flow.and_then(|flow| flow.next(&mut self.ledger, now, traffic));
            let Some((name, unit, adu)) = next else {
                application.due = 0;
                return false;
            };
            if unit.octets > machine.blueprint.config.quota_octets {
                // The node would refuse it, but only behind all of its octets.
                application.pass_over();
                self.heard(at, Heard::Refused(name));
                return true;
            }
            let payload = self.payloads.pieces(name, unit.octets);
            application.send(name, adu, payload, at_once);
        }
        let pieces = application.take_unsent(CLIENT_CHUNK_OCTETS);
        let events = pieces
            .into_iter()
            .map(|octets| Event::Octets { stream, octets });
        running.inbox.extend(events);
        true
    }

    /// Connects the applications of a machine that are not: at bundle fidelity, those that send only while they do.
    pub(crate) fn connect_applications(&mut self, at: MachineIndex) {
        let fidelity = self.fidelity;
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let Some(running) = &mut machine.running else {
            return;
        };
        for application in &mut machine.blueprint.applications {
            let unwanted = fidelity == Fidelity::Bundle && application.is_done();
            if unwanted || application.stream().is_some() {
                continue;
            }
            self.next_stream += 1;
            let stream = StreamId(CLIENT | self.next_stream);
            let purpose = Purpose::Client;
            let octets = application.connect(stream);
            running
                .inbox
                .push_back(Event::Connected { stream, purpose });
            running.inbox.push_back(Event::Octets { stream, octets });
        }
    }

    pub(crate) fn write_client(&mut self, at: MachineIndex, stream: StreamId) {
        let now = self.now;
        let crashes = self.faults.client_crash_every.is_some();
        let declined = match self.faults_are_over() {
            true => 0,
            false => self.faults.decline_per_billion,
        };
        loop {
            let Some(machine) = self.machines.get_mut(at.at()) else {
                return;
            };
            let gather = &mut self.gather;
            let octets = machine.poll_octets(now, stream, CLIENT_CHUNK_OCTETS, gather);
            let Some(octets) = octets else {
                return self.close_client(at, stream);
            };
            if octets.is_empty() {
                return;
            }
            let mut applications = machine.blueprint.applications.iter_mut();
            let Some(application) = applications.find(|it| it.stream() == Some(stream)) else {
                return;
            };
            let (mut heard, mut say) = (Vec::new(), Vec::new());
            let (per_billion, chance) = (declined, self.chance.client.get_mut(at.at()));
            let mut chance = chance.filter(|_| per_billion > 0);
            let mut answer = || {
                let chance = chance.as_deref_mut();
                let drawn = chance.map(|chance| (chance.happens(per_billion), chance.below(2)));
                match drawn {
                    Some((true, 0)) if crashes => Answer::Crash,
                    Some((true, _)) => Answer::Decline,
                    _ => Answer::Confirm,
                }
            };
            application.hear(octets, &mut heard, &mut say, &mut answer);
            let is_gone = application.stream().is_none();
            let hangs_up = self.fidelity == Fidelity::Bundle && application.is_done();
            if hangs_up {
                application.disconnect();
            }
            for heard in heard {
                self.heard(at, heard);
            }
            let life = self.machines.get(at.at()).map(|machine| machine.life);
            if let Some(life) = life.filter(|_| is_gone) {
                let back = Occurrent::ClientBack(at, life);
                self.queue.push(now + CLIENTS_DOWN, back);
            }
            if let Some(running) = self.running_mut(at) {
                running.may_request = true;
                let events = say
                    .into_iter()
                    .map(|octets| Event::Octets { stream, octets });
                running.inbox.extend(events);
                if hangs_up || is_gone {
                    running.inbox.push_back(Event::Disconnected { stream });
                    return;
                }
            }
        }
    }

    pub(crate) fn close_client(&mut self, at: MachineIndex, stream: StreamId) {
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let mut applications = machine.blueprint.applications.iter_mut();
        if let Some(application) = applications.find(|it| it.stream() == Some(stream)) {
            application.disconnect();
        }
        if let Some(running) = &mut machine.running {
            running.inbox.push_back(Event::Disconnected { stream });
        }
        let sentence = format!("node {} closes an application's connection", self.name(at));
        self.accuse("applications", sentence, &[at]);
    }

    fn heard(&mut self, at: MachineIndex, heard: Heard) {
        let now = self.now;
        match heard {
            Heard::Accepted(name, bundle) => {
                self.ledger.accepted += 1;
                self.ledger.record_mut(bundle).unit = Some(name);
                self.judge_accepted(at, name, bundle);
                if let Some(unit) = self.ledger.unit_mut(name) {
                    unit.accepted = Some(now);
                    unit.bundle = Some(bundle);
                }
            }
            Heard::Refused(name) => {
                self.ledger.refused += 1;
                if let Some(unit) = self.ledger.unit_mut(name) {
                    unit.is_refused = true;
                }
            }
            Heard::Delivered(adu, payload) => self.delivered(at, &adu, &payload, now),
            Heard::Reported(adu, payload) => {
                self.ledger.reports += 1;
                self.judge_report(at, &adu, &payload);
            }
            Heard::Nonsense(what) => {
                let sentence = format!("node {} tells an application: {what}", self.name(at));
                self.accuse("applications", sentence, &[at]);
            }
        }
    }

    fn delivered(&mut self, at: MachineIndex, adu: &BundleAdu, payload: &[u8], now: Instant) {
        let tolerance = self.tolerance();
        if let Some(sentence) = altered(&self.ledger, &self.payloads, payload) {
            return self.accuse("unaltered", sentence, &[at]);
        }
        let life = self
            .machines
            .get(at.at())
            .map_or(0, |machine| machine.life.0);
        let Some(name) = Payloads::name(payload) else {
            return;
        };
        self.judge_delivery(at, name, adu);
        let Some(unit) = self.ledger.unit_mut(name) else {
            return;
        };
        let again = redelivered(unit, life, (now, tolerance));
        unit.confirmation = Confirmation::Given(life, now);
        if unit.delivered.is_none() {
            unit.delivered = Some(now);
            if let Some(bundle) = unit.bundle {
                self.precedence.handle_delivered(bundle, unit.to);
            }
            self.ledger.delivered += 1;
        }
        if again {
            let sentence = format!(
                "{} was delivered again after it was confirmed",
                self.describe(name)
            );
            self.accuse("once", sentence, &[at]);
        }
    }
}
