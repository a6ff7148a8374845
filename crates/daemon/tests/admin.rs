//! The operator's interface: its answers, its refusals, and the rights of clients.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod rig;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use dhow_client::{Address, Client, Registration, SendHead};
use rig::{Place, RunningNode, request};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

/// Store bundles for a destination that nobody serves.
fn store(node: &RunningNode, to: &str, count: usize) {
    let registration = Registration::new("ipn:1.5".parse().unwrap());
    let mut sender = Client::connect(&Address::Unix(rig::api(node)))
        .unwrap()
        .sender(&registration)
        .unwrap();
    for _ in 0..count {
        sender
            .send_octets(&SendHead::to(to.parse().unwrap()), b"payload")
            .unwrap();
    }
    for _ in 0..count {
        sender
            .next_answer(Some(PATIENCE))
            .unwrap()
            .unwrap()
            .outcome
            .unwrap();
    }
}

#[test]
fn a_node_shows_itself() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    let (status, shown) = node.admin("GET", "/v1/node", "");
    assert_eq!(status, 200);
    assert_eq!(shown["node_id"], "ipn:1.0");
    assert_eq!(shown["listen"], json!([node.listen()]));
    assert_eq!(shown["store"]["durability"], "sync");
    assert_eq!(shown["store"]["quota_octets"], 64 << 20);
    assert_eq!(shown["store"]["bundles"], 0);
    assert_eq!(shown["store"]["damaged"], 0);
    for list in ["sessions", "routes", "destinations", "bundles", "links"] {
        assert_eq!(
            node.admin("GET", &format!("/v1/{list}"), ""),
            (200, json!([])),
            "{list}"
        );
    }
}

#[test]
fn stored_bundles_are_listed_by_destination_and_one_by_one_and_can_be_dropped() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    store(&node, "ipn:9.1", 3);
    let (_, destinations) = node.admin("GET", "/v1/destinations", "");
    assert_eq!(destinations[0]["destination"], "ipn:9.1");
    assert_eq!(destinations[0]["bundles"], 3);
    assert_eq!(destinations[0]["local"], false);
    let day_ms = 86_400_000;
    assert!((1..=day_ms).contains(&destinations[0]["next_expiry_ms"].as_u64().unwrap()));
    let (_, bundles) = node.admin("GET", "/v1/bundles?limit=2", "");
    assert_eq!(bundles.as_array().unwrap().len(), 2);
    assert_eq!(bundles[0]["payload_octets"], 7);
    assert_eq!(bundles[0]["state"], "waiting");
    let id = bundles[0]["id"].as_str().unwrap().to_owned();
    let escaped = id.replace(':', "%3A").replace('/', "%2F");
    assert_eq!(
        node.admin("DELETE", &format!("/v1/bundles/{escaped}"), ""),
        (200, json!({ "id": id }))
    );
    // The answer comes before the removal is durable, and until then dropping it again is no fault.
    let drop_again = || {
        Some(node.admin("DELETE", &format!("/v1/bundles/{escaped}"), ""))
            .filter(|(status, _)| *status == 404)
    };
    let (_, refusal) = (0..10_000).find_map(|_| drop_again()).unwrap();
    assert_eq!(refusal["error"], format!("no bundle {id} is stored here"));
    assert_eq!(node.admin("GET", "/v1/destinations", "").1[0]["bundles"], 2);
}

#[test]
fn a_long_list_comes_in_pieces_and_whole() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    store(&node, "ipn:9.1", 1_000);
    for to in 1..=600 {
        store(&node, &format!("ipn:8.{to}"), 1);
    }
    let (_, bundles) = node.admin("GET", "/v1/bundles?limit=1000000", "");
    let bundles = bundles.as_array().unwrap();
    let names: BTreeSet<&str> = (bundles.iter())
        .map(|bundle| bundle["id"].as_str().unwrap())
        .collect();
    assert_eq!((bundles.len(), names.len()), (1_600, 1_600));
    for limit in [0, 1, 99, 1_599, 1_600, 1_601] {
        let (_, some) = node.admin("GET", &format!("/v1/bundles?limit={limit}"), "");
        assert_eq!(some.as_array().unwrap().len(), limit.min(1_600));
    }
    let (_, destinations) = node.admin("GET", "/v1/destinations", "");
    let destinations = destinations.as_array().unwrap();
    assert_eq!(destinations.len(), 601);
    let counted = destinations
        .iter()
        .map(|it| it["bundles"].as_u64().unwrap());
    assert_eq!(counted.sum::<u64>(), 1_600);
}

#[test]
fn why_something_waits_can_be_asked_by_endpoint_and_by_bundle() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    store(&node, "ipn:9.1", 1);
    let (status, why) = node.admin("GET", "/v1/why/ipn:9.1", "");
    assert_eq!(status, 200);
    assert_eq!((&why["waiting"], &why["bundle"]), (&json!(1), &json!(null)));
    assert_eq!(why["causes"], json!([{ "cause": "no_route" }]));
    let (_, bundles) = node.admin("GET", "/v1/bundles", "");
    let id = bundles[0]["id"].as_str().unwrap();
    let (_, why) = node.admin("GET", &format!("/v1/why/{id}"), "");
    assert_eq!(why["bundle"]["id"], id);
    assert_eq!(why["causes"], json!([{ "cause": "no_route" }]));
    let (_, destinations) = node.admin("GET", "/v1/destinations", "");
    assert_eq!(destinations[0]["routed"], false);
    let (_, here) = node.admin("GET", "/v1/why/ipn:1.3", "");
    assert_eq!(here["causes"], json!([{ "cause": "not_registered" }]));
    assert_eq!(node.admin("GET", "/v1/why/ipn:1.3/1/1", "").0, 404);
    assert_eq!(node.admin("GET", "/v1/why/nobody", "").0, 400);
}

#[test]
fn a_link_that_cannot_connect_says_why() {
    let place = Place::new();
    // Bound and not listened on: nobody else gets the port, and nobody answers.
    let taken = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&taken, &any).unwrap();
    let address = std::net::SocketAddr::try_from(rustix::net::getsockname(&taken).unwrap())
        .unwrap()
        .to_string();
    let node = place
        .node("ipn:1.0")
        .with_link("gamma", &address, "")
        .start();
    let last_error = || {
        let link = node.admin("GET", "/v1/links", "").1[0].clone();
        link["last_error"].as_str().map(str::to_owned)
    };
    let said = (0..10_000).find_map(|_| last_error()).unwrap();
    assert_eq!(said, "Connection refused (os error 111)");
}

#[test]
fn links_go_up_and_down_and_routes_come_and_go() {
    let place = Place::new();
    let node = place
        .node("ipn:1.0")
        .with_link("gamma", "127.0.0.1:9", "enabled = false")
        .start();
    let link = node.admin("GET", "/v1/links", "").1[0].clone();
    assert_eq!(
        (&link["name"], &link["state"], &link["enabled"]),
        (&json!("gamma"), &json!("down"), &json!(false))
    );
    assert_eq!(
        node.admin("POST", "/v1/links/gamma/up", ""),
        (200, json!({ "link": "gamma", "direction": "up" }))
    );
    assert_eq!(node.admin("GET", "/v1/links", "").1[0]["enabled"], true);
    assert_eq!(node.admin("POST", "/v1/links/gamma/down", "").0, 200);
    assert_eq!(node.admin("GET", "/v1/links", "").1[0]["state"], "down");
    let route = r#"{"to": "ipn:4.*", "via": "gamma", "priority": 3}"#;
    assert_eq!(
        node.admin("POST", "/v1/routes", route),
        (
            200,
            json!({ "to": "ipn:4.*", "via": "gamma", "priority": 3 })
        )
    );
    let shown = node.admin("GET", "/v1/routes", "").1[0].clone();
    assert_eq!(
        shown,
        json!({ "to": "ipn:4.*", "via": "gamma", "priority": 3, "implicit": false, "usable": false })
    );
    assert_eq!(node.admin("POST", "/v1/routes", route).0, 409);
    assert_eq!(
        node.admin(
            "DELETE",
            "/v1/routes",
            r#"{"to": "ipn:4.*", "via": "gamma"}"#
        )
        .0,
        200
    );
    assert_eq!(node.admin("GET", "/v1/routes", ""), (200, json!([])));
}

#[test]
fn wrong_requests_are_refused_with_error_and_status() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    let long = format!("{{\"to\": \"{}\", \"via\": \"x\"}}", "x".repeat(70_000));
    let cases = [
        ("GET", "/v2/node", "", 404, "there is no such resource"),
        (
            "PUT",
            "/v1/node",
            "",
            405,
            "the resource does not know this method",
        ),
        (
            "POST",
            "/v1/links/delta/up",
            "",
            404,
            "no link is named 'delta'",
        ),
        (
            "POST",
            "/v1/links/delta/sideways",
            "",
            404,
            "a link goes up or down, not 'sideways'",
        ),
        (
            "DELETE",
            "/v1/bundles/nothing",
            "",
            400,
            "'nothing' names no bundle",
        ),
        (
            "POST",
            "/v1/routes",
            "{",
            400,
            "the body is not a route: EOF while parsing an object at line 1 column 1",
        ),
        (
            "POST",
            "/v1/routes",
            r#"{"to": "ipn:4.*", "via": "x"}"#,
            404,
            "no link is named 'x'",
        ),
        (
            "POST",
            "/v1/routes",
            r#"{"to": "ipn:2", "via": "ipn:3.0"}"#,
            400,
            "'ipn:2' is not an endpoint-ID pattern: an ipn pattern has two or three parts with dots between, not 1",
        ),
        (
            "GET",
            "/v1/bundles?limit=9999999",
            "",
            400,
            "at most 1000000 bundles are listed",
        ),
        (
            "GET",
            "/v1/bundles?limits=9",
            "",
            400,
            "Failed to deserialize query string: limits: unknown field `limits`, expected `limit`",
        ),
        (
            "POST",
            "/v1/routes",
            long.as_str(),
            413,
            "Failed to buffer the request body: length limit exceeded",
        ),
    ];
    for (method, path, body, status, error) in cases {
        let (given, refusal) = node.admin(method, path, body);
        assert_eq!(
            (given, refusal["error"].as_str()),
            (status, Some(error)),
            "{method} {path}"
        );
    }
}

#[test]
fn metrics_are_text_that_a_collector_reads() {
    let place = Place::new();
    let node = place
        .node("ipn:1.0")
        .with_link("gamma", "127.0.0.1:9", "enabled = false")
        .start();
    store(&node, "ipn:9.1", 2);
    let (status, text) = node.admin("GET", "/metrics", "");
    assert_eq!(status, 200);
    let text = text.as_str().unwrap();
    for line in [
        "# TYPE dhow_bundles_created counter",
        "dhow_bundles_created_total 2",
        "dhow_bundles_received_total 0",
        "dhow_bundles_stored 2",
        "dhow_bundles_damaged 0",
        "dhow_connections_accepted_total 0",
        "dhow_clients_accepted_total 1",
        "dhow_link_up{link=\"gamma\"} 0",
        "dhow_bundles_waiting{next_hop=\"ipn:9.0\"} 2",
        "dhow_destination_bundles{destination=\"ipn:9.1\"} 2",
        "dhow_store_failures_total 0",
        "# EOF",
    ] {
        assert!(
            text.lines().any(|shown| shown == line),
            "{line} is missing in\n{text}"
        );
    }
}

#[test]
fn over_tcp_only_the_token_opens() {
    let place = Place::new();
    let node = place
        .node("ipn:1.0")
        .with("[admin]\ntcp = \"127.0.0.1:0\"\ntoken = \"secret\"\n")
        .start();
    let address = node.admin("GET", "/v1/node", "").1["admin_tcp"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let ask = |headers: &str| {
        request(
            TcpStream::connect(&address).unwrap(),
            "GET",
            "/v1/node",
            "",
            headers,
        )
        .0
    };
    assert_eq!(ask(""), 401);
    assert_eq!(ask("authorization: Bearer secre\r\n"), 401);
    assert_eq!(ask("authorization: Bearer secrets\r\n"), 401);
    assert_eq!(ask("authorization: Basic secret\r\n"), 401);
    assert_eq!(ask("authorization: Bearer secret\r\n"), 200);
    assert_eq!(
        node.admin("GET", "/v1/node", "").0,
        200,
        "the Unix socket needs none"
    );
}

#[test]
fn octets_that_are_no_http_leave_the_node_running() {
    let place = Place::new();
    let node = place.node("ipn:1.0").start();
    let admin = rig::api(&node).with_extension("sock.admin");
    for octets in [&b"\0\xff\x16\x03\x01"[..], b"GET", &[b'x'; 100_000]] {
        let mut stream = UnixStream::connect(&admin).unwrap();
        // The node may end the connection while it is being written to.
        let _ = stream.write_all(octets);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(node.admin("GET", "/v1/node", "").0, 200);
}
