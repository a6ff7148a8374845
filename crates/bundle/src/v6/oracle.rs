//! Assertions that hold for any octets that the decoders of version 6 are given: the fuzz target and the replay of its corpus.
//!
//! Everything here panics when they break their word; it is no part of the interface.

use bytes::Bytes;

use super::admin::AdministrativeRecord;
use super::header::MAX_HEADER_OCTETS;
use super::{BundleFlags, Header, Refusal, Trailer};

/// Reads a bundle to its last octet; none where it is cut. A bundle that is read can be written, and is read again as the same.
///
/// # Errors
/// The rule that the octets break.
///
/// # Panics
/// A decoder does what it must not.
pub fn check_bundle(octets: &Bytes) -> Result<Option<(Header, Trailer)>, Refusal> {
    let Some(header) = Header::decode(octets)? else {
        return Ok(None);
    };
    let payload = usize::try_from(header.payload_octets).unwrap_or(usize::MAX);
    let end = header.octets.len().saturating_add(payload);
    if octets.len() < end {
        return Ok(None);
    }
    let rest = octets.slice(end..);
    let Some(trailer) = Trailer::decode(&header, &rest)? else {
        return Ok(None);
    };
    if trailer.octets != rest.len() {
        return Err(Refusal::OctetsAfterEnd);
    }
    if (header.primary.flags).contains(BundleFlags::ADMINISTRATIVE_RECORD) {
        let payload = octets.slice(header.octets.len()..end);
        if let Ok(record) = AdministrativeRecord::decode(&payload) {
            assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record));
        }
    }
    let written = Bytes::from(header.encode());
    let again = Header::decode(&written);
    let same = |it: &Header| it.primary == header.primary && it.blocks == header.blocks;
    // A name of a node may have got its slash.
    let is_longer = written.len() > MAX_HEADER_OCTETS;
    assert!(
        is_longer || matches!(&again, Ok(Some(again)) if same(again)),
        "{again:?} is not {header:?}"
    );
    for block in header.blocks.iter().chain(&trailer.blocks) {
        let _ = (block.age_us(), block.custody_id());
        let _ = block.previous_hop(&header.dictionary);
    }
    Ok(Some((header, trailer)))
}
