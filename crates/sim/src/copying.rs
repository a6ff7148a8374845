//! Copies that routers make, as links and disks show them.

use dhow_bundle::FragmentRange;
use dhow_bundle::router::DropPolicy;
use dhow_bundle::storage::BundleKey;

use crate::ledger::{BundleName, UnitName};
use crate::oracle::{Parcel, Rule, Seen};
use crate::queue::MachineIndex;
use crate::world::{World, machine};

impl World {
    /// A store says that it has a bundle durably.
    pub(crate) fn judge_spread(&mut self, at: MachineIndex, name: BundleName) {
        self.spreads.handle_stored(at, name);
        self.note_waiting(at, name);
        let Some(unit) = self.ledger.carried(name) else {
            return;
        };
        let flow = usize::try_from(unit.traffic).ok();
        let Some(flow) = flow.and_then(|place| self.traffic.get(place)) else {
            return;
        };
        let (from, to, destination) = (flow.from, flow.to_number, machine(flow.traffic.to.0));
        let is_fragmented = self.ledger.record(name).fragmented;
        let found = self.spreads.too_many((from, to), destination, name);
        if let Some(nodes) = found.filter(|_| !is_fragmented) {
            let what = format!(
                "{} has been at {nodes} nodes beside its destination's, which are more than may have copies",
                self.describe(unit)
            );
            self.accuse("copies", what, &[at]);
        }
    }

    /// A bundle passes over a link, from or to one end, whose other end has this node number.
    pub(crate) fn judge_copy(&mut self, at: MachineIndex, seen: &Seen, to: Option<u32>) {
        let Some(to) = to else { return };
        let is_whole = |parcel: &Parcel| parcel.fragment.is_none();
        match seen {
            Seen::Said(parcel) if is_whole(parcel) => {
                let is_routed = self.rule_of(at, parcel.name).is_some();
                if is_routed && self.spreads.was_given(at, parcel.name, to) {
                    let what = format!(
                        "gives node {to} a copy of a bundle that this node had from it before"
                    );
                    self.accuse_wrong(at, ("copies", what));
                }
            }
            Seen::Acknowledged(parcel, octets)
                if is_whole(parcel) && *octets == parcel.octets() =>
            {
                // One that is refused as complete may be forgotten, where the session dies before the segment under way has ended. So may one that is given
                // before it is durable here.
                let mut held = self.kept.named(at, parcel.name);
                if held.any(|(_, fact)| fact.part.is_none()) {
                    self.spreads.handle_given(at, parcel.name, to);
                }
            }
            _ => {}
        }
    }

    /// Whether the policy of a machine lets it delete a payload that nobody else has.
    pub(crate) fn may_lose(&self, at: MachineIndex, unit: UnitName) -> bool {
        let to = self.ledger.unit(unit).map(|unit| unit.to);
        let rule = to.and_then(|to| self.spreads.rule(at, to));
        rule.is_some_and(|rule| rule.drop.is_of_all())
    }

    /// The rule of a machine for a bundle, where a router decides about it.
    fn rule_of(&self, at: MachineIndex, name: BundleName) -> Option<Rule> {
        let unit = self.ledger.carried(name)?;
        self.spreads.rule(at, self.ledger.unit(unit)?.to)
    }

    /// A node asks its store to delete a bundle: the time that it was there counts, but at the node that it was for.
    pub(crate) fn count_store_time(&mut self, at: MachineIndex, key: BundleKey) {
        let Some(fact) = self.kept.fact(at, key) else {
            return;
        };
        let (since, is_part) = (fact.since, fact.part.is_some());
        let Some((_, unit)) = self.carried(fact.name) else {
            return;
        };
        let is_there = self.numbers.get(at.at()) == Some(&unit.to);
        if !is_there && !is_part {
            self.store_times.add(self.now.since(since));
        }
    }

    /// A node asks its store to delete a bundle of which routers make copies: somebody has said that it may.
    pub(crate) fn judge_dropping(&mut self, at: MachineIndex, key: BundleKey) {
        let Some(fact) = self.kept.fact(at, key).cloned() else {
            return;
        };
        let name = fact.name;
        self.spreads.handle_deleted(at, name);
        let Some((rule, (unit_name, unit))) = self.rule_of(at, name).zip(self.carried(name)) else {
            return;
        };
        let is_here = self.numbers.get(at.at()) == Some(&unit.to);
        let whole = FragmentRange {
            offset: 0,
            length: unit.octets,
        };
        let is_there = (self.voyages.as_ref()).is_none_or(|it| it.has_at(unit.to, name, whole));
        let has_another = self.kept.named(at, name).count() > 1;
        let is_of_others = fact.previous.is_some() && rule.drop != DropPolicy::None;
        let may_be_dropped = is_of_others || rule.drop.is_of_all();
        let is_rotten = self.ledger.record(name).rotten;
        if is_here
            || is_there
            || has_another
            || may_be_dropped
            || is_rotten
            || fact.part.is_some()
            || !self.is_alive(&fact, &unit)
        {
            return;
        }
        let sentence = format!(
            "{} is deleted at {}, which no policy lets do so before its destination has it",
            self.describe(unit_name),
            self.name(at)
        );
        self.accuse("dropped", sentence, &[at]);
    }
}
