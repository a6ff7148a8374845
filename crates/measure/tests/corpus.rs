//! The corpus of the fuzz target `omsp`, replayed, with small changes to all of it, and the recorded sessions; and sessions that are put together
//! of pieces of them by chance, from a seed.
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

/// Sessions that are made by chance.
const MADE: u64 = 400;

/// Octets of one, about, at most.
const MADE_OCTETS_MAX: usize = 6000;

/// Octets that have a meaning at some place of a session.
const WORDS: [&[u8]; 12] = [
    b"\xAA\xAA\x01\x00",
    b"\xAA\xAA\x02\x00\x00\x00\xFF",
    b"\t",
    b"\n",
    b"\n\n",
    b"\0",
    b"\\",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"nan",
    b"0.1\t0\t1\t.\tschema\t2 a_late z:[double]\n",
    b"\xF0\x9F",
];

/// Numbers by chance, always the same from one seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }

    /// A piece of some octets, of a length that is more often small.
    fn piece<'a>(&mut self, octets: &'a [u8]) -> &'a [u8] {
        let length = [4, 40, 400][self.below(3)];
        let start = self.below(octets.len());
        &octets[start..octets.len().min(start + self.below(length))]
    }

    fn change(&mut self, session: &mut Vec<u8>, all: &[Vec<u8>]) {
        let at = self.below(session.len());
        let piece = match self.below(6) {
            0 => {
                session.truncate(at);
                return;
            }
            1 => {
                let bit = self.below(8);
                session
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|it| *it ^= 1 << bit);
                return;
            }
            2 => {
                let end = session.len().min(at + self.below(40));
                session.drain(at..end);
                return;
            }
            3 => {
                let other = self.below(all.len());
                self.piece(&all[other]).to_vec()
            }
            4 => self.piece(&session.clone()).to_vec(),
            _ => WORDS[self.below(WORDS.len())].to_vec(),
        };
        session.splice(at..at, piece);
    }
}

#[test]
fn sessions_made_by_chance_are_read_alike_in_pieces_of_any_size() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let files = std::fs::read_dir(recorded).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let all: Vec<Vec<u8>> = files.iter().map(|it| std::fs::read(it).unwrap()).collect();
    for seed in 0..MADE {
        let mut chance = Chance(seed);
        let mut session = all[chance.below(all.len())].clone();
        session.truncate(MADE_OCTETS_MAX);
        for _ in 0..=chance.below(8) {
            chance.change(&mut session, &all);
        }
        let outcome = std::panic::catch_unwind(|| check_session(&session));
        assert!(outcome.is_ok(), "seed {seed}: {}", session.escape_ascii());
    }
}
