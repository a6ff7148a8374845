//! Writing the log: records are staged in memory and go out in gather-writes (docs/store-format.md 2, 3, 6).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::crc::{CrcDigest, CrcType, crc32c};

use crate::arriving::Portion;
use crate::disk::{Chunk, Disk, DiskError};
use crate::error::Trouble;
use crate::record::{HEADER_OCTETS, Header, Kind, Layout, Place, padding, record_octets};
use crate::segment::Segments;
use crate::store::Durability;
use crate::wire::{index, length, put_varint};

/// Payload pieces below this many octets are copied into the staging buffer: one more slice in a gather-write costs
/// as much as copying this.
const COPY_OCTETS: usize = 4096;

/// Staged octets at which they are written even in the middle of a batch.
const STAGE_OCTETS: u64 = 1024 * 1024 - 4096;

/// Padding is taken from here.
static ZEROS: [u8; 8192] = [0; 8192];

/// Payloads have their places chosen in segments of so many blocks (of 4096 octets: 1 MiB) or more.
const BLOCKS_OF_SEGMENT: usize = 256;

/// Octets that a seal's body takes beside its entries.
const SEAL_OCTETS: u64 = 10;

/// Octets that a summary entry takes beside the commit's body, at most.
const ENTRY_OCTETS: u64 = 30;

/// A summary may take one part in this many of a segment; else recovery walks the segment.
const SUMMARY_SHARE: u64 = 16;

/// Octets of a segment after which it shows whether its bundles are too small for a summary.
const SUMMARY_TRIAL_OCTETS: u32 = 1024 * 1024;

enum Staged {
    Own(Range<usize>),
    Shared(Bytes),
}

struct Head {
    segment: u32,
    generation: u64,
    /// The place of the next record.
    offset: u32,
    /// No record goes further.
    limit: u32,
    /// Records that end before this offset fit without a closer look.
    sure: u32,
    /// Entries of the seal's body so far; `None` when there are too many.
    summary: Option<Vec<u8>>,
    summary_entries: u64,
}

/// The place of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) segment: u32,
    pub(crate) place: Place,
    /// First octet of the payload in the log.
    pub(crate) payload: u64,
    /// Octets of the whole record.
    pub(crate) octets: u64,
}

/// The log being written.
pub(crate) struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Layout,
    pub(crate) segments: Segments,
    /// Whether payloads have checksums: they are to outlive the process.
    is_checked: bool,
    head: Option<Head>,
    last_generation: u64,
    previous_generation: u64,
    buffer: Vec<u8>,
    /// Octets of `buffer` that `staged` names.
    owned: usize,
    staged: Vec<Staged>,
    staged_octets: u64,
    /// Position in the log of the first staged octet.
    staged_at: u64,
}

impl Log {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        layout: Layout,
        segments: Segments,
        last_generation: u64,
        durability: Durability,
    ) -> Self {
        Self {
            disk,
            layout,
            segments,
            is_checked: durability != Durability::Memory,
            head: None,
            last_generation,
            previous_generation: 0,
            buffer: Vec::new(),
            owned: 0,
            staged: Vec::new(),
            staged_octets: 0,
            staged_at: 0,
        }
    }

    /// Whether a payload whose checksum is `value` is what its record says.
    pub(crate) fn matches(&self, header: &Header, value: u32) -> bool {
        !self.is_checked || value == header.payload_crc
    }

    /// Octets of the log as a reader of bundles gets them: those that are in memory, where they are there.
    pub(crate) fn read(&self, offset: u64, octets: u64) -> Result<Bytes, DiskError> {
        let lent = self.disk.share(offset, octets);
        if let Some(lent) = lent.filter(|lent| length(lent.len()) == octets) {
            return Ok(lent);
        }
        let mut read = vec![0; index(octets)];
        self.disk.read_at(offset, &mut read)?;
        Ok(read.into())
    }

    /// The place of the next record, as far as one fits there.
    pub(crate) fn place(&self) -> Place {
        self.head
            .as_ref()
            .map_or_else(Place::default, |head| Place {
                generation: head.generation,
                offset: head.offset,
            })
    }

    /// The segment that is being written.
    pub(crate) fn segment(&self) -> Option<u32> {
        self.head.as_ref().map(|head| head.segment)
    }

    /// The largest payload of a record with such a body in an empty segment.
    pub(crate) fn largest_payload(&self, body_octets: u64) -> u64 {
        let frame = Self::frame_octets(body_octets);
        u64::from(self.layout.segment_octets).saturating_sub(frame + body_octets)
    }

    /// Octets that an empty segment has at least in which such a record fits.
    pub(crate) fn segment_for(&self, payload_octets: u64, body_octets: u64) -> u32 {
        let octets = Self::frame_octets(body_octets)
            .saturating_add(body_octets)
            .saturating_add(payload_octets)
            .saturating_add(8);
        u32::try_from(octets).unwrap_or(u32::MAX)
    }

    fn frame_octets(body_octets: u64) -> u64 {
        record_octets(0, 40)
            + record_octets(0, body_octets)
            + record_octets(0, SEAL_OCTETS + 64)
            + 64
    }

    /// Octets of payload that fit behind what is there, if a record with such a body goes there.
    pub(crate) fn room(&self, body_octets: u64) -> u64 {
        let Some(head) = &self.head else { return 0 };
        let used = u64::from(head.offset)
            + record_octets(0, body_octets)
            + 8
            + self.seal_octets(body_octets);
        u64::from(head.limit).saturating_sub(used)
    }

    /// Octets that a seal takes after one more record with such a body, at most: a commit is one more entry of the summary or the
    /// end of it, and after any other record the summary is what it was.
    fn seal_octets(&self, body_octets: u64) -> u64 {
        let summary = self
            .head
            .as_ref()
            .and_then(|head| head.summary.as_ref())
            .map_or(0, |summary| {
                let octets = length(summary.len()) + body_octets + ENTRY_OCTETS;
                if octets > self.summary_bound() {
                    length(summary.len())
                } else {
                    octets
                }
            });
        record_octets(0, SEAL_OCTETS + summary)
    }

    fn summary_bound(&self) -> u64 {
        let limit = self.head.as_ref().map_or(0, |head| head.limit);
        u64::from(limit) / SUMMARY_SHARE
    }

    /// The multiple that the places and addresses of payloads had better be of.
    pub(crate) fn grain(&self) -> Option<usize> {
        let segment = index(self.layout.segment_octets);
        let fits = |grain: &usize| *grain < ZEROS.len() && grain * BLOCKS_OF_SEGMENT <= segment;
        self.disk.grain().filter(fits)
    }

    /// Has the payload of the next record begin at a multiple of `grain`: an octets record without payload fills what lies between.
    /// There must be room for it.
    pub(crate) fn pad(&mut self, grain: usize) -> Result<(), Trouble> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        let header = u64::from(HEADER_OCTETS);
        let payload = self.layout.position(head.segment, head.offset) + header;
        let grain = length(grain);
        let gap = payload.next_multiple_of(grain) - payload;
        if gap > 0 {
            let body = if gap < header { gap + grain } else { gap } - header;
            let zeros = ZEROS.get(..index(body)).unwrap_or_default();
            self.append(Kind::Octets, &[], zeros)?;
        }
        Ok(())
    }

    /// Whether a record fits behind what is there, as far as that is known without a closer look.
    pub(crate) fn is_sure(&self, payload_octets: u64, body_octets: u64) -> bool {
        self.head.as_ref().is_some_and(|head| {
            let end = u64::from(head.offset) + record_octets(payload_octets, body_octets);
            end <= u64::from(head.sure)
        })
    }

    /// Whether a record fits behind what is there.
    pub(crate) fn fits(&self, payload_octets: u64, body_octets: u64) -> bool {
        let Some(head) = &self.head else {
            return false;
        };
        let needed = u64::from(head.offset)
            .saturating_add(record_octets(payload_octets, body_octets))
            .saturating_add(self.seal_octets(body_octets));
        needed <= u64::from(head.limit)
    }

    /// Records of bundles may go to the segment that is being written.
    pub(crate) fn be_sure(&mut self) {
        let seal = record_octets(0, SEAL_OCTETS + self.summary_bound() + ENTRY_OCTETS);
        if let Some(head) = &mut self.head {
            let seal = u32::try_from(seal).unwrap_or(u32::MAX);
            head.sure = head.limit.saturating_sub(seal);
        }
    }

    /// Sees to room on the disk for one segment more, of so many octets.
    pub(crate) fn allocate(&mut self, octets: u32) -> Result<(), Trouble> {
        let number = self.segments.next_place().ok_or(Trouble::Full)?;
        // Room before it is in the table: a segment that is free can be used without asking the disk for space.
        let place = |offset| self.layout.position(number, offset);
        let reserved = self.disk.reserve(place(0), place(octets));
        reserved.map_err(|error| match error {
            DiskError::Full => Trouble::Full,
            error => error.into(),
        })?;
        self.segments.settle(number, octets);
        Ok(())
    }

    /// Sees that the disk still has the room of free segments: a crash, or another program, may have taken it.
    pub(crate) fn confirm_room(&mut self) {
        let (disk, layout) = (&self.disk, self.layout);
        self.segments.vacate(|number, segment| {
            let place = |offset| layout.position(number, offset);
            disk.reserve(place(0), place(segment.filled)).is_ok()
        });
    }

    /// Begins a free segment; the caller has sealed the one before.
    pub(crate) fn begin(&mut self, segment: u32) -> Result<(), Trouble> {
        assert!(
            self.staged.is_empty() && self.buffer.is_empty() && self.head.is_none(),
            "a segment is begun after the one before was written"
        );
        self.segments.take(segment);
        self.last_generation += 1;
        let generation = self.last_generation;
        self.segments.begin(segment, generation);
        let limit = self.segments.at(segment).map_or(0, |at| at.filled);
        self.head = Some(Head {
            segment,
            generation,
            offset: 0,
            limit,
            sure: 0,
            summary: Some(Vec::new()),
            summary_entries: 0,
        });
        let mut body = Vec::new();
        put_varint(&mut body, u64::from(segment));
        put_varint(&mut body, u64::from(self.layout.segment_octets));
        put_varint(&mut body, self.previous_generation);
        put_varint(&mut body, u64::from(limit));
        self.append(Kind::Segment, &[], &body)?;
        self.previous_generation = generation;
        Ok(())
    }

    /// Ends the segment that is being written, if there is one.
    pub(crate) fn seal(&mut self) -> Result<(), Trouble> {
        let Some(head) = &mut self.head else {
            return Ok(());
        };
        let number = head.segment;
        let seal = head.offset;
        let mut body = Vec::new();
        match head.summary.take() {
            Some(summary) => {
                put_varint(&mut body, head.summary_entries);
                body.extend_from_slice(&summary);
            }
            None => put_varint(&mut body, 0),
        }
        self.append(Kind::Seal, &[], &body)?;
        self.flush()?;
        self.head = None;
        if let Some(segment) = self.segments.at_mut(number) {
            segment.seal = seal;
        }
        self.segments.seal(number);
        Ok(())
    }

    /// Stages a record; [`Log::fits`] has said that it fits.
    pub(crate) fn append(
        &mut self,
        kind: Kind,
        payload: &[Portion],
        body: &[u8],
    ) -> Result<Appended, Trouble> {
        let Some(head) = &mut self.head else {
            return Err(Trouble::Full);
        };
        let payload_octets = payload
            .iter()
            .fold(0_u64, |sum, portion| sum + length(portion.octets.len()));
        let payload_crc = if self.is_checked {
            payload_crc(payload)
        } else {
            0
        };
        let header = Header {
            kind,
            generation: head.generation,
            payload_octets: u32::try_from(payload_octets).unwrap_or(u32::MAX),
            body_octets: u32::try_from(body.len()).unwrap_or(u32::MAX),
            payload_crc,
            body_crc: crc32c(body),
        };
        let octets = header.record_octets();
        let position = self.layout.position(head.segment, head.offset);
        let place = Place {
            generation: head.generation,
            offset: head.offset,
        };
        let end = u64::from(head.offset) + octets;
        assert!(
            end <= u64::from(head.limit),
            "a record lies wholly in its segment"
        );
        head.offset = u32::try_from(end).unwrap_or(u32::MAX);
        let segment = head.segment;
        if kind == Kind::Commit {
            Self::summarise(head, place, payload_octets, body);
        }
        if let Some(segment) = self.segments.at_mut(segment) {
            segment.end = head.offset;
        }
        if self.staged.is_empty() && self.buffer.is_empty() {
            self.staged_at = position;
        }
        self.buffer
            .extend_from_slice(&header.encode(self.layout.seed, position));
        for Portion { octets: piece, .. } in payload {
            if piece.len() < COPY_OCTETS {
                self.buffer.extend_from_slice(piece);
            } else {
                self.stage_buffer();
                self.staged.push(Staged::Shared(piece.clone()));
            }
        }
        self.buffer.extend_from_slice(body);
        let unpadded = u64::from(HEADER_OCTETS) + payload_octets + length(body.len());
        let padded = self.buffer.len() + padding(unpadded);
        self.buffer.resize(padded, 0);
        self.staged_octets += octets;
        if self.staged_octets >= STAGE_OCTETS {
            self.flush()?;
        }
        Ok(Appended {
            segment,
            place,
            payload: position + u64::from(HEADER_OCTETS),
            octets,
        })
    }

    fn summarise(head: &mut Head, place: Place, payload_octets: u64, body: &[u8]) {
        let bound = u64::from(head.limit) / SUMMARY_SHARE;
        let Some(summary) = &mut head.summary else {
            return;
        };
        let octets = length(summary.len()) + length(body.len()) + ENTRY_OCTETS;
        // Small bundles so far: the summary would not fit in the end, and is not worth its making.
        let small = place.offset >= SUMMARY_TRIAL_OCTETS
            && octets > u64::from(place.offset) / SUMMARY_SHARE;
        if octets > bound || small {
            head.summary = None;
            return;
        }
        put_varint(summary, u64::from(place.offset / 8));
        put_varint(summary, payload_octets);
        put_varint(summary, length(body.len()));
        summary.extend_from_slice(body);
        head.summary_entries += 1;
    }

    /// Stages what the buffer has gained.
    fn stage_buffer(&mut self) {
        let end = self.buffer.len();
        if self.owned < end {
            self.staged.push(Staged::Own(self.owned..end));
            self.owned = end;
        }
    }

    /// Whether the octet at this position waits to be written.
    pub(crate) fn is_staged(&self, position: u64) -> bool {
        position
            .checked_sub(self.staged_at)
            .is_some_and(|ahead| ahead < self.staged_octets)
    }

    /// Writes what is staged.
    pub(crate) fn flush(&mut self) -> Result<(), Trouble> {
        self.stage_buffer();
        if self.staged.is_empty() {
            return Ok(());
        }
        let chunks: Vec<Chunk<'_>> = self
            .staged
            .iter()
            .map(|staged| match staged {
                Staged::Own(range) => {
                    Chunk::Lent(self.buffer.get(range.clone()).unwrap_or_default())
                }
                Staged::Shared(octets) => Chunk::Shared(octets),
            })
            .collect();
        let written = self.disk.append_at(self.staged_at, &chunks);
        self.drop_staged();
        Ok(written?)
    }

    /// Tells the disk which octets nobody will read.
    pub(crate) fn forget_emptied(&mut self) {
        for segment in self.segments.take_emptied() {
            let octets = u64::from(self.layout.segment_octets);
            self.disk.forget(self.layout.position(segment, 0), octets);
        }
    }

    fn drop_staged(&mut self) {
        self.staged.clear();
        self.buffer.clear();
        self.owned = 0;
        self.staged_octets = 0;
    }

    /// Gives up everything from `durable` on, after a write or sync has failed.
    pub(crate) fn cut(&mut self, durable: Place) {
        self.drop_staged();
        self.head = None;
        self.segments.cut(durable);
    }
}

/// The checksum of a record's payload.
fn payload_crc(payload: &[Portion]) -> u32 {
    match payload {
        [] => 0,
        [Portion { octets, crc: None }] => crc32c(octets),
        [Portion { crc: Some(crc), .. }] => *crc,
        portions => {
            let mut running = CrcDigest::new(CrcType::Crc32C);
            for portion in portions {
                match portion.crc {
                    Some(crc) => running.join(crc, length(portion.octets.len())),
                    None => running.update(&portion.octets),
                }
            }
            running.value()
        }
    }
}
