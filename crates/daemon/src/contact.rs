//! `durability = "contact"`: while a contact lasts, bundles are acknowledged before they are on the disk.
//!
//! The flush comes when the last session of the contact is down, or when too much is owed. A power failure before
//! it loses what was acknowledged since the last flush, and nothing before.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::storage::StoreCommand;

/// The greatest age of octets that no flush covers.
pub const OWED_TIME_MAX: Duration = Duration::from_secs(60);

/// Octets that no flush covers, at most: about what a disk takes in a second or two.
pub const OWED_OCTETS_MAX: u64 = 256 << 20;

/// Whether flushes may be put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// Each batch is flushed before it is answered.
    AtOnce,
    /// During a contact, batches are answered before they are flushed.
    AfterContact,
}

/// The octets that the store's thread has still to flush, and since when.
#[derive(Debug)]
pub(crate) struct Debt {
    flushing: Flushing,
    since: Option<Instant>,
    octets: u64,
}

impl Debt {
    pub(crate) const fn new(flushing: Flushing) -> Self {
        Self {
            flushing,
            since: None,
            octets: 0,
        }
    }

    /// Octets of a batch, where they count.
    pub(crate) fn add(&mut self, now: Instant, batch: &[StoreCommand]) {
        if self.flushing == Flushing::AtOnce {
            return;
        }
        self.since.get_or_insert(now);
        let octets = batch.iter().map(StoreCommand::octets);
        self.octets = octets.fold(self.octets, u64::saturating_add);
    }

    /// True while a flush may be put off.
    pub(crate) fn may_grow(&self, now: Instant, contact: Contact) -> bool {
        self.flushing == Flushing::AfterContact
            && contact == Contact::On
            && self.octets < OWED_OCTETS_MAX
            && self
                .since
                .is_none_or(|since| now.since(since) < OWED_TIME_MAX)
    }

    /// The time for which the thread may wait for more; `None` when it owes nothing.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        Some(OWED_TIME_MAX.saturating_sub(now.since(since)))
    }

    /// A flush has covered everything.
    pub(crate) fn settle(&mut self) {
        self.since = None;
        self.octets = 0;
    }
}

/// Whether this node has a session with a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contact {
    /// The contact has begun.
    On,
    /// The contact is over.
    #[default]
    Over,
}
