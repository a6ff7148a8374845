//! A simulated disk: sparse, and honest about the octets that a power failure leaves.
//!
//! Octets that were written are read back at once, and are durable when a flush that was begun after them has ended, which is in the
//! driver's hands ([`SimDisk::finish_flush`]): flushes take virtual time. Until then the octets that stood there before are kept, so that a crash can
//! take back any part of what came later. Flushes are barriers: nothing that was written behind one is
//! kept where something before it is lost.
//!
//! Octets rot where memory does not have them any more: those that were written or read a moment ago are read from there. Octets that the
//! last flush covered do not rot, since a log that lost its very end looks like one that never had it.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_store::{Disk, DiskError};

use crate::entropy::Entropy;

/// Memory is taken in pieces of this size, as they are first written with something other than zeros.
const PAGE_OCTETS: usize = 4096;

/// A crash keeps or loses unsynced octets in pieces of this size.
const SECTOR_OCTETS: usize = 512;

/// The time for which memory has octets that were written or read: longer than a node takes a comparison with checksums for good.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Places that are looked at for one that may rot.
const ROT_TRIALS: u32 = 16;

/// The time, as all disks of a world see it.
#[derive(Clone, Debug, Default)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    /// Sets the time.
    pub fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The process is killed: the system still has all that was written.
    Kill,
    /// The power fails: what no flush covers may be lost or torn.
    Power,
}

/// One log's octets.
#[derive(Debug)]
pub struct SimDisk {
    hand: Hand,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Page {
    octets: Box<[u8]>,
    /// When it was written or read last.
    touched: Instant,
}

#[derive(Debug, Default)]
struct State {
    pages: Vec<Option<Page>>,
    /// Octets of the log that the disk has room for.
    capacity_octets: u64,
    /// Pages that have their room, a bit each.
    taken: Vec<u64>,
    taken_pages: u64,
    octets: u64,
    /// Length of the log that is durable.
    durable_octets: u64,
    /// Length of the log when the last flush began.
    flushed_octets: u64,
    /// Octets that unflushed writes replaced, oldest first; a new list begins with each flush.
    epochs: Vec<Vec<Replaced>>,
    /// Flushes that have begun, since the disk was made.
    flushes: u64,
    /// Whether flushes make nothing durable.
    lies: bool,
    /// Whether nothing can be written.
    full: bool,
    /// Whether the next flush fails.
    fails: bool,
    /// Places that were written before the last flush that made something durable and behind the one before it.
    latest: Vec<Range<u64>>,
    /// Octets that are not what was written there.
    rotten: BTreeSet<u64>,
}

/// Octets that an unflushed write replaced; after the write was taken back, the octets of the write.
#[derive(Debug)]
struct Replaced {
    offset: u64,
    length: usize,
    /// So many; or none, for as many zeros.
    octets: Vec<u8>,
}

impl SimDisk {
    /// An empty disk that has room for a log of so many octets.
    #[must_use]
    pub fn new(hand: Hand, capacity_octets: u64) -> Self {
        Self {
            hand,
            state: Mutex::new(State {
                capacity_octets,
                ..State::default()
            }),
        }
    }

    /// From now on the disk has room for so many octets of the log: others take the rest, or have given some back.
    pub fn limit(&self, capacity_octets: u64) {
        self.lock().capacity_octets = capacity_octets;
    }

    /// Octets that have their room.
    #[must_use]
    pub fn taken_octets(&self) -> u64 {
        self.lock().taken_octets()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on flushes make nothing durable.
    pub fn lie(&self) {
        self.lock().lies = true;
    }

    /// From now on, or no longer, others have taken all the room there is: nothing can be written.
    pub fn fill(&self, full: bool) {
        self.lock().full = full;
    }

    /// The next flush fails, or not.
    pub fn fail(&self, fails: bool) {
        self.lock().fails = fails;
    }

    /// An octet changes that memory does not have; where it lies, or `None` where nothing was found that may rot.
    pub fn rot(&self, entropy: &mut Entropy) -> Option<u64> {
        let before = self.hand.now().since(Instant::START);
        let before = Instant::START + before.checked_sub(REMEMBERED)?;
        let mut state = self.lock();
        let pages = (0..).step_by(PAGE_OCTETS).zip(&state.pages);
        let cold: Vec<u64> = pages
            .filter(|(_, page)| page.as_ref().is_some_and(|page| page.touched <= before))
            .map(|(start, _)| start)
            .collect();
        let octets = cold.len().saturating_mul(PAGE_OCTETS);
        let place = (0..ROT_TRIALS).find_map(|_| {
            let drawn = entropy.below(u64::try_from(octets).ok()?);
            let drawn = usize::try_from(drawn).ok()?;
            let place = add(*cold.get(drawn / PAGE_OCTETS)?, drawn % PAGE_OCTETS);
            let is_latest = state.latest.iter().any(|octets| octets.contains(&place));
            (place < state.durable_octets && !is_latest).then_some(place)
        })?;
        let (page, start) = locate(place);
        let octet = state.pages.get_mut(page)?.as_mut()?.octets.get_mut(start)?;
        *octet ^= 1 << entropy.below(8);
        state.rotten.insert(place);
        Some(place)
    }

    /// Whether one of these octets is not what was written there.
    #[must_use]
    pub fn is_rotten(&self, octets: Range<u64>) -> bool {
        self.lock().rotten.range(octets).next().is_some()
    }

    /// Adds octets of the log to others; false when they are not there.
    pub fn append_to(&self, octets: Range<u64>, out: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        let length = usize::try_from(octets.end.saturating_sub(octets.start));
        let Some(length) = length.ok().filter(|_| octets.end <= state.octets) else {
            return false;
        };
        state.touch(octets.clone(), self.hand.now());
        state.append_out(octets.start, length, out);
        true
    }

    /// Flushes that have begun.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    /// All flushes that have begun have ended: octets written before them are durable.
    pub fn finish_flush(&self) {
        let mut state = self.lock();
        if state.lies {
            return;
        }
        // The last list is that of writes behind the last flush.
        let open = state.epochs.pop();
        let covered = std::mem::take(&mut state.epochs);
        if covered.iter().any(|epoch| !epoch.is_empty()) {
            let place = |it: &Replaced| it.offset..add(it.offset, it.length);
            state.latest = covered.iter().flatten().map(place).collect();
        }
        state.epochs.extend(open.filter(|open| !open.is_empty()));
        state.durable_octets = state.flushed_octets;
    }

    /// The machine is struck: the disk has from now on the octets that a restart finds.
    pub fn strike(&self, blow: Blow, entropy: &mut Entropy) {
        let mut state = self.lock();
        if blow == Blow::Power {
            state.lose(entropy);
        }
        state.epochs.clear();
        state.durable_octets = state.octets;
        state.flushed_octets = state.octets;
    }

    /// Octets of memory that the disk's contents take.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        self.lock().pages.iter().flatten().count() * PAGE_OCTETS
    }
}

impl State {
    fn taken_octets(&self) -> u64 {
        let page = u64::try_from(PAGE_OCTETS).unwrap_or(u64::MAX);
        self.taken_pages.saturating_mul(page)
    }

    /// Takes room for octets of the log. A disk that is full for a while takes no writes at all, also where there is room.
    fn take_room(&mut self, octets: Range<u64>) -> Result<(), DiskError> {
        if self.full {
            return Err(DiskError::Full);
        }
        if octets.is_empty() {
            return Ok(());
        }
        let (first, last) = (locate(octets.start).0, locate(octets.end - 1).0);
        if self.taken.len() <= last / 64 {
            self.taken.resize(last / 64 + 1, 0);
        }
        let is_taken = |taken: &[u64], page: usize| {
            taken
                .get(page / 64)
                .is_some_and(|word| word >> (page % 64) & 1 == 1)
        };
        let new = (first..=last).filter(|page| !is_taken(&self.taken, *page));
        let new = add(0, new.count());
        if new > 0 {
            let wanted = new.saturating_mul(add(0, PAGE_OCTETS));
            if self.taken_octets().saturating_add(wanted) > self.capacity_octets {
                return Err(DiskError::Full);
            }
            self.taken_pages += new;
            for page in first..=last {
                if let Some(word) = self.taken.get_mut(page / 64) {
                    *word |= 1 << (page % 64);
                }
            }
        }
        Ok(())
    }

    /// Gives back the room behind the log's end.
    fn give_room_back(&mut self) {
        let pages = usize::try_from(self.octets)
            .unwrap_or(usize::MAX)
            .div_ceil(PAGE_OCTETS);
        self.taken.truncate(pages.div_ceil(64));
        if let Some(last) = self.taken.get_mut(pages / 64) {
            *last &= (1 << (pages % 64)) - 1;
        }
        self.taken_pages = self
            .taken
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
    }

    fn lose(&mut self, entropy: &mut Entropy) {
        let mut epochs = std::mem::take(&mut self.epochs);
        let mut scratch = Vec::new();
        for replaced in epochs
            .iter_mut()
            .rev()
            .flat_map(|epoch| epoch.iter_mut().rev())
        {
            replaced.octets.resize(replaced.length, 0);
            scratch.resize(replaced.length, 0);
            self.copy_out(replaced.offset, &mut scratch);
            self.copy_in(replaced.offset, &replaced.octets);
            replaced.octets.copy_from_slice(&scratch);
        }
        self.octets = self.durable_octets;
        self.give_room_back();
        let count = u64::try_from(epochs.len()).unwrap_or(u64::MAX);
        let reached = usize::try_from(entropy.below(count)).unwrap_or(0);
        for (number, epoch) in epochs.iter().enumerate().take(reached + 1) {
            if number < reached {
                for written in epoch {
                    self.copy_in(written.offset, &written.octets);
                }
            } else {
                self.tear(epoch, entropy);
            }
        }
    }

    /// Any of the sectors of some writes get through; some of them in part.
    fn tear(&mut self, epoch: &[Replaced], entropy: &mut Entropy) {
        let fate = entropy.below(4);
        for written in epoch {
            let mut offset = written.offset;
            let mut rest = &*written.octets;
            while !rest.is_empty() {
                let into = usize::try_from(offset).unwrap_or(0) % SECTOR_OCTETS;
                let (sector, later) = rest.split_at(rest.len().min(SECTOR_OCTETS - into));
                let kept = match fate {
                    0 => 0,
                    1 => sector.len(),
                    _ => match entropy.below(8) {
                        0 => usize::try_from(entropy.below(512)).unwrap_or(0),
                        1..=3 if fate == 2 => 0,
                        1 => 0,
                        _ => sector.len(),
                    },
                };
                let kept = sector.get(..kept).unwrap_or(sector);
                if !kept.is_empty() {
                    self.copy_in(offset, kept);
                }
                offset = add(offset, sector.len());
                rest = later;
            }
        }
    }

    /// Memory has what is read or written.
    fn touch(&mut self, octets: Range<u64>, now: Instant) {
        let (first, last) = (locate(octets.start).0, locate(octets.end).0);
        let pages = self.pages.iter_mut().skip(first).take(last + 1 - first);
        for page in pages.flatten() {
            page.touched = now;
        }
    }

    fn copy_out(&self, mut offset: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (page, start) = locate(offset);
            let (now, later) = out.split_at_mut(out.len().min(PAGE_OCTETS - start));
            let page = self.pages.get(page).and_then(Option::as_ref);
            match page.and_then(|page| page.octets.get(start..start + now.len())) {
                Some(octets) => now.copy_from_slice(octets),
                None => now.fill(0),
            }
            offset = add(offset, now.len());
            out = later;
        }
    }

    /// The octets at the place of a write to come; none where they are zeros alone, as in most of a log that grows.
    fn before(&self, offset: u64, length: usize) -> Vec<u8> {
        let (first, last) = (locate(offset).0, locate(add(offset, length)).0);
        let pages = self.pages.iter().skip(first).take(last + 1 - first);
        let mut out = Vec::new();
        if pages.flatten().next().is_some() {
            self.append_out(offset, length, &mut out);
        }
        out
    }

    /// Adds octets of the log to others.
    fn append_out(&self, mut offset: u64, mut length: usize, out: &mut Vec<u8>) {
        out.reserve(length);
        while length > 0 {
            let (page, start) = locate(offset);
            let count = length.min(PAGE_OCTETS - start);
            let page = self.pages.get(page).and_then(Option::as_ref);
            match page.and_then(|page| page.octets.get(start..start + count)) {
                Some(octets) => out.extend_from_slice(octets),
                None => out.resize(out.len() + count, 0),
            }
            offset = add(offset, count);
            length -= count;
        }
    }

    fn copy_in(&mut self, mut offset: u64, mut octets: &[u8]) {
        while !octets.is_empty() {
            let (index, start) = locate(offset);
            let (now, later) = octets.split_at(octets.len().min(PAGE_OCTETS - start));
            if self.pages.len() <= index {
                self.pages.resize_with(index + 1, || None);
            }
            if let Some(page) = self.pages.get_mut(index)
                && (page.is_some() || now.iter().any(|octet| *octet != 0))
            {
                let page = page.get_or_insert_with(|| Page {
                    octets: match now.len() {
                        PAGE_OCTETS => now.into(),
                        _ => vec![0; PAGE_OCTETS].into(),
                    },
                    touched: Instant::START,
                });
                if let Some(place) = page.octets.get_mut(start..start + now.len()) {
                    place.copy_from_slice(now);
                }
            }
            offset = add(offset, now.len());
            octets = later;
        }
        self.octets = self.octets.max(offset);
    }
}

/// The page that an offset lies in, and the place in the page.
fn locate(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    (offset / PAGE_OCTETS, offset % PAGE_OCTETS)
}

fn add(offset: u64, octets: usize) -> u64 {
    offset.saturating_add(u64::try_from(octets).unwrap_or(u64::MAX))
}

impl Disk for SimDisk {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self.lock().octets)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let mut state = self.lock();
        let end = add(offset, out.len());
        if end > state.octets {
            return Err(DiskError::PastEnd { end });
        }
        state.touch(offset..end, self.hand.now());
        state.copy_out(offset, out);
        Ok(())
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let mut state = self.lock();
        let length = octets.iter().map(|slice| slice.len()).sum();
        let written = offset..add(offset, length);
        state.take_room(written.clone())?;
        let before = state.before(offset, length);
        if state.epochs.is_empty() {
            state.epochs.push(Vec::new());
        }
        if let Some(epoch) = state.epochs.last_mut() {
            epoch.push(Replaced {
                offset,
                length,
                octets: before,
            });
        }
        let mut offset = offset;
        for slice in octets {
            state.copy_in(offset, slice);
            offset = add(offset, slice.len());
        }
        state.touch(written.clone(), self.hand.now());
        if !state.rotten.is_empty() {
            state.rotten.retain(|place| !written.contains(place));
        }
        Ok(())
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        let mut state = self.lock();
        if octets < state.octets {
            // Only a store that is being made cuts its log: the octets there were nobody's.
            let (page, start) = locate(octets);
            state.pages.truncate(page + 1);
            if let Some(Some(last)) = state.pages.get_mut(page)
                && let Some(cut) = last.octets.get_mut(start..)
            {
                cut.fill(0);
            }
        }
        state.octets = octets;
        state.durable_octets = octets;
        state.flushed_octets = octets;
        state.give_room_back();
        Ok(())
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.take_room(from..until)?;
        state.octets = state.octets.max(until);
        Ok(())
    }

    fn available(&self) -> Option<u64> {
        let state = self.lock();
        if state.full {
            return Some(0);
        }
        Some(state.capacity_octets.saturating_sub(state.taken_octets()))
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.lock();
        if std::mem::take(&mut state.fails) {
            return Err(DiskError::from(std::io::Error::other("a flush failed")));
        }
        state.flushes += 1;
        state.flushed_octets = state.octets;
        state.epochs.push(Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Purpose;

    fn disk() -> SimDisk {
        SimDisk::new(Hand::default(), u64::MAX)
    }

    fn write(disk: &SimDisk, offset: u64, octets: &[u8]) {
        disk.write_at(offset, &[IoSlice::new(octets)]).unwrap();
    }

    fn read(disk: &SimDisk) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(disk.size().unwrap()).unwrap()];
        disk.read_at(0, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_flushed_survives_and_the_rest_in_sectors_or_not_at_all() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let mut entropy = Entropy::new(seed, Purpose::Disk, 0);
            let disk = disk();
            write(&disk, 0, &[1; 1024]);
            disk.sync().unwrap();
            disk.finish_flush();
            write(&disk, 0, &[2; 512]);
            disk.sync().unwrap();
            write(&disk, 512, &[3; 1024]);
            disk.strike(Blow::Power, &mut entropy);
            let found = read(&disk);
            assert!(found.len() >= 1024);
            // The second flush had not ended, but was a barrier: no 3 without all the 2.
            let (first, second) = found.split_at(512);
            assert!(first.iter().all(|octet| [1, 2].contains(octet)));
            if second.contains(&3) {
                assert!(first.iter().all(|octet| *octet == 2), "seed {seed}");
            }
            seen.insert((first[0], first[511], second[0], found.len()));
        }
        assert!(seen.len() > 5, "crashes have many outcomes: {seen:?}");
    }

    #[test]
    fn what_was_flushed_stays_in_the_log_beside_what_was_written_behind_the_flush() {
        let disk = disk();
        write(&disk, 0, &[1; 2048]);
        disk.sync().unwrap();
        write(&disk, 0, &[2; 512]);
        disk.finish_flush();
        disk.strike(Blow::Power, &mut Entropy::new(1, Purpose::Disk, 0));
        let found = read(&disk);
        assert_eq!((found.len(), &found[512..]), (2048, &[1; 1536][..]));
    }

    #[test]
    fn a_killed_process_leaves_what_it_wrote() {
        let disk = disk();
        write(&disk, 4_000, &[7; 9_000]);
        disk.strike(Blow::Kill, &mut Entropy::new(1, Purpose::Disk, 0));
        let mut expected = vec![0; 4_000];
        expected.extend([7; 9_000]);
        assert_eq!(read(&disk), expected);
    }

    #[test]
    fn a_lying_disk_keeps_nothing_for_sure() {
        let lost = (0..50).any(|seed| {
            let disk = disk();
            disk.lie();
            write(&disk, 0, &[1; 512]);
            disk.sync().unwrap();
            disk.finish_flush();
            disk.strike(Blow::Power, &mut Entropy::new(seed, Purpose::Disk, 0));
            read(&disk).is_empty()
        });
        assert!(lost);
    }
}
