//! Octets that a node asks of its store before a small bundle leaves.

use crate::world::World;
use crate::world::client::Client;
use dhow_node::api::wire::BundleAdu;
use dhow_node::config::FirstRead;

const PAYLOAD_OCTETS: usize = 10_000;

/// Reads that the first of two nodes makes for one bundle, octets of each, and how many came to the second.
fn reads(first_read: FirstRead) -> (Vec<u64>, usize) {
    let mut world = World::line(2, 1, |_, config| {
        config.first_read = first_read;
    });
    world.hostile = true;
    world.refusals = 0;
    let receiver = world.connect(1, Client::new("ipn:2.42", true));
    let mut sender = Client::new("ipn:1.5", false);
    let adu = BundleAdu {
        dst_eid: "ipn:2.42".into(),
        lifetime_ms: Some(6_000_000),
        ..BundleAdu::default()
    };
    sender.send(adu, &[7; PAYLOAD_OCTETS]);
    world.connect(0, sender);
    let mut reads = Vec::new();
    world.until("it is delivered", |world| {
        let asked = world.machines[0].reads.iter();
        let octets = asked.map(|(_, extents)| extents.iter().map(|it| it.length).sum::<u64>());
        reads.extend(octets);
        !world.client(1, receiver).received.is_empty()
    });
    let came = &world.client(1, receiver).received;
    assert!(came.iter().all(|it| it.1 == [7; PAYLOAD_OCTETS]));
    let came = came.len();
    (reads, came)
}

#[test]
fn a_small_bundle_is_read_whole_or_its_header_blocks_alone() {
    let (whole, came) = reads(FirstRead::Whole);
    assert_eq!(came, 1);
    assert!(
        whole.iter().any(|it| *it > PAYLOAD_OCTETS as u64),
        "{whole:?}"
    );
    let (headers, came) = reads(FirstRead::HeaderBlocks);
    assert_eq!(came, 1);
    assert!(
        !headers.is_empty() && headers.iter().all(|it| *it < 256),
        "{headers:?}"
    );
}
