//! Custody of bundles of version 6 ends where another node has them (RFC 5050 5.10, 6.1.2), and nowhere else.
//!
//! A custodian is a node that has named itself so in a bundle, or has told another custodian that it takes over. It may be rid of a bundle when
//! signals about all of its octets have come to it, or when a next hop in version 7 has them, where nobody sends a signal. The sender of such a
//! signal has had those octets durably. All of that is read from links and disks: no node is asked.

use std::collections::{BTreeMap, BTreeSet};

use dhow_bundle::{EndpointId, FragmentRange};

use super::voyage::{Parcel, SignalContent, Subject, Wrong, acknowledged, covers};
use crate::ledger::{BundleName, Named};
use crate::queue::MachineIndex;

/// Bundle processing control flag (RFC 5050 4.2): custody transfer is requested.
const CUSTODY_REQUESTED: u64 = 0x8;

/// The bundle, or a part of it, that a signal names; all of it where there is no range.
pub type Told = (BundleName, Option<FragmentRange>);

/// One machine, with regard to custody.
#[derive(Debug, Default)]
struct Custodian {
    /// Bundles of which it said that it has custody.
    has: BTreeSet<BundleName>,
    /// The bundles to which it gave its numbers.
    numbers: BTreeMap<u64, Told>,
    /// Ranges of bundles that it may let go.
    released: Named<Vec<FragmentRange>>,
    /// Bundles that it may let go as a whole.
    all_released: BTreeSet<BundleName>,
}

/// All machines, with regard to custody, and the signals that were ever sent.
#[derive(Debug)]
pub struct Custodies {
    machines: Vec<Custodian>,
    /// The numbers of the nodes.
    nodes: Vec<u32>,
    signals: BTreeMap<BundleName, Vec<Told>>,
}

impl Custodies {
    /// The oracle for machines with these node numbers.
    #[must_use]
    pub fn new(nodes: Vec<u32>) -> Self {
        let mut machines = Vec::new();
        machines.resize_with(nodes.len(), Custodian::default);
        Self {
            machines,
            nodes,
            signals: BTreeMap::new(),
        }
    }

    /// A machine has said the blocks of a bundle.
    ///
    /// # Errors
    /// It gives one of its numbers to two bundles.
    pub fn handle_said(&mut self, at: MachineIndex, parcel: &Parcel) -> Result<(), Wrong> {
        let node = self.nodes.get(at.at()).copied();
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return Ok(());
        };
        let is_its = parcel.custodian.as_ref().and_then(node_of) == node && node.is_some();
        if !is_its || parcel.flags & CUSTODY_REQUESTED == 0 {
            return Ok(());
        }
        machine.has.insert(parcel.name);
        let Some(number) = parcel.custody_number else {
            return Ok(());
        };
        let part = parcel.fragment.map(|_| parcel.range());
        let told = (parcel.name, part);
        match *machine.numbers.entry(number).or_insert(told) == told {
            true => Ok(()),
            false => Err((
                "custody",
                format!("gives number {number} of its custody to two bundles"),
            )),
        }
    }

    /// A machine has said all of an administrative record: the bundles that it says to have, where it is a custody signal.
    ///
    /// # Errors
    /// It is none, or names what the custodian never numbered.
    pub fn handle_record(
        &mut self,
        at: MachineIndex,
        parcel: &Parcel,
        payload: &[u8],
    ) -> Result<Vec<Told>, Wrong> {
        let node = self.nodes.get(at.at()).copied();
        if parcel.version != 6 || node_of(&parcel.source) != node {
            return Ok(Vec::new());
        }
        let read = SignalContent::read(payload).map_err(|what| ("passage", what))?;
        let Some(signal) = read.filter(|signal| signal.releases) else {
            return Ok(Vec::new());
        };
        let told = match signal.subject {
            Subject::One(name, range) => vec![(name, range)],
            Subject::Numbered(runs) => self.numbered(&parcel.destination, &runs)?,
        };
        if let Some(machine) = self.machines.get_mut(at.at()) {
            machine.has.extend(told.iter().map(|(name, _)| *name));
        }
        self.signals.insert(parcel.name, told.clone());
        Ok(told)
    }

    /// The bundles to which a custodian gave some numbers.
    fn numbered(&self, custodian: &EndpointId, runs: &[(u64, u64)]) -> Result<Vec<Told>, Wrong> {
        let machine = self.machine_of(custodian);
        let none = BTreeMap::new();
        let known = machine.map_or(&none, |machine| &machine.numbers);
        let mut told = Vec::new();
        for &(first, last) in runs {
            let before = told.len();
            told.extend(known.range(first..=last).map(|(_, told)| *told));
            let count = u64::try_from(told.len() - before).unwrap_or(u64::MAX);
            if count != last.saturating_sub(first).saturating_add(1) {
                let what = format!(
                    "tells {custodian} of numbers {first} to {last}, of which it gave {count}"
                );
                return Err(("custody", what));
            }
        }
        Ok(told)
    }

    /// A machine has heard all of a bundle, which may be a signal for it.
    pub fn handle_heard_whole(&mut self, at: MachineIndex, parcel: &Parcel) {
        let node = self.nodes.get(at.at()).copied();
        let told = self.signals.get(&parcel.name);
        let told = told.filter(|_| node_of(&parcel.destination) == node);
        if let Some((told, machine)) = told.zip(self.machines.get_mut(at.at())) {
            for &(name, range) in told {
                match range {
                    Some(range) => machine.released.entry(name).or_default().push(range),
                    None => drop(machine.all_released.insert(name)),
                }
            }
        }
    }

    /// A next hop has so many octets of a transfer of a machine, or they have left for where nobody acknowledges any.
    pub fn handle_given(&mut self, at: MachineIndex, parcel: &Parcel, octets: u64) {
        let range = acknowledged(parcel, octets).filter(|_| parcel.version == 7);
        if let Some((range, machine)) = range.zip(self.machines.get_mut(at.at()))
            && machine.has.contains(&parcel.name)
        {
            machine.released.entry(parcel.name).or_default().push(range);
        }
    }

    /// Whether a machine is custodian of a bundle, or was.
    #[must_use]
    pub fn has(&self, at: MachineIndex, name: BundleName) -> bool {
        let machine = self.machines.get(at.at());
        machine.is_some_and(|machine| machine.has.contains(&name))
    }

    /// Whether any machine is custodian of a bundle, or was.
    #[must_use]
    pub fn is_kept(&self, name: BundleName) -> bool {
        let mut machines = self.machines.iter();
        machines.any(|machine| machine.has.contains(&name))
    }

    /// Whether a machine may let go of some octets of a bundle, of which it keeps these.
    #[must_use]
    pub fn may_let_go(
        &self,
        at: MachineIndex,
        (name, range): (BundleName, FragmentRange),
        kept: impl Iterator<Item = FragmentRange>,
    ) -> bool {
        let Some(machine) = self.machines.get(at.at()) else {
            return true;
        };
        if !machine.has.contains(&name) || machine.all_released.contains(&name) {
            return true;
        }
        let released = machine.released.get(&name).into_iter().flatten();
        covers(released.copied().chain(kept), range)
    }

    fn machine_of(&self, endpoint: &EndpointId) -> Option<&Custodian> {
        let node = node_of(endpoint)?;
        let place = self.nodes.iter().position(|it| *it == node)?;
        self.machines.get(place)
    }
}

/// The number of an endpoint's node.
fn node_of(endpoint: &EndpointId) -> Option<u32> {
    match endpoint {
        EndpointId::Ipn {
            allocator: 0, node, ..
        } => Some(*node),
        _ => None,
    }
}
