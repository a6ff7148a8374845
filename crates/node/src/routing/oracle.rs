//! Routers at the mercy of arbitrary adverts: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a router breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId};

use super::acknowledgments::{self, Acknowledgments};
use super::{AdvertKey, BundleChange, Contact, Facts, Passage, router};
use crate::adverts;
use crate::config::{COPIES, RouterKind};

/// Bundles that the router holds.
const BUNDLES: u32 = 8;

/// Octets of the store.
const QUOTA_OCTETS: u64 = 10_000;

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
        .flat_map(|advert| {
            let routers = RouterKind::ALL.map(|kind| is_taken(kind, advert));
            routers.into_iter().chain([are_acknowledgments(advert)])
        })
        .filter(|is_taken| *is_taken)
        .count()
}

/// Whether octets are acknowledgments. They are known then, each once, and told as they are known.
fn are_acknowledgments(advert: &[u8]) -> bool {
    let now = Instant::START;
    let Some(all) = acknowledgments::read(advert, now) else {
        return false;
    };
    let (Ok(here), Ok(there)) = ("ipn:2.0".parse::<NodeId>(), "ipn:3.0".parse::<NodeId>()) else {
        return false;
    };
    let mut known = Acknowledgments::default();
    let new = known.handle_advert(now, &here, all.clone());
    for it in &all {
        let is_over = it.until <= now;
        assert_eq!(
            known.knows(now, &it.source, it.creation, &it.destination),
            !is_over || new.iter().any(|new| new.is_of(it)),
            "all that live are known"
        );
    }
    let memory = known.memory_octets();
    assert!(known.handle_advert(now, &here, all).is_empty());
    assert_eq!(known.memory_octets(), memory, "each is known once");
    known.handle_contact(now, &there, Contact::Up);
    let told = known.poll_advert();
    assert_eq!(told.is_some(), !new.is_empty(), "what is known is told");
    if let Some((_, body)) = told {
        let told = acknowledgments::read(&body, now).unwrap_or_default();
        let mut pairs = told.iter().zip(&new);
        assert!(pairs.all(|(told, new)| told.is_of(new)), "and nothing else");
    }
    true
}

/// Whether a router takes an advert. It gives the neighbour each bundle once at most, and a flooding one all of them where it does not take it.
fn is_taken(kind: RouterKind, advert: &[u8]) -> bool {
    let Some(mut router) = router(kind, None, COPIES, QUOTA_OCTETS) else {
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
    let floods = matches!(kind, RouterKind::Flood | RouterKind::Epidemic);
    assert!(
        is_taken || !floods || u32::try_from(given.len()) == Ok(BUNDLES),
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
        let of = |router: &str, table: &[u8]| {
            let mut body = alloc::vec::Vec::new();
            write_array(&mut body, 3);
            write_byte_string(&mut body, &[7; 16]);
            write_byte_string(&mut body, &two);
            write_byte_string(&mut body, table);
            adverts::encode(router, &body)
        };
        let with_table = |table: &[u8]| of("prophet", table);
        // Of the neighbour, which has met node 3, and of node 4, a second ago, which has met nobody.
        let likelihoods = [
            &[
                0x81, 0x82, 0x82, 2, 0x82, 3, 0, 0x1b, 0, 0, 0, 1, 0, 0, 0, 0,
            ][..],
            &[0x83, 0x82, 2, 0x82, 4, 0, 0x19, 0x03, 0xe8, 0x80],
        ]
        .concat();
        // Of a bundle of ipn:9.5, created at 5 with number 1, for ipn:7.42, and of one for dtn://far/in; 1,000 ms are left.
        let acknowledged = [
            &[
                0x82, 0x85, 0x82, 2, 0x82, 9, 5, 5, 1, 0x82, 2, 0x82, 7, 0x18, 42,
            ][..],
            &[
                0x19, 0x03, 0xe8, 0x85, 0x82, 2, 0x82, 9, 5, 5, 2, 0x82, 1, 0x68,
            ],
            b"//far/in",
            &[0x19, 0x03, 0xe8],
        ]
        .concat();
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
            ("likelihoods", of("maxprop", &likelihoods)),
            ("half-likelihoods", of("maxprop", &likelihoods[..20])),
            (
                "acknowledgments",
                adverts::encode("acknowledgments", &acknowledged),
            ),
            (
                "half-an-acknowledgment",
                adverts::encode("acknowledgments", &acknowledged[..12]),
            ),
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
            25,
            "two adverts, one body and one of another router by five routers each; one with an empty table by two, one with predictabilities; one with likelihoods; one of acknowledgments"
        );
    }
}
