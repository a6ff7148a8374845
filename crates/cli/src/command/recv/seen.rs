//! Bundles that came already: a delivery whose confirmation was lost comes again.

use std::collections::{BTreeSet, VecDeque};

use dhow_bundle::BundleId;

/// Identities remembered: more than can be delivered without a confirmation before a node restarts;
/// about 8 MB.
const REMEMBERED: usize = 65_536;

/// The identities of the last bundles.
#[derive(Debug, Default)]
pub struct Seen {
    identities: BTreeSet<BundleId>,
    order: VecDeque<BundleId>,
}

impl Seen {
    /// True when this bundle came before.
    pub fn contains(&self, id: &BundleId) -> bool {
        self.identities.contains(id)
    }

    /// Remembers a bundle, and forgets the oldest when there are too many.
    pub fn insert(&mut self, id: &BundleId) {
        if !self.identities.insert(id.clone()) {
            return;
        }
        self.order.push_back(id.clone());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.identities.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId};

    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let id = |sequence| BundleId {
            source: EndpointId::Null,
            creation: CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence,
            },
            fragment: None,
        };
        let mut seen = Seen::default();
        for sequence in 0..=u64::try_from(REMEMBERED).unwrap() {
            seen.insert(&id(sequence));
            seen.insert(&id(sequence));
        }
        assert!(!seen.contains(&id(0)));
        assert!(seen.contains(&id(1)));
    }
}
