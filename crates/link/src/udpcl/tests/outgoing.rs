//! Transfers to a peer.

use super::*;

fn new(config: Config) -> Conversation {
    Conversation::new(config, 0, at(0))
}

/// Send a bundle of so many octets and receive it elsewhere: the datagrams, and what the sender told.
fn sent(config: Config, length: usize) -> (Vec<Vec<u8>>, Vec<String>) {
    let octets = bundle(7, length);
    let mut sender = new(config);
    transmit(&mut sender, at(0), 3, &octets);
    let datagrams = drain(&mut sender, at(0));
    sender.handle_left(at(0), datagrams.len() as u64);
    let mut receiver = new(fast());
    receive(&mut receiver, at(0), &datagrams);
    let mut ledger = Ledger::default();
    for event in events(&mut receiver) {
        assert!(!matches!(event, DatagramEvent::Fault { .. }), "{event:?}");
        ledger.note(&event);
    }
    let expected = if datagrams.is_empty() {
        vec![]
    } else {
        vec![octets]
    };
    assert_eq!(ledger.payloads(), expected);
    (datagrams, told(&mut sender))
}

#[test]
fn a_bundle_that_fits_travels_by_itself_and_a_longer_one_in_segments() {
    for (length, datagrams) in [
        (1, 1),
        (4, 1),
        (1_231, 1),
        (1_232, 1),
        (1_233, 2),
        (2_440, 2),
        (2_441, 3),
    ] {
        let (sent, told) = sent(fast(), length);
        assert_eq!(sent.len(), datagrams, "{length}");
        assert!(sent.iter().all(|datagram| datagram.len() <= 1_232));
        assert_eq!(sent.len() == 1, sent[0].len() == length);
        assert_eq!(told, ["sent 3"]);
    }
}

#[test]
fn no_bundle_is_empty_and_none_longer_than_a_transfer_may_be() {
    assert_eq!(
        sent(fast(), 0),
        (vec![], vec!["failed 3: Some(NotAcceptable)".into()])
    );
    let (datagrams, told) = sent(fast(), 4 << 20);
    assert_eq!((datagrams.len(), told), (3_453, vec!["sent 3".into()]));
    // All but the last fill the path, so the system can cut them itself.
    assert!(
        datagrams
            .iter()
            .rev()
            .skip(1)
            .all(|datagram| datagram.len() == 1_232)
    );
    let mut sender = new(fast());
    let (transfer, length) = (TransferId(0), (4 << 20) + 1);
    sender.handle_command(at(0), LinkCommand::Transmit { transfer, length });
    assert_eq!(super::told(&mut sender), ["failed 0: Some(NoResources)"]);
    assert_eq!(sender.capabilities().transfer_mru, 4 << 20);
    // Octets that are supplied all the same go nowhere.
    let octets = Piece::Extent(Extent { offset: 0, length });
    sender.handle_command(at(0), LinkCommand::Supply { transfer, octets });
    assert!(drain(&mut sender, at(0)).is_empty());
}

#[test]
fn datagrams_of_every_size_are_possible() {
    for mtu in [0, 128, 257, 258, 259, 1_232, 9_000, 65_507, 1 << 40] {
        let config = Config { mtu, ..fast() };
        for length in [100, 1_000, 70_000, 200_000] {
            let (sent, told) = sent(config.clone(), length);
            let most = usize::try_from(mtu).unwrap().clamp(128, 65_507);
            assert!(sent.iter().all(|datagram| datagram.len() <= most));
            assert_eq!(told, ["sent 3"]);
        }
    }
}

/// Draft 4.2: a sender may always use identified transfers.
#[test]
fn framing_may_be_asked_for_always() {
    let config = Config {
        framing: Framing::Always,
        ..fast()
    };
    let (datagrams, _) = sent(config.clone(), 3);
    let octets = bundle(7, 3);
    let golden = [&[0xa1, 0x02, 0x82, 0x00, 0x43][..], &octets].concat();
    assert_eq!(datagrams, [golden]);
    // Map, key, array, ID and the byte string's head: 7 octets.
    assert_eq!(sent(config.clone(), 1_225).0.len(), 1);
    assert_eq!(sent(config, 1_226).0.len(), 2);
}

/// Draft 3.6.1.
#[test]
fn transfer_ids_follow_each_other_from_the_seed() {
    let config = Config {
        framing: Framing::Always,
        ..fast()
    };
    let mut sender = Conversation::new(config, 0xffff_ffff_0000_0016, at(0));
    for transfer in 0..3 {
        transmit(&mut sender, at(0), 50 - transfer, &bundle(0, 2));
    }
    let ids: Vec<_> = drain(&mut sender, at(0))
        .iter()
        .map(|datagram| datagram[3..datagram.len() - 2].to_vec())
        .collect();
    assert_eq!(
        ids,
        [vec![0x16, 0x42], vec![0x17, 0x42], vec![0x18, 0x18, 0x42]]
    );
}

#[test]
fn nothing_is_sent_before_it_left() {
    let mut sender = new(fast());
    transmit(&mut sender, at(0), 0, &bundle(0, 3_000));
    transmit(&mut sender, at(0), 1, &bundle(0, 10));
    assert_eq!(sender.queued_octets(), 3_010);
    assert_eq!(drain(&mut sender, at(0)).len(), 4);
    assert_eq!(sender.queued_octets(), 0);
    assert_eq!(told(&mut sender), Vec::<String>::new());
    sender.handle_left(at(0), 2);
    assert_eq!(told(&mut sender), Vec::<String>::new());
    sender.handle_left(at(0), 1);
    assert_eq!(told(&mut sender), ["sent 0"]);
    sender.handle_left(at(0), 1);
    assert_eq!(told(&mut sender), ["sent 1"]);
}

#[test]
#[should_panic(expected = "no more datagrams leave than were given")]
fn a_driver_that_counts_wrongly_is_found_out() {
    new(fast()).handle_left(at(0), 1);
}

#[test]
fn a_transfer_without_octets_holds_up_no_other() {
    let mut sender = new(fast());
    let (slow, length) = (TransferId(0), 3_000);
    sender.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer: slow,
            length,
        },
    );
    transmit(&mut sender, at(0), 1, &bundle(1, 10));
    assert_eq!(drain(&mut sender, at(0)).len(), 1);
    let mut sizes = Vec::new();
    let octets = bundle(0, 3_000);
    for part in octets.chunks(500) {
        let octets = Piece::Octets(Bytes::copy_from_slice(part));
        sender.handle_command(
            at(0),
            LinkCommand::Supply {
                transfer: slow,
                octets,
            },
        );
        sizes.push(
            drain(&mut sender, at(0))
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(
        sizes,
        [vec![], vec![], vec![1_232], vec![], vec![1_232], vec![573]]
    );
}

/// Draft 2.1: to cancel is to stop sending.
#[test]
fn a_cancelled_transfer_stops_and_fails_once_its_datagrams_left() {
    let cancel = |sender: &mut Conversation, transfer| {
        let transfer = TransferId(transfer);
        sender.handle_command(at(0), LinkCommand::Cancel { transfer });
    };
    let mut sender = new(fast());
    for transfer in 0..3 {
        transmit(&mut sender, at(0), transfer, &bundle(transfer, 3_000));
    }
    let mut batch = Batch::new();
    let limit = Limit {
        datagrams: 5,
        octets: u64::MAX,
    };
    sender.poll_datagrams(at(0), limit, &mut batch);
    // One wholly left, one begun, one queued, one unknown.
    (0..4).for_each(|transfer| cancel(&mut sender, transfer));
    assert_eq!(told(&mut sender), ["failed 2: None"]);
    sender.handle_left(at(0), 5);
    assert_eq!(told(&mut sender), ["sent 0", "failed 1: None"]);
    assert!(drain(&mut sender, at(0)).is_empty());
    assert_eq!(sender.queued_octets(), 0);
    // One whose datagrams have left already fails at once.
    transmit(&mut sender, at(0), 7, &bundle(0, 3_000));
    sender.poll_datagrams(
        at(0),
        Limit {
            datagrams: 1,
            ..limit
        },
        &mut batch,
    );
    sender.handle_left(at(0), 1);
    cancel(&mut sender, 7);
    assert_eq!(told(&mut sender), ["failed 7: None"]);
}

#[test]
fn an_ending_link_sends_what_it_has_begun() {
    let terminate = LinkCommand::Terminate {
        reason: TerminateReason::Busy,
    };
    for time in [0, 10_000] {
        let mut sender = new(fast());
        transmit(&mut sender, at(0), 0, &bundle(0, 3_000));
        transmit(&mut sender, at(0), 1, &bundle(0, 10));
        let limit = Limit {
            datagrams: 1,
            octets: 0,
        };
        sender.poll_datagrams(at(0), limit, &mut Batch::new());
        sender.handle_command(at(0), terminate.clone());
        assert_eq!(told(&mut sender), ["failed 1: None", "Ending"]);
        transmit(&mut sender, at(0), 2, &bundle(0, 10));
        assert_eq!(told(&mut sender), ["failed 2: None"]);
        assert_eq!(sender.poll_timeout(), Some(at(10_000).monotonic));
        sender.handle_timeout(at(time));
        let left = drain(&mut sender, at(time)).len() as u64;
        if time == 0 {
            assert_eq!(left, 2);
            sender.handle_left(at(0), 3);
            assert_eq!(told(&mut sender), ["sent 0", "Down(Terminated(Busy))"]);
        } else {
            assert_eq!(left, 0);
            assert_eq!(
                told(&mut sender),
                ["failed 0: None", "Down(Terminated(Busy))"]
            );
        }
        assert_eq!(sender.poll_timeout(), None);
    }
}

#[test]
fn a_link_without_a_socket_fails_everything() {
    let mut sender = new(fast());
    transmit(&mut sender, at(0), 0, &bundle(0, 10));
    drain(&mut sender, at(0));
    transmit(&mut sender, at(0), 1, &bundle(0, 10));
    sender.handle_command(at(0), LinkCommand::Disconnected);
    let expected = ["failed 0: None", "failed 1: None", "Down(Disconnected)"];
    assert_eq!(told(&mut sender), expected);
    assert_eq!(
        events(&mut sender).len() + drain(&mut sender, at(0)).len(),
        0
    );
    let down = DownReason::Disconnected;
    assert_eq!(alloc::format!("{down}"), "the connection ended");
}

#[test]
fn limits_of_a_call_are_kept() {
    let mut sender = new(fast());
    transmit(&mut sender, at(0), 0, &bundle(0, 100_000));
    for (datagrams, octets, expected) in [
        (0, 9_999, 0),
        (3, 9_999, 3),
        (9, 2_464, 2),
        (9, 2_463, 1),
        (9, 0, 1),
    ] {
        let mut batch = Batch::new();
        sender.poll_datagrams(at(0), Limit { datagrams, octets }, &mut batch);
        assert_eq!(batch.len(), expected, "{datagrams} {octets}");
    }
}

#[test]
fn extents_of_the_store_are_cut_and_never_read() {
    let mut sender = new(fast());
    let transfer = TransferId(0);
    sender.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer,
            length: 3_000,
        },
    );
    for octets in [
        Piece::Octets(Bytes::from(bundle(0, 100))),
        Piece::Extent(Extent {
            offset: 5_000,
            length: 2_900,
        }),
    ] {
        sender.handle_command(at(0), LinkCommand::Supply { transfer, octets });
    }
    let mut batch = Batch::new();
    sender.poll_datagrams(at(0), ALL, &mut batch);
    let pieces: Vec<usize> = batch.datagrams().map(<[Piece]>::len).collect();
    assert_eq!(pieces, [3, 2, 2]);
    let runs: Vec<_> = batch
        .runs(ALL)
        .map(|run| (run.datagrams, run.size, run.octets))
        .collect();
    assert_eq!(runs, [(3, 1_232, batch.octets())]);
    let mut receiver = new(fast());
    receive(&mut receiver, at(0), &flatten(&batch));
    let mut ledger = Ledger::default();
    events(&mut receiver)
        .iter()
        .for_each(|event| ledger.note(event));
    let expected = [bundle(0, 100), (5_000..7_900).map(log_octet).collect()].concat();
    assert_eq!(ledger.payloads(), [expected]);
}

#[test]
fn nothing_leaves_while_the_path_is_closed() {
    let mut sender = new(fast());
    transmit(&mut sender, at(0), 0, &bundle(0, 10));
    let closed = Path {
        outgoing: PathState::Closed,
        ..Path::default()
    };
    sender.handle_path(at(0), closed);
    assert!(drain(&mut sender, at(0)).is_empty());
    assert_eq!(sender.poll_timeout(), None);
    sender.handle_path(at(90_000), Path::default());
    assert_eq!(drain(&mut sender, at(90_000)).len(), 1);
}

/// Anybody can send an announcement from the peer's address.
#[test]
fn no_announcement_stops_a_transfer() {
    let mut sender = new(fast());
    let only_listen = vec![0xa1, 0x01, 0x82, 0x03, 0x00];
    receive(&mut sender, at(0), &[only_listen]);
    transmit(&mut sender, at(0), 0, &bundle(0, 1_233));
    assert_eq!(drain(&mut sender, at(0)).len(), 2);
}

#[test]
fn a_path_may_take_less_and_more_again() {
    let mut sender = new(fast());
    let octets = bundle(0, 5_000);
    let path = |mtu| Path {
        mtu,
        ..Path::default()
    };
    let one = |sender: &mut Conversation| {
        let mut batch = Batch::new();
        sender.poll_datagrams(
            at(0),
            Limit {
                datagrams: 1,
                ..ALL
            },
            &mut batch,
        );
        flatten(&batch)
    };
    // One that waits for its octets gets ready as less is enough.
    let (waiting, length) = (TransferId(1), 5_000);
    sender.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer: waiting,
            length,
        },
    );
    let few = Piece::Octets(Bytes::from(bundle(1, 500)));
    sender.handle_command(
        at(0),
        LinkCommand::Supply {
            transfer: waiting,
            octets: few,
        },
    );
    transmit(&mut sender, at(0), 0, &octets);
    let mut datagrams = one(&mut sender);
    for mtu in [Some(500), Some(0), Some(1_000), None, Some(9_000)] {
        sender.handle_path(at(0), path(mtu));
        datagrams.extend(one(&mut sender));
    }
    let sizes: Vec<_> = datagrams.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_232, 500, 128, 1_000, 1_232, 983]);
    sender.handle_path(at(0), path(Some(300)));
    assert_eq!(one(&mut sender)[0].len(), 300);
    sender.handle_path(at(0), path(None));
    assert!(one(&mut sender).is_empty(), "its octets are not there yet");
    let mut receiver = new(fast());
    receive(&mut receiver, at(0), &datagrams);
    let mut ledger = Ledger::default();
    events(&mut receiver)
        .iter()
        .for_each(|event| ledger.note(event));
    assert_eq!(ledger.payloads(), [octets]);
}
