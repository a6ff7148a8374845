//! The stock Python client's own message code reads what we write, and we read what it writes.

use std::process::{Command, Stdio};

use bytes::Bytes;
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::{AapMessage, AapResponse, Body, BundleAdu};
use prost::Message;

use super::client::{after_welcome, at, delivery, message, sent, session, talk};
use super::delivery::subscriber;

/// Reads two streams in hex: a sender's (0x2f, Welcome, responses) and a subscriber's deliveries; prints
/// what they say, then messages of its own making in hex.
const SCRIPT: &str = r#"
import sys
from google.protobuf.internal.decoder import _DecodeVarint32
from google.protobuf.internal.encoder import _VarintBytes
from ud3tn_utils.aap2 import AAPMessage, AAPResponse, BundleADU, BundleADUFlags, ResponseStatus

def messages(octets, kinds):
    at = 0
    for kind in kinds:
        length, at = _DecodeVarint32(octets, at)
        message = kind()
        message.ParseFromString(octets[at:at + length])
        yield message, octets[at + length:]
        at += length

def framed(message):
    octets = message.SerializeToString()
    return (_VarintBytes(len(octets)) + octets).hex()

sender, subscriber = (bytes.fromhex(line) for line in sys.stdin.read().split())
assert sender[0] == 0x2f
(welcome, _), (config, _), (sent, _), (refused, rest) = messages(
    sender[1:], [AAPMessage, AAPResponse, AAPResponse, AAPResponse])
assert not rest
print(welcome.WhichOneof("msg"), welcome.welcome.node_id)
print(ResponseStatus.Name(config.response_status))
bundle = sent.bundle_headers
print(ResponseStatus.Name(sent.response_status), bundle.src_eid, bundle.dst_eid,
      bundle.creation_timestamp_ms, bundle.sequence_number, bundle.payload_length, bundle.lifetime_ms)
print(ResponseStatus.Name(refused.response_status))
(adu, rest), = messages(subscriber, [AAPMessage])
print(adu.WhichOneof("msg"), adu.adu.src_eid, adu.adu.dst_eid, adu.adu.payload_length,
      list(adu.adu.adu_flags), rest.decode())
print(framed(AAPMessage(adu=BundleADU(
    dst_eid="ipn:4.42", report_to_eid="ipn:2.43", payload_length=300,
    adu_flags=[BundleADUFlags.BUNDLE_ADU_NORMAL, BundleADUFlags.BUNDLE_ADU_STATUS_REPORT]))))
print(framed(AAPResponse(response_status=ResponseStatus.RESPONSE_STATUS_TIMEOUT)))
"#;

/// Run the script; `None` where the package is not installed.
fn stock_client(input: &str) -> Option<String> {
    let probe = Command::new("python3")
        .args(["-c", "import ud3tn_utils.aap2"])
        .output()
        .ok()?;
    if !probe.status.success() {
        return None;
    }
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "the stock client's code refuses what we wrote"
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn read_message(hex: &str) -> Bytes {
    let octets: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let mut reader = FrameReader::new();
    reader.push(octets.into());
    reader.take_message().unwrap().unwrap()
}

#[test]
fn stock_client_reads_what_we_write_and_we_read_what_it_writes() {
    let capture = Bytes::from_static(include_bytes!("../../data/aap2/send-small-c2s.bin"));
    let mut sender = session("dtn://a.dtn/");
    talk(&mut sender, [capture]);
    let bad = BundleAdu {
        dst_eid: "bad".into(),
        request_id: Some(1),
        ..BundleAdu::default()
    };
    talk(&mut sender, [message(Body::Adu(bad))]);
    let sender = sent(&mut sender, at(0), 65_536);
    after_welcome(sender.clone());
    let mut subscriber = subscriber(1, 0);
    subscriber.handle_command(at(0), delivery(3, b"hello"));
    let delivered = sent(&mut subscriber, at(0), 65_536);

    let Some(output) = stock_client(&format!("{}\n{}\n", hex(&sender), hex(&delivered))) else {
        eprintln!("skipped: the Python package ud3tn-utils is not installed");
        return;
    };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "welcome dtn://a.dtn/",
            "RESPONSE_STATUS_SUCCESS",
            "RESPONSE_STATUS_SUCCESS dtn://a.dtn/sender dtn://b.dtn/bundlesink 848000000000 0 45 86400000",
            "RESPONSE_STATUS_INVALID_REQUEST",
            "adu dtn://a.dtn/sender dtn://b.dtn/bundlesink 5 [] hello",
        ]
    );
    let adu = AapMessage::decode(read_message(lines[5])).unwrap();
    assert_eq!(
        adu,
        AapMessage::new(Body::Adu(BundleAdu {
            dst_eid: "ipn:4.42".into(),
            report_to_eid: "ipn:2.43".into(),
            payload_length: 300,
            adu_flags: vec![0, 3],
            ..BundleAdu::default()
        }))
    );
    assert_eq!(
        AapResponse::decode(read_message(lines[6])).unwrap(),
        AapResponse::of(9)
    );
}

/// Prints the schema that the stock package carries: message and enum, name, number.
const SCHEMA: &str = r#"
from ud3tn_utils.aap2.generated.aap2_pb2 import DESCRIPTOR
def show(message):
    for field in message.fields:
        print(message.name, field.name, field.number)
    for nested in message.nested_types:
        show(nested)
for message in DESCRIPTOR.message_types_by_name.values():
    show(message)
for enum in DESCRIPTOR.enum_types_by_name.values():
    for value in enum.values:
        print(enum.name, value.name, value.number)
"#;

/// The same lines of our published schema.
fn published() -> Vec<String> {
    let schema = include_str!("../../../../../docs/aap2-dhow.proto");
    let mut rooms: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for line in schema.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = code
            .split([' ', ';', '{'])
            .filter(|word| !word.is_empty())
            .collect();
        match words[..] {
            ["message" | "enum" | "oneof", name] => rooms.push(name),
            ["}"] => drop(rooms.pop()),
            [.., name, "=", number] if number.parse::<u32>().is_ok() => {
                let room = rooms.iter().rfind(|room| **room != "msg").unwrap();
                lines.push(format!("{room} {name} {number}"));
            }
            _ => {}
        }
    }
    assert!(
        rooms.is_empty() && lines.len() > 80,
        "{} fields read",
        lines.len()
    );
    lines
}

#[test]
fn published_schema_is_that_of_the_stock_client_and_extension_fields_from_1000() {
    let ours = published();
    let (extensions, common): (Vec<String>, Vec<String>) = ours.into_iter().partition(|line| {
        let number: u32 = line.rsplit(' ').next().unwrap().parse().unwrap();
        number >= 1000 || line.starts_with("DeliveryFailure ")
    });
    assert_eq!(
        extensions,
        [
            "AAPMessage refusal 1000",
            "Welcome extensions 1000",
            "Welcome payload_octets_max 1001",
            "ConnectionConfig failure_action 1000",
            "ConnectionConfig delivery_window 1001",
            "BundleADU lifetime_ms 1000",
            "BundleADU bundle_flags 1001",
            "BundleADU request_id 1002",
            "BundleADU delivery_id 1003",
            "BundleADU aggregated_reports 1004",
            "BundleADU bundle_version 1005",
            "BundleADU priority 1006",
            "AAPResponse request_id 1002",
            "AAPResponse message 1003",
            "AAPResponse delivery_id 1004",
            "DeliveryFailure DELIVERY_FAILURE_DEFER 0",
            "DeliveryFailure DELIVERY_FAILURE_ABANDON 1",
        ]
    );
    let output = Command::new("python3").args(["-c", SCHEMA]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: the Python package ud3tn-utils is not installed");
        return;
    };
    let mut theirs: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(String::from)
        .collect();
    let mut common = common;
    theirs.sort();
    common.sort();
    assert_eq!(common, theirs);
}
