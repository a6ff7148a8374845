//! Recorded sessions of other programs, played to a session in the other role.

use super::*;

macro_rules! capture {
    ($name:literal) => {
        Capture {
            name: $name,
            c2s: include_bytes!(concat!(
                "../../../../tests/data/captures/v3/",
                $name,
                "-c2s.bin"
            )),
            s2c: include_bytes!(concat!(
                "../../../../tests/data/captures/v3/",
                $name,
                "-s2c.bin"
            )),
        }
    };
}

struct Capture {
    name: &'static str,
    c2s: &'static [u8],
    s2c: &'static [u8],
}

/// The octets that one side of a recording sent.
struct Recorded {
    header: ContactHeader,
    /// Octets of the contact header.
    head: usize,
    messages: Vec<Message>,
    bundles: Vec<Vec<u8>>,
}

fn read(octets: &'static [u8]) -> Recorded {
    let mut chunk = Bytes::from_static(octets);
    let mut decoder = Decoder::default();
    let header = decoder.contact(&mut chunk).unwrap();
    let mut recorded = Recorded {
        header: header.expect("a contact header"),
        head: octets.len() - chunk.len(),
        messages: Vec::new(),
        bundles: Vec::new(),
    };
    while let Some(item) = decoder.next(&mut chunk).unwrap() {
        match item {
            Item::Message(message) => {
                if matches!(message, Message::DataSegment(segment) if segment.flags & START != 0) {
                    recorded.bundles.push(Vec::new());
                }
                recorded.messages.push(message);
            }
            Item::Data { octets, .. } => {
                recorded
                    .bundles
                    .last_mut()
                    .unwrap()
                    .extend_from_slice(&octets);
            }
        }
    }
    recorded
}

fn acknowledgments(messages: &[Message]) -> Vec<Message> {
    let acknowledgments = messages.iter();
    acknowledgments
        .filter(|message| matches!(message, Message::AckSegment { .. }))
        .copied()
        .collect()
}

/// The longest segment among some messages.
fn longest(messages: &[Message]) -> u64 {
    let lengths = messages.iter().filter_map(|message| match message {
        Message::DataSegment(segment) => Some(segment.length),
        _ => None,
    });
    lengths.max().unwrap_or_default()
}

struct Played {
    events: Vec<LinkEvent>,
    sent: Vec<u8>,
    session: Session,
}

/// Play what the peer sent, in chunks of `chunk` octets, to a session in the place of the side that sent `ours`: it offers
/// what that offered, sends the same bundles and acknowledges all that arrives at once.
fn play(peer: &'static [u8], ours: &'static [u8], chunk: usize) -> Played {
    let now = at(5_000);
    let own = read(ours);
    let config = Config {
        keepalive_s: own.header.keepalive_s,
        segment_length: longest(&own.messages),
        ..config("ipn:99.0")
    };
    let mut played = Played {
        events: Vec::new(),
        sent: Vec::new(),
        session: Session::offering(own.header.offer, config, now),
    };
    for (number, octets) in (0..).zip(&own.bundles) {
        transmit(&mut played.session, now, number, octets);
    }
    // The contact header comes first, so that we send before acknowledgments arrive.
    let (head, rest) = peer.split_at(read(peer).head);
    let mut received = 0;
    for octets in [head].into_iter().chain(rest.chunks(chunk)) {
        played.sent.extend(drain(&mut played.session, now));
        (played.session).handle_octets(now, Bytes::from_static(octets));
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

fn arrived(events: &[LinkEvent]) -> Vec<Vec<u8>> {
    let mut bundles: Vec<Vec<u8>> = Vec::new();
    for event in events {
        if let LinkEvent::Segment {
            transfer,
            octets,
            start,
            ..
        } = event
        {
            if *start {
                assert_eq!(transfer.0, bundles.len() as u64, "numbered as they come");
                bundles.push(Vec::new());
            }
            bundles.last_mut().unwrap().extend_from_slice(octets);
        }
    }
    bundles
}

fn transmitted(events: &[LinkEvent]) -> usize {
    let all = events.iter();
    all.filter(|event| matches!(event, LinkEvent::Transmitted { .. }))
        .count()
}

/// Play both sides of a recording: its bundles come out, ours are acknowledged, and we acknowledge as the recorded side did.
fn play_both(capture: &Capture) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (peer, ours) in [(capture.c2s, capture.s2c), (capture.s2c, capture.c2s)] {
        let (expected, own) = (read(peer), read(ours));
        for chunk in [1, 7, 4_096, 1 << 20] {
            let name = (capture.name, chunk);
            let played = play(peer, ours, chunk);
            let LinkEvent::Up(parameters) = &played.events[0] else {
                panic!("{name:?}: {:?}", played.events[0]);
            };
            let interval = expected.header.keepalive_s.min(own.header.keepalive_s);
            assert_eq!(parameters.keepalive_s, interval, "{name:?}");
            assert_eq!(arrived(&played.events), expected.bundles, "{name:?}");
            assert_eq!(transmitted(&played.events), own.bundles.len(), "{name:?}");
            let sent = messages(&played.sent[header(0, 0, "ipn:99.0").len()..]);
            // Every segment of the peer is acknowledged as the recorded side acknowledged it.
            let acknowledged = acknowledgments(&sent);
            assert_eq!(acknowledged, acknowledgments(&own.messages), "{name:?}");
            assert!(
                !sent
                    .iter()
                    .any(|it| matches!(it, Message::RefuseBundle { .. }))
            );
            let ended = (played.events.iter()).any(|event| matches!(event, LinkEvent::Ending));
            let shut = (expected.messages.iter()).any(|it| matches!(it, Message::Shutdown(_)));
            assert_eq!(ended, shut, "{name:?}");
            assert_eq!(
                played.session.state(),
                if shut { State::Closed } else { State::Idle },
                "{name:?}"
            );
        }
        found.extend(expected.bundles);
    }
    found
}

/// The bundles that another program found in a recording.
fn bundles(capture: &str) -> Vec<Vec<u8>> {
    include_str!("../../../../tests/data/captures/v3/bundles.tsv")
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

#[test]
fn ions_sessions_carry_the_bundles_that_another_program_found() {
    for (name, captures) in [
        ("ion-bpv7", [capture!("ion-bpv7-0"), capture!("ion-bpv7-1")]),
        (
            "ion-bpv7-reports",
            [
                capture!("ion-bpv7-reports-0"),
                capture!("ion-bpv7-reports-1"),
            ],
        ),
    ] {
        let mut found: Vec<Vec<u8>> = captures.iter().flat_map(play_both).collect();
        let mut expected = bundles(name);
        found.sort();
        expected.sort();
        assert!(!found.is_empty());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn sessions_that_carry_version_6_bundles_are_framed_alike() {
    for capture in [
        capture!("ion-bpv6-0"),
        capture!("ion-bpv6-1"),
        capture!("ion-bpv6-custody-0"),
        capture!("ion-bpv6-custody-1"),
        capture!("ibrdtn-0"),
        capture!("ibrdtn-fragments-0"),
        capture!("hdtn-0"),
        capture!("hdtn-1"),
        capture!("hdtn-2"),
        capture!("hdtn-custody-0"),
        capture!("hdtn-custody-1"),
    ] {
        let found = play_both(&capture);
        assert!(!found.is_empty());
        // RFC 5050 4.5.1: a primary block begins with the version.
        assert!(
            found.iter().all(|bundle| bundle[0] == 6),
            "{}",
            capture.name
        );
    }
}

/// RFC 7242 4.1: our octets have the recorded ones' form: contact headers, and the shortest numbers.
#[test]
fn what_was_recorded_is_written_again_to_the_octet() {
    for capture in [
        capture!("ion-bpv7-0"),
        capture!("ibrdtn-0"),
        capture!("ibrdtn-fragments-0"),
        capture!("dtnme-ibrdtn-0"),
        capture!("hdtn-0"),
        capture!("hdtn-custody-1"),
    ] {
        for octets in [capture.c2s, capture.s2c] {
            let recorded = read(octets);
            let mut written = BytesMut::new();
            recorded.header.encode(&mut written);
            let mut bundles: Vec<u8> = recorded.bundles.concat();
            for message in &recorded.messages {
                message.encode(&mut written);
                if let Message::DataSegment(segment) = message {
                    let behind = bundles.split_off(segment.length as usize);
                    written.extend_from_slice(&bundles);
                    bundles = behind;
                }
            }
            assert_eq!(written, octets, "{}", capture.name);
        }
    }
}

/// RFC 7242 5.4: IBR-DTN says nothing of the second bundle and acknowledges the third. To take that for the second
/// would lose it, so the session ends, and what was not acknowledged goes again.
#[test]
fn an_acknowledgment_that_passes_over_a_bundle_ends_the_session() {
    let capture = capture!("dtnme-ibrdtn-0");
    let played = play(capture.s2c, capture.c2s, 9);
    assert_eq!(transmitted(&played.events), 1);
    let why = fault(&played.events);
    assert!(why.contains("RFC 7242 5.3"), "{why}");
    // The other direction passes: DTNME offers acknowledgments alone.
    let played = play(capture.c2s, capture.s2c, 9);
    assert_eq!(arrived(&played.events), read(capture.c2s).bundles);
    assert_eq!(transmitted(&played.events), 1);
}

/// RFC 7242 6.1: HDTN asks for reconnection delays; 0 is for ever.
#[test]
fn reconnection_delays_are_told() {
    let capture = capture!("hdtn-custody-1");
    let played = play(capture.s2c, capture.c2s, 9);
    let delays = played.events.iter().filter_map(|event| match event {
        LinkEvent::ReconnectionDelay { delay } => Some(*delay),
        _ => None,
    });
    assert_eq!(delays.collect::<Vec<_>>(), [Some(Duration::from_secs(3))]);
    let capture = capture!("hdtn-0");
    let played = play(capture.c2s, capture.s2c, 9);
    let forever = |event: &LinkEvent| matches!(event, LinkEvent::ReconnectionDelay { delay: None });
    assert!(played.events.iter().any(forever));
}
