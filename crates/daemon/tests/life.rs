//! The beginning and the end of a node: refusals to start, and files that are left behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod rig;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use rig::Place;

#[test]
fn a_ready_node_says_where_it_is() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let said: serde_json::Value = serde_json::from_str(&node.ready.json()).unwrap();
    assert_eq!(said["event"], "ready");
    assert_eq!(said["node"], "ipn:2.0");
    assert_eq!(said["api"].as_str(), Some(node.ready.api.as_str()));
    let address: std::net::SocketAddr = said["listen"][0].as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    TcpStream::connect(address).unwrap();
}

#[test]
fn an_ended_node_leaves_no_socket() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let api = rig::api(&node);
    let admin = api.with_extension("sock.admin");
    assert!(api.exists() && admin.exists());
    node.stop();
    assert!(!api.exists() && !admin.exists());
}

#[test]
fn sockets_of_a_dead_node_are_taken_over() {
    let place = Place::new();
    let plan = place.node("ipn:2.0");
    drop(UnixListener::bind(plan.file().api_socket).unwrap());
    plan.start().stop();
}

#[test]
fn a_socket_in_use_is_left_alone() {
    let place = Place::new();
    let plan = place.node("ipn:2.0");
    let path = plan.file().api_socket;
    let _other = UnixListener::bind(&path).unwrap();
    let error = plan.try_start().err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {}: another program listens there",
            path.display()
        )
    );
    assert_eq!(
        error.hint(),
        Some("is the node running already? Each node needs an API socket of its own")
    );
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let place = Place::new();
    let plan = place.node("ipn:2.0");
    let path = plan.file().api_socket;
    std::fs::write(&path, "precious").unwrap();
    let error = plan.try_start().err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {}: a file is there that is not a socket",
            path.display()
        )
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_port_in_use_is_named() {
    let place = Place::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let error = place
        .node("ipn:2.0")
        .with_listen(&address)
        .try_start()
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: Address already in use (os error 98)")
    );
    assert!(error.hint().unwrap().contains("ss -lntup"));
}

/// Faults that only an edit of the node file mends are told apart from refusals of the machine.
#[test]
fn faults_of_the_configuration_are_told_from_those_of_the_machine() {
    let place = Place::new();
    let is_configuration = |plan: &rig::NodePlan| {
        let error = plan.try_start().err().unwrap();
        assert!(
            error.hint().is_some() || !error.is_configuration(),
            "{error}"
        );
        error.is_configuration()
    };
    let plan = |id: &str| place.node(id);
    let long = "x".repeat(120);
    assert!(is_configuration(
        &plan("ipn:2.0").with_listen("no-such-host.invalid:4556")
    ));
    assert!(is_configuration(
        &plan("ipn:3.0").with("[api]\nsocket = \"missing/dhow.sock\"\n")
    ));
    assert!(is_configuration(
        &plan("ipn:4.0").with(&format!("[api]\nsocket = \"{long}\"\n"))
    ));
    std::fs::write(place.path().join("file"), "precious").unwrap();
    for path in ["../file", "../file/store"] {
        assert!(is_configuration(
            &plan("ipn:5.0").with_store(&format!("path = \"{path}\""))
        ));
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    assert!(!is_configuration(&plan("ipn:6.0").with_listen(&address)));
}

#[test]
fn a_store_is_its_owners_alone() {
    let place = Place::new();
    let node = place
        .node("ipn:2.0")
        .with_store("path = \"deep/store\"\nquota = \"64MiB\"")
        .start();
    let directory = place.path().join("ipn-2-0/deep/store");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for file in ["log", "lock"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    node.stop();
}

#[test]
fn a_store_in_use_is_refused() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let error = place.node("ipn:2.0").try_start().err().unwrap();
    let own = std::process::id();
    assert!(
        error
            .to_string()
            .ends_with(&format!("is in use by process {own}")),
        "{error}"
    );
    assert_eq!(error.hint(), Some("each node needs a store of its own"));
    node.stop();
}

#[test]
fn a_tls_identity_that_is_missing_is_named() {
    let place = Place::new();
    let error = place.node("ipn:2.0").with_tls().try_start().err().unwrap();
    assert!(
        error
            .to_string()
            .contains("node.crt has no usable certificate: "),
        "{error}"
    );
}

#[test]
fn an_ipv6_wildcard_takes_ipv4_too_unless_another_listener_has_it() {
    let place = Place::new();
    let node = place.node("ipn:2.0").with_listen("[::]:0").start();
    let port = node
        .listen()
        .rsplit_once(':')
        .unwrap()
        .1
        .parse::<u16>()
        .unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    TcpStream::connect(("::1", port)).unwrap();
    node.stop();
    let both = format!("[[listen]]\naddress = \"0.0.0.0:{port}\"\n");
    let node = place
        .node("ipn:2.0")
        .with_listen(&format!("[::]:{port}"))
        .with(&both)
        .start();
    assert_eq!(
        node.ready.listen,
        [format!("[::]:{port}"), format!("0.0.0.0:{port}")]
    );
}

#[test]
fn hostile_octets_end_their_connection_and_not_the_node() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"dtn!\x03\0\0\0",
        b"dtn!\x04\0\xff\xff\xff\xff",
        b"dtn!\x04\0\x01\0\xff",
        &[0xff; 70_000],
    ];
    for octets in hostile {
        let mut stream = TcpStream::connect(node.listen()).unwrap();
        // The node may end the connection while it is being written to.
        let _ = stream.write_all(octets);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        let mut client = UnixStream::connect(rig::api(&node)).unwrap();
        let _ = client.write_all(octets);
        let _ = client.shutdown(std::net::Shutdown::Write);
        let _ = client.read_to_end(&mut Vec::new());
    }
    assert_eq!(node.admin("GET", "/v1/node", "").0, 200);
    node.stop();
}

#[test]
fn a_node_ends_in_order_while_a_neighbour_says_nothing() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let mut silent = TcpStream::connect(node.listen()).unwrap();
    // The first connection's answer shows that the node has it.
    silent.write_all(b"dtn!\x04\0").unwrap();
    silent.read_exact(&mut [0; 6]).unwrap();
    node.stop();
}

#[test]
fn a_node_ends_in_order_while_an_application_stays_connected() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let address = dhow_client::Address::Unix(rig::api(&node));
    let registration = dhow_client::Registration::new("ipn:2.42".parse().unwrap());
    let mut receiver = dhow_client::Client::connect(&address)
        .unwrap()
        .receiver(&registration)
        .unwrap();
    let listening = std::thread::spawn(move || {
        receiver
            .next_delivery(None)
            .map(|delivery| delivery.is_some())
    });
    node.stop();
    assert!(
        listening.join().unwrap().unwrap_err().is_lost(),
        "the application hears of the end"
    );
}

/// Connections to the application interface that say nothing.
fn silent(node: &rig::RunningNode, count: usize) -> Vec<UnixStream> {
    let connect = |_| UnixStream::connect(rig::api(node)).unwrap();
    (0..count).map(connect).collect()
}

#[test]
fn silent_connections_lock_no_application_out() {
    let place = Place::new();
    let node = place.node("ipn:2.0").start();
    let address = dhow_client::Address::Unix(rig::api(&node));
    let registration = dhow_client::Registration::new("ipn:2.42".parse().unwrap());
    let first = dhow_client::Client::connect(&address)
        .unwrap()
        .receiver(&registration)
        .unwrap();
    let origins = silent(&node, 600);
    let registration = dhow_client::Registration::new("ipn:2.43".parse().unwrap());
    let second = dhow_client::Client::connect(&address)
        .unwrap()
        .receiver(&registration)
        .unwrap();
    let (_, shown) = node.admin("GET", "/v1/node", "");
    let connections = &shown["connections"];
    assert_eq!(connections["accepted"], 0, "these are no neighbours");
    assert_eq!(connections["clients"], 602);
    assert_eq!(connections["clients_cut"], 602 - 256);
    assert_eq!(connections["clients_refused"], 0);
    let (_, held) = node.admin("GET", "/v1/registrations", "");
    assert_eq!(
        held.as_array().unwrap().len(),
        2,
        "who said what it is for stays"
    );
    drop((first, second, origins));
}
