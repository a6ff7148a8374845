//! Bundles leave a node in the order of their priority (docs/priority.md).
//!
//! A bundle waits for a neighbour where its destination is that neighbour's node, the disk has all of it, and nothing of it has left since. Its priority is
//! the one that its application asked for. The bundles that a session has in hand when it comes stand before it: so it counts from [`WAITED`]
//! on, and against bundles of which is known that they were chosen later.
//!
//! Two cases are not watched: a bundle that a restart found is compared with its checksums when its turn comes, and one that is larger than the next hop's
//! transfers is cut, and others may begin to leave meanwhile. So networks with either have no such oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dhow_bundle::v6;
use dhow_bundle::{Instant, Priority};
use dhow_scenario::Scenario;

use crate::ledger::BundleName;
use crate::queue::MachineIndex;

/// Time for which a bundle waits before others of lower priority may not be chosen.
const WAITED: Duration = Duration::from_secs(1);

/// Octets of a bundle beside its payload, at most.
const HEADER_OCTETS: u64 = 1024;

/// A bundle that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The priority that its application asked for.
    pub priority: Priority,
    /// The number of the node that it is for.
    pub to: u32,
    /// The instant from which on it waits.
    pub since: Instant,
    /// The instant from which on it may be dropped.
    pub expires: Instant,
}

/// The bundles that wait, by machine.
#[derive(Debug, Default)]
pub struct Precedence {
    waiting: BTreeMap<MachineIndex, BTreeMap<BundleName, Waiting>>,
    /// Bundles of which something has left a machine.
    left: BTreeSet<(MachineIndex, BundleName)>,
    /// Whether bundles differ in priority.
    is_watched: bool,
}

impl Precedence {
    /// The oracle for a scenario in which nothing has happened.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let mut traffic = scenario.traffic.iter();
        let is_mixed = traffic.any(|it| it.class() != v6::Priority::Normal);
        let crashes = scenario.faults.crash_every.is_some() || !scenario.crashes.is_empty();
        let least = scenario.nodes.iter().map(|it| it.transfer_mru).min();
        let mut traffic = scenario.traffic.iter();
        let fits = traffic.all(|it| least > Some(it.size.max.saturating_add(HEADER_OCTETS)));
        Self {
            is_watched: is_mixed && !crashes && fits,
            ..Self::default()
        }
    }

    /// All of a bundle is on a machine's disk.
    pub fn handle_stored(&mut self, at: MachineIndex, name: BundleName, waiting: Waiting) {
        if !self.is_watched || self.left.contains(&(at, name)) {
            return;
        }
        let all = self.waiting.entry(at).or_default();
        all.entry(name).or_insert(waiting);
    }

    /// A machine has started again: those that its disk has wait anew.
    pub fn handle_started(
        &mut self,
        at: MachineIndex,
        now: Instant,
        has: impl Fn(BundleName) -> bool,
    ) {
        if let Some(all) = self.waiting.get_mut(&at) {
            all.retain(|name, _| has(*name));
            for waiting in all.values_mut() {
                waiting.since = now;
            }
        }
    }

    /// A bundle is where it was to go: no copy of it need leave.
    pub fn handle_delivered(&mut self, name: BundleName) {
        for all in self.waiting.values_mut() {
            all.remove(&name);
        }
    }

    /// A machine has begun to send a bundle of this priority to the node of a number, which was chosen after an instant. The bundle that was to leave before it
    /// comes back, with what is known of that.
    pub fn handle_said(
        &mut self,
        at: MachineIndex,
        (name, priority): (BundleName, Priority),
        (to, chosen_since): (u32, Instant),
    ) -> Option<(BundleName, Waiting)> {
        if !self.is_watched {
            return None;
        }
        self.left.insert((at, name));
        let all = self.waiting.get_mut(&at)?;
        all.remove(&name);
        let is_before = |it: &Waiting| {
            it.to == to
                && it.priority > priority
                && it.since + WAITED < chosen_since
                && chosen_since + WAITED < it.expires
        };
        let found = all.iter().find(|(_, it)| is_before(it));
        found.map(|(name, it)| (*name, *it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: MachineIndex = MachineIndex(0);

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn watched() -> Precedence {
        Precedence {
            is_watched: true,
            ..Precedence::default()
        }
    }

    fn waiting(priority: Priority, since: u64) -> Waiting {
        Waiting {
            priority,
            to: 2,
            since: at(since),
            expires: at(100),
        }
    }

    #[test]
    fn what_leaves_before_a_bundle_of_a_greater_priority_is_found() {
        let mut precedence = watched();
        precedence.handle_stored(AT, BundleName(1), waiting(Priority::EXPEDITED, 10));
        let mut leaves = |priority, to, chosen| {
            let said = (BundleName(2), priority);
            precedence.handle_said(AT, said, (to, at(chosen)))
        };
        assert!(leaves(Priority::Normal, 2, 20).is_some());
        assert!(leaves(Priority::Normal, 3, 20).is_none(), "to another");
        assert!(leaves(Priority::Normal, 2, 11).is_none(), "chosen before");
        assert!(leaves(Priority::EXPEDITED, 2, 20).is_none(), "as urgent");
        assert!(leaves(Priority::Normal, 2, 99).is_none(), "expired by then");
    }

    #[test]
    fn a_bundle_that_left_or_is_where_it_was_to_go_waits_no_more() {
        let mut precedence = watched();
        let normal = (BundleName(9), Priority::Normal);
        for name in [1, 2, 3] {
            let urgent = waiting(Priority::EXPEDITED, 10);
            precedence.handle_stored(AT, BundleName(name), urgent);
        }
        precedence.handle_said(AT, (BundleName(1), Priority::EXPEDITED), (2, at(12)));
        precedence.handle_delivered(BundleName(2));
        let found = precedence.handle_said(AT, normal, (2, at(20)));
        assert_eq!(found.map(|it| it.0), Some(BundleName(3)));
        // A restart finds it, and it waits anew.
        precedence.handle_started(AT, at(30), |name| name == BundleName(3));
        assert!(precedence.handle_said(AT, normal, (2, at(30))).is_none());
        assert!(precedence.handle_said(AT, normal, (2, at(32))).is_some());
        precedence.handle_started(AT, at(40), |_| false);
        assert!(precedence.handle_said(AT, normal, (2, at(50))).is_none());
    }
}
