//! [`BundleBuilder`]: new bundles.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::cbor::{write_byte_string_head, write_indefinite_array};
use crate::crc::CrcType;
use crate::eid::EndpointId;
use crate::gateway::identity;
use crate::header::{Closing, HeadOctets, Header, PayloadHead};
use crate::id::CreationTimestamp;
use crate::payload::PayloadCrc;
use crate::priority::{ClassOfService, Priority};
use crate::reading::Reading;
use crate::v6;
use crate::v7::block::{
    BlockFlags, BlockHead, BlockType, BundleFlags, CanonicalBlock, FragmentPlace, HopCount,
    PrimaryBlock, encode_aggregated_reports, encode_bundle_age, encode_hop_count,
};
use crate::v7::refusal::Refusal;
use crate::version::Version;

/// A header to send: first its octets, then the payload, then what [`OutgoingHeader::payload_crc`] makes of the
/// payload that has passed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingHeader {
    /// All octets before the payload.
    pub octets: Bytes,
    /// The payload block's head, the end of `octets`.
    pub payload: PayloadHead,
}

impl OutgoingHeader {
    /// The checksum of the payload block, for the trailer.
    #[must_use]
    pub fn payload_crc(&self) -> PayloadCrc {
        PayloadCrc::new(&self.payload)
    }

    /// Octets of the whole bundle.
    #[must_use]
    pub fn total_octets(&self) -> u64 {
        u64::try_from(self.octets.len())
            .unwrap_or(u64::MAX)
            .saturating_add(self.payload.length)
            .saturating_add(self.payload.trailer_octets())
    }
}

/// The CRC type of the extension blocks that a node writes: they are a few octets that change at every hop, the link and the store
/// guard them between, and a checksum would be a third of each.
pub(crate) const EXTENSION_CRC_TYPE: CrcType = CrcType::None;

/// Makes new bundles (RFC 9171 5.2). Reports go to the source, and the primary and payload blocks carry CRC-32C, unless it is
/// told otherwise; extension blocks carry no checksum.
#[derive(Clone, Debug)]
pub struct BundleBuilder {
    version: Version,
    primary: PrimaryBlock,
    payload_flags: BlockFlags,
    payload_crc_type: CrcType,
    blocks: Vec<(BlockType, BlockFlags, Bytes)>,
    /// The custodian of a bundle of version 6.
    custodian: EndpointId,
    priority: Option<Priority>,
}

impl BundleBuilder {
    /// A bundle from `source` to `destination`, useful for `lifetime_ms` milliseconds from its creation. From the
    /// null endpoint it is anonymous, and must not be fragmented. Without creation time it has a bundle age block.
    #[must_use]
    pub fn new(
        source: EndpointId,
        destination: EndpointId,
        creation: CreationTimestamp,
        lifetime_ms: u64,
    ) -> Self {
        let builder = Self {
            version: Version::V7,
            primary: PrimaryBlock {
                flags: BundleFlags::NONE,
                crc_type: CrcType::Crc32C,
                destination,
                report_to: source.clone(),
                source,
                creation,
                lifetime_ms,
                fragment: None,
            },
            payload_flags: BlockFlags::NONE,
            payload_crc_type: CrcType::Crc32C,
            blocks: Vec::new(),
            custodian: EndpointId::Null,
            priority: None,
        };
        // RFC 9171 4.2.3: nothing that needs the bundle's identity for anonymous bundles.
        let builder = match builder.primary.source.is_null() {
            true => builder.with_flags(BundleFlags::MUST_NOT_FRAGMENT),
            false => builder,
        };
        // RFC 9171 4.4.2: without creation time, exactly one bundle age block.
        if creation.time.is_known() {
            builder
        } else {
            builder.with_age(0)
        }
    }

    /// The primary block as it stands.
    #[must_use]
    pub const fn primary(&self) -> &PrimaryBlock {
        &self.primary
    }

    /// The version of the bundle.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The bundle is of another version than 7. Of version 6, its flags are those of RFC 5050 4.2; it has no checksums, no hop limit, and
    /// no extension blocks but its age where it has no creation time, and its ordinal where it has one.
    #[must_use]
    pub const fn with_version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn with_creation(mut self, creation: CreationTimestamp) -> Self {
        self.primary.creation = creation;
        self
    }

    /// Sets the endpoint to which status reports go.
    #[must_use]
    pub fn with_report_to(mut self, endpoint: EndpointId) -> Self {
        self.primary.report_to = endpoint;
        self
    }

    /// Adds bundle processing control flags.
    #[must_use]
    pub fn with_flags(mut self, flags: BundleFlags) -> Self {
        self.primary.flags = self.primary.flags | flags;
        self
    }

    /// The checksum of the primary block.
    #[must_use]
    pub const fn with_crc_type(mut self, crc_type: CrcType) -> Self {
        self.primary.crc_type = crc_type;
        self
    }

    /// The checksum of the payload block.
    #[must_use]
    pub const fn with_payload_crc_type(mut self, crc_type: CrcType) -> Self {
        self.payload_crc_type = crc_type;
        self
    }

    /// Makes the bundle a fragment.
    #[must_use]
    pub const fn with_fragment(mut self, place: FragmentPlace) -> Self {
        self.primary.fragment = Some(place);
        self
    }

    /// Adds or replaces the bundle age block: milliseconds since the bundle was created.
    #[must_use]
    pub fn with_age(mut self, age_ms: u64) -> Self {
        self.blocks
            .retain(|(block_type, ..)| *block_type != BlockType::BUNDLE_AGE);
        // Every fragment needs it as much as the whole.
        self.with_block(
            BlockType::BUNDLE_AGE,
            BlockFlags::REPLICATE,
            encode_bundle_age(age_ms),
        )
    }

    /// Adds or replaces the hop count block: how often the bundle may be forwarded, 1 to 255.
    #[must_use]
    pub fn with_hop_limit(mut self, limit: u8) -> Self {
        self.blocks
            .retain(|(block_type, ..)| *block_type != BlockType::HOP_COUNT);
        let content = encode_hop_count(HopCount { limit, count: 0 });
        self.with_block(BlockType::HOP_COUNT, BlockFlags::REPLICATE, content)
    }

    /// The order in which the bundle leaves nodes: of version 7 in ION's block, which a normal one has not; of version 6 in its flags and, for
    /// an ordinal, the extended class of service block.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The order in which the bundle leaves nodes: what its flags say where nothing else does.
    #[must_use]
    pub fn priority(&self) -> Priority {
        let flags = self.primary.flags.bits();
        self.priority
            .unwrap_or_else(|| Priority::of_flags(self.version, flags))
    }

    /// Says that the report-to endpoint reads aggregated reports (`docs/aggregated-reports.md`).
    #[must_use]
    pub fn with_aggregated_reports(self) -> Self {
        // A fragment may be reported on like the whole.
        self.with_block(
            BlockType::AGGREGATED_REPORTS,
            BlockFlags::REPLICATE,
            encode_aggregated_reports(),
        )
    }

    /// Adds an extension block; blocks are numbered from 2.
    #[must_use]
    pub fn with_block(mut self, block_type: BlockType, flags: BlockFlags, content: Bytes) -> Self {
        self.blocks.push((block_type, flags, content));
        self
    }

    /// The header before a payload of `payload_octets`.
    ///
    /// # Errors
    /// The rule of RFC 9171 that such a bundle would break.
    pub fn header(&self, payload_octets: u64) -> Result<OutgoingHeader, Refusal> {
        if self.version == Version::V6 {
            return self.header_v6(payload_octets);
        }
        let mut out = Vec::with_capacity(128);
        write_indefinite_array(&mut out);
        self.primary.encode(&mut out);
        let quality = self
            .priority
            .filter(|it| *it != Priority::Normal)
            .map(|it| {
                let content = ClassOfService::of(it).block_v7();
                // Every fragment leaves in the same order.
                (
                    BlockType::QUALITY_OF_SERVICE,
                    BlockFlags::REPLICATE,
                    content,
                )
            });
        for (number, (block_type, flags, content)) in (2..).zip(self.blocks.iter().chain(&quality))
        {
            let crc_type = EXTENSION_CRC_TYPE;
            let block = CanonicalBlock::new(*block_type, number, *flags, crc_type, content.clone());
            out.extend_from_slice(&block.octets);
        }
        let outgoing = end_header(
            out,
            self.payload_flags,
            self.payload_crc_type,
            payload_octets,
        );
        // A header that this node writes is one that it reads: the rules stand in the decoder alone.
        match Header::decode(&outgoing.octets, Reading::Strict)? {
            Some(_) => Ok(outgoing),
            None => Err(Refusal::Truncated),
        }
    }

    /// The header of a bundle of version 6: its creation timestamp is the one that a gateway makes of that of version 7.
    fn header_v6(&self, payload_octets: u64) -> Result<OutgoingHeader, Refusal> {
        let primary = &self.primary;
        let creation = identity::to_v6(primary.creation)
            .map_err(|refusal| Refusal::V6(v6::Refusal::Untranslatable(Box::new(refusal))))?;
        let singleton = v6::BundleFlags::SINGLETON_DESTINATION;
        let flags = v6::BundleFlags::from_bits(primary.flags.bits())
            .with(singleton, primary.destination.is_singleton())
            .with_priority(self.class_v6());
        let mut header = v6::Header::new(
            v6::PrimaryBlock {
                flags,
                destination: primary.destination.clone(),
                source: primary.source.clone(),
                report_to: primary.report_to.clone(),
                custodian: self.custodian.clone(),
                creation,
                // Nothing expires early.
                lifetime_s: primary.lifetime_ms.div_ceil(1_000),
                fragment: primary.fragment.map(|place| v6::FragmentPlace {
                    offset: place.offset,
                    total_adu_octets: place.total_adu_octets,
                }),
            },
            payload_octets,
        )?;
        let class = self.priority.map(ClassOfService::of);
        header
            .blocks
            .extend(class.and_then(ClassOfService::block_v6));
        if !primary.creation.time.is_known() {
            let age = v6::Block::of_age(v6::BlockType::AGE, 0);
            header.blocks.push(age);
        }
        Ok(v6::forward::outgoing(
            header.encode(),
            v6::BlockFlags::LAST,
            payload_octets,
        ))
    }

    /// The class of service in the flags of version 6.
    fn class_v6(&self) -> v6::Priority {
        let flags = v6::BundleFlags::from_bits(self.primary.flags.bits());
        self.priority.map_or(flags.priority(), Priority::class)
    }

    /// The whole bundle with this payload.
    ///
    /// # Errors
    /// The rule of RFC 9171 that such a bundle would break.
    pub fn bundle(&self, payload: &[u8]) -> Result<Bytes, Refusal> {
        let header = self.header(u64::try_from(payload.len()).unwrap_or(u64::MAX))?;
        let mut crc = header.payload_crc();
        crc.update(payload);
        let trailer = crc.trailer();
        let mut out = Vec::with_capacity(header.octets.len() + payload.len() + trailer.len());
        out.extend_from_slice(&header.octets);
        out.extend_from_slice(payload);
        out.extend_from_slice(&trailer);
        Ok(out.into())
    }
}

/// Ends a header with the head of a payload block.
pub(crate) fn end_header(
    mut out: Vec<u8>,
    flags: BlockFlags,
    crc_type: CrcType,
    length: u64,
) -> OutgoingHeader {
    let payload = PayloadHead::new(flags, crc_type, length);
    out.extend_from_slice(&payload.octets);
    OutgoingHeader {
        octets: Bytes::from(out),
        payload,
    }
}

impl PayloadHead {
    /// The head as this node writes it.
    pub(crate) fn new(flags: BlockFlags, crc_type: CrcType, length: u64) -> Self {
        let mut octets = Vec::new();
        let head = BlockHead {
            block_type: BlockType::PAYLOAD,
            number: 1,
            flags,
            crc_type,
            is_indefinite: false,
        };
        head.encode(&mut octets);
        write_byte_string_head(&mut octets, length);
        Self {
            flags,
            crc_type,
            length,
            // No head has more octets than are kept.
            octets: HeadOctets::new(&octets).unwrap_or_default(),
            closing: Closing::Break,
        }
    }
}
