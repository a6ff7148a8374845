//! A log in a file, past the page cache and through it, and one in memory hold what was written.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "small numbers, and a test"
)]

use std::io::IoSlice;

use std::sync::Arc;

use bytes::Bytes;
use dhow_store::{Buffers, CachingDisk, Chunk, Disk, FileDisk, MemoryDisk};
use proptest::prelude::*;

/// A block of direct writes.
const BLOCK: usize = 4096;

/// Octets of the log that the property plays with: more than some memories below, and than a window that is read ahead.
const LOG_OCTETS: usize = 3 << 20;

#[derive(Clone, Debug)]
enum Step {
    /// So many octets in so many slices at the growing end.
    Append(usize, usize),
    /// So many octets that lie in memory as the log's blocks do, at the next of them, between a few.
    Blocks(usize),
    /// The growing end moves.
    Jump(usize),
    /// It moves back by so many octets.
    Back(usize),
    Write(usize, usize),
    Read(usize, usize),
    /// So many reads of so many octets, one behind the other.
    ReadOn(usize, usize, usize),
    Forget(usize, usize),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let length =
        prop_oneof![4 => 1_usize..300, 3 => 1_usize..20_000, 1 => 100_000_usize..1_300_000];
    let place = 0_usize..LOG_OCTETS;
    prop_oneof![
        6 => (length.clone(), 1_usize..5).prop_map(|(octets, slices)| Step::Append(octets, slices)),
        2 => (1_usize..600_000).prop_map(Step::Blocks),
        1 => place.clone().prop_map(Step::Jump),
        1 => (1_usize..50_000).prop_map(Step::Back),
        1 => (place.clone(), 1_usize..10_000).prop_map(|(at, octets)| Step::Write(at, octets)),
        3 => (place.clone(), length).prop_map(|(at, octets)| Step::Read(at, octets)),
        2 => (place.clone(), 1_usize..100_000, 1_usize..20).prop_map(|(at, octets, times)| Step::ReadOn(at, octets, times)),
        1 => (place, 1_usize..100_000).prop_map(|(at, octets)| Step::Forget(at, octets)),
        2 => Just(Step::Sync),
    ]
}

/// The octets that the log is to hold; `None` where nobody may rely on any.
struct Model(Vec<Option<u8>>);

impl Model {
    fn check(&self, at: usize, octets: &[u8], what: &str) -> Result<(), TestCaseError> {
        for (place, octet) in (at..).zip(octets) {
            if let Some(expected) = self.0.get(place).copied().flatten() {
                prop_assert_eq!(*octet, expected, "{} at {}", what, place);
            }
        }
        Ok(())
    }
}

/// Octets that begin at a multiple of a block's.
fn aligned(octets: usize, octet: impl Fn(usize) -> u8) -> Bytes {
    let mut room: Vec<u8> = Vec::with_capacity(octets + BLOCK);
    let lead = room.as_ptr().align_offset(BLOCK);
    room.resize(lead, 0);
    room.extend((0..octets).map(octet));
    Bytes::from(room).slice(lead..)
}

fn read(disk: &dyn Disk, model: &Model, at: usize, octets: usize) -> Result<(), TestCaseError> {
    let octets = octets.min(LOG_OCTETS - at);
    if let Some(shared) = disk.share(at as u64, octets as u64) {
        prop_assert!(!shared.is_empty() && shared.len() <= octets);
        model.check(at, &shared, "shared")?;
    }
    let mut out = vec![0; octets];
    disk.read_at(at as u64, &mut out).unwrap();
    model.check(at, &out, "read")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_written_is_read_back(
        memory in prop_oneof![Just(None), Just(Some(0_u64)), Just(Some(1 << 16)), Just(Some(1 << 19)), Just(Some(8 << 20)), Just(Some(64 << 20))],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let file = || FileDisk::open(directory.path()).unwrap();
        let disk: Arc<dyn Disk> = match memory {
            None => Arc::new(MemoryDisk::new()),
            Some(0) => Arc::new(file()),
            Some(memory) => Arc::new(file().with_memory(memory, Buffers::with_octets(memory))),
        };
        disk.reserve(0, LOG_OCTETS as u64).unwrap();
        let mut model = Model(vec![Some(0); LOG_OCTETS]);
        let mut end = 0;
        for (value, step) in (1_u8..).cycle().zip(&steps) {
            match *step {
                Step::Append(octets, slices) => {
                    let octets = octets.min(LOG_OCTETS - end);
                    let written: Vec<u8> = (0..octets).map(|place| value ^ place.to_le_bytes()[1]).collect();
                    let shared: Vec<Bytes> = written.chunks(octets / slices + 1).map(Bytes::copy_from_slice).collect();
                    let mut chunks = Vec::new();
                    for (at, octets) in shared.iter().enumerate() {
                        chunks.push(if at % 3 == 1 { Chunk::Lent(octets) } else { Chunk::Shared(octets) });
                    }
                    disk.append_at(end as u64, &chunks).unwrap();
                    for (place, octet) in model.0[end..].iter_mut().zip(&written) {
                        *place = Some(*octet);
                    }
                    end += octets;
                    let block = end.next_multiple_of(BLOCK).min(LOG_OCTETS);
                    if octets > 0 {
                        model.0[end..block].fill(None);
                    }
                }
                Step::Blocks(octets) => {
                    let start = end.next_multiple_of(BLOCK);
                    if start + octets + 100 > LOG_OCTETS {
                        continue;
                    }
                    let few = vec![value; start - end];
                    let blocks = aligned(octets, |place| value ^ place.to_le_bytes()[1]);
                    let behind = Bytes::from(vec![!value; 100]);
                    let chunks = [Chunk::Lent(&few), Chunk::Shared(&blocks), Chunk::Shared(&behind)];
                    disk.append_at(end as u64, &chunks).unwrap();
                    for octet in [&few[..], &blocks, &behind].concat() {
                        model.0[end] = Some(octet);
                        end += 1;
                    }
                    let block = end.next_multiple_of(BLOCK).min(LOG_OCTETS);
                    model.0[end..block].fill(None);
                }
                Step::Jump(to) => end = to,
                Step::Back(octets) => end = end.saturating_sub(octets),
                Step::Write(at, octets) => {
                    let octets = octets.min(LOG_OCTETS - at);
                    disk.write_at(at as u64, &[IoSlice::new(&vec![value; octets])]).unwrap();
                    model.0[at..at + octets].fill(Some(value));
                }
                Step::Read(at, octets) => read(&*disk, &model, at, octets)?,
                Step::ReadOn(at, octets, times) => {
                    for place in (at..LOG_OCTETS).step_by(octets).take(times) {
                        read(&*disk, &model, place, octets)?;
                    }
                }
                Step::Forget(at, octets) => {
                    disk.forget(at as u64, octets as u64);
                    let until = (at + octets).min(LOG_OCTETS);
                    model.0[at..until].fill(None);
                }
                Step::Sync => disk.sync().unwrap(),
            }
        }
        disk.sync().unwrap();
        read(&*disk, &model, 0, LOG_OCTETS)?;
        drop(disk);
        if memory.is_some() {
            let file = std::fs::read(directory.path().join("log")).unwrap();
            model.check(0, &file, "found in the file")?;
        }
    }
}

/// Two writes that are under way at a time may end in any order: the one that was asked for last must win all the same.
#[test]
fn a_write_over_others_that_are_under_way_comes_after_them() {
    for round in 0..20_u8 {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path())
            .unwrap()
            .with_memory(8 << 20, Buffers::with_octets(0));
        disk.reserve(0, LOG_OCTETS as u64).unwrap();
        let append = |at: usize, value: u8, octets: usize| {
            let octets = vec![value; octets];
            disk.append_at(at as u64, &[Chunk::Lent(&octets)]).unwrap();
        };
        append(0, 1, 30);
        append(700 * BLOCK + 100, 2, 300_000);
        append(740 * BLOCK + 100, 3, 200);
        let last = 650 * BLOCK + usize::from(round);
        append(last, 4, 600_000);
        disk.sync().unwrap();
        let mut out = vec![0; 600_000];
        disk.read_at(last as u64, &mut out).unwrap();
        let other = out.iter().position(|octet| *octet != 4);
        assert_eq!(other, None, "round {round}");
    }
}
