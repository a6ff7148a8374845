//! [`HeaderTemplate`]: headers that differ in nothing but their creation timestamp.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::builder::BundleBuilder;
use crate::crc::{CrcDigest, CrcType, write_crc_field};
use crate::id::CreationTimestamp;
use crate::payload::PayloadCrc;

use crate::v7::refusal::Refusal;
use crate::version::Version;

/// A new bundle's header in parts: the octets before and after its creation timestamp, encoded and checked
/// once for many bundles of one source to one destination.
///
/// ```
/// use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, HeaderTemplate};
///
/// let created = |sequence| CreationTimestamp { time: DtnTime::from_millis(800_000_000_000), sequence };
/// let builder = |sequence| {
///     let (source, destination) = ("ipn:1.5".parse().unwrap(), "ipn:2.42".parse().unwrap());
///     BundleBuilder::new(source, destination, created(sequence), 60_000)
/// };
/// let template = HeaderTemplate::new(&builder(0), 1_000)?;
/// let mut header = Vec::new();
/// template.write(created(77), &mut header);
/// assert_eq!(header, builder(77).header(1_000)?.octets);
/// # Ok::<(), dhow_bundle::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderTemplate {
    /// Whether the creation time is known: without one there are other blocks (RFC 9171 4.4.2).
    is_timed: bool,
    /// The checksum over the primary block up to the creation timestamp.
    digest: CrcDigest,
    before: Vec<u8>,
    /// The fields of the primary block between the creation timestamp and the CRC field: the lifetime, and a fragment's place.
    between: Vec<u8>,
    /// The extension blocks and the payload block's head.
    after: Vec<u8>,
    payload_octets: u64,
    trailer_octets: u64,
    payload_crc: PayloadCrc,
    /// The maker of headers of version 6, which are written anew for each bundle: the length of a number says how long the block is.
    v6: Option<Box<BundleBuilder>>,
}

impl HeaderTemplate {
    /// The template of what `builder` makes, before payloads of `payload_octets`.
    ///
    /// # Errors
    /// The rule of RFC 9171 that such a bundle would break.
    pub fn new(builder: &BundleBuilder, payload_octets: u64) -> Result<Self, Refusal> {
        // A header that this node writes is one that it reads: the whole is read once, with the timestamp that it has now.
        let header = builder.header(payload_octets)?;
        let primary = builder.primary();
        let (mut before, mut between) = (Vec::new(), Vec::new());
        primary.encode_before_creation(&mut before);
        primary.encode_after_creation(&mut between);
        let mut digest = CrcDigest::new(primary.crc_type);
        digest.update(&before);
        let mut template = Self {
            is_timed: primary.creation.time.is_known(),
            digest,
            before,
            between,
            after: Vec::new(),
            payload_octets,
            trailer_octets: header.payload.trailer_octets(),
            payload_crc: header.payload_crc(),
            v6: (builder.version() == Version::V6).then(|| Box::new(builder.clone())),
        };
        if template.v6.is_some() {
            return Ok(template);
        }
        let mut start = Vec::new();
        template.write(primary.creation, &mut start);
        template.after = header
            .octets
            .get(start.len()..)
            .unwrap_or_default()
            .to_vec();
        Ok(template)
    }

    /// Whether it is for bundles with a creation time, or for those without.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Octets of payload that follow.
    #[must_use]
    pub const fn payload_octets(&self) -> u64 {
        self.payload_octets
    }

    /// Octets that follow the payload.
    #[must_use]
    pub const fn trailer_octets(&self) -> u64 {
        self.trailer_octets
    }

    /// Appends the header of the bundle with this creation timestamp.
    pub fn write(&self, creation: CreationTimestamp, out: &mut Vec<u8>) {
        assert!(
            creation.time.is_known() == self.is_timed,
            "a template is for bundles with a creation time or for bundles without"
        );
        if let Some(builder) = &self.v6 {
            let header = builder
                .clone()
                .with_creation(creation)
                .header(self.payload_octets);
            out.extend_from_slice(&header.map(|header| header.octets).unwrap_or_default());
            return;
        }
        // RFC 9171 4.1: an array of indefinite length around all blocks.
        out.push(0x9f);
        out.extend_from_slice(&self.before);
        let start = out.len();
        creation.encode(out);
        out.extend_from_slice(&self.between);
        let crc_type = self.digest.crc_type();
        if crc_type != CrcType::None {
            let mut digest = self.digest;
            digest.update(out.get(start..).unwrap_or_default());
            digest.update(crc_type.zeroed_field());
            write_crc_field(out, crc_type, digest.value());
        }
        out.extend_from_slice(&self.after);
    }

    /// The checksum of the payload block, for the trailer.
    #[must_use]
    pub fn payload_crc(&self) -> PayloadCrc {
        self.payload_crc.clone()
    }
}
