//! Octets given to the store that are not durable yet, by stream: the bound of the store's queue is for them.
//!
//! A stream may give more while its own octets are less than [`SHARE`] times the room that is left (dynamic thresholds, Choudhury,
//! Hahne 1998): one alone fills nearly the whole queue, several have equal parts of it, and there is always room for one that
//! has given nothing yet.

use alloc::collections::BTreeMap;

use dhow_bundle::storage::BundleKey;

use crate::driver::StreamId;
use crate::held::arrivals::Origin;

/// The shares of a stream in the room that is left in the queue: one alone has so many of one more parts.
const SHARE: u64 = 7;

/// Octets that wait for the disk.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    octets: u64,
    /// Octets of applications' requests.
    of_clients: u64,
    /// Octets of each stream that has given any.
    shares: BTreeMap<StreamId, u64>,
    /// Those of bundles that arrive no longer: the store has them until it answers the abandonment. Each waits with an
    /// octet at least, so there are no more than the queue has octets.
    abandoned: BTreeMap<BundleKey, (Origin, u64)>,
}

impl Backlog {
    /// Octets that wait.
    pub(crate) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of bundles that arrive no longer, and still wait.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn abandoned_octets(&self) -> u64 {
        self.abandoned.values().map(|(_, octets)| octets).sum()
    }

    /// Whether a neighbour's stream may give more where so many octets may wait.
    pub(crate) fn has_room(&self, stream: StreamId, most: u64) -> bool {
        self.shares.get(&stream).copied().unwrap_or(0)
            < most.saturating_sub(self.octets).saturating_mul(SHARE)
    }

    /// Whether an application's stream may give more where so many octets of applications may wait.
    pub(crate) fn has_room_for_client(&self, stream: StreamId, most: u64) -> bool {
        self.shares.get(&stream).copied().unwrap_or(0)
            < most.saturating_sub(self.of_clients).saturating_mul(SHARE)
    }

    /// The store was given octets.
    pub(crate) fn give(&mut self, origin: Origin, octets: u64) {
        self.octets = self.octets.saturating_add(octets);
        if let Origin::Client { .. } = origin {
            self.of_clients = self.of_clients.saturating_add(octets);
        }
        if let Some(stream) = origin.stream()
            && octets > 0
        {
            let share = self.shares.entry(stream).or_default();
            *share = share.saturating_add(octets);
        }
    }

    /// Octets are durable.
    pub(crate) fn settle(&mut self, origin: Origin, octets: u64) {
        self.octets = self.octets.saturating_sub(octets);
        if let Origin::Client { .. } = origin {
            self.of_clients = self.of_clients.saturating_sub(octets);
        }
        if let Some(stream) = origin.stream()
            && let Some(share) = self.shares.get_mut(&stream)
        {
            *share = share.saturating_sub(octets);
            if *share == 0 {
                self.shares.remove(&stream);
            }
        }
    }

    /// A bundle with so many octets that wait arrives no longer. They wait all the same.
    pub(crate) fn abandon(&mut self, key: BundleKey, origin: Origin, octets: u64) {
        if octets > 0 {
            self.abandoned.insert(key, (origin, octets));
        }
    }

    /// The store holds nothing of a bundle that was abandoned.
    pub(crate) fn release(&mut self, key: BundleKey) {
        if let Some((origin, octets)) = self.abandoned.remove(&key) {
            self.settle(origin, octets);
        }
    }

    /// Octets of all streams and of applications add up to no more than what waits.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_consistent(&self) -> bool {
        let of_streams: u64 = self.shares.values().sum();
        self.of_clients <= of_streams && of_streams <= self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjacencies::session_id::SessionId;
    use crate::api::seam::RequestId;

    fn client(stream: u64) -> Origin {
        Origin::Client {
            stream: StreamId(stream),
            request: RequestId(1),
        }
    }

    #[test]
    fn a_stream_that_has_given_nothing_finds_room_beside_one_that_gives_all_it_may() {
        for most in [0_u64, 1, 100, 4 << 20] {
            let mut backlog = Backlog::default();
            let portion = 1.max(most / 10_000);
            for stream in 1..=3 {
                let mut given = 0;
                while backlog.has_room_for_client(StreamId(stream), most) {
                    backlog.give(client(stream), portion);
                    given += portion;
                }
                assert!(backlog.octets() <= most, "{stream} of {most}");
                assert!(most < 1_000 || given > 0, "{stream} of {most}");
            }
            assert!(backlog.is_consistent());
        }
    }

    #[test]
    fn one_stream_alone_has_seven_eighths_of_the_queue() {
        let mut backlog = Backlog::default();
        while backlog.has_room(StreamId(1), 8000) {
            backlog.give(client(1), 1);
        }
        assert_eq!(backlog.octets(), 7000);
    }

    #[test]
    fn octets_of_neighbours_take_nothing_from_applications() {
        let mut backlog = Backlog::default();
        let neighbour = Origin::Neighbour {
            session: SessionId::over(StreamId(1)),
            transfer: dhow_link::stream::TransferId(0),
        };
        backlog.give(neighbour, 1 << 30);
        assert!(backlog.has_room_for_client(StreamId(2), 1));
        backlog.give(client(2), 1);
        assert!(!backlog.has_room_for_client(StreamId(2), 1));
        backlog.abandon(BundleKey(7), client(2), 1);
        backlog.release(BundleKey(7));
        assert!(backlog.has_room_for_client(StreamId(2), 1));
        assert!(backlog.is_consistent());
    }
}
