//! Recorded segments of other programs, played to an engine.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::segment::*;
use super::super::{Config, Engine};
use super::referee::segment_of;
use super::wire::{datagrams, read};
use super::world::{ALL, at, flatten};
use crate::datagram::ledger::Ledger;
use crate::datagram::{Batch, DatagramEvent, DatagramLink};
use crate::stream::LinkCommand;

/// The blocks that the data segments of one engine make up, and the reports that the other sent.
fn recorded(name: &str, from: u64) -> (Vec<Vec<u8>>, Vec<Report>) {
    let mut blocks: BTreeMap<SessionId, Vec<u8>> = BTreeMap::new();
    let mut reports = Vec::new();
    for segment in datagrams(name)
        .iter()
        .flat_map(|datagram| read(datagram))
        .flatten()
    {
        if segment.session().originator != from {
            continue;
        }
        match segment {
            Segment::Data(data) => {
                let block = blocks.entry(data.head.session).or_default();
                let (start, end) = (data.head.offset as usize, data.head.end() as usize);
                block.resize(block.len().max(end), 0);
                block[start..end].copy_from_slice(&data.octets);
            }
            Segment::Report(_, report) => reports.push(report),
            _ => {}
        }
    }
    (blocks.into_values().collect(), reports)
}

/// Play the datagrams that are not in `lost`; the blocks, and the reports that the engine sent.
fn play(
    name: &str,
    (engine, remote_engine): (u64, u64),
    lost: &[usize],
) -> (Vec<Vec<u8>>, Vec<Report>) {
    let config = Config {
        engine,
        remote_engine,
        ..Config::default()
    };
    let mut engine = Engine::new(config, 1, at(0));
    let (mut ledger, mut reports) = (Ledger::default(), Vec::new());
    for (number, datagram) in (1..).zip(datagrams(name)) {
        // The rest is of sessions in which the recorded program sends itself.
        let is_ours = matches!(
            read(&datagram).pop(),
            Some(Ok(segment)) if segment.session().originator != remote_engine
                || segment.receiver() == Party::Sender
        );
        if lost.contains(&number) || is_ours {
            continue;
        }
        engine.handle_datagrams(at(0), &[datagram]);
        while let Some(event) = engine.poll_event() {
            ledger.note(&event);
            match event {
                DatagramEvent::Complete { transfer, length } => {
                    let octets = length;
                    engine.handle_command(at(0), LinkCommand::Acknowledge { transfer, octets });
                }
                DatagramEvent::Piece { .. } => {}
                other => panic!("{name}: {other:?}"),
            }
        }
        let mut batch = Batch::new();
        engine.poll_datagrams(at(0), ALL, &mut batch);
        for datagram in flatten(&batch) {
            if let Segment::Report(id, report) = segment_of(&datagram) {
                let ack = super::wire::written(&Segment::ReportAck(id, report.serial));
                engine.handle_datagrams(at(0), &[Bytes::from(ack)]);
                reports.push(report);
            }
        }
        engine.handle_left(at(0), batch.len() as u64);
    }
    assert_eq!(engine.incoming.held().0, 0, "{name}: every session is over");
    (ledger.payloads(), reports)
}

/// Checkpoint, lower and upper bound, and claims.
type Scope = (u64, u64, u64, Vec<(u64, u64)>);

fn scopes(reports: &[Report]) -> Vec<Scope> {
    let scope = |report: &Report| {
        (
            report.checkpoint,
            report.lower,
            report.upper,
            report.claims.clone(),
        )
    };
    reports.iter().map(scope).collect()
}

/// Blocks come whole, and the reports have the checkpoints, scopes and claims of those that the other program sent.
#[test]
fn blocks_of_ion_and_hdtn_are_reported_as_they_report_them() {
    for (name, engines, lost, count) in [
        ("ion-bpv7-ltp-red", (3, 2), [].as_slice(), 2),
        ("ion-bpv6-ltp-red", (3, 2), &[], 2),
        ("ion-bpv7-ltp-red-loss", (3, 2), &[5, 11], 1),
        ("ion-bpv7-ltp-green", (3, 2), &[], 2),
        ("ion-bpv7-ltp-green", (2, 3), &[], 2),
        ("hdtn-bpv7-ltp", (2, 20), &[], 2),
    ] {
        let (mut blocks, reports) = recorded(name, engines.1);
        let (mut whole, ours) = play(name, engines, lost);
        blocks.sort();
        whole.sort();
        assert_eq!(whole.len(), count, "{name}");
        assert!(whole == blocks, "{name}");
        let (mut expected, mut ours) = (scopes(&reports), scopes(&ours));
        expected.sort();
        ours.sort();
        // One of our reports is sent twice where something was lost.
        ours.dedup();
        if name == "hdtn-bpv7-ltp" {
            // HDTN begins the last report of a block where the one before ended; here it tells of the whole block.
            for (_, lower, _, claims) in &mut expected {
                if *lower > 0 {
                    (*lower, claims[0].0) = (0, 0);
                }
            }
        }
        assert_eq!(ours, expected, "{name}");
    }
}
