//! Announcements and keepalives.

use super::*;
use crate::udpcl::Announcement;

fn announcing(node_id: &str) -> Config {
    Config {
        announcement: Some(Announcement {
            node_id: node(node_id),
            interval: Duration::from_secs(10),
        }),
        ..fast()
    }
}

/// Draft 3.7: Sender Listen, with Extension Support and Sender Node ID.
#[test]
fn an_announcement_says_who_we_are_and_what_we_read() {
    let mut conversation = Conversation::new(announcing("ipn:2.0"), 0, at(0));
    let golden = b"\xa3\x01\x84\x01\x03\x02\x00\x03\x19\x27\x10\x04\x67ipn:2.0".to_vec();
    assert_eq!(drain(&mut conversation, at(0)), [&golden[..]]);
    assert_eq!(conversation.poll_timeout(), Some(at(10_000).monotonic));
    conversation.handle_timeout(at(9_999));
    assert!(drain(&mut conversation, at(9_999)).is_empty());
    conversation.handle_timeout(at(10_000));
    assert_eq!(drain(&mut conversation, at(10_000)), [golden]);
}

#[test]
fn a_node_id_that_does_not_fit_stays_out() {
    let long = alloc::format!("dtn://{}/", "n".repeat(200));
    let config = Config {
        mtu: 128,
        ..announcing(&long)
    };
    let mut conversation = Conversation::new(config, 0, at(0));
    let golden = b"\xa2\x01\x84\x01\x03\x02\x00\x03\x19\x27\x10".to_vec();
    assert_eq!(drain(&mut conversation, at(0)), [golden]);
}

#[test]
fn a_peer_is_known_from_the_configuration_or_from_its_announcement() {
    let announcement = drain(
        &mut Conversation::new(announcing("ipn:2.0"), 0, at(0)),
        at(0),
    );
    for peer in [
        Peer::Unknown,
        Peer::Announced,
        Peer::Known(node("ipn:2.0")),
        Peer::Known(node("ipn:3.0")),
    ] {
        let config = Config {
            peer: peer.clone(),
            ..fast()
        };
        let mut conversation = Conversation::new(config, 0, at(0));
        let ups = |told: &[DatagramEvent]| {
            let peers = told.iter().filter_map(|event| match event {
                DatagramEvent::Up { peer } => Some(peer.clone()),
                _ => None,
            });
            peers.collect::<Vec<_>>()
        };
        let first = events(&mut conversation);
        receive(&mut conversation, at(5), &announcement);
        let second = events(&mut conversation);
        let expected = match &peer {
            Peer::Known(peer) => (vec![peer.clone()], vec![]),
            Peer::Announced => (vec![], vec![node("ipn:2.0")]),
            Peer::Unknown => (vec![], vec![]),
        };
        assert_eq!((ups(&first), ups(&second)), expected, "{peer:?}");
        let is_other = peer == Peer::Known(node("ipn:3.0"));
        let faults = second
            .iter()
            .filter(|event| matches!(event, DatagramEvent::Fault { .. }));
        assert_eq!(faults.count(), usize::from(is_other), "{peer:?}");
        // The same announcement again is no news, and no second Up comes of another name.
        receive(&mut conversation, at(8), &announcement);
        assert!(events(&mut conversation).is_empty());
        let other = drain(
            &mut Conversation::new(announcing("ipn:9.0"), 0, at(0)),
            at(0),
        );
        receive(&mut conversation, at(5_000), &other);
        assert_eq!(ups(&events(&mut conversation)), []);
    }
}

/// Draft 3.5.3: three intervals without Sender Listen.
#[test]
fn a_peer_that_announces_itself_no_more_listens_no_more() {
    let announcement = drain(
        &mut Conversation::new(announcing("ipn:2.0"), 0, at(0)),
        at(0),
    );
    let mut conversation = Conversation::new(fast(), 0, at(0));
    let listens = |conversation: &mut Conversation| {
        let told = events(conversation);
        told.into_iter()
            .map(|event| match event {
                DatagramEvent::Announced { node_id, listens } => {
                    assert_eq!(node_id, Some(node("ipn:2.0")));
                    listens
                }
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    receive(&mut conversation, at(0), &announcement);
    let interval = Some(Duration::from_secs(10));
    assert_eq!(listens(&mut conversation), [interval]);
    receive(&mut conversation, at(5_000), &announcement);
    conversation.handle_timeout(at(34_999));
    assert_eq!(listens(&mut conversation), []);
    assert_eq!(conversation.poll_timeout(), Some(at(35_000).monotonic));
    conversation.handle_timeout(at(35_000));
    assert_eq!(listens(&mut conversation), [None]);
    assert_eq!(conversation.poll_timeout(), None);
    receive(&mut conversation, at(40_000), &announcement);
    assert_eq!(listens(&mut conversation), [interval]);
}

#[test]
fn a_flood_of_announcements_is_no_flood_of_events() {
    let mut conversation = Conversation::new(fast(), 0, at(0));
    let announcements: Vec<_> = (1..1_000)
        .map(|number| {
            let config = announcing(&alloc::format!("ipn:{number}.0"));
            drain(&mut Conversation::new(config, 0, at(0)), at(0)).remove(0)
        })
        .collect();
    receive(&mut conversation, at(100), &announcements);
    assert_eq!(events(&mut conversation).len(), 1);
    receive(&mut conversation, at(1_099), &announcements);
    assert_eq!(events(&mut conversation).len(), 0);
    receive(&mut conversation, at(1_100), &announcements);
    assert_eq!(events(&mut conversation).len(), 1);
}

/// RFC 7122 3.4.
#[test]
fn a_keepalive_is_four_zeros_after_a_rest() {
    let config = Config {
        // No shorter than 15 seconds.
        keepalive: Some(Duration::from_secs(1)),
        ..fast()
    };
    let mut conversation = Conversation::new(config, 0, at(0));
    assert_eq!(conversation.poll_timeout(), Some(at(15_000).monotonic));
    // A bundle puts it off.
    transmit(&mut conversation, at(10_000), 0, &bundle(0, 10));
    assert_eq!(drain(&mut conversation, at(10_000)).len(), 1);
    conversation.handle_timeout(at(15_000));
    assert!(drain(&mut conversation, at(15_000)).is_empty());
    conversation.handle_timeout(at(25_000));
    assert_eq!(drain(&mut conversation, at(25_000)), [[0; 4]]);
    assert_eq!(conversation.poll_timeout(), Some(at(40_000).monotonic));
    // It waits while nothing can leave.
    let path = Path {
        outgoing: PathState::Closed,
        ..Path::default()
    };
    conversation.handle_path(at(30_000), path);
    assert_eq!(conversation.poll_timeout(), None);
    conversation.handle_timeout(at(50_000));
    assert!(drain(&mut conversation, at(50_000)).is_empty());
    conversation.handle_path(at(60_000), Path::default());
    assert_eq!(drain(&mut conversation, at(60_000)), [[0; 4]]);
}
