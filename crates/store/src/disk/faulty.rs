//! A disk that fails as real ones do: for tests and for simulators.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CachingDisk, Disk, DiskError};

/// A crash keeps or loses unsynced octets in pieces of this size.
const SECTOR_OCTETS: usize = 512;

/// The disk has room in pieces of this size.
const BLOCK_OCTETS: usize = 4096;

/// Operations that the record keeps at most; older ones are dropped.
const RECORD_BOUND: usize = 1 << 16;

/// A call of a [`FaultyDisk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Octets were written.
    Write {
        /// The offset, octets.
        offset: u64,
        /// The number of octets.
        octets: u64,
    },
    /// Everything before was made durable.
    Sync,
}

/// The failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No space is left.
    Full,
    /// An input/output error, after part of the octets may have been written.
    InputOutput,
}

/// A disk in memory which remembers what is durable, can lose and tear the rest, and fails on command.
#[derive(Debug)]
pub struct FaultyDisk {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Octets that the disk has room for.
    capacity: usize,
    /// Blocks that have their room.
    blocks: BTreeSet<usize>,
    failures: VecDeque<(u64, Failure)>,
    operations: u64,
    power_off_at: Option<u64>,
    record: VecDeque<Operation>,
    grain: Option<usize>,
}

impl Default for FaultyDisk {
    fn default() -> Self {
        Self::with_octets(Vec::new())
    }
}

impl FaultyDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk on which `octets` are durable.
    #[must_use]
    pub fn with_octets(octets: Vec<u8>) -> Self {
        let blocks = (0..octets.len().div_ceil(BLOCK_OCTETS)).collect();
        Self {
            state: Mutex::new(State {
                durable: octets.clone(),
                current: octets,
                unsynced: Vec::new(),
                capacity: usize::MAX,
                blocks,
                failures: VecDeque::new(),
                operations: 0,
                power_off_at: None,
                record: VecDeque::new(),
                grain: None,
            }),
        }
    }

    /// The same, which says that places and addresses had better be multiples of so many octets.
    #[must_use]
    pub fn with_grain(self, octets: Option<usize>) -> Self {
        self.lock().grain = octets;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the disk has room for this many octets of the log.
    pub fn limit(&self, octets: u64) {
        self.lock().capacity = usize::try_from(octets).unwrap_or(usize::MAX);
    }

    /// Lets the write or sync fail that comes after `operations` more of them.
    pub fn fail_after(&self, operations: u64, failure: Failure) {
        let mut state = self.lock();
        let at = state.operations.saturating_add(operations);
        state.failures.push_back((at, failure));
    }

    /// Cuts the power after `operations` more writes and syncs: the write it happens in may be torn, and everything
    /// later fails.
    pub fn power_off_after(&self, operations: u64) {
        let mut state = self.lock();
        state.power_off_at = Some(state.operations.saturating_add(operations));
    }

    /// Writes and syncs so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// The writes and syncs so far, oldest first.
    #[must_use]
    pub fn record(&self) -> Vec<Operation> {
        self.lock().record.iter().cloned().collect()
    }

    /// The octets as they are read now.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        self.lock().current.clone()
    }

    /// Flips the bits of `mask` in the octet at `offset`, durably; nothing when the log is shorter.
    pub fn rot(&self, offset: u64, mask: u8) {
        let mut state = self.lock();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let State {
            current, durable, ..
        } = &mut *state;
        for octets in [current, durable] {
            if let Some(octet) = octets.get_mut(offset) {
                *octet ^= mask;
            }
        }
    }

    /// The disk after a power failure: all that was synced, and of each unsynced write any of its sectors, the
    /// last kept one possibly torn at any octet. `seed` decides which.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> Self {
        let state = self.lock();
        let mut dice = Dice(seed);
        let mut octets = state.durable.clone();
        let fate = dice.roll(4);
        for (offset, written) in &state.unsynced {
            let mut start = *offset;
            let mut rest = written.as_slice();
            while !rest.is_empty() {
                let (sector, later) =
                    rest.split_at(rest.len().min(SECTOR_OCTETS - start % SECTOR_OCTETS));
                let kept = match fate {
                    0 => 0,
                    1 => sector.len(),
                    _ => match dice.roll(8) {
                        0 => usize::try_from(dice.roll(512))
                            .unwrap_or(0)
                            .min(sector.len()),
                        1..=3 if fate == 2 => 0,
                        1 => 0,
                        _ => sector.len(),
                    },
                };
                write(&mut octets, start, sector.get(..kept).unwrap_or(sector));
                start += sector.len();
                rest = later;
            }
        }
        Self::with_octets(octets).with_grain(state.grain)
    }
}

/// A small generator of numbers that repeat for a seed (splitmix64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

fn write(octets: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset.saturating_add(written.len());
    if octets.len() < end {
        octets.resize(end, 0);
    }
    if let Some(place) = octets.get_mut(offset..end) {
        place.copy_from_slice(written);
    }
}

impl State {
    /// Takes room for octets of the log; false where there is none.
    fn take_room(&mut self, start: usize, end: usize) -> bool {
        let wanted = start / BLOCK_OCTETS..end.div_ceil(BLOCK_OCTETS);
        let new = wanted.filter(|block| !self.blocks.contains(block));
        let new: Vec<usize> = new.collect();
        let octets = (self.blocks.len() + new.len()).saturating_mul(BLOCK_OCTETS);
        if !new.is_empty() && octets > self.capacity {
            return false;
        }
        self.blocks.extend(new);
        true
    }

    /// Counts an operation and says how it fails, if it does, and whether the power is already off.
    fn begin(&mut self, operation: &Operation) -> Result<Option<Failure>, DiskError> {
        let number = self.operations;
        self.operations += 1;
        if self.power_off_at.is_some_and(|at| number > at) {
            return Err(io::Error::other("the power is off").into());
        }
        if self.power_off_at == Some(number) {
            return Ok(Some(Failure::InputOutput));
        }
        let failing = self.failures.iter().position(|(at, _)| *at <= number);
        let failure = failing
            .and_then(|place| self.failures.remove(place))
            .map(|(_, failure)| failure);
        if failure.is_none() {
            if self.record.len() == RECORD_BOUND {
                self.record.pop_front();
            }
            self.record.push_back(operation.clone());
        }
        Ok(failure)
    }
}

impl Disk for FaultyDisk {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(u64::try_from(self.lock().current.len()).unwrap_or(u64::MAX))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let state = self.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(out.len());
        let Some(octets) = state.current.get(start..end) else {
            return Err(DiskError::PastEnd {
                end: u64::try_from(end).unwrap_or(u64::MAX),
            });
        };
        out.copy_from_slice(octets);
        Ok(())
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let mut state = self.lock();
        let written: Vec<u8> = octets
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let length = u64::try_from(written.len()).unwrap_or(u64::MAX);
        let failure = state.begin(&Operation::Write {
            offset,
            octets: length,
        })?;
        let end = start.saturating_add(written.len());
        if failure == Some(Failure::Full) || !state.take_room(start, end) {
            return Err(DiskError::Full);
        }
        write(&mut state.current, start, &written);
        state.unsynced.push((start, written));
        match failure {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the write failed").into()),
        }
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        let mut state = self.lock();
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        state.blocks.retain(|block| block * BLOCK_OCTETS < octets);
        state.current.resize(octets, 0);
        state.durable.resize(octets, 0);
        Ok(())
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        let mut state = self.lock();
        let place = |octets: u64| usize::try_from(octets).unwrap_or(usize::MAX);
        let (start, end) = (place(from), place(until));
        // Like a write: it may fail, and a crash may lose it.
        let octets = until.saturating_sub(from);
        let failure = state.begin(&Operation::Write {
            offset: from,
            octets,
        })?;
        if failure == Some(Failure::Full) || !state.take_room(start, end) {
            return Err(DiskError::Full);
        }
        if state.current.len() < end {
            let from = state.current.len();
            state.current.resize(end, 0);
            state.unsynced.push((from, vec![0; end - from]));
        }
        match failure {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the room was not to be had").into()),
        }
    }

    fn available(&self) -> Option<u64> {
        let state = self.lock();
        let taken = state.blocks.len().saturating_mul(BLOCK_OCTETS);
        u64::try_from(state.capacity.saturating_sub(taken)).ok()
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.lock();
        match state.begin(&Operation::Sync)? {
            None => {
                let State {
                    durable, unsynced, ..
                } = &mut *state;
                for (offset, written) in unsynced.drain(..) {
                    write(durable, offset, &written);
                }
                Ok(())
            }
            Some(_) => {
                // As Linux does: what could not be written is forgotten, and the next sync succeeds without it.
                state.unsynced.clear();
                Err(io::Error::other("the sync failed").into())
            }
        }
    }

    fn caching(&self) -> Option<&dyn CachingDisk> {
        Some(self)
    }
}

impl CachingDisk for FaultyDisk {
    fn grain(&self) -> Option<usize> {
        self.lock().grain
    }
}
