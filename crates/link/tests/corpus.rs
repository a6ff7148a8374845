//! The corpora of the fuzz targets of sessions, replayed.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::path::Path;

use dhow_link::tcpcl::{v3, v4};

/// Replay a corpus: its files, and the transfers that began in them.
fn replay(target: &str, check_session: fn(&[u8]) -> usize) -> (usize, usize) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let (mut files, mut transfers) = (0, 0);
    for entry in fs::read_dir(corpora.join(target)).unwrap() {
        files += 1;
        transfers += check_session(&fs::read(entry.unwrap().path()).unwrap());
    }
    (files, transfers)
}

#[test]
fn no_file_of_the_corpus_breaks_a_session() {
    let (files, transfers) = replay("tcpcl_v4_session", v4::oracle::check_session);
    assert!(
        files >= 60 && transfers >= 100,
        "{files} files and {transfers} transfers: the corpus is not there"
    );
}

#[test]
fn no_file_of_the_corpus_breaks_a_session_of_version_3() {
    let (files, transfers) = replay("tcpcl_v3_session", v3::oracle::check_session);
    assert!(
        files >= 60 && transfers >= 100,
        "{files} files and {transfers} transfers: the corpus is not there"
    );
}
