//! Blocks for several hops: their extensions, and engines that pass them on (docs/ltp.md).

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use proptest::prelude::*;

use super::super::end_to_end::{EndReport, EndToEnd, Service, Status};
use super::super::fault::Fault;
use super::super::onward::{Ends, Onward};
use super::super::wire::{Extension, Packet};
use super::super::{Config, Engine};
use super::script::config;
use super::world::{ALL, at, flatten};
use crate::datagram::{Batch, DatagramEvent, DatagramLink};
use crate::stream::{LinkCommand, RefuseReason, TransferId};

const TRANSFER: TransferId = TransferId(7);

fn end_to_end() -> EndToEnd {
    EndToEnd {
        source: Service {
            engine: 1,
            service: 16_384,
        },
        destination: Service {
            engine: 300,
            service: 5,
        },
        transfer: 1_000,
        length: Some(3_000),
        life_s: 86_400,
        hops: 16,
        wants_report: true,
        is_report: false,
        is_congested: true,
    }
}

/// Numbers by hand: 16,384 is 81 80 00, 300 is 82 2c, 1,000 is 87 68, 3,000 is 97 38, and 86,400 is 85 a3 00.
const GOLDEN: &[u8] = &[
    0xc0, 4, 1, 0x81, 0x80, 0x00, // source
    0xc1, 3, 0x82, 0x2c, 5, // destination
    0xc2, 2, 0x87, 0x68, // transfer
    0xc3, 2, 0x97, 0x38, // length
    0xc4, 3, 0x85, 0xa3, 0x00, // life
    0xc5, 1, 16, // hops
    0xc6, 1, 0b101, // control
];

/// The extensions of a segment that has these.
fn extensions(octets: &[u8], count: u8) -> Result<Vec<Extension>, Fault> {
    let mut segment = vec![0x03, 1, 9, count << 4];
    segment.extend_from_slice(octets);
    segment.extend_from_slice(&[0, 0, 1, 1, 0, b'x']);
    let segment = Bytes::from(segment);
    let received = Packet::new(&segment).next().unwrap()?;
    Ok(received.header)
}

fn read(octets: &[u8], count: u8) -> Result<Option<EndToEnd>, Fault> {
    extensions(octets, count).and_then(|header| EndToEnd::read(&header))
}

#[test]
fn the_extensions_are_these_octets() {
    assert_eq!(end_to_end().write(), GOLDEN);
    assert_eq!(read(GOLDEN, 7), Ok(Some(end_to_end())));
    // Others between them change nothing, and a block without any is for one hop.
    let others = [&[0x7f, 1, 9], GOLDEN, &[0x01, 1, 4]].concat();
    assert_eq!(read(&others, 9), Ok(Some(end_to_end())));
    assert_eq!(read(&[0x7f, 1, 9, 0xc7, 0], 2), Ok(None));
}

#[test]
fn extensions_of_another_form_are_refused() {
    let parts: Vec<&[u8]> = vec![
        &GOLDEN[..6],
        &GOLDEN[6..11],
        &GOLDEN[11..15],
        &GOLDEN[15..19],
        &GOLDEN[19..24],
        &GOLDEN[24..27],
        &GOLDEN[27..],
    ];
    for missing in 0..parts.len() {
        let mut fewer = parts.clone();
        fewer.remove(missing);
        assert_eq!(read(&fewer.concat(), 6), Err(Fault::EndToEnd), "{missing}");
        let twice = [GOLDEN, parts[missing]].concat();
        assert_eq!(read(&twice, 8), Err(Fault::EndToEnd), "{missing} twice");
    }
    let long: &[u8] = &[
        0xc2, 10, 0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ];
    let wrong: [(usize, &[u8]); 11] = [
        (0, &[0xc0, 1, 1]),
        (0, &[0xc0, 3, 1, 2, 3]),
        (0, &[0xc0, 0]),
        (1, &[0xc1, 2, 1, 0x80]),
        (2, long),
        (2, &[0xc2, 2, 1, 1]),
        (3, &[0xc3, 0]),
        (4, &[0xc4, 1, 0x80]),
        (5, &[0xc5, 2, 0, 1]),
        (5, &[0xc5, 0]),
        (6, &[0xc6, 1, 8]),
    ];
    for (place, octets) in wrong {
        let mut parts = parts.clone();
        parts[place] = octets;
        assert_eq!(read(&parts.concat(), 7), Err(Fault::EndToEnd), "{octets:?}");
    }
}

fn any_end_to_end() -> impl Strategy<Value = EndToEnd> {
    let numbers = any::<[u64; 7]>().prop_flat_map(|all| {
        proptest::array::uniform7(0_u32..64)
            .prop_map(move |shifts| core::array::from_fn::<_, 7, _>(|at| all[at] >> shifts[at]))
    });
    (numbers, any::<u8>(), any::<[bool; 3]>()).prop_map(|(numbers, hops, bits)| EndToEnd {
        source: Service {
            engine: numbers[0],
            service: numbers[1],
        },
        destination: Service {
            engine: numbers[2],
            service: numbers[3],
        },
        transfer: numbers[4],
        length: Some(numbers[5]).filter(|it| *it > 0),
        life_s: numbers[6],
        hops,
        wants_report: bits[0],
        is_report: bits[1],
        is_congested: bits[2],
    })
}

proptest! {
    #[test]
    fn extensions_are_read_as_they_were_written(value in any_end_to_end()) {
        prop_assert_eq!(read(&value.write(), 7), Ok(Some(value)));
    }

    #[test]
    fn reports_are_read_as_they_were_written(
        transfer in any::<u64>(),
        code in 0_usize..7,
        lengths in proptest::collection::vec((1_u64..1_000, 1_u64..1_000), 0..20),
    ) {
        let status = [
            Status::Complete, Status::Partial, Status::Expired, Status::NoRoute, Status::NoSpace, Status::TooLarge, Status::GivenUp,
        ][code];
        let claims = lengths.iter().scan(0, |behind, (gap, length)| {
            let offset = *behind + gap;
            *behind = offset + length;
            Some((offset, *length))
        });
        let report = EndReport { transfer, status, claims: claims.collect() };
        prop_assert_eq!(EndReport::decode(&report.encode()), Some(report));
    }

    #[test]
    fn no_octets_make_a_reader_fail_otherwise(octets in proptest::collection::vec(any::<u8>(), 0..120), count in 0_u8..16) {
        let _ = read(&octets, count);
        let _ = EndReport::decode(&octets);
        let damaged: Vec<u8> = GOLDEN.iter().enumerate().map(|(at, octet)| octet ^ octets.get(at).unwrap_or(&0)).collect();
        let _ = read(&damaged, 7);
    }
}

#[test]
fn reports_of_another_form_are_none() {
    for octets in [
        &[][..],
        &[1],
        &[1, 7, 0],
        &[1, 0],
        &[1, 0, 0, 0],
        &[1, 1, 1, 0, 0],
        &[1, 1, 2, 0, 4, 4, 4],
        &[1, 0, 0x87, 0xff, 0xff, 0x7f],
    ] {
        assert_eq!(EndReport::decode(octets), None, "{octets:?}");
    }
    let report = EndReport::decode(&[1, 1, 2, 0, 4, 5, 4]).unwrap();
    assert_eq!(report.claims, [(0, 4), (5, 4)]);
}

fn engine(here: u64, there: u64) -> Engine {
    let config = Config {
        engine: here,
        remote_engine: there,
        service: 16_384,
        end_to_end: true,
        mtu: 500,
        checkpoint_octets: 0,
        ..config()
    };
    Engine::new(config, here, at(0))
}

fn poll(engine: &mut Engine) -> Vec<Vec<u8>> {
    let mut out = Batch::new();
    engine.poll_datagrams(at(0), ALL, &mut out);
    engine.handle_left(at(0), out.len() as u64);
    flatten(&out)
}

fn give(engine: &mut Engine, datagrams: &[Vec<u8>]) {
    let datagrams: Vec<Bytes> = datagrams.iter().cloned().map(Bytes::from).collect();
    engine.handle_datagrams(at(0), &datagrams);
}

fn events(engine: &mut Engine) -> Vec<DatagramEvent> {
    core::iter::from_fn(|| engine.poll_event()).collect()
}

fn supply(engine: &mut Engine, octets: &[u8]) {
    let octets = Piece::Octets(Bytes::copy_from_slice(octets));
    let transfer = TRANSFER;
    engine.handle_command(at(0), LinkCommand::Supply { transfer, octets });
}

fn onward(ends: Ends) -> Onward {
    Onward {
        end_to_end: end_to_end(),
        ends,
    }
}

fn whole(red: u64, length: u64) -> Ends {
    Ends {
        red: Some(red),
        length: Some(length),
    }
}

fn has_extensions(datagram: &[u8]) -> bool {
    datagram.windows(GOLDEN.len()).any(|part| part == GOLDEN)
}

/// The octets that came, in order, and the block.
fn came(engine: &mut Engine) -> (Vec<u8>, TransferId) {
    let mut block = vec![0; 0];
    let mut of = None;
    for event in events(engine) {
        if let DatagramEvent::Piece {
            transfer,
            offset,
            octets,
            ..
        } = event
        {
            of = Some(transfer);
            block.resize(block.len().max(offset as usize + octets.len()), 0);
            block[offset as usize..][..octets.len()].copy_from_slice(&octets);
        }
    }
    (block, of.unwrap())
}

#[test]
fn a_receiver_is_told_what_the_source_said_and_segments_keep_their_size() {
    let (mut sender, mut receiver) = (engine(1, 2), engine(2, 1));
    let block: Vec<u8> = (0..3_000).map(|at| (at % 251) as u8).collect();
    sender.pass_on(at(0), TRANSFER, &onward(whole(3_000, 3_000)));
    supply(&mut sender, &block);
    let sent = poll(&mut sender);
    assert!(sent.iter().all(|it| it.len() <= 500) && sent[0].len() == 500);
    let with: Vec<bool> = sent.iter().map(|it| has_extensions(it)).collect();
    assert!(with[0] && !with[1..].contains(&true));
    give(&mut receiver, &sent);
    let (octets, transfer) = came(&mut receiver);
    assert_eq!(octets, block);
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(told.end_to_end, Some(end_to_end()));
    assert_eq!(told.ends, whole(3_000, 3_000));
    receiver.handle_command(
        at(0),
        LinkCommand::Acknowledge {
            transfer,
            octets: 3_000,
        },
    );
    give(&mut sender, &poll(&mut receiver));
    give(&mut receiver, &poll(&mut sender));
    let transmitted = |it: &DatagramEvent| matches!(it, DatagramEvent::Transmitted { transfer } if *transfer == TRANSFER);
    assert!(events(&mut sender).iter().any(transmitted));
    // The session is over, and known.
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(
        (receiver.incoming_sessions(), told.ends.red),
        (0, Some(3_000))
    );
    assert_eq!(told.end_to_end, Some(end_to_end()));
}

#[test]
fn the_start_of_a_block_that_is_lost_is_sent_again_with_its_extensions() {
    let (mut sender, mut receiver) = (engine(1, 2), engine(2, 1));
    sender.pass_on(at(0), TRANSFER, &onward(whole(3_000, 3_000)));
    supply(&mut sender, &[1; 3_000]);
    let sent = poll(&mut sender);
    give(&mut receiver, &sent[1..]);
    let (_, transfer) = came(&mut receiver);
    assert_eq!(receiver.incoming_block(transfer).unwrap().end_to_end, None);
    give(&mut sender, &poll(&mut receiver));
    let again = poll(&mut sender);
    assert!(again.iter().any(|it| has_extensions(it)));
    give(&mut receiver, &again);
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(told.end_to_end, Some(end_to_end()));
}

#[test]
fn a_block_leaves_while_nobody_knows_its_ends_and_red_stays_red() {
    let (mut sender, mut receiver) = (engine(1, 2), engine(2, 1));
    sender.pass_on(at(0), TRANSFER, &onward(Ends::default()));
    supply(&mut sender, &[1; 999]);
    let first = poll(&mut sender);
    assert_eq!(first.len(), 2, "whole segments leave");
    let red = Ends {
        red: Some(1_000),
        length: None,
    };
    sender.end_onward(at(0), TRANSFER, red);
    supply(&mut sender, &[1; 1]);
    supply(&mut sender, &[2; 500]);
    let second = poll(&mut sender);
    sender.end_onward(at(0), TRANSFER, whole(1_000, 1_501));
    supply(&mut sender, &[2; 1]);
    let third = poll(&mut sender);
    for datagrams in [&first, &second, &third] {
        give(&mut receiver, datagrams);
    }
    let (octets, transfer) = came(&mut receiver);
    assert_eq!(octets, [vec![1; 1_000], vec![2; 501]].concat());
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(told.ends, whole(1_000, 1_501));
    give(&mut sender, &poll(&mut receiver));
    let sent = |it: &DatagramEvent| matches!(it, DatagramEvent::Sent { transfer } if *transfer == TRANSFER);
    assert!(events(&mut sender).iter().any(sent));
}

#[test]
fn green_blocks_are_green_from_their_start() {
    let (mut sender, mut receiver) = (engine(1, 2), engine(2, 1));
    let green = Ends {
        red: Some(0),
        length: None,
    };
    sender.pass_on(at(0), TRANSFER, &onward(green));
    supply(&mut sender, &[3; 600]);
    let first = poll(&mut sender);
    assert_eq!(first[0][0], 4);
    sender.end_onward(at(0), TRANSFER, whole(0, 600));
    give(&mut receiver, &first);
    give(&mut receiver, &poll(&mut sender));
    let (octets, transfer) = came(&mut receiver);
    assert_eq!(octets, [3; 600]);
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(
        (told.ends, receiver.incoming_sessions()),
        (whole(0, 600), 0)
    );
    assert_eq!(told.end_to_end, Some(end_to_end()));
}

#[test]
fn wrong_extensions_are_counted_and_begin_nothing() {
    let mut receiver = engine(2, 1);
    let head = |octets: &[u8], count: u8| {
        let mut segment = vec![0x00, 1, 9, count << 4];
        segment.extend_from_slice(octets);
        segment.extend_from_slice(&[0x81, 0x80, 0x00, 0, 1, b'x']);
        segment
    };
    give(&mut receiver, &[head(&GOLDEN[6..], 6)]);
    let fault = |events: Vec<DatagramEvent>| {
        let is_it = |it: &DatagramEvent| matches!(it, DatagramEvent::Fault { rule, .. } if rule.contains("several hops"));
        events.iter().any(is_it)
    };
    assert!(fault(events(&mut receiver)) && receiver.incoming_sessions() == 0);
    // The start says something else than before: the first word stands.
    give(&mut receiver, &[head(GOLDEN, 7)]);
    let (_, transfer) = came(&mut receiver);
    let mut other = GOLDEN.to_vec();
    other[26] = 15;
    receiver.handle_timeout(at(5_000_000));
    give(&mut receiver, &[head(&other, 7), head(&[], 0)]);
    let told = receiver.incoming_block(transfer).unwrap();
    assert_eq!(told.end_to_end, Some(end_to_end()));
    // An engine that does not know them skips them, as it does others.
    let plain = Config {
        engine: 2,
        remote_engine: 1,
        service: 16_384,
        ..config()
    };
    let mut plain = Engine::new(plain, 3, at(0));
    give(&mut plain, &[head(&GOLDEN[6..], 6)]);
    let (octets, transfer) = came(&mut plain);
    assert_eq!(octets, b"x");
    assert_eq!(plain.incoming_block(transfer).unwrap().end_to_end, None);
}

#[test]
fn a_block_that_is_lost_on_the_way_is_cancelled_by_the_system() {
    let (mut sender, mut receiver) = (engine(1, 2), engine(2, 1));
    sender.pass_on(at(0), TRANSFER, &onward(Ends::default()));
    supply(&mut sender, &[1; 999]);
    give(&mut receiver, &poll(&mut sender));
    sender.cancel_onward(at(0), TRANSFER);
    let cancelled = poll(&mut sender);
    assert_eq!((cancelled[0][0], cancelled[0].last()), (12, Some(&4)));
    give(&mut receiver, &cancelled);
    let abandoned = |it: &DatagramEvent| {
        matches!(
            it,
            DatagramEvent::Abandoned {
                refused: Some(RefuseReason::NoResources),
                ..
            }
        )
    };
    assert!(events(&mut receiver).iter().any(abandoned));
}
