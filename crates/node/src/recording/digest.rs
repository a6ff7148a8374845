//! One number for all that a node asked for and wrote.

use core::hash::{Hash, Hasher};

use dhow_bundle::CrcType;
use dhow_bundle::crc::CrcDigest;
use dhow_bundle::storage::{Piece, StoreCommand};
use dhow_link::Batch;

use super::entry::Content;
use crate::driver::Action;

/// A running digest: the same on every machine, and no defence against anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self {
            state: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Digest {
    /// The number.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.state
    }

    /// Adds an answer to `poll`; of octets for the store only how many, where they are left out.
    pub fn add(&mut self, action: Option<&Action>, content: Content) {
        match action {
            Some(Action::Store(StoreCommand::Append { key, octets, .. })) => {
                self.write_u8(1);
                key.hash(self);
                self.add_piece(octets, content);
            }
            Some(action) => {
                self.write_u8(2);
                action.hash(self);
            }
            None => self.write_u8(0),
        }
    }

    /// Adds octets, or the place where they lie.
    pub fn add_piece(&mut self, piece: &Piece, content: Content) {
        match (piece, content) {
            (Piece::Octets(octets), Content::Whole) => {
                self.write_u8(1);
                self.write_usize(octets.len());
                self.write(octets);
            }
            (Piece::Octets(octets), Content::Without) => {
                self.write_u8(2);
                self.write_usize(octets.len());
            }
            (Piece::Extent(extent), _) => {
                self.write_u8(3);
                extent.hash(self);
            }
        }
    }

    /// Adds datagrams, each with where its pieces were cut.
    pub fn add_datagrams(&mut self, datagrams: &Batch, content: Content) {
        self.write_usize(datagrams.len());
        for pieces in datagrams.datagrams() {
            self.write_usize(pieces.len());
            for piece in pieces {
                self.add_piece(piece, content);
            }
        }
    }

    const fn mix(&mut self, word: u64) {
        self.state = (self.state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.state ^= self.state >> 29;
    }
}

/// Numbers are added by their values, so that neither the order of a machine's octets nor its word counts.
impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, octets: &[u8]) {
        let mut crc = CrcDigest::new(CrcType::Crc32C);
        crc.update(octets);
        self.mix(u64::from(crc.value()));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u32(value.cast_unsigned());
    }

    fn write_i64(&mut self, value: i64) {
        self.mix(value.cast_unsigned());
    }

    fn write_isize(&mut self, value: isize) {
        self.write_i64(i64::try_from(value).unwrap_or(i64::MIN));
    }
}
