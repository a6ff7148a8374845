//! A bundle that a node holds, as it leaves in the other version.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test says what is wrong by failing"
)]

use bytes::Bytes;
use dhow_bundle::gateway::{Crossed, Edit, Untranslatable, crossed};
use dhow_bundle::{
    BundleBuilder, CreationTimestamp, DtnTime, FragmentRange, Header, HopEdit, Reading, Version,
};
use proptest::prelude::*;

fn builder(version: Version) -> BundleBuilder {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_042),
        sequence: 7,
    };
    let (source, destination) = ("ipn:1.1".parse().unwrap(), "ipn:2.1".parse().unwrap());
    BundleBuilder::new(source, destination, creation, 3_600_000)
        .with_version(version)
        .with_hop_limit(20)
}

fn header(octets: &Bytes) -> Header {
    Header::decode(octets, Reading::Strict).unwrap().unwrap()
}

fn hop(increment: u64) -> HopEdit {
    HopEdit {
        previous_node: Some("ipn:5.0".parse().unwrap()),
        age_increase_ms: 70,
        hop_increment: increment,
        ..HopEdit::default()
    }
}

fn whole(crossed: &Crossed, payload: &[u8]) -> Bytes {
    [crossed.octets(), payload, &crossed.end(payload)]
        .concat()
        .into()
}

fn count(header: &Header) -> Option<u64> {
    header.hop_count().map(|hops| hops.count)
}

proptest! {
    /// RFC 5050 5.8, RFC 9171 5.8: a fragment is the same whichever comes first, cut or crossing, and comes back as it was.
    #[test]
    fn a_fragment_crosses_as_part_of_its_bundle(
        is_of_v6 in any::<bool>(),
        octets in 2_usize..3_000,
        part in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let version = if is_of_v6 { Version::V6 } else { Version::V7 };
        let payload: Vec<u8> = (0..octets).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let bundle = builder(version).bundle(&payload).unwrap();
        let came = header(&bundle);
        let (first, second) = (part.0.index(octets), part.1.index(octets));
        let (start, end) = (first.min(second), first.max(second) + 1);
        let range = FragmentRange {
            offset: u64::try_from(start).unwrap(),
            length: u64::try_from(end - start).unwrap(),
        };
        let edit = HopEdit { fragment: Some(range), ..hop(1) };
        let fragment = crossed(&came, &edit, Edit::default()).unwrap();
        let octets = whole(&fragment, &payload[start..end]);
        prop_assert_eq!(u64::try_from(octets.len()).unwrap(), fragment.total_octets());
        let there = header(&octets);
        there.check_body(&octets).unwrap();
        prop_assert_ne!(there.version(), version);
        prop_assert_eq!(there.range(), range);
        prop_assert_eq!(there.total_adu_octets(), came.payload_octets());
        prop_assert_eq!(there.id().creation, came.id().creation);
        prop_assert_eq!(there.previous_node().map(ToString::to_string), Some("ipn:5.0".to_owned()));
        prop_assert_eq!(count(&there), Some(1));
        // And back.
        let back = crossed(&there, &hop(1), Edit::default()).unwrap();
        let back = header(&whole(&back, &payload[start..end]));
        prop_assert_eq!(back.version(), version);
        prop_assert_eq!(back.id(), there.id());
        prop_assert_eq!(back.primary.lifetime_ms, came.primary.lifetime_ms);
        prop_assert_eq!(count(&back), Some(2));
    }
}

/// A copy that ended at the gateway may have gone further: the bundle leaves with its hop count, in either version.
#[test]
fn hops_are_counted_on_across_both_versions() {
    let bundle = builder(Version::V7).bundle(b"hello").unwrap();
    let came = header(&bundle);
    let old = crossed(&came, &hop(6), Edit::default()).unwrap();
    let old = header(&whole(&old, b"hello"));
    assert_eq!((old.version(), count(&old)), (Version::V6, Some(6)));
    // A hop that does not cross counts in the gateway block.
    let forwarded = old.forwarded(&hop(3));
    let octets: Bytes = [&forwarded.octets[..], b"hello"].concat().into();
    let forwarded = header(&octets);
    assert_eq!(
        (forwarded.version(), count(&forwarded)),
        (Version::V6, Some(9))
    );
    assert!(forwarded.has_been_in_v6());
    let new = crossed(&forwarded, &hop(11), Edit::default()).unwrap();
    let new = header(&whole(&new, b"hello"));
    assert_eq!((new.version(), count(&new)), (Version::V7, Some(20)));
    assert!(new.has_been_in_v6() && !came.has_been_in_v6());
    let refused = crossed(&forwarded, &hop(12), Edit::default());
    let (limit, count) = (20, 21);
    assert_eq!(refused, Err(Untranslatable::HopLimit { limit, count }));
}

/// RFC 9172 3.8, RFC 6257 2.4: nobody may take an encrypted payload for a plain one, whatever the flags of the block that says so.
#[test]
fn an_encrypted_payload_never_leaves_without_the_block_that_says_so() {
    for (version, block, begin) in [
        (Version::V6, &[4, 0x10, 1, 0][..], [4, 0x30]),
        (
            Version::V7,
            &[0x85, 12, 5, 0x10, 0, 0x41, 0][..],
            [0x85, 12],
        ),
    ] {
        let plain = builder(version).bundle(b"secret").unwrap();
        let head_octets = match version {
            Version::V6 => 3,
            Version::V7 => header(&plain).payload.octets.len(),
        };
        let place = header(&plain).octets.len() - head_octets;
        let bundle = Bytes::from([&plain[..place], block, &plain[place..]].concat());
        let came = header(&bundle);
        let left = came.forwarded(&hop(1)).octets;
        assert!(left.windows(2).any(|it| it == begin));
        let refused = crossed(&came, &hop(1), Edit::default());
        assert!(matches!(refused, Err(Untranslatable::Security { .. })));
    }
}
