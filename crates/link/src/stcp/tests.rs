//! Sessions that talk to each other, to scripts and to recordings, with a clock that jumps.
#![allow(clippy::as_conversions, reason = "test lengths are small")]

mod capture;
mod incoming;
mod outgoing;
mod random;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now};

use super::{Config, Framing, Session, State};
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession, TerminateReason,
    TransferId,
};

fn at(milliseconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_millis(milliseconds),
        ..Now::default()
    }
}

fn peer() -> NodeId {
    "ipn:2.0".parse().unwrap()
}

/// The octet of a log at an offset.
fn log_octet(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16).to_le_bytes()[0]
}

fn log_octets(offset: u64, length: u64) -> Vec<u8> {
    (offset..offset + length).map(log_octet).collect()
}

fn flatten(gather: &Gather) -> Vec<u8> {
    let pieces = gather.pieces().iter();
    pieces
        .flat_map(|piece| match piece {
            Piece::Octets(octets) => octets.to_vec(),
            Piece::Extent(extent) => log_octets(extent.offset, extent.length),
        })
        .collect()
}

fn events(session: &mut Session) -> Vec<LinkEvent> {
    core::iter::from_fn(|| session.poll_event()).collect()
}

/// A sender that has said that it is up.
fn sender(config: Config) -> Session {
    let mut session = Session::dial(peer(), config, at(0));
    let said = events(&mut session);
    assert!(
        matches!(said.as_slice(), [LinkEvent::Up(parameters)] if parameters.peer == peer()),
        "{said:?}"
    );
    session
}

/// Give a sender a bundle that lies in the log.
fn transmit(session: &mut Session, transfer: u64, offset: u64, length: u64) {
    let transfer = TransferId(transfer);
    session.handle_command(at(0), LinkCommand::Transmit { transfer, length });
    let octets = Piece::Extent(Extent { offset, length });
    session.handle_command(at(0), LinkCommand::Supply { transfer, octets });
}

/// All that one call gives.
fn poll(session: &mut Session, now: Now, limit: usize) -> Vec<u8> {
    let mut out = Gather::new();
    session.poll_octets(now, limit, &mut out);
    flatten(&out)
}

fn terminate(session: &mut Session, now: Now) {
    let reason = TerminateReason::Unknown;
    session.handle_command(now, LinkCommand::Terminate { reason });
}

fn sent(events: &[LinkEvent]) -> Vec<u64> {
    let sent = events.iter().filter_map(|event| match event {
        LinkEvent::Sent { transfer } => Some(transfer.0),
        _ => None,
    });
    sent.collect()
}

fn down(events: &[LinkEvent]) -> Option<&DownReason> {
    match events.last() {
        Some(LinkEvent::Down(reason)) => Some(reason),
        _ => None,
    }
}

/// The rule that a peer broke, as the node is told of it.
fn fault(events: &[LinkEvent]) -> &str {
    match down(events) {
        Some(DownReason::PeerFault(rule)) => rule,
        other => panic!("no fault of the peer: {other:?}"),
    }
}

/// Whole bundles among events; nothing else may be there.
fn bundles(events: &[LinkEvent]) -> Vec<Vec<u8>> {
    let mut bundles: Vec<Vec<u8>> = Vec::new();
    for event in events {
        let LinkEvent::Segment {
            transfer,
            octets,
            start,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        if *start {
            assert_eq!(transfer.0, bundles.len() as u64);
            bundles.push(Vec::new());
        }
        bundles.last_mut().unwrap().extend_from_slice(octets);
    }
    bundles
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
