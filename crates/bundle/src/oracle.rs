//! What must hold for any octets that the bundle decoder is given: the fuzz target and the replay of its corpus
//! call this.

use bytes::Bytes;

use crate::admin::AdministrativeRecord;
use crate::block::{BundleFlags, CanonicalBlock};
use crate::forward::HopEdit;
use crate::header::Header;
use crate::payload::{Bundle, PayloadCrc};
use crate::reading::Reading;
use crate::refusal::Refusal;

/// Reads the octets both ways and checks what must be true of the result; tells what strict reading said.
///
/// # Errors
/// Strict reading's refusal.
///
/// # Panics
/// When the decoder contradicts itself.
pub fn check_bundle(octets: &[u8]) -> Result<Bundle, Refusal> {
    let octets = Bytes::copy_from_slice(octets);
    let strict = Bundle::decode(&octets, Reading::Strict);
    let lenient = Bundle::decode(&octets, Reading::Lenient);
    if let Ok(bundle) = &strict {
        assert_eq!(
            Ok(bundle),
            lenient.as_ref(),
            "lenient reading accepts all that strict reading does"
        );
    }
    if let Ok(bundle) = &lenient {
        check_accepted(&octets, bundle);
    }
    strict
}

fn check_accepted(octets: &Bytes, bundle: &Bundle) {
    let header = &bundle.header;
    let mut crc = PayloadCrc::new(&header.payload);
    crc.update(&bundle.payload);
    let again = [
        header.octets.as_ref(),
        bundle.payload.as_ref(),
        crc.trailer().as_ref(),
    ]
    .concat();
    assert_eq!(
        again,
        octets.as_ref(),
        "header, payload and trailer are the bundle"
    );
    assert_eq!(
        u64::try_from(octets.len()),
        Ok(header.total_octets()),
        "the lengths add up"
    );
    for block in &header.extensions {
        let again = CanonicalBlock::new(
            block.block_type,
            block.number,
            block.flags,
            block.crc_type,
            block.content.clone(),
        );
        let has_definite_length = block.octets.first() != Some(&0x9f);
        assert!(
            !has_definite_length || again == *block,
            "a block encodes to its octets"
        );
    }
    let mut kept = HopEdit {
        unsupported: crate::forward::UnsupportedBlocks::Keep,
        ..HopEdit::default()
    };
    for _ in 0..2 {
        let forwarded = Header::decode(&header.forwarded(&kept).octets, Reading::Lenient);
        let forwarded = forwarded.ok().flatten();
        assert_eq!(
            forwarded.as_ref().map(|next| &next.primary),
            Some(&header.primary),
            "the primary block stays"
        );
        assert_eq!(
            forwarded.map(|next| next.payload),
            Some(header.payload.clone()),
            "the payload head stays"
        );
        kept.age_increase_ms = 1;
        kept.hop_increment = 1;
        kept.previous_node = header.primary.destination.node_id();
    }
    for length in (0..header.octets.len()).step_by(7) {
        let prefix = Header::decode(&octets.slice(..length), Reading::Lenient);
        assert_eq!(
            prefix,
            Ok(None),
            "a prefix of an accepted header needs more octets"
        );
    }
    if header
        .primary
        .flags
        .contains(BundleFlags::ADMINISTRATIVE_RECORD)
        && let Ok(record) = AdministrativeRecord::decode(&bundle.payload, Reading::Lenient)
    {
        let again = AdministrativeRecord::decode(&record.encode(), Reading::Strict);
        assert_eq!(again, Ok(record), "a record encodes to itself");
    }
}
