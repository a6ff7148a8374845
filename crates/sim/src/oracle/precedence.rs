//! Bundles leave a node in the order of their priority (docs/priority.md), and among those of one priority that go by a router the ones for the neighbour's
//! own node before all others (docs/routing.md).
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
use dhow_scenario::scenario::Node;

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
    /// Whether a router decides about it there.
    pub is_routed: bool,
    /// The instant from which on it waits.
    pub since: Instant,
    /// The instant from which on it may be dropped.
    pub expires: Instant,
}

/// A bundle that a machine has begun to send.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Its name.
    pub name: BundleName,
    /// The priority that its application asked for.
    pub priority: Priority,
    /// The number of the node that it is for.
    pub to: u32,
    /// Whether a router decides about it there.
    pub is_routed: bool,
}

/// The bundles that wait, by machine and the number of the node that they are for.
#[derive(Debug, Default)]
pub struct Precedence {
    waiting: BTreeMap<(u32, MachineIndex), BTreeMap<BundleName, Waiting>>,
    /// Bundles of which something has left a machine.
    left: BTreeSet<(MachineIndex, BundleName)>,
    /// Whether bundles differ in priority.
    is_mixed: bool,
    /// Whether routers decide about bundles, and no store is ever full.
    is_routed: bool,
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
        let is_watched = !crashes && fits;
        Self {
            is_mixed: is_watched && is_mixed,
            is_routed: is_watched && !scenario.routing.is_empty() && has_room(scenario),
            ..Self::default()
        }
    }

    /// All of a bundle is on a machine's disk.
    pub fn handle_stored(&mut self, at: MachineIndex, name: BundleName, waiting: Waiting) {
        let is_watched = self.is_mixed || self.is_routed && waiting.is_routed;
        if !is_watched || self.left.contains(&(at, name)) {
            return;
        }
        let all = self.waiting.entry((waiting.to, at)).or_default();
        all.entry(name).or_insert(waiting);
    }

    /// A machine has started again: those that its disk has wait anew.
    pub fn handle_started(
        &mut self,
        at: MachineIndex,
        now: Instant,
        has: impl Fn(BundleName) -> bool,
    ) {
        let of_machine = self.waiting.iter_mut().filter(|((_, it), _)| *it == at);
        for (_, all) in of_machine {
            all.retain(|name, _| has(*name));
            for waiting in all.values_mut() {
                waiting.since = now;
            }
        }
    }

    /// A bundle is where it was to go, the node of this number: no copy of it need leave.
    pub fn handle_delivered(&mut self, name: BundleName, to: u32) {
        let [first, last] = [0, u32::MAX].map(|at| (to, MachineIndex(at)));
        for (_, all) in self.waiting.range_mut(first..=last) {
            all.remove(&name);
        }
    }

    /// A machine has begun to send a bundle to the node of a number, which was chosen after an instant. The bundle that was to leave before it
    /// comes back, with what is known of that. `may_go` says of a bundle whether it is still there, and not where it was to go.
    pub fn handle_said(
        &mut self,
        at: MachineIndex,
        leaving: Leaving,
        (to, chosen_since): (u32, Instant),
        may_go: impl Fn(BundleName) -> bool,
    ) -> Option<(BundleName, Waiting)> {
        let Leaving { name, priority, .. } = leaving;
        if !self.is_mixed && !self.is_routed {
            return None;
        }
        self.left.insert((at, name));
        if let Some(all) = self.waiting.get_mut(&(leaving.to, at)) {
            all.remove(&name);
        }
        let own = self.waiting.get(&(to, at))?;
        let is_for_others = leaving.is_routed && leaving.to != to;
        let is_direct = |it: &Waiting| {
            self.is_routed && it.is_routed && is_for_others && it.priority >= priority
        };
        let is_before = |(name, it): &(&BundleName, &Waiting)| {
            (self.is_mixed && it.priority > priority || is_direct(it))
                && it.since + WAITED < chosen_since
                && chosen_since + WAITED < it.expires
                && may_go(**name)
        };
        let found = own.iter().find(is_before);
        found.map(|(name, it)| (*name, *it))
    }
}

/// Whether no store of a scenario can be full, whatever comes.
fn has_room(scenario: &Scenario) -> bool {
    let octets = scenario.traffic.iter().map(|it| {
        let each = it.size.max.saturating_add(HEADER_OCTETS);
        it.count
            .map_or(u64::MAX, |count| count.saturating_mul(each))
    });
    let octets = octets.fold(0_u64, u64::saturating_add);
    // An eighth of each is for exchanges, and bundles come in several times.
    let has_room = |it: &Node| it.source_bundles.is_none() && it.quota_octets / 2 > octets;
    scenario.nodes.iter().all(has_room)
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
            is_mixed: true,
            is_routed: true,
            ..Precedence::default()
        }
    }

    fn waiting(priority: Priority, since: u64) -> Waiting {
        Waiting {
            priority,
            to: 2,
            is_routed: false,
            since: at(since),
            expires: at(100),
        }
    }

    fn leaving(name: u64, priority: Priority, to: u32) -> Leaving {
        Leaving {
            name: BundleName(name),
            priority,
            to,
            is_routed: true,
        }
    }

    #[test]
    fn what_leaves_before_a_bundle_of_a_greater_priority_is_found() {
        let mut precedence = watched();
        precedence.handle_stored(AT, BundleName(1), waiting(Priority::EXPEDITED, 10));
        let mut leaves = |priority, to, chosen| {
            precedence.handle_said(AT, leaving(2, priority, 2), (to, at(chosen)), |_| true)
        };
        assert!(leaves(Priority::Normal, 2, 20).is_some());
        assert!(leaves(Priority::Normal, 3, 20).is_none(), "to another");
        assert!(leaves(Priority::Normal, 2, 11).is_none(), "chosen before");
        assert!(leaves(Priority::EXPEDITED, 2, 20).is_none(), "as urgent");
        assert!(leaves(Priority::Normal, 2, 99).is_none(), "expired by then");
    }

    #[test]
    fn what_a_router_sends_before_bundles_for_the_neighbour_itself_is_found() {
        let mut precedence = watched();
        let routed = Waiting {
            is_routed: true,
            ..waiting(Priority::Normal, 10)
        };
        precedence.handle_stored(AT, BundleName(1), routed);
        let mut leaves = |leaving, may_go| {
            let said = (2, at(20));
            let found = precedence.handle_said(AT, leaving, said, |_| may_go);
            found.is_some()
        };
        assert!(leaves(leaving(9, Priority::Normal, 3), true));
        assert!(
            !leaves(leaving(9, Priority::Normal, 3), false),
            "it is gone"
        );
        assert!(!leaves(leaving(9, Priority::Normal, 2), true), "for it too");
        assert!(!leaves(leaving(9, Priority::EXPEDITED, 3), true));
        let by_route = Leaving {
            is_routed: false,
            ..leaving(9, Priority::Normal, 3)
        };
        assert!(!leaves(by_route, true));
        assert!(!leaves(leaving(1, Priority::Normal, 2), true));
        assert!(
            !leaves(leaving(9, Priority::Normal, 3), true),
            "it has left"
        );
    }

    #[test]
    fn a_bundle_that_left_or_is_where_it_was_to_go_waits_no_more() {
        let mut precedence = watched();
        let normal = leaving(9, Priority::Normal, 2);
        for name in [1, 2, 3] {
            let urgent = waiting(Priority::EXPEDITED, 10);
            precedence.handle_stored(AT, BundleName(name), urgent);
        }
        precedence.handle_said(AT, leaving(1, Priority::EXPEDITED, 2), (2, at(12)), |_| {
            true
        });
        precedence.handle_delivered(BundleName(2), 2);
        let said = |precedence: &mut Precedence, s| {
            precedence.handle_said(AT, normal, (2, at(s)), |_| true)
        };
        let found = said(&mut precedence, 20);
        assert_eq!(found.map(|it| it.0), Some(BundleName(3)));
        // A restart finds it, and it waits anew.
        precedence.handle_started(AT, at(30), |name| name == BundleName(3));
        assert!(said(&mut precedence, 30).is_none());
        assert!(said(&mut precedence, 32).is_some());
        precedence.handle_started(AT, at(40), |_| false);
        assert!(said(&mut precedence, 50).is_none());
    }
}
