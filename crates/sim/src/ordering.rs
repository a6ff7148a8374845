//! The order in which bundles leave, as links and disks show it.

use dhow_bundle::{FragmentRange, Instant, Priority};

use crate::ledger::{BundleName, Unit, UnitName};
use crate::oracle::{Leaving, Parcel, Waiting};
use crate::queue::MachineIndex;
use crate::world::World;

impl World {
    /// The priority that an application asked for.
    fn priority_of(&self, unit: UnitName) -> Option<Priority> {
        let flow = usize::try_from(unit.traffic).ok()?;
        Some(self.traffic.get(flow)?.priority())
    }

    /// Whether the disk of a machine has all of a bundle.
    fn has_whole(&self, at: MachineIndex, bundle: BundleName, unit: &Unit) -> bool {
        let station = self.voyages.as_ref().and_then(|it| it.station(at));
        let whole = FragmentRange {
            offset: 0,
            length: unit.octets,
        };
        station.is_some_and(|it| it.has_durably(bundle, whole))
    }

    /// A machine's disk has stored a bundle.
    pub(crate) fn note_waiting(&mut self, at: MachineIndex, bundle: BundleName) {
        let Some(name) = self.ledger.carried(bundle) else {
            return;
        };
        let found = self.ledger.unit(name).zip(self.priority_of(name));
        let Some((unit, priority)) = found else {
            return;
        };
        let is_routed = self.spreads.rule(at, unit.to).is_some();
        if priority == Priority::Bulk && !is_routed {
            return;
        }
        if unit.delivered.is_none() && self.has_whole(at, bundle, unit) {
            let waiting = Waiting {
                priority,
                to: unit.to,
                is_routed,
                since: self.now,
                expires: unit.expires(),
            };
            self.precedence.handle_stored(at, bundle, waiting);
        }
    }

    /// A machine has started again.
    pub(crate) fn note_waiting_anew(&mut self, at: MachineIndex) {
        let mut precedence = std::mem::take(&mut self.precedence);
        precedence.handle_started(at, self.now, |bundle| {
            let name = self.ledger.carried(bundle);
            let unit = name.and_then(|name| self.ledger.unit(name));
            let is_rotten = self.ledger.record(bundle).rotten;
            !is_rotten && unit.is_some_and(|unit| self.has_whole(at, bundle, unit))
        });
        self.precedence = precedence;
    }

    /// Whether a bundle is still in a machine's store, and not where it was to go.
    fn may_leave(&self, at: MachineIndex, bundle: BundleName) -> bool {
        let unit = self.ledger.carried(bundle);
        let Some(unit) = unit.and_then(|unit| self.ledger.unit(unit)) else {
            return false;
        };
        let whole = FragmentRange {
            offset: 0,
            length: unit.octets,
        };
        let voyages = self.voyages.as_ref();
        let is_there = voyages.is_none_or(|it| it.has_at(unit.to, bundle, whole));
        !is_there && self.kept.named(at, bundle).next().is_some()
    }

    /// A machine has begun to send a bundle to the node of a number, chosen after an instant.
    pub(crate) fn judge_order(
        &mut self,
        at: MachineIndex,
        parcel: &Parcel,
        (to, chosen_since): (Option<u32>, Instant),
    ) {
        let name = self.ledger.carried(parcel.name);
        let priority = name.and_then(|name| self.priority_of(name));
        let unit = name.and_then(|name| self.ledger.unit(name));
        let (Some(priority), Some(unit), Some(to)) = (priority, unit, to) else {
            return;
        };
        let leaving = Leaving {
            name: parcel.name,
            priority,
            to: unit.to,
            is_routed: self.spreads.rule(at, unit.to).is_some(),
        };
        let mut precedence = std::mem::take(&mut self.precedence);
        let found = precedence.handle_said(at, leaving, (to, chosen_since), |bundle| {
            self.may_leave(at, bundle)
        });
        self.precedence = precedence;
        // The fragments of a bundle that began to leave let those pass that are more urgent than most.
        let goes_on = |it: &Waiting| parcel.fragment.is_some() && it.priority <= Priority::Normal;
        let Some((bundle, before)) = found.filter(|(_, it)| !goes_on(it)) else {
            return;
        };
        let waits = match self.ledger.carried(bundle) {
            Some(unit) => self.describe(unit),
            None => "a bundle".to_owned(),
        };
        let waited = chosen_since.since(before.since);
        let which = match before.priority == priority {
            true => "for another node".to_owned(),
            false => format!("of priority {priority}"),
        };
        let what = format!(
            "{} begins to send node {to} a bundle {which} while {waits}, of priority {}, has waited for it for {waited:?}",
            self.name(at),
            before.priority
        );
        self.accuse("order", what, &[at]);
    }
}
