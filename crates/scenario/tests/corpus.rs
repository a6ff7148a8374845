//! The corpus of the fuzz target `scenario`, replayed, and small changes to all of it.
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use std::fs;
use std::path::Path;

use dhow_scenario::oracle::check_scenario;

/// The octets that are put in the place of others: ends of words, larger numbers, and signs.
const CHANGES: &[u8] = b"9-\" .";

/// Texts by the names of their files.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scenario");
    let mut texts = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        texts.push((name, fs::read(file.path()).unwrap()));
    }
    assert!(
        texts.len() >= 20,
        "{}: the corpus is not there",
        texts.len()
    );
    texts
}

#[test]
fn every_text_of_the_corpus_is_what_its_name_says() {
    for (name, text) in corpus() {
        assert_eq!(check_scenario(&text), !name.starts_with("no-"), "{name}");
    }
}

#[test]
fn small_changes_are_read_or_refused_too() {
    let (mut read, mut refused) = (0, 0);
    for (_, text) in corpus() {
        for (place, change) in (0..text.len()).step_by(2).zip(CHANGES.iter().cycle()) {
            let mut changed = text.clone();
            changed[place] = *change;
            let is_one = check_scenario(&changed);
            read += u32::from(is_one);
            refused += u32::from(!is_one);
        }
        for end in (0..text.len()).step_by(11) {
            refused += u32::from(!check_scenario(&text[..end]));
        }
    }
    assert!(
        read >= 50 && refused >= 500,
        "{read} read, {refused} refused"
    );
}
