//! Sessions as octets, and their faults.

use std::time::Duration;

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
    now: Instant,
}

impl Play {
    fn says(&mut self, side: Side, octets: &[u8]) -> Result<(), Foul> {
        for piece in octets.chunks(self.piece) {
            self.referee.handle_written(side, piece, self.now)?;
            self.referee.handle_read(side.other(), piece, self.now);
        }
        Ok(())
    }
}

/// A session that stands.
fn session(piece: usize) -> Play {
    let mut play = Play {
        referee: Referee::default(),
        piece,
        now: Instant::START,
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

/// Octets, each with the side that says them, in order.
type Moves = Vec<(Side, Vec<u8>)>;

#[test]
fn each_rule_is_held() {
    let term = vec![0x05, 0, 1];
    let mut flagged = segment(3, 0, 1);
    // An item of type 0x4000 without a value, and a flag that there is not.
    flagged.splice(10..14, [0, 0, 0, 5, 0x80, 0x40, 0, 0, 0]);
    let cases: [(&str, Moves); 17] = [
        ("4.8", vec![(Side::Dialling, flagged)]),
        ("5.2.1", vec![(Side::Dialling, segment(3, 1, 1))]),
        ("6.1", vec![(Side::Dialling, vec![0x05, 2, 1])]),
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
    assert!(
        referee
            .handle_written(Side::Accepting, CONTACT, Instant::START)
            .is_err()
    );
}

#[test]
fn a_side_that_says_nothing_for_longer_than_the_interval_is_accused() {
    let after = |seconds| Instant::START + Duration::from_secs(seconds);
    let mut play = session(1000);
    let check = |play: &Play, side, seconds| play.referee.check_time(side, after(seconds));
    assert_eq!(check(&play, Side::Dialling, 33), Ok(()));
    let foul = check(&play, Side::Dialling, 35).unwrap_err().to_string();
    assert_eq!(
        foul,
        "has said nothing for 35 s where it is to say something every 30 s (RFC 9174 5.1.1)"
    );
    // A keepalive in time, and a connection that took none.
    play.now = after(30);
    play.says(Side::Dialling, &[0x04]).unwrap();
    play.referee
        .handle_blocked(Side::Accepting, Blocked::Writing, after(40));
    for side in [Side::Dialling, Side::Accepting] {
        assert_eq!(check(&play, side, 60), Ok(()));
    }
    // Within a segment nothing else can be said.
    let segment = segment(3, 0, 9);
    let (head, rest) = segment.split_at(segment.len() - 4);
    play.says(Side::Accepting, head).unwrap();
    assert_eq!(check(&play, Side::Accepting, 900), Ok(()));
    play.says(Side::Accepting, rest).unwrap();
    assert!(check(&play, Side::Accepting, 900).is_err());
    // A session that ends has no more to say.
    play.says(Side::Dialling, &[0x05, 0, 1]).unwrap();
    assert_eq!(check(&play, Side::Dialling, 900), Ok(()));
}

#[test]
fn a_side_that_goes_on_though_nothing_is_heard_is_accused() {
    let after = |seconds| Instant::START + Duration::from_secs(seconds);
    let mut play = session(1000);
    let silent = |play: &mut Play, seconds| {
        let writes = play
            .referee
            .handle_written(Side::Dialling, &[0x04], after(seconds));
        writes.and_then(|()| play.referee.check_time(Side::Dialling, after(seconds)))
    };
    for seconds in [30, 60] {
        assert_eq!(silent(&mut play, seconds), Ok(()));
    }
    play.referee
        .handle_blocked(Side::Dialling, Blocked::Reading, after(10));
    assert_eq!(silent(&mut play, 73), Ok(()));
    let foul = silent(&mut play, 75).unwrap_err().to_string();
    assert!(foul.contains("has heard nothing for 65 s"), "{foul}");
}

#[test]
fn where_one_side_wants_no_keepalives_none_are_missed() {
    let mut referee = Referee::default();
    let mut none = INIT.to_vec();
    none[2] = 0;
    for (side, octets) in [
        (Side::Dialling, CONTACT),
        (Side::Accepting, CONTACT),
        (Side::Dialling, INIT),
        (Side::Accepting, &none),
    ] {
        referee
            .handle_written(side, octets, Instant::START)
            .unwrap();
        referee.handle_read(side.other(), octets, Instant::START);
    }
    let day = Instant::START + Duration::from_secs(86_400);
    assert_eq!(referee.check_time(Side::Dialling, day), Ok(()));
}

/// A contact header of version 3 that offers all but fragments, with keepalive 30 s (RFC 7242 4.1).
const GREETING: &[u8] = b"dtn!\x03\x0d\x00\x1e\x07ipn:1.0";

/// A session of version 3 that stands.
fn older_session(piece: usize) -> Play {
    let mut play = Play {
        referee: Referee::default(),
        piece,
        now: Instant::START,
    };
    for side in [Side::Dialling, Side::Accepting] {
        play.says(side, GREETING).unwrap();
    }
    play
}

#[test]
fn what_obeys_version_3_passes_in_any_pieces() {
    for piece in [1, 3, 1000] {
        let mut play = older_session(piece);
        // Two segments of 3 octets and one of 2, each in its own bundle or not, with and without LENGTH.
        let said = b"\x60\x06\x12\x03one\x11\x03two\x13\x02xy\x40\x12\x03abc\x10\x01d";
        play.says(Side::Dialling, said).unwrap();
        play.says(Side::Accepting, b"\x20\x03\x20\x06\x20\x02\x32\x32")
            .unwrap();
        // Another bundle after one that was refused and left off.
        play.says(Side::Dialling, b"\x13\x01z\x50").unwrap();
        play.says(Side::Accepting, b"\x20\x01\x52\x00").unwrap();
    }
}

#[test]
fn what_breaks_version_3_is_told_with_its_section() {
    for (accepted, answered, section) in [
        (&b"\x10\x01a"[..], &b""[..], "5.2"),
        (b"\x12\x01a\x12\x01b", b"", "5.2"),
        (b"\x60\x01\x40", b"", "5.5"),
        (b"\x60\x03\x13\x04four", b"", "5.2.5.1"),
        (b"\x50\x13\x01a", b"", "RFC 7242 3"),
        (b"\x50\x50", b"", "6.1"),
        (b"\x70", b"", "table 2"),
        (b"\x13\x02ab", b"\x20\x01", "5.2.3"),
        (b"\x13\x02ab", b"\x20\x02\x20\x02", "RFC 7242 5.4"),
        (b"\x13\x02ab", b"\x30\x30", "RFC 7242 5.4"),
        (b"\x12\x02ab\x11\x01c", b"\x30\x20\x03", "5.2.3"),
    ] {
        let mut play = older_session(1);
        let said = play.says(Side::Dialling, accepted);
        let foul = said.and_then(|()| play.says(Side::Accepting, answered));
        let told = foul.unwrap_err().to_string();
        assert!(told.contains(section), "{told}");
    }
}
