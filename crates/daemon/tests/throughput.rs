//! Node to node, as fast as it goes: prints figures, asserts none. Run it with
//! `cargo test --release -p dhow-daemon --test throughput -- --ignored --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "tests fail by panicking"
)]

mod rig;

use std::time::{Duration, Instant};

use dhow_client::{Address, Client, Registration, SendHead};
use rig::{Place, RunningNode};

const PATIENCE: Duration = Duration::from_secs(120);

fn enqueue(node: &RunningNode, count: usize, octets: usize) {
    let registration = Registration::new("ipn:1.5".parse().unwrap());
    let mut sender = Client::connect(&Address::Unix(rig::api(node)))
        .unwrap()
        .sender(&registration)
        .unwrap();
    let payload = vec![7; octets];
    let head = SendHead::to("ipn:2.42".parse().unwrap());
    let mut answered = 0;
    for _ in 0..count {
        sender.send_octets(&head, &payload).unwrap();
        while let Some(answer) = sender.poll_answer().unwrap() {
            answer.outcome.unwrap();
            answered += 1;
        }
    }
    while answered < count {
        sender
            .next_answer(Some(PATIENCE))
            .unwrap()
            .unwrap()
            .outcome
            .unwrap();
        answered += 1;
    }
}

#[test]
#[ignore = "a measurement, meaningful with --release only"]
fn bundles_move_from_node_to_node() {
    println!(
        "{:>10} {:>8} {:>12} {:>10} {:>14}",
        "octets", "bundles", "enqueue/s", "moved/s", "moved Mbit/s"
    );
    for (octets, count) in [
        (1_000, 100_000),
        (10_000, 40_000),
        (100_000, 6_000),
        (1_000_000, 600),
    ] {
        let place = Place::new();
        let store = "quota = \"2GiB\"\nquota_bundles = 1000000";
        let beta = place.node("ipn:2.0").with_store(store).start();
        let alpha = place
            .node("ipn:1.0")
            .with_store(store)
            .with_link("beta", beta.listen(), "enabled = false")
            .with_route("ipn:2.*", "beta")
            .start();
        let begun = Instant::now();
        enqueue(&alpha, count, octets);
        let enqueued = begun.elapsed();
        let begun = Instant::now();
        assert_eq!(alpha.admin("POST", "/v1/links/beta/up", "").0, 200);
        while beta.admin("GET", "/v1/node", "").1["store"]["bundles"] != count {
            assert!(begun.elapsed() < PATIENCE, "the bundles do not arrive");
            std::thread::yield_now();
        }
        let moved = begun.elapsed();
        println!(
            "{octets:>10} {count:>8} {:>12.0} {:>10.0} {:>14.0}",
            count as f64 / enqueued.as_secs_f64(),
            count as f64 / moved.as_secs_f64(),
            (count * octets * 8) as f64 / moved.as_secs_f64() / 1e6
        );
    }
}
