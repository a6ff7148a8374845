//! Sessions as octets, and what is wrong with them.

use super::*;

const CONTACT: &[u8] = b"dtn!\x04\x00";

/// A `SESS_INIT` of keepalive 30 s, segments of 10 octets and transfers of 20.
const INIT: &[u8] = b"\x07\x00\x1e\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x14\x00\x07ipn:1.0\0\0\0\0";

fn segment(flags: u8, transfer: u64, octets: u64) -> Vec<u8> {
    let mut out = vec![0x01, flags];
    out.extend(transfer.to_be_bytes());
    if flags & message::START != 0 {
        out.extend([0; 4]);
    }
    out.extend(octets.to_be_bytes());
    out.extend(vec![0; usize::try_from(octets).unwrap()]);
    out
}

fn ack(flags: u8, transfer: u64, octets: u64) -> Vec<u8> {
    let mut out = vec![0x02, flags];
    out.extend(transfer.to_be_bytes());
    out.extend(octets.to_be_bytes());
    out
}

fn refusal(transfer: u64) -> Vec<u8> {
    let mut out = vec![0x03, 0];
    out.extend(transfer.to_be_bytes());
    out
}

/// A connection over which octets go at once, in pieces of so many.
struct Play {
    referee: Referee,
    piece: usize,
}

impl Play {
    fn says(&mut self, side: Side, octets: &[u8]) -> Result<(), Foul> {
        for piece in octets.chunks(self.piece) {
            self.referee.handle_written(side, piece)?;
            self.referee.handle_read(side.other(), piece);
        }
        Ok(())
    }
}

/// A session that stands.
fn session(piece: usize) -> Play {
    let mut play = Play {
        referee: Referee::default(),
        piece,
    };
    for octets in [CONTACT, INIT] {
        for side in [Side::Dialling, Side::Accepting] {
            play.says(side, octets).unwrap();
        }
    }
    play
}

#[test]
fn what_obeys_passes_in_any_pieces() {
    for piece in [1, 3, 7, 1000] {
        let mut play = session(piece);
        let good: [(Side, Vec<u8>); 9] = [
            (Side::Dialling, segment(2, 0, 10)),
            (Side::Dialling, segment(1, 0, 10)),
            (Side::Dialling, segment(3, 1, 0)),
            (Side::Accepting, ack(2, 0, 10)),
            (Side::Accepting, ack(1, 0, 20)),
            (Side::Accepting, vec![0x04]),
            (Side::Accepting, refusal(1)),
            (Side::Accepting, vec![0x05, 0, 1]),
            (Side::Dialling, vec![0x05, 1, 1]),
        ];
        for (side, octets) in good {
            assert_eq!(play.says(side, &octets), Ok(()), "{octets:02x?}");
        }
    }
}

/// Who says what, in order.
type Moves = Vec<(Side, Vec<u8>)>;

#[test]
fn each_rule_is_held() {
    let term = vec![0x05, 0, 1];
    let cases: [(&str, Moves); 14] = [
        ("4.6", vec![(Side::Dialling, segment(3, 0, 11))]),
        (
            "4.6",
            vec![(
                Side::Dialling,
                [segment(2, 0, 10), segment(0, 0, 10), segment(1, 0, 1)].concat(),
            )],
        ),
        ("4.6", vec![(Side::Dialling, INIT.to_vec())]),
        (
            "5.2.1",
            vec![(
                Side::Dialling,
                [segment(3, 0, 1), segment(3, 0, 1)].concat(),
            )],
        ),
        ("5.2.2", vec![(Side::Dialling, segment(1, 0, 1))]),
        (
            "5.2.2",
            vec![(
                Side::Dialling,
                [segment(2, 0, 1), segment(3, 1, 1)].concat(),
            )],
        ),
        ("5.2.3", vec![(Side::Accepting, ack(3, 0, 1))]),
        (
            "5.2.3",
            vec![
                (Side::Dialling, segment(3, 0, 5)),
                (Side::Accepting, ack(3, 0, 4)),
            ],
        ),
        (
            "5.2.3",
            vec![
                (Side::Dialling, segment(3, 0, 5)),
                (Side::Accepting, ack(1, 0, 5)),
            ],
        ),
        ("5.2.4", vec![(Side::Accepting, refusal(0))]),
        (
            "5.2.4",
            vec![
                (
                    Side::Dialling,
                    [segment(3, 0, 1), segment(3, 1, 1)].concat(),
                ),
                (Side::Accepting, refusal(1)),
            ],
        ),
        (
            "5.2.4",
            vec![
                (Side::Dialling, segment(2, 0, 1)),
                (Side::Accepting, refusal(0)),
                (Side::Dialling, segment(0, 0, 1)),
            ],
        ),
        (
            "6.1",
            vec![
                (Side::Dialling, term.clone()),
                (Side::Dialling, segment(3, 0, 1)),
            ],
        ),
        (
            "6.1",
            vec![(Side::Dialling, term.clone()), (Side::Accepting, term)],
        ),
    ];
    for (section, moves) in cases {
        let mut play = session(5);
        let (last, before) = moves.split_last().unwrap();
        for (side, octets) in before {
            assert_eq!(play.says(*side, octets), Ok(()), "{section}");
        }
        let foul = play.says(last.0, &last.1).expect_err(section).to_string();
        assert!(
            foul.contains(&format!("RFC 9174 {section})")),
            "{section}: {foul}"
        );
    }
}

#[test]
fn whoever_accepts_waits_for_the_contact_header() {
    let mut referee = Referee::default();
    assert!(referee.handle_written(Side::Accepting, CONTACT).is_err());
}
