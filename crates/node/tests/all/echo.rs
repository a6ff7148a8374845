//! Services of nodes and sources that are services themselves: nobody is answered without end.

use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::Route;
use dhow_node::driver::StreamId;
use dhow_node::perf::wire::{Probe, Summary};

fn adu(destination: &str) -> BundleAdu {
    BundleAdu {
        dst_eid: destination.into(),
        lifetime_ms: Some(86_400_000),
        ..BundleAdu::default()
    }
}

/// Node 1 sends what it wants, also in the name of node 3; nodes 2 and 3 have their services.
fn with_a_liar(seed: u64, echo_of_3: u32) -> World {
    World::line(3, seed, |number, config| match number {
        1 => {
            config.node_ids.push("ipn:3.0".parse().unwrap());
            config.node_ids.push("dtn://three/".parse().unwrap());
            config.echo_service = None;
            config.perf_service = None;
        }
        2 => config.routes.push(Route {
            to: "dtn://three/**".into(),
            via: "next".into(),
            priority: 0,
        }),
        _ => {
            config.node_ids.push("dtn://three/".parse().unwrap());
            config.echo_service = Some(echo_of_3);
        }
    })
}

/// Sends these from an endpoint of which node 1 says that it is its own.
fn lie(world: &mut World, source: &str, destination: &str, payloads: &[&[u8]]) {
    let mut liar = Client::new(source, false);
    for payload in payloads {
        liar.send(adu(destination), payload);
    }
    world.connect(0, liar);
}

/// Things happen for so many steps at most; each that has nothing to do takes a moment.
fn run(world: &mut World, steps: u32) {
    for _ in 0..steps {
        if !world.step() {
            world.pass(Duration::from_millis(25));
        }
    }
}

/// Bundles that the services of a node made since its start.
fn answers(world: &World, at: usize) -> u64 {
    let node = world.machines[at].node.as_ref().unwrap();
    node.counters().created
}

fn restart(world: &mut World, at: usize) {
    world.crash(at);
    world.start(at);
}

fn all_empty(world: &World) -> bool {
    let mut machines = world.machines.iter();
    machines.all(|machine| machine.store.kept.bundles.is_empty())
}

#[test]
fn a_service_of_a_usual_number_or_name_is_not_answered_over_restarts_either() {
    for (source, destination) in [
        ("ipn:3.7", "ipn:2.7"),
        ("ipn:3.5201", "ipn:2.7"),
        ("ipn:3.2047", "ipn:2.7"),
        ("dtn://three/echo", "ipn:2.7"),
        ("dtn://three/perf", "ipn:2.7"),
        ("ipn:3.7", "ipn:2.5201"),
        ("ipn:3.5201", "ipn:2.5201"),
        ("dtn://three/echo", "ipn:2.5201"),
    ] {
        let mut world = with_a_liar(1, 7);
        let probe = Probe {
            run: [1; 16],
            streams: 1,
            interval_ms: 100,
            stream: 0,
            sequence: 0,
            total: 0,
        };
        lie(&mut world, source, destination, &[&probe.encode()]);
        run(&mut world, 3_000);
        let made = answers(&world, 1) + answers(&world, 2);
        assert_eq!(made, 0, "from {source} to {destination}");
        for at in [1, 2] {
            restart(&mut world, at);
            run(&mut world, 1_000);
            let made = answers(&world, 1) + answers(&world, 2);
            assert_eq!(made, 0, "from {source} to {destination} after a restart");
        }
        assert!(all_empty(&world));
    }
}

/// Node 3 has its echo service where nobody expects one, and knows nothing of this rule: an application does it.
#[test]
fn a_service_of_an_unusual_number_that_answers_is_answered_once() {
    let mut world = with_a_liar(2, 7);
    let service = world.connect(2, Client::new("ipn:3.4711", true));
    let payloads: Vec<Vec<u8>> = (0..51_u8).map(|number| vec![number; 100]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    lie(&mut world, "ipn:3.4711", "ipn:2.7", &payloads[..1]);
    let mut heard = 0;
    serve(&mut world, service, &mut heard);
    assert_eq!((heard, answers(&world, 1)), (1, 1));
    // An endpoint that answered is not answered, whatever else is said in its name.
    lie(&mut world, "ipn:3.4711", "ipn:2.7", &payloads[1..]);
    serve(&mut world, service, &mut heard);
    assert_eq!(answers(&world, 1), 1);
    world.pass(Duration::from_secs(61));
    // 51 at a time are answered once each.
    lie(&mut world, "ipn:3.4711", "ipn:2.7", &payloads);
    serve(&mut world, service, &mut heard);
    world.pass(Duration::from_secs(10));
    serve(&mut world, service, &mut heard);
    assert!(answers(&world, 1) <= 1 + 51, "{}", answers(&world, 1));
    assert!(all_empty(&world));
}

/// The application sends back what it gets.
fn serve(world: &mut World, service: StreamId, heard: &mut usize) {
    // Ten seconds at most: the minute after an answer is not over.
    for _ in 0..20 {
        run(world, 20);
        // An application takes its time; within a millisecond its bundle could have the timestamp of the question.
        world.pass(Duration::from_millis(2));
        let received = world.client(2, service).received.clone();
        let mut sender = Client::new("ipn:3.4711", false);
        for (adu_in, payload) in &received[*heard..] {
            sender.send(adu(&adu_in.src_eid), payload);
        }
        if *heard < received.len() {
            *heard = received.len();
            world.connect(2, sender);
        }
    }
}

#[test]
fn two_echo_services_of_unusual_numbers_come_to_rest_also_after_restarts() {
    let mut world = with_a_liar(3, 4_711);
    world.pace = Duration::from_millis(1);
    world.machines[1].config.echo_service = Some(815);
    restart(&mut world, 1);
    lie(&mut world, "ipn:3.4711", "ipn:2.815", &[b"for ever"]);
    run(&mut world, 5_000);
    assert!(answers(&world, 1) <= 1 && answers(&world, 2) <= 1);
    for _ in 0..3 {
        for at in [1, 2] {
            restart(&mut world, at);
            run(&mut world, 3_000);
            assert!(answers(&world, at) <= 1, "{}", answers(&world, at));
        }
    }
    assert!(all_empty(&world));
}

/// A bundle that is read from the store before it is answered, and one that comes in fragments.
#[test]
fn large_answers_that_come_back_are_known_too() {
    for limit in [None, Some(5_000)] {
        let mut world = with_a_liar(4, 4_711);
        world.pace = Duration::from_millis(1);
        world.machines[1].config.echo_service = Some(815);
        for at in 0..3 {
            for link in &mut world.machines[at].config.links {
                link.policy.fragment_octets = limit;
            }
            restart(&mut world, at);
        }
        lie(&mut world, "ipn:3.4711", "ipn:2.815", &[&[7; 40_000]]);
        run(&mut world, 10_000);
        assert_eq!((answers(&world, 1), answers(&world, 2)), (1, 1));
        assert!(all_empty(&world));
    }
}

/// So many, and no more, also where they come as fast as they can; another source has its own.
#[test]
fn a_source_has_as_many_answers_in_a_second_as_are_configured() {
    for per_second in [1, 100] {
        let mut world = World::line(2, 5, |_, config| config.answers_per_second = per_second);
        run(&mut world, 100);
        let ask = |world: &mut World, service: u32, first: u32, count: u32| {
            let source = format!("ipn:1.{service}");
            let mut asker = Client::new(&source, false);
            for number in first..first + count {
                asker.send(adu("ipn:2.7"), &number.to_be_bytes());
            }
            world.connect(0, asker);
            world.settle();
        };
        ask(&mut world, 9, 0, 300);
        assert_eq!(answers(&world, 1), u64::from(per_second));
        ask(&mut world, 10, 0, 1);
        assert_eq!(answers(&world, 1), u64::from(per_second) + 1);
        world.pass(Duration::from_millis(1_001));
        ask(&mut world, 9, 300, 300);
        assert_eq!(answers(&world, 1), u64::from(2 * per_second) + 1);
        let node = world.machines[1].node.as_ref().unwrap();
        let withheld = node.counters().answers_withheld;
        assert_eq!(withheld, 600 - u64::from(2 * per_second));
    }
}

/// Each probe names a measurement of its own, so that each wants a summary at once.
#[test]
fn summaries_are_answers_too_and_what_one_does_not_tell_of_the_next_does() {
    let mut world = World::line(2, 6, |_, config| config.answers_per_second = 10);
    run(&mut world, 100);
    let listener = world.connect(0, Client::new("ipn:1.9", true));
    let mut liar = Client::new("ipn:1.9", false);
    for number in 0..200_u8 {
        let probe = Probe {
            run: [number % 20; 16],
            streams: 1,
            interval_ms: 100,
            stream: 0,
            sequence: u64::from(number),
            total: 0,
        };
        liar.send(adu("ipn:2.5201"), &probe.encode());
    }
    world.connect(0, liar);
    world.settle();
    assert_eq!(answers(&world, 1), 10);
    for second in 2..6 {
        for _ in 0..10 {
            world.pass(Duration::from_millis(100));
            world.settle();
        }
        assert!(answers(&world, 1) <= second * 10, "{}", answers(&world, 1));
    }
    let mut told = std::collections::BTreeMap::new();
    for (_, payload) in &world.client(0, listener).received {
        let summary = Summary::decode(payload).unwrap();
        let told: &mut u64 = told.entry(summary.run).or_default();
        *told = (*told).max(summary.bundles);
    }
    assert_eq!(told.values().sum::<u64>(), 200);
    assert!(all_empty(&world));
}

/// A service that sends summaries back is told nothing more for a minute.
#[test]
fn whoever_sends_a_summary_back_is_not_answered() {
    let mut world = World::line(2, 8, |_, _| {});
    run(&mut world, 100);
    let mut liar = Client::new("ipn:1.9", false);
    let summary = Summary::default();
    liar.send(adu("ipn:2.5201"), &summary.encode());
    world.connect(0, liar);
    world.settle();
    let mut liar = Client::new("ipn:1.9", false);
    liar.send(adu("ipn:2.7"), b"echo");
    world.connect(0, liar);
    world.settle();
    assert_eq!(answers(&world, 1), 0);
    world.pass(Duration::from_secs(60));
    let mut asker = Client::new("ipn:1.9", false);
    asker.send(adu("ipn:2.7"), b"echo");
    world.connect(0, asker);
    world.settle();
    assert_eq!(answers(&world, 1), 1);
}
