//! What a connection carries at a time.

use bytes::Bytes;

use crate::connection::length;
use crate::sparse::Sparse;

/// Octets that are written, carried and read together.
#[derive(Clone, Debug)]
pub enum Freight {
    /// All of them.
    Octets(Bytes),
    /// With their zeros as numbers.
    Sparse(Sparse),
}

impl Freight {
    /// How many.
    #[must_use]
    pub fn octets(&self) -> u64 {
        match self {
            Self::Octets(octets) => length(octets),
            Self::Sparse(sparse) => sparse.octets(),
        }
    }

    /// As a node is given them.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Bytes> {
        match self {
            Self::Octets(octets) => vec![octets],
            Self::Sparse(sparse) => sparse.pieces(),
        }
    }
}
