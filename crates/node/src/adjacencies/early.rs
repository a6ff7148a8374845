//! Octets of an incoming transfer that came before others which precede them.
//!
//! They wait in memory until those have come. Long runs go to the store at their place where there are many
//! (`node/src/blocks.rs`), and only their lengths and checksums stay here.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::CrcType;
use dhow_bundle::crc::{CrcDigest, joined_crc32c};
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::GAPS;

use crate::memory::length;

/// Memory for an early piece beside its octets, so that pieces of one octet are not free.
const PIECE_OCTETS: u64 = 128;

/// Memory for a run, here and at the store.
const RUN_OCTETS: u64 = 512;

/// Shorter runs stay in memory, but for those that close the gap between two: each takes places in the store for as long as the bundle is there.
pub(super) const RUN_LEAST: u64 = 8 << 10;

/// The same where memory is scarce: runs that take much more here than in the store.
pub(super) const RUN_LEAST_PRESSED: u64 = 1 << 10;

/// Runs of one transfer take no more than this part of the room for early octets, so that there is room for pieces.
const RUNS_SHARE: u64 = 2;

/// Runs of one transfer, where its room is `room_octets`: they are apart from each other, so the store takes one for each of [`GAPS`], of which one
/// is for a run that is about to join two.
fn most_runs(room_octets: u64) -> usize {
    let most = usize::try_from(room_octets / RUNS_SHARE / RUN_OCTETS).unwrap_or(usize::MAX);
    most.min(GAPS.saturating_sub(1))
}

/// A look is due when octets of a transfer take so much more memory than they did after the last one: this part of all that early
/// octets may take, within bounds.
const STEP_SHARE: u64 = 256;
const STEP_LEAST: u64 = 64 << 10;
const STEP_MOST: u64 = 256 << 10;

/// Octets that follow each other and lie in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) octets: u64,
    pub(crate) crc32c: u32,
}

impl Run {
    /// Joins this run and the one behind it.
    fn joined(self, behind: Self) -> Self {
        Self {
            octets: self.octets.saturating_add(behind.octets),
            crc32c: joined_crc32c(self.crc32c, behind.crc32c, behind.octets),
        }
    }
}

/// Octets that came early.
#[derive(Debug)]
pub(super) enum Early {
    /// The octets are in memory.
    Piece(Bytes),
    /// The octets are in the store.
    Run(Run),
}

impl Early {
    fn octets(&self) -> u64 {
        match self {
            Self::Piece(octets) => length(octets.len()),
            Self::Run(run) => run.octets,
        }
    }

    /// The memory that it takes.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Piece(octets) => cost(length(octets.len())),
            Self::Run(_) => RUN_OCTETS,
        }
    }
}

/// The memory that a piece takes which has so many octets.
pub(super) const fn cost(octets: u64) -> u64 {
    octets.saturating_add(PIECE_OCTETS)
}

/// A transfer of which some octets have come.
#[derive(Debug)]
pub(super) struct Coming {
    /// Octets that the node has, from the start.
    pub(super) given: u64,
    early: BTreeMap<u64, Early>,
    /// Early octets, wherever they are.
    octets: u64,
    memory_octets: u64,
    runs: usize,
    /// Memory at which a look is due.
    due: u64,
    step: u64,
}

impl Coming {
    /// Nothing has come; early octets of all transfers may take so much memory.
    pub(super) fn new(room_octets: u64) -> Self {
        let step = (room_octets / STEP_SHARE).clamp(STEP_LEAST, STEP_MOST);
        Self {
            given: 0,
            early: BTreeMap::new(),
            octets: 0,
            memory_octets: 0,
            runs: 0,
            due: step,
            step,
        }
    }

    /// The memory that early octets take.
    pub(super) const fn memory_octets(&self) -> u64 {
        self.memory_octets
    }

    /// Whether some of them are here.
    pub(super) fn has_pieces(&self) -> bool {
        self.memory_octets > RUN_OCTETS.saturating_mul(length(self.runs))
    }

    /// Early octets, wherever they are.
    pub(super) const fn early_octets(&self) -> u64 {
        self.octets
    }

    /// Whether so much has come since the last look that another may find runs for the store.
    pub(super) const fn is_crowded(&self) -> bool {
        self.memory_octets >= self.due
    }

    /// Octets came early; nothing of them is here.
    pub(super) fn keep(&mut self, at: u64, octets: Bytes) {
        self.add(at, Early::Piece(octets));
    }

    /// The early octets that come next.
    pub(super) fn next_early(&mut self) -> Option<Early> {
        let is_there = self.early.contains_key(&self.given);
        let at = match is_there && planted(Mutant::EarlyOctetsBackwards) {
            true => *self.early.last_key_value()?.0,
            false => self.given,
        };
        self.take(at)
    }

    /// Runs before `end` that the store is to have, in pieces with their places; they are the store's from now on. Those of `least` octets and more,
    /// and those that close a gap between two others, which become one: repairs come behind a gap too, where one before them was lost again.
    /// Early octets of all transfers may take `room_octets`.
    pub(super) fn place(&mut self, end: u64, least: u64, room_octets: u64) -> Vec<(u64, Bytes)> {
        let most_runs = most_runs(room_octets);
        let mut placed = Vec::new();
        let mut from = self.given;
        while let Some((start, behind)) = self.run(from, end) {
            from = behind;
            let (before, after) = (self.run_before(start), self.run_at(behind));
            let joins = before.is_some() || after.is_some();
            let closes = before.is_some() && after.is_some();
            let is_long = behind.saturating_sub(start) >= least;
            let is_wanted = closes || is_long && (joins || self.runs < most_runs);
            if !is_wanted {
                continue;
            }
            let mut sum = CrcDigest::new(CrcType::Crc32C);
            let mut at = start;
            while at < behind
                && let Some(Early::Piece(octets)) = self.take(at)
            {
                sum.update(&octets);
                let next = at.saturating_add(length(octets.len()));
                placed.push((at, octets));
                at = next;
            }
            let octets = at.saturating_sub(start);
            let crc32c = sum.value();
            self.add_run(start, Run { octets, crc32c });
        }
        self.due = self.memory_octets.saturating_add(self.step);
        placed
    }

    /// The run that ends at a place: where it begins, and itself.
    fn run_before(&self, end: u64) -> Option<(u64, Run)> {
        match self.early.range(..end).next_back() {
            Some((&at, &Early::Run(run))) if at.saturating_add(run.octets) == end => {
                Some((at, run))
            }
            _ => None,
        }
    }

    /// The run that begins at a place.
    fn run_at(&self, start: u64) -> Option<Run> {
        match self.early.get(&start) {
            Some(&Early::Run(run)) => Some(run),
            _ => None,
        }
    }

    /// Add a run, as one with those that it touches.
    fn add_run(&mut self, mut start: u64, mut run: Run) {
        if let Some((at, before)) = self.run_before(start) {
            self.take(at);
            (start, run) = (at, before.joined(run));
        }
        let end = start.saturating_add(run.octets);
        if let Some(behind) = self.run_at(end) {
            self.take(end);
            run = run.joined(behind);
        }
        self.add(start, Early::Run(run));
    }

    /// The first and the last place of pieces that follow each other from `from` on, and end before `end`.
    fn run(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let mut run: Option<(u64, u64)> = None;
        for (&start, early) in self.early.range(from..end.max(from)) {
            let behind = start.saturating_add(early.octets());
            let is_piece = matches!(early, Early::Piece(_)) && behind <= end;
            run = match run {
                None if is_piece => Some((start, behind)),
                None => None,
                Some((first, last)) if is_piece && last == start => Some((first, behind)),
                Some(_) => break,
            };
        }
        run
    }

    fn add(&mut self, at: u64, early: Early) {
        self.octets = self.octets.saturating_add(early.octets());
        self.memory_octets = self.memory_octets.saturating_add(early.cost());
        if matches!(early, Early::Run(_)) {
            self.runs = self.runs.saturating_add(1);
        }
        self.early.insert(at, early);
    }

    fn take(&mut self, at: u64) -> Option<Early> {
        let early = self.early.remove(&at)?;
        self.octets = self.octets.saturating_sub(early.octets());
        self.memory_octets = self.memory_octets.saturating_sub(early.cost());
        if matches!(early, Early::Run(_)) {
            self.runs = self.runs.saturating_sub(1);
        }
        self.due = self.due.min(self.memory_octets.saturating_add(self.step));
        Some(early)
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::crc::crc32c;
    use proptest::prelude::*;

    use super::*;

    const ROOM_OCTETS: u64 = 16 << 20;

    /// Octets whose values tell their places.
    fn octets(from: u64, to: u64) -> Bytes {
        (from..to)
            .map(|at| u8::try_from(at % 251).unwrap_or(0))
            .collect()
    }

    proptest! {
        /// Octets are lost and placed in any way: the pieces and runs that come next are the transfer's.
        #[test]
        fn what_is_placed_and_what_is_here_are_the_transfer(
            lengths in proptest::collection::vec(1_u64..6_000, 1..60),
            lost in proptest::collection::vec(any::<bool>(), 60),
            looks in proptest::collection::vec(any::<bool>(), 60),
            end in 0_u64..200_000,
            least in proptest::sample::select(&[RUN_LEAST, RUN_LEAST_PRESSED][..]),
        ) {
            let mut coming = Coming::new(ROOM_OCTETS);
            let mut store: BTreeMap<u64, Bytes> = BTreeMap::new();
            let (mut at, mut missing) = (0, Vec::new());
            for ((&length, lost), look) in lengths.iter().zip(lost).zip(looks) {
                // The first is lost, so that nothing is next.
                match lost || at == 0 {
                    true => missing.push((at, at + length)),
                    false => coming.keep(at, octets(at, at + length)),
                }
                at += length;
                if look {
                    store.extend(coming.place(end, least, ROOM_OCTETS));
                }
            }
            let placed: u64 = store.iter().map(|(at, octets)| {
                assert!(at + length(octets.len()) <= end);
                length(octets.len())
            }).sum();
            let runs = coming.early.values().filter(|it| matches!(it, Early::Run(_)));
            prop_assert_eq!(runs.map(Early::octets).sum::<u64>(), placed);
            for (from, to) in missing {
                prop_assert_eq!(coming.given, from);
                coming.given = to;
                while let Some(early) = coming.next_early() {
                    let from = coming.given;
                    coming.given += early.octets();
                    let all = octets(from, coming.given);
                    match early {
                        Early::Piece(octets) => prop_assert_eq!(octets, all),
                        Early::Run(run) => {
                            prop_assert!(run.octets >= least);
                            prop_assert_eq!(run.crc32c, crc32c(&all));
                            let there: Vec<u8> = store.range(from..coming.given).flat_map(|(_, it)| it.to_vec()).collect();
                            prop_assert_eq!(there, all.to_vec());
                        }
                    }
                }
            }
            prop_assert_eq!(coming.given, at);
            prop_assert_eq!((coming.early_octets(), coming.memory_octets(), coming.runs), (0, 0, 0));
        }
    }

    /// Each line of a transfer of pieces of 1,000 octets, `-` where one is missing: the lengths of the runs that the store has then.
    fn runs(lines: &[&str], room_octets: u64) -> Vec<u64> {
        let mut coming = Coming::new(room_octets);
        for line in lines {
            for (at, it) in (0..).zip(line.bytes()) {
                if it == b'+' {
                    coming.keep(at * 1_000, octets(at * 1_000, at * 1_000 + 1_000));
                }
            }
            coming.place(u64::MAX, 2_000, room_octets);
        }
        let runs = (coming.early.values()).filter(|it| matches!(it, Early::Run(_)));
        runs.map(|it| it.octets() / 1_000).collect()
    }

    #[test]
    fn pieces_between_two_runs_make_one_of_them_however_short_they_are() {
        assert_eq!(runs(&["-++-++--+++"], ROOM_OCTETS), [2, 2, 3]);
        assert_eq!(runs(&["-++-++--+++", "   +"], ROOM_OCTETS), [5, 3]);
        assert_eq!(runs(&["-++-++--+++", "      +"], ROOM_OCTETS), [2, 2, 3]);
        assert_eq!(runs(&["-++-++--+++", "   +  ++"], ROOM_OCTETS), [10]);
    }

    #[test]
    fn a_run_that_touches_another_has_room_where_all_runs_are_there() {
        let room_octets = 2 * RUNS_SHARE * RUN_OCTETS;
        assert_eq!(runs(&["-++-++-++"], room_octets), [2, 2]);
        assert_eq!(runs(&["-++-++-++", "      +"], room_octets), [2, 5]);
        assert_eq!(runs(&["-++-++-++", "   +"], room_octets), [5, 2]);
    }
}
