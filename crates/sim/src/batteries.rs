//! Batteries: the energy that looking for others, sending and receiving take, and hosts whose radios are silent until they are full again.
//!
//! A host whose battery is empty has no contact over any link. It runs on, and its applications with it.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_scenario::scenario::Battery as Kind;

use crate::dialling::road_at;
use crate::queue::{MachineIndex, Occurrent, Side};
use crate::world::World;

/// The least time from one look at a battery to the next, where it is not empty.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A microwatt takes a femtojoule in a nanosecond.
const FEMTO: u128 = 1_000;

/// A machine's battery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Battery {
    kind: Kind,
    /// Femtojoules that were left at a time.
    left: u128,
    at: Instant,
    /// When it is looked at next.
    looked_at: Instant,
    /// The time since which it has been empty.
    empty: Option<Instant>,
    /// The time for which the battery was empty, before that.
    silent: Duration,
}

impl Battery {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            left: u128::from(kind.energy_pj) * FEMTO,
            at: Instant::START,
            looked_at: Instant::from_nanos(u64::MAX),
            empty: None,
            silent: Duration::ZERO,
        }
    }

    /// Time has passed in which it looked for others.
    fn pass(&mut self, now: Instant) {
        if self.empty.is_none() {
            self.take(self.kind.scan_uw, now.since(self.at));
        }
        self.at = now;
    }

    fn take(&mut self, power_uw: u64, time: Duration) {
        let taken = u128::from(power_uw).saturating_mul(time.as_nanos());
        self.left = self.left.saturating_sub(taken);
    }

    /// When it is empty, if nothing is sent or received.
    fn lasts_until(&self) -> Option<Instant> {
        if self.left == 0 {
            return Some(self.at);
        }
        let nanos = self.left.div_ceil(u128::from(self.kind.scan_uw).max(1));
        let nanos = u64::try_from(nanos)
            .ok()
            .filter(|_| self.kind.scan_uw > 0)?;
        Some(self.at + Duration::from_nanos(nanos))
    }

    /// The energy that is left, picojoules.
    pub(crate) fn left_pj(&self, now: Instant) -> u64 {
        let mut then = *self;
        then.pass(now);
        u64::try_from(then.left / FEMTO).unwrap_or(u64::MAX)
    }

    /// The time for which it was empty.
    pub(crate) fn silent(&self, now: Instant) -> Duration {
        self.silent + self.empty.map_or(Duration::ZERO, |since| now.since(since))
    }
}

impl World {
    /// All batteries are full.
    pub(crate) fn begin_batteries(&mut self, kinds: impl Iterator<Item = Option<Kind>>) {
        let batteries: Vec<_> = kinds.map(|kind| kind.map(Battery::new)).collect();
        if batteries.iter().all(Option::is_none) {
            return;
        }
        self.batteries = batteries;
        for at in (0..).map(MachineIndex).take(self.batteries.len()) {
            let recharge = self.battery_mut(at).and_then(|it| it.kind.recharge);
            if let Some(every) = recharge {
                self.queue.push(self.now + every, Occurrent::Recharged(at));
            }
            self.watch_battery(at);
        }
    }

    pub(crate) fn battery(&self, at: MachineIndex) -> Option<&Battery> {
        self.batteries.get(at.at())?.as_ref()
    }

    fn battery_mut(&mut self, at: MachineIndex) -> Option<&mut Battery> {
        self.batteries.get_mut(at.at())?.as_mut()
    }

    /// One side of a link sends for a time, and the other receives.
    pub(crate) fn spend(&mut self, number: u32, from: Side, time: Duration) {
        if self.batteries.is_empty() {
            return;
        }
        let Some(road) = self.roads.get(road_at(number)) else {
            return;
        };
        let now = self.now;
        for (at, sends) in [
            (road.machine(from), true),
            (road.machine(from.other()), false),
        ] {
            if let Some(battery) = self.battery_mut(at) {
                battery.pass(now);
                let power = match sends {
                    true if planted(Mutant::SendingTakesNothing) => 0,
                    true => battery.kind.send_uw,
                    false => battery.kind.receive_uw,
                };
                battery.take(power, time);
                self.watch_battery(at);
            }
        }
    }

    /// A battery is looked at when it will be empty.
    fn watch_battery(&mut self, at: MachineIndex) {
        let now = self.now;
        let Some(battery) = self.battery_mut(at).filter(|it| it.empty.is_none()) else {
            return;
        };
        let Some(until) = battery.lasts_until() else {
            return;
        };
        let is_soon = until <= now || until + LOOK_AGAIN <= battery.looked_at;
        if is_soon && until < battery.looked_at {
            battery.looked_at = until.max(now);
            let look = battery.looked_at;
            self.queue.push(look, Occurrent::BatteryLooked(at));
        }
    }

    /// A battery may be empty.
    pub(crate) fn look_at_battery(&mut self, at: MachineIndex) {
        let now = self.now;
        let Some(battery) = self.battery_mut(at).filter(|it| it.looked_at == now) else {
            return;
        };
        battery.looked_at = Instant::from_nanos(u64::MAX);
        battery.pass(now);
        if battery.left > 0 || battery.empty.is_some() {
            return self.watch_battery(at);
        }
        if planted(Mutant::EmptyBatterySends) {
            return;
        }
        battery.empty = Some(now);
        let roads = self.machines.get(at.at()).map(|it| it.roads.clone());
        for number in roads.into_iter().flatten() {
            let Some(road) = self.roads.get_mut(road_at(number)) else {
                continue;
            };
            road.silent_ends += 1;
            if road.silent_ends == 1 && road.contacts > 0 {
                road.hidden_contacts = road.contacts;
                road.contacts = 0;
                self.close_road(number);
            }
        }
    }

    /// A battery is full.
    pub(crate) fn recharge(&mut self, at: MachineIndex) {
        let now = self.now;
        let Some(battery) = self.battery_mut(at) else {
            return;
        };
        let every = battery.kind.recharge;
        battery.pass(now);
        battery.left = u128::from(battery.kind.energy_pj) * FEMTO;
        battery.looked_at = Instant::from_nanos(u64::MAX);
        let empty = battery.empty.take();
        battery.silent += empty.map_or(Duration::ZERO, |since| now.since(since));
        if let Some(every) = every {
            self.queue.push(now + every, Occurrent::Recharged(at));
        }
        if empty.is_some() {
            let roads = self.machines.get(at.at()).map(|it| it.roads.clone());
            for number in roads.into_iter().flatten() {
                let Some(road) = self.roads.get_mut(road_at(number)) else {
                    continue;
                };
                road.silent_ends = road.silent_ends.saturating_sub(1);
                if road.silent_ends == 0 && road.hidden_contacts > 0 {
                    road.contacts = std::mem::take(&mut road.hidden_contacts);
                    self.open_road(number);
                }
            }
        }
        self.watch_battery(at);
    }
}
