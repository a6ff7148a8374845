//! Custody of bundles, as the oracle of it is shown it: on links, where a store is asked to delete a bundle, and at the end.

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{FragmentRange, Instant};

use crate::ledger::{BundleName, Unit, UnitName};
use crate::oracle::{Fact, Seen, Told, Wrong};
use crate::queue::MachineIndex;
use crate::world::{World, machine};

impl World {
    /// Something about a bundle has passed a machine.
    pub(crate) fn judge_custody(&mut self, at: MachineIndex, seen: &Seen) -> Result<(), Wrong> {
        match seen {
            Seen::Said(parcel) => self.custodies.handle_said(at, parcel),
            Seen::SaidWhole(parcel, octets) if parcel.is_administrative() => {
                // One that ends early was given up.
                let is_whole = u64::try_from(octets.len()) == Ok(parcel.octets());
                if !is_whole || self.ledger.record(parcel.name).rotten {
                    return Ok(());
                }
                let payload = parcel.payload(octets);
                let told = self.custodies.handle_record(at, parcel, payload)?;
                let untrue = told
                    .into_iter()
                    .find(|told| !self.has_had_durably(at, *told));
                untrue.map_or(Ok(()), |(name, range)| {
                    Err(("custody", self.untrue(name, range)))
                })
            }
            Seen::HeardWhole(parcel) => {
                self.custodies.handle_heard_whole(at, parcel);
                Ok(())
            }
            Seen::Acknowledged(parcel, octets) => {
                self.custodies.handle_given(at, parcel, *octets);
                Ok(())
            }
            Seen::SaidWhole(..) | Seen::Nonsense(_) | Seen::Heard(_) | Seen::Acknowledges(..) => {
                Ok(())
            }
        }
    }

    /// Whether a machine has had some octets of a bundle durably, or they were delivered there.
    fn has_had_durably(&self, at: MachineIndex, (name, range): Told) -> bool {
        let station = self.voyages.as_ref().and_then(|it| it.station(at));
        let unit = self.carried(name);
        let Some((station, (_, unit))) = station.zip(unit) else {
            return true;
        };
        let range = range.unwrap_or(whole(&unit));
        let is_delivered = unit.to == station.number && unit.delivered.is_some();
        is_delivered || self.ledger.record(name).rotten || station.has_durably(name, range)
    }

    fn untrue(&self, name: BundleName, range: Option<FragmentRange>) -> String {
        let part = range.map_or("all", |_| "a part");
        let what = self.carried(name);
        let what = what.map_or_else(|| "a bundle".to_owned(), |(unit, _)| self.describe(unit));
        format!(
            "says to a custodian that it has {part} of {what}, which never was durable there (RFC 5050 5.10.1)"
        )
    }

    /// A store is asked to delete a bundle: whether its custodian may let it go.
    pub(crate) fn judge_letting_go(&mut self, at: MachineIndex, key: BundleKey) {
        let Some(fact) = self.kept.fact(at, key) else {
            return;
        };
        let name = fact.name;
        if !self.custodies.has(at, name) {
            return;
        }
        let Some((unit_name, unit)) = self.carried(name) else {
            return;
        };
        let is_here = self.numbers.get(at.at()) == Some(&unit.to);
        let range = fact.part.unwrap_or(whole(&unit));
        let kept = self.kept.named(at, name);
        let kept = kept.filter(|(other, _)| *other != key);
        let kept = kept.map(|(_, other)| other.part.unwrap_or(whole(&unit)));
        if is_here
            || !self.is_alive(fact, &unit)
            || self.custodies.may_let_go(at, (name, range), kept)
        {
            return;
        }
        let sentence = format!(
            "{}, of which {} is custodian, is deleted there, and nobody has told it to have it (RFC 5050 5.11)",
            self.describe(unit_name),
            self.name(at)
        );
        self.accuse("custody", sentence, &[at]);
    }

    /// At the end of a run that expects all to be delivered: no custodian holds what was delivered in the first half, and all of that half was
    /// of which somebody has had custody, whatever links have lost.
    pub(crate) fn find_custody_left(&mut self) {
        if !self.expects_all || self.now < self.end || self.voyages.is_none() {
            return;
        }
        let half = Instant::START + self.now.since(Instant::START) / 2;
        let mut wrong = Vec::new();
        for at in (0..self.machines.len()).map(machine) {
            let number = self.numbers.get(at.at()).copied();
            for fact in self.kept.facts(at) {
                let carried = self.carried(fact.name);
                let carried = carried.filter(|(_, unit)| Some(unit.to) != number);
                if let Some((name, unit)) = carried
                    && unit.delivered.is_some_and(|at| at < half)
                    && self.custodies.has(at, fact.name)
                    && self.is_of_use(fact)
                {
                    let what = self.describe(name);
                    let sentence = format!(
                        "{what} has been delivered, and {} still has custody of it",
                        self.name(at)
                    );
                    wrong.push((sentence, at));
                }
            }
        }
        let units = self.ledger.units();
        let undelivered = units.filter(|(_, unit)| {
            let is_kept = unit.bundle.is_some_and(|bundle| {
                self.custodies.is_kept(bundle) && !self.ledger.record(bundle).rotten
            });
            let is_due = unit.accepted.is_some_and(|at| at < half) && unit.delivered.is_none();
            is_kept && is_due && self.now + self.tolerance() < unit.expires()
        });
        let undelivered: Vec<UnitName> = undelivered.map(|(name, _)| name).collect();
        for (sentence, at) in wrong {
            self.accuse("custody", sentence, &[at]);
        }
        for name in undelivered {
            let sentence = format!(
                "{} is in custody and has not been delivered",
                self.describe(name)
            );
            self.accuse("custody", sentence, &[]);
        }
    }

    /// Whether a bundle may still be wanted: nobody has it, its time is not over, and its octets have not rotted.
    pub(crate) fn is_alive(&self, fact: &Fact, unit: &Unit) -> bool {
        unit.accepted.is_some() && unit.delivered.is_none() && self.is_of_use(fact)
    }

    /// The payload that a bundle carries.
    pub(crate) fn carried(&self, name: BundleName) -> Option<(UnitName, Unit)> {
        let unit = self.ledger.carried(name)?;
        Some((unit, *self.ledger.unit(unit)?))
    }
}

const fn whole(unit: &Unit) -> FragmentRange {
    FragmentRange {
        offset: 0,
        length: unit.octets,
    }
}
