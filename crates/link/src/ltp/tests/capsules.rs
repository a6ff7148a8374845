//! Transfers that share a block.

use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::storage::Piece;

use super::super::segment::*;
use super::super::{Config, Red};
use super::script::{SECOND, Script, config};
use crate::datagram::PathState;
use crate::stream::{LinkCommand, TransferId};

/// An engine that sends nothing yet, whose blocks take 200 octets of several transfers.
fn script() -> Script {
    script_of(Red::All)
}

fn script_of(red: Red) -> Script {
    let config = Config {
        aggregate: 200,
        red,
        ..config()
    };
    let mut script = Script::new(config);
    script.path(PathState::Closed, PathState::Open);
    script
}

fn open(script: &mut Script) -> Vec<(SessionId, u64)> {
    script.path(PathState::Open, PathState::Open);
    ends(&script.sent())
}

/// The sessions of segments that end blocks, and the lengths of these.
fn ends(segments: &[Segment]) -> Vec<(SessionId, u64)> {
    let ends = segments.iter().filter_map(|segment| match segment {
        Segment::Data(data) if data.head.kind.is_block_end() => {
            Some((data.head.session, data.head.end()))
        }
        _ => None,
    });
    ends.collect()
}

fn lengths(ends: &[(SessionId, u64)]) -> Vec<u64> {
    ends.iter().map(|(_, length)| *length).collect()
}

/// The peer has all of a block.
fn report(script: &mut Script, (id, length): (SessionId, u64)) -> Vec<String> {
    let report = Report {
        serial: 7,
        checkpoint: 0,
        lower: 0,
        upper: length,
        claims: [(0, length)].to_vec(),
    };
    script.receive(&[Segment::Report(id, report)]);
    script.sent();
    script.told()
}

#[test]
fn transfers_that_wait_leave_as_one_block_and_each_is_told_of() {
    let mut script = script();
    for transfer in 0..3 {
        script.transmit(transfer, 50);
    }
    let sent = open(&mut script);
    assert_eq!(lengths(&sent), [150]);
    assert_eq!(script.told(), ["sent 0", "sent 1", "sent 2"]);
    let told = report(&mut script, sent[0]);
    assert_eq!(told, ["transmitted 0", "transmitted 1", "transmitted 2"]);
    assert_eq!(script.engine.outgoing.begun(), 0);
}

#[test]
fn a_block_takes_no_more_octets_than_it_may_and_a_large_transfer_is_its_own() {
    let mut script = script();
    for (transfer, length) in [(0, 120), (1, 80), (2, 1), (3, 300), (4, 200), (5, 1)] {
        script.transmit(transfer, length);
    }
    assert_eq!(lengths(&open(&mut script)), [200, 1, 300, 200, 1]);
}

#[test]
fn a_transfer_of_which_not_all_is_there_waits_alone() {
    let mut script = script();
    script.transmit(0, 50);
    let transfer = TransferId(1);
    script.command(LinkCommand::Transmit {
        transfer,
        length: 60,
    });
    for (transfer, octets) in [(1, 10), (1, 20)] {
        let transfer = TransferId(transfer);
        let octets = Piece::Octets(alloc::vec![1; octets].into());
        script.command(LinkCommand::Supply { transfer, octets });
    }
    script.transmit(2, 40);
    assert_eq!(lengths(&open(&mut script)), [90]);
    let octets = Piece::Octets(alloc::vec![1; 30].into());
    script.command(LinkCommand::Supply { transfer, octets });
    assert_eq!(lengths(&ends(&script.sent())), [60]);
}

#[test]
fn blocks_of_which_a_part_is_green_have_one_transfer() {
    for red in [Red::None, Red::Octets(10)] {
        let mut script = script_of(red);
        script.transmit(0, 20);
        script.transmit(1, 20);
        assert_eq!(lengths(&open(&mut script)), [20, 20]);
    }
}

#[test]
fn a_transfer_is_taken_out_before_its_block_begins_and_goes_on_with_it_afterwards() {
    let mut script = script();
    for transfer in 0..4 {
        script.transmit(transfer, 40 + transfer);
    }
    // The block is made when something could leave, but for the rate.
    script.engine.outgoing.gather(&script.engine.local.config);
    let queued = script.engine.outgoing.queued_octets();
    assert_eq!(queued, 166);
    for transfer in [0, 2] {
        let transfer = TransferId(transfer);
        script.command(LinkCommand::Cancel { transfer });
    }
    assert_eq!(script.told(), ["failed 0: None, 0", "failed 2: None, 0"]);
    assert_eq!(script.engine.outgoing.queued_octets(), 84);
    let sent = open(&mut script);
    assert_eq!(lengths(&sent), [84]);
    let transfer = TransferId(3);
    script.command(LinkCommand::Cancel { transfer });
    assert_eq!(script.told(), ["sent 1", "sent 3"]);
    let told = report(&mut script, sent[0]);
    assert_eq!(told, ["transmitted 1", "transmitted 3"]);
}

/// The peer refuses a block because of one bundle in it: which one, it does not say.
#[test]
fn after_a_refusal_each_transfer_goes_alone_and_has_its_own() {
    let mut script = script();
    for transfer in 0..2 {
        script.transmit(transfer, 50);
    }
    let sent = open(&mut script);
    assert_eq!(lengths(&sent), [100]);
    script.told();
    let refusal = |id| Segment::Cancel(id, Party::Receiver, Reason::SystemCancelled);
    script.receive(&[refusal(sent[0].0)]);
    let told = ["failed 0: None, 0", "failed 1: None, 0"];
    assert_eq!(script.told(), told, "it is no transfer's");
    script.path(PathState::Closed, PathState::Open);
    for transfer in 2..8 {
        script.transmit(transfer, 50);
    }
    let sent = open(&mut script);
    assert_eq!(lengths(&sent), [50, 50, 50, 50, 100]);
    script.told();
    script.receive(&[refusal(sent[0].0)]);
    assert_eq!(script.told(), ["failed 2: Some(NoResources), 0"]);
    // Again and again: blocks of one are more and more.
    script.receive(&[refusal(sent[4].0)]);
    script.told();
    script.path(PathState::Closed, PathState::Open);
    for transfer in 8..18 {
        script.transmit(transfer, 50);
    }
    let sent = open(&mut script);
    assert_eq!(lengths(&sent), [50, 50, 50, 50, 50, 50, 50, 50, 100]);
    report(&mut script, sent[8]);
    assert_eq!(script.pass(SECOND), []);
}

#[test]
fn a_block_of_several_that_nobody_answers_fails_for_all() {
    let mut script = script();
    script.transmit(0, 50);
    script.transmit(1, 50);
    open(&mut script);
    script.pass(60 * SECOND);
    let told = script.told();
    let failed = [
        "failed 0: Some(Retransmit), 0",
        "failed 1: Some(Retransmit), 0",
    ];
    assert_eq!(told[2..], failed);
    assert_eq!(script.engine.outgoing.begun(), 0);
}
