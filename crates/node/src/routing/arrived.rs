//! Bundles that are where they were to go, here or elsewhere, and are held no more: neighbours need bring no copies of them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hasher as _;

use dhow_bundle::Instant;
use siphasher::sip::SipHasher24;

use super::AdvertKey;

/// Bundles of which neighbours are told, at most: those that came last.
const ARRIVED_BOUND: usize = 1_024;

/// The hash of a bundle's identity, as adverts have it (docs/adverts.md).
pub(crate) fn hash(key: &AdvertKey, identity: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(identity);
    hasher.finish()
}

/// The bundles that came last.
#[derive(Default)]
pub(super) struct Arrived {
    /// Their identities, as they are hashed, and when they expire.
    identities: VecDeque<(Vec<u8>, Instant)>,
    /// The bundles that ever came.
    count: u64,
}

impl Arrived {
    /// A bundle is where it was to go, and expires then.
    pub(super) fn add(&mut self, identity: Vec<u8>, until: Instant) {
        if self.identities.len() >= ARRIVED_BOUND {
            self.identities.pop_front();
        }
        self.identities.push_back((identity, until));
        self.count += 1;
    }

    /// The bundles that ever came.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The hashes of those that came since there were so many and have not expired, the newest first.
    pub(super) fn hashes(
        &self,
        key: &AdvertKey,
        since: u64,
        now: Instant,
    ) -> impl Iterator<Item = u64> {
        let new = usize::try_from(self.count.saturating_sub(since)).unwrap_or(usize::MAX);
        let newest = self.identities.iter().rev().take(new);
        let live = newest.filter(move |(_, until)| *until > now);
        live.map(|(identity, _)| hash(key, identity))
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        let identities = self
            .identities
            .iter()
            .map(|(identity, _)| identity.capacity());
        self.identities.capacity() * size_of::<(Vec<u8>, Instant)>() + identities.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_of_those_that_came_since_and_of_no_more_than_the_last() {
        let mut arrived = Arrived::default();
        let key = [7; 16];
        for number in 0..2_000_u32 {
            let until = Instant::from_nanos(number.into());
            arrived.add(number.to_be_bytes().to_vec(), until);
        }
        assert_eq!(arrived.count(), 2_000);
        let told = |since, now| arrived.hashes(&key, since, Instant::from_nanos(now));
        let expected = [1_999_u32, 1_998].map(|number| hash(&key, &number.to_be_bytes()));
        assert_eq!(Vec::from_iter(told(1_998, 0)), expected);
        assert_eq!(told(0, 0).count(), 1_024);
        assert_eq!(told(2_000, 0).count(), 0);
        assert_eq!(told(0, 1_990).count(), 9, "the others have expired");
    }
}
