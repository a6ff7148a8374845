//! Transfers from a peer that may be anybody.

use super::super::conversation::MAX_EVENTS_WAITING;
use super::super::ended::MAX_ENDED;
use super::super::transfer_in::{MAX_INCOMPLETE, MAX_PARTS};
use super::*;

fn new(config: Config) -> Conversation {
    Conversation::new(config, 0, at(0))
}

#[test]
fn segments_in_any_order_are_pieces_at_once() {
    let octets = bundle(1, 10);
    let mut conversation = new(fast());
    let mut datagrams = vec![
        segment(5, 10, 7, &octets[7..]),
        segment(5, 10, 0, &octets[..3]),
        segment(5, 10, 3, &octets[3..7]),
    ];
    receive(&mut conversation, at(0), &datagrams[..2]);
    let first = ["piece of 0: 7+3 of 10", "piece of 0: 0+3 of 10"];
    assert_eq!(told(&mut conversation), first);
    assert_eq!(conversation.incoming.held(), (1, 6));
    receive(&mut conversation, at(1), &datagrams[2..]);
    let last = ["piece of 0: 3+4 of 10", "complete 0: 10"];
    assert_eq!(told(&mut conversation), last);
    assert_eq!(conversation.incoming.held(), (0, 0));
    // Draft 3.6.2: a transfer that is over is still known, in whatever form it comes again.
    datagrams.push(segment(5, 10, 0, &octets));
    datagrams.push(segment(5, 11, 0, &octets));
    receive(&mut conversation, at(9_000), &datagrams);
    assert_eq!(told(&mut conversation), Vec::<String>::new());
    // Afterwards the number may be another transfer's.
    receive(&mut conversation, at(10_001), &[segment(5, 10, 0, &octets)]);
    assert_eq!(told(&mut conversation).len(), 2);
}

#[test]
fn segments_that_came_before_are_dropped_and_overlaps_counted() {
    let octets = bundle(1, 20);
    let mut conversation = new(fast());
    let piece = |from: usize, to: usize| segment(0, 20, from as u64, &octets[from..to]);
    let datagrams = [piece(0, 5), piece(0, 5), piece(1, 4), piece(10, 15)];
    receive(&mut conversation, at(0), &datagrams);
    let expected = ["piece of 0: 0+5 of 20", "piece of 0: 10+5 of 20"];
    assert_eq!(told(&mut conversation), expected);
    for (second, (from, to)) in (1..).zip([(0, 10), (4, 11), (9, 11), (14, 20), (0, 20)]) {
        receive(&mut conversation, at(second * 1_000), &[piece(from, to)]);
        let overlap = ["1 x segments of a transfer overlap (3.6.2)"];
        assert_eq!(told(&mut conversation), overlap, "{from}..{to}");
    }
    receive(&mut conversation, at(6_000), &[piece(5, 10), piece(15, 20)]);
    let told = told(&mut conversation);
    assert_eq!(told.last().unwrap(), "complete 0: 20");
}

/// Draft 3.5.2.
#[test]
fn differing_lengths_end_a_transfer() {
    let octets = bundle(1, 20);
    let mut conversation = new(fast());
    let datagrams = [
        segment(0, 20, 0, &octets[..5]),
        segment(0, 19, 5, &octets[5..10]),
        segment(0, 20, 5, &octets[5..10]),
    ];
    receive(&mut conversation, at(0), &datagrams);
    let expected = [
        "piece of 0: 0+5 of 20",
        "abandoned 0: Some(NotAcceptable)",
        "1 x segments say different lengths of their transfer (3.5.2)",
    ];
    assert_eq!(told(&mut conversation), expected);
    assert_eq!(conversation.incoming.held(), (0, 0));
}

/// Draft 3.6.2.
#[test]
fn a_transfer_that_does_not_begin_as_a_bundle_is_dropped() {
    let mut conversation = new(fast());
    let datagrams = [
        segment(0, 9, 3, b"abc"),
        segment(0, 9, 0, b"\xa0bc"),
        segment(0, 9, 6, b"abc"),
        segment(1, 3, 0, b"abc"),
        segment(2, 9, 0, b""),
        segment(3, 0, 0, b""),
    ];
    receive(&mut conversation, at(0), &datagrams);
    let expected = [
        "piece of 0: 3+3 of 9",
        "abandoned 0: Some(NotAcceptable)",
        "2 x a segment has no octets (3.6.2)",
        "2 x a transfer does not begin as a bundle does (3.6.2)",
    ];
    assert_eq!(told(&mut conversation), expected);
}

#[test]
fn an_incomplete_transfer_is_given_up_when_nothing_more_comes() {
    let octets = bundle(1, 20);
    let mut conversation = new(fast());
    receive(&mut conversation, at(0), &[segment(0, 20, 0, &octets[..5])]);
    receive(
        &mut conversation,
        at(8_000),
        &[segment(0, 20, 5, &octets[5..10])],
    );
    told(&mut conversation);
    assert_eq!(conversation.poll_timeout(), Some(at(18_000).monotonic));
    conversation.handle_timeout(at(17_999));
    assert_eq!(told(&mut conversation), Vec::<String>::new());
    conversation.handle_timeout(at(18_000));
    assert_eq!(told(&mut conversation), ["abandoned 0: None"]);
    assert_eq!(conversation.incoming.held(), (0, 0));
    assert_eq!(conversation.poll_timeout(), None);
    // A segment that comes too late begins no transfer, which could not be whole.
    receive(
        &mut conversation,
        at(19_000),
        &[segment(0, 20, 10, &octets[10..])],
    );
    assert_eq!(told(&mut conversation), Vec::<String>::new());
}

#[test]
fn a_transfer_in_drops_is_given_up_after_its_longest_time() {
    let mut conversation = new(fast());
    let mut second = 0_u64;
    let told = loop {
        let one = segment(0, 1 << 20, second, &bundle(0, 1));
        receive(&mut conversation, at(second * 1_000), &[one]);
        let told = told(&mut conversation);
        if told.iter().any(|told| told.starts_with("abandoned")) {
            break told;
        }
        second += 1;
    };
    assert_eq!((second, told), (3_600, vec!["abandoned 0: None".into()]));
}

#[test]
fn no_time_passes_for_a_transfer_while_nothing_can_come() {
    let octets = bundle(1, 20);
    let mut conversation = new(fast());
    receive(&mut conversation, at(0), &[segment(0, 20, 0, &octets[..5])]);
    let deaf = Path {
        incoming: PathState::Closed,
        ..Path::default()
    };
    conversation.handle_path(at(4_000), deaf);
    assert_eq!(conversation.poll_timeout(), None);
    conversation.handle_timeout(at(5_000_000));
    conversation.handle_path(at(9_000_000), Path::default());
    assert_eq!(conversation.poll_timeout(), Some(at(9_006_000).monotonic));
    receive(
        &mut conversation,
        at(9_005_999),
        &[segment(0, 20, 5, &octets[5..])],
    );
    let told = told(&mut conversation);
    assert_eq!(told.last().unwrap(), "complete 0: 20");
}

#[test]
fn the_oldest_incomplete_transfer_gives_way_to_the_newest() {
    let mut conversation = new(fast());
    let most = MAX_INCOMPLETE as u64;
    for number in 0..most {
        receive(
            &mut conversation,
            at(number),
            &[segment(number, 9, 0, &bundle(0, 1))],
        );
    }
    // The first one is refreshed, so the second is the oldest.
    receive(&mut conversation, at(most), &[segment(0, 9, 1, b"x")]);
    told(&mut conversation);
    receive(
        &mut conversation,
        at(2_000),
        &[segment(most, 9, 0, &bundle(0, 1))],
    );
    let expected = [
        "abandoned 1: Some(NoResources)".into(),
        alloc::format!("piece of {most}: 0+1 of 9"),
        "1 x incomplete transfers take too much room".into(),
    ];
    assert_eq!(told(&mut conversation), expected);
    assert_eq!(conversation.incoming.held(), (MAX_INCOMPLETE, most + 1));
}

#[test]
fn octets_of_incomplete_transfers_are_bounded() {
    let config = Config {
        transfer_mru: 1_000,
        reassembly_octets: 1_500,
        ..fast()
    };
    let mut conversation = new(config);
    for number in 0..3 {
        let most = segment(number, 1_000, 0, &bundle(0, 500));
        receive(&mut conversation, at(number), &[most]);
    }
    assert_eq!(conversation.incoming.held(), (3, 1_500));
    told(&mut conversation);
    // One octet more: the oldest other one goes, though this one is older.
    receive(&mut conversation, at(10), &[segment(0, 1_000, 500, b"x")]);
    assert_eq!(conversation.incoming.held(), (2, 1_001));
    assert_eq!(told(&mut conversation)[0], "abandoned 1: Some(NoResources)");
}

#[test]
fn separate_parts_of_a_transfer_are_bounded() {
    let mut conversation = new(fast());
    let most = MAX_PARTS as u64;
    let length = 4 * most;
    let parts: Vec<_> = (0..most)
        .map(|at| segment(0, length, 2 * at + 1, b"x"))
        .collect();
    receive(&mut conversation, at(0), &parts);
    assert_eq!(told(&mut conversation).len(), MAX_PARTS);
    receive(
        &mut conversation,
        at(0),
        &[segment(0, length, length - 1, b"x")],
    );
    assert_eq!(
        told(&mut conversation),
        ["1 x too many separate parts of a transfer came"]
    );
    // A segment that joins two parts is welcome.
    receive(&mut conversation, at(0), &[segment(0, length, 2, b"x")]);
    assert_eq!(told(&mut conversation).len(), 1);
    receive(
        &mut conversation,
        at(0),
        &[segment(0, length, length - 1, b"x")],
    );
    assert_eq!(told(&mut conversation).len(), 1);
}

#[test]
fn transfers_that_are_over_are_remembered_up_to_a_bound() {
    let mut conversation = new(fast());
    for number in 0..=MAX_ENDED as u64 {
        let one = segment(number, 1, 0, &bundle(0, 1));
        receive(&mut conversation, at(0), &[one]);
        assert_eq!(told(&mut conversation).len(), 2);
    }
    assert_eq!(conversation.incoming.known(), MAX_ENDED);
    receive(&mut conversation, at(0), &[segment(1, 1, 0, &bundle(0, 1))]);
    assert_eq!(told(&mut conversation).len(), 0);
    receive(&mut conversation, at(0), &[segment(0, 1, 0, &bundle(0, 1))]);
    assert_eq!(told(&mut conversation).len(), 2, "the first is forgotten");
}

#[test]
fn a_refused_transfer_is_not_heard_of_again() {
    let octets = bundle(1, 20);
    let mut conversation = new(fast());
    receive(&mut conversation, at(0), &[segment(9, 20, 0, &octets[..5])]);
    told(&mut conversation);
    let refuse = LinkCommand::Refuse {
        transfer: TransferId(0),
        reason: RefuseReason::NoResources,
    };
    conversation.handle_command(at(0), refuse);
    receive(&mut conversation, at(0), &[segment(9, 20, 5, &octets[5..])]);
    assert_eq!(told(&mut conversation), Vec::<String>::new());
    assert_eq!(conversation.incoming.held(), (0, 0));
}

#[test]
fn a_flood_is_dropped_when_nobody_takes_its_events() {
    let mut conversation = new(fast());
    let one = bundle(0, 3);
    let most = MAX_EVENTS_WAITING / 2;
    receive(&mut conversation, at(0), &vec![one.clone(); most]);
    assert!(!conversation.wants_datagrams());
    receive(&mut conversation, at(0), &vec![one.clone(); 7]);
    let told = told(&mut conversation);
    assert_eq!(told.len(), MAX_EVENTS_WAITING + 1);
    assert_eq!(
        told.last().unwrap(),
        "7 x datagrams come faster than they are taken"
    );
    assert!(conversation.wants_datagrams());
    receive(&mut conversation, at(0), &[one]);
    assert_eq!(events(&mut conversation).len(), 2);
}

#[test]
fn faults_are_told_once_a_second() {
    let mut conversation = new(fast());
    let unknown = vec![vec![0xff]; 1_000];
    receive(&mut conversation, at(0), &unknown);
    let first = "1000 x a datagram begins as no message does (3.4)";
    assert_eq!(told(&mut conversation), [first]);
    receive(&mut conversation, at(1), &unknown[..7]);
    receive(&mut conversation, at(999), &unknown[..8]);
    assert_eq!(told(&mut conversation), Vec::<String>::new());
    assert_eq!(conversation.poll_timeout(), Some(at(1_000).monotonic));
    conversation.handle_timeout(at(1_000));
    let second = "15 x a datagram begins as no message does (3.4)";
    assert_eq!(told(&mut conversation), [second]);
    assert_eq!(conversation.poll_timeout(), None);
}

#[test]
fn a_link_that_is_over_abandons_what_is_incomplete() {
    let mut conversation = new(fast());
    receive(
        &mut conversation,
        at(0),
        &[segment(9, 20, 0, &bundle(0, 5))],
    );
    told(&mut conversation);
    conversation.handle_command(at(0), LinkCommand::Disconnected);
    assert_eq!(
        told(&mut conversation),
        ["abandoned 0: None", "Down(Disconnected)"]
    );
    receive(&mut conversation, at(0), &[bundle(0, 5)]);
    assert_eq!(told(&mut conversation), Vec::<String>::new());
}
