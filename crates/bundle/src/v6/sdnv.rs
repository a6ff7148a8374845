//! Self-delimiting numeric values (RFC 5050 4.1, RFC 6256), of at most 64 bits, and octets read in order.

use alloc::vec::Vec;

use super::refusal::Refusal;

/// Octets of the longest value of 64 bits.
const MAX_SDNV_OCTETS: usize = 10;

/// More octets follow.
const MORE: u8 = 0x80;

/// Octets that are read from the first to the last.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    octets: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader from the first of these octets on.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self {
            octets,
            position: 0,
        }
    }

    /// Octets read so far.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.position >= self.octets.len()
    }

    /// The next octet.
    ///
    /// # Errors
    /// Nothing is left.
    pub fn octet(&mut self) -> Result<u8, Refusal> {
        let octet = self.octets.get(self.position).ok_or(Refusal::Truncated)?;
        self.position += 1;
        Ok(*octet)
    }

    /// The next octets, so many of them.
    ///
    /// # Errors
    /// Fewer are left: they are taken.
    pub fn octets(&mut self, length: u64) -> Result<&'a [u8], Refusal> {
        let length = usize::try_from(length).map_err(|_| Refusal::Truncated)?;
        let end = (self.position)
            .checked_add(length)
            .ok_or(Refusal::Truncated)?;
        let octets = self.octets.get(self.position..end);
        self.position = end.min(self.octets.len());
        octets.ok_or(Refusal::Truncated)
    }

    /// The next value. One with zeros in front, as DTN2 writes lengths, is read as others are.
    ///
    /// # Errors
    /// It has more than 64 bits or 10 octets, or does not end.
    pub fn number(&mut self) -> Result<u64, Refusal> {
        let mut value: u64 = 0;
        for _ in 0..MAX_SDNV_OCTETS {
            let octet = self.octet()?;
            if value > u64::MAX >> 7 {
                return Err(Refusal::Number);
            }
            value = value << 7 | u64::from(octet & !MORE);
            if octet & MORE == 0 {
                return Ok(value);
            }
        }
        Err(Refusal::Number)
    }
}

/// Write a value in as few octets as it has.
pub fn write(out: &mut Vec<u8>, value: u64) {
    let groups = u64::BITS.saturating_sub(value.leading_zeros()).div_ceil(7);
    for group in (1..groups).rev() {
        out.push(low(value >> (7 * group)) | MORE);
    }
    out.push(low(value));
}

/// The lowest seven bits.
fn low(value: u64) -> u8 {
    let [.., lowest] = value.to_be_bytes();
    lowest & !MORE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 6256 2, and the limits of 64 bits.
    #[test]
    fn the_examples_of_the_standard_are_read_and_written() {
        let examples: [(u64, &[u8]); 5] = [
            (0xabc, &[0x95, 0x3c]),
            (0x1234, &[0xa4, 0x34]),
            (0x4234, &[0x81, 0x84, 0x34]),
            (0x7f, &[0x7f]),
            (
                u64::MAX,
                &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            ),
        ];
        for (value, octets) in examples {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, octets);
            assert_eq!(Reader::new(octets).number(), Ok(value));
        }
        let beyond = [0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(Reader::new(&beyond).number(), Err(Refusal::Number));
        assert_eq!(Reader::new(&[0x80; 11]).number(), Err(Refusal::Number));
        assert_eq!(Reader::new(&[0x80, 0x80]).number(), Err(Refusal::Truncated));
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value: u64) {
            let mut out = Vec::new();
            write(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.number(), Ok(value));
            prop_assert!(reader.is_empty());
        }
    }
}
