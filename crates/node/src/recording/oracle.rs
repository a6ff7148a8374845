//! Invariants of reading a recording, whatever its octets are: for fuzzing and the replay of its findings.

use alloc::format;
use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;

use super::entry::Entry;
use super::item::Item as _;

/// Read octets as entries, and assert that each one which is read is the same once it is written and read again;
/// how many there are.
///
/// # Panics
/// When one is not.
#[must_use]
pub fn check_entries(octets: &[u8]) -> usize {
    let mut reader = Reader::new(octets);
    let mut entries = 0;
    while let Ok(Some(entry)) = Entry::next(&mut reader) {
        let mut written = Vec::new();
        entry.write(&mut written);
        let again = Entry::read(&mut Reader::new(&written));
        assert_eq!(
            format!("{:?}", Ok::<_, super::ItemError>(&entry)),
            format!("{:?}", again.as_ref()),
            "an entry is what is written of it"
        );
        entries += 1;
    }
    entries
}
