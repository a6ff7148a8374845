//! Every rule of RFC 9171 section 4 that a bundle can break, broken: the refusal, its section, its words.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

mod hex;

use bytes::Bytes;
use dhow_bundle::header::{MAX_EXTENSION_BLOCKS, MAX_HEADER_OCTETS};
use dhow_bundle::{Bundle, Header, Reading, Refusal};
use hex::hex;

const ADDRESSES: &str = "8202820201 8202820101 8202820100 821903e807 1a0036ee80";
const PAYLOAD: &str = "85010100004568656c6c6f ff";

/// A bundle with these flags and blocks (lenient reading allows the missing CRC).
fn bundle(flags: &str, addresses: &str, blocks: &str) -> String {
    format!("9f 88 07 {flags} 00 {addresses} {blocks}")
}

fn refusal(octets: &str) -> Refusal {
    Bundle::decode(&Bytes::from(hex(octets)), Reading::Lenient).unwrap_err()
}

#[test]
fn the_bundle_that_the_others_are_made_from_is_accepted() {
    assert!(
        Bundle::decode(
            &Bytes::from(hex(&bundle("00", ADDRESSES, PAYLOAD))),
            Reading::Lenient
        )
        .is_ok()
    );
}

#[test]
fn broken_rules_are_named_with_their_section() {
    let anonymous = "8202820201 820100 820100 821903e807 1a0036ee80";
    let whole = bundle("00", ADDRESSES, PAYLOAD);
    let block = |head: &str| bundle("00", ADDRESSES, &format!("{head} {PAYLOAD}"));
    let fragment = |offset: &str, total: &str, payload: &str| {
        format!("9f 8a 07 01 00 {ADDRESSES} {offset} {total} {payload} ff")
    };
    for (octets, section, words) in [
        // The bundle as a whole.
        (
            String::new(),
            "RFC 9171 4.1",
            "the octets end before the bundle does",
        ),
        (
            whole[..whole.len() - 3].to_owned(),
            "RFC 9171 4.1",
            "the octets end before the bundle does",
        ),
        (
            format!("{whole}00"),
            "RFC 9171 4.1",
            "octets follow the end of the bundle",
        ),
        (
            "8288".to_owned(),
            "RFC 9171 4.1",
            "a bundle begins with an array of indefinite length (0x9f), not with 0x82",
        ),
        (
            // Version 6, a fragment that must not be fragmented.
            "06050e010101010101000001010a00020a01080161".to_owned(),
            "RFC 5050 5.8",
            "it is a fragment of a bundle that must not be fragmented",
        ),
        (
            bundle("00", ADDRESSES, "ff"),
            "RFC 9171 4.1",
            "there is no payload block",
        ),
        (
            bundle(
                "00",
                ADDRESSES,
                "850101000041 78 85 0a 02 00 00 43 821901 ff",
            ),
            "RFC 9171 4.1",
            "the payload block is not the last",
        ),
        // The primary block.
        (
            format!("9f 88 08 00 00 {ADDRESSES}"),
            "RFC 9171 4.3.1",
            "the version is 8, and 7 is required",
        ),
        (
            format!("9f 88 07 00 03 {ADDRESSES}"),
            "RFC 9171 4.2.1",
            "3 is not a CRC type",
        ),
        (
            format!("9f 89 07 00 00 {ADDRESSES} 00 {PAYLOAD}"),
            "RFC 9171 4.3.1",
            "the primary block has the wrong number of items for its flags and CRC type",
        ),
        (
            format!("9f 9f 07 00 00 {ADDRESSES} 00 ff {PAYLOAD}"),
            "RFC 9171 4.3.1",
            "the primary block has the wrong number of items for its flags and CRC type",
        ),
        (
            format!("9f 88 07 01 00 {ADDRESSES}"),
            "RFC 9171 4.3.1",
            "the primary block has the wrong number of items for its flags and CRC type",
        ),
        (
            format!("9f 89 07 00 01 {ADDRESSES} 440000"),
            "RFC 9171 4.2.2",
            "the CRC of block 0 is not a byte string of its type's length",
        ),
        (
            format!("9f 89 07 00 01 {ADDRESSES} 420000"),
            "RFC 9171 4.2.2",
            "the CRC of block 0 does not match",
        ),
        (
            format!("9f 88 07 1800 00 {ADDRESSES}"),
            "RFC 8949 4.2.1",
            "the head at octet 3 is not in its shortest form",
        ),
        (
            "9f 88 07 00 00 8202820201 820300".to_owned(),
            "RFC 9171 4.2.5.1",
            "the source node ID is refused: the scheme code 3 is unknown",
        ),
        (
            "9f 88 07 00 00 8202821affffffff07 8202820101 8202820100 820101 00 8501010000 40 ff"
                .to_owned(),
            "RFC 9758 5.4",
            "the destination is an endpoint of \"this node\", which has no meaning outside it",
        ),
        (
            format!("9f 8a 07 05 00 {ADDRESSES} 00 05"),
            "RFC 9171 4.2.3",
            "it is a fragment of a bundle that must not be fragmented",
        ),
        (
            bundle("1a 00020002", ADDRESSES, PAYLOAD),
            "RFC 9171 4.2.3",
            "it carries an administrative record and requests status reports",
        ),
        (
            bundle("00", anonymous, PAYLOAD),
            "RFC 9171 4.2.3",
            "its source is the null endpoint and it may be fragmented",
        ),
        (
            bundle("19 4004", anonymous, PAYLOAD),
            "RFC 9171 4.2.3",
            "its source is the null endpoint and it requests status reports",
        ),
        // Canonical blocks.
        (
            bundle("02", ADDRESSES, "85 01 01 02 00 41 78 ff"),
            "RFC 9171 4.2.4",
            "block 1 requests a status report in an administrative record or anonymous bundle",
        ),
        (
            bundle("04", anonymous, "85 0a 02 02 00 43 821901 ff"),
            "RFC 9171 4.2.4",
            "block 2 requests a status report in an administrative record or anonymous bundle",
        ),
        (
            block("85 0a 01 00 00 40"),
            "RFC 9171 4.1",
            "an extension block has the number 1, which is reserved",
        ),
        (
            block("85 18c8 02 00 00 40 85 18c9 02 00 00 40"),
            "RFC 9171 4.1",
            "two blocks have the number 2",
        ),
        (
            block("85 01 02 00 00 40"),
            "RFC 9171 4.1",
            "the payload block has the number 2, and 1 is required",
        ),
        (
            block("86 18c8 02 00 00 40"),
            "RFC 9171 4.3.2",
            "block 2 has the wrong number of items for its CRC type",
        ),
        (
            block("85 18c8 02 00 01 40"),
            "RFC 9171 4.3.2",
            "block 2 has the wrong number of items for its CRC type",
        ),
        (
            block("9f 18c8 02 00 00 40 00 ff"),
            "RFC 9171 4.3.2",
            "block 2 has the wrong number of items for its CRC type",
        ),
        (
            block("85 18c8 02 00 04 40"),
            "RFC 9171 4.2.1",
            "4 is not a CRC type",
        ),
        (
            block("86 18c8 02 00 02 40 420000"),
            "RFC 9171 4.2.2",
            "the CRC of block 2 is not a byte string of its type's length",
        ),
        (
            block("86 18c8 02 00 02 40 4400000000"),
            "RFC 9171 4.2.2",
            "the CRC of block 2 does not match",
        ),
        (
            block("85 18c8 02 00 00 5f 41 00 ff"),
            "RFC 9171 4.1",
            "the string at octet 36 must have a definite length",
        ),
        (
            bundle("00", ADDRESSES, "86 01 01 00 01 41 78 420000 ff"),
            "RFC 9171 4.2.2",
            "the CRC of block 1 does not match",
        ),
        (
            bundle("00", ADDRESSES, "86 01 01 00 01 41 78 440000 ff"),
            "RFC 9171 4.2.2",
            "the CRC of block 1 is not a byte string of its type's length",
        ),
        // Extension blocks that every node understands.
        (
            block("85 0a 02 00 00 43 821901"),
            "RFC 9171 4.4.3",
            "the content of block 2 (type 10) is not valid: the octets end before the item does: at least 4 are needed",
        ),
        (
            block("85 0a 02 00 00 43 820001"),
            "RFC 9171 4.4.3",
            "the hop limit is 0, and 1 to 255 is required",
        ),
        (
            block("85 0a 02 00 00 45 8219010001"),
            "RFC 9171 4.4.3",
            "the hop limit is 256, and 1 to 255 is required",
        ),
        (
            block("85 07 02 00 00 42 0000"),
            "RFC 9171 4.4.2",
            "the content of block 2 (type 7) is not valid: octets follow its end",
        ),
        (
            block("85 06 02 00 00 43 820300"),
            "RFC 9171 4.4.1",
            "the content of block 2 (type 6) is not valid: the scheme code 3 is unknown",
        ),
        (
            block("85 07 02 00 00 41 00 85 07 03 00 00 41 00"),
            "RFC 9171 4.4.2",
            "there are two blocks of type 7",
        ),
        (
            block("85 0a 02 00 00 43 820101 85 0a 03 00 00 43 820101"),
            "RFC 9171 4.4.3",
            "there are two blocks of type 10",
        ),
        (
            block("85 06 02 00 00 43 820100 85 06 03 00 00 43 820100"),
            "RFC 9171 4.4.1",
            "there are two blocks of type 6",
        ),
        // Fragments.
        (
            fragment("04", "08", "8501010000 45 68656c6c6f"),
            "RFC 9171 4.3.1",
            "the fragment (5 octets at 4) is empty or beyond the 8 octets of the data unit",
        ),
        (
            fragment("04", "08", "8501010000 40"),
            "RFC 9171 4.3.1",
            "the fragment (0 octets at 4) is empty or beyond the 8 octets of the data unit",
        ),
        (
            fragment("1bffffffffffffffff", "08", "8501010000 41 78"),
            "RFC 9171 4.3.1",
            "the fragment (1 octets at 18446744073709551615) is empty or beyond the 8 octets of the data unit",
        ),
        (
            bundle("00", ADDRESSES, "85010100005bffffffffffffffff"),
            "RFC 9171 4.1",
            "the bundle would be longer than 2^64-1 octets",
        ),
    ] {
        let refusal = refusal(&octets);
        assert_eq!(
            (refusal.section(), refusal.to_string().as_str()),
            (section, words),
            "{octets}"
        );
    }
}

/// RFC 9171 4.3.1 and 4.4.2, where lenient reading looks away.
#[test]
fn strict_reading_requires_crc_and_age() {
    let strict =
        |octets: &str| Bundle::decode(&Bytes::from(hex(octets)), Reading::Strict).unwrap_err();
    assert_eq!(
        strict(&bundle("00", ADDRESSES, PAYLOAD)),
        Refusal::PrimaryBlockWithoutCrc
    );
    let clockless = "8202820201 8202820101 8202820100 820007 1a0036ee80";
    assert_eq!(
        strict(&bundle("00", clockless, PAYLOAD)),
        Refusal::BundleAgeMissing
    );
    assert_eq!(Refusal::BundleAgeMissing.section(), "RFC 9171 4.4.2");
}

/// RFC 9171 4.1: items of indefinite length are not prohibited, and the CRC covers their breaks.
#[test]
fn blocks_of_indefinite_length_are_accepted() {
    let octets = format!(
        "9f 9f 07 00 00 {ADDRESSES} ff 9f 18c8 02 00 00 40 ff 9f 01 01 00 00 45 68656c6c6f ff ff"
    );
    let bundle = Bundle::decode(&Bytes::from(hex(&octets)), Reading::Lenient).unwrap();
    assert_eq!(bundle.header.trailer_octets(), 2);
    assert_eq!(bundle.payload, "hello");
    let unended = format!("9f 88 07 00 00 {ADDRESSES} 9f 01 01 00 00 45 68656c6c6f ff");
    assert_eq!(refusal(&unended), Refusal::Truncated);
}

#[test]
fn unknown_flags_are_ignored_and_kept() {
    let flags = "1b8000000000000000";
    let bundle = Bundle::decode(
        &Bytes::from(hex(&bundle(flags, ADDRESSES, PAYLOAD))),
        Reading::Lenient,
    )
    .unwrap();
    assert_eq!(bundle.header.primary.flags.bits(), 1 << 63);
}

#[test]
fn headers_that_never_end_are_refused_at_the_bound() {
    // An extension block that announces more than the bound: refused before its octets come.
    let announced = bundle("00", ADDRESSES, "85 18c8 02 00 00 5a00010000");
    assert_eq!(
        Header::decode(&Bytes::from(hex(&announced)), Reading::Lenient),
        Err(Refusal::HeaderTooLong)
    );
    // One that fits alone, and grows past it with the next.
    let mut octets = hex(&bundle("00", ADDRESSES, "85 18c8 02 00 00 59f000"));
    octets.resize(octets.len() + 0xf000, 0);
    assert_eq!(
        Header::decode(&Bytes::from(octets.clone()), Reading::Lenient),
        Ok(None)
    );
    octets.extend_from_slice(&hex("85 18c8 03 00 00 591000"));
    octets.resize(octets.len() + 0x1000, 0);
    octets.extend_from_slice(&hex(PAYLOAD));
    assert!(octets.len() > MAX_HEADER_OCTETS);
    assert_eq!(
        Header::decode(&Bytes::from(octets), Reading::Lenient),
        Err(Refusal::HeaderTooLong)
    );
}

#[test]
fn blocks_are_bounded_in_number() {
    let blocks = |count: usize| {
        let mut octets = hex(&bundle("00", ADDRESSES, ""));
        for number in 0..count {
            octets.extend_from_slice(&[
                0x85,
                0x18,
                0xc8,
                0x18,
                u8::try_from(number + 24).unwrap(),
                0,
                0,
                0x40,
            ]);
        }
        octets.extend_from_slice(&hex(PAYLOAD));
        Header::decode(&Bytes::from(octets), Reading::Lenient)
    };
    assert!(blocks(MAX_EXTENSION_BLOCKS).unwrap().is_some());
    assert_eq!(
        blocks(MAX_EXTENSION_BLOCKS + 1),
        Err(Refusal::TooManyBlocks)
    );
}
