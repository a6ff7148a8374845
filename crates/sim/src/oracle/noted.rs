//! A note that a store has said to be durable is there after a restart, unless a later one is.

use std::collections::VecDeque;

use bytes::Bytes;
use dhow_bundle::storage::StoreRefusal;

/// The notes beside one bundle that a restart may find.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    /// The one that is durable, and those of which a disk that failed may have kept one.
    durable: Vec<Bytes>,
    /// Notes that the store was given after it and has not answered.
    pending: VecDeque<Bytes>,
}

impl Notes {
    /// Notes of which this one is durable.
    pub(super) fn new(durable: Bytes) -> Self {
        Self {
            durable: vec![durable],
            pending: VecDeque::new(),
        }
    }

    /// The store is given a note.
    pub(super) fn give(&mut self, note: Bytes) {
        self.pending.push_back(note);
    }

    /// The store answers the first of those that it has not answered.
    pub(super) fn settle(&mut self, refusal: Option<&StoreRefusal>) {
        let Some(note) = self.pending.pop_front() else {
            return;
        };
        match refusal {
            None => self.durable = vec![note],
            Some(StoreRefusal::Disk) => self.durable.push(note),
            Some(_) => {}
        }
    }

    /// Whether a restart may find this note.
    pub(super) fn allow(&self, found: &Bytes) -> bool {
        self.durable.contains(found) || self.pending.contains(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_durable_note_or_a_later_one_is_found() {
        let [none, first, second] = ["", "first", "second"].map(Bytes::from);
        let mut notes = Notes::new(none.clone());
        assert!(notes.allow(&none) && !notes.allow(&first));
        notes.give(first.clone());
        notes.give(second.clone());
        assert!(notes.allow(&none) && notes.allow(&first) && notes.allow(&second));
        notes.settle(None);
        assert!(!notes.allow(&none) && notes.allow(&first) && notes.allow(&second));
        notes.settle(Some(&StoreRefusal::Disk));
        assert!(notes.allow(&first) && notes.allow(&second));
        notes.give(none.clone());
        notes.settle(Some(&StoreRefusal::Full));
        assert!(!notes.allow(&none) && notes.allow(&second));
    }
}
