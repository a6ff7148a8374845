//! Changes of a bundle on its way: hops, fragments, reassembly (RFC 9171 5.4, 5.6, 5.8, 5.9).
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

mod hex;

use bytes::Bytes;
use dhow_bundle::v7::forward::{ForwardedPayloadCrc, LastHop, UnsupportedBlocks};
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{
    BlockFlags, BlockType, Bundle, BundleBuilder, BundleFlags, CrcType, CreationTimestamp, DtnTime,
    EndpointId, ExtensionBlock, FragmentPlace, FragmentRange, Header, HopCount, HopEdit, NodeId,
    OutgoingHeader, PayloadVerifier, Reading, Refusal,
};
use hex::hex;
use proptest::prelude::*;

const PAYLOAD: &[u8] = b"The dhow waits for the wind.";

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

fn node(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn builder() -> BundleBuilder {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(1000),
        sequence: 7,
    };
    BundleBuilder::new(eid("ipn:1.1"), eid("ipn:2.1"), creation, 3_600_000)
}

fn header(octets: &Bytes) -> Header {
    Header::decode(octets, Reading::Strict).unwrap().unwrap()
}

/// The whole bundle that leaves with this header and payload.
fn sent(outgoing: &OutgoingHeader, payload: &[u8]) -> Bundle {
    let mut crc = outgoing.payload_crc();
    payload.chunks(5).for_each(|piece| crc.update(piece));
    let octets = [outgoing.octets.as_ref(), payload, crc.trailer().as_ref()].concat();
    assert_eq!(
        octets.len(),
        usize::try_from(outgoing.total_octets()).unwrap()
    );
    check_bundle(&octets).unwrap()
}

fn types(header: &Header) -> Vec<u64> {
    header
        .extensions
        .iter()
        .map(|block| block.block_type.0)
        .collect()
}

fn block(header: &Header, block_type: BlockType) -> ExtensionBlock {
    *header
        .extensions
        .iter()
        .find(|block| block.block_type == block_type)
        .unwrap()
}

/// RFC 9171 5.4 step 4.
#[test]
fn a_hop_replaces_the_previous_node_and_adds_to_age_and_hops() {
    let made = builder()
        .with_age(40)
        .with_hop_limit(9)
        .with_block(
            BlockType(200),
            BlockFlags::NONE,
            Bytes::from_static(b"kept"),
        )
        .bundle(PAYLOAD)
        .unwrap();
    let first = header(&made);
    let edit = HopEdit {
        previous_node: Some(node("ipn:5.0")),
        age_increase_ms: 300,
        hop_increment: 1,
        ..HopEdit::default()
    };
    let second = sent(&first.forwarded(&edit), PAYLOAD).header;
    assert_eq!(second.previous_node(), Some(&eid("ipn:5.0")));
    assert_eq!(second.age_ms(), Some(340));
    assert_eq!(second.hop_count(), Some(HopCount { limit: 9, count: 1 }));
    assert_eq!(
        second.content(&block(&second, BlockType(200))),
        first.content(&block(&first, BlockType(200)))
    );
    assert_eq!(
        block(&second, BlockType::PREVIOUS_NODE).crc_type,
        CrcType::None
    );
    assert_eq!(
        (&second.primary, &second.payload),
        (&first.primary, &first.payload)
    );

    let edit = HopEdit {
        previous_node: Some(node("dtn://b/")),
        ..edit
    };
    let third = sent(&second.forwarded(&edit), PAYLOAD).header;
    assert_eq!(third.previous_node(), Some(&eid("dtn://b/")));
    assert_eq!(
        (third.age_ms(), third.hop_count().unwrap().count),
        (Some(640), 2)
    );
    assert_eq!(types(&third), types(&second));
    // Without a node ID to give, the one received is removed all the same.
    let fourth = sent(&third.forwarded(&HopEdit::default()), PAYLOAD).header;
    assert_eq!(fourth.previous_node(), None);
    assert_eq!(types(&fourth), types(&first));
}

/// RFC 9171 5.6 step 4, and 4.4.2 for a bundle that came without its age.
#[test]
fn unprocessable_blocks_go_when_their_flags_say_so() {
    let made = builder()
        .with_block(
            BlockType(200),
            BlockFlags::DISCARD_IF_UNPROCESSABLE,
            Bytes::from_static(b"goes"),
        )
        .with_block(
            BlockType(201),
            BlockFlags::NONE,
            Bytes::from_static(b"stays"),
        )
        .bundle(PAYLOAD)
        .unwrap();
    let received = header(&made);
    assert_eq!(received.unsupported_blocks().count(), 2);
    assert_eq!(
        types(&sent(&received.forwarded(&HopEdit::default()), PAYLOAD).header),
        [201]
    );
    let own = HopEdit {
        unsupported: UnsupportedBlocks::Keep,
        ..HopEdit::default()
    };
    assert_eq!(received.forwarded(&own).octets, received.octets);

    let row = include_str!("data/rfc9173.txt").lines().nth(1).unwrap();
    let bundle = Bundle::decode(&Bytes::from(hex(row)), Reading::Lenient).unwrap();
    let edit = HopEdit {
        age_increase_ms: 12,
        previous_node: Some(node("ipn:5.0")),
        ..HopEdit::default()
    };
    let next = Header::decode(&bundle.header.forwarded(&edit).octets, Reading::Lenient)
        .unwrap()
        .unwrap();
    assert_eq!(next.age_ms(), Some(12));
    assert_eq!(types(&next), [6, 7, 11]);
    let numbers: Vec<u64> = next.extensions.iter().map(|block| block.number).collect();
    assert_eq!(numbers, [3, 4, 2]);
}

fn fragment(offset: u64, length: u64, payload_crc: ForwardedPayloadCrc) -> HopEdit {
    HopEdit {
        fragment: Some(FragmentRange { offset, length }),
        payload_crc,
        ..HopEdit::default()
    }
}

/// RFC 9171 5.8.
#[test]
fn fragments_carry_the_blocks_that_the_standard_says() {
    let made = builder()
        .with_age(5)
        .with_block(
            BlockType(200),
            BlockFlags::REPLICATE,
            Bytes::from_static(b"everywhere"),
        )
        .with_block(
            BlockType(201),
            BlockFlags::NONE,
            Bytes::from_static(b"first only"),
        )
        .bundle(PAYLOAD)
        .unwrap();
    let whole = header(&made);
    let total = u64::try_from(PAYLOAD.len()).unwrap();
    let first = sent(
        &whole.forwarded(&fragment(0, 10, ForwardedPayloadCrc::SameType)),
        &PAYLOAD[..10],
    );
    let last = sent(
        &whole.forwarded(&fragment(10, total - 10, ForwardedPayloadCrc::SameType)),
        &PAYLOAD[10..],
    );
    assert_eq!(types(&first.header), [7, 200, 201]);
    assert_eq!(types(&last.header), [7, 200]);
    for (part, offset) in [(&first, 0), (&last, 10)] {
        let primary = &part.header.primary;
        assert!(primary.flags.contains(BundleFlags::FRAGMENT));
        assert_eq!(
            primary.fragment,
            Some(FragmentPlace {
                offset,
                total_adu_octets: total
            })
        );
        assert_eq!(
            (&primary.source, primary.creation),
            (&whole.primary.source, whole.primary.creation)
        );
        assert_eq!(part.header.payload.crc_type, CrcType::Crc32C);
    }
    assert_eq!(last.header.id().to_string(), "ipn:1.1/1000/7@10+18");
    // Only one level: a fragment's fragment counts from the start of the original.
    let deeper = sent(
        &last
            .header
            .forwarded(&fragment(12, 3, ForwardedPayloadCrc::Omitted)),
        &PAYLOAD[12..15],
    );
    assert_eq!(
        deeper.header.primary.fragment,
        Some(FragmentPlace {
            offset: 12,
            total_adu_octets: total
        })
    );
    assert_eq!(
        (
            deeper.header.payload.crc_type,
            deeper.header.trailer_octets()
        ),
        (CrcType::None, 1)
    );
    // All of a bundle is no fragment of it.
    assert_eq!(
        whole
            .forwarded(&fragment(0, total, ForwardedPayloadCrc::SameType))
            .octets,
        whole.octets
    );
}

/// RFC 9171 5.9.
#[test]
fn the_first_fragment_gives_the_whole_its_header_back() {
    let whole = builder().with_hop_limit(3).bundle(PAYLOAD).unwrap();
    let first = header(&whole).forwarded(&fragment(0, 10, ForwardedPayloadCrc::SameType));
    let first = sent(&first, &PAYLOAD[..10]).header;
    let reassembled = first.reassembled().unwrap();
    assert_eq!(sent(&reassembled, PAYLOAD), check_bundle(&whole).unwrap());
    let last = header(&whole).forwarded(&fragment(10, 18, ForwardedPayloadCrc::SameType));
    assert_eq!(sent(&last, &PAYLOAD[10..]).header.reassembled(), None);
    assert_eq!(header(&whole).reassembled(), None);
}

/// RFC 9758: endpoint IDs of a bundle on its way keep their octets, also in another form than we prefer.
#[test]
fn fragments_keep_the_octets_of_the_addresses() {
    let addresses = "820283000201 820283000101 820282 00 00 821903e807 1a0036ee80";
    let octets = hex(&format!(
        "9f 88 07 00 00 {addresses} 85010100004568656c6c6f ff"
    ));
    let bundle = Bundle::decode(&Bytes::from(octets), Reading::Lenient).unwrap();
    let outgoing = bundle
        .header
        .forwarded(&fragment(1, 2, ForwardedPayloadCrc::SameType));
    assert_eq!(
        outgoing.octets,
        hex(&format!("9f 8a 07 01 00 {addresses} 01 05 8501010000 42"))
    );
}

/// RFC 9171 4.1. ION 4.1.3 gives the extension blocks of fragments that it makes the number 0, which is the primary block's.
#[test]
fn blocks_with_the_number_of_the_primary_block_leave_with_numbers_of_their_own() {
    let made = builder()
        .with_age(40)
        .with_hop_limit(9)
        .with_block(
            BlockType(200),
            BlockFlags::NONE,
            Bytes::from_static(b"kept"),
        )
        .bundle(PAYLOAD)
        .unwrap();
    let whole = header(&made);
    let mut octets = made.to_vec();
    for [block_type, number] in [BlockType::BUNDLE_AGE, BlockType::HOP_COUNT, BlockType(200)]
        .map(|block_type| [block_type.0, block(&whole, block_type).number])
    {
        let start: Vec<u8> = match u8::try_from(block_type).unwrap() {
            few @ 0..24 => vec![0x85, few],
            many => vec![0x85, 0x18, many],
        };
        let number = u8::try_from(number).unwrap();
        let at = octets
            .windows(start.len() + 1)
            .position(|it| it.starts_with(&start) && it.last() == Some(&number));
        // The block with number 2 keeps it: the others get those that are left.
        if number != 2 {
            octets[at.unwrap() + start.len()] = 0;
        }
    }
    let octets = Bytes::from(octets);
    assert_eq!(
        Header::decode(&octets, Reading::Strict).unwrap_err(),
        Refusal::BlockNumberReserved { number: 0 }
    );
    let _ = check_bundle(&octets);
    let read = Bundle::decode(&octets, Reading::Lenient).unwrap().header;
    assert_eq!(
        (read.age_ms(), read.hop_count()),
        (whole.age_ms(), whole.hop_count())
    );
    let mut numbers: Vec<u64> = read.extensions.iter().map(|block| block.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4]);
    for edit in [
        HopEdit::default(),
        HopEdit {
            previous_node: Some(node("ipn:5.0")),
            age_increase_ms: 7,
            hop_increment: 1,
            ..HopEdit::default()
        },
    ] {
        let next = sent(&read.forwarded(&edit), PAYLOAD).header;
        let mut numbers: Vec<u64> = next.extensions.iter().map(|block| block.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), next.extensions.len());
        let kept = block(&next, BlockType(200));
        assert_eq!(next.content(&kept), b"kept");
    }
    // As a fragment, and put together again.
    let first = sent(
        &read.forwarded(&fragment(0, 10, ForwardedPayloadCrc::SameType)),
        &PAYLOAD[..10],
    );
    assert_eq!(types(&first.header), types(&read));
    let again = sent(&first.header.reassembled().unwrap(), PAYLOAD).header;
    assert_eq!(types(&again), types(&read));
}

#[test]
#[should_panic(expected = "a bundle that must not be fragmented is not")]
fn fragmenting_what_must_not_be_is_our_fault() {
    let made = builder()
        .with_flags(BundleFlags::MUST_NOT_FRAGMENT)
        .bundle(PAYLOAD)
        .unwrap();
    let _ = header(&made).forwarded(&fragment(0, 10, ForwardedPayloadCrc::SameType));
}

#[test]
#[should_panic(expected = "a fragment is some of its bundle's payload")]
fn fragmenting_beyond_the_payload_is_our_fault() {
    let made = builder().bundle(PAYLOAD).unwrap();
    let _ = header(&made).forwarded(&fragment(20, 10, ForwardedPayloadCrc::SameType));
}

proptest! {
    /// RFC 9171 5.8: the payloads of all fragments, put together, are the payload; so after several splits.
    #[test]
    fn fragments_of_fragments_cover_the_payload(
        payload in proptest::collection::vec(any::<u8>(), 2..300),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 1..8),
    ) {
        let whole = check_bundle(&builder().with_hop_limit(9).bundle(&payload).unwrap()).unwrap();
        let mut parts = vec![whole.clone()];
        for cut in cuts {
            let part = parts.swap_remove(cut.index(parts.len()));
            let length = part.payload.len();
            if length < 2 {
                parts.push(part);
                continue;
            }
            let split = 1 + cut.index(length - 1);
            let start = part.header.range().offset;
            for range in [0..split, split..length] {
                let from = start + u64::try_from(range.start).unwrap();
                let size = u64::try_from(range.len()).unwrap();
                let outgoing = part.header.forwarded(&fragment(from, size, ForwardedPayloadCrc::SameType));
                parts.push(sent(&outgoing, &part.payload[range]));
            }
        }
        parts.sort_by_key(|part| part.header.range().offset);
        let joined: Vec<u8> = parts.iter().flat_map(|part| part.payload.to_vec()).collect();
        prop_assert_eq!(&joined, &payload);
        if let Some(outgoing) = parts[0].header.reassembled() {
            prop_assert_eq!(sent(&outgoing, &payload), whole);
        }
    }
}

proptest! {
    /// RFC 9171 5.8: the octets that have come of a bundle are a fragment of it, whose checksum needs no second look.
    #[test]
    fn the_first_part_of_a_payload_is_a_fragment_with_a_checksum_of_its_own(
        payload in prop::collection::vec(any::<u8>(), 2..5_000),
        cut in any::<prop::sample::Index>(),
        step in 1_usize..2_000,
        crc_type in prop::sample::select(vec![CrcType::None, CrcType::Crc16, CrcType::Crc32C]),
        place in prop::option::of(1_u64..1_000_000),
    ) {
        let mut builder = builder().with_payload_crc_type(crc_type);
        if let Some(offset) = place {
            let total_adu_octets = offset + 10_000;
            builder = builder.with_fragment(FragmentPlace { offset, total_adu_octets });
        }
        let whole = header(&builder.bundle(&payload).unwrap());
        let part = &payload[..1 + cut.index(payload.len() - 1)];
        let mut verifier = PayloadVerifier::new(&whole);
        part.chunks(step).for_each(|piece| verifier.update(piece));
        let range = FragmentRange {
            offset: whole.range().offset,
            length: u64::try_from(part.len()).unwrap(),
        };
        let edit = HopEdit {
            fragment: Some(range),
            ..HopEdit::default()
        };
        let outgoing = whole.forwarded(&edit);
        let trailer = verifier.fragment_trailer(&whole.payload, &outgoing.payload);
        let octets = [outgoing.octets.as_ref(), part, trailer.as_ref()].concat();
        let bundle = check_bundle(&octets).unwrap();
        prop_assert_eq!(bundle.header.payload.crc_type, crc_type);
        prop_assert_eq!(bundle.header.id().fragment, Some(range));
        // The rest of the payload comes as if nobody had asked.
        payload[part.len()..].chunks(step).for_each(|piece| verifier.update(piece));
        prop_assert_eq!(verifier.left_octets(), 0);
    }
}

proptest! {
    /// RFC 9171 4.1, 4.3.3: without its payload's checksum a bundle is the same in all else, however it came, and a break alone
    /// follows the payload.
    #[test]
    fn a_bundle_that_loses_its_payloads_checksum_keeps_all_else(
        payload in prop::collection::vec(any::<u8>(), 0..70_000),
        crc_type in prop::sample::select(vec![CrcType::None, CrcType::Crc16, CrcType::Crc32C]),
        age in prop::option::of(0_u64..1_000),
        twice in any::<bool>(),
    ) {
        let mut builder = builder().with_payload_crc_type(crc_type).with_hop_limit(9);
        if let Some(age) = age {
            builder = builder.with_age(age);
        }
        let came = check_bundle(&builder.bundle(&payload).unwrap()).unwrap();
        let kept = HopEdit {
            previous_node: Some(node("ipn:5.0")),
            hop_increment: 1,
            ..HopEdit::default()
        };
        let edit = HopEdit { payload_crc: ForwardedPayloadCrc::Omitted, ..kept.clone() };
        let mut last = LastHop::default();
        let (mut octets, mut total) = (Vec::new(), 0);
        for _ in 0..=u8::from(twice) {
            octets.clear();
            total = came.header.append_forwarded_as(&edit, &mut last, &mut octets);
        }
        prop_assert_eq!(&octets, &came.header.forwarded(&edit).octets);
        prop_assert_eq!(came.header.loses_payload_crc(edit.payload_crc), crc_type != CrcType::None);
        octets.extend_from_slice(&payload);
        octets.push(0xff);
        prop_assert_eq!(total, u64::try_from(octets.len()).unwrap());
        let went = check_bundle(&octets).unwrap();
        prop_assert_eq!(went.header.payload.crc_type, CrcType::None);
        prop_assert_eq!(&went.payload, &came.payload);
        prop_assert_eq!(&went.header.primary, &came.header.primary);
        let usual = sent(&came.header.forwarded(&kept), &payload);
        prop_assert_eq!(types(&went.header), types(&usual.header));
    }
}
