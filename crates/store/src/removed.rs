//! Identifiers of bundles that are gone, kept so that a late copy is known for one.

use std::collections::VecDeque;

use dhow_bundle::{BundleId, DtnTime};

use crate::wire::{Reader, SharedEndpoints, length, put_id, put_varint};

/// One identifier as it stands in the log.
#[derive(Clone, Debug)]
struct Entry {
    expiry: u64,
    id: Box<[u8]>,
}

/// The identifiers, oldest first, bounded in number and in octets.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    entries: VecDeque<Entry>,
    octets: u64,
    /// At most so many.
    bound: usize,
    /// At most so many octets of the log: every checkpoint carries them.
    octets_bound: u64,
    /// Dropped before their time because of the bounds.
    pub(crate) dropped: u64,
}

impl Removed {
    /// None, of at most so many and so many octets.
    pub(crate) fn with_bounds(bound: usize, octets_bound: u64) -> Self {
        Self {
            bound,
            octets_bound,
            ..Self::default()
        }
    }

    /// Adds an identifier and writes it to a record's body.
    pub(crate) fn remember(&mut self, id: &BundleId, expiry: DtnTime, body: &mut Vec<u8>) {
        let mut encoded = Vec::with_capacity(32);
        put_id(&mut encoded, id);
        put_varint(body, expiry.as_millis());
        body.extend_from_slice(&encoded);
        self.push(expiry.as_millis(), encoded.into_boxed_slice());
    }

    fn push(&mut self, expiry: u64, id: Box<[u8]>) {
        self.octets += Self::entry_octets(&id);
        self.entries.push_back(Entry { expiry, id });
        while self.entries.len() > self.bound || self.octets > self.octets_bound {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.octets -= Self::entry_octets(&oldest.id);
            self.dropped += 1;
        }
    }

    /// Octets that an entry takes in a checkpoint, at most.
    fn entry_octets(id: &[u8]) -> u64 {
        10 + length(id.len())
    }

    /// Takes in what a record says; `None` when it is not a list of identifiers.
    pub(crate) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        shared: &mut SharedEndpoints,
    ) -> Option<()> {
        let count = reader.varint()?;
        for _ in 0..count {
            let expiry = reader.varint()?;
            let before = reader.0;
            reader.id(shared)?;
            let octets = before.get(..before.len() - reader.0.len())?;
            self.push(expiry, octets.into());
        }
        Some(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, length(self.entries.len()));
        for entry in &self.entries {
            put_varint(out, entry.expiry);
            out.extend_from_slice(&entry.id);
        }
    }

    /// Drops what has expired.
    pub(crate) fn prune(&mut self, now: DtnTime) {
        self.entries.retain(|entry| entry.expiry > now.as_millis());
        self.octets = self
            .entries
            .iter()
            .map(|entry| Self::entry_octets(&entry.id))
            .sum();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The identifiers with their expiries, oldest first.
    pub(crate) fn list(&self) -> Vec<(BundleId, DtnTime)> {
        let mut shared = SharedEndpoints::default();
        self.entries
            .iter()
            .filter_map(|entry| {
                Some((
                    Reader(&entry.id).id(&mut shared)?,
                    DtnTime::from_millis(entry.expiry),
                ))
            })
            .collect()
    }
}
