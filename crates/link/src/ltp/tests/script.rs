//! One engine and a peer that does what a test says.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;

use super::super::segment::*;
use super::super::{Config, Engine, Rate};
use super::referee::segment_of;
use super::wire::written;
use super::world::{ALL, at, flatten};
use crate::datagram::{Batch, DatagramEvent, DatagramLink, Path, PathState};
use crate::stream::{LinkCommand, RefuseReason, TransferId};

pub(super) const SECOND: u64 = 1_000_000;

/// Engine 3, whose peer is engine 2, 1 s away; answers take 100 ms.
pub(super) struct Script {
    pub(super) engine: Engine,
    pub(super) now: u64,
}

pub(super) fn config() -> Config {
    Config {
        engine: 3,
        remote_engine: 2,
        mtu: 150,
        checkpoint_octets: 0,
        light_time: core::time::Duration::from_secs(1),
        margin: core::time::Duration::from_millis(100),
        rate: Rate {
            octets_per_s: 1 << 40,
            burst_octets: 1 << 40,
        },
        transmissions: 3,
        ..Config::default()
    }
}

/// A session of the peer.
pub(super) fn theirs(number: u64) -> SessionId {
    SessionId {
        originator: 2,
        number,
    }
}

/// A data segment of the peer, whose octets are their offsets; serial numbers of a checkpoint and of the report that it
/// answers.
pub(super) fn data(
    number: u64,
    kind: DataKind,
    range: core::ops::Range<u64>,
    serials: (u64, u64),
) -> Segment {
    let serials = kind.is_checkpoint().then_some(Serials {
        checkpoint: serials.0,
        report: serials.1,
    });
    let head = DataHead {
        session: theirs(number),
        kind,
        service: 1,
        offset: range.start,
        length: range.end - range.start,
        serials,
    };
    let octets = range.map(|offset| offset as u8).collect();
    Segment::Data(Data { head, octets })
}

impl Script {
    pub(super) fn new(config: Config) -> Self {
        let engine = Engine::new(config, 5, at(0));
        Self { engine, now: 0 }
    }

    pub(super) fn receive(&mut self, segments: &[Segment]) {
        let datagrams: Vec<Bytes> = segments
            .iter()
            .map(|segment| written(segment).into())
            .collect();
        self.engine.handle_datagrams(at(self.now), &datagrams);
    }

    pub(super) fn command(&mut self, command: LinkCommand) {
        self.engine.handle_command(at(self.now), command);
    }

    /// Transmit a block of so many octets, all there.
    pub(super) fn transmit(&mut self, transfer: u64, length: u64) {
        let transfer = TransferId(transfer);
        self.command(LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(vec![9; length as usize].into());
        self.command(LinkCommand::Supply { transfer, octets });
    }

    pub(super) fn acknowledge(&mut self, transfer: u64, octets: u64) {
        let transfer = TransferId(transfer);
        self.command(LinkCommand::Acknowledge { transfer, octets });
    }

    pub(super) fn refuse(&mut self, transfer: u64, reason: RefuseReason) {
        let transfer = TransferId(transfer);
        self.command(LinkCommand::Refuse { transfer, reason });
    }

    /// The segments that leave now.
    pub(super) fn sent(&mut self) -> Vec<Segment> {
        let datagrams = self.given();
        let left = datagrams.len() as u64;
        self.engine.handle_left(at(self.now), left);
        datagrams
            .iter()
            .map(|datagram| segment_of(datagram))
            .collect()
    }

    /// The datagrams that are given now, and have not left.
    pub(super) fn given(&mut self) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        self.engine.poll_datagrams(at(self.now), ALL, &mut batch);
        flatten(&batch)
    }

    /// Let time pass, and time-outs with it; segments that leave meanwhile come back, with the tenths of a second.
    pub(super) fn pass(&mut self, time: u64) -> Vec<(u64, Segment)> {
        let until = self.now + time;
        let mut all = vec![];
        loop {
            let tenths = self.now * 10 / SECOND;
            all.extend(self.sent().into_iter().map(|segment| (tenths, segment)));
            let next = self.engine.poll_timeout();
            let next = next.map(|at| at.as_nanos().div_ceil(1_000));
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            self.engine.handle_timeout(at(self.now));
        }
        self.now = until;
        all
    }

    pub(super) fn path(&mut self, outgoing: PathState, incoming: PathState) {
        let path = Path {
            outgoing,
            incoming,
            mtu: None,
            light_time: None,
        };
        self.engine.handle_path(at(self.now), path);
    }

    /// The events as text: those that carry octets without these.
    pub(super) fn told(&mut self) -> Vec<String> {
        let text = |event: DatagramEvent| match event {
            DatagramEvent::Piece {
                transfer,
                offset,
                octets,
                length,
            } => {
                assert_eq!(octets.first(), Some(&(offset as u8)), "the right octets");
                format!(
                    "piece of {}: {offset}+{} of {length:?}",
                    transfer.0,
                    octets.len()
                )
            }
            DatagramEvent::Complete { transfer, length } => {
                format!("complete {}: {length}", transfer.0)
            }
            DatagramEvent::Abandoned { transfer, refused } => {
                format!("abandoned {}: {refused:?}", transfer.0)
            }
            DatagramEvent::Sent { transfer } => format!("sent {}", transfer.0),
            DatagramEvent::Transmitted { transfer } => format!("transmitted {}", transfer.0),
            DatagramEvent::Failed {
                transfer,
                refused,
                acknowledged,
            } => format!("failed {}: {refused:?}, {acknowledged}", transfer.0),
            DatagramEvent::Fault { rule, count } => format!("{count} x {rule}"),
            other => format!("{other:?}"),
        };
        core::iter::from_fn(|| self.engine.poll_event())
            .map(text)
            .collect()
    }
}

/// A report as short text: serial number, checkpoint, scope and claims; other segments by their kind.
pub(super) fn short(segment: &Segment) -> String {
    match segment {
        Segment::Data(Data { head, .. }) => {
            let serials = head
                .serials
                .map(|serials| (serials.checkpoint, serials.report));
            format!(
                "{:?} {}..{} {serials:?}",
                head.kind,
                head.offset,
                head.end()
            )
        }
        Segment::Report(_, report) => format!(
            "report for {} of {}..{}: {:?}",
            report.checkpoint, report.lower, report.upper, report.claims
        ),
        Segment::ReportAck(_, serial) => format!("ack of {serial}"),
        Segment::Cancel(_, by, reason) => format!("cancel by {by:?}: {reason:?}"),
        Segment::CancelAck(_, by) => format!("ack of cancel by {by:?}"),
    }
}

pub(super) fn all(segments: &[Segment]) -> Vec<String> {
    segments.iter().map(short).collect()
}
