//! Properties of any bundle and of any octets.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails where it finds something else than expected"
)]

use bytes::Bytes;
use dhow_bundle::v7::forward::{ForwardedPayloadCrc, LastHop};
use dhow_bundle::v7::oracle::check_bundle;
use dhow_bundle::{
    BlockFlags, BlockType, Bundle, BundleBuilder, BundleFlags, CrcType, CreationTimestamp, DtnTime,
    EndpointId, FragmentPlace, Header, HeaderReader, HopEdit, PayloadVerifier, Reading, Refusal,
};
use proptest::prelude::*;

fn any_endpoint() -> impl Strategy<Value = EndpointId> {
    prop_oneof![
        (
            prop_oneof![Just(0_u32), any::<u32>()],
            1..u32::MAX,
            any::<u32>()
        )
            .prop_map(|(allocator, node, service)| EndpointId::from_ipn_numbers(
                allocator, node, service
            )
            .unwrap()),
        "dtn://[a-z0-9.-]{1,12}/[!-~]{0,12}".prop_map(|text| text.parse().unwrap()),
    ]
}

fn any_crc() -> impl Strategy<Value = CrcType> {
    prop_oneof![Just(CrcType::Crc16), Just(CrcType::Crc32C)]
}

prop_compose! {
    fn any_builder()(
        source in prop_oneof![1 => Just(EndpointId::Null), 9 => any_endpoint()],
        destination in any_endpoint(),
        report_to in any_endpoint(),
        time in prop_oneof![Just(0), any::<u64>()],
        sequence: u64,
        lifetime_ms: u64,
        reports in any::<u64>().prop_map(|bits| bits & BundleFlags::ALL_REPORTS.bits()),
        crc_type in any_crc(),
        payload_crc_type in any_crc(),
        hop_limit in proptest::option::of(1_u8..),
        age_ms in proptest::option::of(any::<u64>()),
        blocks in proptest::collection::vec(
            (192_u64..256, 0_u64..32, proptest::collection::vec(any::<u8>(), 0..60)), 0..4),
    ) -> BundleBuilder {
        let creation = CreationTimestamp { time: DtnTime::from_millis(time), sequence };
        let is_anonymous = source.is_null();
        let mut builder = BundleBuilder::new(source, destination, creation, lifetime_ms)
            .with_report_to(report_to)
            .with_crc_type(crc_type)
            .with_payload_crc_type(payload_crc_type);
        if !is_anonymous {
            builder = builder.with_flags(BundleFlags::from_bits(reports));
        }
        if let Some(limit) = hop_limit {
            builder = builder.with_hop_limit(limit);
        }
        if let Some(age_ms) = age_ms {
            builder = builder.with_age(age_ms);
        }
        for (block_type, flags, content) in blocks {
            let flags = if is_anonymous { flags & !BlockFlags::REPORT_IF_UNPROCESSABLE.bits() } else { flags };
            builder = builder.with_block(BlockType(block_type), BlockFlags::from_bits(flags), content.into());
        }
        builder
    }
}

/// Octets as a bundle: header from the shortest prefix that has one, then payload and trailer in pieces.
fn decode_in_pieces(octets: &Bytes, piece: usize) -> Result<Header, Refusal> {
    let mut length = 0;
    let header = loop {
        if let Some(header) = Header::decode(&octets.slice(..length), Reading::Strict)? {
            break header;
        }
        if length == octets.len() {
            return Err(Refusal::Truncated);
        }
        length = (length + piece).min(octets.len());
    };
    let mut verifier = PayloadVerifier::new(&header);
    let start = header.octets.len();
    let end = start + usize::try_from(header.payload_octets()).unwrap();
    octets[start..end]
        .chunks(piece)
        .for_each(|piece| verifier.update(piece));
    assert_eq!(verifier.left_octets(), 0);
    verifier.finish(&octets[end..])?;
    Ok(header)
}

proptest! {
    #[test]
    fn what_is_made_is_read(builder in any_builder(), payload in proptest::collection::vec(any::<u8>(), 0..400)) {
        let octets = builder.bundle(&payload).unwrap();
        let bundle = check_bundle(&octets).unwrap();
        prop_assert_eq!(&bundle.payload, &payload);
        let outgoing = builder.header(u64::try_from(payload.len()).unwrap()).unwrap();
        prop_assert_eq!(bundle.header.octets, outgoing.octets);
    }

    /// A remembered header changes neither the reading nor the forwarding of the next one.
    #[test]
    fn headers_in_a_row_are_read_and_forwarded_as_each_alone(
        builders in proptest::collection::vec(any_builder(), 1..4),
        turns in proptest::collection::vec(
            (any::<prop::sample::Index>(), 0_u64..3, any::<[bool; 2]>(), proptest::option::of(any::<prop::sample::Index>())),
            1..24),
    ) {
        let mut reader = HeaderReader::default();
        let mut last = LastHop::default();
        for (which, hop_increment, [is_lenient, omits], damage) in turns {
            let mut octets = which.get(&builders).bundle(b"payload").unwrap().to_vec();
            if let Some(place) = damage {
                let place = place.index(octets.len());
                octets[place] ^= 1;
            }
            let octets = Bytes::from(octets);
            let reading = if is_lenient { Reading::Lenient } else { Reading::Strict };
            let alone = Header::decode(&octets, reading);
            let read = reader.read(&octets, reading);
            prop_assert_eq!(&read, &alone.as_ref().map(Option::is_some).map_err(Clone::clone));
            if let Ok(Some(header)) = alone {
                prop_assert_eq!(reader.header(), &header);
                let edit = HopEdit {
                    previous_node: (hop_increment > 1).then(|| "ipn:7.0".parse().unwrap()),
                    hop_increment,
                    age_increase_ms: hop_increment,
                    payload_crc: if omits { ForwardedPayloadCrc::Omitted } else { ForwardedPayloadCrc::SameType },
                    ..HopEdit::default()
                };
                let (mut out, mut again) = (Vec::new(), Vec::new());
                let total = header.append_forwarded(&edit, &mut out);
                prop_assert_eq!(reader.header().append_forwarded_as(&edit, &mut last, &mut again), total);
                prop_assert_eq!(out, again);
            }
            reader.release();
        }
    }

    #[test]
    fn fragments_are_read(
        builder in any_builder(),
        payload in proptest::collection::vec(any::<u8>(), 1..100),
        offset in 0_u64..1 << 60,
        after in 0_u64..1 << 60,
    ) {
        let total_adu_octets = offset + u64::try_from(payload.len()).unwrap() + after;
        let builder = builder.with_fragment(FragmentPlace { offset, total_adu_octets });
        match builder.bundle(&payload) {
            Ok(octets) => {
                let header = check_bundle(&octets).unwrap().header;
                prop_assert_eq!(header.primary.fragment, Some(FragmentPlace { offset, total_adu_octets }));
            }
            // Anonymous bundles must not be fragmented.
            Err(refusal) => prop_assert_eq!(refusal, Refusal::FragmentNotAllowed),
        }
    }

    #[test]
    fn pieces_of_any_size_read_like_the_whole(
        builder in any_builder(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        piece in 1_usize..50,
    ) {
        let octets = builder.bundle(&payload).unwrap();
        let whole = Bundle::decode(&octets, Reading::Strict).unwrap();
        prop_assert_eq!(decode_in_pieces(&octets, piece), Ok(whole.header));
    }

    #[test]
    fn every_truncation_is_noticed(
        builder in any_builder(),
        payload in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let octets = builder.bundle(&payload).unwrap();
        for length in 0..octets.len() {
            prop_assert_eq!(Bundle::decode(&octets.slice(..length), Reading::Strict), Err(Refusal::Truncated));
        }
    }

    /// RFC 9171 4.2.1: both checksums detect every single bit error. The extension blocks that no checksum covers, and the array's
    /// head and break, make no other bundle of it.
    #[test]
    fn no_flipped_bit_changes_whose_bundle_it_is_or_what_it_says(
        builder in any_builder(),
        payload in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let octets = builder.bundle(&payload).unwrap();
        let made = Bundle::decode(&octets, Reading::Strict).unwrap();
        for bit in 0..octets.len() * 8 {
            let mut flipped = octets.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = Bundle::decode(&Bytes::from(flipped), Reading::Strict) {
                prop_assert_eq!(&read.header.primary, &made.header.primary);
                prop_assert_eq!(&read.payload, &made.payload, "bit {} of {:02x?}", bit, &octets[..]);
            }
        }
    }

    #[test]
    fn arbitrary_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = check_bundle(&octets);
    }

    #[test]
    fn mutilated_bundles_never_panic(
        builder in any_builder(),
        payload in proptest::collection::vec(any::<u8>(), 0..60),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..5),
    ) {
        // Without checksums, so that what is wrong inside is reached.
        let mut octets = builder.with_payload_crc_type(CrcType::None).bundle(&payload).unwrap().to_vec();
        for (place, octet) in changes {
            let place = place.index(octets.len());
            octets[place] = octet;
        }
        let _ = check_bundle(&octets);
    }
}
