//! The stock Python client's own message code reads what we write, and we read what it writes.

use std::process::{Command, Stdio};

use bytes::Bytes;
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::{AapMessage, AapResponse, Body, BundleAdu};
use prost::Message;

use crate::client::{after_welcome, at, delivery, message, sent, session, talk};
use crate::delivery::subscriber;

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
    let capture = Bytes::from_static(include_bytes!("../data/aap2/send-small-c2s.bin"));
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
