//! The order of bundles that wait: by priority (RFC 5050 4.2), and among those of one priority flows, each of one source to one destination, take
//! turns.
//!
//! A bundle's place among those of its priority is a time that goes by octets (start-time fair queueing, Goyal, Vin, Cheng 1996): the time of
//! the bundle that left last, or, where its flow has brought more than has left since, behind the flow's bundles before. So a flow
//! that begins is next at once, however much waits of another, flows that wait leave by turns, an octet of each for one of every
//! other, and the bundles of a flow keep the order in which they came.

use alloc::collections::BTreeMap;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{Instant, Priority};

use crate::held::endpoints::EndpointIndex;

/// Flows of one priority that have brought more than has left are told apart up to this number; beyond it some share their turns. All
/// priorities together have twice as many at most.
const LANES: usize = 1024;

/// The cost of a bundle beside its octets.
const BUNDLE_OCTETS: u64 = 64;

/// Octets by which a flow is behind others, at most: those of a backlog that cannot leave do not count for ever.
const LEAD_OCTETS_MOST: u64 = 4 << 30;

/// Bits of a place among those of one priority. Octets of one run beyond them, 36 petabytes, leave in no order but that of priorities.
const PLACE_BITS: u32 = 55;

const PLACE_MOST: u64 = (1 << PLACE_BITS) - 1;

/// The order of a bundle in a queue: by its rank among priorities, and among those of one priority by its place.
pub(crate) fn order(priority: Priority, place: u64) -> u64 {
    u64::from(priority.rank()) << PLACE_BITS | place.min(PLACE_MOST)
}

/// The order of a bundle in a queue by expiry, in steps of half a microsecond.
pub(crate) fn expiry_order(priority: Priority, at: Instant) -> u64 {
    order(priority, at.as_nanos() >> (u64::BITS - PLACE_BITS))
}

/// The place among those of one priority.
pub(crate) const fn place_of(order: u64) -> u64 {
    order & PLACE_MOST
}

/// The priority of a bundle of this order.
pub(crate) fn priority_of(order: u64) -> Priority {
    Priority::of_rank(u16::try_from(order >> PLACE_BITS).unwrap_or(u16::MAX))
}

/// The places of flows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The place of what left last, of each priority of which something has left.
    now: BTreeMap<Priority, u64>,
    /// The next places of flows that are ahead of it.
    lanes: BTreeMap<(Priority, usize), u64>,
}

impl Turns {
    /// The order of a bundle that has come.
    pub(crate) fn place(
        &mut self,
        (source, destination): (EndpointIndex, EndpointIndex),
        priority: Priority,
        octets: u64,
    ) -> u64 {
        let priority = match planted(Mutant::PriorityIgnored) {
            true => Priority::Normal,
            false => priority,
        };
        let now = self.now.get(&priority).copied().unwrap_or(0);
        let next = self.lane((source, destination), priority, now);
        let place = now.max(*next);
        let behind = place
            .saturating_add(octets)
            .saturating_add(BUNDLE_OCTETS)
            .min(now.saturating_add(LEAD_OCTETS_MOST));
        // Each place is taken once by a flow.
        *next = behind.max(place.saturating_add(1));
        order(priority, place)
    }

    /// The next place of a flow.
    fn lane(
        &mut self,
        (source, destination): (EndpointIndex, EndpointIndex),
        priority: Priority,
        now: u64,
    ) -> &mut u64 {
        let mut lane = (priority, source.lane(destination, LANES));
        if self.lanes.len() >= LANES / 2 && !self.lanes.contains_key(&lane) {
            let clocks = &self.now;
            let now = |priority| clocks.get(&priority).copied().unwrap_or(0);
            self.lanes
                .retain(|(priority, _), next| *next > now(*priority));
        }
        let is_full = self.lanes.len() >= LANES && priority != Priority::Normal;
        if is_full && !self.lanes.contains_key(&lane) {
            // A source that gives bundles many priorities has few turns of each.
            lane.1 = 0;
        }
        self.lanes.entry(lane).or_insert(now)
    }

    /// The bundle of this order leaves.
    pub(crate) fn leave(&mut self, order: u64) {
        let now = self.now.entry(priority_of(order)).or_default();
        *now = (*now).max(order & PLACE_MOST);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use dhow_bundle::EndpointId;
    use proptest::prelude::*;

    use super::*;
    use crate::held::endpoints::tests::endpoints;

    /// Endpoints of so many nodes.
    fn indexes(count: u32) -> Vec<EndpointIndex> {
        let mut endpoints = endpoints();
        let id = |node| EndpointId::Ipn {
            allocator: 0,
            node,
            service: 1,
        };
        (1..=count)
            .map(|node| endpoints.acquire(&id(node)))
            .collect()
    }

    #[test]
    fn who_begins_is_next_however_much_waits_of_another() {
        let flows = indexes(3);
        let (mut turns, mut waiting) = (Turns::default(), BTreeSet::new());
        for number in 0..100_000 {
            waiting.insert((
                turns.place((flows[0], flows[2]), Priority::Normal, 10_000),
                'a',
                number,
            ));
        }
        for number in 0..100 {
            for _ in 0..50 {
                let (place, ..) = waiting.pop_first().unwrap();
                turns.leave(place);
            }
            waiting.insert((
                turns.place((flows[1], flows[2]), Priority::Normal, 100),
                'b',
                number,
            ));
            let before = waiting.iter().position(|it| it.1 == 'b').unwrap();
            assert!(before <= 1, "{before} bundles of another stand before it");
            waiting.retain(|it| it.1 != 'b');
        }
    }

    #[test]
    fn flows_that_wait_leave_octet_for_octet() {
        let flows = indexes(3);
        let (mut turns, mut waiting) = (Turns::default(), BTreeSet::new());
        for number in 0..20_000 {
            waiting.insert((
                turns.place((flows[0], flows[2]), Priority::Normal, 10_000),
                10_000,
                number,
            ));
        }
        for number in 0..20_000 {
            waiting.insert((
                turns.place((flows[1], flows[2]), Priority::Normal, 1_000),
                1_000,
                number,
            ));
        }
        let mut left = [0_i64; 2];
        for _ in 0..10_000 {
            let (place, octets, _) = waiting.pop_first().unwrap();
            turns.leave(place);
            left[usize::from(octets == 1_000)] += octets + 64;
            assert!((left[0] - left[1]).abs() <= 2 * 10_064, "{left:?}");
        }
    }

    proptest! {
        /// A flow's bundles keep their order, and none is passed by for ever: whatever waits leaves when those are gone that
        /// were there, and as many octets of each other flow as it may be behind.
        #[test]
        fn the_bundles_of_a_flow_keep_their_order(
            steps in proptest::collection::vec((0_usize..40, 0_u64..1 << 33, any::<bool>()), 1..2_000)
        ) {
            let flows = indexes(41);
            let (mut turns, mut waiting) = (Turns::default(), BTreeSet::new());
            let mut last = [None; 40];
            for (number, (flow, octets, leaves)) in steps.into_iter().enumerate() {
                if leaves {
                    if let Some((place, _)) = waiting.pop_first() {
                        turns.leave(place);
                    }
                    continue;
                }
                let place = turns.place((flows[flow], flows[40]), Priority::Normal, octets);
                prop_assert!(last[flow] < Some(place));
                prop_assert!(place & PLACE_MOST <= turns.now.get(&Priority::Normal).copied().unwrap_or(0) + LEAD_OCTETS_MOST + 2_000);
                last[flow] = Some(place);
                waiting.insert((place, number));
                prop_assert!(turns.lanes.len() <= LANES);
            }
        }
    }

    #[test]
    fn those_of_a_greater_priority_leave_first_and_each_priority_has_turns_of_its_own() {
        let flows = indexes(3);
        let mut turns = Turns::default();
        let come = |turns: &mut Turns, flow: usize, priority| {
            turns.place((flows[flow], flows[2]), priority, 10_000)
        };
        let all = [
            Priority::MOST,
            Priority::EXPEDITED,
            Priority::Normal,
            Priority::Bulk,
        ];
        let mut before = None;
        for priority in all {
            let orders: Vec<u64> = (0..100).map(|_| come(&mut turns, 0, priority)).collect();
            assert!(before < orders.first().copied() && orders.is_sorted());
            assert!(orders.iter().all(|it| priority_of(*it) == priority));
            before = orders.last().copied();
        }
        // Bundles of one priority that leave give nobody a later turn in another.
        for _ in 0..1_000 {
            let order = come(&mut turns, 0, Priority::EXPEDITED);
            turns.leave(order);
        }
        assert_eq!(
            come(&mut turns, 1, Priority::Bulk),
            order(Priority::Bulk, 0)
        );
        let late = Instant::from_nanos(u64::MAX);
        assert_eq!(
            priority_of(expiry_order(Priority::MOST, late)),
            Priority::MOST
        );
        assert_eq!(priority_of(order(Priority::Bulk, u64::MAX)), Priority::Bulk);
    }

    #[test]
    fn a_neighbour_that_marks_all_it_has_takes_a_bounded_table() {
        let flows = indexes(400);
        let mut turns = Turns::default();
        for rank in 0..dhow_bundle::priority::PRIORITIES {
            for &source in &flows {
                turns.place((source, flows[0]), Priority::of_rank(rank), 10_000);
            }
        }
        assert!(
            turns.lanes.len() <= 2 * LANES + 257,
            "{}",
            turns.lanes.len()
        );
    }
}
