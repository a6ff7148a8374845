//! The two checksums of blocks (RFC 9171 4.2.1, 4.2.2).

use alloc::vec::Vec;

use core::fmt;

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of a block (RFC 9171 4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrcType {
    /// 0: none.
    None,
    /// 1: CRC-16 X.25.
    Crc16,
    /// 2: CRC-32C (Castagnoli).
    #[default]
    Crc32C,
}

impl CrcType {
    /// The type with this code; `None` for codes that are not valid.
    #[must_use]
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Crc16),
            2 => Some(Self::Crc32C),
            _ => None,
        }
    }

    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Crc16 => 1,
            Self::Crc32C => 2,
        }
    }

    /// Octets of the checksum itself: 0, 2 or 4.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc16 => 2,
            Self::Crc32C => 4,
        }
    }

    /// Octets of the CRC field, a byte string: 0, 3 or 5.
    #[must_use]
    pub const fn field_octets(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc16 => 3,
            Self::Crc32C => 5,
        }
    }

    /// The checksum of octets of which those up to some place have the checksum `first`, and the `octets` behind it `second`.
    fn joined(self, first: u32, second: u32, octets: u64) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32C => joined_crc32c(first, second, octets),
            Self::Crc16 => {
                let joined = crc_fast::checksum_combine(CRC16, first.into(), second.into(), octets);
                u32::try_from(joined).unwrap_or(0)
            }
        }
    }

    /// The CRC field as it is populated while the checksum is computed (RFC 9171 4.3.1, 4.3.2): zeros.
    pub(crate) const fn zeroed_field(self) -> &'static [u8] {
        match self {
            Self::None => &[],
            Self::Crc16 => &[0x42, 0, 0],
            Self::Crc32C => &[0x44, 0, 0, 0, 0],
        }
    }
}

impl fmt::Display for CrcType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Crc16 => "CRC-16",
            Self::Crc32C => "CRC-32C",
        })
    }
}

/// A checksum over octets that come in any pieces. It is small: the state alone, because it moves about
/// with what it belongs to, and the library's own digest carries its tables with it.
#[derive(Clone, Copy)]
pub struct CrcDigest {
    crc_type: CrcType,
    state: u32,
}

impl CrcDigest {
    /// A digest of nothing yet.
    #[must_use]
    pub fn new(crc_type: CrcType) -> Self {
        let state = match crc_type {
            CrcType::None => 0,
            CrcType::Crc16 => state_of(&Digest::new(CRC16)),
            CrcType::Crc32C => state_of(&Digest::new(CRC32C)),
        };
        Self { crc_type, state }
    }

    /// The checksum that this computes.
    #[must_use]
    pub const fn crc_type(&self) -> CrcType {
        self.crc_type
    }

    /// Adds the octets that come next.
    pub fn update(&mut self, octets: &[u8]) {
        // Each with its own digest, so that the compiler knows the algorithm and leaves its tables alone.
        self.state = match self.crc_type {
            CrcType::None => return,
            CrcType::Crc16 => {
                let mut digest = Digest::new_with_init_state(CRC16, self.state.into());
                digest.update(octets);
                state_of(&digest)
            }
            CrcType::Crc32C => {
                let mut digest = Digest::new_with_init_state(CRC32C, self.state.into());
                digest.update(octets);
                state_of(&digest)
            }
        };
    }

    /// Adds the octets that come next, and gives their own CRC-32C; `None` where this computes another checksum.
    pub fn update_with_own(&mut self, octets: &[u8]) -> Option<u32> {
        if self.crc_type != CrcType::Crc32C {
            self.update(octets);
            return None;
        }
        let own = crc32c(octets);
        self.join(own, u64::try_from(octets.len()).unwrap_or(u64::MAX));
        Some(own)
    }

    /// Adds so many octets of which this kind of checksum is known: a CRC-32C.
    ///
    /// # Panics
    /// When this computes another checksum.
    pub fn join(&mut self, crc32c: u32, octets: u64) {
        assert!(
            self.crc_type == CrcType::Crc32C,
            "a CRC-32C is joined with its like"
        );
        // The state is the checksum before its last step, which inverts it (RFC 7143 13.1).
        self.state = !joined_crc32c(self.value(), crc32c, octets);
    }

    /// The checksum of all octets so far; 0 for [`CrcType::None`].
    #[must_use]
    pub fn value(&self) -> u32 {
        let value = match self.crc_type {
            CrcType::None => 0,
            CrcType::Crc16 => Digest::new_with_init_state(CRC16, self.state.into()).finalize(),
            CrcType::Crc32C => Digest::new_with_init_state(CRC32C, self.state.into()).finalize(),
        };
        // Both checksums are at most 32 bits wide.
        u32::try_from(value).unwrap_or(0)
    }

    /// The checksum as it would be had the octets added so far, of which the last `octets` came behind `before`,
    /// come behind `instead`.
    pub(crate) fn behind(&self, before: &[u8], instead: &[u8], octets: u64) -> u32 {
        let of = |octets: &[u8]| {
            let mut digest = Self::new(self.crc_type);
            digest.update(octets);
            digest.value()
        };
        // The checksum of two parts is that of the first, moved on by the second's length, plus that of the
        // second: so what `before` adds is taken out, and what `instead` adds put in.
        let joined = |first, second, octets| self.crc_type.joined(first, second, octets);
        let own = joined(of(before), self.value(), octets);
        let field = self.crc_type.zeroed_field();
        joined(
            joined(of(instead), own, octets),
            of(field),
            u64::try_from(field.len()).unwrap_or(0),
        )
    }

    /// Whether these octets are the checksum in network byte order.
    #[must_use]
    pub(crate) fn matches(&self, octets: &[u8]) -> bool {
        octets.len() == self.crc_type.octets() && self.value().to_be_bytes().ends_with(octets)
    }
}

const CRC16: CrcAlgorithm = CrcAlgorithm::Crc16IbmSdlc;
const CRC32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// The state of a checksum at most 32 bits wide.
fn state_of(digest: &Digest) -> u32 {
    u32::try_from(digest.get_state()).unwrap_or(0)
}

impl fmt::Debug for CrcDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrcDigest({}, {:#x})", self.crc_type, self.value())
    }
}

/// RFC 9171 4.2.2: the checksum of `octets` in network byte order, as a byte string of its width.
pub(crate) fn write_crc_field(out: &mut Vec<u8>, crc_type: CrcType, value: u32) {
    let [_, _, third, fourth] = value.to_be_bytes();
    match crc_type {
        CrcType::None => {}
        CrcType::Crc16 => out.extend_from_slice(&[0x42, third, fourth]),
        CrcType::Crc32C => {
            out.push(0x44);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Blocks up to this size are summed by tables: that takes less than finding out what the processor can.
const TINY_OCTETS: usize = 24;

/// The checksum of a whole block of definite length, of which `octets` are all before its CRC field.
#[must_use]
pub(crate) fn block_crc(crc_type: CrcType, octets: &[u8]) -> u32 {
    match crc_type {
        CrcType::None => 0,
        CrcType::Crc32C if octets.len() <= TINY_OCTETS => with_field(tiny_crc32c(octets)),
        // In one go, without a digest to set up: most blocks have some tens of octets.
        CrcType::Crc32C => with_field(crc_fast::crc32_iscsi(octets)),
        CrcType::Crc16 => {
            let mut digest = CrcDigest::new(crc_type);
            digest.update(octets);
            digest.update(crc_type.zeroed_field());
            digest.value()
        }
    }
}

/// The CRC-32C of few octets, eight at a time.
fn tiny_crc32c(octets: &[u8]) -> u32 {
    let [step, after1, after2, after3, after4, after5, after6, after7] = &CRC32C_STEPS;
    let (eights, rest) = octets.as_chunks();
    let mut state = !0;
    for &[a, b, c, d, e, f, g, h] in eights {
        let [i, j, k, l] = (state ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        state = at(after7, i) ^ at(after6, j) ^ at(after5, k) ^ at(after4, l);
        state ^= at(after3, e) ^ at(after2, f) ^ at(after1, g) ^ at(step, h);
    }
    for octet in rest {
        let [low, ..] = state.to_le_bytes();
        state = (state >> 8) ^ at(step, low ^ octet);
    }
    !state
}

/// The CRC-32C of octets and the zeroed field behind them from that of the octets.
fn with_field(crc: u32) -> u32 {
    let [_, after1, after2, after3, after4, ..] = &CRC32C_STEPS;
    let [a, b, c, d] = (!crc).to_le_bytes();
    !(at(after4, a ^ FIELD_HEAD) ^ at(after3, b) ^ at(after2, c) ^ at(after1, d))
}

/// The head of the field, a byte string of four octets.
const FIELD_HEAD: u8 = 0x44;

fn at(steps: &[u32; 256], octet: u8) -> u32 {
    steps.get(usize::from(octet)).copied().unwrap_or_default()
}

/// RFC 7143 13.1, bits reflected.
const CRC32C_POLY: u32 = 0x82f6_3b78;

/// Remainders of one octet by the polynomial of CRC-32C (RFC 7143 13.1), bits reflected: in the first table of the octet alone,
/// in the n-th one behind it of the octet with n zero octets after it.
static CRC32C_STEPS: [[u32; 256]; 8] = crc32c_steps();

#[expect(
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "the counters run to the tables' ends, an octet fits a place, and constants have no iterators"
)]
const fn crc32c_steps() -> [[u32; 256]; 8] {
    let mut steps = [[0; 256]; 8];
    let mut octet: u32 = 0;
    let mut place: usize = 0;
    while place < 256 {
        let mut state = octet;
        let mut bit = 0;
        while bit < 8 {
            let poly = if state & 1 == 1 { CRC32C_POLY } else { 0 };
            state = (state >> 1) ^ poly;
            bit += 1;
        }
        steps[0][place] = state;
        octet += 1;
        place += 1;
    }
    let mut zeros: usize = 1;
    while zeros < 8 {
        place = 0;
        while place < 256 {
            let before = steps[zeros - 1][place];
            steps[zeros][place] = (before >> 8) ^ steps[0][(before & 0xff) as usize];
            place += 1;
        }
        zeros += 1;
    }
    steps
}

/// The CRC-32C of octets.
#[must_use]
pub fn crc32c(octets: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(octets)
}

/// The CRC-32C of octets of which those up to some place have the CRC-32C `first`, and the `second_octets` behind it `second`.
#[must_use]
pub fn joined_crc32c(first: u32, second: u32, second_octets: u64) -> u32 {
    // The first checksum is multiplied by x for each bit of the second octets.
    let mut moved = first;
    let mut octets = second_octets;
    for power in &CRC32C_POWERS {
        if octets & 1 == 1 {
            moved = product(*power, moved);
        }
        octets >>= 1;
        if octets == 0 {
            break;
        }
    }
    moved ^ second
}

/// x to the power of 8, 16, 32 and so on, by the polynomial of CRC-32C: what 1, 2, 4 and so on zeros behind octets do to their checksum.
static CRC32C_POWERS: [u32; 64] = crc32c_powers();

#[expect(
    clippy::indexing_slicing,
    reason = "the counter runs to the table's end, and constants have no iterators"
)]
const fn crc32c_powers() -> [u32; 64] {
    let mut powers = [0; 64];
    // Bits are reflected: the highest is 1, the next x.
    powers[0] = 1 << (31 - 8);
    let mut place: usize = 1;
    while place < 64 {
        powers[place] = product(powers[place - 1], powers[place - 1]);
        place += 1;
    }
    powers
}

/// The product of two polynomials, by that of CRC-32C.
const fn product(left: u32, right: u32) -> u32 {
    let mut sum = 0;
    let mut factor = right;
    let mut bit: u32 = 1 << 31;
    while bit != 0 {
        if left & bit != 0 {
            sum ^= factor;
        }
        let poly = if factor & 1 == 1 { CRC32C_POLY } else { 0 };
        factor = (factor >> 1) ^ poly;
        bit >>= 1;
    }
    sum
}

/// Ends a block in `out` that began at `start`: computes its checksum over what is there and the zeroed
/// field, then appends the field.
pub(crate) fn append_crc(out: &mut Vec<u8>, start: usize, crc_type: CrcType) {
    if crc_type == CrcType::None {
        return;
    }
    let value = block_crc(crc_type, out.get(start..).unwrap_or_default());
    write_crc_field(out, crc_type, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(crc_type: CrcType, octets: &[u8]) -> u32 {
        let mut digest = CrcDigest::new(crc_type);
        digest.update(octets);
        digest.value()
    }

    /// RFC 9171 4.2.1: the standard check values, and those of RFC 7143 A.4.
    #[test]
    fn checksums_have_their_check_values() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (octets, crc16, crc32c) in [
            (b"123456789".as_slice(), 0x906e, 0xe306_9283),
            (&[0; 32], 0xcd70, 0x8a91_36aa),
            (&[0xff; 32], 0xe051, 0x62a8_ab43),
            (&ascending, 0x53e4, 0x46dd_794e),
            (&descending, 0xc275, 0x113f_db5c),
        ] {
            assert_eq!(digest(CrcType::Crc16, octets), crc16);
            assert_eq!(digest(CrcType::Crc32C, octets), crc32c);
            assert_eq!(digest(CrcType::None, octets), 0);
        }
    }

    /// RFC 9171 4.2.2: the checksum covers the field, zeroed.
    #[test]
    fn a_block_has_the_checksum_of_its_octets_and_the_zeroed_field() {
        let octets: Vec<u8> = (0..=255).cycle().take(700).collect();
        for crc_type in [CrcType::None, CrcType::Crc16, CrcType::Crc32C] {
            for length in [0, 1, 7, 8, 9, 16, 17, 23, 24, 25, 31, 64, 700] {
                let covered = &octets[..length];
                let whole = [covered, crc_type.zeroed_field()].concat();
                assert_eq!(block_crc(crc_type, covered), digest(crc_type, &whole));
            }
        }
    }

    #[test]
    fn parts_that_were_summed_by_themselves_have_the_checksum_of_the_whole() {
        let octets: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        for size in [1, 7, 255, 256, 4095, 65_536, 70_000] {
            for crc_type in [CrcType::None, CrcType::Crc16, CrcType::Crc32C] {
                let mut whole = CrcDigest::new(crc_type);
                for piece in octets.chunks(size) {
                    let own = whole.update_with_own(piece);
                    let expected = digest(CrcType::Crc32C, piece);
                    assert_eq!(own, (crc_type == CrcType::Crc32C).then_some(expected));
                }
                assert_eq!(whole.value(), digest(crc_type, &octets), "pieces of {size}");
            }
        }
        assert_eq!(joined_crc32c(0, 5, 0), 5);
        assert_eq!(joined_crc32c(5, 0, 0), 5);
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let octets: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for crc_type in [CrcType::Crc16, CrcType::Crc32C] {
            for size in [1, 7, 255, 256, 1024] {
                let mut pieces = CrcDigest::new(crc_type);
                octets.chunks(size).for_each(|piece| pieces.update(piece));
                assert_eq!(
                    pieces.value(),
                    digest(crc_type, &octets),
                    "{crc_type} in pieces of {size}"
                );
            }
        }
    }
}
