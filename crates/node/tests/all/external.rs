//! Routers that are programs of their own: nodes in a circle of which the first asks one.

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::world::World;
use crate::world::client::Client;
use bytes::Bytes;
use dhow_bundle::cbor::{Kind, Reader};
use dhow_bundle::storage::BundleKey;
use dhow_link::external::wire::Said as LayerSaid;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::{Config, ExternalPolicy, ExternalRouting};
use dhow_node::driver::{Event, Occurrence, StreamId};
use dhow_node::external::wire::{Mode, Said};
use dhow_node::view::{BundleState, ProgramView};
use proptest::prelude::*;

/// A message of the node: its code, and its numbers and texts in order, those of inner arrays among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Heard {
    code: u64,
    numbers: Vec<u64>,
    texts: Vec<String>,
}

fn hear(world: &mut World, at: usize, stream: StreamId) -> Vec<Heard> {
    let program = world.machines[at].programs.get_mut(&stream).unwrap();
    let octets = std::mem::take(&mut program.from_node);
    let (mut rest, mut all) = (&octets[..], Vec::new());
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*head)).unwrap();
        let mut reader = Reader::new(&behind[..length]);
        let mut heard = Heard::default();
        while !reader.is_empty() {
            match reader.kind().unwrap() {
                Kind::Unsigned => heard.numbers.push(reader.unsigned().unwrap()),
                Kind::Text => heard.texts.push(reader.text(2_000).unwrap().into_owned()),
                Kind::Bytes => drop(reader.byte_string().unwrap()),
                _ => drop(reader.array().unwrap()),
            }
        }
        heard.code = heard.numbers.remove(0);
        all.push(heard);
        rest = &behind[length..];
    }
    all
}

fn say(world: &mut World, at: usize, stream: StreamId, said: &Said) {
    let mut octets = Vec::new();
    said.put(&mut octets);
    let octets = Bytes::from(octets);
    world.handle(at, Event::Octets { stream, octets });
}

fn forward(number: u64, mode: Mode, hops: &[&str]) -> Said {
    Said::Forward {
        number,
        mode,
        hops: hops.iter().map(|hop| hop.parse().unwrap()).collect(),
    }
}

/// Nodes in a circle; a program decides about what the first one sends to node 3.
fn circle(count: u32, seed: u64, policy: ExternalPolicy) -> World {
    let mut world = World::circle(count, seed, |number, config: &mut Config| {
        if number == 1 {
            config.external.policy = policy;
            config.external.routing = vec![ExternalRouting {
                to: "ipn:3.*".into(),
                program: "hops".into(),
            }];
        }
    });
    world.until("all sessions are up", |world| {
        let mut machines = world.machines.iter();
        machines.all(|it| it.node.as_ref().unwrap().sessions().len() == 2)
    });
    world
}

fn greet(world: &mut World) -> StreamId {
    let stream = world.connect_program(0);
    let (version, name) = (1, "hops".into());
    say(world, 0, stream, &Said::Router { version, name });
    stream
}

fn send(world: &mut World, count: usize) {
    let mut sender = Client::new("ipn:1.5", false);
    for _ in 0..count {
        let adu = BundleAdu {
            dst_eid: "ipn:3.42".into(),
            ..BundleAdu::default()
        };
        sender.send(adu, b"payload");
    }
    let sender = world.connect(0, sender);
    world.until("all are durable", |world| {
        world.client(0, sender).responses.len() == count + 1
    });
    world.settle();
}

fn stored(world: &World, at: usize) -> u64 {
    world.machines[at].node.as_ref().unwrap().stored().0
}

fn view(world: &World) -> ProgramView {
    let node = world.machines[0].node.as_ref().unwrap();
    node.programs().pop().unwrap()
}

fn questions(heard: &[Heard]) -> Vec<u64> {
    let questions = heard.iter().filter(|it| it.code == 3);
    questions.map(|it| it.numbers[0]).collect()
}

fn check(world: &World) {
    for at in 0..world.machines.len() {
        world.check(at);
    }
}

#[test]
fn bundles_wait_for_their_router_and_go_where_it_says() {
    let mut world = circle(4, 1, ExternalPolicy::default());
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    send(&mut world, 2);
    assert_eq!(stored(&world, 0), 2);
    let node = world.machines[0].node.as_ref().unwrap();
    let states = node.bundles(world.now(0), BundleKey(0));
    let states: Vec<BundleState> = states.map(|(_, bundle)| bundle.state).collect();
    assert_eq!(states, [BundleState::AwaitingRouter; 2]);
    let program = greet(&mut world);
    world.settle();
    let heard = hear(&mut world, 0, program);
    assert_eq!(heard[0].code, 1);
    assert_eq!(heard[0].texts, ["ipn:1.0", "ipn:3.*"]);
    assert_eq!(heard[0].numbers, [1, 256, 10_000]);
    let neighbours: BTreeSet<_> = heard[1..3].iter().map(|it| it.texts[0].clone()).collect();
    assert_eq!(neighbours, ["ipn:2.0".into(), "ipn:4.0".into()].into());
    assert_eq!(questions(&heard), [1, 2]);
    assert_eq!(heard[3].texts, ["ipn:3.42", "ipn:1.5", ""]);
    say(&mut world, 0, program, &forward(1, Mode::One, &["ipn:2.0"]));
    world.until("it is there", |world| {
        world.client(2, receiver).received.len() == 1
    });
    world.settle();
    assert_eq!(stored(&world, 0), 1, "it has been let go");
    let heard = hear(&mut world, 0, program);
    assert_eq!((heard[0].code, heard[0].numbers[0]), (4, 1));
    assert_eq!((heard[1].code, heard[1].numbers[0]), (5, 1));
    // The way over node 4 is as good.
    say(
        &mut world,
        0,
        program,
        &forward(2, Mode::One, &["ipn:9.0", "ipn:4.0"]),
    );
    world.until("it is there", |world| {
        world.client(2, receiver).received.len() == 2
    });
    world.settle();
    assert_eq!(stored(&world, 0), 0);
    check(&world);
}

#[test]
fn copies_go_to_each_and_stay_if_they_are_to() {
    let mut world = circle(4, 2, ExternalPolicy::default());
    let receiver = world.connect(2, Client::new("ipn:3.42", true));
    let program = greet(&mut world);
    send(&mut world, 2);
    assert_eq!(questions(&hear(&mut world, 0, program)), [1, 2]);
    let hops = ["ipn:2.0", "ipn:4.0"];
    say(&mut world, 0, program, &forward(1, Mode::Each, &hops));
    say(&mut world, 0, program, &forward(2, Mode::Keep, &hops));
    world.pass(Duration::from_secs(20));
    world.settle();
    let heard = hear(&mut world, 0, program);
    let given = |number| {
        let copies = heard.iter().filter(|it| it.code == 4);
        let copies = copies.filter(|it| it.numbers == [number, 0]);
        copies
            .map(|it| it.texts[0].as_str())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(given(1), hops.into());
    assert_eq!(given(2), hops.into());
    assert_eq!(stored(&world, 0), 1, "one stays");
    assert_eq!(world.client(2, receiver).received.len(), 2);
    // A restart remembers who has it, and the program is told.
    world.crash(0);
    world.start(0);
    let program = greet(&mut world);
    world.settle();
    let heard = hear(&mut world, 0, program);
    let question = heard.iter().find(|it| it.code == 3).unwrap();
    let given: BTreeSet<&str> = question.texts[3..].iter().map(String::as_str).collect();
    assert_eq!(given, hops.into());
    check(&world);
}

#[test]
fn a_router_that_does_not_answer_is_cut_off_and_told_all_anew() {
    let mut world = circle(4, 3, ExternalPolicy::default());
    let program = greet(&mut world);
    send(&mut world, 300);
    let heard = hear(&mut world, 0, program);
    assert_eq!(questions(&heard).len(), 256, "no more questions at a time");
    assert_eq!(view(&world).unanswered, 256);
    world.pass(Duration::from_secs(11));
    world.settle();
    assert!(world.machines[0].programs[&program].is_over);
    let heard = hear(&mut world, 0, program);
    assert_eq!(heard.last().unwrap().code, 7, "it is told why");
    assert_eq!((stored(&world, 0), view(&world).undecided), (300, 300));
    let program = greet(&mut world);
    let mut number = 0;
    world.until("it was asked about all", |world| {
        for asked in questions(&hear(world, 0, program)) {
            number += 1;
            assert_eq!(asked, number);
            say(world, 0, program, &forward(asked, Mode::One, &["ipn:2.0"]));
        }
        number == 300
    });
    world.settle();
    assert_eq!(stored(&world, 0), 0);
    assert_eq!(view(&world).decisions, 300);
    check(&world);
}

#[test]
fn one_program_has_a_name_at_a_time_and_strangers_none() {
    let mut world = circle(3, 4, ExternalPolicy::default());
    let first = greet(&mut world);
    let second = greet(&mut world);
    assert!(!world.machines[0].programs[&first].is_over);
    assert!(world.machines[0].programs[&second].is_over);
    world.handle(0, Event::Disconnected { stream: first });
    let third = greet(&mut world);
    assert!(!world.machines[0].programs[&third].is_over);
    let stranger = world.connect_program(0);
    let (version, name) = (1, "other".into());
    say(&mut world, 0, stranger, &Said::Router { version, name });
    assert!(world.machines[0].programs[&stranger].is_over);
    let silent = world.connect_program(0);
    world.pass(Duration::from_secs(11));
    world.settle();
    assert!(world.machines[0].programs[&silent].is_over);
    let hostile = world.connect_program(0);
    let octets = Bytes::from_static(b"\xff\xff\xff\xff");
    world.handle(
        0,
        Event::Octets {
            stream: hostile,
            octets,
        },
    );
    assert!(world.machines[0].programs[&hostile].is_over);
    let down = world.machines[0].occurrences.iter();
    let down = down.filter(|it| matches!(it, Occurrence::ProgramDown { .. }));
    assert_eq!(down.count(), 5);
    let ended = world.machines[0]
        .node
        .as_ref()
        .unwrap()
        .counters()
        .programs_ended;
    assert_eq!(ended, 4);
    check(&world);
}

#[test]
fn without_an_answer_bundles_go_by_routes_after_a_while() {
    let policy = ExternalPolicy {
        fallback_ms: 5_000,
        ..ExternalPolicy::default()
    };
    let mut world = circle(3, 5, policy);
    world.cut(0, 1);
    world.cut(2, 0);
    send(&mut world, 3);
    world.pass(Duration::from_secs(4));
    world.settle();
    assert_eq!(view(&world).undecided, 3);
    world.pass(Duration::from_secs(2));
    world.settle();
    assert_eq!(view(&world).undecided, 0);
    let node = world.machines[0].node.as_ref().unwrap();
    assert_eq!(node.counters().fallbacks, 3);
    check(&world);
    // The program comes while they wait for the link: it may have them back.
    let program = greet(&mut world);
    world.settle();
    let asked = questions(&hear(&mut world, 0, program));
    assert_eq!(asked, [1, 2, 3]);
    let again_ms = 0;
    say(
        &mut world,
        0,
        program,
        &Said::Hold {
            number: 1,
            again_ms,
        },
    );
    say(&mut world, 0, program, &Said::Routes { number: 2 });
    say(
        &mut world,
        0,
        program,
        &Said::Discard {
            number: 3,
            reason: 5,
        },
    );
    world.join(0, 1);
    world.pass(Duration::from_secs(5));
    world.settle();
    check(&world);
    assert_eq!(
        stored(&world, 0),
        1,
        "one went, one was dropped, one is held"
    );
    assert_eq!(
        world.machines[0].node.as_ref().unwrap().counters().deleted,
        1
    );
    let heard = hear(&mut world, 0, program);
    let gone: Vec<_> = heard
        .iter()
        .filter(|it| it.code == 5)
        .map(|it| it.numbers[0])
        .collect();
    assert_eq!(gone.len(), 2);
    say(&mut world, 0, program, &Said::Routes { number: 1 });
    world.pass(Duration::from_secs(2));
    world.settle();
    assert_eq!(stored(&world, 0), 0);
    say(&mut world, 0, program, &Said::Routes { number: 1 });
    assert_eq!(view(&world).stale, 1);
    check(&world);
}

#[test]
fn a_held_bundle_is_asked_about_again() {
    let mut world = circle(3, 6, ExternalPolicy::default());
    let program = greet(&mut world);
    send(&mut world, 1);
    assert_eq!(questions(&hear(&mut world, 0, program)), [1]);
    let again_ms = 2_000;
    say(
        &mut world,
        0,
        program,
        &Said::Hold {
            number: 1,
            again_ms,
        },
    );
    world.pass(Duration::from_secs(3));
    world.settle();
    assert_eq!(questions(&hear(&mut world, 0, program)), [1]);
    // No neighbour is named: asked again, and in no hot loop.
    say(&mut world, 0, program, &forward(1, Mode::Each, &[]));
    world.settle();
    assert_eq!(questions(&hear(&mut world, 0, program)), [0_u64; 0]);
    world.pass(Duration::from_secs(6));
    world.settle();
    assert_eq!(questions(&hear(&mut world, 0, program)), [1]);
    check(&world);
}

#[test]
fn every_program_of_the_corpus_leaves_the_router_consistent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/external_router");
    let mut messages = 0;
    for entry in fs::read_dir(folder).unwrap() {
        messages +=
            dhow_node::external::oracle::check_program(&fs::read(entry.unwrap().path()).unwrap());
    }
    assert!(
        messages >= 30,
        "{messages} messages: the corpus is not there"
    );
}

fn message() -> impl Strategy<Value = Said> {
    let number = 0_u64..10;
    let mode = prop_oneof![Just(Mode::One), Just(Mode::Each), Just(Mode::Keep)];
    let hop = prop_oneof![
        Just("ipn:2.0"),
        Just("ipn:3.0"),
        Just("ipn:4.0"),
        Just("ipn:1.0")
    ];
    let hops = proptest::collection::vec(hop, 0..4);
    prop_oneof![
        4 => (number.clone(), mode, hops)
            .prop_map(|(number, mode, hops)| forward(number, mode, &hops)),
        1 => (number.clone(), 0_u64..3_000)
            .prop_map(|(number, again_ms)| Said::Hold { number, again_ms }),
        1 => (number.clone(), 0_u8..6).prop_map(|(number, reason)| Said::Discard { number, reason }),
        1 => number.prop_map(|number| Said::Routes { number }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_messages_leave_the_router_consistent(said in proptest::collection::vec(message(), 0..60)) {
        let mut octets = Vec::new();
        for said in &said {
            said.put(&mut octets);
        }
        let count = dhow_node::external::oracle::check_program(&octets);
        prop_assert_eq!(count, said.len());
    }

    #[test]
    fn whatever_a_program_says_the_node_keeps_its_order_and_an_honest_one_clears_it(
        seed in any::<u64>(),
        said in proptest::collection::vec(message(), 0..30),
        tears in any::<[bool; 3]>(),
    ) {
        let policy = ExternalPolicy { questions: 4, answer_ms: 3_000, fallback_ms: 2_500 };
        let mut world = circle(4, seed, policy);
        world.hostile = true;
        world.refusals = 0;
        let mut program = greet(&mut world);
        send(&mut world, 6);
        for (place, said) in said.iter().enumerate() {
            if world.machines[0].programs[&program].is_over {
                program = greet(&mut world);
            }
            say(&mut world, 0, program, said);
            world.settle_some(20);
            match (place % 10, tears[place / 10]) {
                (5, true) => world.cut(0, 1),
                (8, true) => world.join(0, 1),
                (9, true) => world.pass(Duration::from_secs(2)),
                _ => {}
            }
            check(&world);
        }
        world.pass(Duration::from_secs(4));
        world.settle();
        if world.machines[0].programs[&program].is_over {
            program = greet(&mut world);
        }
        for _ in 0..200 {
            for number in 1..60 {
                say(&mut world, 0, program, &forward(number, Mode::One, &["ipn:4.0", "ipn:2.0"]));
            }
            world.pass(Duration::from_secs(1));
            world.settle();
            if world.machines[0].programs[&program].is_over {
                program = greet(&mut world);
            }
            if stored(&world, 0) == 0 {
                break;
            }
        }
        check(&world);
        let node = world.machines[0].node.as_ref().unwrap();
        let left: Vec<_> = node.bundles(world.now(0), BundleKey(0)).collect();
        prop_assert_eq!(stored(&world, 0), 0, "{:?} {:?}", left, view(&world));
    }
}

/// A program that leads from node 1 to node 9.
fn lead(world: &mut World, peer: &str) -> StreamId {
    let stream = world.connect_program(0);
    let said = Said::Neighbour {
        version: 1,
        name: "stick".into(),
        peer: peer.parse().unwrap(),
        mtu_octets: 0,
    };
    say(world, 0, stream, &said);
    world.settle();
    stream
}

fn answer(world: &mut World, stream: StreamId, said: &LayerSaid) {
    let mut octets = Vec::new();
    said.put(&mut octets);
    let octets = Bytes::from(octets);
    world.handle(0, Event::Octets { stream, octets });
    world.settle();
}

#[test]
fn bundles_for_a_neighbour_behind_a_program_stay_until_it_answers() {
    let mut world = circle(3, 7, ExternalPolicy::default());
    let mut sender = Client::new("ipn:1.5", false);
    for size in [10, 100_000] {
        let adu = BundleAdu {
            dst_eid: "ipn:9.1".into(),
            ..BundleAdu::default()
        };
        sender.send(adu, &vec![7; size]);
    }
    // Without the way over node 2 they wait for the program.
    world.cut(0, 1);
    world.cut(2, 0);
    world.connect(0, sender);
    world.settle();
    assert_eq!(stored(&world, 0), 2);
    let own = lead(&mut world, "ipn:1.0");
    assert!(world.machines[0].programs[&own].is_over);
    let first = lead(&mut world, "ipn:9.0");
    let begun = |world: &mut World, stream| -> Vec<u64> {
        let heard = hear(world, 0, stream).into_iter();
        let begun = heard.filter(|it| it.code == 32);
        begun.map(|it| it.numbers[0]).collect()
    };
    assert_eq!(begun(&mut world, first).len(), 2);
    assert_eq!(stored(&world, 0), 2, "nobody has said that they are there");
    answer(&mut world, first, &LayerSaid::Sent { transfer: 0 });
    assert_eq!(stored(&world, 0), 1);
    // It dies with the other, which comes again.
    world.handle(0, Event::Disconnected { stream: first });
    let second = lead(&mut world, "ipn:9.0");
    let again = begun(&mut world, second);
    assert_eq!(again.len(), 1);
    check(&world);
    // It hangs, is cut off, and nothing is lost.
    world.pass(Duration::from_secs(11));
    world.settle();
    assert!(world.machines[0].programs[&second].is_over);
    assert_eq!(stored(&world, 0), 1);
    let third = lead(&mut world, "ipn:9.0");
    let again = begun(&mut world, third);
    answer(&mut world, third, &LayerSaid::Sent { transfer: again[0] });
    assert_eq!(stored(&world, 0), 0);
    // It says what it must not, and is a neighbour no more.
    answer(&mut world, third, &LayerSaid::Abort);
    assert!(world.machines[0].programs[&third].is_over);
    check(&world);
}

/// A bundle that a program keeps leaves the window to others, and is this node's until the program says that somebody has it.
#[test]
fn bundles_that_a_program_keeps_stay_and_do_not_hold_up_others() {
    let mut world = circle(3, 7, ExternalPolicy::default());
    let mut sender = Client::new("ipn:1.5", false);
    for size in 0..200 {
        let adu = BundleAdu {
            dst_eid: "ipn:9.1".into(),
            ..BundleAdu::default()
        };
        sender.send(adu, &vec![7; size]);
    }
    world.cut(0, 1);
    world.cut(2, 0);
    world.connect(0, sender);
    world.settle();
    let stream = lead(&mut world, "ipn:9.0");
    let mut begun = Vec::new();
    while begun.len() < 200 {
        let heard = hear(&mut world, 0, stream).into_iter();
        let more: Vec<u64> = heard
            .filter(|it| it.code == 32)
            .map(|it| it.numbers[0])
            .collect();
        assert!(!more.is_empty(), "only {} have come", begun.len());
        for transfer in &more {
            let transfer = *transfer;
            answer(&mut world, stream, &LayerSaid::Kept { transfer });
        }
        begun.extend(more);
        check(&world);
    }
    assert_eq!(stored(&world, 0), 200);
    // Nobody is waited for.
    world.pass(Duration::from_secs(60));
    assert!(!world.machines[0].programs[&stream].is_over);
    for transfer in begun.drain(..50) {
        answer(&mut world, stream, &LayerSaid::Sent { transfer });
    }
    let failed = begun[0];
    answer(
        &mut world,
        stream,
        &LayerSaid::Failed {
            transfer: failed,
            reason: 1,
        },
    );
    assert_eq!(stored(&world, 0), 149);
    check(&world);
    // The rest is this node's again, and goes to the program that comes again.
    world.handle(0, Event::Disconnected { stream });
    world.settle();
    check(&world);
    let stream = lead(&mut world, "ipn:9.0");
    let heard = hear(&mut world, 0, stream).into_iter();
    assert_eq!(heard.filter(|it| it.code == 32).count(), 64);
    assert_eq!(stored(&world, 0), 149);
    check(&world);
}
