//! The bundles that are traced and held, as far as the spans that follow need them.

use std::collections::BTreeMap;

use dhow_bundle::{FragmentRange, Instant};

use super::identity::TraceId;
use super::waiting::Waiting;

/// Bundles of one generation, at most: between one and two generations are known. Of an older bundle no wait is told, all else is.
const GENERATION: usize = 8_192;

/// A bundle, or a fragment of it.
pub(super) type Key = (TraceId, Option<(u64, u64)>);

/// The key of a bundle's trace and its place in its whole.
pub(super) fn key(trace: TraceId, fragment: Option<FragmentRange>) -> Key {
    (trace, fragment.map(|range| (range.offset, range.length)))
}

/// A bundle that is held.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// When its first octets and its last ones were here.
    pub(super) arrived: Option<(Instant, Instant)>,
    /// The time since which the bundle waits, and the reason.
    pub(super) waits: Option<(Instant, Option<Waiting>)>,
    /// An application has it in hand since then.
    pub(super) handed_over: Option<Instant>,
}

/// All that are known. Two generations bound them without a list of their ages.
#[derive(Debug, Default)]
pub(super) struct Known {
    young: BTreeMap<Key, Held>,
    old: BTreeMap<Key, Held>,
}

impl Known {
    /// A bundle, which is known from now on.
    pub(super) fn enter(&mut self, key: Key) -> &mut Held {
        if !self.young.contains_key(&key) {
            let held = self.old.remove(&key).unwrap_or_default();
            if self.young.len() >= GENERATION {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, held);
        }
        self.young.entry(key).or_default()
    }

    /// A bundle, where it is known.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Held> {
        match self.young.get_mut(key) {
            Some(held) => Some(held),
            None => self.old.get_mut(key),
        }
    }

    /// A bundle is held no longer.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Held> {
        let young = self.young.remove(key);
        let old = self.old.remove(key);
        young.or(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: usize) -> Key {
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&number.to_be_bytes());
        (TraceId(octets), None)
    }

    #[test]
    fn a_generation_at_least_and_two_at_most_are_known() {
        let mut known = Known::default();
        for at in 0..10 * GENERATION {
            known.enter(number(at)).handed_over = Some(Instant::START);
            let all = known.young.len() + known.old.len();
            assert!(all <= 2 * GENERATION, "{all}");
            let oldest = number((at + 1).saturating_sub(GENERATION));
            assert!(known.get_mut(&oldest).is_some(), "{at}");
        }
        assert!(known.get_mut(&number(0)).is_none());
    }

    #[test]
    fn a_bundle_that_is_entered_again_keeps_what_is_known_of_it() {
        let mut known = Known::default();
        known.enter(number(1)).handed_over = Some(Instant::START);
        for at in 2..GENERATION + 5 {
            known.enter(number(at));
        }
        assert!(known.enter(number(1)).handed_over.is_some());
        assert!(known.remove(&number(1)).is_some());
        assert!(known.remove(&number(1)).is_none());
    }
}
