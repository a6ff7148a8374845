//! The corpus of the fuzz target, made of recordings and of hand-made segments, and changed at random.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::oracle::{SEED, check_engine, config};
use super::super::segment::*;
use super::super::{Config, Engine};
use super::wire::{datagrams, written};
use super::world::{ALL, Dice, at, flatten};
use crate::datagram::{Batch, DatagramLink};
use crate::stream::{LinkCommand, TransferId};

/// Datagrams as the oracle reads them.
fn packed(choices: [u8; 8], datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut octets = choices.to_vec();
    for datagram in datagrams {
        octets.extend(u16::try_from(datagram.len()).unwrap().to_be_bytes());
        octets.extend(datagram);
    }
    octets
}

/// The sessions that the engine under test opens for its four transfers.
fn sessions() -> Vec<SessionId> {
    let mut engine = Engine::new(
        Config {
            sessions: 4,
            rate: super::super::Rate {
                octets_per_s: 1 << 40,
                burst_octets: 1 << 40,
            },
            ..config(0)
        },
        SEED,
        at(0),
    );
    for transfer in (0..4).map(TransferId) {
        let length = transfer.0 * 700 + 1;
        engine.handle_command(at(0), LinkCommand::Transmit { transfer, length });
        let octets = dhow_bundle::storage::Piece::Octets(vec![0; length as usize].into());
        engine.handle_command(at(0), LinkCommand::Supply { transfer, octets });
    }
    let mut out = Batch::new();
    engine.poll_datagrams(at(0), ALL, &mut out);
    let mut all: Vec<_> = flatten(&out)
        .iter()
        .map(|datagram| super::referee::segment_of(datagram).session())
        .collect();
    all.dedup();
    all
}

fn report(id: SessionId, serial: u64, bounds: (u64, u64), claims: &[(u64, u64)]) -> Vec<u8> {
    let report = Report {
        serial,
        checkpoint: 0,
        upper: bounds.1,
        lower: bounds.0,
        claims: claims.to_vec(),
    };
    written(&Segment::Report(id, report))
}

fn data(number: u64, kind: DataKind, offset: u64, length: u64, serials: (u64, u64)) -> Vec<u8> {
    let head = DataHead {
        session: SessionId {
            originator: 2,
            number,
        },
        kind,
        service: 1,
        offset,
        length,
        serials: kind.is_checkpoint().then_some(Serials {
            checkpoint: serials.0,
            report: serials.1,
        }),
    };
    written(&Segment::Data(Data {
        head,
        octets: vec![7; length as usize].into(),
    }))
}

/// Files by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let quiet = [0, 4, 7, 6, 12, 7, 6, 20];
    for name in [
        "ion-bpv7-ltp-red",
        "ion-bpv7-ltp-red-loss",
        "ion-bpv7-ltp-green",
    ] {
        let all: Vec<_> = datagrams(name)
            .iter()
            .map(|octets| octets.to_vec())
            .collect();
        files.push((String::from(name), packed(quiet, &all)));
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        files.push((format!("{name}-reversed"), packed(quiet, &reversed)));
        let one = all.concat();
        files.push((format!("{name}-in-one"), packed(quiet, &[one])));
        for gap in 2..6 {
            let some = all.iter().enumerate().filter(|(at, _)| at % gap != 1);
            let some: Vec<_> = some.map(|(_, octets)| octets.clone()).collect();
            files.push((format!("{name}-without-{gap}"), packed(quiet, &some)));
        }
    }
    let ours = sessions();
    let whole: Vec<_> = (0..)
        .zip(&ours)
        .map(|(at, id)| report(*id, 5, (0, at * 700 + 1), &[(0, at * 700 + 1)]))
        .collect();
    files.push((String::from("reports-of-all"), packed(quiet, &whole)));
    let part: Vec<_> = (1..40)
        .map(|serial| report(ours[3], serial, (0, 300), &[(serial, serial + 1)]))
        .collect();
    files.push((String::from("reports-without-end"), packed(quiet, &part)));
    let beyond = report(ours[0], 5, (0, 9_000), &[(0, 9_000)]);
    files.push((String::from("report-beyond"), packed(quiet, &[beyond])));
    for by in [Party::Sender, Party::Receiver] {
        for code in 0..6 {
            let reason = Reason::of(code).unwrap();
            let originator = if by == Party::Sender { 2 } else { 3 };
            let all: Vec<_> = ours
                .iter()
                .map(|id| SessionId { originator, ..*id })
                .flat_map(|id| {
                    let cancel = written(&Segment::Cancel(id, by, reason));
                    [cancel, written(&Segment::CancelAck(id, by))]
                })
                .collect();
            files.push((format!("cancel-{by:?}-{code}"), packed(quiet, &all)));
        }
    }
    files.extend(made());
    let mut dice = Dice(1);
    for number in 0..24 {
        let mut octets = files[dice.below(files.len() as u64) as usize].1.clone();
        for choice in &mut octets[..8] {
            *choice = dice.below(256) as u8;
        }
        for _ in 0..dice.below(4) {
            let at = dice.below(octets.len() as u64) as usize;
            octets[at] = dice.below(256) as u8;
        }
        files.push((format!("changed-{number}"), octets));
    }
    files
}

/// Sessions that break rules.
fn made() -> Vec<(String, Vec<u8>)> {
    use DataKind::*;
    let quiet = [0, 4, 7, 6, 12, 7, 6, 20];
    let cases: [(&str, Vec<Vec<u8>>); 10] = [
        (
            "checkpoints",
            (1..60)
                .map(|serial| data(1, RedCheckpoint, serial * 7, 5, (serial, 0)))
                .collect(),
        ),
        (
            "serials",
            (1..60)
                .map(|serial| data(1, RedCheckpoint, 0, 5, (serial * 9, 0)))
                .collect(),
        ),
        (
            "sessions",
            (1..60)
                .map(|number| data(number, Red, 0, 5, (0, 0)))
                .collect(),
        ),
        (
            "whole-sessions",
            (1..60)
                .map(|number| data(number, BlockRedEnd, 0, 5, (number, 0)))
                .collect(),
        ),
        (
            "gaps",
            (1..60).map(|at| data(1, Red, at * 20, 5, (0, 0))).collect(),
        ),
        (
            "beyond-gaps",
            (1..20)
                .map(|at| data(1, Red, at * 900, 890, (0, 0)))
                .collect(),
        ),
        (
            "miscolored",
            vec![
                data(1, Green, 5, 5, (0, 0)),
                data(1, Red, 10, 5, (0, 0)),
                data(1, Red, 0, 5, (0, 0)),
            ],
        ),
        (
            "ends",
            vec![
                data(1, RedEnd, 5, 5, (1, 0)),
                data(1, Red, 8, 5, (0, 0)),
                data(1, BlockGreenEnd, 10, 5, (0, 0)),
                data(1, BlockGreenEnd, 10, 6, (0, 0)),
                data(1, Red, 0, 5, (0, 0)),
            ],
        ),
        (
            "empty",
            vec![
                data(1, BlockRedEnd, 0, 0, (1, 0)),
                data(2, Red, 0, 0, (0, 0)),
                data(2, RedCheckpoint, 0, 0, (1, 0)),
                data(2, BlockGreenEnd, 0, 0, (0, 0)),
            ],
        ),
        (
            "too-long",
            vec![
                data(1, Red, 19_999, 2, (0, 0)),
                data(2, Red, u64::MAX - 9, 9, (0, 0)),
            ],
        ),
    ];
    cases
        .into_iter()
        .map(|(name, all)| (String::from(name), packed(quiet, &all)))
        .collect()
}

/// `fuzz/corpus/ltp_engine` has what is made here; it is written with `UPDATE_SNAPSHOTS` set.
#[test]
fn the_corpus_is_what_recordings_and_hands_made() {
    extern crate std;
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ltp_engine");
    for (name, octets) in corpus() {
        let _ = check_engine(&octets);
        let path = folder.join(name);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &octets).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == octets, "{path:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Files of the corpus, with octets changed and datagrams of several mixed.
    #[test]
    fn no_datagrams_break_an_engine(seed in any::<u64>()) {
        extern crate std;
        std::thread_local!(static FILES: Vec<(String, Vec<u8>)> = corpus());
        let mut dice = Dice(seed);
        let octets = FILES.with(|files| {
            let mut octets = vec![];
            for _ in 0..1 + dice.below(3) {
                let (_, file) = &files[dice.below(files.len() as u64) as usize];
                octets.extend_from_slice(&file[if octets.is_empty() { 0 } else { 8 }..]);
            }
            octets
        });
        let mut octets = octets;
        for choice in &mut octets[..8] {
            *choice = dice.below(256) as u8;
        }
        for _ in 0..dice.below(12) {
            let at = dice.below(octets.len() as u64) as usize;
            octets[at] = dice.below(256) as u8;
        }
        let _ = check_engine(&octets);
    }
}
