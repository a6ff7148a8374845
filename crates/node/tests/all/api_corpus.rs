//! The corpus of the fuzz target `api_session`, replayed.

use std::fs;
use std::path::Path;

use dhow_node::api::oracle::check_session;
use proptest::prelude::*;

#[test]
fn every_script_of_the_corpus_leaves_the_session_consistent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/api_session");
    let mut replayed = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check_session(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(
        replayed >= 25,
        "{replayed} scripts: the corpus is not there"
    );
}

/// One thing that a client may say, right or wrong.
fn utterance() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // A bundle to ipn:4.42 with its payload, and one whose payload is cut short by what follows.
        (0..200_u8).prop_map(|length| adu(length, length)),
        (1..200_u8, 0..200_u8).prop_map(|(announced, length)| adu(announced, length)),
        // A keepalive; an acknowledgment, confirmation or refusal, with and without a delivery's name.
        Just(vec![2, 0x32, 0]),
        (0..14_u8).prop_map(|status| vec![2, 8, status]),
        (0..14_u8, 0..10_u8)
            .prop_map(|(status, delivery)| vec![5, 8, status, 0xe0, 0x3e, delivery]),
        prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn adu(announced: u8, length: u8) -> Vec<u8> {
    let mut octets = b"\x0f\x1a\x0d\x12\x08ipn:4.42\x28".to_vec();
    octets.extend([announced | 0x80, announced >> 7]);
    octets.extend(std::iter::repeat_n(b'p', length.into()));
    octets
}

proptest! {
    #[test]
    fn any_conversation_leaves_the_session_consistent(
        begin in any::<u8>(),
        cut in any::<u8>(),
        said in prop::collection::vec(utterance(), 0..40),
    ) {
        check_session(&[vec![begin, cut], said.concat()].concat());
    }
}
