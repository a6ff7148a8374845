use alloc::borrow::Cow;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

fn skip(octets: &[u8]) -> Result<(), CborError> {
    let mut reader = Reader::new(octets);
    reader.skip()?;
    assert!(
        reader.is_empty(),
        "{octets:02x?}: the item must use all octets"
    );
    Ok(())
}

/// RFC 8949 appendix A: unsigned integers.
#[test]
fn unsigned_integers_have_the_octets_of_the_standard() {
    for (value, octets) in [
        (0, "00"),
        (1, "01"),
        (10, "0a"),
        (23, "17"),
        (24, "1818"),
        (25, "1819"),
        (100, "1864"),
        (1000, "1903e8"),
        (1_000_000, "1a000f4240"),
        (1_000_000_000_000, "1b000000e8d4a51000"),
        (u64::MAX, "1bffffffffffffffff"),
    ] {
        let octets = hex(octets);
        assert_eq!(Reader::new(&octets).unsigned(), Ok(value));
        let mut out = Vec::new();
        write_unsigned(&mut out, value);
        assert_eq!(out, octets);
    }
}

/// RFC 8949 appendix A: every other example is well-formed, and read over whole.
#[test]
fn examples_of_the_standard_are_read_over() {
    for octets in [
        "20",
        "29",
        "3863",
        "3903e7",
        "1bffffffffffffffff",
        "c249010000000000000000",
        "3bffffffffffffffff",
        "c349010000000000000000",
        "f90000",
        "f98000",
        "f93c00",
        "fb3ff199999999999a",
        "f93e00",
        "f97bff",
        "fa47c35000",
        "fa7f7fffff",
        "fb7e37e43c8800759c",
        "f90001",
        "f90400",
        "f9c400",
        "fbc010666666666666",
        "f97c00",
        "f97e00",
        "f9fc00",
        "fa7f800000",
        "fb7ff0000000000000",
        "f4",
        "f5",
        "f6",
        "f7",
        "f0",
        "f8ff",
        "c074323031332d30332d32315432303a30343a30305a",
        "c11a514b67b0",
        "c1fb41d452d9e8200000",
        "d74401020304",
        "d818456449455446",
        "d82076687474703a2f2f7777772e6578616d706c652e636f6d",
        "40",
        "4401020304",
        "60",
        "6161",
        "6449455446",
        "62225c",
        "62c3bc",
        "63e6b0b4",
        "64f0908591",
        "80",
        "83010203",
        "8301820203820405",
        "98190102030405060708090a0b0c0d0e0f101112131415161718181819",
        "a0",
        "a201020304",
        "a26161016162820203",
        "826161a161626163",
        "a56161614161626142616361436164614461656145",
        "5f42010243030405ff",
        "7f657374726561646d696e67ff",
        "9fff",
        "9f018202039f0405ffff",
        "9f01820203820405ff",
        "83018202039f0405ff",
        "83019f0203ff820405",
        "9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff",
        "bf61610161629f0203ffff",
        "826161bf61626163ff",
        "bf6346756ef563416d7421ff",
    ] {
        assert_eq!(skip(&hex(octets)), Ok(()), "{octets}");
    }
}

/// RFC 8949 appendix F.1: not well-formed; end of input where the octets end early.
#[test]
fn examples_that_are_not_well_formed_are_refused() {
    for octets in [
        "18",
        "19",
        "1a",
        "1b",
        "1901",
        "1a0102",
        "1b01020304050607",
        "38",
        "58",
        "78",
        "98",
        "9a01ff00",
        "b8",
        "d8",
        "f8",
        "f900",
        "fa0000",
        "fb000000",
        "41",
        "61",
        "5affffffff00",
        "5bffffffffffffffff010203",
        "7affffffff00",
        "7b7fffffffffffffff010203",
        "81",
        "818181818181818181",
        "8200",
        "a1",
        "a20102",
        "a100",
        "a2000000",
        "5f4100",
        "7f6100",
        "9f",
        "9f0102",
        "bf",
        "bf01020102",
        "819f",
        "9f8000",
        "9f9f9f9f9fffffffff",
        "9f819f819f9fffffff",
        "c0",
    ] {
        assert!(
            matches!(skip(&hex(octets)), Err(CborError::Incomplete { .. })),
            "{octets}"
        );
    }
    for octets in [
        "1c",
        "1d",
        "1e",
        "3c",
        "3d",
        "3e",
        "5c",
        "5d",
        "5e",
        "7c",
        "7d",
        "7e",
        "9c",
        "9d",
        "9e",
        "bc",
        "bd",
        "be",
        "dc",
        "dd",
        "de",
        "fc",
        "fd",
        "fe",
        "f800",
        "f801",
        "f818",
        "f81f",
        "5f00ff",
        "5f21ff",
        "5f6100ff",
        "5f80ff",
        "5fa0ff",
        "5fc000ff",
        "5fe0ff",
        "7f4100ff",
        "5f5f4100ffff",
        "7f7f6100ffff",
        "ff",
        "81ff",
        "8200ff",
        "a1ff",
        "a1ff00",
        "a100ff",
        "a20000ff",
        "9f81ff",
        "9f829f819f9fffffffff",
        "bf00ff",
        "bf000000ff",
        "1f",
        "3f",
        "df",
    ] {
        let error = skip(&hex(octets)).unwrap_err();
        assert!(
            !matches!(error, CborError::Incomplete { .. }),
            "{octets}: {error}"
        );
    }
}

/// RFC 8949 4.2.1: preferred serialization of every argument.
#[test]
fn heads_that_could_be_shorter_are_refused() {
    for octets in [
        "1817",
        "190018",
        "1900ff",
        "1a0000ffff",
        "1b00000000ffffffff",
        "580100",
        "780161",
        "980100",
        "b8010000",
        "d80100",
    ] {
        assert_eq!(
            skip(&hex(octets)),
            Err(CborError::NotShortest { at: 0 }),
            "{octets}"
        );
    }
}

#[test]
fn nesting_is_bounded() {
    assert_eq!(skip(&[&[0x81; 15][..], &[0x00]].concat()), Ok(()));
    assert_eq!(
        skip(&[&[0x81; 16][..], &[0x00]].concat()),
        Err(CborError::TooDeep { at: 16 })
    );
    assert_eq!(skip(&[0x9f; 100_000]), Err(CborError::TooDeep { at: 16 }));
    assert_eq!(skip(&[0xc1; 100_000]), Err(CborError::TooDeep { at: 16 }));
}

#[test]
fn a_float_is_no_boolean() {
    assert_eq!(
        Reader::new(&hex("f90015")).boolean(),
        Err(CborError::NotBoolean { at: 0 })
    );
    assert_eq!(Reader::new(&hex("f5")).boolean(), Ok(true));
    assert_eq!(Reader::new(&hex("f4")).boolean(), Ok(false));
    assert_eq!(
        Reader::new(&[]).boolean(),
        Err(CborError::Incomplete { needed: 1 })
    );
}

#[test]
fn incomplete_tells_how_many_octets_are_needed() {
    let octets = hex("59030041");
    assert_eq!(
        Reader::new(&octets).byte_string(),
        Err(CborError::Incomplete { needed: 3 + 768 })
    );
    assert_eq!(
        Reader::new(&octets[..2]).byte_string(),
        Err(CborError::Incomplete { needed: 3 })
    );
}

#[test]
fn text_is_borrowed_when_definite_and_joined_when_not() {
    assert!(matches!(
        Reader::new(&hex("63616263")).text(9),
        Ok(Cow::Borrowed("abc"))
    ));
    assert_eq!(
        Reader::new(&hex("7f61616060626263ff")).text(9).unwrap(),
        "abc"
    );
    assert_eq!(
        Reader::new(&hex("7f61616060626263ff")).text(2),
        Err(CborError::TooLong { at: 5 })
    );
    assert_eq!(
        Reader::new(&hex("6180")).text(9),
        Err(CborError::NotUtf8 { at: 0 })
    );
}

#[test]
fn arrays_of_both_lengths_count_their_items() {
    for octets in ["820102", "9f0102ff"] {
        let octets = hex(octets);
        let mut reader = Reader::new(&octets);
        let mut array = reader.array().unwrap();
        for value in 1..=2 {
            array.item(&mut reader).unwrap();
            assert_eq!(reader.unsigned(), Ok(value));
        }
        array.end(&mut reader).unwrap();
        assert!(reader.is_empty());
        assert!(
            !array.next(&mut reader).unwrap(),
            "an array that ended stays ended"
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(number: u64, octets: Vec<u8>, text in "\\PC{0,40}", flag: bool) {
        let mut out = Vec::new();
        write_array(&mut out, 2);
        write_unsigned(&mut out, number);
        write_indefinite_array(&mut out);
        write_byte_string(&mut out, &octets);
        write_text(&mut out, &text);
        write_boolean(&mut out, flag);
        out.push(BREAK);
        prop_assert_eq!(skip(&out), Ok(()));
        let mut reader = Reader::new(&out);
        let mut outer = reader.array().unwrap();
        outer.item(&mut reader).unwrap();
        prop_assert_eq!(reader.unsigned(), Ok(number));
        let mut inner = reader.array().unwrap();
        prop_assert!(inner.is_indefinite());
        prop_assert_eq!(reader.byte_string(), Ok(octets.as_slice()));
        prop_assert_eq!(reader.text(1000).unwrap(), text);
        prop_assert_eq!(reader.boolean(), Ok(flag));
        inner.end(&mut reader).unwrap();
        for length in 0..out.len() {
            prop_assert!(matches!(skip(&out[..length]), Err(CborError::Incomplete { .. })), "any truncation is incomplete");
        }
    }

    #[test]
    fn arbitrary_octets_are_skipped_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&octets);
        if reader.skip().is_ok() {
            prop_assert!(reader.position() <= octets.len());
        }
    }
}
