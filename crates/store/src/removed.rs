//! Identifiers of bundles that are gone, kept so that a late copy is known for one.

use dhow_bundle::{BundleId, DtnTime};

use crate::record::u64_at;
use crate::wire::{Reader, SharedEndpoints, index, length, put_id, put_varint};

/// Octets before an entry's identifier: how many it has, and its expiry.
const FRAME_OCTETS: usize = 16;

/// The identifiers, oldest first, bounded in number and in octets.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Entries one after the other: octets of the identifier, expiry, the identifier as it stands in the log.
    entries: Vec<u8>,
    /// The place of the oldest entry: before it are dropped ones.
    start: usize,
    count: usize,
    octets: u64,
    /// The bound of their number.
    bound: usize,
    /// The bound of their octets in the log: every checkpoint carries them.
    octets_bound: u64,
    /// Dropped before their time because of the bounds.
    pub(crate) dropped: u64,
}

/// One identifier with its expiry.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    expiry: u64,
    id: &'a [u8],
}

/// The entry at `start` and where the next one begins; `None` at the end.
fn entry_at(entries: &[u8], start: usize) -> Option<(Entry<'_>, usize)> {
    let first = start + FRAME_OCTETS;
    let end = first.saturating_add(index(u64_at(entries, start)?));
    let expiry = u64_at(entries, start + 8)?;
    let id = entries.get(first..end)?;
    Some((Entry { expiry, id }, end))
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

    fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut next = self.start;
        std::iter::from_fn(move || {
            let (entry, end) = entry_at(&self.entries, next)?;
            next = end;
            Some(entry)
        })
    }

    /// Adds an identifier and writes it to a record's body.
    pub(crate) fn remember(&mut self, id: &BundleId, expiry: DtnTime, body: &mut Vec<u8>) {
        put_varint(body, expiry.as_millis());
        let start = body.len();
        put_id(body, id);
        self.push(expiry.as_millis(), body.get(start..).unwrap_or_default());
    }

    fn push(&mut self, expiry: u64, id: &[u8]) {
        self.entries
            .extend_from_slice(&length(id.len()).to_le_bytes());
        self.entries.extend_from_slice(&expiry.to_le_bytes());
        self.entries.extend_from_slice(id);
        self.count += 1;
        self.octets += Self::entry_octets(id);
        while self.count > self.bound || self.octets > self.octets_bound {
            let Some((oldest, end)) = entry_at(&self.entries, self.start) else {
                break;
            };
            self.octets -= Self::entry_octets(oldest.id);
            self.count -= 1;
            self.dropped += 1;
            self.start = end;
        }
        // Each octet is moved once at most for one that is dropped.
        if self.start > self.entries.len() / 2 {
            self.entries.drain(..self.start);
            self.start = 0;
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
            self.push(expiry, octets);
        }
        Some(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, length(self.count));
        for entry in self.iter() {
            put_varint(out, entry.expiry);
            out.extend_from_slice(entry.id);
        }
    }

    /// Drops what has expired.
    pub(crate) fn prune(&mut self, now: DtnTime) {
        let before = std::mem::take(&mut self.entries);
        let mut next = std::mem::take(&mut self.start);
        (self.count, self.octets) = (0, 0);
        while let Some((entry, end)) = entry_at(&before, next) {
            if entry.expiry > now.as_millis() {
                self.push(entry.expiry, entry.id);
            }
            next = end;
        }
    }

    /// Octets of a checkpoint that they take, with so many more at most.
    pub(crate) fn octets_with(&self, more: u64) -> u64 {
        self.octets.saturating_add(more).min(self.octets_bound)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The identifiers with their expiries, oldest first.
    pub(crate) fn list(&self) -> Vec<(BundleId, DtnTime)> {
        let mut shared = SharedEndpoints::default();
        self.iter()
            .filter_map(|entry| {
                Some((
                    Reader(entry.id).id(&mut shared)?,
                    DtnTime::from_millis(entry.expiry),
                ))
            })
            .collect()
    }
}
