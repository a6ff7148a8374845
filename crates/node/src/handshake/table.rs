//! Tables of delivery predictabilities, as IBR-DTN's PRoPHET has them: nodes and numbers as text.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use dhow_bundle::NodeId;
use dhow_bundle::v6::sdnv::{self, Reader};

use super::filter::{endpoint_of, text_of};
use super::refusal::Refusal;

/// Nodes of a table that is read or written, at most.
const MAX_TABLE_NODES: usize = 1_024;

/// Octets of a number in text, at most: IBR-DTN writes six digits and an exponent.
const NUMBER_OCTETS: usize = 24;

/// Digits behind the point that are written.
const DIGITS: u32 = 6;

/// Predictabilities are fractions of this.
const ONE: u64 = 1 << 32;

/// The delivery predictability of each node, 0 to 2^32, where 2^32 is 1.
pub(crate) type Table = BTreeMap<NodeId, u64>;

/// Reads a table. Nodes of other schemes and numbers beyond 0 and 1 are passed by.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Table, Refusal> {
    let count = reader.number()?;
    if count > u64::try_from(MAX_TABLE_NODES).unwrap_or(u64::MAX) {
        return Err(Refusal::TooMany(count));
    }
    let mut table = Table::new();
    for _ in 0..count {
        let node = read_text(reader)?;
        let number = read_text(reader)?;
        let node = endpoint_of(node).and_then(NodeId::new);
        if let (Ok(node), Some(predictability)) = (node, fraction(number)) {
            table.insert(node, predictability);
        }
    }
    Ok(table)
}

/// Writes a table of at most [`MAX_TABLE_NODES`].
pub(super) fn write(out: &mut Vec<u8>, table: &Table) {
    let count = table.len().min(MAX_TABLE_NODES);
    sdnv::write(out, u64::try_from(count).unwrap_or(0));
    for (node, predictability) in table.iter().take(MAX_TABLE_NODES) {
        write_text(out, &text_of(node.endpoint()));
        write_text(out, &decimal(*predictability));
    }
}

/// Reads a text behind its length.
pub(super) fn read_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Refusal> {
    let length = reader.number()?;
    let octets = reader.octets(length)?;
    core::str::from_utf8(octets).map_err(|_| Refusal::Text)
}

/// Writes a text behind its length.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    sdnv::write(out, u64::try_from(text.len()).unwrap_or(0));
    out.extend_from_slice(text.as_bytes());
}

/// The fraction of [`ONE`] that a decimal number from 0 to 1 is, rounded down: digits, a point, and an exponent, as C++ writes it. None
/// where the text is no such number.
fn fraction(text: &str) -> Option<u64> {
    if text.len() > NUMBER_OCTETS {
        return None;
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let mut digits: u128 = 0;
    // At most 24 digits, less than 2^80.
    for digit in whole.chars().chain(part.chars()) {
        digits = digits * 10 + u128::from(digit.to_digit(10)?);
    }
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let places = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
    let scaled = match u32::try_from(places) {
        // 10^38 is the greatest power in 128 bits: a number divided by more is nothing.
        Ok(places) => 10_u128
            .checked_pow(places)
            .map_or(0, |by| digits * u128::from(ONE) / by),
        Err(_) => {
            let by = 10_u128.checked_pow(places.unsigned_abs());
            let product = by.and_then(|by| digits.checked_mul(by));
            product?.checked_mul(u128::from(ONE))?
        }
    };
    u64::try_from(scaled).ok().filter(|it| *it <= ONE)
}

/// A fraction of [`ONE`] as a decimal number of at most six digits behind the point.
fn decimal(predictability: u64) -> String {
    let unit = 10_u64.pow(DIGITS);
    let rounded = (predictability.min(ONE) * unit + ONE / 2) / ONE;
    let text = alloc::format!("{}.{:06}", rounded / unit, rounded % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_as_cpp_writes_them() {
        let half = ONE / 2;
        for (text, expected) in [
            ("1", Some(ONE)),
            ("0", Some(0)),
            ("0.5", Some(half)),
            (".5", Some(half)),
            ("5e-1", Some(half)),
            ("5e-01", Some(half)),
            ("0.05E1", Some(half)),
            ("1e-05", Some(42_949)),
            ("1e-999", Some(0)),
            ("1.00001", None),
            ("1e999", None),
            ("1e-99999999999", None),
            ("-0.5", None),
            ("nan", None),
            ("inf", None),
            ("", None),
            (".", None),
            ("0.0000000000000000000000005", None),
        ] {
            assert_eq!(fraction(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_written_as_cpp_reads_them() {
        for (predictability, expected) in [
            (ONE, "1"),
            (u64::MAX, "1"),
            (0, "0"),
            (ONE / 2, "0.5"),
            (ONE / 3, "0.333333"),
            (1, "0"),
        ] {
            assert_eq!(decimal(predictability), expected);
        }
    }

    proptest! {
        #[test]
        fn a_number_comes_back_to_a_millionth(predictability in 0..=ONE) {
            let back = fraction(&decimal(predictability)).unwrap();
            prop_assert!(back.abs_diff(predictability) <= ONE / 1_000_000);
        }

        #[test]
        fn any_text_is_a_number_or_none(text in "[0-9.eE+-]{0,26}") {
            prop_assert!(fraction(&text).is_none_or(|it| it <= ONE));
        }
    }

    #[test]
    fn a_table_of_other_schemes_and_numbers_is_read_without_them() {
        let mut out = Vec::new();
        sdnv::write(&mut out, 4);
        for (node, number) in [
            ("dtn://a", "0.5"),
            ("mail:b", "0.5"),
            ("dtn://c", "2"),
            ("ipn:4.0", "1"),
        ] {
            write_text(&mut out, node);
            write_text(&mut out, number);
        }
        let table = read(&mut Reader::new(&out)).unwrap();
        let expected: Table = [
            ("dtn://a/".parse().unwrap(), ONE / 2),
            ("ipn:4.0".parse().unwrap(), ONE),
        ]
        .into();
        assert_eq!(table, expected);
        let mut again = Vec::new();
        write(&mut again, &table);
        assert_eq!(read(&mut Reader::new(&again)), Ok(expected));
    }
}
