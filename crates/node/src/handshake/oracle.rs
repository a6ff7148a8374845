//! Assertions that hold for any octets as a handshake: the fuzz target and the replay of its corpus.
//!
//! Everything here panics when the decoder breaks its word; it is no part of the interface.

use super::wire::Handshake;

/// Read octets as a message; whether they are one. A message that is read can be written, and is read again as the same, but for numbers
/// that are rounded.
///
/// # Panics
/// The decoder does what it must not.
#[must_use]
pub fn check_handshake(octets: &[u8]) -> bool {
    let Ok(message) = Handshake::decode(octets) else {
        return false;
    };
    let written = message.encode();
    assert!(written.len() <= 2 * Handshake::MAX_OCTETS);
    let again = Handshake::decode(&written);
    let settled = again.map(|it| it.encode());
    assert_eq!(settled, Ok(written), "what is written is read");
    if let Handshake::Response(response) = &message {
        for filter in [&response.summary, &response.purge].into_iter().flatten() {
            let _ = filter.has(octets);
        }
        let table = response.predictabilities.iter().flatten();
        assert!(
            table
                .into_iter()
                .all(|(_, predictability)| *predictability <= 1 << 32)
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::vec::Vec;
    use std::fs;
    use std::path::Path;

    use super::super::tests::captured;
    use super::super::{Acknowledgment, Filter, Items, Response};
    use super::*;

    extern crate std;

    /// Messages of the capture, one with all items, and some that are none.
    fn seeds() -> Vec<(String, Vec<u8>)> {
        let captured = captured().into_iter();
        let mut seeds: Vec<(String, Vec<u8>)> = captured
            .map(|(frame, _, payload)| (alloc::format!("captured-{frame}"), payload.to_vec()))
            .collect();
        let acknowledgment = Acknowledgment {
            source: "dtn://a/b".parse().unwrap(),
            creation: dhow_bundle::v6::CreationTime {
                seconds: 848_496_734,
                sequence: 1,
            },
            fragment: Some(dhow_bundle::FragmentRange {
                offset: 6_000,
                length: 6_000,
            }),
            expires_s: 848_500_334,
            lifetime_s: 3_600,
        };
        let filter = Filter::of(&[b"key".to_vec()]);
        let all = Handshake::Response(Box::new(Response {
            lifetime_s: 60,
            summary: Some(filter.clone()),
            purge: Some(filter),
            predictabilities: Some([("dtn://a/".parse().unwrap(), 1 << 31)].into()),
            acknowledgments: Some(alloc::vec![acknowledgment]),
            limitations: Some([(3, 1)].into()),
        }));
        let of = |name: &str, octets: Vec<u8>| (String::from(name), octets);
        seeds.extend([
            of("all-items", all.encode()),
            of("cut", all.encode()[..1_500].to_vec()),
            of("notification", Handshake::Notification([3].into()).encode()),
            of("nothing-asked", Handshake::Request(Items::new()).encode()),
            of(
                "predictabilities",
                b"\x02\x3c\x01\x03\x0e\x01\x07dtn://b\x041e-5".to_vec(),
            ),
            of("advert", crate::adverts::encode("flood", &[])),
            of("compressed-start", alloc::vec![0x78, 0x9c, 0x63]),
        ]);
        seeds
    }

    /// `fuzz/corpus/handshake` has what is read here; it is written with `UPDATE_SNAPSHOTS` set.
    #[test]
    fn every_file_of_the_corpus_is_read_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/handshake");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (name, octets) in seeds() {
                fs::write(folder.join(name), octets).unwrap();
            }
        }
        let files = fs::read_dir(folder).unwrap();
        let read = files.filter(|file| {
            let path = file.as_ref().unwrap().path();
            check_handshake(&fs::read(path).unwrap())
        });
        assert_eq!(
            read.count(),
            8,
            "four captured, and four that are made here"
        );
    }
}
