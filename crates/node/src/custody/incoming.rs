//! Signals that came, run by run, until all bundles that they name were polled.

use alloc::collections::VecDeque;

use dhow_bundle::EndpointId;
use dhow_bundle::v7::admin::bibe::Disposition;

/// Runs of signals that were not polled to their end yet, at most.
pub(super) const RUNS_BOUND: usize = 65_536;

/// The node that gave the IDs of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Custody IDs of this node.
    Custodian,
    /// IDs of transmissions to this peer.
    Peer(EndpointId),
}

/// A run of IDs, as far as it was not polled yet.
#[derive(Debug)]
pub(super) struct Signalled {
    pub(super) source: Source,
    pub(super) disposition: Disposition,
    first: u64,
    last: u64,
}

impl Signalled {
    pub(super) const fn new(
        source: Source,
        disposition: Disposition,
        (first, last): (u64, u64),
    ) -> Self {
        Self {
            source,
            disposition,
            first,
            last,
        }
    }

    pub(super) const fn run(&self) -> (u64, u64) {
        (self.first, self.last)
    }

    /// The rest begins behind this ID; false where there is none.
    pub(super) const fn go_on_behind(&mut self, id: u64) -> bool {
        if id >= self.last {
            return false;
        }
        self.first = id.saturating_add(1);
        true
    }
}

/// All of them, in order.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    runs: VecDeque<Signalled>,
}

impl Incoming {
    /// Keeps the runs of a signal; false where there is no room for all, and none is kept.
    pub(super) fn push(&mut self, runs: impl ExactSizeIterator<Item = Signalled>) -> bool {
        let has_room = self.runs.len().saturating_add(runs.len()) <= RUNS_BOUND;
        if has_room {
            self.runs.extend(runs);
        }
        has_room
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Signalled> {
        self.runs.front_mut()
    }

    pub(super) fn pop(&mut self) {
        self.runs.pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn memory_octets(&self) -> usize {
        self.runs.capacity() * size_of::<Signalled>()
    }
}
