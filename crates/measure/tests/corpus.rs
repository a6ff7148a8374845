//! The corpus of the fuzz target `omsp`, replayed, with small changes to all of it, and the recorded sessions.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

use std::path::Path;

use dhow_measure::oracle::check_session;

/// Changes to each file: one octet each, at places and to values that follow from their number.
const CHANGES: usize = 150;

#[test]
fn every_session_of_the_corpus_is_read_alike_in_pieces_of_any_size() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut replayed = 0;
    for folder in ["../../fuzz/corpus/omsp", "tests/data"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let octets = std::fs::read(entry.unwrap().path()).unwrap();
            check_session(&octets);
            for change in 0..CHANGES {
                let mut changed = octets.clone();
                let place = change * 7919 % octets.len();
                changed[place] = u8::try_from(change * 31 % 256).unwrap();
                check_session(&changed);
            }
            replayed += 1;
        }
    }
    assert!(
        replayed >= 8,
        "{replayed} sessions: the corpus is not there"
    );
}
