//! The bundles that a session is about to send, while their header blocks are read.

use alloc::collections::btree_map::{BTreeMap, Entry};

use dhow_bundle::Priority;

/// The number of bundles of each priority that have their header blocks read; no more than the window has room for. Those of lowest priority stand before
/// nobody, and are not counted.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    bundles: BTreeMap<Priority, usize>,
    /// Whether another bundle waits for the reads.
    holds_back: bool,
}

impl Reads {
    /// The store is asked for the header blocks of a bundle.
    pub(crate) fn begin(&mut self, priority: Priority) {
        if priority > Priority::Bulk {
            *self.bundles.entry(priority).or_default() += 1;
        }
    }

    /// The header blocks are there, or cannot be read. Whether others have waited for that.
    pub(crate) fn end(&mut self, priority: Priority) -> bool {
        if let Entry::Occupied(mut bundles) = self.bundles.entry(priority) {
            *bundles.get_mut() -= 1;
            if *bundles.get() == 0 {
                bundles.remove();
            }
        }
        core::mem::take(&mut self.holds_back)
    }

    /// Whether one of them goes before a bundle of this priority, which then waits: a large bundle whose blocks are read slowly, or that is cut into
    /// fragments then, would come behind others that were chosen later.
    pub(crate) fn hold_back(&mut self, priority: Priority) -> bool {
        let first = self.bundles.last_key_value();
        let is_before = first.is_some_and(|(first, _)| *first > priority);
        self.holds_back |= is_before;
        is_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_holds_back_others_of_lower_priority_and_says_when_it_does_no_more() {
        let mut reads = Reads::default();
        reads.begin(Priority::Bulk);
        assert!(!reads.hold_back(Priority::Bulk));
        reads.begin(Priority::Normal);
        assert!(!reads.hold_back(Priority::Normal));
        assert!(!reads.end(Priority::Bulk));
        assert!(reads.hold_back(Priority::Bulk));
        assert!(!reads.hold_back(Priority::EXPEDITED));
        assert!(reads.end(Priority::Normal));
        assert!(!reads.hold_back(Priority::Bulk));
        assert!(!reads.end(Priority::Normal));
    }
}
