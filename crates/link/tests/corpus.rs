//! The corpora of the fuzz targets of sessions and conversations, replayed.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::path::Path;

use dhow_link::discovery;
use dhow_link::ltp;
use dhow_link::stcp;
use dhow_link::tcpcl::{v3, v4};
use dhow_link::udpcl;

/// Give each file of a corpus to `check`, which counts transfers.
fn replay(corpus: &str, check: fn(&[u8]) -> usize) {
    let (files, transfers) = counts(corpus, check);
    assert!(
        files >= 60 && transfers >= 100,
        "{files} files and {transfers} transfers: the corpus is not there"
    );
}

/// Give each file of a corpus to `check`: the number of files, and the sum of what it counts.
fn counts(corpus: &str, check: fn(&[u8]) -> usize) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let (mut files, mut transfers) = (0, 0);
    for entry in fs::read_dir(folder.join(corpus)).unwrap() {
        files += 1;
        transfers += check(&fs::read(entry.unwrap().path()).unwrap());
    }
    (files, transfers)
}

#[test]
fn no_file_of_the_corpus_breaks_a_session() {
    replay("tcpcl_v4_session", v4::oracle::check_session);
}

#[test]
fn no_file_of_the_corpus_breaks_a_session_of_version_3() {
    replay("tcpcl_v3_session", v3::oracle::check_session);
}

#[test]
fn no_file_of_the_corpus_breaks_a_session_in_one_direction() {
    replay("stcp_session", stcp::oracle::check_session);
}

#[test]
fn no_file_of_the_corpus_breaks_a_conversation_over_udp() {
    replay("udpcl_conversation", udpcl::oracle::check_conversation);
}

#[test]
fn no_file_of_the_corpus_breaks_an_engine() {
    let (files, blocks) = counts("ltp_engine", ltp::oracle::check_engine);
    assert!(
        files >= 60 && blocks >= 25,
        "{files} files and {blocks} blocks: the corpus is not there"
    );
}

#[test]
fn no_file_of_the_corpus_breaks_a_reader_of_beacons() {
    let (files, beacons) = counts("beacon", discovery::oracle::check_beacon);
    assert!(
        files >= 20 && beacons >= 30,
        "{files} files and {beacons} beacons: the corpus is not there"
    );
}
