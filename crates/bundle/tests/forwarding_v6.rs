//! Bundles of version 6 on their way through a node: described as those of version 7, forwarded, cut, and taken into custody.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is wrong by failing"
)]

use bytes::Bytes;
use dhow_bundle::gateway::AgeDialect;
use dhow_bundle::v6::{self, Block, BlockFlags, BlockType, BundleFlags, Trailer};
use dhow_bundle::v7::forward::Custodian;
use dhow_bundle::{
    BundleBuilder, CreationTimestamp, DtnTime, EndpointId, FragmentRange, Header, HeaderReader,
    HeaderTemplate, HopEdit, PayloadVerifier, Reading, Version,
};

fn captured() -> impl Iterator<Item = (&'static str, Bytes)> {
    let lines = include_str!("data/bundles_v6.tsv").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (name, digits) = line.split_once('\t').unwrap();
        let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let octets: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
        (name, Bytes::from(octets))
    })
}

fn endpoint(text: &str) -> EndpointId {
    text.parse().unwrap()
}

/// A header with the blocks behind the payload, and the payload.
fn read(octets: &Bytes) -> (Header, Bytes) {
    let mut header = Header::decode(octets, Reading::Strict).unwrap().unwrap();
    header.check_body(octets).unwrap();
    let end = header.octets.len() + usize::try_from(header.payload_octets()).unwrap();
    if header.has_open_end() {
        header.read_trailer(&octets.slice(end..)).unwrap();
    } else {
        assert_eq!(end, octets.len());
    }
    let payload = octets.slice(header.octets.len()..end);
    (header, payload)
}

fn sent(header: &Header, edit: &HopEdit, payload: &[u8]) -> Bytes {
    let outgoing = header.forwarded(edit);
    let trailer = header.forwarded_trailer(edit);
    let crc = outgoing.payload_crc();
    let octets: Bytes = [&outgoing.octets[..], payload, &trailer].concat().into();
    assert!(crc.left_octets() == outgoing.payload.length);
    if edit.fragment.is_none() {
        let mut appended = Vec::new();
        let total = header.append_forwarded(edit, &mut appended);
        assert_eq!(appended, outgoing.octets);
        assert_eq!(total, u64::try_from(octets.len()).unwrap());
    }
    octets
}

/// A bundle with blocks of every kind on both sides of its payload.
fn with_blocks_around(payload: &[u8]) -> Bytes {
    let primary = v6::PrimaryBlock {
        flags: BundleFlags::SINGLETON_DESTINATION,
        destination: endpoint("dtn://b/in"),
        source: endpoint("dtn://a/out"),
        report_to: endpoint("dtn://a/"),
        custodian: EndpointId::Null,
        creation: v6::CreationTime {
            seconds: 848_000_000,
            sequence: 7_042,
        },
        lifetime_s: 3_600,
        fragment: None,
    };
    let length = u64::try_from(payload.len()).unwrap();
    let mut header = v6::Header::new(primary, length).unwrap();
    let block = |block_type, flags| Block {
        block_type: BlockType(block_type),
        flags,
        references: Vec::new(),
        content: Bytes::from_static(b"x"),
    };
    header.blocks.push(block(192, BlockFlags::NONE));
    header
        .blocks
        .push(block(193, BlockFlags::DISCARD_IF_UNPROCESSED));
    header.blocks.push(Block::of_age(BlockType::AGE, 5_000_000));
    header.payload_flags = BlockFlags::NONE;
    let mut octets = header.encode();
    octets.extend_from_slice(payload);
    block(194, BlockFlags::REPLICATE).encode(&mut octets);
    let last = BlockFlags::LAST | BlockFlags::DISCARD_IF_UNPROCESSED;
    block(195, last).encode(&mut octets);
    octets.into()
}

#[test]
fn captured_bundles_are_forwarded() {
    let mut reader = HeaderReader::default();
    for (name, octets) in captured() {
        assert!(reader.read(&octets, Reading::Strict).unwrap(), "{name}");
        assert_eq!(reader.header().version(), Version::V6);
        let (header, payload) = read(&octets);
        let edit = HopEdit {
            previous_node: endpoint("ipn:9.0").node_id(),
            age_increase_ms: 1_500,
            ..HopEdit::default()
        };
        let (again, same) = read(&sent(&header, &edit, &payload));
        assert_eq!(same, payload, "{name}");
        assert_eq!(again.primary, header.primary, "{name}");
        assert_eq!(
            again.age_ms(),
            header.age_ms().map(|age| age + 1_500),
            "{name}"
        );
        let own = again.previous_node().and_then(EndpointId::node_id);
        assert_eq!(own.is_some(), header.previous_node().is_some(), "{name}");
        assert!(own.is_none_or(|own| Some(own) == edit.previous_node));
    }
}

#[test]
fn fragments_have_the_payload_and_the_blocks_that_they_are_to_have() {
    let payload = Bytes::from_static(b"0123456789");
    let (header, _) = read(&with_blocks_around(&payload));
    assert_eq!(
        header.id().creation,
        CreationTimestamp {
            time: DtnTime::from_millis(848_000_000_042),
            sequence: 7
        }
    );
    let mut types = Vec::new();
    for (offset, length) in [(0, 4), (4, 3), (7, 3)] {
        let edit = HopEdit {
            fragment: Some(FragmentRange { offset, length }),
            ..HopEdit::default()
        };
        let at = usize::try_from(offset).unwrap();
        let end = at + usize::try_from(length).unwrap();
        let (part, octets) = read(&sent(&header, &edit, &payload[at..end]));
        assert_eq!(octets, payload.slice(at..end));
        assert_eq!(
            (part.range(), part.total_adu_octets()),
            (FragmentRange { offset, length }, 10)
        );
        assert_eq!(part.id().creation, header.id().creation);
        let blocks = &part.as_v6().unwrap().blocks;
        types.push(blocks.iter().map(|it| it.block_type.0).collect::<Vec<_>>());
        // A fragment is cut again, with offsets in the whole.
        let edit = HopEdit {
            fragment: Some(FragmentRange {
                offset: offset + 1,
                length: 1,
            }),
            ..HopEdit::default()
        };
        let (small, octets) = read(&sent(&part, &edit, &payload[at + 1..at + 2]));
        assert_eq!(
            (small.range().offset, small.total_adu_octets()),
            (offset + 1, 10)
        );
        assert_eq!(octets, payload.slice(at + 1..at + 2));
    }
    // 192 and the age before the payload of the first, the age alone in the others: 193 and 195 were discarded.
    assert_eq!(types, [vec![192, 20], vec![20], vec![20]]);
}

#[test]
fn blocks_behind_the_payload_follow_it_and_the_last_one_says_so() {
    let payload = Bytes::from_static(b"0123456789");
    let (header, _) = read(&with_blocks_around(&payload));
    assert!(header.has_open_end());
    let edit = HopEdit::default();
    let trailer = header.forwarded_trailer(&edit);
    let outgoing = header.forwarded(&edit);
    let written = v6::Header::decode(&outgoing.octets).unwrap().unwrap();
    let trailer = Trailer::decode(&written, &trailer).unwrap().unwrap();
    let [block] = &trailer.blocks[..] else {
        panic!("{trailer:?}")
    };
    assert_eq!(block.block_type.0, 194);
    assert!(
        block
            .flags
            .contains(BlockFlags::LAST | BlockFlags::FORWARDED_UNPROCESSED)
    );
}

#[test]
fn a_trailer_that_does_not_end_or_goes_on_is_refused() {
    let octets = with_blocks_around(b"0123456789");
    let header = Header::decode(&octets, Reading::Strict).unwrap().unwrap();
    for cut in 1..8 {
        let octets = octets.slice(..octets.len() - cut);
        assert!(header.check_body(&octets).is_err(), "{cut}");
    }
    let more = [&octets[..], b"x"].concat();
    assert!(header.check_body(&more).is_err());
    let mut verifier = PayloadVerifier::new(&header);
    verifier.update(b"0123456789");
    let endless = [195, 0, 0].repeat(100_000);
    assert!(verifier.finish(&endless).is_err());
}

#[test]
fn a_custodian_takes_its_place_whatever_the_endpoints_look_like() {
    let custodians = ["ipn:9.0", "dtn://nine/"];
    for (name, octets) in captured() {
        let (header, payload) = read(&octets);
        for custodian in custodians.map(endpoint) {
            let edit = HopEdit {
                custodian: Some(Custodian {
                    endpoint: custodian.clone(),
                    id: Some(77),
                }),
                ..HopEdit::default()
            };
            let (again, _) = read(&sent(&header, &edit, &payload));
            assert_eq!(again.primary, header.primary, "{name}");
            let again = again.as_v6().unwrap();
            assert_eq!(again.primary.custodian, custodian, "{name}");
            let numbers: Vec<_> = again.blocks.iter().filter_map(Block::custody_id).collect();
            assert_eq!(numbers, [(77, custodian)], "{name}");
        }
    }
}

/// IBR-DTN and DTN2 take type 10 for the age: such a block leaves, and one with a custody ID does not, with any custodian.
#[test]
fn a_next_hop_that_has_the_age_in_type_10_gets_no_custody_id() {
    let payload = Bytes::from_static(b"0123456789");
    let (header, _) = read(&with_blocks_around(&payload));
    let mut old = header.as_v6().unwrap().clone();
    old.blocks = vec![
        Block::of_custody(5, &endpoint("ipn:7.0")),
        Block::of_age(BlockType::CUSTODY_OR_AGE, 5_000_000),
    ];
    let mut octets = old.encode();
    octets.extend_from_slice(&payload);
    Block::of_custody(6, &endpoint("ipn:7.0")).encode(&mut octets);
    Block {
        flags: BlockFlags::LAST,
        ..Block::of_age(BlockType::AGE, 1)
    }
    .encode(&mut octets);
    let (header, _) = read(&octets.into());
    let own = Custodian {
        endpoint: endpoint("ipn:9.0"),
        id: Some(77),
    };
    for custodian in [None, Some(own)] {
        let edit = HopEdit {
            custodian,
            age_dialect: AgeDialect::Type10,
            ..HopEdit::default()
        };
        let (again, _) = read(&sent(&header, &edit, &payload));
        let blocks = &again.as_v6().unwrap().blocks;
        assert!(blocks.iter().all(|block| block.custody_id().is_none()));
        let types: Vec<_> = blocks.iter().map(|it| it.block_type).collect();
        assert_eq!(types, [BlockType::CUSTODY_OR_AGE]);
    }
}

#[test]
fn a_new_bundle_is_the_same_bundle_in_either_version() {
    for time in [0, 848_000_000_042] {
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(time),
            sequence: 3,
        };
        let builder =
            BundleBuilder::new(endpoint("ipn:1.5"), endpoint("ipn:2.42"), creation, 60_001)
                .with_version(Version::V6);
        let octets = builder.bundle(b"hello").unwrap();
        let (header, payload) = read(&octets);
        assert_eq!(&payload[..], b"hello");
        assert_eq!(header.id().creation, creation);
        assert_eq!(header.primary.lifetime_ms, 61_000);
        assert_eq!(header.age_ms(), (time == 0).then_some(0));
        let template = HeaderTemplate::new(&builder, 5).unwrap();
        let mut written = Vec::new();
        template.write(creation, &mut written);
        assert_eq!(written, header.octets);
        assert_eq!(template.payload_crc().left_octets(), 5);
    }
}
