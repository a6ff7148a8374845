//! The report of a violation, and the last look at a world.

use dhow_bundle::Instant;
use dhow_bundle::storage::StoredBundle;

use crate::datagrams::Air;
use crate::disk::Blow;
use crate::ledger::UnitName;
use crate::machine::Machine;
use crate::oracle::{Kept, Lost, Violation, overdue};
use crate::queue::MachineIndex;
use crate::world::{World, machine};

/// Violations that are kept with the steps that led to them, and the rest counted; later ones follow from them as a rule.
const VIOLATIONS_MAX: usize = 20;

impl World {
    /// Something is wrong.
    pub(crate) fn accuse(
        &mut self,
        oracle: &'static str,
        sentence: String,
        machines: &[MachineIndex],
    ) {
        self.accused += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation {
                oracle,
                at: self.now,
                sentence,
                machines: machines.to_vec(),
            });
        }
    }

    /// Payloads are nowhere any more, as seen at a machine.
    pub(crate) fn accuse_lost(&mut self, lost: &[Lost], how: &str, at: Option<MachineIndex>) {
        for lost in lost {
            let sentence = format!("{} {how}", self.describe(lost.unit));
            let mut machines: Vec<MachineIndex> = at.into_iter().collect();
            machines.extend(self.ends_of(lost.unit));
            self.accuse("kept", sentence, &machines);
        }
    }

    /// A payload in words.
    pub(crate) fn describe(&self, unit: UnitName) -> String {
        let flow = usize::try_from(unit.traffic)
            .ok()
            .and_then(|at| self.traffic.get(at));
        let names = flow.map_or_else(String::new, |flow| {
            format!(" from {} to {}", self.name(flow.from), flow.to)
        });
        format!(
            "payload {} of traffic {}{names}",
            unit.number + 1,
            unit.traffic + 1
        )
    }

    /// Finds status reports that were asked for and did not come, of nodes to which nothing happened, in a run in which all is to arrive.
    fn find_unreported(&mut self) {
        let Some(voyages) = self.voyages.as_ref().filter(|_| self.expects_all) else {
            return;
        };
        let loses = |air: &Air| air.on_sent().is_some();
        if self
            .roads
            .iter()
            .any(|it| it.air.as_deref().is_some_and(loses))
        {
            // A report may be lost as well.
            return;
        }
        let is_well = |it: &&Machine| it.most.crashes == 0 && it.troubled == Instant::START;
        let well = self.machines.iter().zip(&self.numbers);
        let well: Vec<u32> = well
            .filter(|(machine, _)| is_well(machine))
            .map(|(_, number)| *number)
            .collect();
        let rested = self.now >= self.end;
        let missing = voyages.unreported(&self.ledger, &well).next();
        if let Some((unit, from, status)) = missing.filter(|_| rested) {
            let sentence = format!(
                "{} was {status} at node {from}, which has not reported it",
                self.describe(unit)
            );
            let machines = self.ends_of(unit);
            self.accuse("reports", sentence, &machines);
        }
    }

    fn ends_of(&self, unit: UnitName) -> Vec<MachineIndex> {
        let flow = usize::try_from(unit.traffic)
            .ok()
            .and_then(|at| self.traffic.get(at));
        flow.map_or_else(Vec::new, |flow| vec![flow.from, machine(flow.traffic.to.0)])
    }

    /// The run is over: looks at the disks after all machines have lost their power.
    pub fn finish(&mut self) {
        let tolerance = self.tolerance();
        if self.expects_all && self.now >= self.end {
            for unit in overdue(&self.ledger, self.now, tolerance) {
                let sentence = format!("{} has not been delivered", self.describe(unit));
                let machines = self.ends_of(unit);
                self.accuse("arrives", sentence, &machines);
            }
        }
        self.find_unreported();
        self.find_custody_left();
        let mut found: Vec<StoredBundle> = Vec::new();
        for at in 0..self.machines.len() {
            let Some(it) = self.machines.get_mut(at) else {
                continue;
            };
            if it.stop() {
                it.storage.strike(Blow::Power, &mut it.entropy);
            }
            match it.storage.left(&it.blueprint.options) {
                Ok(left) => found.extend(left),
                Err(error) => {
                    let sentence = format!("the store of {} cannot be opened: {error}", it.name);
                    self.accuse("kept", sentence, &[machine(at)]);
                }
            }
        }
        let on_disks = found
            .iter()
            .map(|bundle| (&bundle.id, bundle.total_adu_octets));
        let mut lost = Kept::missing(on_disks, &self.ledger, (self.now, tolerance));
        lost.retain(|it| !(0..self.machines.len()).any(|at| self.may_lose(machine(at), it.unit)));
        self.accuse_lost(&lost, "was accepted and is on no disk", None);
    }
}
