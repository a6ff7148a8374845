//! tshark, which knows nothing of us, reads our datagrams. It knows bundles over UDP (RFC 7122) and LTP; of extension maps
//! version 4.0 knows nothing but that they are CBOR, and so reads their items.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails where it finds something else than expected"
)]

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::storage::Piece;
use dhow_link::datagram::Limit;
use dhow_link::ltp;
use dhow_link::stream::TransferId;
use dhow_link::udpcl::{Announcement, Config, Conversation, Rate};
use dhow_link::{Batch, DatagramEvent, DatagramLink, LinkCommand};

/// Link types of pcap: IP packets, and whatever the reader is told.
const RAW_IP: u32 = 101;
const USER_0: u32 = 147;

/// The recorded bundles of version 7, as others wrote them.
fn bundles() -> Vec<Vec<u8>> {
    let lines = include_str!("data/captures/udp-bundles.tsv");
    let octets = |line: &str| {
        let hex = line.rsplit('\t').next().unwrap();
        let digits = (0..hex.len()).step_by(2);
        digits
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    };
    lines
        .lines()
        .filter(|line| line.starts_with("ion"))
        .map(octets)
        .collect()
}

/// The datagrams of a conversation that announces itself and sends these bundles.
fn datagrams(mtu: u64, bundles: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let config = Config {
        mtu,
        rate: Rate {
            octets_per_s: 0,
            burst_octets: 1 << 30,
        },
        announcement: Some(Announcement {
            node_id: "ipn:2.0".parse().unwrap(),
            interval: Duration::from_secs(10),
        }),
        ..Config::default()
    };
    let now = Now::default();
    let mut conversation = Conversation::new(config, 0x1234_5678, now);
    for (number, octets) in (0..).zip(bundles) {
        let transfer = TransferId(number);
        let length = u64::try_from(octets.len()).unwrap();
        conversation.handle_command(now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(Bytes::copy_from_slice(octets));
        conversation.handle_command(now, LinkCommand::Supply { transfer, octets });
    }
    given(&mut conversation)
}

/// The datagrams that a link gives now.
fn given(link: &mut impl DatagramLink) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    let limit = Limit {
        datagrams: usize::MAX,
        octets: u64::MAX,
    };
    link.poll_datagrams(Now::default(), limit, &mut batch);
    link.handle_left(Now::default(), u64::try_from(batch.len()).unwrap());
    let octets = |piece: &Piece| match piece {
        Piece::Octets(octets) => octets.to_vec(),
        Piece::Extent(_) => Vec::new(),
    };
    batch
        .datagrams()
        .map(|pieces| pieces.iter().flat_map(octets).collect())
        .collect()
}

/// The ports that IANA gave to bundles and to LTP.
const BUNDLES: u16 = 4_556;
const LTP: u16 = 1_113;

/// A datagram in UDP and IPv4.
fn packet(port: u16, datagram: &[u8]) -> Vec<u8> {
    let octets = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0];
    packet.extend(octets(28 + datagram.len()));
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    packet.extend(port.to_be_bytes().repeat(2));
    packet.extend(octets(8 + datagram.len()));
    packet.extend([0, 0]);
    packet.extend(datagram);
    packet
}

/// The fields that tshark finds in each frame; `None` without tshark.
fn read(name: &str, link: u32, frames: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|it| it.to_le_bytes()).collect() };
    let mut capture = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link]);
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        capture.extend(words(&[0, 0, length, length]));
        capture.extend(frame);
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, capture).unwrap();
    let mut command = Command::new("tshark");
    let user = r#"uat:user_dlts:"User 0 (DLT=147)","cborseq","0","","0","""#;
    command
        .arg("-r")
        .arg(&file)
        .args(["-o", user, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: no tshark command");
            return None;
        }
        output => output.unwrap(),
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let split = |line: &str| line.split('\t').map(String::from).collect();
    Some(text.lines().map(split).collect())
}

/// RFC 7122 3.2: one bundle, and nothing else.
#[test]
fn tshark_reads_a_bundle_in_each_datagram() {
    let mut sent = datagrams(65_507, &bundles());
    // The announcement is not for an RFC 7122 reader.
    sent.remove(0);
    let packets: Vec<_> = sent
        .iter()
        .map(|datagram| packet(BUNDLES, datagram))
        .collect();
    let fields = ["bpv7.primary.dst_uri", "_ws.malformed"];
    let Some(found) = read("udpcl-bundles.pcap", RAW_IP, &packets, &fields) else {
        return;
    };
    let destinations = ["ipn:3.1", "ipn:2.2", "ipn:3.1", "ipn:2.2", "ipn:3.2"];
    assert_eq!(found, destinations.map(|eid| [eid, ""].map(String::from)));
}

/// Draft 3.5: announcement and segments, put together from what tshark reads.
#[test]
fn tshark_reads_the_items_of_extension_maps() {
    let bundle = bundles().pop().unwrap();
    let sent = datagrams(1_232, core::slice::from_ref(&bundle));
    assert_eq!(sent.len(), 6);
    let fields = [
        "cbor.item.major_type",
        "cbor.type.textstring",
        "cbor.type.bytestring",
        "_ws.malformed",
    ];
    let Some(found) = read("udpcl-maps.pcap", USER_0, &sent, &fields) else {
        return;
    };
    assert_eq!(found[0], ["5,0,4,0,0,0,0,0,0,0,3", "ipn:2.0", "", ""]);
    let mut whole = String::new();
    for segment in &found[1..] {
        // Map, key, array, three integers and a byte string.
        assert_eq!(segment[0], "5,0,4,0,0,0,2");
        assert_eq!(segment[3], "");
        whole += &segment[2];
    }
    let hex: String = bundle.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(whole, hex);
}

/// An LTP engine that takes what comes from another to be durable at once.
fn engine(engine: u64, remote_engine: u64) -> ltp::Engine {
    let config = ltp::Config {
        engine,
        remote_engine,
        doubling: 0,
        ..ltp::Config::default()
    };
    ltp::Engine::new(config, engine, Now::default())
}

fn receive(engine: &mut ltp::Engine, datagrams: &[Vec<u8>]) {
    let now = Now::default();
    let datagrams: Vec<_> = datagrams.iter().cloned().map(Bytes::from).collect();
    engine.handle_datagrams(now, &datagrams);
    while let Some(event) = engine.poll_event() {
        if let DatagramEvent::Complete { transfer, length } = event {
            let octets = length;
            engine.handle_command(now, LinkCommand::Acknowledge { transfer, octets });
        }
    }
}

/// RFC 5326 3: data, reports with claims, acknowledgments, octets that were lost, and a cancellation.
#[test]
fn tshark_reads_a_session_that_lost_a_segment_and_one_that_is_cancelled() {
    let (now, bundle) = (Now::default(), bundles().pop().unwrap());
    let (mut sender, mut receiver) = (engine(2, 3), engine(3, 2));
    let transmit = |sender: &mut ltp::Engine, number| {
        let transfer = TransferId(number);
        let length = u64::try_from(bundle.len()).unwrap();
        sender.handle_command(now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(Bytes::copy_from_slice(&bundle));
        sender.handle_command(now, LinkCommand::Supply { transfer, octets });
    };
    transmit(&mut sender, 0);
    let mut first = given(&mut sender);
    first.remove(1);
    receive(&mut receiver, &first);
    let mut all = first;
    for _ in 0..3 {
        let answers = given(&mut receiver);
        receive(&mut sender, &answers);
        let again = given(&mut sender);
        receive(&mut receiver, &again);
        all.extend(answers.into_iter().chain(again));
    }
    transmit(&mut sender, 1);
    all.extend(given(&mut sender).into_iter().take(1));
    let transfer = TransferId(1);
    sender.handle_command(now, LinkCommand::Cancel { transfer });
    let cancel = given(&mut sender);
    receive(&mut receiver, &cancel);
    all.extend(cancel.into_iter().chain(given(&mut receiver)));
    let packets: Vec<_> = all.iter().map(|datagram| packet(LTP, datagram)).collect();
    let fields = [
        "ltp.type",
        "ltp.data.offset",
        "ltp.data.length",
        "ltp.rpt.lb",
        "ltp.rpt.ub",
        "ltp.rpt.clm.off",
        "ltp.rpt.clm.len",
        "ltp.cancel.code",
    ];
    let Some(found) = read("ltp.pcap", RAW_IP, &packets, &fields) else {
        return;
    };
    let found: Vec<_> = found.iter().map(|fields| fields.join(" ")).collect();
    let found: Vec<_> = found.iter().map(|fields| fields.trim_end()).collect();
    let expected = [
        "0x00 0 1388",
        "0x00 2775 1387",
        "0x03 4162 917",
        "0x08   0 5079 0,2775 1388,2304",
        "0x09",
        "0x00 1388 1386",
        "0x01 2774 1",
        "0x08   0 5079 0 5079",
        "0x09",
        "0x00 0 1388",
        "0x0c       0x00",
        "0x0d",
    ];
    assert_eq!(found, expected);
}
