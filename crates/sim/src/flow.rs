//! Traffic: the times at which payloads are sent, and the reports about them.

use dhow_bundle::{Instant, Priority, Version};
use dhow_node::api::wire::BundleAdu;
use dhow_scenario::Due;

use crate::application::Role;
use crate::ledger::{Confirmation, Ledger, Unit, UnitName};
use crate::queue::Occurrent;
use crate::world::{Flow, World};

impl Flow {
    /// The next payload, as it is given to a node.
    pub(crate) fn next(
        &mut self,
        ledger: &mut Ledger,
        now: Instant,
        number: u32,
    ) -> Option<(UnitName, Unit, BundleAdu)> {
        let unit = Unit {
            octets: self.ungiven.next()?.octets,
            sent: now,
            lifetime: self.traffic.lifetime,
            to: self.to_number,
            reports: self.traffic.reports,
            accepted: None,
            is_refused: false,
            delivered: None,
            confirmation: Confirmation::None,
            bundle: None,
        };
        let name = ledger.send(number, unit)?;
        let adu = BundleAdu {
            dst_eid: self.to.clone(),
            payload_length: unit.octets,
            lifetime_ms: Some(u64::try_from(unit.lifetime.as_millis()).unwrap_or(u64::MAX)),
            bundle_flags: Some(self.traffic.flags()).filter(|flags| *flags > 0),
            bundle_version: (self.traffic.version() != Version::V7)
                .then(|| self.traffic.version().number().into()),
            report_to_eid: self.reports_to.clone(),
            priority: self.said_priority(),
            ..BundleAdu::default()
        };
        Some((name, unit, adu))
    }

    /// The priority where the flags do not say it: those of version 6 do.
    fn said_priority(&self) -> Option<u32> {
        let priority = self.priority();
        let is_said = self.traffic.version() != Version::V7 || priority == Priority::Normal;
        (!is_said).then(|| priority.level().into())
    }

    /// The order in which its bundles leave nodes.
    pub(crate) fn priority(&self) -> Priority {
        self.traffic.class().into()
    }

    /// The number of payloads that are sent now, and the time for more.
    fn due(&mut self, now: Instant) -> (u64, Option<Instant>) {
        let at = |due: &Due| Instant::START + due.at;
        let mut count = 0;
        while self.due.next_if(|due| at(due) <= now).is_some() {
            count += 1;
        }
        (count, self.due.peek().map(at))
    }
}

impl World {
    /// The time has come to send; while the node is down, applications wait for it.
    pub(crate) fn traffic(&mut self, number: u32) {
        let position = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(flow) = self.traffic.get_mut(position) else {
            return;
        };
        let (count, next) = flow.due(self.now);
        if let Some(next) = next {
            self.queue.push(next, Occurrent::Traffic(number));
        }
        let from = flow.from;
        let Some(machine) = self.machines.get_mut(from.at()) else {
            return;
        };
        let role = Role::Sender { traffic: number };
        let mut applications = machine.blueprint.applications.iter_mut();
        if let Some(sender) = applications.find(|it| it.role == role) {
            sender.due += count;
        }
        if let Some(running) = &mut machine.running {
            running.may_request = true;
        }
        self.connect_applications(from);
        self.turn(from);
    }
}
