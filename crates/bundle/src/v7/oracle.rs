//! Assertions that hold for any octets that the bundle decoder is given: the fuzz target and the replay of its corpus
//! call this.

use bytes::Bytes;

use crate::header::Header;
use crate::header_reader::HeaderReader;
use crate::payload::{Bundle, PayloadCrc, PayloadVerifier};
use crate::reading::Reading;
use crate::v7::admin::AdministrativeRecord;
use crate::v7::block::{BundleFlags, CanonicalBlock};
use crate::v7::forward::HopEdit;
use crate::v7::refusal::Refusal;

/// Reads the octets both ways and checks what must be true of the result; tells what strict reading said.
///
/// # Errors
/// Strict reading's refusal.
///
/// # Panics
/// When the decoder contradicts itself.
pub fn check_bundle(octets: &[u8]) -> Result<Bundle, Refusal> {
    let octets = Bytes::copy_from_slice(octets);
    let mut reader = HeaderReader::default();
    for reading in [Reading::Strict, Reading::Lenient, Reading::Strict] {
        if reader.read_usual(&octets, reading) {
            let header = reader.header().clone();
            let thorough = crate::v7::header::decode_header(&octets, reading);
            assert_eq!(Ok(header), thorough, "a glance sees what is there");
        }
    }
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
    assert_eq!(header.check_body(octets), Ok(()), "the body is what it was");
    let place = octets.len().saturating_sub(2);
    let mut damaged = octets.to_vec();
    if let Some(octet) = damaged.get_mut(place) {
        *octet = !*octet;
    }
    let body = damaged.get(header.octets.len()..).unwrap_or_default();
    let (payload, trailer) = body.split_at(bundle.payload.len());
    let mut verifier = PayloadVerifier::new(header);
    verifier.update(payload);
    assert_eq!(
        header.check_body(&damaged),
        verifier.finish(trailer),
        "the body is judged as it is when it passes by"
    );
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
            header.content(block).to_vec().into(),
        );
        let octets = block.octets_in(&header.octets);
        let has_definite_length = octets.first() != Some(&0x9f);
        assert!(
            !has_definite_length || block.has_new_number() || again.octets == octets,
            "a block encodes to its octets"
        );
    }
    let mut kept = HopEdit {
        unsupported: crate::v7::forward::UnsupportedBlocks::Keep,
        ..HopEdit::default()
    };
    for _ in 0..2 {
        let outgoing = header.forwarded(&kept);
        let mut appended = alloc::vec![7];
        let total = header.append_forwarded(&kept, &mut appended);
        assert_eq!(
            (appended.split_first(), total),
            (Some((&7, &outgoing.octets[..])), outgoing.total_octets()),
            "it goes out the same in room that is there"
        );
        let forwarded = Header::decode(&outgoing.octets, Reading::Lenient);
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
