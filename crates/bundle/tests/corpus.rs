//! The corpora of the fuzz targets `bundle_decode`, `bundle_v6_decode`, `gateway`, `bibe_bpdu` and `bibe_signal`, replayed.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::path::Path;

use dhow_bundle::gateway::{Edit, oracle::check_octets};
use dhow_bundle::v7::admin::bibe;
use dhow_bundle::{v6, v7::oracle::check_bundle};

#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bundle_decode");
    let (mut accepted, mut refused) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        match check_bundle(&fs::read(entry.unwrap().path()).unwrap()) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(
        accepted >= 30 && refused >= 30,
        "{accepted} accepted and {refused} refused: the corpus is not there"
    );
}

#[test]
fn every_file_of_version_6_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bundle_v6_decode");
    let files = fs::read_dir(folder).unwrap();
    let read = files.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let accepted = read.filter(|octets| {
        let octets = octets.clone().into();
        matches!(v6::oracle::check_bundle(&octets), Ok(Some(_)))
    });
    assert!(accepted.count() >= 50, "the corpus is not there");
}

/// Names of the files of a corpus that are accepted, in order.
fn accepted(corpus: &str, check: fn(&[u8]) -> bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(folder.join(corpus)).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let accepted = paths.filter(|path| check(&fs::read(path).unwrap()));
    let names = accepted.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn every_file_of_bibe_is_read_or_refused() {
    let heads = [
        "draft-custody",
        "draft-plain",
        "empty-bundle",
        "ion-custody",
        "ion-plain",
        "longest-head",
        "not-shortest",
        "ud3tn-plain",
    ];
    assert_eq!(accepted("bibe_bpdu", bibe::oracle::check_bpdu), heads);
    let signals = [
        "all",
        "draft-accepted",
        "dtnme-redundant",
        "ion-accepted",
        "last",
        "many-runs",
        "most-runs",
        "neighbours",
        "redundant",
        "reserved-disposition",
    ];
    assert_eq!(accepted("bibe_signal", bibe::oracle::check_signal), signals);
}

#[test]
fn every_file_of_bundles_that_cross_comes_back_or_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gateway");
    let files = fs::read_dir(folder).unwrap();
    let read = files.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let crossed = read.filter(|octets| {
        let crossed = check_octets(&octets.clone().into(), &Edit::default());
        matches!(crossed, Some(Ok(())))
    });
    let crossed = crossed.count();
    assert!(crossed >= 150, "{crossed}: the corpus is not there");
}
