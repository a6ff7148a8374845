//! The order of bundles that wait: flows, each of one source to one destination, take turns.
//!
//! A bundle's place in its queue is a time that goes by octets (start-time fair queueing, Goyal, Vin, Cheng 1996): it is that of the
//! bundle that left last, or, where its flow has brought more than has left since, behind what the flow has brought. So a flow
//! that begins is next at once, however much waits of another, flows that wait leave by turns, an octet of each for one of every
//! other, and the bundles of a flow keep the order in which they came.

use alloc::collections::BTreeMap;

use crate::held::endpoints::EndpointIndex;

/// Flows that have brought more than has left are told apart up to this number; beyond it some share their turns.
const LANES: usize = 1024;

/// The cost of a bundle beside its octets.
const BUNDLE_OCTETS: u64 = 64;

/// Octets by which a flow is behind others, at most: those of a backlog that cannot leave do not count for ever.
const LEAD_OCTETS_MOST: u64 = 4 << 30;

/// The places of flows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The place of what left last.
    now: u64,
    /// The next places of flows that are ahead of it.
    lanes: BTreeMap<usize, u64>,
}

impl Turns {
    /// The place of a bundle that has come.
    pub(crate) fn place(
        &mut self,
        source: EndpointIndex,
        destination: EndpointIndex,
        octets: u64,
    ) -> u64 {
        let lane = source.lane(destination, LANES);
        if self.lanes.len() >= LANES / 2 && !self.lanes.contains_key(&lane) {
            let now = self.now;
            self.lanes.retain(|_, next| *next > now);
        }
        let next = self.lanes.entry(lane).or_insert(self.now);
        let place = self.now.max(*next);
        let behind = place
            .saturating_add(octets)
            .saturating_add(BUNDLE_OCTETS)
            .min(self.now.saturating_add(LEAD_OCTETS_MOST));
        // Each place is taken once by a flow.
        *next = behind.max(place.saturating_add(1));
        place
    }

    /// The bundle at this place leaves.
    pub(crate) fn leave(&mut self, place: u64) {
        self.now = self.now.max(place);
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
            waiting.insert((turns.place(flows[0], flows[2], 10_000), 'a', number));
        }
        for number in 0..100 {
            for _ in 0..50 {
                let (place, ..) = waiting.pop_first().unwrap();
                turns.leave(place);
            }
            waiting.insert((turns.place(flows[1], flows[2], 100), 'b', number));
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
            waiting.insert((turns.place(flows[0], flows[2], 10_000), 10_000, number));
        }
        for number in 0..20_000 {
            waiting.insert((turns.place(flows[1], flows[2], 1_000), 1_000, number));
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
                let place = turns.place(flows[flow], flows[40], octets);
                prop_assert!(last[flow] < Some(place));
                prop_assert!(place <= turns.now + LEAD_OCTETS_MOST + 2_000);
                last[flow] = Some(place);
                waiting.insert((place, number));
                prop_assert!(turns.lanes.len() <= LANES);
            }
        }
    }
}
