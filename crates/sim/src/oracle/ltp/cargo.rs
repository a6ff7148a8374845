//! The bundles of a block, one behind the other (docs/ltp.md).

use std::sync::Arc;

use super::spans::Spans;
use crate::oracle::Parcel;

/// The octets of a block that are known, and the bundles in them.
#[derive(Debug, Default)]
pub(super) struct Cargo {
    octets: Vec<u8>,
    pub(super) known: Spans,
    /// The place of the bundle that has begun and not ended.
    begin: usize,
    parcel: Option<Arc<Parcel>>,
    is_nonsense: bool,
    /// Its octets are of no interest any more, and are not here.
    is_forgotten: bool,
    /// Bundles of which all is known.
    pub(super) whole: Vec<Arc<Parcel>>,
}

/// Something about a bundle in a block.
pub(super) enum Step {
    /// Its blocks, or the fault of octets that are no bundle.
    Read(Result<Arc<Parcel>, String>),
    /// All of it, with its octets.
    Whole(Arc<Parcel>, Vec<u8>),
}

impl Cargo {
    /// More octets; whether those that are known already are the same.
    pub(super) fn add(&mut self, offset: u64, octets: &[u8]) -> (Vec<Step>, bool) {
        if self.is_forgotten {
            return (Vec::new(), true);
        }
        let Ok(start) = usize::try_from(offset) else {
            return (Vec::new(), false);
        };
        let end = start.saturating_add(octets.len());
        if self.octets.len() < end {
            self.octets.resize(end, 0);
        }
        let to = offset.saturating_add(count(octets));
        let place = self.octets.get_mut(start..end).unwrap_or_default();
        let mut is_same = true;
        let mut at = 0;
        let index = |offset_in_block: u64| {
            usize::try_from(offset_in_block.saturating_sub(offset)).unwrap_or(usize::MAX)
        };
        // Between gaps are the octets that are known.
        for (from, until) in self.known.gaps(offset, to).into_iter().chain([(to, to)]) {
            let (from, until) = (index(from), index(until));
            is_same &= place.get(at..from) == octets.get(at..from);
            if let (Some(place), Some(octets)) =
                (place.get_mut(from..until), octets.get(from..until))
            {
                place.copy_from_slice(octets);
            }
            at = until;
        }
        self.known.add(offset, to);
        (self.look(), is_same)
    }

    /// Whether all bundles of a block of so many octets are known, and nothing else is in it.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        u64::try_from(self.begin) == Ok(length) && self.known.covers(0, length)
    }

    /// Nothing more of its octets is of interest.
    pub(super) fn forget(&mut self) {
        self.octets = Vec::new();
        (self.is_nonsense, self.is_forgotten) = (true, true);
    }

    fn look(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let known = usize::try_from(self.known.prefix()).unwrap_or(usize::MAX);
        while !self.is_nonsense {
            let octets = self.octets.get(self.begin..known).unwrap_or_default();
            let Some(parcel) = &self.parcel else {
                match Parcel::read(octets).transpose() {
                    Some(Ok(parcel)) if !octets.is_empty() => {
                        let parcel = Arc::new(parcel);
                        self.parcel = Some(Arc::clone(&parcel));
                        steps.push(Step::Read(Ok(parcel)));
                        continue;
                    }
                    Some(Err(what)) if !octets.is_empty() => {
                        self.is_nonsense = true;
                        steps.push(Step::Read(Err(what)));
                    }
                    _ => {}
                }
                break;
            };
            let length = usize::try_from(parcel.octets()).unwrap_or(usize::MAX);
            let Some(whole) = octets.get(..length) else {
                break;
            };
            steps.push(Step::Whole(Arc::clone(parcel), whole.to_vec()));
            self.begin = self.begin.saturating_add(length);
            self.whole.extend(self.parcel.take());
        }
        steps
    }
}

fn count(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_that_is_known_is_compared() {
        let mut cargo = Cargo::default();
        assert!(cargo.add(2, &[0xff, 3]).1);
        assert!(cargo.add(8, &[8]).1);
        assert!(!cargo.add(0, &[0xff, 1, 0xff, 4, 5]).1, "one in the middle");
        assert!(!cargo.add(5, &[5, 6, 7, 9]).1, "one at the end");
        assert!(cargo.add(0, &[0xff, 1, 0xff, 3, 5, 5, 6, 7, 8]).1);
        assert_eq!(cargo.octets, [0xff, 1, 0xff, 3, 5, 5, 6, 7, 8]);
    }

    #[test]
    fn what_leaves_once_more_when_all_is_over_is_no_fault() {
        let mut cargo = Cargo::default();
        assert!(cargo.add(0, &[0xff, 1, 2]).1);
        cargo.forget();
        assert!(cargo.add(0, &[0xff, 1, 2]).1);
        assert!(cargo.octets.is_empty());
    }
}
