//! [`Header`]: a bundle of either version without its payload, read from a prefix of its octets.

use alloc::boxed::Box;
use alloc::vec::Vec;

use core::ops::Range;

use bytes::Bytes;

use crate::cbor::Reader;
use crate::crc::CrcType;
use crate::eid::EndpointId;
use crate::gateway::GATEWAY_BLOCK_V7;
use crate::header_reader::HeaderReader;
use crate::id::{BundleId, CreationTimestamp, FragmentRange};
use crate::reading::Reading;
use crate::short::ShortOctets;
use crate::v6;
use crate::v7::block::{
    BlockFlags, BlockType, BundleFlags, ExtensionBlock, ExtensionBlocks, HopCount, PrimaryBlock,
    announces_aggregated_reports,
};
use crate::v7::refusal::Refusal;
use crate::version::Version;

/// Octets from the start of a bundle to the first of its payload: what a node keeps in memory of a bundle
/// that arrives. Real headers take 40 to 300 octets.
pub const MAX_HEADER_OCTETS: usize = 64 * 1024;

/// Extension blocks in one bundle: each is looked at whenever the header is; real bundles have up to 6.
pub const MAX_EXTENSION_BLOCKS: usize = 64;

/// Copies of one bundle that spray and wait knows of, at most.
pub const MAX_PERMITS: u64 = 1 << 16;

/// The head of the payload block: all that comes before the payload's first octet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadHead {
    /// Block processing control flags.
    pub flags: BlockFlags,
    /// The checksum of the payload block.
    pub crc_type: CrcType,
    /// Octets of payload.
    pub length: u64,
    /// The head as received or written: block array, fields, and the byte string's head.
    pub octets: HeadOctets,
    /// The end of the bundle behind the payload and its checksum.
    pub(crate) closing: Closing,
}

/// The octets that end a bundle behind its payload and the payload's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Closing {
    /// Version 7: the break of the array of blocks.
    #[default]
    Break,
    /// Version 7: the break of a payload block of indefinite length, and that of the array.
    TwoBreaks,
    /// Version 6: none, the payload is the last block.
    Nothing,
    /// Version 6: blocks behind the payload, of which its head says nothing.
    Blocks,
}

impl Closing {
    /// Octets, as far as the payload's head tells them.
    pub(crate) const fn octets(self) -> usize {
        match self {
            Self::Break => 1,
            Self::TwoBreaks => 2,
            Self::Nothing | Self::Blocks => 0,
        }
    }
}

impl PayloadHead {
    /// Octets after the payload: the CRC field and the bundle's break (and the block's own, if it has one). Blocks behind the payload
    /// of a bundle of version 6 do not count.
    #[must_use]
    pub fn trailer_octets(&self) -> u64 {
        let field: u64 = match self.crc_type {
            CrcType::None => 0,
            CrcType::Crc16 => 3,
            CrcType::Crc32C => 5,
        };
        field.saturating_add(u64::try_from(self.closing.octets()).unwrap_or(0))
    }
}

/// Octets of a payload block's head: one each for the array, the type, the number and the CRC type, nine each for flags
/// and length.
pub type HeadOctets = ShortOctets<22>;

/// Everything of a bundle before its payload, every rule and CRC of it checked (RFC 9171 4, RFC 5050 4).
///
/// A bundle of version 6 is described by the fields of version 7: its creation timestamp by the one that a gateway would give it
/// (`docs/gateway.md`), its lifetime in milliseconds, and its flags as they are, since both versions give the same meaning to the
/// same bits where both have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The primary block.
    pub primary: PrimaryBlock,
    /// Extension blocks of version 7 in the order of the octets.
    pub extensions: ExtensionBlocks,
    /// The payload block's head.
    pub payload: PayloadHead,
    /// The whole header as received: the bundle's octets up to the first of the payload.
    pub octets: Bytes,
    /// Range of the primary block in `octets`.
    pub(crate) primary_octets: Range<usize>,
    /// Range in `octets` of the primary block's fields from destination to lifetime.
    pub(crate) address_fields: Range<usize>,
    /// Numbers of blocks whose content is encrypted (RFC 9172 3.8).
    pub(crate) encrypted: Vec<u64>,
    pub(crate) age_ms: Option<u64>,
    pub(crate) hop_count: Option<HopCount>,
    pub(crate) previous_node: Option<EndpointId>,
    /// The blocks of a bundle of version 6.
    pub(crate) v6: Option<Box<v6::Header>>,
    /// Its blocks behind the payload, where somebody read them.
    pub(crate) trailer: Option<v6::Trailer>,
}

impl Header {
    /// Reads the header of the bundle that `octets` begin with; `None` when more octets are needed.
    /// `octets` may hold any amount of what follows the header. Slices of them are kept, nothing is copied.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, Header, Reading};
    /// let creation = CreationTimestamp { time: DtnTime::from_millis(1000), sequence: 7 };
    /// let octets = BundleBuilder::new("ipn:1.1".parse()?, "ipn:2.1".parse()?, creation, 3_600_000).bundle(b"hello")?;
    /// assert_eq!(Header::decode(&octets.slice(..20), Reading::Strict)?, None);
    /// let header = Header::decode(&octets, Reading::Strict)?.ok_or("more octets")?;
    /// assert_eq!(header.payload.length, 5);
    /// assert_eq!(header.id().to_string(), "ipn:1.1/1000/7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The rule of RFC 9171 that the octets break.
    pub fn decode(octets: &Bytes, reading: Reading) -> Result<Option<Self>, Refusal> {
        let mut reader = HeaderReader::default();
        Ok(reader.read(octets, reading)?.then_some(reader.header))
    }

    /// The version of the octets.
    #[must_use]
    pub const fn version(&self) -> Version {
        match self.v6 {
            Some(_) => Version::V6,
            None => Version::V7,
        }
    }

    /// The blocks of a bundle of version 6, as they came.
    #[must_use]
    pub fn as_v6(&self) -> Option<&v6::Header> {
        self.v6.as_deref()
    }

    /// The bundle's identity.
    #[must_use]
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|place| FragmentRange {
                offset: place.offset,
                length: self.payload.length,
            }),
        }
    }

    /// Octets from the start of the bundle to the first of its payload; at most [`MAX_HEADER_OCTETS`].
    #[must_use]
    pub fn header_octets(&self) -> u32 {
        u32::try_from(self.octets.len()).unwrap_or(u32::MAX)
    }

    /// Octets of payload.
    #[must_use]
    pub const fn payload_octets(&self) -> u64 {
        self.payload.length
    }

    /// Octets after the payload.
    #[must_use]
    pub fn trailer_octets(&self) -> u64 {
        self.payload.trailer_octets()
    }

    /// Whether blocks of unknown length follow the payload, as only bundles of version 6 have them: then
    /// [`Self::total_octets`] does not count those.
    #[must_use]
    pub fn has_open_end(&self) -> bool {
        self.payload.closing == Closing::Blocks
    }

    /// Reads the blocks behind the payload of a bundle that has an open end: all octets from the payload's end on. They go along with it
    /// from then on as [`Self::forwarded`] and [`Self::forwarded_trailer`] say.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn read_trailer(&mut self, octets: &Bytes) -> Result<(), Refusal> {
        let blocks = self.v6.as_ref().map_or(0, |header| header.blocks.len());
        let trailer = v6::Trailer::decode_behind(blocks, octets)?;
        self.trailer = Some(trailer.ok_or(v6::Refusal::Truncated)?);
        Ok(())
    }

    /// Octets of the whole bundle.
    #[must_use]
    pub fn total_octets(&self) -> u64 {
        // Decoding refuses bundles for which this exceeds 2^64-1.
        u64::from(self.header_octets())
            .saturating_add(self.payload.length)
            .saturating_add(self.payload.trailer_octets())
    }

    /// The bundle's age in milliseconds when it was last forwarded (RFC 9171 4.4.2), if it says.
    #[must_use]
    pub const fn age_ms(&self) -> Option<u64> {
        self.age_ms
    }

    /// Hop limit and count (RFC 9171 4.4.3), if there are; of a bundle of version 6 those in its gateway block (`docs/gateway.md`).
    #[must_use]
    pub const fn hop_count(&self) -> Option<HopCount> {
        self.hop_count
    }

    /// Whether the bundle is, or has been, in version 6. Then there may be copies of it whose hops nobody counted.
    #[must_use]
    pub fn has_been_in_v6(&self) -> bool {
        let mut blocks = self.extensions.iter();
        self.v6.is_some() || blocks.any(|block| block.block_type == GATEWAY_BLOCK_V7)
    }

    /// The node that says it forwarded the bundle to this one (RFC 9171 4.4.1).
    #[must_use]
    pub const fn previous_node(&self) -> Option<&EndpointId> {
        self.previous_node.as_ref()
    }

    /// Whether the bundle says that its report-to endpoint reads aggregated reports
    /// (`docs/aggregated-reports.md`).
    #[must_use]
    pub fn reads_aggregated_reports(&self) -> bool {
        self.extensions.iter().any(|block| {
            block.block_type == BlockType::AGGREGATED_REPORTS
                && !self.encrypted.contains(&block.number)
                && announces_aggregated_reports(self.content(block))
        })
    }

    /// The copies that a node to which the bundle comes may make in its turn (binary spray and wait), if a block says so: 1 to
    /// [`MAX_PERMITS`].
    #[must_use]
    pub fn permits(&self) -> Option<u64> {
        let mut blocks = self.extensions.iter();
        let block = blocks.find(|block| {
            block.block_type == BlockType::SPRAY_PERMITS && !self.encrypted.contains(&block.number)
        })?;
        let permits = Reader::new(self.content(block)).unsigned().ok()?;
        (1..=MAX_PERMITS).contains(&permits).then_some(permits)
    }

    /// The flags of extension blocks that this node cannot process, which say what to do then (RFC 9171 5.6 step 4, RFC 5050 5.6 step 3).
    pub fn unsupported_blocks(&self) -> impl Iterator<Item = BlockFlags> {
        let here = self.extensions.iter();
        let here = here.filter(|block| self.is_unsupported(block));
        let there = self
            .v6
            .iter()
            .flat_map(|header| header.unsupported_blocks());
        here.map(|block| block.flags)
            .chain(there.map(|block| BlockFlags::from_bits(block.flags.bits())))
    }

    /// The block-type-specific data of one of its extension blocks.
    #[must_use]
    pub fn content(&self, block: &ExtensionBlock) -> &[u8] {
        block.content_in(&self.octets)
    }

    pub(crate) fn is_unsupported(&self, block: &ExtensionBlock) -> bool {
        let is_foreign = match block.block_type {
            BlockType::AGGREGATED_REPORTS => !announces_aggregated_reports(self.content(block)),
            BlockType::QUALITY_OF_SERVICE | BlockType::HDTN_PRIORITY => {
                self.class_in(block).is_none()
            }
            _ => false,
        };
        !block.block_type.is_supported() || is_foreign || self.encrypted.contains(&block.number)
    }

    /// The octets of the application data unit that the bundle carries.
    #[must_use]
    pub fn range(&self) -> FragmentRange {
        let offset = self.primary.fragment.map_or(0, |place| place.offset);
        FragmentRange {
            offset,
            length: self.payload.length,
        }
    }

    /// Octets of the whole application data unit.
    #[must_use]
    pub fn total_adu_octets(&self) -> u64 {
        self.primary
            .fragment
            .map_or(self.payload.length, |place| place.total_adu_octets)
    }

    /// Whether the bundle's payload is an administrative record.
    #[must_use]
    pub fn is_administrative(&self) -> bool {
        (self.primary.flags).contains(BundleFlags::ADMINISTRATIVE_RECORD)
    }

    pub(crate) fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.octets.get(range.clone()).unwrap_or_default()
    }
}

impl Default for Header {
    /// Nothing: to be filled.
    fn default() -> Self {
        Self {
            primary: PrimaryBlock {
                flags: BundleFlags::NONE,
                crc_type: CrcType::None,
                destination: EndpointId::Null,
                source: EndpointId::Null,
                report_to: EndpointId::Null,
                creation: CreationTimestamp::default(),
                lifetime_ms: 0,
                fragment: None,
            },
            extensions: ExtensionBlocks::new(),
            payload: PayloadHead::default(),
            octets: Bytes::new(),
            primary_octets: 0..0,
            address_fields: 0..0,
            encrypted: Vec::new(),
            age_ms: None,
            hop_count: None,
            previous_node: None,
            v6: None,
            trailer: None,
        }
    }
}
