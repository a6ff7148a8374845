//! An order by lot: of several nodes that give a neighbour the same bundles at a time each begins with others.

use alloc::vec::Vec;

use dhow_bundle::NodeId;

/// The order in which one node gives one neighbour its bundles. It follows from their node IDs alone, so that a run can be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lot(u64);

impl Lot {
    /// That of a node; and then of it and a neighbour.
    pub(super) fn with(self, node: &NodeId) -> Self {
        let mut octets = Vec::new();
        node.endpoint().encode(&mut octets);
        let fold = |hash, octet: &u8| mix(hash ^ u64::from(*octet));
        Self(octets.iter().fold(self.0, fold))
    }

    /// The place of a bundle.
    pub(super) const fn place(self, number: u64) -> u64 {
        mix(self.0 ^ number)
    }
}

/// A permutation of all numbers in which neighbours are far from each other (the finalizer of SplitMix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
