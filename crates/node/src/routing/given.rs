//! The nodes that were given a bundle, as a note beside it names them.

use alloc::vec::Vec;

use dhow_bundle::NodeId;
use dhow_bundle::cbor::Reader;
use dhow_bundle::storage::NOTE_OCTETS;

/// Octets of the IDs, at most: a note's, but for its array and a number. Of nodes whose IDs are of `ipn` it names at least 77.
const GIVEN_OCTETS: usize = NOTE_OCTETS - 12;

/// IDs of nodes in CBOR, one behind the other, those that were given it last at the end. The first are forgotten where there is no room for one more.
#[derive(Debug, Default)]
pub(super) struct Given {
    octets: Vec<u8>,
}

/// The ID of a node, as it is named.
pub(super) fn named(node: &NodeId) -> Vec<u8> {
    let mut octets = Vec::new();
    node.endpoint().encode(&mut octets);
    octets
}

impl Given {
    /// One more node was given it. An ID that is longer than all room there is stays unnamed.
    pub(super) fn add(&mut self, id: &[u8]) {
        if id.len() > GIVEN_OCTETS || self.names(id) {
            return;
        }
        let mut reader = Reader::new(&self.octets);
        let mut forgotten = 0;
        while self.octets.len() - forgotten + id.len() > GIVEN_OCTETS && reader.skip().is_ok() {
            forgotten = reader.position();
        }
        self.octets.drain(..forgotten);
        self.octets.extend_from_slice(id);
    }

    /// Whether a node was given it, as far as is remembered.
    pub(super) fn names(&self, id: &[u8]) -> bool {
        let mut start = 0;
        self.ends().any(|end| {
            let is_it = self.octets.get(start..end) == Some(id);
            start = end;
            is_it
        })
    }

    /// The number of nodes that it names.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.ends().count()).unwrap_or(u64::MAX)
    }

    /// All IDs, one behind the other.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(super) const fn memory_octets(&self) -> usize {
        self.octets.capacity()
    }

    /// The places at which IDs end.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let mut reader = Reader::new(&self.octets);
        core::iter::from_fn(move || {
            reader.skip().ok()?;
            Some(reader.position())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_forgotten_where_there_is_no_room() {
        let name = |number: u32| {
            let node = alloc::format!("ipn:{number}.0");
            named(&node.parse().unwrap())
        };
        let mut given = Given::default();
        for number in 1_000..3_000 {
            given.add(&name(number));
            given.add(&name(number));
            assert!(given.octets().len() <= GIVEN_OCTETS);
            assert!(given.names(&name(number)));
        }
        let left = given.count();
        assert!((100..2_000).contains(&left), "{left}");
        assert!(!given.names(&name(1_000)) && given.names(&name(2_901)));
        // One that leaves room for no other.
        let long = alloc::format!("dtn://{}/", "n".repeat(1_000));
        let long = named(&long.parse().unwrap());
        given.add(&long);
        assert_eq!(given.count(), 1);
        assert!(given.names(&long));
        given.add(&[0x5b; GIVEN_OCTETS + 1]);
        assert!(given.names(&long), "what has no room at all takes none");
    }
}
