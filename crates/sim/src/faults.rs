//! Faults of machines, disks and connections, by chance or by plan.

use std::time::Duration;

use dhow_bundle::{FragmentRange, Instant};
use dhow_node::driver::Event;
use dhow_scenario::scenario::{Clock, Fidelity};

use crate::dialling::road_at;
use crate::disk::Blow;
use crate::ledger::BundleName;
use crate::machine::Retry;
use crate::oracle::{Given, Hit};
use crate::queue::{Life, MachineIndex, Occurrent};
use crate::trace::What;
use crate::world::{Flow, World, machine};

/// The time for which applications that crashed are gone.
pub(crate) const CLIENTS_DOWN: Duration = Duration::from_secs(1);

/// The time after a disk was full in which its store may still refuse.
const FULL_AFTER: Duration = Duration::from_secs(3);

/// The time, at most, in which a store finds that others have taken room of its disk.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Flushes that it takes at most until then.
const CONFIRMING_FLUSHES: u32 = 8;

/// The time after which a node's disk has an application's confirmation of a delivery, where nothing is wrong with it.
const CONFIRMED_FOR: Duration = Duration::from_secs(2);

impl World {
    pub(crate) fn begin_faults(&mut self) {
        for at in 0..self.machines.len() {
            self.plan_crash(machine(at));
            self.plan_stall(machine(at));
            self.plan_client_crash(machine(at));
            // A machine without a disk has nothing that rots, and is never full.
            if self.fidelity == Fidelity::Octet {
                self.plan_rot(machine(at));
                self.plan_full(machine(at));
            }
        }
        for road in 0..self.roads.len() {
            self.plan_reset(u32::try_from(road).unwrap_or(u32::MAX));
        }
    }

    pub(crate) fn faults_are_over(&self) -> bool {
        let over = self.faults.until.map(|until| Instant::START + until);
        over.is_some_and(|over| self.now >= over)
    }

    /// Puts what happens by chance into the queue, unless faults are over by then.
    fn plan(&mut self, after: Option<Duration>, happening: Occurrent) {
        let Some(after) = after else { return };
        let at = self.now + after;
        let until = self.faults.until.map(|until| Instant::START + until);
        if until.is_none_or(|until| at < until) {
            self.queue.push(at, happening);
        }
    }

    fn plan_crash(&mut self, at: MachineIndex) {
        let entropy = self.chance.crash.get_mut(at.at());
        let after = entropy.zip(self.faults.crash_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::ChanceCrash(at));
    }

    fn plan_stall(&mut self, at: MachineIndex) {
        let entropy = self.chance.stall.get_mut(at.at());
        let after = entropy.zip(self.faults.stall_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::Stall(at));
    }

    fn plan_rot(&mut self, at: MachineIndex) {
        let entropy = self.chance.rot.get_mut(at.at());
        let after = entropy.zip(self.faults.rot_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::Rot(at));
    }

    fn plan_full(&mut self, at: MachineIndex) {
        let entropy = self.chance.full.get_mut(at.at());
        let after = entropy.zip(self.faults.full_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::Fill(at));
    }

    pub(crate) fn plan_reset(&mut self, road: u32) {
        let entropy = self.chance.reset.get_mut(road_at(road));
        let after = entropy.zip(self.faults.reset_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::Reset(road));
    }

    fn plan_client_crash(&mut self, at: MachineIndex) {
        let entropy = self.chance.client.get_mut(at.at());
        let after = entropy.zip(self.faults.client_crash_every);
        let after = after.map(|(entropy, mean)| entropy.exponential(mean));
        self.plan(after, Occurrent::ClientCrash(at));
    }

    /// All applications of a machine are gone from one instant to the next, whatever they have not confirmed.
    pub(crate) fn crash_clients(&mut self, at: MachineIndex) {
        self.plan_client_crash(at);
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let life = machine.life;
        let Some(running) = &mut machine.running else {
            return;
        };
        for application in &mut machine.blueprint.applications {
            if let Some(stream) = application.stream() {
                application.disconnect();
                running.inbox.push_back(Event::Disconnected { stream });
            }
        }
        let back = Occurrent::ClientBack(at, life);
        self.queue.push(self.now + CLIENTS_DOWN, back);
        self.turn(at);
    }

    /// Applications that crashed start again.
    pub(crate) fn return_clients(&mut self, at: MachineIndex, life: Life) {
        if self.lives(at, life) {
            self.connect_applications(at);
            self.turn(at);
        }
    }

    pub(crate) fn stall(&mut self, at: MachineIndex) {
        self.plan_stall(at);
        let (now, mean) = (self.now, self.faults.stall_for);
        let entropy = self.chance.stall.get_mut(at.at());
        let lasts = entropy.map(|entropy| entropy.exponential(mean));
        if let Some((machine, lasts)) = self.machines.get_mut(at.at()).zip(lasts) {
            machine.stalled = now + lasts;
            machine.troubled = machine.troubled.max(machine.stalled);
            self.counts.stalls += 1;
        }
    }

    /// A machine's clock jumps, whether it is up or not.
    pub(crate) fn step_clock(&mut self, number: u32) {
        let Some(step) = self.clock_steps.get(road_at(number)).copied() else {
            return;
        };
        let (now, at) = (self.now, self::machine(step.node.0));
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        if let Clock::Known { offset_ms, .. } = &mut machine.wall {
            *offset_ms = offset_ms.saturating_add(step.by_ms);
        }
        if let Some(running) = &mut machine.running {
            running.clock.step(machine.wall);
            let shown = running.clock.now(now).dtn.as_millis();
            self.note(at, What::ClockStepped, shown, &[]);
            self.turn(at);
        }
    }

    /// An octet of a disk changes, and the oracle of losses learns its place.
    pub(crate) fn rot(&mut self, at: MachineIndex) {
        self.plan_rot(at);
        let entropy = self.chance.rot.get_mut(at.at());
        let Some((machine, entropy)) = self.machines.get_mut(at.at()).zip(entropy) else {
            return;
        };
        let life = machine.life.0;
        let Some(place) = machine.storage.rot(entropy) else {
            return;
        };
        self.counts.rotted += 1;
        self.note(at, What::Rotted, place, &[]);
        if self.kept.handle_rot(at, place, &mut self.ledger) == Hit::Record {
            // The octets may have told of deliveries: those are not known any more once the node starts again.
            let here = |flow: &Flow| self::machine(flow.traffic.to.0) == at;
            for (traffic, _) in (0..).zip(&self.traffic).filter(|(_, flow)| here(flow)) {
                self.ledger.forget_confirmations(traffic, life);
            }
        }
    }

    pub(crate) fn fill_disk(&mut self, at: MachineIndex) {
        let mean = self.faults.full_for;
        let entropy = self.chance.full.get_mut(at.at());
        let lasts = entropy.map(|entropy| entropy.exponential(mean));
        if let Some((machine, lasts)) = self.machines.get_mut(at.at()).zip(lasts) {
            machine.storage.fill(true);
            machine.troubled = machine.troubled.max(self.now + lasts + FULL_AFTER);
            self.queue.push(self.now + lasts, Occurrent::Empty(at));
            let look = Occurrent::Look(at, machine.life);
            self.queue.push(self.now + LOOK_AFTER, look);
            self.counts.filled += 1;
            self.note(at, What::Full, 0, &[]);
        }
    }

    pub(crate) fn empty_disk(&mut self, at: MachineIndex) {
        self.plan_full(at);
        if let Some(machine) = self.machines.get_mut(at.at()) {
            machine.storage.fill(false);
            machine.troubled = machine.troubled.max(self.now + FULL_AFTER);
            let look = Occurrent::Look(at, machine.life);
            self.queue.push(self.now + LOOK_AFTER, look);
            self.note(at, What::Emptied, 0, &[]);
        }
    }

    /// From now on a machine's disk has room for a log of so many octets: others take the rest, or have given some back.
    pub fn limit_disk(&mut self, name: &str, octets: u64) {
        let found = self.machines.iter().position(|it| it.name == name);
        let at = found.map(machine);
        if let Some((at, machine)) = at.and_then(|at| Some((at, self.machines.get(at.at())?))) {
            machine.storage.limit(octets);
            let look = Occurrent::Look(at, machine.life);
            self.queue.push(self.now + LOOK_AFTER, look);
        }
    }

    /// Octets of bundles that a machine's node takes at present; `None` where none runs.
    #[must_use]
    pub fn quota_octets(&self, name: &str) -> Option<u64> {
        let machine = self.machines.iter().find(|it| it.name == name)?;
        Some(machine.running.as_ref()?.node.quota_octets())
    }

    /// Others have taken room of a disk or given it back: its store, which looks now and then, finds that.
    pub(crate) fn look_at_disk(&mut self, at: MachineIndex, life: Life) {
        if !self.lives(at, life) {
            return;
        }
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let mut told = Vec::new();
        machine.storage.tell_capacity(&mut told);
        if let Some(running) = &mut machine.running {
            running.inbox.extend(told.into_iter().map(Event::Store));
        }
        self.turn(at);
    }

    /// A store that refuses everything tries again, also when nothing is asked of it.
    pub(crate) fn retry_store(&mut self, at: MachineIndex, life: Life) {
        if !self.lives(at, life) {
            return;
        }
        if let Some(running) = self.running_mut(at) {
            running.retry = Retry::Due;
            self.note(at, What::Retried, 0, &[]);
            self.turn(at);
        }
    }

    pub(crate) fn chance_crash(&mut self, at: MachineIndex) {
        self.plan_crash(at);
        self.crash_for_a_while(at);
    }

    pub(crate) fn flush_crash(&mut self, at: MachineIndex, life: Life) {
        if self.lives(at, life) {
            self.crash_for_a_while(at);
        }
    }

    fn crash_for_a_while(&mut self, at: MachineIndex) {
        let mean = self.faults.crash_down;
        let entropy = self.chance.crash.get_mut(at.at());
        let down = entropy.map(|entropy| entropy.exponential(mean));
        self.crash(at, down.unwrap_or(mean));
    }

    pub(crate) fn planned_crash(&mut self, number: u32) {
        if let Some(crash) = self.crashes.get(road_at(number)).copied() {
            self.crash(machine(crash.node.0), crash.down);
        }
    }

    /// A machine is gone from one instant to the next, and comes back later. Octets that have left it by now arrive.
    fn crash(&mut self, at: MachineIndex, down: Duration) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        if !machine.stop() {
            return;
        }
        let blow = if machine.entropy.below(2) == 0 {
            Blow::Kill
        } else {
            Blow::Power
        };
        self.spreads.handle_crash(at);
        machine.storage.strike(blow, &mut machine.entropy);
        for application in &mut machine.blueprint.applications {
            application.disconnect();
        }
        let life = machine.life;
        let flush = machine.flush * CONFIRMING_FLUSHES;
        let up = now.since(Instant::START).checked_sub(CONFIRMED_FOR + flush);
        let settled = up.map(|up| Instant::START + up);
        if let Some(before) = settled.filter(|before| machine.troubled <= *before) {
            let here = |flow: &Flow| self::machine(flow.traffic.to.0) == at;
            for (traffic, _) in (0..).zip(&self.traffic).filter(|(_, flow)| here(flow)) {
                self.ledger.settle_confirmations(traffic, life.0, before);
            }
        }
        machine.most.crashes += 1;
        self.counts.crashes += 1;
        let what = match blow {
            Blow::Kill => What::Killed,
            Blow::Power => What::PowerFailed,
        };
        self.note(at, what, 0, &[]);
        for (key, side) in self.connections_of(at) {
            if blow == Blow::Power
                && let Some(connection) = self.connection_mut(key)
            {
                connection.end_mut(side).way.cut(now);
            }
            self.vanish(key, side);
            // The system of a process that is gone closes its connections; no power, no word.
            if blow == Blow::Kill {
                self.send_end(key, side);
            }
        }
        self.end_conversations(at, blow == Blow::Kill);
        self.queue.push(now + down, Occurrent::Start(at, life));
    }

    /// A machine starts, unless that was meant for an earlier life of it.
    pub(crate) fn start(&mut self, at: MachineIndex, life: Life) {
        let (now, tolerance) = (self.now, self.tolerance());
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        if machine.running.is_some() || machine.life != life {
            return;
        }
        let found = match machine.start(now) {
            Ok(found) => found,
            Err(error) => {
                let sentence = format!("the store of {} cannot be opened: {error}", machine.name);
                return self.accuse("kept", sentence, &[at]);
            }
        };
        let count = u64::try_from(found.bundles.len()).unwrap_or(u64::MAX);
        self.note(at, What::Started, count, &[]);
        if let Some(station) = self.voyages.as_mut().and_then(|it| it.station_mut(at)) {
            station.start(now);
            for (bundle, _) in &found.bundles {
                let length = bundle.payload_octets;
                let whole = FragmentRange { offset: 0, length };
                let range = bundle.id.fragment.unwrap_or(whole);
                station.store(BundleName::of(&bundle.id), range);
            }
        }
        self.note_waiting_anew(at);
        let times = (now, tolerance);
        let station = self.voyages.as_ref().and_then(|it| it.station(at));
        let given: Given<'_> = &|name, range| station.is_some_and(|it| it.has_given(name, range));
        let beside = (&mut self.ledger, given);
        let losses = self.kept.handle_recovery(at, found, beside, times);
        let how = format!(
            "was durable at {} and is gone after a restart",
            self.name(at)
        );
        self.accuse_lost(&losses.payloads, &how, Some(at));
        for id in losses.notes {
            let sentence = format!(
                "the note beside {id} that was durable at {} is gone after a restart",
                self.name(at)
            );
            self.accuse("kept", sentence, &[at]);
        }
        self.tell_carriers(at);
        self.connect_applications(at);
        self.refuse_old(at);
        self.turn(at);
    }
}
