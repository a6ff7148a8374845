//! Recorded sessions of other programs, played to a session in the other role.

use dhow_bundle::Reading;

use super::*;
use crate::stream::{DownReason, TerminateReason};

macro_rules! capture {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tests/data/captures/", $name, ".bin"))
    };
}

/// A transfer as its sender numbered it.
type Transfer = (u64, Vec<u8>);

/// The octets that one side of a recording sent.
struct Recorded {
    messages: Vec<Message>,
    transfers: Vec<Transfer>,
}

fn read(octets: &[u8]) -> Recorded {
    let mut chunk = Bytes::copy_from_slice(octets);
    let mut decoder = Decoder::default();
    decoder
        .contact(&mut chunk)
        .unwrap()
        .expect("a contact header");
    let mut recorded = Recorded {
        messages: Vec::new(),
        transfers: Vec::new(),
    };
    while let Some(item) = decoder.next(&mut chunk).unwrap() {
        match item {
            Item::Message(Message::XferSegment(segment)) => {
                if segment.flags & 2 != 0 {
                    recorded.transfers.push((segment.transfer, Vec::new()));
                }
                recorded.messages.push(Message::XferSegment(segment));
            }
            Item::Message(message) => recorded.messages.push(message),
            Item::Data { octets, .. } => {
                recorded
                    .transfers
                    .last_mut()
                    .unwrap()
                    .1
                    .extend_from_slice(&octets);
            }
        }
    }
    recorded
}

fn acknowledgments(messages: &[Message]) -> Vec<Message> {
    messages
        .iter()
        .filter(|message| matches!(message, Message::XferAck { .. }))
        .cloned()
        .collect()
}

/// The outcome of a recording that was played to a session.
struct Played {
    events: Vec<LinkEvent>,
    sent: Vec<u8>,
    session: Session,
}

/// Play what the peer sent, in chunks of `chunk` octets, to a session in the place of the side that
/// sent `ours`: it sends the same transfers and acknowledges all that arrives at once.
fn play(role: Role, config: Config, peer: &[u8], ours: &[u8], chunk: usize) -> Played {
    let now = at(5_000);
    let mut played = Played {
        events: Vec::new(),
        sent: Vec::new(),
        session: Session::new(role, config, now),
    };
    for (number, octets) in read(ours).transfers {
        let transfer = TransferId(number);
        let length = octets.len() as u64;
        played
            .session
            .handle_command(now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(Bytes::from(octets));
        played
            .session
            .handle_command(now, LinkCommand::Supply { transfer, octets });
    }
    // Contact header and SESS_INIT come first, so that we send before acknowledgments arrive.
    let (head, rest) = peer.split_at(6 + 25 + usize::from(peer[6 + 20]));
    let mut received = 0;
    for octets in [head].into_iter().chain(rest.chunks(chunk)) {
        played.sent.extend(drain(&mut played.session, now));
        played
            .session
            .handle_octets(now, Bytes::copy_from_slice(octets));
        played.sent.extend(drain(&mut played.session, now));
        for event in events(&mut played.session) {
            if let LinkEvent::Segment {
                transfer,
                octets,
                start,
                ..
            } = &event
            {
                received = if *start { 0 } else { received } + octets.len() as u64;
                let command = LinkCommand::Acknowledge {
                    transfer: *transfer,
                    octets: received,
                };
                played.session.handle_command(now, command);
            }
            played.events.push(event);
        }
    }
    played.sent.extend(drain(&mut played.session, now));
    played.events.extend(events(&mut played.session));
    played
}

fn arrived(events: &[LinkEvent]) -> Vec<Transfer> {
    let mut transfers: Vec<Transfer> = Vec::new();
    for event in events {
        if let LinkEvent::Segment {
            transfer,
            octets,
            start,
            ..
        } = event
        {
            if *start {
                transfers.push((transfer.0, Vec::new()));
            }
            transfers.last_mut().unwrap().1.extend_from_slice(octets);
        }
    }
    transfers
}

fn transmitted(events: &[LinkEvent]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            LinkEvent::Transmitted { transfer } => Some(transfer.0),
            _ => None,
        })
        .collect()
}

/// The bundles that another program found in a recording.
fn bundles(capture: &str) -> Vec<Vec<u8>> {
    include_str!("../../../../tests/data/captures/bundles.tsv")
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(name, _)| name.split('#').next() == Some(capture))
        .map(|(_, hex)| {
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        })
        .collect()
}

/// Play both sides of a recording; what we acknowledge must be what the recorded side acknowledged,
/// where it was right.
fn play_both(
    capture: &str,
    ids: [&str; 2],
    c2s: &[u8],
    s2c: &[u8],
    reading: Reading,
    acks_as_recorded: bool,
) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (role, id, peer, ours) in [
        (Role::Passive, ids[1], c2s, s2c),
        (Role::Active, ids[0], s2c, c2s),
    ] {
        for chunk in [1, 7, 4_096, 1 << 20] {
            let config = Config {
                reading,
                ..config(id)
            };
            let played = play(role, config, peer, ours, chunk);
            let expected = read(peer);
            assert!(
                matches!(played.events[0], LinkEvent::Up(_)),
                "{capture}: {:?}",
                played.events[0]
            );
            assert_eq!(arrived(&played.events), expected.transfers, "{capture}");
            let own = read(ours);
            let numbers: Vec<u64> = own.transfers.iter().map(|(number, _)| *number).collect();
            assert_eq!(
                transmitted(&played.events),
                numbers,
                "{capture} in chunks of {chunk}"
            );
            let sent = messages(&played.sent[6..]);
            assert!(
                !sent
                    .iter()
                    .any(|message| matches!(message, Message::MsgReject { .. })),
                "{capture}"
            );
            if acks_as_recorded {
                assert_eq!(
                    acknowledgments(&sent),
                    acknowledgments(&own.messages),
                    "{capture}"
                );
            }
            if chunk == 7 {
                found.extend(
                    arrived(&played.events)
                        .into_iter()
                        .map(|(_, octets)| octets),
                );
            }
        }
    }
    found
}

fn same_bundles(capture: &str, mut found: Vec<Vec<u8>>) {
    let mut expected = bundles(capture);
    expected.sort();
    found.sort();
    assert!(
        found == expected,
        "{capture}: {} bundles found, {} expected",
        found.len(),
        expected.len()
    );
}

#[test]
fn hardys_session_passes_with_the_same_acknowledgments() {
    let (c2s, s2c) = (capture!("hardy-c2s"), capture!("hardy-s2c"));
    let found = play_both(
        "hardy",
        ["ipn:1.0", "ipn:2.0"],
        c2s,
        s2c,
        Reading::Strict,
        true,
    );
    same_bundles("hardy-bpv7-tcpclv4", found);
}

#[test]
fn hdtns_sessions_pass_with_the_same_acknowledgments() {
    let mut found = Vec::new();
    for (ids, c2s, s2c) in [
        (
            ["ipn:10.0", "ipn:2.0"],
            &capture!("hdtn-0-c2s")[..],
            &capture!("hdtn-0-s2c")[..],
        ),
        (
            ["ipn:1.0", "ipn:10.0"],
            capture!("hdtn-1-c2s"),
            capture!("hdtn-1-s2c"),
        ),
        (
            ["ipn:1.0", "ipn:10.0"],
            capture!("hdtn-2-c2s"),
            capture!("hdtn-2-s2c"),
        ),
        (
            ["ipn:1.0", "ipn:10.0"],
            capture!("hdtn-3-c2s"),
            capture!("hdtn-3-s2c"),
        ),
    ] {
        found.extend(play_both("hdtn", ids, c2s, s2c, Reading::Strict, true));
    }
    same_bundles("hdtn-bpv7-tcpclv4", found);
}

/// RFC 9174 6.1: HDTN's side ends each session in order.
#[test]
fn hdtns_termination_is_answered_and_ends_the_session() {
    let played = play(
        Role::Passive,
        config("ipn:10.0"),
        capture!("hdtn-2-c2s"),
        capture!("hdtn-2-s2c"),
        100,
    );
    let [
        ..,
        LinkEvent::Ending,
        LinkEvent::Down(DownReason::Terminated(reason)),
    ] = &played.events[..]
    else {
        panic!("{:?}", played.events.last());
    };
    assert_eq!(
        *reason,
        TerminateReason::from_code(*capture!("hdtn-2-c2s").last().unwrap())
    );
    assert!(messages(&played.sent[6..]).contains(&Message::SessTerm {
        flags: 1,
        reason: 0
    }));
    assert_eq!(played.session.state(), State::Closed);
}

#[test]
fn dtn7rs_session_passes_when_read_leniently() {
    let (c2s, s2c) = (capture!("dtn7rs-c2s"), capture!("dtn7rs-s2c"));
    let ids = ["dtn://n1/", "dtn://n2/"];
    let found = play_both("dtn7rs", ids, c2s, s2c, Reading::Lenient, false);
    same_bundles("dtn7rs-bpv7-tcpclv4", found);
}

/// RFC 9174 5.2.3: acknowledgment flags repeat the segment's; dtn7-rs sends 0.
#[test]
fn acknowledgment_flags_of_0_end_the_session_unless_read_leniently() {
    let c2s = capture!("hardy-to-dtn7rs-ackflags-c2s");
    let s2c = capture!("hardy-to-dtn7rs-ackflags-s2c");
    let strict = play(Role::Active, config("ipn:1.0"), s2c, c2s, 9);
    let Some(LinkEvent::Down(DownReason::PeerFault(fault))) = strict.events.last() else {
        panic!("{:?}", strict.events);
    };
    assert!(fault.contains("5.2.3"), "{fault}");
    // As Hardy did: MSG_REJECT "Message Unexpected" of XFER_ACK, then SESS_TERM.
    let sent = messages(&strict.sent[6..]);
    let [
        ..,
        Message::MsgReject {
            reason: 3,
            rejected: 2,
        },
        Message::SessTerm { flags: 0, .. },
    ] = sent[..]
    else {
        panic!("{sent:?}");
    };
    let lenient = Config {
        reading: Reading::Lenient,
        ..config("ipn:1.0")
    };
    let played = play(Role::Active, lenient, s2c, c2s, 9);
    assert_eq!(transmitted(&played.events), vec![0]);
    assert_eq!(played.session.state(), State::Idle);
}

/// RFC 9174 4.3: the passive side sends its contact header and "Version mismatch".
#[test]
fn a_version_3_peer_is_refused_politely() {
    for chunk in [1, 5, 100] {
        let now = at(0);
        let mut session = Session::new(Role::Passive, config("ipn:2.0"), now);
        for octets in capture!("ibrdtn-tcpclv3-meets-c2s").chunks(chunk) {
            session.handle_octets(now, Bytes::from_static(octets));
        }
        let sent = drain(&mut session, now);
        assert_eq!(sent[..6], *b"dtn!\x04\x00");
        assert_eq!(
            messages(&sent[6..]),
            vec![Message::SessTerm {
                flags: 0,
                reason: 2
            }]
        );
        let expected = DownReason::Terminated(TerminateReason::VersionMismatch);
        assert!(
            matches!(&events(&mut session)[..], [LinkEvent::Down(reason)] if *reason == expected)
        );
    }
}
