//! Measurements of a node of itself, read as a collector reads them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod rig;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use dhow_client::{Address, Client, Registration, SendHead};
use dhow_measure::omsp::{Cell, Decoder};
use rig::Place;

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn client_of(node: &rig::RunningNode) -> Client {
    Client::connect(&Address::Unix(rig::api(node))).unwrap()
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Rows by stream, cells as text.
fn rows(path: &Path) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut decoder = Decoder::default();
    decoder.feed(&std::fs::read(path).unwrap()).unwrap();
    decoder.finish();
    let batch = decoder.take();
    assert!(batch.refused.is_empty(), "{:?}", batch.refused);
    let mut rows: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for row in batch.rows.iter() {
        let defined = batch.definitions.iter().find(|d| d.stream == row.stream);
        let cells = row.cells().map(|cell| match cell {
            Cell::Text(text) => text.to_owned(),
            Cell::Uint(number) => number.to_string(),
            Cell::Double(number) => number.to_string(),
            other => panic!("{other:?}"),
        });
        let name = defined.unwrap().schema.name().to_owned();
        rows.entry(name).or_default().push(cells.collect());
    }
    rows
}

#[test]
fn a_node_tells_of_every_bundle_of_sessions_and_of_its_store() {
    let place = Place::new();
    let measure = |name: &str, rest: &str| {
        let path = place.path().join(name);
        format!("[measure]\ncollect = \"file:{}\"\n{rest}\n", path.display())
    };
    let beta = place
        .node("ipn:2.0")
        .with(&measure("beta", "interval = \"20ms\""))
        .start();
    let alpha = place
        .node("ipn:1.0")
        .with_link("beta", beta.listen(), "")
        .with_route("ipn:2.*", "beta")
        .with(&measure(
            "alpha",
            "points = [\"created\", \"session\", \"transfer\"]\nsender = \"first\"",
        ))
        .start();
    let endpoint = Registration::new("ipn:2.42".parse().unwrap());
    let mut receiver = client_of(&beta).receiver(&endpoint).unwrap();
    let mut sender = client_of(&alpha)
        .sender(&Registration::new("ipn:1.42".parse().unwrap()))
        .unwrap();
    for _ in 0..3 {
        sender
            .send_octets(&SendHead::to("ipn:2.42".parse().unwrap()), &[7; 1000])
            .unwrap();
    }
    for _ in 0..3 {
        let answer = sender.next_answer(Some(PATIENCE)).unwrap().unwrap();
        answer.outcome.unwrap();
    }
    for _ in 0..3 {
        let mut delivery = receiver.next_delivery(Some(PATIENCE)).unwrap().unwrap();
        std::io::copy(&mut delivery, &mut std::io::sink()).unwrap();
        delivery.confirm().unwrap();
    }
    drop((receiver, sender));
    // A session is told of in intervals, for as long as it is up.
    let began = std::time::Instant::now();
    let beta_path = place.path().join("beta");
    let neighbour = "\tipn:1.0\t0\t0\t0\t3\t";
    while !std::fs::read_to_string(&beta_path)
        .unwrap()
        .contains(neighbour)
    {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    alpha.stop();
    beta.stop();

    let told = rows(&place.path().join("beta"));
    assert_eq!(told["dhow_received"].len(), 3);
    assert!(
        told["dhow_received"]
            .iter()
            .all(|row| row[1] == "ipn:1.0" && row[0].contains("ipn:1.42"))
    );
    let delivered = &told["dhow_delivered"];
    assert!(
        delivered.len() == 3
            && delivered
                .iter()
                .all(|row| row[1] == "ipn:2.42" && row[2] == "1000")
    );
    assert_eq!(told["dhow_session"][0][..1], ["up"]);
    assert_eq!(told["dhow_contact"], [["on"], ["over"]]);
    let state = told["dhow_state"].last().unwrap();
    assert_eq!(
        (state[3].as_str(), state[8].as_str()),
        ("3", "3"),
        "received and delivered"
    );
    assert_ne!(told["dhow_store"].last().unwrap()[0], "0", "batches");
    let commits = &told["dhow_commit"];
    let sum = |column: usize| -> u64 { commits.iter().map(|row| number(&row[column])).sum() };
    assert_eq!(sum(0), 3, "bundles that became durable");
    assert!(sum(1) > 3000, "their octets");
    let times = commits.iter().map(|row| [&row[2], &row[3]]);
    let mut times = times.map(|row| row.map(|text| text.parse::<f64>().unwrap()));
    assert!(times.all(|[busy, flush]| busy >= flush && flush > 0.0));
    let told = rows(&place.path().join("alpha"));
    let streams: Vec<&str> = told.keys().map(String::as_str).collect();
    assert_eq!(
        streams,
        [
            "_dhow_client",
            "_experiment_metadata",
            "dhow_created",
            "dhow_session",
            "dhow_transfer"
        ]
    );
    let transfers = &told["dhow_transfer"];
    assert_eq!(transfers.len(), 3);
    for row in transfers {
        let took: f64 = row[3].parse().unwrap();
        assert!(row[1] == "ipn:2.0" && number(&row[2]) > 1000 && (0.0..60.0).contains(&took));
        assert!(took > 0.0);
    }
    let header = std::fs::read_to_string(place.path().join("alpha")).unwrap();
    assert!(header.contains("sender-id: first\n") && header.contains("domain: dhow\n"));
}

/// The next report of a node to itself.
fn report(place: &Place, node: &rig::RunningNode) -> BTreeMap<String, Vec<Vec<String>>> {
    let endpoint = Registration::new("ipn:1.3003".parse().unwrap());
    let mut receiver = client_of(node).receiver(&endpoint).unwrap();
    let mut delivery = receiver.next_delivery(Some(PATIENCE)).unwrap().unwrap();
    assert_eq!(delivery.head().id.source.to_string(), "ipn:1.3004");
    assert_eq!(delivery.head().lifetime_ms, 24 * 3600 * 1000);
    let path = place.path().join("parcel");
    std::io::copy(&mut delivery, &mut std::fs::File::create(&path).unwrap()).unwrap();
    delivery.confirm().unwrap();
    let short = Some(Duration::from_millis(50));
    assert!(receiver.next_delivery(short).unwrap().is_none());
    receiver.finish().unwrap();
    rows(&path)
}

#[test]
fn a_node_reports_in_bundles_and_not_of_them() {
    let place = Place::new();
    let measuring = place
        .node("ipn:1.0")
        .with("[measure]\ncollect = \"bundles:ipn:1.3003\"\ninterval = \"1h\"\n");
    let node = measuring.start();
    let mut sender = client_of(&node)
        .sender(&Registration::new("ipn:1.42".parse().unwrap()))
        .unwrap();
    let head = SendHead::to("ipn:1.43".parse().unwrap());
    for _ in 0..3 {
        sender.send_octets(&head, &[7; 1000]).unwrap();
        let answer = sender.next_answer(Some(PATIENCE)).unwrap().unwrap();
        answer.outcome.unwrap();
    }
    drop(sender);
    // The end makes a report of all, which waits in the store for a collector.
    node.stop();
    let node = measuring.start();
    let told = report(&place, &node);
    assert_eq!(told["dhow_created"].len(), 3);
    assert!(told.contains_key("dhow_commit"));
    assert_eq!(told["dhow_queue"].last().unwrap()[..], ["", "3"]);
    assert_eq!(told["dhow_state"].last().unwrap()[5], "3", "created");
    node.stop();
    // That it was delivered and removed is not told, as that report would be told of in the next.
    let node = place.node("ipn:1.0").start();
    let told = report(&place, &node);
    assert!(told.contains_key("dhow_state") && !told.contains_key("dhow_delivered"));
    assert!(!told.contains_key("dhow_commit"));
}
