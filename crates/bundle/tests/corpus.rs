//! The corpus of the fuzz target `bundle_decode`, replayed.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::path::Path;

use dhow_bundle::v7::oracle::check_bundle;

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
