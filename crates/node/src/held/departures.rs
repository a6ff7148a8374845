//! Bundles that left a moment ago and are remembered nowhere else, so that one which comes back at once rests all the same.
//!
//! The memory of removed bundles has a bound, which more bundles than that in a ring of nodes overrun: each is forgotten before
//! it is back. And bundles without a source have no identity. Here a digest of both is kept for a few seconds:
//! whatever takes longer to come back has been no burden meanwhile. A mistake costs a rest, and no bundle.

use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use dhow_bundle::{CreationTimestamp, EndpointId, FragmentRange, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Time for which a departure is known, at least; twice as long at most.
const PERIOD: Duration = Duration::from_secs(5);

/// Departures of one period, at most: 52,000 a second, beyond those that the memory of removed bundles has room for. With more
/// the oldest are forgotten sooner.
const BOUND: usize = 1 << 18;

/// The departures that are known.
pub(crate) struct Departures {
    /// Departures of this period, and of the one before.
    recent: [HashTable<u64>; 2],
    since: Instant,
    hasher: FixedState,
}

/// The marks that tell bundles apart.
#[derive(Hash)]
pub(crate) struct Mark<'a> {
    pub(crate) source: &'a EndpointId,
    pub(crate) creation: CreationTimestamp,
    pub(crate) fragment: Option<FragmentRange>,
    /// Destination, lifetime and octets of payload of one without a source: its creation timestamp is not its own.
    pub(crate) anonymous: Option<(&'a EndpointId, u64, u64)>,
}

impl Departures {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            recent: Default::default(),
            since: Instant::START,
            hasher: FixedState::with_seed(seed),
        }
    }

    /// A bundle has left.
    pub(crate) fn insert(&mut self, now: Instant, mark: &Mark<'_>) {
        self.turn(now);
        let [recent, _] = &mut self.recent;
        if recent.len() >= BOUND {
            self.since = now;
            self.recent.swap(0, 1);
        }
        let digest = self.digest(mark);
        let [recent, _] = &mut self.recent;
        if recent.len() >= BOUND {
            recent.clear();
        }
        if recent.find(digest, |&other| other == digest).is_none() {
            recent.insert_unique(digest, digest, |&digest| digest);
        }
    }

    /// Whether a bundle has left a moment ago.
    pub(crate) fn contains(&mut self, now: Instant, mark: &Mark<'_>) -> bool {
        if self.recent.iter().all(HashTable::is_empty) {
            return false;
        }
        self.turn(now);
        let digest = self.digest(mark);
        let has = |them: &HashTable<u64>| them.find(digest, |&other| other == digest).is_some();
        self.recent.iter().any(has)
    }

    /// A period may be over.
    fn turn(&mut self, now: Instant) {
        let passed = now - self.since;
        if passed < PERIOD {
            return;
        }
        self.since = now;
        self.recent.swap(0, 1);
        let [recent, before] = &mut self.recent;
        // Nodes that need this once need not keep its room.
        *recent = HashTable::new();
        if passed >= PERIOD * 2 {
            *before = HashTable::new();
        }
    }

    fn digest(&self, mark: &Mark<'_>) -> u64 {
        self.hasher.hash_one(mark)
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::DtnTime;

    use super::*;

    fn mark(sequence: u64) -> Mark<'static> {
        Mark {
            source: &EndpointId::Null,
            creation: CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence,
            },
            fragment: None,
            anonymous: None,
        }
    }

    #[test]
    fn a_departure_is_known_for_a_period_and_not_for_three() {
        for offset in 0..50 {
            let mut departures = Departures::new(1);
            let start = Instant::START + Duration::from_millis(offset * 137);
            departures.insert(Instant::START, &mark(0));
            departures.insert(start, &mark(1));
            for tenths in 0..=50 {
                let now = start + PERIOD * tenths / 50;
                let known = tenths == 50 || departures.contains(now, &mark(1));
                assert!(known, "{offset} {tenths}");
            }
            assert!(!departures.contains(start + PERIOD * 3, &mark(1)));
            assert!(!departures.contains(start, &mark(2)));
        }
    }

    #[test]
    fn the_last_so_many_departures_are_known_and_twice_as_many_at_most() {
        let mut departures = Departures::new(1);
        let bound = u64::try_from(BOUND).unwrap();
        for sequence in 0..bound * 3 {
            departures.insert(Instant::START, &mark(sequence));
            let held: usize = departures.recent.iter().map(HashTable::len).sum();
            assert!(held <= BOUND * 2);
        }
        for sequence in (bound * 2..bound * 3).step_by(1_000) {
            assert!(departures.contains(Instant::START, &mark(sequence)));
        }
        assert!(!departures.contains(Instant::START, &mark(0)));
    }
}
