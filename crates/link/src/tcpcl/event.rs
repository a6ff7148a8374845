//! Events on their way to the node.

use alloc::collections::VecDeque;

use crate::stream::LinkEvent;

/// Events that the node has not taken yet, counted, so that a session knows what the node has seen.
///
/// Their number is bounded by what one call of `handle_octets` can hold: a driver takes all events
/// before it hands over more octets.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<LinkEvent>,
    taken: u64,
}

impl Events {
    /// Add an event.
    pub(crate) fn push(&mut self, event: LinkEvent) {
        self.waiting.push_back(event);
    }

    /// Hand the oldest event to the node.
    pub(crate) fn take(&mut self) -> Option<LinkEvent> {
        let event = self.waiting.pop_front()?;
        self.taken = self.taken.saturating_add(1);
        Some(event)
    }

    /// Events that the node has taken since the session began.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// The value of `taken` once the node has taken all events there are.
    pub(crate) fn pushed(&self) -> u64 {
        self.taken
            .saturating_add(u64::try_from(self.waiting.len()).unwrap_or(u64::MAX))
    }

    /// Events not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
