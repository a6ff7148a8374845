//! `dhow bundle decode` and `dhow bundle make`, against golden vectors and against what real peers sent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what fails by failing"
)]

mod program;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use dhow_bundle::gateway::{GATEWAY_BLOCK_V6, GATEWAY_BLOCK_V7};
use dhow_bundle::v7::block::BlockFlags;
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, v6};
use program::{Said, assert_snapshot, dhow, run, run_in};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// "hello" from ipn:1.1 to ipn:2.1, created at [1000, 7]; computed apart from this project.
const HELLO_CRC16: &str = "9f89070001820282020182028201018202820100821903e8071a0036ee8042661f86010100014568656c6c6f424bf3ff";
const HELLO_CRC32C: &str = "9f89070002820282020182028201018202820100821903e8071a0036ee8044493a525486010100024568656c6c6f4421c13f2fff";
const HELLO_EXTENSIONS: &str = "9f89070002820282020182028201018202820100821903e8071a0036ee8044493a525485070200004319012c850a0300004482181e01850604000045820282030086010100024568656c6c6f4421c13f2fff";
const HELLO_WITHOUT_CRC: &str =
    "9f88070000820282020182028201018202820100821903e8071a0036ee8085010100004568656c6c6fff";

fn sha256(octets: &[u8]) -> String {
    Sha256::digest(octets)
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect()
}

/// Runs a command with this on its stdin.
fn run_with_input(arguments: &[&str], input: &[u8]) -> Said {
    let mut child = dhow(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A command that has seen enough closes its stdin.
        let _ = stdin.write_all(&input);
    });
    let said = child.wait_with_output().unwrap().into();
    writer.join().unwrap();
    said
}

fn decode_hex(hex: &str, more: &[&str]) -> Said {
    run_with_input(
        &[&["bundle", "decode", "--hex", "-"], more].concat(),
        hex.as_bytes(),
    )
}

fn octets_of(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn golden_vectors_are_described_as_json() {
    let mut expected = json!({
        "accepted": true, "version": 7, "source": "ipn:1.1", "destination": "ipn:2.1", "report_to": "ipn:1.0",
        "creation": [1000, 7], "lifetime_ms": 3_600_000, "flags": 0, "crc": "32c", "fragment": null,
        "blocks": [
            {"type": 7, "number": 2, "flags": 0, "crc": "none", "octets": 3, "content": 300},
            {"type": 10, "number": 3, "flags": 0, "crc": "none", "octets": 4, "content": {"limit": 30, "count": 1}},
            {"type": 6, "number": 4, "flags": 0, "crc": "none", "octets": 5, "content": "ipn:3.0"},
            {"type": 1, "number": 1, "flags": 0, "crc": "32c", "octets": 5, "content": null},
        ],
        "payload_octets": 5, "payload_sha256": sha256(b"hello"), "record": null,
        "nonconforming": [],
    });
    let said = decode_hex(HELLO_EXTENSIONS, &["--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(
        serde_json::from_str::<Value>(&said.stdout).unwrap(),
        expected
    );

    expected["blocks"] =
        json!([{"type": 1, "number": 1, "flags": 0, "crc": "16", "octets": 5, "content": null}]);
    expected["crc"] = json!("16");
    let said = decode_hex(HELLO_CRC16, &["--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&said.stdout).unwrap(),
        expected
    );
}

#[test]
fn golden_vectors_read_well() {
    let texts: Vec<String> = [HELLO_CRC32C, HELLO_EXTENSIONS]
        .iter()
        .map(|hex| decode_hex(hex, &[]).stdout)
        .collect();
    assert_snapshot("decode-text.txt", &texts.join("\n"));
}

// RFC 9171 4.3.1: a primary block has a CRC unless a Block Integrity Block targets it.
#[test]
fn primary_block_without_crc_is_refused_unless_reading_is_lenient() {
    let said = decode_hex(HELLO_WITHOUT_CRC, &[]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(
        said.stderr.contains("RFC 9171 4.3.1") && said.stderr.contains("--lenient"),
        "{}",
        said.stderr
    );
    let judgement: Value =
        serde_json::from_str(&decode_hex(HELLO_WITHOUT_CRC, &["--json"]).stdout).unwrap();
    assert_eq!(
        (&judgement["accepted"], &judgement["section"]),
        (&json!(false), &json!("RFC 9171 4.3.1"))
    );
    assert_eq!(decode_hex(HELLO_WITHOUT_CRC, &["--lenient"]).code, 0);
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused_with_a_rule() {
    let octets = octets_of(HELLO_CRC32C);
    for damaged in [
        octets[..0].to_vec(),
        octets[..1].to_vec(),
        octets[..30].to_vec(),
        octets[..octets.len() - 1].to_vec(),
        [octets.as_slice(), &[0]].concat(),
        flip(&octets, 20),
        flip(&octets, 43),
    ] {
        let said = run_with_input(&["bundle", "decode", "-"], &damaged);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(
            said.stderr.contains("cannot accept the bundle: ")
                && said.stderr.contains("RFC ")
                && !said.stderr.contains("RFC 9171 RFC")
                && !said.stderr.contains("--lenient"),
            "{}",
            said.stderr
        );
    }
}

fn flip(octets: &[u8], place: usize) -> Vec<u8> {
    let mut flipped = octets.to_vec();
    flipped[place] ^= 0x10;
    flipped
}

#[test]
fn text_that_is_no_hexadecimal_is_a_failure_and_no_refusal() {
    let said = decode_hex("9f 88 zz", &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains("'z' is not a hexadecimal digit"),
        "{}",
        said.stderr
    );
}

/// Bundles that peers sent: names and octets in hexadecimal; the file says where they are from.
fn captured() -> Vec<(String, String)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../bundle/tests/data/bundles.tsv");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split_once('\t').unwrap())
        .map(|(name, hex)| (name.to_owned(), hex.to_owned()))
        .collect()
}

/// The payload that all captures use: numbered lines, cut at its size.
fn payload(number: u64, size: usize) -> Vec<u8> {
    let lines = (0..).map(|line| format!("dhow-test-payload-{number:03} line {line:04} the quick brown fox jumps over the lazy dog\n"));
    lines.flat_map(String::into_bytes).take(size).collect()
}

#[test]
fn bundles_of_real_peers_are_accepted_but_for_their_known_imperfections() {
    let captured = captured();
    assert!(captured.len() > 40, "the file has {} rows", captured.len());
    let (mut known_payloads, mut reports) = (0, 0);
    for (name, hex) in &captured {
        let imperfect = name.starts_with("dtn7rs-") || name.starts_with("dtnme-");
        let strict = decode_hex(hex, &["--json"]);
        assert!(
            strict.code == 0 || (strict.code == 1 && imperfect),
            "{name}: {}",
            strict.stderr
        );
        let lenient = decode_hex(hex, &["--json", "--lenient"]);
        assert_eq!(lenient.code, 0, "{name}: {}", lenient.stderr);
        let bundle: Value = serde_json::from_str(&lenient.stdout).unwrap();
        let octets = bundle["payload_octets"].as_u64().unwrap();
        for number in [1, 2, 203, 302, 502] {
            known_payloads += usize::from(
                bundle["payload_sha256"]
                    == sha256(&payload(number, usize::try_from(octets).unwrap()))
                    && octets > 1000,
            );
        }
        // DTNME writes integers for Booleans into its reports.
        for deviation in bundle["nonconforming"].as_array().unwrap() {
            assert!(name.starts_with("dtnme-"), "{name}: {deviation}");
            assert_eq!(deviation["section"], "RFC 9171 6.1.1");
            reports += 1;
        }
        // dtn7-rs writes no CRC on the primary block.
        if name.starts_with("dtn7rs-") {
            assert_eq!(strict.code, 1, "{name}");
        }
    }
    assert!(reports >= 2, "{reports} reports of DTNME");
    assert!(
        known_payloads >= 5,
        "only {known_payloads} payloads are the ones that were sent"
    );
}

fn make_and_decode(directory: &Path, payload: &[u8], options: &[&str]) -> Value {
    fs::write(directory.join("payload"), payload).unwrap();
    let made = run_in(
        directory,
        &[
            &[
                "bundle",
                "make",
                "ipn:1.5",
                "ipn:2.42",
                "payload",
                "--out",
                "made.bundle",
            ],
            options,
        ]
        .concat(),
    );
    assert_eq!(
        (made.code, made.stdout.as_str()),
        (0, ""),
        "{}",
        made.stderr
    );
    let decoded = run_in(directory, &["bundle", "decode", "made.bundle", "--json"]);
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    serde_json::from_str(&decoded.stdout).unwrap()
}

#[test]
fn what_make_wrote_decodes_to_what_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let options = [
        "--lifetime",
        "90s",
        "--report",
        "delivery,deletion",
        "--crc",
        "16",
        "--hop-limit",
        "9",
        "--age",
        "1500",
        "--report-to",
        "ipn:1.9",
        "--creation",
        "1000/7",
    ];
    let bundle = make_and_decode(directory.path(), b"hello", &options);
    assert_eq!(
        [
            &bundle["source"],
            &bundle["destination"],
            &bundle["report_to"],
            &bundle["creation"],
            &bundle["lifetime_ms"],
            &bundle["flags"],
            &bundle["crc"],
            &bundle["payload_sha256"]
        ],
        [
            &json!("ipn:1.5"),
            &json!("ipn:2.42"),
            &json!("ipn:1.9"),
            &json!([1000, 7]),
            &json!(90_000),
            &json!(0x6_0000),
            &json!("16"),
            &json!(sha256(b"hello"))
        ]
    );
    let contents: Vec<&Value> = bundle["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["content"])
        .collect();
    assert!(
        contents.contains(&&json!(1500)) && contents.contains(&&json!({"limit": 9, "count": 0})),
        "{contents:?}"
    );
}

#[test]
fn made_bundles_of_any_size_decode_whole() {
    let directory = tempfile::tempdir().unwrap();
    for octets in [0, 1, 23, 24, 255, 256, 65_535, 65_536, 3_000_001] {
        let payload = payload(1, octets);
        let bundle = make_and_decode(directory.path(), &payload, &[]);
        assert_eq!(
            (&bundle["payload_octets"], &bundle["payload_sha256"]),
            (&json!(octets), &json!(sha256(&payload)))
        );
    }
}

#[test]
fn make_refuses_flags_that_decode_would_refuse_or_that_have_no_effect() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("payload"), b"hello").unwrap();
    let make = |flags: &str, payload: &str| {
        run_in(
            directory.path(),
            &[
                "bundle",
                "make",
                "ipn:1.5",
                "ipn:2.42",
                payload,
                "--flags",
                flags,
                "--out",
                "made.bundle",
            ],
        )
    };
    for (flags, rule) in [
        ("0x1", "RFC 9171 4.3.1"),
        ("2", "RFC 9171 6.1"),
        ("0x20002", "RFC 9171 4.2.3"),
    ] {
        let said = make(flags, "payload");
        assert_eq!(said.code, 1, "{flags}");
        assert!(
            said.stderr.starts_with("error: cannot make the bundle: ")
                && said.stderr.contains(rule),
            "{}",
            said.stderr
        );
        assert!(!directory.path().join("made.bundle").exists());
    }
    assert_eq!(make("0x24", "payload").code, 0);
    // The report that ipn:1.5/1000/7 was received.
    let report = octets_of("8201848481f581f481f481f4008202820105821903e807");
    fs::write(directory.path().join("record"), report).unwrap();
    let made = make("0x2", "record");
    assert_eq!(made.code, 0, "{}", made.stderr);
}

#[test]
fn make_refuses_what_would_be_no_bundle_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("payload"), b"hello").unwrap();
    let said = run_in(
        directory.path(),
        &[
            "bundle",
            "make",
            "dtn:none",
            "ipn:2.42",
            "payload",
            "--report",
            "delivery",
            "--out",
            "made.bundle",
        ],
    );
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(!directory.path().join("made.bundle").exists());
    assert_eq!(
        run(&["bundle", "make", "ipn:1.5", "ipn:2.42", "/nowhere"]).code,
        1
    );
}

/// A node takes bundles by their blocks, and applications read reports leniently: so does the command, and says what is wrong.
#[test]
fn integers_for_booleans_of_a_report_are_named_and_taken() {
    const REPORT: &str = "8201848481f581f481f481f4008202820105821903e800";
    let directory = tempfile::tempdir().unwrap();
    let payload = directory.path().join("record");
    fs::write(&payload, octets_of(REPORT)).unwrap();
    let file = directory.path().join("bundle");
    let (payload, path) = (payload.to_str().unwrap(), file.to_str().unwrap());
    let words = ["bundle", "make", "ipn:2.0", "ipn:1.5", payload];
    let more = ["--flags", "0x2", "--crc", "none", "--out", path];
    let made = run(&[&words[..], &more].concat());
    assert_eq!(made.code, 0, "{}", made.stderr);
    let decoded = || run(&["bundle", "decode", path, "--json"]);
    let right: Value = serde_json::from_str(&decoded().stdout).unwrap();
    assert_eq!(right["nonconforming"], json!([]));
    let mut octets = fs::read(&file).unwrap();
    for (boolean, integer) in [([0x81, 0xf5], 1), ([0x81, 0xf4], 0)] {
        while let Some(place) = octets.windows(2).position(|it| it == boolean) {
            octets[place + 1] = integer;
        }
    }
    fs::write(&file, octets).unwrap();
    let odd: Value = serde_json::from_str(&decoded().stdout).unwrap();
    assert_eq!(odd["record"], right["record"]);
    assert_eq!(
        odd["nonconforming"],
        json!([{"what": "integers for Booleans in status reports", "section": "RFC 9171 6.1.1"}])
    );
    let text = run(&["bundle", "decode", path]).stdout;
    let line = "not as the standard says: integers for Booleans in status reports (RFC 9171 6.1.1)";
    assert!(text.contains(line), "{text}");
}

/// The example of `docs/aggregated-reports.md`.
#[test]
fn an_aggregated_report_is_shown_by_its_runs() {
    let directory = tempfile::tempdir().unwrap();
    let record = [
        "8219fd448285820282010502008119138",
        "88c1903e8001864000002010001000103",
        "878202820105030180831903e807011864",
        "19012c",
    ]
    .concat();
    let octets: Vec<u8> = (0..record.len() / 2)
        .map(|place| u8::from_str_radix(&record[2 * place..2 * place + 2], 16).unwrap())
        .collect();
    let payload = directory.path().join("record");
    fs::write(&payload, octets).unwrap();
    let bundle = directory.path().join("bundle");
    let (payload, bundle) = (payload.to_str().unwrap(), bundle.to_str().unwrap());
    let words = ["bundle", "make", "ipn:2.0", "ipn:1.5", payload];
    let made = run(&[&words[..], &["--flags", "0x2", "--out", bundle]].concat());
    assert_eq!(made.code, 0, "{}", made.stderr);
    let said = run(&["bundle", "decode", bundle, "--json"]);
    let described: Value = serde_json::from_str(&said.stdout).unwrap();
    let record = &described["record"];
    assert_eq!(record["type"], 64836);
    assert_eq!(
        record["groups"][0],
        json!({
            "status": "delivered", "reason": 0, "source": "ipn:1.5", "fragment": null,
            "runs": [
                {"creation": [1000, 0], "count": 100, "time": 5000},
                {"creation": [1000, 102], "count": 1, "time": 5000},
                {"creation": [1001, 0], "count": 1, "time": 5003},
            ],
        })
    );
    assert_eq!(
        record["groups"][1]["fragment"],
        json!({"offset": 100, "octets": 300})
    );
    let text = run(&["bundle", "decode", bundle]).stdout;
    for line in [
        "reports on 103 bundles",
        "  delivered    102 of ipn:1.5, no additional information",
        "               1000/0 to 99, 2000-01-01 00:00:05.000 UTC",
        "  deleted      1 of ipn:1.5, lifetime expired, fragments at 100 of 300 octets",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

/// Bundles of version 6 as live programs sent them, by the name of the capture.
fn captured_v6(name: &str) -> &'static str {
    let all = include_str!("../../bundle/tests/data/bundles_v6.tsv");
    let mut lines = all.lines().filter_map(|line| line.split_once('\t'));
    lines.find(|(it, _)| *it == name).unwrap().1
}

fn describe_captured(name: &str) -> Value {
    let said = decode_hex(captured_v6(name), &["--json"]);
    assert_eq!(said.code, 0, "{name}: {}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn a_bundle_of_version_6_is_described_with_its_custody() {
    let described = describe_captured("ion-bpv6-tcpclv3-custody-acs#1");
    for (key, value) in [
        ("version", json!(6)),
        ("source", json!("ipn:2.2")),
        ("destination", json!("ipn:3.5")),
        ("report_to", json!("ipn:2.4")),
        ("custodian", json!("ipn:2.0")),
        ("creation", json!([848_496_211, 1])),
        ("lifetime_s", json!(60)),
        ("priority", json!("normal")),
        ("fragment", Value::Null),
        ("record", Value::Null),
    ] {
        assert_eq!(described[key], value, "{key}");
    }
    let content = |at: usize| described["blocks"][at]["content"].clone();
    let types = described["blocks"].as_array().unwrap().iter();
    let types: Vec<u64> = types.map(|it| it["type"].as_u64().unwrap()).collect();
    assert_eq!(types, [5, 20, 10, 1]);
    assert_eq!(content(0), json!("ipn:2.0"));
    assert_eq!(content(1), json!({"age_us": 0}));
    assert_eq!(content(2), json!({"custody_id": 0, "custodian": "ipn:2.0"}));
    let text = decode_hex(captured_v6("ion-bpv6-tcpclv3-custody-acs#1"), &[]).stdout;
    for line in [
        "bundle ipn:2.2/848496211/1, version 6, 90 octets",
        "  priority     normal",
        "custody 0 of ipn:2.0",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn records_of_version_6_are_described() {
    let report = &describe_captured("dtnme-bpv6-udpcl#2")["record"];
    assert_eq!(report["type"], 1);
    assert_eq!(report["bundle"]["source"], "dtn://me1/src");
    assert!(report["received"].is_array() && report["delivered"].is_null());
    let signal = &describe_captured("hdtn-bpv6-tcpclv3-custody#2")["record"];
    assert_eq!(signal["type"], 2);
    assert_eq!(signal["succeeded"], true);
    assert_eq!(signal["bundle"]["source"], "ipn:1.1");
    let aggregate = &describe_captured("ion-bpv6-tcpclv3-custody-acs#19")["record"];
    assert_eq!(aggregate["type"], 4);
    assert_eq!(aggregate["custody_ids"], json!([[0, 2]]));
}

/// RFC 5050 6.1.1, 6.1.2: a code of a report and of a signal may have different names.
#[test]
fn reasons_of_version_6_have_their_names() {
    // When, and the bundle: creation time, sequence number, source.
    let rest = "834800 8348 01 0769706e3a312e31";
    for (start, line) in [
        ("10 10 08", "  reason       block unintelligible\n"),
        ("10 10 2a", "  reason       reason 42\n"),
        ("20 03", "  reason       redundant reception\n"),
        ("20 02", "  reason       reason 2\n"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let record = format!("{start}{rest}").replace(' ', "");
        fs::write(directory.path().join("record"), octets_of(&record)).unwrap();
        let words = [
            "bundle", "make", "ipn:1.0", "ipn:2.0", "record", "--out", "made",
        ];
        let more = ["--version", "6", "--flags", "0x2"];
        let made = run_in(directory.path(), &[&words[..], &more].concat());
        assert_eq!(made.code, 0, "{}", made.stderr);
        let text = run_in(directory.path(), &["bundle", "decode", "made"]).stdout;
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

/// docs/gateway.md 5.
#[test]
fn a_gateway_block_is_named_and_described_in_both_versions() {
    let hex = |octets: &[u8]| {
        octets
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect::<String>()
    };
    let described = |bundle: &[u8]| {
        let said = decode_hex(&hex(bundle), &["--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let described: Value = serde_json::from_str(&said.stdout).unwrap();
        let block = &described["blocks"][0];
        assert_eq!(block["type"], 213);
        let text = decode_hex(&hex(bundle), &[]).stdout;
        (block["content"].clone(), text)
    };
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(848_000_000_000),
        sequence: 1,
    };
    // [1, custody and its report and expedited, 60 s, [], [[200, 1, behind the payload, 01]]]
    let content = octets_of("8501198108183c80818418c801014101");
    let (source, destination) = ("ipn:1.5".parse().unwrap(), "ipn:2.42".parse().unwrap());
    let builder = BundleBuilder::new(source, destination, creation, 60_000);
    let every = BlockFlags::REPLICATE;
    let header = builder.with_block(GATEWAY_BLOCK_V7, every, content.into());
    let header = header.header(2).unwrap();
    let mut crc = header.payload_crc();
    crc.update(b"hi");
    let (content, text) = described(&[&header.octets[..], b"hi", &crc.trailer()].concat());
    assert_eq!(
        content,
        json!({
            "version": 6, "lifetime_s": 60, "flags": 0x8108, "place": null,
            "blocks": [{"type": 200, "flags": 1, "octets": 1}],
        })
    );
    let line = "gateway  none  version 6, lifetime 1 min, flags 0x8108, block of type 200";
    assert!(text.contains(line), "{text}");
    // [1, 0, 5 s, 30, 1, CRC-32C, none, [], [[200, 5, 1, none, 01]]]
    let content = octets_of("890100191388181e01020080818518c80501004101");
    let primary = v6::PrimaryBlock {
        flags: v6::BundleFlags::SINGLETON_DESTINATION,
        destination: "ipn:2.42".parse().unwrap(),
        source: "ipn:1.5".parse().unwrap(),
        report_to: "dtn:none".parse().unwrap(),
        custodian: "dtn:none".parse().unwrap(),
        creation: v6::CreationTime {
            seconds: 848_000_000,
            sequence: 1,
        },
        lifetime_s: 6,
        fragment: None,
    };
    let mut header = v6::Header::new(primary, 2).unwrap();
    let block = v6::Block::new(GATEWAY_BLOCK_V6, v6::BlockFlags::REPLICATE, content);
    header.blocks.push(block);
    let (content, text) = described(&[&header.encode()[..], b"hi"].concat());
    assert_eq!(
        content,
        json!({
            "version": 7, "lifetime_ms": 5000, "flags": 0, "hops": {"limit": 30, "count": 1},
            "crc": "32c", "payload_crc": "none", "place": null,
            "blocks": [{"type": 200, "flags": 1, "octets": 1}],
        })
    );
    let line = "gateway  version 7, lifetime 5 s, 1 of 30 hops, crc 32c, of payload none, block of type 200";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_block_of_type_10_is_an_age_where_it_is_a_number_alone() {
    let described = describe_captured("ibrdtn-ipnd1-epidemic#4");
    let blocks = described["blocks"].as_array().unwrap();
    let age = blocks.iter().find(|it| it["type"] == 10).unwrap();
    assert_eq!(age["content"], json!({"age_us": 442}));
}

#[test]
fn a_bundle_of_version_6_that_breaks_a_rule_is_refused_with_it() {
    let good = captured_v6("ion-bpv6-tcpclv3-custody-acs#1");
    for (octets, rule) in [
        (
            format!("{good}00"),
            "octets follow the last block (RFC 5050 4)",
        ),
        (
            good[..good.len() - 2].to_owned(),
            "the octets end before the bundle does (RFC 5050 4)",
        ),
        (
            good.replacen("811810", "811811", 1),
            "the primary block says that it has",
        ),
    ] {
        let said = decode_hex(&octets, &[]);
        assert_eq!(said.code, 1);
        assert!(said.stderr.contains(rule), "{rule:?} in {}", said.stderr);
    }
}

#[test]
fn a_bundle_of_version_6_is_made_as_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for octets in [0, 1, 127, 128, 16_384, 3_000_001] {
        let payload = payload(1, octets);
        let options = [
            "--version",
            "6",
            "--priority",
            "expedited",
            "--report",
            "delivery",
        ];
        let more = [
            "--creation",
            "848000000999/3",
            "--lifetime",
            "90s",
            "--flags",
            "0x8",
        ];
        let bundle = make_and_decode(directory.path(), &payload, &[options, more].concat());
        for (key, value) in [
            ("version", json!(6)),
            ("source", json!("ipn:1.5")),
            ("destination", json!("ipn:2.42")),
            ("report_to", json!("ipn:1.5")),
            ("custodian", json!("dtn:none")),
            ("creation", json!([848_000_000, 3])),
            ("lifetime_s", json!(90)),
            ("priority", json!("expedited")),
            ("flags", json!(0x2_0118)),
            ("payload_octets", json!(octets)),
            ("payload_sha256", json!(sha256(&payload))),
        ] {
            assert_eq!(bundle[key], value, "{key} of {octets}");
        }
    }
    let payload = directory.path().join("payload");
    let make = |more: &[&str]| {
        let words = ["bundle", "make", "dtn://a/x", "dtn://b/y"];
        run(&[&words, &[payload.to_str().unwrap()][..], more].concat())
    };
    for (option, code) in [
        (&["--version", "6", "--hop-limit", "3"][..], 2),
        (&["--version", "6", "--crc", "16"], 2),
        (&["--priority", "expedited:255"], 2),
        (&["--version", "6", "--lifetime", "1500ms"], 2),
        (&["--version", "6", "--lifetime", "0s"], 2),
        (&["--version", "6", "--flags", "0x2"], 1),
    ] {
        let said = make(option);
        assert_eq!(said.code, code, "{option:?}: {}", said.stderr);
    }
    let words = ["--version", "6", "--flags", "0x100"];
    let bundle = make_and_decode(directory.path(), b"hello", &words);
    assert_eq!(bundle["priority"], "expedited", "the flags say so");
    let file = directory.path().join("made");
    let made = make(&[
        "--version",
        "6",
        "--lifetime",
        "1s",
        "--out",
        file.to_str().unwrap(),
    ]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let octets = fs::read(file).unwrap();
    let dictionary = b"dtn\0//b/y\0//a/x\0none\0";
    assert!(octets.windows(dictionary.len()).any(|it| it == dictionary));
}
