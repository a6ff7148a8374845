//! A store that gets the bundles of an export: all of them or none.

use std::collections::HashSet;

use bytes::Bytes;
use dhow_bundle::storage::{
    BundleKey, Piece, StoreCommand, StoreEvent, StoreRefusal, StoredBundle,
};
use dhow_bundle::{BundleId, DtnTime};
use dhow_store::{Recovered, Store};

use super::check::{End, Taker, Verdict};

/// Octets that are handed to the store before it writes them for good.
const BATCH_OCTETS: u64 = 8 << 20;

/// Sequence numbers that the node may have given out after the export was made, at most.
const SEQUENCES_BEHIND: u64 = 1 << 32;

/// The outcome of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bundles that the store has now and had not before.
    pub imported: u64,
    /// Octets of the bundles.
    pub octets: u64,
    /// Bundles that it had already.
    pub known: u64,
    /// Bundles that are damaged in the export, and are not in the store.
    pub damaged: u64,
}

/// A store that gets bundles.
pub struct Importing {
    store: Store,
    known: HashSet<BundleId>,
    next: u32,
    first: u32,
    open: Option<StoredBundle>,
    open_octets: u64,
    batch: Vec<StoreCommand>,
    batch_octets: u64,
    refused: Option<StoreRefusal>,
    reserved: (DtnTime, u64),
    outcome: Outcome,
}

impl Importing {
    /// Imports into a store that was opened; bundles that it holds already are counted.
    #[must_use]
    pub fn into(store: Store, recovered: Recovered) -> Self {
        let reserved = (recovered.reserved_time, recovered.reserved_sequence);
        let mut known = HashSet::new();
        let mut next = 0;
        for (key, bundle, _) in recovered.bundles {
            next = key.0.saturating_add(1);
            known.insert(bundle.id);
        }
        Self {
            store,
            known,
            next,
            first: next,
            open: None,
            open_octets: 0,
            batch: Vec::new(),
            batch_octets: 0,
            refused: None,
            reserved,
            outcome: Outcome::default(),
        }
    }

    /// Remembers the identities of bundles that were removed, until they would have expired: copies that come late are known for such.
    pub fn remember(&mut self, removed: Vec<(BundleId, DtnTime)>) {
        for removed in removed {
            // Nothing is held under this key, so nothing but the identity is written.
            let (key, remember) = (BundleKey(self.next), Some(removed));
            self.give(StoreCommand::Delete { key, remember });
        }
        self.flush();
    }

    fn give(&mut self, command: StoreCommand) {
        self.batch_octets += command.octets();
        self.batch.push(command);
        if self.batch_octets >= BATCH_OCTETS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.batch_octets = 0;
        self.store.handle(self.batch.drain(..));
        let mut events = Vec::new();
        self.store.commit(&mut events);
        for event in events {
            if let StoreEvent::Refused { refusal, .. } = event {
                self.refused = self.refused.or(Some(refusal));
            }
        }
    }

    /// Ends it, once the whole export was read; with `End` of that the store has it all.
    ///
    /// # Errors
    /// When the store had no room or the disk failed: imported bundles are removed again.
    pub fn finish(mut self, end: Option<&End>) -> Result<Outcome, StoreRefusal> {
        if let Some(end) = end.filter(|_| self.refused.is_none()) {
            let time = self
                .reserved
                .0
                .max(DtnTime::from_millis(end.reserved_dtn_ms));
            let sequence = end.reserved_sequence.saturating_add(SEQUENCES_BEHIND);
            let sequence = self.reserved.1.max(sequence);
            self.give(StoreCommand::Reserve { time, sequence });
        }
        self.flush();
        let is_kept = end.is_some() && self.refused.is_none();
        if !is_kept {
            for key in self.first..self.next {
                let (key, remember) = (BundleKey(key), None);
                self.give(StoreCommand::Delete { key, remember });
            }
            self.flush();
        }
        let mut events = Vec::new();
        self.store.close(&mut events);
        match self.refused {
            Some(refusal) => Err(refusal),
            None => Ok(self.outcome),
        }
    }
}

impl Taker for Importing {
    fn begin(&mut self, bundle: StoredBundle) {
        self.open_octets = 0;
        match self.refused.is_none() && !self.known.contains(&bundle.id) {
            true => self.open = Some(bundle),
            false => self.outcome.known += u64::from(self.refused.is_none()),
        }
    }

    fn octets(&mut self, octets: &[u8]) {
        if self.open.is_some() {
            let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
            self.open_octets = self.open_octets.saturating_add(length);
            let (key, crc) = (BundleKey(self.next), None);
            let octets = Piece::Octets(Bytes::copy_from_slice(octets));
            self.give(StoreCommand::Append { key, octets, crc });
        }
    }

    fn end(&mut self, verdict: Verdict) {
        let Some(bundle) = self.open.take() else {
            return;
        };
        let key = BundleKey(self.next);
        self.next += 1;
        self.outcome.damaged += u64::from(matches!(verdict, Verdict::Damaged(_)));
        if verdict != Verdict::Sound {
            return self.give(StoreCommand::Abandon { key });
        }
        self.outcome.imported += 1;
        self.outcome.octets = self.outcome.octets.saturating_add(self.open_octets);
        self.known.insert(bundle.id.clone());
        let bundle = Box::new(bundle);
        self.give(StoreCommand::Commit { key, bundle });
    }
}
