//! The corpus of the fuzz target `store_recovery`, replayed, and random changes to a real log.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use dhow_store::oracle::check_recovery;
use proptest::prelude::*;

#[test]
fn every_log_of_the_corpus_opens_or_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/store_recovery");
    let mut opened = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        opened += usize::from(check_recovery(
            &std::fs::read(file.unwrap().path()).unwrap(),
        ));
    }
    assert!(opened >= 3, "{opened} opened: the corpus is not there");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 2,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_log_opens_or_is_refused(mode in 0..3_u8, changes in prop::collection::vec(any::<u8>(), 0..400)) {
        let input: Vec<u8> = std::iter::once(mode).chain(changes).collect();
        let _ = check_recovery(&input);
    }

    /// Changes near records' bodies, which are few among payloads.
    #[test]
    fn changed_bodies_open_or_are_refused(changes in prop::collection::vec((0..3_u32, 0..3_000_u32, any::<u8>()), 1..40)) {
        let change = |(segment, place, value): &(u32, u32, u8)| {
            let place = (8192 + segment * 65_536 + place).to_le_bytes();
            [place[0], place[1], place[2], *value]
        };
        let input: Vec<u8> = std::iter::once(1).chain(changes.iter().flat_map(change)).collect();
        let _ = check_recovery(&input);
    }
}
