//! Octets that arrive before others which precede them: kept as they come, and joined where nothing is missing between.

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extent, GAPS, StoreRefusal};

use crate::arriving::{Arriving, Opening};
use crate::error::Trouble;
use crate::store::Store;
use crate::wire::{index, length};

impl Arriving {
    /// The places of all that was written, in no order.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Extent> {
        let behind = self.behind.values().flat_map(|part| &part.extents);
        self.extents.iter().chain(behind).chain(&self.former)
    }

    /// The first range from `at` on of which nothing is there, before `end`: its start, and how long it is.
    fn missing(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        let mut at = at.max(self.octets());
        if let Some((start, part)) = self.behind.range(..=at).next_back() {
            at = at.max(start + part.octets());
        }
        // Parts do not touch each other, so one that ended here is the last that did.
        let next = self.behind.range(at..).next().map(|(start, _)| *start);
        let end = next.map_or(end, |next| end.min(next));
        (at < end).then(|| (at, end - at))
    }

    /// Puts octets where nothing is; the start of the part that they became part of.
    fn place(&mut self, at: u64, octets: Bytes) -> Option<u64> {
        if at == self.octets() {
            self.push(octets.into());
            return None;
        }
        let before = self.behind.range_mut(..at).next_back();
        match before.filter(|(start, part)| **start + part.octets() == at) {
            Some((start, part)) => {
                part.push(octets.into());
                Some(*start)
            }
            None => {
                self.behind.entry(at).or_default().push(octets.into());
                Some(at)
            }
        }
    }
}

impl Store {
    pub(crate) fn handle_append_at(&mut self, key: BundleKey, at: u64, octets: Bytes) {
        if self.opening(key) != Opening::Open {
            return;
        }
        if self.failure.is_some() {
            return self.refuse(key, StoreRefusal::Disk);
        }
        let mut arriving = self.take_arriving(key).unwrap_or_default();
        let added = self.add_at(&mut arriving, at, octets);
        let gaps = arriving.behind.len();
        self.arriving.insert(key, arriving);
        match added {
            Err(trouble) => self.refuse_after(key, trouble),
            Ok(()) if gaps > GAPS => self.refuse(key, StoreRefusal::Gaps),
            Ok(()) => {}
        }
    }

    fn add_at(&mut self, arriving: &mut Arriving, at: u64, octets: Bytes) -> Result<(), Trouble> {
        let end = at.saturating_add(length(octets.len()));
        let mut from = at;
        while let Some((start, count)) = arriving.missing(from, end) {
            let first = index(start - at);
            let piece = octets.slice(first..first + index(count));
            let part = arriving.place(start, piece);
            self.join(arriving, part)?;
            from = start + count;
        }
        Ok(())
    }

    /// Joins a part (or the beginning) of a bundle with the one that follows it without a gap.
    fn join(&mut self, arriving: &mut Arriving, part: Option<u64>) -> Result<(), Trouble> {
        let Some(start) = part else {
            if let Some(next) = arriving.behind.remove(&arriving.octets()) {
                self.join_two(arriving, next)?;
            }
            return Ok(());
        };
        let Some(mut first) = arriving.behind.remove(&start) else {
            return Ok(());
        };
        let next = arriving.behind.remove(&(start + first.octets()));
        let joined = match next {
            Some(next) => self.join_two(&mut first, next),
            None => Ok(()),
        };
        arriving.behind.insert(start, first);
        joined
    }

    /// Adds a part that follows without a gap.
    fn join_two(&mut self, first: &mut Arriving, next: Arriving) -> Result<(), Trouble> {
        let written = match next.has_written() {
            true => self.write_pending(first),
            false => Ok(()),
        };
        // After a failure, too, nothing that was written is forgotten.
        first.take_in(next);
        written
    }
}
