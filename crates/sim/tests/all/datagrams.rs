//! The recording of a node that answers by datagrams is followed by another one.

#[path = "../../../node/tests/all/world/store.rs"]
mod store;

use std::collections::VecDeque;

use bytes::Bytes;
use dhow_bundle::storage::{Extents, StoreEvent};
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, Instant, Now};
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_node::Node;
use dhow_node::config::{Config, LinkConfig, LinkId, Protocol, Route, UdpPolicy};
use dhow_node::driver::{Action, Event, Purpose, StreamId, Telling};
use dhow_node::recording::{Content, Finish, Recorder};
use dhow_sim::replay::{End, Replay, Step};
use store::Store;

const LIMIT: Limit = Limit {
    datagrams: 2,
    octets: 65_507,
};

fn config() -> Config {
    let mut link = LinkConfig::usual("beta".into());
    link.protocol = Protocol::Udp(UdpPolicy::default());
    link.policy.peer = Some("ipn:2.0".parse().unwrap());
    Config {
        links: vec![link],
        routes: vec![Route {
            to: "ipn:2.*".into(),
            via: "beta".into(),
            priority: 0,
        }],
        ..Config::usual(vec!["ipn:1.0".parse().unwrap()])
    }
}

/// A bundle with 900 of these octets.
fn bundle(destination: &str, octet: u8) -> Bytes {
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(800_000_000_000),
        sequence: u64::from(octet),
    };
    let [source, destination] = ["ipn:2.5", destination].map(|id| id.parse().unwrap());
    BundleBuilder::new(source, destination, creation, 60_000)
        .bundle(&vec![octet; 900])
        .unwrap()
}

/// A recording writes one place as such.
fn in_one_place(event: StoreEvent) -> Event {
    Event::Store(match event {
        StoreEvent::Stored { key, extents } => StoreEvent::Stored {
            key,
            extents: Extents::One(extents.as_slice()[0]),
        },
        event => event,
    })
}

/// The recording of a node that gets these datagrams, and how many it sent.
fn recorded(content: Content, datagrams: Vec<Bytes>) -> (Vec<u8>, usize) {
    let now = Now {
        monotonic: Instant::from_nanos(7),
        dtn: DtnTime::from_millis(800_000_000_100),
    };
    let recorder = Recorder::new("dhow 0", &config(), Telling::default(), content);
    let mut node = Node::new(config()).with_recorder(recorder);
    let stream = StreamId(4);
    let purpose = Purpose::Dialled { link: LinkId(0) };
    let opened = Event::Opened {
        reserved_time: DtnTime::UNKNOWN,
        reserved_sequence: 0,
        removed: Vec::new(),
    };
    let mut events = VecDeque::from([
        opened,
        Event::Connected { stream, purpose },
        Event::Datagrams { stream, datagrams },
    ]);
    let (mut store, mut sent) = (Store::default(), 0);
    while let Some(event) = events.pop_front() {
        node.handle(now, event);
        while let Some(action) = node.poll(now) {
            match action {
                Action::Store(command) => store.handle(command),
                Action::Read { ticket, extents } => {
                    let octets = Some(store.read(&extents));
                    events.push_back(Event::Read { ticket, octets });
                }
                Action::Flush { .. } => loop {
                    let mut out = Batch::new();
                    node.poll_datagrams(now, stream, LIMIT, &mut out);
                    if out.is_empty() {
                        break;
                    }
                    sent += out.len();
                    let datagrams = u64::try_from(out.len()).unwrap();
                    events.push_back(Event::Left { stream, datagrams });
                },
                _ => {}
            }
        }
        if events.is_empty() && !store.is_clean() {
            events.extend(store.sync().into_iter().map(in_one_place));
        }
    }
    assert_eq!(node.stored().0, 1, "the answer has left, and is gone");
    let mut out = Vec::new();
    let recorder = node.take_recorder().unwrap();
    recorder.finish(Finish::Node, &mut out);
    (out, sent)
}

fn follow(octets: &[u8]) -> Step {
    let mut replay = Replay::open(octets).unwrap();
    loop {
        match replay.step(|_| ()).unwrap() {
            Step::Same => {}
            step => return step,
        }
    }
}

#[test]
fn datagrams_both_ways_are_led_through_again() {
    for content in [Content::Whole, Content::Without] {
        // The echo service answers the first, and the other waits for an application.
        let (question, message) = (bundle("ipn:1.7", 7), bundle("ipn:1.42", 8));
        let datagrams = vec![question.clone(), message, question];
        let (octets, sent) = recorded(content, datagrams);
        assert_eq!(sent, 1);
        let has_message = octets.windows(900).any(|it| it == [8; 900]);
        assert_eq!(has_message, content == Content::Whole);
        assert_eq!(follow(&octets), Step::End(End::Finish(Finish::Node)));
    }
}
