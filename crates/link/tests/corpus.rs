//! The corpus of the fuzz target `tcpcl_v4_session`, replayed.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::path::Path;

use dhow_link::tcpcl::v4::oracle::check_session;

#[test]
fn no_file_of_the_corpus_breaks_a_session() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcpcl_v4_session");
    let (mut files, mut transfers) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        files += 1;
        transfers += check_session(&fs::read(entry.unwrap().path()).unwrap());
    }
    assert!(
        files >= 60 && transfers >= 100,
        "{files} files and {transfers} transfers: the corpus is not there"
    );
}
