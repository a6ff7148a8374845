//! Recordings of simulated nodes, led through again.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{DtnTime, Instant, Now};
use dhow_link::Gather;
use dhow_node::Node;
use dhow_node::config::{Config, ListenerConfig, ListenerId, SessionPolicy};
use dhow_node::driver::{Event, Purpose, StreamId, Telling};
use dhow_node::recording::{Content, FILE_HEAD_OCTETS, Finish, Recorder};
use dhow_scenario::Scenario;
use dhow_sim::World;
use dhow_sim::replay::{End, FileError, Passed, Replay, ReplayError, Step};

/// Crashes, stalls, resets, a node without a clock, a disk that takes its time; whole bundles and such that are passed on.
const STORM: &str = r#"
    [[node]]
    name = "a"
    [[node]]
    name = "b"
    clock_offset = "-3s"
    [[node]]
    name = "c"
    clock = "none"
    read = "4ms"
    [[link]]
    between = ["a", "b"]
    rate = "8Mbit"
    delay = "30ms"
    at_end = "silence"
    keepalive = "10s"
    [[link]]
    between = ["c", "b"]
    rate = "8Mbit"
    delay = "5ms"
    [[contact]]
    link = "a-b"
    start = "5s"
    for = "40s"
    every = "1min"
    [[traffic]]
    from = "a"
    to = "c"
    count = 12
    size = "100B..400kB"
    mean = "5s"
    [[traffic]]
    from = "c"
    to = "a"
    count = 40
    size = "16B..20kB"
    mean = "1s"
    [faults]
    crash_every = "90s"
    crash_down = "5s"
    stall_every = "30s"
    stall_for = "500ms"
    reset_every = "1min"
    [stop]
    at = "3min"
"#;

/// Recordings of all lives of all nodes of a storm.
fn recordings(seed: u64, content: Content) -> Vec<(String, Vec<u8>)> {
    let scenario = Scenario::parse(Path::new("test.toml"), STORM).expect("the scenario is one");
    let mut world = World::new(&scenario, seed).expect("the network can be built");
    world.record(content);
    while world.run(Instant::START + Duration::from_secs(86_400), 1_000_000) {}
    world.finish();
    assert_eq!(world.violations().len(), 0);
    assert!(world.ledger().delivered > 20);
    let recordings = world.recordings();
    recordings
        .map(|(name, octets)| (name.to_owned(), octets.to_vec()))
        .collect()
}

/// The progress at a recording's end, and the step that ends it.
fn replay(octets: &[u8]) -> Result<(Passed, Step), ReplayError> {
    let mut replay = Replay::open(octets)?;
    loop {
        match replay.step(|_| {})? {
            Step::Same => {}
            step => return Ok((replay.passed(), step)),
        }
    }
}

#[test]
fn every_life_of_a_storm_is_led_through_again() {
    for (seed, content) in [
        (1, Content::Whole),
        (2, Content::Whole),
        (1, Content::Without),
        (2, Content::Without),
        (3, Content::Without),
    ] {
        let recordings = recordings(seed, content);
        assert!(recordings.len() > 3, "some crash");
        for (name, octets) in recordings {
            let (passed, step) = replay(&octets).expect("the recording can be read");
            let at = octets.len().try_into().unwrap();
            assert_eq!(step, Step::End(End::Cut { at }), "seed {seed}, {name}");
            assert!(passed.actions > 0 && passed.events > 0, "{passed:?}");
        }
    }
}

#[test]
fn nodes_in_the_field_are_led_through_again() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings");
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "rec"));
    assert_eq!(paths.len(), 10);
    let mut others = Vec::new();
    for path in paths {
        let octets = std::fs::read(&path).unwrap();
        let (passed, step) = replay(&octets).expect("the recording can be read");
        match step {
            Step::End(_) => assert!(passed.actions > 20 && passed.events > 20, "{passed:?}"),
            step => others.push(format!("{}: {step:?}", path.display())),
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// The first recording with much in it.
fn long_recording() -> Vec<u8> {
    let mut recordings = recordings(1, Content::Whole);
    recordings.retain(|(_, octets)| octets.len() > 100_000);
    recordings.swap_remove(0).1
}

#[test]
fn a_recording_without_its_end_is_led_through_as_far_as_it_is_whole() {
    let octets = long_recording();
    let (whole, _) = replay(&octets).unwrap();
    let (passed, step) = replay(&octets[..octets.len() - 1]).unwrap();
    assert!(matches!(step, Step::End(End::Cut { .. })), "{step:?}");
    assert!(passed.entries < whole.entries);
    for short in [
        0,
        1,
        FILE_HEAD_OCTETS - 1,
        FILE_HEAD_OCTETS,
        FILE_HEAD_OCTETS + 5,
    ] {
        replay(&octets[..short]).expect_err("it does not say whose it is");
    }
}

#[test]
fn a_changed_octet_anywhere_is_found() {
    let octets = long_recording();
    let many = octets.len() / 97;
    for at in (0..octets.len()).step_by(many).chain(0..40) {
        let mut rotten = octets.clone();
        rotten[at] ^= 0x20;
        let error = replay(&rotten).expect_err("an octet is not what was written");
        assert!(
            matches!(
                error,
                ReplayError::File(FileError::Rotten { .. } | FileError::Head(_))
            ),
            "octet {at}: {error}"
        );
    }
}

/// A node with a listener whose sessions offer so long a keepalive interval.
fn config(keepalive_s: u16) -> Config {
    let policy = SessionPolicy {
        keepalive_s,
        ..SessionPolicy::default()
    };
    Config {
        listeners: vec![ListenerConfig {
            policy,
            ..ListenerConfig::default()
        }],
        quota_octets: 1 << 20,
        quota_bundles: 10,
        store_queue_octets: 1 << 20,
        echo_service: None,
        perf_service: None,
        default_lifetime_ms: 1000,
        removed_bound: 10,
        seed: 1,
        ..Config::usual(vec!["ipn:1.0".parse().unwrap()])
    }
}

/// A contact header and a SESS_INIT (RFC 9174 4.2, 4.6).
const GREETING: &[u8] =
    b"dtn!\x04\0\x07\0\x1e\0\0\0\0\0\x10\0\0\0\0\x01\0\0\0\0\0\0\x07ipn:2.0\0\0\0\0";

/// The recording of a node that is greeted, and which says that its configuration was `said`.
fn greeted(actual: &Config, said: &Config, content: Content) -> Vec<u8> {
    let now = Now {
        monotonic: Instant::from_nanos(7),
        dtn: DtnTime::UNKNOWN,
    };
    let recorder = Recorder::new("dhow 0", said, Telling::default(), content);
    let mut node = Node::new(actual.clone()).with_recorder(recorder);
    let stream = StreamId(4);
    let (listener, octets) = (ListenerId(0), Bytes::from_static(GREETING));
    let purpose = Purpose::Accepted { listener };
    let opened = Event::Opened {
        reserved_time: DtnTime::UNKNOWN,
        reserved_sequence: 0,
        removed: Vec::new(),
    };
    let mut gather = Gather::new();
    for event in [
        opened,
        Event::Connected { stream, purpose },
        Event::Octets { stream, octets },
    ] {
        node.handle(now, event);
        while node.poll(now).is_some() {}
        node.poll_octets(now, stream, 1000, &mut gather);
    }
    let mut out = Vec::new();
    let recorder = node.take_recorder().unwrap();
    recorder.finish(Finish::Node, &mut out);
    out
}

#[test]
fn a_node_that_does_another_thing_is_found() {
    let octets = greeted(&config(30), &config(30), Content::Whole);
    let (passed, step) = replay(&octets).unwrap();
    assert_eq!(step, Step::End(End::Finish(Finish::Node)));
    assert_eq!(passed.events, 3);
    let octets = greeted(&config(30), &config(31), Content::Whole);
    let (_, step) = replay(&octets).unwrap();
    let Step::Different(difference) = step else {
        panic!("{step:?}");
    };
    // A contact header of 6 octets and a SESS_INIT.
    assert_eq!(
        difference.sentence,
        "asked for octets of stream 4, it gave other octets than when it was recorded: 44"
    );
}
