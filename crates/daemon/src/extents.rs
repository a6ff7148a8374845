//! Stored octets brought into memory: few reads for many extents.

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_store::{DiskError, StoreReader};

use crate::buffers::{BUFFER_OCTETS, PooledBuffer, ReadPool};

/// Octets between two extents that are read along rather than skipped by a read of their own: small
/// bundles lie one after another in the log with a record's framing between them, and the portions of large ones with as much padding.
const GAP_OCTETS: u64 = 8192;

/// Longer extents come in as they lie in memory, in parts; shorter ones as one, if that takes a copy.
const WHOLE_OCTETS: u64 = 16 << 10;

/// A range of the log that one read brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: u64,
    length: u64,
}

impl Run {
    /// The run of one extent alone.
    const fn of(extent: Extent) -> Self {
        Self {
            offset: extent.offset,
            length: extent.length,
        }
    }

    /// The run that begins with `first`, the first of `pieces`, and how many of them it brings in.
    fn begin(first: Extent, pieces: &[Piece]) -> (Self, usize) {
        let mut run = Self::of(first);
        let more = pieces.iter().skip(1).take_while(|piece| match piece {
            Piece::Octets(_) => true,
            Piece::Extent(extent) => run.takes(*extent),
        });
        let members = 1 + more.count();
        (run, members)
    }

    /// True, and longer, when the extent fits into the run's one buffer.
    fn takes(&mut self, extent: Extent) -> bool {
        let end = self.offset + self.length;
        let extent_end = extent.offset.saturating_add(extent.length);
        let near = extent.offset >= end && extent.offset - end <= GAP_OCTETS;
        let octets = extent_end.saturating_sub(self.offset);
        if near && octets <= buffer_octets() {
            self.length = octets;
            return true;
        }
        false
    }

    /// The octets of one member, where `octets` are the run's.
    fn part(self, octets: &Bytes, piece: &Piece) -> Bytes {
        match piece {
            Piece::Octets(octets) => octets.clone(),
            Piece::Extent(extent) => {
                let from = usize::try_from(extent.offset - self.offset).unwrap_or(usize::MAX);
                let count = usize::try_from(extent.length).unwrap_or(usize::MAX);
                octets.slice(from..from.saturating_add(count))
            }
        }
    }
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

fn buffer_octets() -> u64 {
    u64::try_from(BUFFER_OCTETS).unwrap_or(u64::MAX)
}

/// Reads stored octets for a driver.
#[derive(Clone)]
pub struct ExtentReader {
    store: StoreReader,
    pool: ReadPool,
}

impl ExtentReader {
    /// A reader of `store`.
    #[must_use]
    pub fn new(store: StoreReader) -> Self {
        Self {
            store,
            pool: ReadPool::default(),
        }
    }

    /// The reader, keeping buffers of so many octets for use again, at most those of 64.
    #[must_use]
    pub fn with_spare_octets(self, octets: u64) -> Self {
        Self {
            pool: ReadPool::with_octets(octets),
            ..self
        }
    }

    /// Keep no buffer that nobody uses, here and in the store.
    pub fn give_back(&self) {
        self.pool.give_back();
        self.store.give_back();
    }

    /// Put the octets of `pieces` into `out` in order, those of at most [`WHOLE_OCTETS`] as one each; extents near each
    /// other come in by one read, and reads share buffers.
    ///
    /// # Errors
    /// When the disk refused; `out` then holds a part.
    pub fn resolve(&self, pieces: &[Piece], out: &mut Vec<Bytes>) -> Result<(), DiskError> {
        let mut filling = Filling::new(self.pool.clone());
        let mut at = 0;
        while let Some(piece) = pieces.get(at) {
            match piece {
                Piece::Octets(octets) => {
                    out.push(octets.clone());
                    at += 1;
                }
                Piece::Extent(extent) if extent.length > buffer_octets() => {
                    self.read_long(*extent, out)?;
                    at += 1;
                }
                Piece::Extent(extent) => {
                    let (run, members) = Run::begin(*extent, pieces.get(at..).unwrap_or(&[]));
                    let shared = self.store.share(run.offset, run.length);
                    let octets = shared.as_deref().map_or(0, length);
                    if octets >= extent.length {
                        // The octets in memory end somewhere; an extent that goes beyond begins another run.
                        let end = run.offset.saturating_add(octets);
                        let inside = |piece: &&Piece| match piece {
                            Piece::Octets(_) => true,
                            Piece::Extent(extent) => {
                                extent.offset.saturating_add(extent.length) <= end
                            }
                        };
                        let octets = shared.unwrap_or_default();
                        let members = pieces.iter().skip(at).take(members);
                        let before = out.len();
                        out.extend(members.take_while(inside).map(|it| run.part(&octets, it)));
                        at += out.len() - before;
                        continue;
                    }
                    if octets > 0 && extent.length > WHOLE_OCTETS {
                        self.read_long(*extent, out)?;
                        at += 1;
                        continue;
                    }
                    let (run, members) = match octets {
                        0 => (run, members),
                        // It lies in memory in parts.
                        _ => (Run::of(*extent), 1),
                    };
                    let start = self.read_run(run, &mut filling, out)?;
                    for piece in pieces.iter().skip(at).take(members) {
                        match piece {
                            Piece::Octets(octets) => out.push(octets.clone()),
                            Piece::Extent(extent) => filling.mark(start, run, *extent, out),
                        }
                    }
                    at += members;
                }
            }
        }
        filling.settle(out);
        Ok(())
    }

    /// The octets of the first requests, as many of one short extent each as are in memory.
    #[must_use]
    pub fn in_memory<T: AsRef<[Extent]>>(&self, requests: &[T]) -> Vec<Bytes> {
        let short = |request: &T| match request.as_ref() {
            [extent] if extent.length <= WHOLE_OCTETS => Some(Piece::Extent(*extent)),
            _ => None,
        };
        let pieces: Vec<Piece> = requests.iter().map_while(short).collect();
        let mut found = Vec::with_capacity(pieces.len());
        while let Some(Piece::Extent(first)) = pieces.get(found.len()) {
            let rest = pieces.get(found.len()..).unwrap_or_default();
            let (run, members) = Run::begin(*first, rest);
            let Some(octets) = self.store.share(run.offset, run.length) else {
                break;
            };
            let end = run.offset.saturating_add(length(&octets));
            let inside = |piece: &&Piece| match piece {
                Piece::Octets(_) => false,
                Piece::Extent(extent) => extent.offset.saturating_add(extent.length) <= end,
            };
            let before = found.len();
            let members = rest.iter().take(members).take_while(inside);
            found.extend(members.map(|piece| run.part(&octets, piece)));
            if found.len() == before {
                break;
            }
        }
        found
    }

    /// The octets of extents as one.
    ///
    /// # Errors
    /// When the disk refused.
    pub fn read(&self, extents: &[Extent]) -> Result<Bytes, DiskError> {
        let pieces: Vec<Piece> = extents.iter().copied().map(Piece::Extent).collect();
        let mut parts = Vec::new();
        self.resolve(&pieces, &mut parts)?;
        if parts.len() <= 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        Ok(Bytes::from(parts.concat()))
    }

    /// The octets of each request's extents as one; `None` where the disk refused. Requests near each
    /// other in the log come in by one read: a node asks for the headers of many small bundles at once.
    #[must_use]
    pub fn read_each<T: AsRef<[Extent]>>(&self, requests: &[T]) -> Vec<Option<Bytes>> {
        let is_short =
            |extents: &&[Extent]| matches!(extents, [extent] if extent.length <= WHOLE_OCTETS);
        let requests = || requests.iter().map(AsRef::as_ref);
        let pieces: Vec<Piece> = requests()
            .filter(is_short)
            .flatten()
            .copied()
            .map(Piece::Extent)
            .collect();
        let mut parts = Vec::with_capacity(pieces.len());
        if self.resolve(&pieces, &mut parts).is_err() {
            // One by one, so that only those that cannot be read fail.
            return requests().map(|extents| self.read(extents).ok()).collect();
        }
        let mut parts = parts.into_iter();
        requests()
            .map(|extents| {
                if is_short(&extents) {
                    parts.next()
                } else {
                    self.read(extents).ok()
                }
            })
            .collect()
    }

    /// A long extent, in parts.
    fn read_long(&self, extent: Extent, out: &mut Vec<Bytes>) -> Result<(), DiskError> {
        let mut done = 0;
        while done < extent.length {
            let left = extent.length - done;
            if let Some(octets) = self.store.share(extent.offset.saturating_add(done), left) {
                done += u64::try_from(octets.len()).unwrap_or(u64::MAX);
                out.push(octets);
                continue;
            }
            let mut buffer = self.pool.take();
            let count = self.store.read(extent, done, buffer.octets_mut())?;
            if count == 0 {
                break;
            }
            out.push(buffer.freeze().slice(..count));
            done += u64::try_from(count).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    /// Reads a run to where `filling` has room for it; where it begins there comes back.
    fn read_run(
        &self,
        run: Run,
        filling: &mut Filling,
        out: &mut [Bytes],
    ) -> Result<usize, DiskError> {
        let length = usize::try_from(run.length).unwrap_or(usize::MAX);
        let (start, room) = filling.room(length, out);
        let whole = Extent {
            offset: run.offset,
            length: run.length,
        };
        self.store.read(whole, 0, room)?;
        Ok(start)
    }
}

/// Buffers being filled by one run after another: small runs that lie far apart share one.
struct Filling {
    pool: ReadPool,
    buffer: Option<PooledBuffer>,
    used: usize,
    /// The octets of the buffer at each place of the output: index, start, length.
    marks: Vec<(usize, usize, usize)>,
}

impl Filling {
    const fn new(pool: ReadPool) -> Self {
        Self {
            pool,
            buffer: None,
            used: 0,
            marks: Vec::new(),
        }
    }

    /// Room for `length` octets, at most a buffer's, and where it begins.
    fn room(&mut self, length: usize, out: &mut [Bytes]) -> (usize, &mut [u8]) {
        if BUFFER_OCTETS - self.used < length {
            self.settle(out);
        }
        let start = self.used;
        self.used += length;
        let buffer = self.buffer.get_or_insert_with(|| self.pool.take());
        (
            start,
            buffer
                .octets_mut()
                .get_mut(start..self.used)
                .unwrap_or_default(),
        )
    }

    /// The next of `out` gets an extent of the run that was read to `start`.
    fn mark(&mut self, start: usize, run: Run, extent: Extent, out: &mut Vec<Bytes>) {
        let from = usize::try_from(extent.offset - run.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        self.marks
            .push((out.len(), start.saturating_add(from), length));
        out.push(Bytes::new());
    }

    /// Gives out what is in the buffer and begins another.
    fn settle(&mut self, out: &mut [Bytes]) {
        self.used = 0;
        let Some(buffer) = self.buffer.take() else {
            return;
        };
        let octets = buffer.freeze();
        for (at, start, length) in self.marks.drain(..) {
            if let Some(place) = out.get_mut(at) {
                *place = octets.slice(start..start + length);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "small numbers")]
mod tests {
    use super::*;
    use dhow_store::{Disk, FaultyDisk, Options, Store};
    use std::sync::Arc;

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    /// A reader of the log of an empty store.
    fn reader(disk: &Arc<FaultyDisk>) -> ExtentReader {
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        let (store, _) = Store::open(disk, Options::default()).unwrap();
        ExtentReader::new(store.reader())
    }

    #[test]
    fn what_is_asked_for_together_comes_back_apart() {
        let disk = Arc::new(FaultyDisk::new());
        let reader = reader(&disk);
        let log = disk.octets();
        let requests = [
            vec![extent(0, 10)],
            vec![extent(12, 4), extent(40_000, 3)],
            vec![extent(20, 30)],
            vec![extent(5, 300_000)],
            vec![extent(0, 0)],
            vec![extent(100_000, 200_000)],
            vec![extent(10_000, 150_000)],
            vec![extent(400_000, 1)],
        ];
        for (request, octets) in requests.iter().zip(reader.read_each(&requests)) {
            let expected: Vec<u8> = request
                .iter()
                .flat_map(|extent| {
                    &log[extent.offset as usize..(extent.offset + extent.length) as usize]
                })
                .copied()
                .collect();
            assert!(octets.unwrap() == expected, "{request:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_takes_nothing_else_with_it() {
        let disk = Arc::new(FaultyDisk::new());
        let reader = reader(&disk);
        let end = disk.octets().len() as u64;
        let octets = reader.read_each(&[
            vec![extent(0, 10)],
            vec![extent(end, 10)],
            vec![extent(20, 10)],
        ]);
        let readable: Vec<bool> = octets.iter().map(Option::is_some).collect();
        assert_eq!(readable, [true, false, true]);
    }

    #[test]
    fn a_run_takes_what_is_near_and_behind_it_and_fits_its_buffer() {
        let mut run = Run {
            offset: 1_000,
            length: 100,
        };
        assert!(run.takes(extent(1_140, 60)));
        assert_eq!(
            run,
            Run {
                offset: 1_000,
                length: 200
            }
        );
        assert!(!run.takes(extent(900, 10)), "it lies before");
        assert!(
            !run.takes(extent(1_201 + GAP_OCTETS, 10)),
            "it lies too far behind"
        );
        assert!(!run.takes(extent(1_200, buffer_octets())), "it is too long");
        assert_eq!(
            run,
            Run {
                offset: 1_000,
                length: 200
            }
        );
    }
}
