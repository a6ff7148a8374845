//! HTTP for applications: bundles in and out, scopes of tokens, and refusals.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod rig;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rig::{Place, RunningNode};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

const TOKENS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n\
    [[token]]\nsecret = \"application-secret\"\nscopes = [\"send\", \"receive\"]\n\
    [[token]]\nsecret = \"onlooker-secret-1\"\nscopes = [\"read\"]\n\
    [[token]]\nsecret = \"operator-secret-1\"\nscopes = [\"operate\"]\n";

const APPLICATION: &str = "authorization: Bearer application-secret\r\n";
const ONLOOKER: &str = "authorization: Bearer onlooker-secret-1\r\n";
const OPERATOR: &str = "authorization: Bearer operator-secret-1\r\n";

fn start(place: &Place) -> RunningNode {
    place.node("ipn:2.0").with(TOKENS).start()
}

fn connect(node: &RunningNode) -> TcpStream {
    let (_, told) = node.admin("GET", "/v1/node", "");
    let stream = TcpStream::connect(told["http"][0].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An answer: its status, head in lower case, and body.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> String {
        let line = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

fn ask(node: &RunningNode, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = connect(node);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: dhow\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    read(stream)
}

fn read(mut stream: TcpStream) -> Answer {
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    let end = octets.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(octets[..end].to_vec()).unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body: octets[end + 4..].to_vec(),
    }
}

fn send(node: &RunningNode, query: &str, payload: &[u8]) -> Answer {
    ask(
        node,
        "POST",
        &format!("/v1/bundles?{query}"),
        APPLICATION,
        payload,
    )
}

const DELIVERIES: &str = "/v1/endpoints/42/deliveries";

fn receive(node: &RunningNode, wait: &str) -> Answer {
    ask(
        node,
        "GET",
        &format!("{DELIVERIES}?wait={wait}"),
        APPLICATION,
        b"",
    )
}

#[test]
fn a_bundle_goes_in_and_out_and_is_gone_once_confirmed() {
    let place = Place::new();
    let node = start(&place);
    let payload: Vec<u8> = (0..1_000_000_u32).map(|at| at.to_be_bytes()[3]).collect();
    let sent = send(
        &node,
        "to=ipn:2.42&from=7000&lifetime=1h&priority=expedited:7",
        &payload,
    );
    assert_eq!(sent.status, 201, "{}", sent.head);
    assert_eq!(sent.json()["lifetime_ms"], 3_600_000);
    let id = sent.json()["id"].as_str().unwrap().to_owned();
    let taken = receive(&node, "0s");
    assert_eq!(taken.status, 200);
    assert!(taken.body == payload, "the payload is another");
    assert_eq!(taken.header("dhow-bundle"), id);
    assert_eq!(taken.header("dhow-source"), "ipn:2.7000");
    assert_eq!(taken.header("dhow-destination"), "ipn:2.42");
    assert_eq!(taken.header("dhow-priority"), "expedited:7");
    assert_eq!(taken.header("dhow-administrative"), "false");
    let place = taken.header("location");
    // Leased: nobody else gets it.
    assert_eq!(receive(&node, "0s").status, 204);
    assert_eq!(ask(&node, "DELETE", &place, APPLICATION, b"").status, 204);
    assert_eq!(ask(&node, "DELETE", &place, APPLICATION, b"").status, 404);
    assert_eq!(receive(&node, "1s").status, 204);
    let (_, told) = node.admin("GET", "/v1/node", "");
    assert_eq!(told["counters"]["delivered"], 1);
}

#[test]
fn what_is_declined_or_not_read_to_its_end_comes_again() {
    let place = Place::new();
    let node = start(&place);
    let payload = vec![7; 4 << 20];
    assert_eq!(send(&node, "to=42", &payload).status, 201);
    let declined = receive(&node, "10s").header("location") + "/decline";
    assert_eq!(ask(&node, "POST", &declined, APPLICATION, b"").status, 204);
    let mut stream = connect(&node);
    let request = format!("GET {DELIVERIES}?wait=10s HTTP/1.1\r\nhost: dhow\r\n{APPLICATION}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    assert!(some.starts_with(b"HTTP/1.1 200"));
    drop(stream);
    let again = receive(&node, "30s");
    assert!(again.status == 200 && again.body == payload);
}

#[test]
fn whoever_waits_is_given_what_comes() {
    let place = Place::new();
    let node = start(&place);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&node, "60s"));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(send(&node, "to=ipn:2.42", b"at last").status, 201);
        assert_eq!(waiting.join().unwrap().body, b"at last");
    });
}

#[test]
fn a_token_is_for_its_scopes_and_nothing_is_without_one() {
    let place = Place::new();
    let node = start(&place);
    let status =
        |method: &str, path: &str, token: &str| ask(&node, method, path, token, b"").status;
    assert_eq!(status("GET", "/v1/openapi.json", ""), 200);
    for (method, path) in [
        ("POST", "/v1/bundles?to=ipn:2.42"),
        ("GET", DELIVERIES),
        ("GET", "/v1/node"),
        ("GET", "/nothing"),
        ("POST", "/v1/links/x/down"),
    ] {
        assert_eq!(status(method, path, ""), 401, "{path}");
        assert_eq!(
            status(method, path, "authorization: Bearer application-secre\r\n"),
            401
        );
    }
    assert_eq!(status("GET", "/v1/node", APPLICATION), 403);
    assert_eq!(status("GET", DELIVERIES, ONLOOKER), 403);
    assert_eq!(status("POST", "/v1/bundles?to=ipn:2.42", ONLOOKER), 403);
    assert_eq!(status("DELETE", "/v1/bundles/x", ONLOOKER), 403);
    assert_eq!(status("GET", "/v1/bundles", ONLOOKER), 200);
    assert_eq!(status("POST", "/v1/links/x/down", OPERATOR), 404);
    assert_eq!(status("GET", "/v1/node", OPERATOR), 403);
}

#[test]
fn wrong_requests_are_refused_and_leave_nothing() {
    let place = Place::new();
    let node = start(&place);
    for (query, word) in [
        ("from=7", "to"),
        ("to=nowhere:1", "endpoint ID"),
        ("to=ipn:2.42&lifetime=soon", "lifetime"),
        ("to=ipn:2.42&report=laughter", "laughter"),
        ("to=ipn:2.42&from=dtn:none&report=delivery", "anonymous"),
        ("to=ipn:2.42&colour=red", "colour"),
        ("to=ipn:9.1&from=ipn:3.1", "ipn:3.1"),
        ("to=ipn:9.1&priority=urgent", "urgent"),
        ("to=ipn:9.1&priority=expedited:255", "expedited:255"),
    ] {
        let refused = send(&node, query, b"payload");
        let said = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(
            refused.status == 400 && said.contains(word),
            "{query}: {said}"
        );
    }
    assert_eq!(
        ask(&node, "GET", "/v1/endpoints/7/deliveries", APPLICATION, b"").status,
        400
    );
    assert_eq!(
        ask(
            &node,
            "GET",
            "/v1/endpoints/ipn:3.1/deliveries",
            APPLICATION,
            b""
        )
        .status,
        400
    );
    let mut stream = connect(&node);
    let head = format!(
        "POST /v1/bundles?to=ipn:9.1 HTTP/1.1\r\nhost: dhow\r\nconnection: close\r\n{APPLICATION}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(stream).status, 411);
    let mut stream = connect(&node);
    let head = format!(
        "POST /v1/bundles?to=ipn:9.1 HTTP/1.1\r\nhost: dhow\r\nconnection: close\r\n{APPLICATION}content-length: 99999999999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(stream).status, 413);
    // Half a payload, and then nothing.
    let mut stream = connect(&node);
    let head = head.replace("99999999999", "1000000");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[0; 500_000]).unwrap();
    drop(stream);
    assert_eq!(send(&node, "to=ipn:9.1", b"whole").status, 201);
    let (_, bundles) = node.admin("GET", "/v1/bundles", "");
    assert_eq!(bundles.as_array().unwrap().len(), 1);
}

#[test]
fn more_leases_than_there_may_be_are_refused_and_one_that_ends_makes_room() {
    let place = Place::new();
    let node = start(&place);
    for _ in 0..89 {
        assert_eq!(send(&node, "to=ipn:2.42", b"payload").status, 201);
    }
    let leased: Vec<Answer> = (0..64).map(|_| receive(&node, "10s")).collect();
    assert!(leased.iter().all(|it| it.status == 200));
    assert_eq!(receive(&node, "0s").status, 503);
    for lease in leased.iter().skip(2).take(24).chain(leased.first()) {
        let lease = lease.header("location");
        assert_eq!(ask(&node, "DELETE", &lease, APPLICATION, b"").status, 204);
        assert_eq!(receive(&node, "10s").status, 200);
    }
    // One who waits and leaves makes room as well.
    let second = leased[1].header("location");
    assert_eq!(ask(&node, "DELETE", &second, APPLICATION, b"").status, 204);
    let mut waiting = connect(&node);
    let head = format!("GET {DELIVERIES}?wait=60s HTTP/1.1\r\nhost: dhow\r\n{APPLICATION}\r\n");
    waiting.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    while receive(&node, "0s").status != 503 {
        assert!(begun.elapsed() < PATIENCE);
    }
    drop(waiting);
    while receive(&node, "0s").status == 503 {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn whoever_listens_hears_what_happens() {
    let place = Place::new();
    let node = start(&place);
    let mut stream = connect(&node);
    let head = format!("GET /v1/events HTTP/1.1\r\nhost: dhow\r\n{ONLOOKER}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    // The head has come: from here on everything is heard.
    while !lines.next().unwrap().unwrap().is_empty() {}
    let sent = send(&node, "to=ipn:9.1", b"payload");
    let event = lines
        .find_map(|line| {
            let event: Value = serde_json::from_str(line.unwrap().strip_prefix("data: ")?).unwrap();
            (event["event"] == "created").then_some(event)
        })
        .unwrap();
    assert_eq!(event["id"], sent.json()["id"]);
}

#[test]
fn a_node_ends_in_order_while_applications_wait_and_hold() {
    let place = Place::new();
    let node = start(&place);
    assert_eq!(send(&node, "to=ipn:2.42", b"held").status, 201);
    assert_eq!(receive(&node, "0s").status, 200);
    let mut waiting = connect(&node);
    let head = format!("GET {DELIVERIES}?wait=60s HTTP/1.1\r\nhost: dhow\r\n{APPLICATION}\r\n");
    waiting.write_all(head.as_bytes()).unwrap();
    let mut half = connect(&node);
    let head = format!(
        "POST /v1/bundles?to=ipn:9.1 HTTP/1.1\r\nhost: dhow\r\n{APPLICATION}content-length: 10\r\n\r\nhalf"
    );
    half.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    node.stop();
    // The held delivery is there again.
    let node = start(&place);
    assert_eq!(receive(&node, "10s").body, b"held");
    let (_, bundles) = node.admin("GET", "/v1/bundles", "");
    assert_eq!(bundles.as_array().unwrap().len(), 1);
}

#[test]
fn the_document_names_every_resource() {
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let place = Place::new();
    let node = start(&place);
    assert_eq!(
        ask(&node, "GET", "/v1/openapi.json", "", b"").json(),
        document
    );
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{endpoint}", "43")
            .replace("{delivery}", "none");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            // Known, and not allowed without a token; or open.
            let status = ask(&node, &method, &path, "", b"").status;
            assert!(matches!(status, 200 | 401), "{method} {path}: {status}");
            if status == 401 && path != "/v1/events" {
                let token = APPLICATION;
                let status = ask(&node, &method, &path, token, b"").status;
                assert!(
                    matches!(status, 204 | 400 | 404),
                    "{method} {path}: {status}"
                );
            }
        }
    }
    assert_eq!(document["openapi"], json!("3.0.3"));
}
