//! Routers at the mercy of arbitrary adverts: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a router breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId};

use super::{AdvertKey, BundleChange, Contact, Facts, Passage, router};
use crate::adverts;
use crate::config::{COPIES, RouterKind};

/// Bundles that the router holds.
const BUNDLES: u32 = 8;

/// No neighbour is waited for so long.
const LATER: Duration = Duration::from_secs(3_600);

/// Tell routers octets as the payload of an advert, and as the part of it that is theirs; how many took it.
///
/// # Panics
/// A router does what it must not.
#[must_use]
pub fn check_advert(octets: &[u8]) -> usize {
    let body = adverts::decode(octets).map(|(kind, body)| {
        let again = adverts::encode(&kind, body);
        assert_eq!(adverts::decode(&again), Some((kind, body)));
        body
    });
    [Some(octets), body]
        .into_iter()
        .flatten()
        .flat_map(|advert| RouterKind::ALL.map(|kind| is_taken(kind, advert)))
        .filter(|is_taken| *is_taken)
        .count()
}

/// Whether a router takes an advert. It gives the neighbour each bundle once at most, and a flooding one all of them where it does not take it.
fn is_taken(kind: RouterKind, advert: &[u8]) -> bool {
    let Some(mut router) = router(kind, COPIES) else {
        return false;
    };
    let Ok(peer) = "ipn:2.0".parse::<NodeId>() else {
        return false;
    };
    for key in 0..BUNDLES {
        router.handle_bundle(BundleKey(key), BundleChange::Held(Facts::for_test()));
    }
    let hash = |_: &AdvertKey, key: BundleKey| Some(u64::from(key.0));
    router.handle_contact(Instant::START, &peer, Contact::Up);
    let is_taken = router.handle_advert(Instant::START, &peer, advert, &hash);
    let memory = router.memory_octets();
    let again = router.handle_advert(Instant::START, &peer, advert, &hash);
    assert_eq!(again, is_taken, "an advert is one or none");
    assert_eq!(
        router.memory_octets(),
        memory,
        "an advert that comes again takes no room"
    );
    let later = Instant::START + LATER;
    let mut given = BTreeSet::new();
    while let Some(key) = router.next(later, &peer, &|_| Passage::Open) {
        assert!(key.0 < BUNDLES, "a router gives what is held");
        assert!(given.insert(key), "a neighbour gets a bundle once");
        router.handle_bundle(key, BundleChange::Taken(&peer));
        router.handle_bundle(key, BundleChange::Given(&peer));
    }
    assert!(
        is_taken || kind != RouterKind::Flood || u32::try_from(given.len()) == Ok(BUNDLES),
        "what is no advert keeps no bundle back"
    );
    is_taken
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    extern crate std;

    /// Payloads of adverts: one that tells of nothing, of two bundles, of the most, and some that are none.
    fn seeds() -> alloc::vec::Vec<(&'static str, alloc::vec::Vec<u8>)> {
        use dhow_bundle::cbor::{write_array, write_byte_string};
        let body = |hashes: &[u8]| {
            let mut body = alloc::vec::Vec::new();
            write_array(&mut body, 2);
            write_byte_string(&mut body, &[7; 16]);
            write_byte_string(&mut body, hashes);
            body
        };
        let advert = |hashes: &[u8]| adverts::encode("flood", &body(hashes));
        let two = [1_u64, 5].map(u64::to_le_bytes).concat();
        // RFC 6693: of nodes 2 and 3, a half and a quarter.
        let predictabilities = [
            [0x82, 0x82, 2, 0x82, 2, 0, 0x1a, 0x80, 0, 0, 0],
            [0x82, 0x82, 2, 0x82, 3, 0, 0x1a, 0x40, 0, 0, 0],
        ]
        .concat();
        let with_table = |table: &[u8]| {
            let mut body = alloc::vec::Vec::new();
            write_array(&mut body, 3);
            write_byte_string(&mut body, &[7; 16]);
            write_byte_string(&mut body, &two);
            write_byte_string(&mut body, table);
            adverts::encode("prophet", &body)
        };
        alloc::vec![
            ("nothing", advert(&[])),
            ("two-bundles", advert(&two)),
            ("half-a-hash", advert(&two[..12])),
            ("body-alone", body(&two)),
            ("static", adverts::encode("static", &body(&two))),
            ("cut", advert(&two)[..20].to_vec()),
            ("longer", [advert(&two), alloc::vec![0]].concat()),
            ("with-table", with_table(&[])),
            ("predictabilities", with_table(&predictabilities)),
            ("half-a-table", with_table(&predictabilities[..7])),
        ]
    }

    /// `fuzz/corpus/advert` has what is read here; it is written with `UPDATE_SNAPSHOTS` set.
    #[test]
    fn every_file_of_the_corpus_is_taken_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/advert");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (name, octets) in seeds() {
                fs::write(folder.join(name), octets).unwrap();
            }
        }
        let files = fs::read_dir(folder).unwrap();
        let taken = files.map(|file| check_advert(&fs::read(file.unwrap().path()).unwrap()));
        assert_eq!(
            taken.sum::<usize>(),
            7,
            "two adverts, one body, one of another router; one with an empty table by two routers, one with predictabilities"
        );
    }
}
