use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, Now};
use proptest::prelude::*;

use super::frame::FrameReader;
use super::wire::{Said, WireError};
use super::{Config, Session};
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession as _, TerminateReason,
    TransferId,
};

fn session(mtu: u64) -> Session {
    let config = Config {
        transfer_mru: 1_000_000,
        answer_timeout: Duration::from_secs(10),
    };
    let peer = "ipn:2.0".parse().unwrap();
    let mut session = Session::new(
        (peer, mtu),
        FrameReader::default(),
        b"",
        config,
        Now::default(),
    );
    let Some(LinkEvent::Up(parameters)) = session.poll_event() else {
        panic!("it is not up");
    };
    assert_eq!(
        parameters.transfer_mru,
        if mtu == 0 { u64::MAX } else { mtu }
    );
    session
}

fn at(seconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_secs(seconds),
        ..Now::default()
    }
}

fn say(session: &mut Session, said: &Said) {
    let mut octets = Vec::new();
    said.put(&mut octets);
    session.handle_octets(Now::default(), octets.into());
}

fn written(session: &mut Session, limit: usize) -> Vec<u8> {
    let mut out = Gather::new();
    session.poll_octets(Now::default(), limit, &mut out);
    let mut octets = Vec::new();
    for piece in out.pieces() {
        let Piece::Octets(piece) = piece else {
            panic!("nothing here is stored");
        };
        octets.extend_from_slice(piece);
    }
    octets
}

fn transmit(session: &mut Session, number: u64, octets: &'static [u8]) {
    let transfer = TransferId(number);
    let length = u64::try_from(octets.len()).unwrap();
    session.handle_command(Now::default(), LinkCommand::Transmit { transfer, length });
    let octets = Piece::Octets(Bytes::from_static(octets));
    session.handle_command(Now::default(), LinkCommand::Supply { transfer, octets });
}

/// A bundle that the program keeps leaves the session's time for others, and ends when more is said of it.
#[test]
fn a_bundle_that_is_kept_is_not_waited_for_and_ends_when_the_program_says_more() {
    let mut session = session(0);
    for number in 0..4 {
        transmit(&mut session, number, b"hallo");
    }
    written(&mut session, 1_000);
    for transfer in [0, 1, 1, 2, 3] {
        say(&mut session, &Said::Kept { transfer });
    }
    for number in 0..4 {
        assert!(matches!(
            session.poll_event(),
            Some(LinkEvent::Kept { transfer }) if transfer == TransferId(number)
        ));
    }
    assert!(session.poll_event().is_none());
    assert_eq!(session.poll_timeout(), None, "nobody is waited for");
    say(&mut session, &Said::Sent { transfer: 1 });
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Transmitted {
            transfer: TransferId(1)
        })
    ));
    for (transfer, reason) in [(0, 0), (3, 1)] {
        say(&mut session, &Said::Failed { transfer, reason });
    }
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Failed {
            transfer: TransferId(0),
            refused: Some(RefuseReason::Unknown),
            ..
        })
    ));
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Transmitted {
            transfer: TransferId(3)
        })
    ));
    // The last one fails with its session.
    session.handle_command(Now::default(), LinkCommand::Disconnected);
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Failed {
            transfer: TransferId(2),
            refused: None,
            ..
        })
    ));
    assert!(matches!(session.poll_event(), Some(LinkEvent::Down(_))));
}

/// The octets of docs/external.md.
#[test]
fn a_bundle_leaves_as_the_document_says_and_is_over_when_the_program_says_so() {
    let mut session = session(0);
    transmit(&mut session, 7, b"hallo");
    assert_eq!(
        written(&mut session, 1_000),
        b"\0\0\0\x05\x83\x18\x20\x07\x05\0\0\0\x09\x82\x18\x21\x45hallo"
    );
    assert!(session.poll_event().is_none());
    say(&mut session, &Said::Sent { transfer: 7 });
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Transmitted {
            transfer: TransferId(7)
        })
    ));
    // Said again, or of a bundle that never was, it means nothing.
    say(&mut session, &Said::Sent { transfer: 7 });
    say(
        &mut session,
        &Said::Failed {
            transfer: 99,
            reason: 0,
        },
    );
    assert!(session.poll_event().is_none());
    transmit(&mut session, 8, b"x");
    written(&mut session, 1_000);
    say(
        &mut session,
        &Said::Failed {
            transfer: 8,
            reason: 4,
        },
    );
    assert!(matches!(
        session.poll_event(),
        Some(LinkEvent::Failed {
            refused: Some(RefuseReason::NotAcceptable),
            ..
        })
    ));
}

#[test]
fn a_bundle_that_comes_is_acknowledged_once_it_is_durable() {
    let mut session = session(0);
    say(
        &mut session,
        &Said::Begin {
            transfer: 3,
            octets: 5,
        },
    );
    say(&mut session, &Said::Data(Bytes::from_static(b"hal")));
    say(&mut session, &Said::Data(Bytes::from_static(b"lo")));
    let segments: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
    assert!(matches!(
        &segments[..],
        [
            LinkEvent::Segment {
                start: true,
                end: false,
                length: Some(5),
                ..
            },
            LinkEvent::Segment {
                start: false,
                end: true,
                length: None,
                ..
            },
        ]
    ));
    assert!(written(&mut session, 1_000).is_empty());
    let transfer = TransferId(3);
    session.handle_command(
        Now::default(),
        LinkCommand::Acknowledge {
            transfer,
            octets: 3,
        },
    );
    assert!(written(&mut session, 1_000).is_empty());
    session.handle_command(
        Now::default(),
        LinkCommand::Acknowledge {
            transfer,
            octets: 5,
        },
    );
    assert_eq!(written(&mut session, 1_000), b"\0\0\0\x04\x82\x18\x22\x03");
    // One that is too large is refused, and its octets are dropped.
    say(
        &mut session,
        &Said::Begin {
            transfer: 4,
            octets: 1_000_001,
        },
    );
    say(&mut session, &Said::Data(Bytes::from_static(b"x")));
    say(&mut session, &Said::Abort);
    assert!(session.poll_event().is_none());
    assert_eq!(
        written(&mut session, 1_000),
        b"\0\0\0\x05\x83\x18\x23\x04\x02"
    );
}

#[test]
fn a_program_that_breaks_a_rule_is_cut_off_and_its_bundles_fail() {
    let data = |octets: &'static [u8]| Said::Data(Bytes::from_static(octets));
    let begin = |octets| Said::Begin {
        transfer: 1,
        octets,
    };
    for breach in [
        vec![data(b"x")],
        vec![begin(0)],
        vec![begin(2), begin(2)],
        vec![begin(2), data(b"xxx")],
        vec![begin(2), data(b"")],
        vec![begin(1), data(b"x"), begin(1)],
        vec![Said::Abort],
        vec![Said::Sent { transfer: 0 }],
        vec![Said::Failed {
            transfer: 0,
            reason: 0,
        }],
    ] {
        let mut session = session(0);
        transmit(&mut session, 0, b"hallo");
        for said in &breach {
            say(&mut session, said);
        }
        let bye = written(&mut session, 1_000);
        assert_eq!(bye.get(4..6), Some(&b"\x82\x07"[..]), "{breach:?} {bye:?}");
        let events: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
        assert!(
            matches!(
                events.last(),
                Some(LinkEvent::Down(DownReason::PeerFault(_)))
            ),
            "{breach:?} {events:?}"
        );
        let failed = |it: &LinkEvent| matches!(it, LinkEvent::Failed { refused: None, .. });
        assert!(events.iter().any(failed), "{breach:?}");
    }
}

#[test]
fn a_program_in_which_nothing_moves_is_given_up() {
    let mut session = session(0);
    assert_eq!(session.poll_timeout(), None);
    transmit(&mut session, 0, b"hallo");
    written(&mut session, 1_000);
    assert_eq!(session.poll_timeout(), Some(at(10).monotonic));
    session.handle_timeout(at(9));
    assert!(session.poll_event().is_none());
    session.handle_timeout(at(10));
    let bye = written(&mut session, 1_000);
    assert_eq!(bye, b"\0\0\0\x1e\x82\x07\x78\x1anothing moves for too long");
    let events: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
    assert!(matches!(
        &events[..],
        [
            LinkEvent::Ending,
            LinkEvent::Failed { refused: None, .. },
            LinkEvent::Down(DownReason::TransferTimeout)
        ]
    ));
}

/// docs/external.md 7: in each of these cases the program is told, and nothing that it says then is heard.
#[test]
fn a_program_that_says_what_is_no_message_gets_a_farewell() {
    let too_long = 131_073_u32.to_be_bytes();
    for (said, reason) in [
        (&b"\0\0\0\0"[..], "a frame is empty"),
        (&too_long, "a frame of 131073 octets is longer than 131072"),
        (b"\0\0\0\x02\x81\0", "a second greeting"),
        (b"\0\0\0\x03\x81\x18\x63", "no message has the code 99"),
    ] {
        let mut session = session(0);
        session.handle_octets(Now::default(), Bytes::copy_from_slice(said));
        assert!(matches!(session.poll_event(), Some(LinkEvent::Ending)));
        assert!(session.poll_event().is_none(), "the farewell has not left");
        say(&mut session, &Said::Abort);
        let bye = written(&mut session, 1_000);
        assert!(bye.ends_with(reason.as_bytes()), "{reason}: {bye:?}");
        let down = session.poll_event();
        let fault = DownReason::PeerFault(reason.into());
        assert!(
            matches!(&down, Some(LinkEvent::Down(it)) if *it == fault),
            "{down:?}"
        );
        assert!(!session.may_have_octets());
    }
}

#[test]
fn a_farewell_that_nobody_reads_or_that_has_no_room_ends_the_session() {
    let mut session = session(0);
    say(&mut session, &Said::Abort);
    assert_eq!(session.poll_timeout(), Some(at(10).monotonic));
    session.handle_timeout(at(10));
    let events: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
    assert!(
        matches!(&events[..], [LinkEvent::Ending, LinkEvent::Down(_)]),
        "{events:?}"
    );
    // In the middle of a message of data nothing else can be said.
    let mut session = self::session(0);
    let transfer = TransferId(0);
    let length = 10;
    session.handle_command(Now::default(), LinkCommand::Transmit { transfer, length });
    let octets = Piece::Octets(Bytes::from_static(b"0123456789"));
    session.handle_command(Now::default(), LinkCommand::Supply { transfer, octets });
    let begun = written(&mut session, 12);
    assert_eq!(
        begun,
        b"\0\0\0\x05\x83\x18\x20\0\x0a\0\0\0\x0e\x82\x18\x21\x4a"
    );
    say(&mut session, &Said::Abort);
    let events: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
    assert!(
        matches!(&events[..], [LinkEvent::Failed { .. }, LinkEvent::Down(_)]),
        "{events:?}"
    );
    assert!(written(&mut session, 1_000).is_empty());
}

#[test]
fn a_bundle_that_is_given_up_ends_early_and_the_next_one_follows() {
    let mut session = session(0);
    let transfer = TransferId(0);
    session.handle_command(
        Now::default(),
        LinkCommand::Transmit {
            transfer,
            length: 10,
        },
    );
    let octets = Piece::Octets(Bytes::from_static(b"hal"));
    session.handle_command(Now::default(), LinkCommand::Supply { transfer, octets });
    written(&mut session, 1_000);
    session.handle_command(Now::default(), LinkCommand::Cancel { transfer });
    transmit(&mut session, 1, b"x");
    assert_eq!(
        written(&mut session, 1_000),
        b"\0\0\0\x04\x82\x18\x24\0\0\0\0\x05\x83\x18\x20\x01\x01\0\0\0\x05\x82\x18\x21\x41x"
    );
    let reason = TerminateReason::Unknown;
    session.handle_command(Now::default(), LinkCommand::Terminate { reason });
    say(&mut session, &Said::Sent { transfer: 1 });
    let events: Vec<_> = core::iter::from_fn(|| session.poll_event()).collect();
    assert!(
        matches!(
            &events[..],
            [
                LinkEvent::Failed { .. },
                LinkEvent::Ending,
                LinkEvent::Transmitted { .. },
                LinkEvent::Down(DownReason::Terminated(_)),
            ]
        ),
        "{events:?}"
    );
}

fn said() -> impl Strategy<Value = Said> {
    let octets = proptest::collection::vec(any::<u8>(), 0..9);
    prop_oneof![
        3 => (0_u64..4, 0_u64..9).prop_map(|(transfer, octets)| Said::Begin { transfer, octets }),
        3 => octets.prop_map(|octets| Said::Data(octets.into())),
        1 => (0_u64..5).prop_map(|transfer| Said::Sent { transfer }),
        1 => (0_u64..5, 0_u8..8).prop_map(|(transfer, reason)| Said::Failed { transfer, reason }),
        1 => Just(Said::Abort),
        1 => (0_u64..5).prop_map(|transfer| Said::Kept { transfer }),
    ]
}

proptest! {
    #[test]
    fn any_messages_leave_a_session_consistent(
        choice in any::<u8>(),
        said in proptest::collection::vec(said(), 0..30),
    ) {
        let mut octets = vec![choice];
        for said in &said {
            said.put(&mut octets);
        }
        let _ = super::oracle::check_session(&octets);
    }

    #[test]
    fn bundles_arrive_in_any_pieces(limit in 1_usize..60, sizes in proptest::collection::vec(1_usize..200, 1..6)) {
        let mut session = session(0);
        for (number, size) in (0..).zip(&sizes) {
            let octets: &'static [u8] = &[b'x'; 200];
            transmit(&mut session, number, &octets[..*size]);
        }
        let mut reader = FrameReader::default();
        let mut arrived = Vec::new();
        for _ in 0..10_000 {
            reader.push(written(&mut session, limit).into());
            while let Some(frame) = reader.take().unwrap() {
                match frame[2] {
                    0x20 => arrived.push(0),
                    0x21 => *arrived.last_mut().unwrap() += frame.len() - if frame[3] == 0x58 { 5 } else { 4 },
                    other => panic!("{other}"),
                }
            }
        }
        prop_assert_eq!(arrived, sizes);
    }
}

#[test]
fn what_no_program_may_say_is_refused() {
    for (octets, error) in [
        (&b"\x81\x18\x63"[..], WireError::Code(99)),
        (b"\x9f\x18\x34\xff", WireError::Indefinite),
        (b"\x83\x18\x33\x01\x19\x01\x00", WireError::Reason(256)),
        (b"\x81\x18\x34\x00", WireError::Trailing),
    ] {
        assert_eq!(Said::read(&Bytes::from_static(octets)), Err(error));
    }
    let later = Bytes::from_static(b"\x82\x18\x34\xa1\x01\x02");
    assert_eq!(Said::read(&later), Ok(Said::Abort));
}

#[test]
fn every_program_of_the_corpus_leaves_a_session_consistent() {
    extern crate std;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../fuzz/corpus/external_session");
    let mut whole = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let octets = std::fs::read(entry.unwrap().path()).unwrap();
        whole += super::oracle::check_session(&octets);
    }
    assert!(whole >= 3, "{whole} bundles: the corpus is not there");
}
