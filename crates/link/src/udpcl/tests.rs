//! Conversations that talk to each other, to scripts and to recordings, with a clock that jumps.
#![allow(
    clippy::as_conversions,
    reason = "test lengths are small, and truncation to an octet is meant"
)]

mod announce;
mod capture;
mod channel;
mod incoming;
mod outgoing;
mod pace;
mod wire;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{DtnTime, Instant, NodeId, Now};

use super::{Config, Conversation, Framing, Peer, Rate};
use crate::datagram::ledger::Ledger;
use crate::datagram::{Batch, DatagramEvent, DatagramLink, Limit, Path, PathState};
use crate::stream::{DownReason, LinkCommand, RefuseReason, TerminateReason, TransferId};

/// A log whose octet at each offset is known.
fn log_octet(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8
}

fn at(milliseconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_millis(milliseconds),
        dtn: DtnTime::UNKNOWN,
    }
}

fn node(text: &str) -> NodeId {
    text.parse().unwrap()
}

/// No limit but the bucket's and the path's.
const ALL: Limit = Limit {
    datagrams: usize::MAX,
    octets: u64::MAX,
};

/// A configuration that rate control never holds up.
fn fast() -> Config {
    Config {
        rate: Rate {
            octets_per_s: u64::MAX,
            burst_octets: 1 << 40,
        },
        ..Config::default()
    }
}

/// Octets that begin as a bundle does and differ by `seed`.
fn bundle(seed: u64, length: usize) -> Vec<u8> {
    let mut octets: Vec<u8> = (0..length as u64)
        .map(|offset| log_octet(seed << 32 | offset))
        .collect();
    if let Some(first) = octets.first_mut() {
        *first = 0x9f;
    }
    octets
}

/// The octets that datagrams stand for.
fn flatten(batch: &Batch) -> Vec<Vec<u8>> {
    let octets = |piece: &Piece| match piece {
        Piece::Octets(octets) => octets.to_vec(),
        Piece::Extent(extent) => (extent.offset..extent.offset + extent.length)
            .map(log_octet)
            .collect(),
    };
    batch
        .datagrams()
        .map(|pieces| pieces.iter().flat_map(octets).collect())
        .collect()
}

/// All datagrams that a conversation gives now.
fn drain(conversation: &mut Conversation, now: Now) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    conversation.poll_datagrams(now, ALL, &mut batch);
    flatten(&batch)
}

fn events(conversation: &mut Conversation) -> Vec<DatagramEvent> {
    core::iter::from_fn(|| conversation.poll_event()).collect()
}

/// The events as text: those that carry octets without these.
fn told(conversation: &mut Conversation) -> Vec<String> {
    let text = |event: DatagramEvent| match event {
        DatagramEvent::Piece {
            transfer,
            offset,
            octets,
            length,
        } => alloc::format!(
            "piece of {}: {offset}+{} of {}",
            transfer.0,
            octets.len(),
            length.unwrap()
        ),
        DatagramEvent::Complete { transfer, length } => {
            alloc::format!("complete {}: {length}", transfer.0)
        }
        DatagramEvent::Abandoned { transfer, refused } => {
            alloc::format!("abandoned {}: {refused:?}", transfer.0)
        }
        DatagramEvent::Sent { transfer } => alloc::format!("sent {}", transfer.0),
        DatagramEvent::Failed {
            transfer, refused, ..
        } => alloc::format!("failed {}: {refused:?}", transfer.0),
        DatagramEvent::Fault { rule, count } => alloc::format!("{count} x {rule}"),
        other => alloc::format!("{other:?}"),
    };
    events(conversation).into_iter().map(text).collect()
}

fn transmit(conversation: &mut Conversation, now: Now, transfer: u64, octets: &[u8]) {
    let transfer = TransferId(transfer);
    let length = octets.len() as u64;
    conversation.handle_command(now, LinkCommand::Transmit { transfer, length });
    let octets = Piece::Octets(Bytes::copy_from_slice(octets));
    conversation.handle_command(now, LinkCommand::Supply { transfer, octets });
}

fn receive(conversation: &mut Conversation, now: Now, datagrams: &[Vec<u8>]) {
    let datagrams: Vec<Bytes> = datagrams.iter().cloned().map(Bytes::from).collect();
    conversation.handle_datagrams(now, &datagrams);
}

/// A segment of a transfer, made by hand.
fn segment(transfer: u64, length: u64, offset: u64, octets: &[u8]) -> Vec<u8> {
    use dhow_bundle::cbor::{write_array, write_byte_string, write_unsigned};
    let mut datagram = vec![0xa1, 0x02];
    write_array(&mut datagram, 4);
    [transfer, length, offset]
        .iter()
        .for_each(|number| write_unsigned(&mut datagram, *number));
    write_byte_string(&mut datagram, octets);
    datagram
}
