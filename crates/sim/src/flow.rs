//! Traffic: when payloads are sent, and what is said about them.

use dhow_bundle::Instant;
use dhow_node::api::wire::BundleAdu;
use dhow_scenario::scenario::Pace;

use crate::application::Role;
use crate::ledger::{Confirmation, Ledger, Unit, UnitName};
use crate::queue::Happening;
use crate::world::{Flow, World};

impl Flow {
    /// The next payload, as it is given to a node.
    pub(crate) fn next(
        &mut self,
        ledger: &mut Ledger,
        now: Instant,
        number: u32,
    ) -> Option<(UnitName, Unit, BundleAdu)> {
        let size = self.traffic.size;
        let unit = Unit {
            octets: size.min + self.entropy.below(size.max - size.min + 1),
            sent: now,
            lifetime: self.traffic.lifetime,
            accepted: None,
            delivered: None,
            confirmation: Confirmation::None,
            bundle: None,
        };
        let name = ledger.send(number, unit)?;
        let adu = BundleAdu {
            dst_eid: self.to.clone(),
            payload_length: unit.octets,
            lifetime_ms: Some(u64::try_from(unit.lifetime.as_millis()).unwrap_or(u64::MAX)),
            ..BundleAdu::default()
        };
        Some((name, unit, adu))
    }
}

impl World {
    /// It is time to send; while the node is down, applications wait for it.
    pub(crate) fn traffic(&mut self, number: u32) {
        let position = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(flow) = self.traffic.get_mut(position) else {
            return;
        };
        let count = match flow.traffic.pace {
            Pace::AtOnce => flow.left.take().unwrap_or(0),
            Pace::Constant(_) | Pace::Mean(_) => {
                if flow.left == Some(0) {
                    return;
                }
                let count = flow.left.unwrap_or(u64::MAX).min(flow.traffic.burst);
                flow.left = flow.left.map(|left| left - count);
                let after = match flow.traffic.pace {
                    Pace::Mean(mean) => flow.entropy.exponential(mean),
                    Pace::Constant(every) => every,
                    Pace::AtOnce => return,
                };
                self.queue
                    .push(self.now + after, Happening::Traffic(number));
                count
            }
        };
        let from = flow.from;
        let Some(machine) = self.machines.get_mut(from.at()) else {
            return;
        };
        let role = Role::Sender { traffic: number };
        let mut applications = machine.blueprint.applications.iter_mut();
        if let Some(sender) = applications.find(|it| it.role == role) {
            sender.due += count;
        }
        self.connect_applications(from);
        self.turn(from);
    }
}
