//! A record's header, and where records lie (docs/store-format.md 2 and 3).

use dhow_bundle::crc::crc32c;

use crate::wire::index;

/// Octets of a record's header.
pub(crate) const HEADER_OCTETS: u32 = 32;

/// The place of the first segment: after the two superblocks.
pub(crate) const SEGMENTS_START: u64 = 8192;

/// The place of the generation in a header, in eight octets.
pub(crate) const GENERATION_AT: usize = 8;

/// Records begin at multiples of this.
pub(crate) const ALIGNMENT: u32 = 8;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Octets,
    Commit,
    Delete,
    Reserve,
    Mark,
    Checkpoint,
    Seal,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Segment,
        Self::Octets,
        Self::Commit,
        Self::Delete,
        Self::Reserve,
        Self::Mark,
        Self::Checkpoint,
        Self::Seal,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Segment => 1,
            Self::Octets => 2,
            Self::Commit => 3,
            Self::Delete => 4,
            Self::Reserve => 5,
            Self::Mark => 6,
            Self::Checkpoint => 7,
            Self::Seal => 8,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A place in the log's order: a record's generation and its offset in the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) generation: u64,
    pub(crate) offset: u32,
}

/// The log's geometry and secret, by which records are found and believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) segment_octets: u32,
    pub(crate) seed: u64,
}

impl Layout {
    /// Offset in the log of an offset in a segment.
    pub(crate) fn position(&self, segment: u32, offset: u32) -> u64 {
        SEGMENTS_START + u64::from(segment) * u64::from(self.segment_octets) + u64::from(offset)
    }

    /// Segment and offset in it of an offset in the log; `None` before the first segment.
    pub(crate) fn locate(&self, position: u64) -> Option<(u32, u32)> {
        let inside = position.checked_sub(SEGMENTS_START)?;
        let segment = u32::try_from(inside / u64::from(self.segment_octets)).ok()?;
        let offset = u32::try_from(inside % u64::from(self.segment_octets)).ok()?;
        Some((segment, offset))
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) generation: u64,
    pub(crate) payload_octets: u32,
    pub(crate) body_octets: u32,
    pub(crate) payload_crc: u32,
    pub(crate) body_crc: u32,
}

/// Octets that a record with these lengths takes, padding included.
pub(crate) fn record_octets(payload_octets: u64, body_octets: u64) -> u64 {
    let octets = u64::from(HEADER_OCTETS)
        .saturating_add(payload_octets)
        .saturating_add(body_octets);
    octets
        .div_ceil(u64::from(ALIGNMENT))
        .saturating_mul(u64::from(ALIGNMENT))
}

impl Header {
    /// Octets of the whole record, padding included.
    pub(crate) fn record_octets(&self) -> u64 {
        record_octets(u64::from(self.payload_octets), u64::from(self.body_octets))
    }

    /// The place of the body of a record at `position` of the log.
    pub(crate) fn body_position(&self, position: u64) -> u64 {
        let before = u64::from(HEADER_OCTETS).saturating_add(u64::from(self.payload_octets));
        position.saturating_add(before)
    }

    /// The header's octets for a record at `position` of the log.
    pub(crate) fn encode(&self, seed: u64, position: u64) -> [u8; 32] {
        let mut covered = [0_u8; 44];
        put(&mut covered, 0, &seed.to_le_bytes());
        put(&mut covered, 8, &position.to_le_bytes());
        put(&mut covered, 16, &[self.kind.code()]);
        put(&mut covered, 20, &self.generation.to_le_bytes());
        put(&mut covered, 28, &self.payload_octets.to_le_bytes());
        put(&mut covered, 32, &self.body_octets.to_le_bytes());
        put(&mut covered, 36, &self.payload_crc.to_le_bytes());
        put(&mut covered, 40, &self.body_crc.to_le_bytes());
        let mut header = [0; 32];
        put(&mut header, 0, &crc32c(&covered).to_le_bytes());
        put(&mut header, 4, covered.get(16..).unwrap_or_default());
        header
    }

    /// The header at `position` of the log, of this generation if one is named; `None` if there is none.
    pub(crate) fn decode(
        octets: &[u8],
        seed: u64,
        position: u64,
        generation: Option<u64>,
    ) -> Option<Self> {
        let octets = octets.get(..index(HEADER_OCTETS))?;
        let found = u64_at(octets, GENERATION_AT)?;
        if generation.is_some_and(|wanted| wanted != found) || octets.get(5..8)? != [0; 3] {
            return None;
        }
        let header = Self {
            kind: Kind::from_code(*octets.get(4)?)?,
            generation: found,
            payload_octets: u32_at(octets, 16)?,
            body_octets: u32_at(octets, 20)?,
            payload_crc: u32_at(octets, 24)?,
            body_crc: u32_at(octets, 28)?,
        };
        (header.encode(seed, position) == octets).then_some(header)
    }
}

pub(crate) fn put(octets: &mut [u8], offset: usize, value: &[u8]) {
    let end = offset + value.len();
    assert!(
        end <= octets.len(),
        "a field of fixed place lies within its octets"
    );
    if let Some(place) = octets.get_mut(offset..end) {
        place.copy_from_slice(value);
    }
}

pub(crate) fn u32_at(octets: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        octets.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

pub(crate) fn u64_at(octets: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        octets.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

/// `octets` up to the next place where a record may begin.
pub(crate) fn padding(octets: u64) -> usize {
    index(octets.next_multiple_of(u64::from(ALIGNMENT)) - octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_valid_only_at_its_place_in_its_store_and_generation() {
        let header = Header {
            kind: Kind::Commit,
            generation: 7,
            payload_octets: 5,
            body_octets: 9,
            payload_crc: 1,
            body_crc: 2,
        };
        let octets = header.encode(99, 4096);
        assert_eq!(Header::decode(&octets, 99, 4096, Some(7)), Some(header));
        assert_eq!(Header::decode(&octets, 99, 4096, None), Some(header));
        assert_eq!(Header::decode(&octets, 99, 4104, None), None);
        assert_eq!(Header::decode(&octets, 98, 4096, None), None);
        assert_eq!(Header::decode(&octets, 99, 4096, Some(8)), None);
        for bit in 0..256 {
            let mut rotten = octets;
            rotten[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&rotten, 99, 4096, None), None, "bit {bit}");
        }
        assert_eq!(header.record_octets(), 48);
    }
}
