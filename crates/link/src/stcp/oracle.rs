//! Sessions at the mercy of arbitrary octets: what fuzzing calls, and the replay of its corpus. The receiver's reading of a stream
//! is compared with another hand's reading of the whole stream at once, and the sender's writing likewise.
//!
//! Everything here panics when a session breaks its word; it is no part of the interface.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now};

use super::{Config, Framing, Session, State};
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession, TransferId,
};

/// Octets at the front of a fuzzer's input that say how the node behaves.
const CHOICES: usize = 4;

/// The longest bundle that a receiver under test takes, octets.
const LONGEST: u64 = 3_000;

/// Play octets to a receiver, and as bundles through a sender; how many bundles were read.
#[must_use]
pub fn check_session(octets: &[u8]) -> usize {
    let (choices, stream) = octets.split_at_checked(CHOICES).unwrap_or((octets, &[]));
    let choice = |at: usize| choices.get(at).copied().unwrap_or_default();
    let framing = Framing::ALL
        .into_iter()
        .nth(usize::from(choice(0) % 4))
        .unwrap_or_default();
    let read = received(framing, stream, choice(1), choice(2));
    talked_to(framing, stream);
    sent(framing, stream, usize::from(choice(3)));
    read
}

/// The bundles of a stream, read as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Bundles that are complete.
    pub(super) bundles: Vec<Vec<u8>>,
    /// Octets of the one that is not, where one has begun.
    pub(super) rest: Option<Vec<u8>>,
    /// Whether the stream breaks a rule.
    pub(super) is_broken: bool,
    /// Whether the stream ends within the head of a bundle.
    is_cut: bool,
}

/// Read a whole stream in which bundles have at most `longest` octets.
pub(super) fn read(framing: Framing, stream: &[u8], longest: u64) -> Reading {
    let mut reading = Reading::default();
    let mut rest = stream;
    while !rest.is_empty() {
        let head = match framing {
            Framing::Stcp => match rest {
                [a, b, c, d, ..] => Head::Of(u32::from_be_bytes([*a, *b, *c, *d]).into(), 4),
                _ => Head::Cut,
            },
            Framing::Mtcp => number(rest, 0x40),
            Framing::StcpDraft => draft(rest),
            Framing::Encapsulation => packet(rest),
        };
        let (length, octets) = match head {
            Head::Of(length, octets) if length <= longest => (length, octets),
            Head::Idle(octets) => {
                rest = rest.get(octets..).unwrap_or_default();
                continue;
            }
            Head::Cut => {
                reading.is_cut = true;
                return reading;
            }
            Head::Of(..) | Head::Broken => {
                reading.is_broken = true;
                return reading;
            }
        };
        rest = rest.get(octets..).unwrap_or_default();
        if length == 0 {
            continue;
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if rest.len() < length {
            reading.rest = Some(rest.to_vec());
            return reading;
        }
        let (bundle, behind) = rest.split_at(length);
        reading.bundles.push(bundle.to_vec());
        rest = behind;
    }
    reading
}

#[derive(Clone, Copy)]
enum Head {
    /// A number, and the octets that it takes.
    Of(u64, usize),
    /// So many octets have no meaning.
    Idle(usize),
    Cut,
    Broken,
}

/// A number behind the upper three bits of `kind`.
fn number(octets: &[u8], kind: u8) -> Head {
    let Some((first, behind)) = octets.split_first() else {
        return Head::Cut;
    };
    if first & 0xe0 != kind {
        return Head::Broken;
    }
    let width = match first & 0x1f {
        short @ 0..24 => return Head::Of(u64::from(short), 1),
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => return Head::Broken,
    };
    match behind.get(..width) {
        None => Head::Cut,
        Some(octets) => {
            let value = octets.iter().fold(0, |sum, it| sum << 8 | u64::from(*it));
            Head::Of(value, 1 + width)
        }
    }
}

fn draft(octets: &[u8]) -> Head {
    let mut at = 0;
    let mut values = [0; 3];
    for (value, kind) in values.iter_mut().zip([0x80, 0x00, 0x40]) {
        match number(octets.get(at..).unwrap_or_default(), kind) {
            Head::Of(found, octets) => {
                *value = found;
                at += octets;
            }
            other => return other,
        }
        if kind == 0x80 && *value != 2 {
            return Head::Broken;
        }
    }
    let [_, said, length] = values;
    match said == length {
        true => Head::Of(length, at),
        false => Head::Broken,
    }
}

/// A header by the table of CCSDS 133.1-B-3 4.1.2: first octets, octets of the header, where the length of the packet begins.
fn packet(octets: &[u8]) -> Head {
    let Some(first) = octets.first() else {
        return Head::Cut;
    };
    let (header, length_at) = match first {
        0xe0 => return Head::Idle(1),
        0xe1 | 0xf1 => (2, 1),
        0xe2 | 0xf2 => (4, 2),
        0xe3 | 0xf3 => (8, 4),
        _ => return Head::Broken,
    };
    let Some(length) = octets.get(length_at..header) else {
        return Head::Cut;
    };
    let length = length.iter().fold(0, |sum, it| sum << 8 | usize::from(*it));
    match length.checked_sub(header) {
        None => Head::Broken,
        Some(_) if *first < 0xf0 => Head::Idle(length),
        Some(content) => Head::Of(u64::try_from(content).unwrap_or(u64::MAX), header),
    }
}

fn now() -> Now {
    Now {
        monotonic: Instant::START,
        ..Now::default()
    }
}

fn config(framing: Framing) -> Config {
    Config {
        transfer_mru: LONGEST,
        transfer_timeout: Some(Duration::from_secs(1)),
        ..Config::new(framing)
    }
}

/// Play a stream in chunks that grow by `growth` to a receiver whose node refuses by the bits of `refusals`.
pub(super) fn received(framing: Framing, stream: &[u8], growth: u8, refusals: u8) -> usize {
    let expected = read(framing, stream, LONGEST);
    let mut session = Session::accept(config(framing), now());
    let mut bundles: Vec<(Vec<u8>, bool, bool)> = Vec::new();
    let (mut abandoned, mut down) = (0, None);
    let (mut rest, mut length) = (stream, 1);
    let mut take = |session: &mut Session| {
        while let Some(event) = session.poll_event() {
            assert!(down.is_none(), "nothing happens after Down");
            match event {
                LinkEvent::Segment {
                    transfer,
                    octets,
                    start,
                    end,
                    length,
                } => {
                    assert_eq!(start, length.is_some(), "the length is said at the start");
                    let is_refused = refusals >> (transfer.0 % 8) & 1 == 1;
                    if start {
                        bundles.push((Vec::new(), false, is_refused));
                        if is_refused {
                            let reason = RefuseReason::NotAcceptable;
                            session.handle_command(now(), LinkCommand::Refuse { transfer, reason });
                        }
                    }
                    let number = u64::try_from(bundles.len()).unwrap_or(0);
                    assert_eq!(transfer.0 + 1, number, "bundles come one after the other");
                    if let Some((bundle, is_whole, _)) = bundles.last_mut() {
                        bundle.extend_from_slice(&octets);
                        *is_whole = end;
                    }
                }
                LinkEvent::Abandoned { .. } => abandoned += 1,
                LinkEvent::Down(reason) => down = Some(reason),
                other => panic_with(&other),
            }
        }
    };
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        session.handle_octets(now(), Bytes::copy_from_slice(chunk));
        take(&mut session);
        rest = behind;
        length += usize::from(growth);
    }
    let is_open = session.state() == State::Open;
    assert_eq!(is_open, !expected.is_broken, "the framing decides alone");
    session.handle_command(now(), LinkCommand::Disconnected);
    take(&mut session);
    assert_eq!(session.poll_timeout(), None, "nothing is waited for");
    let is_whole = !expected.is_broken && !expected.is_cut && expected.rest.is_none();
    assert_eq!(down == Some(DownReason::Disconnected), is_whole);
    assert!(is_whole || matches!(down, Some(DownReason::PeerFault(_))));
    let all: Vec<&Vec<u8>> = expected.bundles.iter().chain(&expected.rest).collect();
    let begun = all.iter().filter(|it| !it.is_empty()).count();
    assert_eq!(bundles.len(), begun, "each bundle that has begun is told");
    let mut torn = 0;
    for ((bundle, is_told, is_refused), expected) in bundles.iter().zip(all) {
        if *is_refused {
            assert!(expected.starts_with(bundle), "a part of it came");
        } else {
            assert_eq!(bundle, expected, "octets come as they were sent");
            torn += usize::from(!is_told);
        }
    }
    assert_eq!(abandoned, torn, "a torn bundle is abandoned");
    expected.bundles.len()
}

#[expect(clippy::panic, reason = "an oracle complains by panicking")]
fn panic_with(event: &LinkEvent) {
    panic!("a receiver does not say {event:?}");
}

/// A peer that talks to a sender is at fault, whatever it says.
fn talked_to(framing: Framing, stream: &[u8]) {
    let mut session = Session::dial(peer(), config(framing), now());
    assert!(matches!(session.poll_event(), Some(LinkEvent::Up(_))));
    transmit(&mut session, 0, &[1, 2, 3]);
    session.handle_octets(now(), Bytes::copy_from_slice(stream));
    let is_over = session.state() == State::Closed;
    assert_eq!(is_over, !stream.is_empty());
    if is_over {
        assert!(matches!(
            session.poll_event(),
            Some(LinkEvent::Failed { .. })
        ));
        assert!(matches!(session.poll_event(), Some(LinkEvent::Down(_))));
    }
}

#[expect(clippy::expect_used, reason = "the text is a node ID")]
fn peer() -> NodeId {
    "ipn:2.0".parse().expect("a node ID")
}

fn transmit(session: &mut Session, transfer: u64, octets: &[u8]) {
    let transfer = TransferId(transfer);
    let length = u64::try_from(octets.len()).unwrap_or(0);
    session.handle_command(now(), LinkCommand::Transmit { transfer, length });
    // Two pieces, so that one may lie in two gather lists.
    let (first, second) = octets.split_at(octets.len() / 3);
    for octets in [first, second] {
        let octets = Piece::Octets(Bytes::copy_from_slice(octets));
        session.handle_command(now(), LinkCommand::Supply { transfer, octets });
    }
}

/// Send a stream cut into bundles, `limit` octets at a time: they are read as they were given, and each is told as sent once the session
/// has been asked again, and not before.
fn sent(framing: Framing, stream: &[u8], limit: usize) {
    let mut session = Session::dial(peer(), config(framing), now());
    let bundles: Vec<&[u8]> = stream.chunks(limit * 5 + 1).collect();
    for (transfer, bundle) in (0..).zip(&bundles) {
        transmit(&mut session, transfer, bundle);
    }
    let mut written = Vec::new();
    let (mut told, mut whole) = (0, 0);
    loop {
        let mut out = Gather::new();
        session.poll_octets(now(), limit + 1, &mut out);
        let most = u64::try_from(limit + 1 + 32).unwrap_or(u64::MAX);
        assert!(out.octets() <= most, "the limit is about kept");
        while let Some(event) = session.poll_event() {
            told += usize::from(matches!(event, LinkEvent::Sent { .. }));
        }
        assert_eq!(told, whole, "what was given is told when all is written");
        if out.is_empty() {
            break;
        }
        for piece in out.pieces() {
            written.extend(resolve(piece));
        }
        whole = read(framing, &written, u64::MAX).bundles.len();
    }
    assert!(!session.may_have_octets());
    assert_eq!(told, bundles.len(), "each bundle has left");
    let reading = read(framing, &written, u64::MAX);
    assert_eq!(reading.bundles, bundles);
    assert_eq!(reading.rest, None);
}

fn resolve(piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Octets(octets) => octets.to_vec(),
        Piece::Extent(Extent { length, .. }) => vec![0; usize::try_from(*length).unwrap_or(0)],
    }
}
