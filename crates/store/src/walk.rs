//! Walking a segment record by record, over what is damaged (docs/store-format.md 8).

use std::sync::Arc;

use dhow_bundle::crc::crc32c;

use crate::disk::{Disk, DiskError};
use crate::record::{ALIGNMENT, GENERATION_AT, HEADER_OCTETS, Header, Kind, Layout};
use crate::wire::{index, length};

/// Octets read at once where many records follow one another.
const WINDOW_OCTETS: u64 = 1024 * 1024;

/// A piece that is near the last one has so many times its octets: a few records between two jumps are no reason to read far.
const GROWTH: u64 = 4;

/// Octets read at once after a jump over a payload.
const GLANCE_OCTETS: u64 = 4096;

/// A next read no further on than this is taken for one of many in a row.
const NEAR_OCTETS: u64 = 64 * 1024;

/// Octets of a segment in which its generation is looked for when its first record is damaged.
const SEARCH_OCTETS: u32 = 4096;

/// A piece of the log in memory.
pub(crate) struct Window {
    disk: Arc<dyn Disk>,
    pub(crate) size: u64,
    /// A buffer as long as the longest piece so far: none is filled with zeros twice.
    octets: Vec<u8>,
    start: u64,
    /// Octets of it that are the log's.
    filled: usize,
}

impl Window {
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Result<Self, DiskError> {
        Ok(Self {
            disk: Arc::clone(disk),
            size: disk.size()?,
            octets: Vec::new(),
            start: 0,
            filled: 0,
        })
    }

    /// Octets of the log; `None` when it ends before.
    pub(crate) fn octets(&mut self, at: u64, count: u64) -> Result<Option<&[u8]>, DiskError> {
        let octets = self.at_least(at, count)?;
        Ok(octets.and_then(|octets| octets.get(..index(count))))
    }

    /// Octets that are in memory.
    pub(crate) fn held(&self, at: u64, count: u64) -> Option<&[u8]> {
        let octets = self.octets.get(..self.filled)?;
        octets
            .get(index(at.checked_sub(self.start)?)..)?
            .get(..index(count))
    }

    /// The octets in memory are not to be believed: the next ones come from the disk.
    pub(crate) fn forget(&mut self) {
        self.filled = 0;
    }

    /// Octets of the log, so many and all behind them that are in memory; `None` when it ends before.
    fn at_least(&mut self, at: u64, count: u64) -> Result<Option<&[u8]>, DiskError> {
        let Some(end) = at.checked_add(count).filter(|end| *end <= self.size) else {
            return Ok(None);
        };
        let window_end = self.start + length(self.filled);
        if at < self.start || end > window_end {
            let near = at >= self.start && at <= window_end.saturating_add(NEAR_OCTETS);
            let wanted = match near {
                true => (length(self.filled) * GROWTH).clamp(GLANCE_OCTETS, WINDOW_OCTETS),
                false => GLANCE_OCTETS,
            };
            let octets = wanted.max(count).min(self.size - at);
            let wanted = index(octets);
            if self.octets.len() < wanted {
                self.octets.resize(wanted, 0);
            }
            (self.start, self.filled) = (at, 0);
            let (piece, _) = self.octets.split_at_mut(wanted);
            self.disk.read_at(at, piece)?;
            self.filled = wanted;
        }
        Ok(self.octets.get(index(at - self.start)..self.filled))
    }
}

/// A finding of a walk.
#[derive(Debug)]
pub(crate) enum Step {
    /// A record with an intact header and body.
    Record(u32, Header),
    /// The body of a record is damaged, not its header.
    Damaged(u32, Header),
    /// No valid record begins here, and none before the offset that follows.
    Gap(u32),
}

/// A walk through one segment.
pub(crate) struct Walk {
    layout: Layout,
    segment: u32,
    generation: u64,
    offset: u32,
    end: u32,
    /// The body of the record that was come upon last.
    pub(crate) body: Vec<u8>,
}

impl Walk {
    pub(crate) fn new(layout: Layout, segment: u32, generation: u64, from: u32, end: u32) -> Self {
        Self {
            layout,
            segment,
            generation,
            offset: from,
            end: end.min(layout.segment_octets),
            body: Vec::new(),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// Nothing more is come upon.
    pub(crate) fn is_at_end(&self) -> bool {
        u64::from(self.offset) + u64::from(HEADER_OCTETS) > u64::from(self.end)
    }

    fn header(&self, window: &mut Window, offset: u32) -> Result<Option<Header>, DiskError> {
        let position = self.layout.position(self.segment, offset);
        let Some(octets) = window.octets(position, u64::from(HEADER_OCTETS))? else {
            return Ok(None);
        };
        let header = Header::decode(octets, self.layout.seed, position, Some(self.generation));
        Ok(header.filter(|header| {
            u64::from(offset) + header.record_octets() <= u64::from(self.layout.segment_octets)
        }))
    }

    /// The next step; `None` at the end, behind a seal, and after a gap that nothing follows.
    pub(crate) fn step(&mut self, window: &mut Window) -> Result<Option<Step>, DiskError> {
        let offset = self.offset;
        if self.is_at_end() {
            return Ok(None);
        }
        let Some(header) = self.header(window, offset)? else {
            self.offset = self.search(window, offset)?;
            return Ok(Some(Step::Gap(offset)));
        };
        let next = u64::from(offset) + header.record_octets();
        self.offset = u32::try_from(next).unwrap_or(u32::MAX);
        if header.kind == Kind::Seal {
            self.end = self.offset;
        }
        let body = self.layout.position(self.segment, offset)
            + u64::from(HEADER_OCTETS)
            + u64::from(header.payload_octets);
        self.body.clear();
        match window.octets(body, u64::from(header.body_octets))? {
            Some(octets) if crc32c(octets) == header.body_crc => {
                self.body.extend_from_slice(octets)
            }
            _ => return Ok(Some(Step::Damaged(offset, header))),
        }
        Ok(Some(Step::Record(offset, header)))
    }

    /// The next offset after a damaged record where a valid one begins, or the end.
    fn search(&self, window: &mut Window, from: u32) -> Result<u32, DiskError> {
        let mut offset = from + ALIGNMENT;
        while offset < self.end {
            let position = self.layout.position(self.segment, offset);
            let Some(octets) = window.at_least(position, u64::from(HEADER_OCTETS))? else {
                break;
            };
            // Most of what is looked through is empty: the generation is compared before anything else.
            let begin = u32::try_from(octets.len()).unwrap_or(u32::MAX) - HEADER_OCTETS;
            let places = index(u64::from(begin / ALIGNMENT)) + 1;
            let (_, behind) = octets.split_at(GENERATION_AT);
            let (words, _) = behind.as_chunks::<8>();
            let mut words = words.iter().take(places);
            let found = words.position(|word| u64::from_le_bytes(*word) == self.generation);
            let passed = u32::try_from(found.unwrap_or(places)).unwrap_or(u32::MAX);
            offset = offset.saturating_add(passed.saturating_mul(ALIGNMENT));
            if found.is_some() {
                if offset < self.end && self.header(window, offset)?.is_some() {
                    return Ok(offset);
                }
                offset += ALIGNMENT;
            }
        }
        Ok(self.end)
    }
}

/// The content of a segment's first record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// 0 for a segment that was never begun.
    pub(crate) generation: u64,
    /// Generation of the segment written before it.
    pub(crate) previous: Option<u64>,
    /// Octets that had their room on the disk when it was begun.
    pub(crate) octets: Option<u32>,
}

/// Octets that are zero before the first word or the end that is not.
fn zeros(octets: &[u8]) -> u32 {
    let (blocks, _) = octets.as_chunks::<64>();
    let blocks = blocks.iter().take_while(|block| **block == [0; 64]);
    let clear = blocks.count() * 64;
    let (words, _) = octets.get(clear..).unwrap_or_default().as_chunks::<8>();
    let words = words.iter().take_while(|word| **word == [0; 8]);
    u32::try_from(clear + words.count() * 8).unwrap_or(u32::MAX)
}

/// A segment's generation and that of the one written before it, if its first record tells.
pub(crate) fn generation(
    window: &mut Window,
    layout: &Layout,
    segment: u32,
) -> Result<Option<Known>, DiskError> {
    let mut offset = 0;
    while offset < SEARCH_OCTETS {
        let position = layout.position(segment, offset);
        let Some(octets) = window.at_least(position, u64::from(HEADER_OCTETS))? else {
            return Ok(None);
        };
        // Nothing begins with zeros, which is what a segment that was never begun has.
        let begin = u32::try_from(octets.len()).unwrap_or(u32::MAX) - HEADER_OCTETS;
        let places = (begin / ALIGNMENT + 1).min((SEARCH_OCTETS - offset) / ALIGNMENT);
        let looked_at = octets.get(..index(u64::from(places * ALIGNMENT)));
        let empty = looked_at.map_or(0, zeros) / ALIGNMENT;
        if empty > 0 {
            offset += empty * ALIGNMENT;
            continue;
        }
        let Some(header) = Header::decode(octets, layout.seed, position, None) else {
            offset += ALIGNMENT;
            continue;
        };
        if offset != 0 || header.kind != Kind::Segment {
            let generation = header.generation;
            return Ok(Some(Known {
                generation,
                ..Known::default()
            }));
        }
        let count = u64::from(header.body_octets);
        let body = position + u64::from(HEADER_OCTETS) + u64::from(header.payload_octets);
        let body = window
            .octets(body, count)?
            .filter(|octets| crc32c(octets) == header.body_crc);
        let mut reader = crate::wire::Reader(body.unwrap_or_default());
        let (_index, whole) = (reader.varint(), reader.varint_u32());
        return Ok(Some(Known {
            generation: header.generation,
            previous: reader.varint(),
            octets: reader.varint_u32().or(whole),
        }));
    }
    Ok(None)
}
