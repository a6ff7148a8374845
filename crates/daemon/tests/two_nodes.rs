//! Two nodes on loopback, with real sockets and stores: what an application hands to one arrives at the
//! other, whatever happens to the connection between them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::as_conversions,
    reason = "tests fail by panicking"
)]

mod rig;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use dhow_client::{Address, Client, Receiver, Registration, SendHead};
use rig::{Place, RunningNode};

/// Longest wait for anything: reached by failing tests only.
const PATIENCE: Duration = Duration::from_secs(60);

fn client(node: &RunningNode) -> Client {
    Client::connect(&Address::Unix(rig::api(node))).unwrap()
}

fn registration(endpoint: &str) -> Registration {
    Registration::new(endpoint.parse().unwrap())
}

fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at.wrapping_mul(31) ^ number) as u8)
        .collect()
}

fn send(
    node: &RunningNode,
    from: &str,
    to: &str,
    payloads: impl Iterator<Item = Vec<u8>>,
) -> usize {
    let mut sender = client(node).sender(&registration(from)).unwrap();
    let head = SendHead::to(to.parse().unwrap());
    let mut count = 0;
    for payload in payloads {
        sender.send_octets(&head, &payload).unwrap();
        count += 1;
    }
    for _ in 0..count {
        sender
            .next_answer(Some(PATIENCE))
            .unwrap()
            .unwrap()
            .outcome
            .unwrap();
    }
    count
}

/// The next delivery's payload, confirmed.
fn receive(receiver: &mut Receiver) -> Vec<u8> {
    let mut delivery = receiver.next_delivery(Some(PATIENCE)).unwrap().unwrap();
    let mut payload = Vec::new();
    delivery.read_to_end(&mut payload).unwrap();
    delivery.confirm().unwrap();
    payload
}

/// Lengths that fit no buffer, segment or gather evenly.
const LENGTHS: [usize; 8] = [0, 1, 999, 16_384, 100_000, 262_145, 1_048_577, 3_000_000];

#[test]
fn bundles_of_all_sizes_arrive_in_order_and_whole() {
    all_sizes_arrive(1);
}

#[test]
fn bundles_of_all_sizes_arrive_in_order_and_whole_with_sockets_on_other_threads() {
    all_sizes_arrive(3);
}

fn all_sizes_arrive(threads: usize) {
    let place = Place::new();
    let beta = place.node("ipn:2.0").with_threads(threads).start();
    let alpha = place
        .node("ipn:1.0")
        .with_threads(threads)
        .with_link("beta", beta.listen(), "")
        .with_route("ipn:2.*", "beta")
        .start();
    let mut receiver = client(&beta).receiver(&registration("ipn:2.42")).unwrap();
    send(
        &alpha,
        "ipn:1.5",
        "ipn:2.42",
        LENGTHS
            .iter()
            .enumerate()
            .map(|(number, length)| payload(number, *length)),
    );
    for (number, length) in LENGTHS.iter().enumerate() {
        assert!(
            receive(&mut receiver) == payload(number, *length),
            "payload of {length} octets"
        );
    }
    receiver.finish().unwrap();
    alpha.stop();
    beta.stop();
}

#[test]
fn thousands_of_small_bundles_arrive_once_each() {
    const COUNT: usize = 5_000;
    let place = Place::new();
    let beta = place.node("ipn:2.0").start();
    let alpha = place
        .node("ipn:1.0")
        .with_link("beta", beta.listen(), "")
        .with_route("ipn:2.*", "beta")
        .start();
    let mut receiver = client(&beta).receiver(&registration("ipn:2.42")).unwrap();
    send(
        &alpha,
        "ipn:1.5",
        "ipn:2.42",
        (0..COUNT).map(|number| number.to_be_bytes().repeat(125)),
    );
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..COUNT {
        let payload = receive(&mut receiver);
        assert_eq!(payload.len(), 1_000);
        assert!(seen.insert(payload));
    }
    receiver.finish().unwrap();
}

#[test]
fn bundles_for_a_neighbour_that_is_away_wait_and_survive_a_restart() {
    let place = Place::new();
    let beta = place.node("ipn:2.0").start();
    let address = beta.listen().to_owned();
    beta.stop();
    let plan = place
        .node("ipn:1.0")
        .with_link("beta", &address, "")
        .with_route("ipn:2.*", "beta");
    let alpha = plan.start();
    send(
        &alpha,
        "ipn:1.5",
        "ipn:2.42",
        (0..20).map(|number| payload(number, 10_000)),
    );
    alpha.stop();
    let beta = place.node("ipn:2.0").with_listen(&address).start();
    let alpha = plan.start();
    let mut receiver = client(&beta).receiver(&registration("ipn:2.42")).unwrap();
    for number in 0..20 {
        assert!(
            receive(&mut receiver) == payload(number, 10_000),
            "bundle {number}"
        );
    }
    receiver.finish().unwrap();
    alpha.stop();
    beta.stop();
}

#[test]
fn answers_find_their_way_back_over_an_accepted_session() {
    let place = Place::new();
    let beta = place.node("ipn:2.0").start();
    let alpha = place
        .node("ipn:1.0")
        .with_link("beta", beta.listen(), "")
        .start();
    let mut receiver = client(&alpha).receiver(&registration("ipn:1.9")).unwrap();
    send(
        &alpha,
        "ipn:1.9",
        "ipn:2.7",
        std::iter::once(b"echo".to_vec()),
    );
    assert_eq!(receive(&mut receiver), b"echo");
}

#[test]
fn a_slow_disk_is_waited_for_and_nothing_is_lost() {
    let place = Place::new();
    let beta = place
        .node("ipn:2.0")
        .with_store("flush_delay = \"20ms\"\nqueue = \"1MiB\"")
        .start();
    let alpha = place
        .node("ipn:1.0")
        .with_link("beta", beta.listen(), "")
        .with_route("ipn:2.*", "beta")
        .start();
    let mut receiver = client(&beta).receiver(&registration("ipn:2.42")).unwrap();
    send(
        &alpha,
        "ipn:1.5",
        "ipn:2.42",
        (0..40).map(|number| payload(number, 200_000)),
    );
    // If one comes slowly, others get a session beside it: their order is not promised.
    let mut missing: BTreeSet<usize> = (0..40).collect();
    while !missing.is_empty() {
        let received = receive(&mut receiver);
        let found = missing
            .iter()
            .find(|number| received == payload(**number, 200_000));
        // Each comes once, and as it was sent.
        let found = *found.unwrap();
        missing.remove(&found);
    }
}

#[test]
fn a_session_that_needs_tls_is_protected_and_proves_the_node_ids() {
    tls_protects(1);
}

#[test]
fn a_session_that_needs_tls_is_protected_also_with_sockets_on_other_threads() {
    tls_protects(2);
}

fn tls_protects(threads: usize) {
    let place = Place::new();
    place.write_identities(&["ipn:1.0", "ipn:2.0"]);
    let policy = "tls = \"required\"\nrequire_node_id = true";
    let beta = place
        .node("ipn:2.0")
        .with_threads(threads)
        .with_tls()
        .with_policy(policy)
        .start();
    let alpha = place
        .node("ipn:1.0")
        .with_threads(threads)
        .with_tls()
        .with_link("beta", beta.listen(), policy)
        .with_route("ipn:2.*", "beta")
        .start();
    let mut receiver = client(&beta).receiver(&registration("ipn:2.42")).unwrap();
    send(
        &alpha,
        "ipn:1.5",
        "ipn:2.42",
        (0..3).map(|number| payload(number, 1_000_000)),
    );
    for number in 0..3 {
        assert!(
            receive(&mut receiver) == payload(number, 1_000_000),
            "bundle {number}"
        );
    }
    let sessions = alpha.admin("GET", "/v1/sessions", "").1;
    assert_eq!(sessions[0]["protocol"], "tcpcl", "{sessions}");
    assert!(sessions[0]["secured"].as_bool().unwrap(), "{sessions}");
    assert_eq!(sessions[0]["peer"], "ipn:2.0");
}

/// One neighbour cannot have all places, whatever it opens.
#[test]
fn an_address_has_its_share_of_connections_and_no_more() {
    let place = Place::new();
    let beta = place
        .node("ipn:2.0")
        .with_policy("connections_per_address = 2")
        .start();
    // A connection that says nothing makes place for the next one.
    let mut silent: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(beta.listen()).unwrap())
        .collect();
    silent[0].set_read_timeout(Some(PATIENCE)).unwrap();
    // It is cut: the end, or a reset.
    assert!(!silent[0].read(&mut [0]).is_ok_and(|octets| octets > 0));
    let alpha = place
        .node("ipn:1.0")
        .with_link("beta", beta.listen(), "sessions = 3")
        .start();
    let connections = || beta.admin("GET", "/v1/node", "").1["connections"].clone();
    let sessions = || {
        beta.admin("GET", "/v1/sessions", "")
            .1
            .as_array()
            .unwrap()
            .len()
    };
    let is_settled =
        || connections()["held_back_by_address"].as_u64() >= Some(5) && sessions() == 2;
    assert!((0..10_000).any(|_| is_settled()));
    assert_eq!(connections()["held_back"], 0);
    drop(alpha);
}
