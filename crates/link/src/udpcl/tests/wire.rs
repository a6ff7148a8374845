//! Datagrams octet by octet.

use proptest::prelude::*;

use super::super::wire::{Place, segment_head_octets, segment_room, write_segment_head};
use super::*;

/// The events of a new conversation to which one datagram came, in hexadecimal.
fn read(hex: &str) -> Vec<String> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| *digit != b' ').collect();
    let octet = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let datagram = digits.chunks(2).map(octet).collect();
    let mut conversation = Conversation::new(Config::default(), 0, at(0));
    receive(&mut conversation, at(0), &[datagram]);
    told(&mut conversation)
}

fn expect(hex: &str, told: &[&str]) {
    assert_eq!(read(hex), told, "{hex}");
}

const UNKNOWN: &str = "1 x a datagram begins as no message does (3.4)";
const DTLS: &str = "1 x DTLS is asked for, which is not supported (3.10)";
const MAP: &str = "1 x an extension map is not well-formed (3.5)";
const ITEM: &str = "1 x an extension item is not as defined (3.5)";
const BEHIND: &str = "1 x an extension map is followed by neither map nor padding (3.4)";

/// Draft 3.4, table 1.
#[test]
fn the_first_octet_says_what_a_datagram_is() {
    let bundle: &[&str] = &["piece of 0: 0+1 of 1", "complete 0: 1"];
    for first in 0..=0xff_u8 {
        let expected: &[&str] = match first {
            0x00 => &[],
            0x06 | 0x80..=0x9f => bundle,
            0x14..=0x1a | 0x20..=0x3f => &[DTLS],
            0xa0 => &[],
            0xa1..=0xbf => &[MAP],
            _ => &[UNKNOWN],
        };
        expect(&alloc::format!("{first:02x}"), expected);
    }
    expect("", &["1 x a datagram is empty (3.3)"]);
}

/// RFC 7122 3.4, draft 3.4: padding of any length, and what follows it, is ignored.
#[test]
fn padding_is_ignored_with_whatever_follows_it() {
    for hex in ["00000000", "00", "000000000000000000", "00 9f80ff", "00 ff"] {
        expect(hex, &[]);
    }
}

/// Draft 3.5.2, figure 8.
#[test]
fn transfer_items_of_both_forms_are_segments() {
    let whole: &[&str] = &["piece of 0: 0+3 of 3", "complete 0: 3"];
    expect("a1 02 82 07 43 9f80ff", whole);
    expect("a1 02 84 07 03 00 43 9f80ff", whole);
    expect("a1 02 84 07 04 00 43 9f80ff", &["piece of 0: 0+3 of 4"]);
    expect("a1 02 84 07 04 03 41 ff", &["piece of 0: 3+1 of 4"]);
    // A bundle of version 6.
    expect(
        "a1 02 82 07 42 0681",
        &["piece of 0: 0+2 of 2", "complete 0: 2"],
    );
    // The largest numbers.
    expect("a1 02 82 1bffffffffffffffff 43 9f80ff", whole);
    let beyond = "1 x a segment goes beyond its transfer's end (3.5.2)";
    expect(
        "a1 02 84 07 1bffffffffffffffff 1bffffffffffffffff 41 9f",
        &[beyond],
    );
    expect("a1 02 84 07 03 03 41 9f", &[beyond]);
    let long = "1 x a transfer is longer than it may be";
    expect("a1 02 84 07 1a00400001 00 41 9f", &[long]);
    expect(
        "a1 02 84 07 1a00400000 00 41 9f",
        &["piece of 0: 0+1 of 4194304"],
    );
}

/// CBOR leaves open how a map is written, and the draft asks for nothing more.
#[test]
fn maps_in_any_encoding_are_read() {
    let whole: &[&str] = &["piece of 0: 0+3 of 3", "complete 0: 3"];
    // Map, key, array, integers and byte string with longer heads than needed; arrays and maps with breaks.
    expect("b801 02 82 07 43 9f80ff", whole);
    expect(
        "bb0000000000000001 1900 02 9802 1b0000000000000007 5a00000003 9f80ff",
        whole,
    );
    expect("bf 02 9f 07 43 9f80ff ff ff", whole);
    expect("bf ff", &[]);
    // A byte string in chunks is none that could be handed on.
    expect("a1 02 82 07 5f 43 9f80ff ff", &[ITEM]);
}

#[test]
fn several_maps_and_padding_share_a_datagram() {
    let two: &[&str] = &[
        "piece of 0: 0+1 of 1",
        "complete 0: 1",
        "piece of 1: 0+1 of 1",
        "complete 1: 1",
    ];
    expect("a1 02 82 01 41 9f a1 02 82 02 41 9f 00 ff", two);
    let one: &[&str] = &["piece of 0: 0+1 of 1", "complete 0: 1", BEHIND];
    expect("a1 02 82 01 41 9f 9f80ff", one);
    expect("a1 02 82 01 41 9f 06", one);
    expect("a1 02 82 01 41 9f 16", one);
    let cut: &[&str] = &["piece of 0: 0+1 of 1", "complete 0: 1", MAP];
    expect("a1 02 82 01 41 9f a1 02 82", cut);
}

/// Draft 3.5: unknown items are ignored, the known ones beside them are not.
#[test]
fn unknown_items_are_ignored() {
    let whole: &[&str] = &["piece of 0: 0+1 of 1", "complete 0: 1"];
    expect("a2 09 f6 02 82 01 41 9f", whole);
    expect(
        "a3 20 80 39 7fff a1 61 61 5f 41 00 ff 02 82 01 41 9f",
        whole,
    );
    // Unknown keys may repeat: nobody looks at them.
    expect(
        "a3 18 64 c1 00 18 64 fb 0000000000000000 02 82 01 41 9f",
        whole,
    );
    // Extension Support, which nothing follows from.
    expect("a2 01 82 03 04 02 82 01 41 9f", whole);
    expect("a2 01 f6 02 82 01 41 9f", whole);
    // Peer Probe and Peer Confirmation are of no use here.
    expect("a3 06 83 01 00 00 07 82 01 82 00 00 02 82 01 41 9f", whole);
    let key = "1 x an extension ID is no 16-bit integer (3.5)";
    let beside: &[&str] = &["piece of 0: 0+1 of 1", "complete 0: 1", key];
    expect("a2 19 8000 00 02 82 01 41 9f", beside);
    expect("a2 39 8000 00 02 82 01 41 9f", beside);
    expect("a2 3b ffffffffffffffff 00 02 82 01 41 9f", beside);
    expect("a2 61 61 00 02 82 01 41 9f", beside);
}

#[test]
fn an_item_that_is_not_as_defined_is_dropped_alone() {
    let items = [
        "02 80",
        "02 81 01",
        "02 82 01 01",
        "02 82 20 41 9f",
        "02 82 01 61 61",
        "02 83 01 01 41 9f",
        "02 85 01 01 00 41 9f 00",
        "02 c1 82 01 41 9f", // tagged
        "03 20",
        "03 00",
        "03 fb 3ff0000000000000",
        "04 47 69706e3a322e30", // octets
        "04 67 69706e3a322e31", // a service
        "04 60",
        "08 82 00 00",
        "08 84 00 00 00 00",
        "08 83 00 00 1b 0000000100000000",
    ];
    for item in items {
        expect(&alloc::format!("a1 {item}"), &[ITEM]);
        let pair = alloc::format!("a2 {item} 18 2a f6 a1 02 82 01 41 9f");
        expect(&pair, &["piece of 0: 0+1 of 1", "complete 0: 1", ITEM]);
    }
    expect("a1 05 f6", &[DTLS]);
}

#[test]
fn a_map_that_is_no_map_is_dropped_as_a_whole() {
    for hex in [
        "a1",
        "a2 02 82 01 41 9f",
        "bf 02 82 01 41 9f",
        "a1 02 82 01 42 9f",
        "a1 02 ff",
        "bc",
        "a2 02 82 01 41 9f 02 82 02 41 9f",          // a key twice
        "a2 09 81818181818181818100 02 82 01 41 9f", // too deep
        "bbffffffffffffffff 02 82 01 41 9f",
        "a2 09 7f 41 61 ff 02 82 01 41 9f", // a text of octets
        "a2 09 f8 10 02 82 01 41 9f",       // a simple value that has one octet
    ] {
        expect(hex, &[MAP]);
    }
}

#[test]
fn ecn_counts_are_kept_and_nothing_more() {
    let mut conversation = Conversation::new(Config::default(), 0, at(0));
    let counts = vec![
        0xa1, 0x08, 0x83, 0x01, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x18, 0x64,
    ];
    receive(&mut conversation, at(0), &[counts]);
    let counts = conversation.ecn_counts().unwrap();
    assert_eq!((counts.ect0, counts.ect1, counts.ce), (1, u32::MAX, 100));
    assert_eq!(told(&mut conversation), Vec::<String>::new());
}

proptest! {
    /// Heads have the length that is counted on, and no segment has room for one octet more.
    #[test]
    fn a_segment_fills_its_datagram(
        mtu in 128_u64..65_508,
        transfer in any::<u64>().prop_map(|id| id >> (id % 64)),
        offset in 0_u64..4 << 20,
        alone in any::<bool>(),
    ) {
        let place = (!alone).then_some(Place { length: 4 << 20, offset });
        let size = |data: u64| {
            let mut head = Vec::new();
            write_segment_head(&mut head, transfer, place, data);
            prop_assert_eq!(head.len() as u64, segment_head_octets(transfer, place, data));
            Ok(head.len() as u64 + data)
        };
        let data = segment_room(mtu, transfer, place);
        prop_assert!(size(data)? <= mtu);
        prop_assert!(size(data + 1)? > mtu);
    }
}
