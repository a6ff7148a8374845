//! The two checksums of RFC 9171 4.2.1, from their polynomials: nothing is shared with the nodes that are judged.

/// Octets that are summed at once.
const STRIDE: usize = 8;

/// The change of a sum by an octet that `row` octets follow.
type Tables = [[u32; 256]; STRIDE];

/// CRC-16/IBM-SDLC, the lowest bit first.
static CRC_16: Tables = tables(0x8408);

/// CRC-32/ISCSI, the lowest bit first.
static CRC_32: Tables = tables(0x82f6_3b78);

/// Compares the checksum at the end of a block with its octets (RFC 9171 4.2.1).
pub(super) fn check_crc(block: &[u8], crc: u64) -> Result<(), String> {
    let (width, tables, all_ones) = match crc {
        1 => (2, &CRC_16, 0xffff),
        2 => (4, &CRC_32, u32::MAX),
        _ => return Ok(()),
    };
    let Some((summed, found)) = block.split_at_checked(block.len().saturating_sub(width)) else {
        return Err("sends a block without its checksum (RFC 9171 4.2.1)".to_owned());
    };
    // The checksum counts as zeros.
    let zeros = [0_u8; 4];
    let zeros = zeros.get(..width).unwrap_or_default();
    let sum = add(tables, add(tables, all_ones, summed), zeros) ^ all_ones;
    let said = found
        .iter()
        .fold(0, |said, octet| said << 8 | u32::from(*octet));
    match said == sum {
        true => Ok(()),
        false => Err("sends a block with a wrong checksum (RFC 9171 4.2.1)".to_owned()),
    }
}

/// A sum, and octets behind those that it is of.
fn add(tables: &Tables, mut sum: u32, octets: &[u8]) -> u32 {
    let (strides, rest) = octets.as_chunks::<STRIDE>();
    for stride in strides {
        let word = u64::from_le_bytes(*stride) ^ u64::from(sum);
        let rows = tables.iter().rev().zip(word.to_le_bytes());
        sum = rows.fold(0, |sum, (row, octet)| sum ^ at(row, octet));
    }
    let [row, ..] = tables;
    for octet in rest {
        let [low, ..] = sum.to_le_bytes();
        sum = sum >> 8 ^ at(row, low ^ octet);
    }
    sum
}

fn at(row: &[u32; 256], octet: u8) -> u32 {
    row.get(usize::from(octet)).copied().unwrap_or_default()
}

#[expect(
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a table that is made by the compiler: what is out of bounds does not compile"
)]
const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0_u32; 256]; STRIDE];
    let mut octet = 0;
    while octet < 256 {
        let mut sum = octet as u32;
        let mut row = 0;
        while row < STRIDE {
            let mut bit = 0;
            while bit < 8 {
                sum = match sum & 1 {
                    0 => sum >> 1,
                    _ => sum >> 1 ^ polynomial,
                };
                bit += 1;
            }
            tables[row][octet] = sum;
            row += 1;
        }
        octet += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of a block whose checksum, as zeros, ends it.
    fn block(octets: &[u8], checksum: &[u8]) -> Vec<u8> {
        [octets, checksum].concat()
    }

    #[test]
    fn blocks_of_every_length_have_the_checksums_that_bit_by_bit_sums_give() {
        for length in 0..40_u8 {
            let octets: Vec<u8> = (0..length).map(|it| it.wrapping_mul(91) ^ 0xa5).collect();
            for (crc, polynomial, all_ones, width) in
                [(1, 0x8408, 0xffff, 2), (2, 0x82f6_3b78, u32::MAX, 4)]
            {
                let mut sum: u32 = all_ones;
                for octet in octets.iter().chain(&[0; 4][..width]) {
                    sum ^= u32::from(*octet);
                    for _ in 0..8 {
                        sum = if sum & 1 == 0 {
                            sum >> 1
                        } else {
                            sum >> 1 ^ polynomial
                        };
                    }
                }
                let checksum = (sum ^ all_ones).to_be_bytes();
                let right = block(&octets, &checksum[4 - width..]);
                assert_eq!(check_crc(&right, crc), Ok(()), "{length} octets");
                let mut wrong = right;
                wrong[0] ^= 1;
                assert!(check_crc(&wrong, crc).is_err(), "{length} octets");
            }
        }
    }

    #[test]
    fn a_block_that_is_shorter_than_its_checksum_has_none() {
        assert!(check_crc(&[1], 1).is_err());
        assert!(check_crc(&[1, 2, 3], 2).is_err());
    }

    #[test]
    fn the_check_values_of_the_catalogue_of_crcs_are_met() {
        let sum = |tables, all_ones| add(tables, all_ones, b"123456789") ^ all_ones;
        assert_eq!(sum(&CRC_16, 0xffff), 0x906e);
        assert_eq!(sum(&CRC_32, u32::MAX), 0xe306_9283);
    }
}
