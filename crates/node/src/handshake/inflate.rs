//! Compressed octets (zlib, RFC 1950; deflate, RFC 1951), read alone: IBR-DTN compresses every response.
//!
//! A code is decoded bit by bit: messages come once a second from a neighbour, and have a megabyte at most.

use alloc::vec;
use alloc::vec::Vec;

use super::refusal::Refusal;

/// Bits of the longest code (RFC 1951 3.2.7).
const MAX_CODE_BITS: usize = 15;

/// Symbols of the code for literals and lengths, and of that for distances, at most (RFC 1951 3.2.6).
const LITERALS: usize = 288;
const DISTANCES: usize = 30;

/// Blocks of compressed octets, at most: each has a code that is computed, and those of a megabyte are about a hundred.
const MAX_BLOCKS: usize = 1_024;

/// The symbol that ends a block.
const END_OF_BLOCK: u16 = 256;

/// The shortest length, or distance, of each symbol, and the bits that are added to it (RFC 1951 3.2.5).
const LENGTHS: [(usize, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
const OFFSETS: [(usize, u32); DISTANCES] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1_025, 9),
    (1_537, 9),
    (2_049, 10),
    (3_073, 10),
    (4_097, 11),
    (6_145, 11),
    (8_193, 12),
    (12_289, 12),
    (16_385, 13),
    (24_577, 13),
];

/// The order in which the lengths of the code for code lengths come (RFC 1951 3.2.7).
const CODE_LENGTH_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Whether octets begin as compressed ones do (RFC 1950 2.2): no message of a known type does.
pub(super) fn is_compressed(octets: &[u8]) -> bool {
    let [method, flags, ..] = octets else {
        return false;
    };
    let head = u16::from_be_bytes([*method, *flags]);
    method & 0x8f == 0x08 && head % 31 == 0
}

/// The octets that these were compressed from, at most so many.
pub(super) fn inflate(octets: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
    let rest = match octets {
        // A preset dictionary is one that nobody here knows.
        [_, flags, rest @ ..] if flags & 0x20 == 0 => rest,
        _ => return Err(Refusal::Compression),
    };
    let mut bits = Bits::new(rest);
    let mut out = Output {
        octets: Vec::new(),
        limit,
    };
    let mut blocks = 0;
    loop {
        blocks += 1;
        if blocks > MAX_BLOCKS {
            return Err(Refusal::TooLong);
        }
        let is_last = bits.take(1)? == 1;
        let (literals, distances) = match bits.take(2)? {
            0 => {
                out.stored(&mut bits)?;
                match is_last {
                    true => break,
                    false => continue,
                }
            }
            1 => (Code::fixed_literals()?, Code::new(&[5; DISTANCES])?),
            2 => read_codes(&mut bits)?,
            _ => return Err(Refusal::Compression),
        };
        out.coded(&mut bits, &literals, &distances)?;
        if is_last {
            break;
        }
    }
    match bits.rest() {
        [a, b, c, d] if u32::from_be_bytes([*a, *b, *c, *d]) == checksum(&out.octets) => {
            Ok(out.octets)
        }
        [_, _, _, _] => Err(Refusal::Compression),
        rest if rest.len() < 4 => Err(Refusal::Truncated),
        _ => Err(Refusal::OctetsAfterEnd),
    }
}

/// Adler-32 (RFC 1950 8.2).
fn checksum(octets: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (mut a, mut b) = (1_u32, 0_u32);
    // So many octets do not fill 32 bits.
    for part in octets.chunks(5_552) {
        for octet in part {
            a += u32::from(*octet);
            b += a;
        }
        a %= BASE;
        b %= BASE;
    }
    b << 16 | a
}

/// Octets read bit by bit, the lowest first.
struct Bits<'a> {
    octets: core::slice::Iter<'a, u8>,
    held: u32,
    count: u32,
}

impl<'a> Bits<'a> {
    fn new(octets: &'a [u8]) -> Self {
        Self {
            octets: octets.iter(),
            held: 0,
            count: 0,
        }
    }

    /// The next bits, at most 16.
    fn take(&mut self, count: u32) -> Result<u32, Refusal> {
        while self.count < count {
            let octet = self.octets.next().ok_or(Refusal::Truncated)?;
            self.held |= u32::from(*octet) << self.count;
            self.count += 8;
        }
        let bits = self.held & ((1 << count) - 1);
        self.held >>= count;
        self.count -= count;
        Ok(bits)
    }

    /// Takes as many bits, as an index.
    fn index(&mut self, count: u32) -> Result<usize, Refusal> {
        usize::try_from(self.take(count)?).map_err(|_| Refusal::Compression)
    }

    /// The octets behind the one that was begun.
    fn rest(&self) -> &'a [u8] {
        self.octets.as_slice()
    }
}

/// A code: how many of each length there are, and the symbols in order (RFC 1951 3.2.2).
struct Code {
    counts: [u16; MAX_CODE_BITS + 1],
    symbols: Vec<u16>,
}

impl Code {
    /// The code of these lengths, one for each symbol; refused where there are more codes than bits allow.
    fn new(lengths: &[u8]) -> Result<Self, Refusal> {
        let mut counts = [0_u16; MAX_CODE_BITS + 1];
        for length in lengths {
            let count = counts.get_mut(usize::from(*length));
            *count.ok_or(Refusal::Compression)? += 1;
        }
        let mut left: i32 = 1;
        for count in counts.iter().skip(1) {
            left = 2 * left - i32::from(*count);
            if left < 0 {
                return Err(Refusal::Compression);
            }
        }
        // The place of the next symbol of each length.
        let mut places = [0_usize; MAX_CODE_BITS + 1];
        let mut next = 0;
        for (place, count) in places.iter_mut().zip(counts).skip(1) {
            *place = next;
            next += usize::from(count);
        }
        let mut symbols = vec![0; next];
        for (symbol, length) in (0..).zip(lengths).filter(|(_, length)| **length > 0) {
            if let Some(place) = places.get_mut(usize::from(*length)) {
                if let Some(it) = symbols.get_mut(*place) {
                    *it = symbol;
                }
                *place += 1;
            }
        }
        Ok(Self { counts, symbols })
    }

    /// RFC 1951 3.2.6.
    fn fixed_literals() -> Result<Self, Refusal> {
        let mut lengths = [8; LITERALS];
        for (symbol, length) in lengths.iter_mut().enumerate() {
            *length = match symbol {
                144..=255 => 9,
                256..=279 => 7,
                _ => 8,
            };
        }
        Self::new(&lengths)
    }

    /// The next symbol.
    fn symbol(&self, bits: &mut Bits<'_>) -> Result<u16, Refusal> {
        let (mut code, mut first, mut place) = (0_i32, 0_i32, 0_usize);
        for count in self.counts.iter().skip(1) {
            code |= i32::from(bits.take(1)? == 1);
            let beyond = i32::from(*count);
            if code - first < beyond {
                let within = usize::try_from(code - first).map_err(|_| Refusal::Compression)?;
                let symbol = self.symbols.get(place + within);
                return symbol.copied().ok_or(Refusal::Compression);
            }
            place += usize::from(*count);
            first = (first + beyond) << 1;
            code <<= 1;
        }
        Err(Refusal::Compression)
    }
}

/// Reads the codes of a block (RFC 1951 3.2.7).
fn read_codes(bits: &mut Bits<'_>) -> Result<(Code, Code), Refusal> {
    let literals = bits.index(5)? + 257;
    let distances = bits.index(5)? + 1;
    let count = bits.index(4)? + 4;
    if literals > LITERALS - 2 || distances > DISTANCES {
        return Err(Refusal::Compression);
    }
    let mut code_lengths = [0; 19];
    for place in CODE_LENGTH_ORDER.iter().take(count) {
        let length = u8::try_from(bits.take(3)?).unwrap_or(0);
        if let Some(it) = code_lengths.get_mut(*place) {
            *it = length;
        }
    }
    let code = Code::new(&code_lengths)?;
    let mut lengths: Vec<u8> = Vec::with_capacity(literals + distances);
    while lengths.len() < literals + distances {
        let symbol = code.symbol(bits)?;
        let (length, times) = match symbol {
            16 => {
                let last = lengths.last().ok_or(Refusal::Compression)?;
                (*last, 3 + bits.index(2)?)
            }
            17 => (0, 3 + bits.index(3)?),
            18 => (0, 11 + bits.index(7)?),
            length => (u8::try_from(length).unwrap_or(0), 1),
        };
        lengths.resize(lengths.len() + times, length);
    }
    if lengths.len() > literals + distances {
        return Err(Refusal::Compression);
    }
    let (literals, distances) = lengths.split_at(literals);
    Ok((Code::new(literals)?, Code::new(distances)?))
}

/// The octets so far, and how many there may be.
struct Output {
    octets: Vec<u8>,
    limit: usize,
}

impl Output {
    fn room_for(&self, octets: usize) -> Result<(), Refusal> {
        match octets <= self.limit.saturating_sub(self.octets.len()) {
            true => Ok(()),
            false => Err(Refusal::TooLong),
        }
    }

    /// A block that is not compressed (RFC 1951 3.2.4): it begins with an octet of its own.
    fn stored(&mut self, bits: &mut Bits<'_>) -> Result<(), Refusal> {
        let aside = bits.count;
        bits.take(aside)?;
        let (length, inverse) = (bits.index(16)?, bits.index(16)?);
        if length != inverse ^ 0xffff {
            return Err(Refusal::Compression);
        }
        self.room_for(length)?;
        let (part, rest) = (bits.octets.as_slice())
            .split_at_checked(length)
            .ok_or(Refusal::Truncated)?;
        self.octets.extend_from_slice(part);
        bits.octets = rest.iter();
        Ok(())
    }

    /// A block of codes (RFC 1951 3.2.3).
    fn coded(
        &mut self,
        bits: &mut Bits<'_>,
        literals: &Code,
        distances: &Code,
    ) -> Result<(), Refusal> {
        loop {
            let symbol = literals.symbol(bits)?;
            if let Ok(octet) = u8::try_from(symbol) {
                self.room_for(1)?;
                self.octets.push(octet);
                continue;
            }
            if symbol == END_OF_BLOCK {
                return Ok(());
            }
            let place = usize::from(symbol - END_OF_BLOCK - 1);
            let (least, more) = *LENGTHS.get(place).ok_or(Refusal::Compression)?;
            let length = least + bits.index(more)?;
            let place = usize::from(distances.symbol(bits)?);
            let (least, more) = *OFFSETS.get(place).ok_or(Refusal::Compression)?;
            let distance = least + bits.index(more)?;
            self.repeat(distance, length)?;
        }
    }

    /// Octets that came before come again, among them those that this adds.
    fn repeat(&mut self, distance: usize, length: usize) -> Result<(), Refusal> {
        self.room_for(length)?;
        let start = self.octets.len().checked_sub(distance);
        let start = start.ok_or(Refusal::Compression)?;
        for place in start..start + length {
            let octet = self.octets.get(place).copied();
            self.octets.push(octet.ok_or(Refusal::Compression)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::super::tests::octets_of_hex;
    use super::*;

    /// Octets that zlib compressed with codes of their own, and the text that they are of.
    fn own_codes() -> (Vec<u8>, String) {
        let hex = include_str!("../../tests/data/zlib_own_codes.hex");
        let line = |it| alloc::format!("dtn://node-{it}/application {}\n", it * it);
        (octets_of_hex(hex.trim()), (0..60).map(line).collect())
    }

    #[test]
    fn blocks_of_each_kind_are_read() {
        let stored = octets_of_hex("7801010300fcff616263024d0127");
        assert_eq!(inflate(&stored, 3), Ok(b"abc".to_vec()));
        let fixed = octets_of_hex("789c4b4c4a4e4442002df505bf");
        assert_eq!(inflate(&fixed, 15), Ok(b"abcabcabcabcabc".to_vec()));
        let (own, text) = own_codes();
        assert_eq!(inflate(&own, text.len()), Ok(text.clone().into_bytes()));
        for (octets, length) in [(stored, 3), (fixed, 15), (own, text.len())] {
            assert!(is_compressed(&octets));
            assert_eq!(inflate(&octets, length - 1), Err(Refusal::TooLong));
            for end in 0..octets.len() {
                assert!(inflate(&octets[..end], length).is_err(), "{end}");
            }
            let longer = [&octets[..], &[0]].concat();
            assert_eq!(inflate(&longer, length), Err(Refusal::OctetsAfterEnd));
            let mut other = octets.clone();
            *other.last_mut().unwrap() ^= 1;
            assert_eq!(inflate(&other, length), Err(Refusal::Compression));
        }
    }

    #[test]
    fn messages_of_known_types_are_not_compressed() {
        for first in 1..=3 {
            for second in 0..=u8::MAX {
                assert!(!is_compressed(&[first, second]));
            }
        }
        assert!(!is_compressed(&[0x78]));
    }

    /// Empty blocks without an end.
    #[test]
    fn blocks_without_number_are_refused() {
        let empty = [0, 0, 0, 0xff, 0xff].repeat(MAX_BLOCKS + 1);
        let octets = [&[0x78, 0x01][..], &empty].concat();
        assert_eq!(inflate(&octets, 1_024), Err(Refusal::TooLong));
    }

    proptest! {
        #[test]
        fn any_octets_become_no_more_than_the_limit(octets in proptest::collection::vec(any::<u8>(), 0..400), place in 0_usize..400, octet: u8) {
            let framed = [&[0x78, 0x9c][..], &octets].concat();
            for octets in [&octets, &framed] {
                if let Ok(out) = inflate(octets, 1_000) {
                    prop_assert!(out.len() <= 1_000);
                }
            }
            let (mut own, _) = own_codes();
            let length = own.len();
            own[place % length] = octet;
            if let Ok(out) = inflate(&own, 4_096) {
                prop_assert!(out.len() <= 4_096);
            }
        }
    }
}
