//! Checksums of payload blocks: those of the node's own bundles, and links whose peer refuses blocks that have one.
//!
//! A payload leaves as it lies in the store, and its checksum is what follows it there. Over a link that strips checksums the
//! payload leaves alone, behind a head that announces none, and a break ends the bundle (RFC 9171 4.1).

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::{Extents, Piece};
use dhow_bundle::{CrcType, Header, Version};

use crate::config::PayloadChecksum;
use crate::node::Node;

/// Ends a bundle whose payload block has no checksum: the break of the array of blocks.
const BREAK: &[u8] = &[0xff];

/// The octets after the payload of a whole bundle that goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The octets after it in the store.
    Stored,
    /// Others: no checksum but the end of the bundle alone, or blocks behind the payload as the next hop is to have them.
    Replaced(Bytes),
}

impl Ending {
    /// No checksum: the end of the bundle alone.
    pub(crate) const fn bare() -> Self {
        Self::Replaced(Bytes::from_static(BREAK))
    }

    /// Whether the payload leaves with a checksum, or as it came without.
    pub(crate) fn has_checksum(&self, header: &Header) -> bool {
        *self == Self::Stored && header.version() == Version::V7
    }

    /// Octets of a payload and of the trailer, as they leave: those in the store, and those that are not.
    pub(crate) fn of_octets(&self, stored: Bytes, payload_octets: u64) -> [Bytes; 2] {
        match self {
            Self::Stored => [stored, Bytes::new()],
            Self::Replaced(ending) => {
                let payload = usize::try_from(payload_octets).unwrap_or(usize::MAX);
                let payload = stored.slice(..payload.min(stored.len()));
                [payload, ending.clone()]
            }
        }
    }

    /// The same of a bundle in the store, of which all before `from` has left and whose payload ends before `payload_end`.
    pub(crate) fn of_extents(&self, stored: &Extents, from: u64, payload_end: u64) -> Vec<Piece> {
        let length = match self {
            Self::Stored => u64::MAX,
            Self::Replaced(_) => payload_end.saturating_sub(from),
        };
        let extents = stored.slice(from, length).into_iter();
        let mut pieces: Vec<Piece> = extents.map(Piece::Extent).collect();
        if let Self::Replaced(ending) = self
            && !ending.is_empty()
        {
            pieces.push(Piece::Octets(ending.clone()));
        }
        pieces
    }
}

impl Node {
    /// The checksum of payload blocks of bundles that this node makes.
    pub(crate) fn payload_checksum(&self) -> CrcType {
        match self.config.payload_checksum {
            PayloadChecksum::Crc32C => CrcType::Crc32C,
            PayloadChecksum::None => CrcType::None,
        }
    }
}
