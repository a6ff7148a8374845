//! The octets that a connection carries at a time.

use bytes::Bytes;

use crate::connection::length;
use crate::sparse::Sparse;

/// Octets that are written, carried and read together.
#[derive(Clone, Debug)]
pub enum Portion {
    /// The octets themselves.
    Octets(Bytes),
    /// The octets with their zeros as numbers.
    Sparse(Sparse),
}

impl Portion {
    /// The number of octets, zeros included.
    #[must_use]
    pub fn octets(&self) -> u64 {
        match self {
            Self::Octets(octets) => length(octets),
            Self::Sparse(sparse) => sparse.octets(),
        }
    }

    /// Takes the first so many of them.
    pub(crate) fn split_to(&mut self, first: u64) -> Self {
        match self {
            Self::Octets(octets) => {
                let first = usize::try_from(first).unwrap_or(usize::MAX);
                Self::Octets(octets.split_to(first.min(octets.len())))
            }
            Self::Sparse(sparse) => {
                let part = sparse.part(0, first);
                *sparse = sparse.part(first, u64::MAX);
                Self::Sparse(part)
            }
        }
    }

    /// The octets as a node is given them.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Bytes> {
        match self {
            Self::Octets(octets) => vec![octets],
            Self::Sparse(sparse) => sparse.pieces(),
        }
    }
}
