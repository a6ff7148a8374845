//! Many bundles on one stage of their way through a node, without sockets, disks or clocks, so that what the
//! node's own code executes can be counted and compared from change to change.
//!
//! `cargo run --release -p dhow-node --example passage -- STAGE BUNDLES OCTETS`, where the stage is `receive`,
//! `send`, `relay`, `api-send` or `api-receive`. Everything that the node under test does on that stage, and
//! nothing else, happens below the functions of `counted`: a profiler is told to count only there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "an exercise that goes wrong had better stop"
)]

mod application;
mod counted;
mod host;
mod store;
mod street;

use application::{Reader, requests};
use dhow_node::config::{Config, Enabled, LinkConfig, Route, SessionPolicy};
use host::Counting;
use street::Street;

/// Rounds until an exercise is given up: many times what the longest takes.
const ROUNDS_MAX: usize = 1_000_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [stage, bundles, octets] = words.as_slice() else {
        panic!("usage: passage STAGE BUNDLES OCTETS");
    };
    let bundles: u64 = bundles.parse().expect("a number of bundles");
    let octets: usize = octets.parse().expect("a number of octets");
    match stage.as_str() {
        "receive" => across(bundles, octets, 2, 1),
        "send" => across(bundles, octets, 2, 0),
        "relay" => across(bundles, octets, 3, 1),
        "api-send" => api_send(bundles, octets),
        "api-receive" => api_receive(bundles, octets),
        other => panic!("no stage is named {other}"),
    }
    println!("{stage}: {bundles} bundles of {octets} octets");
}

/// Bundles wait at the first of `hosts` hosts, the link opens, and all go to the last; one host is counted.
fn across(bundles: u64, octets: usize, hosts: u32, counted: usize) {
    let last = usize::try_from(hosts - 1).unwrap();
    let mut street = Street::new((1..=hosts).map(|number| config(number, hosts)));
    street.connect_application(
        0,
        requests(&format!("ipn:{hosts}.42"), bundles, octets),
        None,
    );
    street.until(ROUNDS_MAX, |street| street.stored(0) == bundles);
    for at in (0..last).rev() {
        if at == 0 {
            street.count(counted, Counting::On);
        }
        street.open_link(at);
    }
    street.until(ROUNDS_MAX, |street| {
        street.stored(last) == bundles && (0..last).all(|at| street.stored(at) == 0)
    });
}

/// An application sends all that it has through one connection; the bundles stay.
fn api_send(bundles: u64, octets: usize) {
    let mut street = Street::new([config(1, 1)]);
    street.count(0, Counting::On);
    street.connect_application(0, requests("ipn:2.42", bundles, octets), None);
    street.until(ROUNDS_MAX, |street| street.stored(0) == bundles);
}

/// Bundles wait for an application, which comes and takes them all.
fn api_receive(bundles: u64, octets: usize) {
    let mut street = Street::new([config(1, 1)]);
    street.connect_application(0, requests("ipn:1.42", bundles, octets), None);
    street.until(ROUNDS_MAX, |street| street.stored(0) == bundles);
    street.count(0, Counting::On);
    let reader = Reader::new("ipn:1.42");
    street.connect_application(0, Vec::new(), Some(reader));
    street.until(ROUNDS_MAX, |street| street.stored(0) == 0);
}

/// A host of a street: it dials the next one, once its link is opened, and routes to all that follow.
fn config(number: u32, hosts: u32) -> Config {
    let next = LinkConfig {
        name: "next".into(),
        policy: SessionPolicy::default(),
        enabled: Enabled::No,
        sessions: 1,
        backoff_min_ms: 50,
        backoff_max_ms: 1_000,
        protocol: dhow_node::config::Protocol::default(),
        dial: dhow_node::config::DialTime::default(),
    };
    let route = |to| Route {
        to: format!("ipn:{to}.*"),
        via: "next".into(),
        priority: 0,
    };
    Config {
        links: (number < hosts).then_some(next).into_iter().collect(),
        routes: (number + 1..=hosts).map(route).collect(),
        store_queue_octets: 32 << 20,
        seed: u64::from(number),
        ..Config::usual(vec![format!("ipn:{number}.0").parse().unwrap()])
    }
}
