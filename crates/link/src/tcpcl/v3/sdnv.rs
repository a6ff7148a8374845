//! Self-delimiting numeric values (RFC 6256), of at most 64 bits.

use bytes::{BufMut, BytesMut};
use thiserror::Error;

use crate::tcpcl::head::{Reader, Stop};

/// Octets of the longest value of 64 bits.
pub(super) const MAX_SDNV_OCTETS: usize = 10;

/// More octets follow.
const MORE: u8 = 0x80;

/// A value that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a number has more than 64 bits or 10 octets (RFC 6256 2)")]
pub(super) struct TooLong;

/// Read a value.
pub(super) fn decode<F: From<TooLong>>(reader: &mut Reader<'_>) -> Result<u64, Stop<F>> {
    let mut value: u64 = 0;
    for _ in 0..MAX_SDNV_OCTETS {
        let octet = reader.u8()?;
        if value > u64::MAX >> 7 {
            return Err(Stop::Fault(TooLong.into()));
        }
        value = value << 7 | u64::from(octet & !MORE);
        if octet & MORE == 0 {
            return Ok(value);
        }
    }
    Err(Stop::Fault(TooLong.into()))
}

/// Write a value in as few octets as it has.
pub(super) fn encode(value: u64, out: &mut BytesMut) {
    let groups = u64::BITS.saturating_sub(value.leading_zeros()).div_ceil(7);
    for group in (1..groups).rev() {
        out.put_u8(low(value >> (7 * group)) | MORE);
    }
    out.put_u8(low(value));
}

/// The lowest seven bits.
fn low(value: u64) -> u8 {
    let [.., lowest] = value.to_be_bytes();
    lowest & !MORE
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::tcpcl::head::Heads;

    fn read(octets: &[u8]) -> Result<Option<u64>, TooLong> {
        Heads::default().next(&mut Bytes::copy_from_slice(octets), decode::<TooLong>)
    }

    /// RFC 6256 appendix A.
    #[test]
    fn the_examples_of_the_standard_are_read_and_written() {
        for (value, octets) in [
            (0xABC, &b"\x95\x3c"[..]),
            (0x1234, b"\xa4\x34"),
            (0x4234, b"\x81\x84\x34"),
            (0x7F, b"\x7f"),
        ] {
            assert_eq!(read(octets), Ok(Some(value)));
            let mut out = BytesMut::new();
            encode(value, &mut out);
            assert_eq!(out, octets);
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_not_read() {
        let mut most = Vec::from([0x81]);
        most.extend([0xff; 8]);
        most.push(0x7f);
        assert_eq!(read(&most), Ok(Some(u64::MAX)));
        most[0] = 0x82;
        assert_eq!(read(&most), Err(TooLong));
        assert_eq!(read(&[0x80; 10]), Err(TooLong));
        assert_eq!(read(&[0x80; 9]), Ok(None), "the last octet is to come");
    }

    proptest! {
        #[test]
        fn every_number_is_read_as_it_was_written(value: u64, shift in 0..64_u32) {
            let mut out = BytesMut::new();
            encode(value >> shift, &mut out);
            prop_assert!(out.len() <= MAX_SDNV_OCTETS);
            prop_assert_eq!(read(&out), Ok(Some(value >> shift)));
        }
    }
}
