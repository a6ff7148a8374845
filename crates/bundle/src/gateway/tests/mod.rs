//! Bundles in the other version and back.

mod captured;
mod crossed;
mod properties;
mod refused;

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::builder::BundleBuilder;
use crate::v6::{self, Block, BlockFlags, BundleFlags, CreationTime};
use crate::{CreationTimestamp, DtnTime, EndpointId, Reading};

/// Captures of live programs: their name and number, and the bundle.
const CAPTURED_V6: &str = include_str!("../../../tests/data/bundles_v6.tsv");

const CAPTURED_V7: &str = include_str!("../../../tests/data/bundles.tsv");

fn octets(digits: &str) -> Bytes {
    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

fn captured(file: &'static str) -> impl Iterator<Item = (&'static str, Bytes)> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (name, digits) = line.split_once('\t').unwrap();
        (name, octets(digits))
    })
}

/// A whole bundle of version 6: header, payload, trailer.
fn read_v6(octets: &Bytes) -> (v6::Header, Bytes, v6::Trailer) {
    let (header, trailer) = v6::oracle::check_bundle(octets).unwrap().unwrap();
    let start = header.octets.len();
    let end = start + usize::try_from(header.payload_octets).unwrap();
    (header, octets.slice(start..end), trailer)
}

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

fn old_primary() -> v6::PrimaryBlock {
    v6::PrimaryBlock {
        flags: BundleFlags::SINGLETON_DESTINATION.with_priority(v6::Priority::Expedited),
        destination: eid("ipn:2.1"),
        source: eid("ipn:1.1"),
        report_to: eid("dtn:none"),
        custodian: eid("dtn:none"),
        creation: CreationTime {
            seconds: 848_000_000,
            sequence: 7_042,
        },
        lifetime_s: 3_600,
        fragment: None,
    }
}

/// A bundle of version 6 with these blocks before and behind its payload.
fn old_bundle(
    primary: v6::PrimaryBlock,
    before: Vec<Block>,
    behind: &[Block],
    payload_octets: u64,
) -> Option<(v6::Header, v6::Trailer)> {
    let last = match behind.is_empty() {
        true => BlockFlags::LAST,
        false => BlockFlags::NONE,
    };
    let header = v6::Header {
        blocks: before,
        payload_flags: last,
        ..v6::Header::new(primary, payload_octets).ok()?
    };
    let header = v6::Header::decode(&header.encode().into()).ok()??;
    let mut out = Vec::new();
    for (at, block) in behind.iter().enumerate() {
        let last = match at + 1 == behind.len() {
            true => BlockFlags::LAST,
            false => BlockFlags::NONE,
        };
        let block = Block {
            flags: block.flags | last,
            ..block.clone()
        };
        block.encode(&mut out);
    }
    let trailer = v6::Trailer::decode(&header, &out.into()).ok()??;
    Some((header, trailer))
}

fn new_builder() -> BundleBuilder {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_042),
        sequence: 7,
    };
    BundleBuilder::new(eid("ipn:1.1"), eid("ipn:2.1"), creation, 3_600_500)
}

fn new_header(builder: &BundleBuilder) -> crate::header::Header {
    let octets = builder.header(100).unwrap().octets;
    crate::header::Header::decode(&octets, Reading::Strict)
        .unwrap()
        .unwrap()
}

fn old_block(block_type: u8, flags: u64) -> Block {
    Block::new(
        v6::BlockType(block_type),
        BlockFlags::from_bits(flags),
        vec![7; 3],
    )
}
