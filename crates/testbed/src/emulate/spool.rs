//! Packets under way on a link with a long delay: the first ones in memory, all behind them in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::{Buf as _, BufMut as _, Bytes};
use dhow_bundle::Instant;
use dhow_channel::channel::{Timed, UnderWay};

use super::port::PACKET_OCTETS_MAX;

/// Octets of packets in memory, before any goes to the file.
const MEMORY_OCTETS: usize = 64 << 20;

/// Octets that are written and read together, of which the last packet may go beyond.
const CHUNK_OCTETS: usize = 1 << 20;

/// Octets before a packet: when it arrives, and its length.
const HEAD_OCTETS: usize = 12;

/// Octets of a chunk's place in the file.
const PLACE_OCTETS: usize = CHUNK_OCTETS + HEAD_OCTETS + PACKET_OCTETS_MAX;

/// A chunk in the file.
#[derive(Debug)]
struct Chunk {
    place: u64,
    octets: usize,
}

/// A queue of packets that is as long as a disk has room for. Its file has no name, so it is gone with the process.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    memory_octets: usize,
    file: Option<File>,
    /// The first packets, and their octets; nothing only where nothing is.
    head: VecDeque<Timed>,
    head_octets: usize,
    /// Behind them, in order.
    chunks: VecDeque<Chunk>,
    /// Places of the file that have been read.
    free: Vec<u64>,
    places: u64,
    /// The last packets, as the file has them.
    tail: Vec<u8>,
    last: Option<Instant>,
    /// Why packets are gone.
    failure: Option<io::Error>,
}

impl Spool {
    /// An empty one, whose file is made in a directory once it is needed.
    pub(super) fn new(directory: PathBuf) -> Self {
        Self::with_memory(directory, MEMORY_OCTETS)
    }

    fn with_memory(directory: PathBuf, memory_octets: usize) -> Self {
        Self {
            directory,
            memory_octets,
            file: None,
            head: VecDeque::new(),
            head_octets: 0,
            chunks: VecDeque::new(),
            free: Vec::new(),
            places: 0,
            tail: Vec::new(),
            last: None,
            failure: None,
        }
    }

    /// Why packets are gone, where the disk did not take or give them.
    pub(super) fn failure(&self) -> Option<io::Error> {
        let failure = self.failure.as_ref()?;
        Some(match failure.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => failure.kind().into(),
        })
    }

    /// Writes the last packets.
    fn write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.directory)?),
        };
        let place = self.free.pop().unwrap_or(self.places);
        let offset = place.saturating_mul(u64::try_from(PLACE_OCTETS).unwrap_or(u64::MAX));
        file.write_all_at(&self.tail, offset)?;
        self.places = self.places.max(place.saturating_add(1));
        self.chunks.push_back(Chunk {
            place,
            octets: self.tail.len(),
        });
        self.tail.clear();
        Ok(())
    }

    /// Has the first packets in memory again once those that were are gone.
    fn refill(&mut self) -> io::Result<()> {
        if !self.head.is_empty() {
            return Ok(());
        }
        let octets = match (self.chunks.pop_front(), &self.file) {
            (Some(chunk), Some(file)) => {
                let mut octets = vec![0; chunk.octets];
                let place = chunk
                    .place
                    .saturating_mul(u64::try_from(PLACE_OCTETS).unwrap_or(u64::MAX));
                self.free.push(chunk.place);
                file.read_exact_at(&mut octets, place)?;
                octets
            }
            _ => std::mem::take(&mut self.tail),
        };
        let mut octets = Bytes::from(octets);
        while octets.remaining() >= HEAD_OCTETS {
            let at = Instant::from_nanos(octets.get_u64());
            let length = usize::try_from(octets.get_u32()).unwrap_or(usize::MAX);
            let packet = octets.split_to(length.min(octets.len()));
            self.head_octets = self.head_octets.saturating_add(packet.len());
            self.head.push_back(Timed { at, packet });
        }
        Ok(())
    }

    fn note(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
    }
}

impl UnderWay for Spool {
    fn push(&mut self, packet: Timed) {
        self.last = Some(packet.at);
        let is_all_there = self.chunks.is_empty() && self.tail.is_empty();
        if is_all_there && self.head_octets < self.memory_octets {
            self.head_octets = self.head_octets.saturating_add(packet.packet.len());
            self.head.push_back(packet);
            return;
        }
        self.tail.put_u64(packet.at.as_nanos());
        let length = u32::try_from(packet.packet.len()).unwrap_or(u32::MAX);
        self.tail.put_u32(length);
        self.tail.extend_from_slice(&packet.packet);
        if self.tail.len() >= CHUNK_OCTETS {
            let done = self.write();
            self.note(done);
        }
    }

    fn first(&self) -> Option<Instant> {
        self.head.front().map(|first| first.at)
    }

    fn last(&self) -> Option<Instant> {
        self.last.filter(|_| !self.head.is_empty())
    }

    fn pop(&mut self) -> Option<Timed> {
        let first = self.head.pop_front()?;
        self.head_octets = self.head_octets.saturating_sub(first.packet.len());
        let done = self.refill();
        self.note(done);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::path::Path;
    use std::time::Duration;

    use dhow_channel::channel::Channel;
    use dhow_channel::{Loss, Part, Profile, Rate};

    use super::*;

    fn packet(number: u64, octets: usize) -> Timed {
        let mut packet = vec![u8::try_from(number % 251).unwrap(); octets];
        packet.splice(
            ..8.min(octets),
            number.to_be_bytes()[..8.min(octets)].iter().copied(),
        );
        Timed {
            at: Instant::from_nanos(number * 7),
            packet: packet.into(),
        }
    }

    /// Packets of any length leave as they came, whatever of them is in the file at a time.
    #[test]
    fn packets_are_as_they_came() {
        let place = tempfile::tempdir().unwrap();
        let mut spool = Spool::with_memory(place.path().to_owned(), 10_000);
        let mut model = VecDeque::new();
        let mut dice = 7_u64;
        let mut most = 0;
        for number in 0..40_000_u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let octets = match dice >> 60 {
                0 => 0,
                1 => PACKET_OCTETS_MAX,
                _ => usize::try_from(dice >> 50).unwrap() % 2_000,
            };
            model.push_back(packet(number, octets));
            spool.push(packet(number, octets));
            // In the beginning more come than leave, then as many, in the end fewer.
            for _ in 0..number / 16_000 {
                assert_eq!(spool.first(), model.front().map(|it| it.at));
                assert_eq!(spool.pop(), model.pop_front());
            }
            assert_eq!(spool.last(), model.back().map(|it| it.at));
            most = most.max(spool.chunks.len());
        }
        while let Some(packet) = model.pop_front() {
            assert_eq!(spool.pop().unwrap(), packet);
        }
        assert_eq!(
            (spool.pop(), spool.first(), spool.last()),
            (None, None, None)
        );
        assert!(most > 50, "{most} chunks were in the file");
        assert_eq!(
            spool.places,
            u64::try_from(most).unwrap(),
            "places are used again"
        );
        assert!(spool.failure().is_none());
        assert_eq!(
            std::fs::read_dir(place.path()).unwrap().count(),
            0,
            "it has a name"
        );
    }

    /// A link delivers the same packets at the same times, whether those under way are in memory or in a file.
    #[test]
    fn a_link_is_the_same_with_a_spool() {
        let place = tempfile::tempdir().unwrap();
        let rate = Rate::from_octets_per_s(1_000_000).unwrap();
        let part = Part::of_billion(50_000_000).unwrap();
        let profile = Profile::new(rate, Duration::from_secs(20))
            .with_loss(Loss::independent(20_000_000).unwrap())
            .with_jitter(Duration::from_millis(30))
            .with_duplicates(part)
            .with_reordering(part, Duration::from_secs(5));
        let spool = || Spool::with_memory(place.path().to_owned(), 100_000);
        let mut held = Channel::holding(profile, 7, spool(), spool());
        let mut model = Channel::new(profile, 7);
        let mut most = 0;
        // For 42 s a packet of 1,400 octets is sent each 1.4 ms.
        for step in 0..60_000_u64 {
            let now = Instant::from_nanos(step * 1_400_000);
            if step < 30_000 {
                held.handle_packet(now, packet(step, 1_400).packet);
                model.handle_packet(now, packet(step, 1_400).packet);
            }
            while let Some(packet) = model.poll_packet(now) {
                assert_eq!(held.poll_packet(now), Some(packet));
            }
            assert_eq!(held.poll_packet(now), None);
            let spools = held.under_way();
            most = most.max(spools.iter().map(|it| it.chunks.len()).sum());
            assert!(spools.into_iter().all(|it| it.failure().is_none()));
        }
        assert_eq!(held.counters(), model.counters());
        let counters = model.counters();
        assert!(counters.lost > 100 && counters.duplicated > 100 && counters.reordered > 100);
        assert!(most > 10, "{most} chunks were in files");
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told() {
        let mut spool = Spool::with_memory(Path::new("/nowhere/at/all").to_owned(), 1_000);
        for number in 0..1_000 {
            spool.push(packet(number, 1_400));
        }
        assert_eq!(spool.failure().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
