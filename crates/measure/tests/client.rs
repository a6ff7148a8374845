//! A client beside a collector that comes late, leaves and comes back; what arrives is read by the decoder.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests say what fails by failing"
)]

use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use dhow_measure::omsp::{Cell, Decoder, Encoding};
use dhow_measure::{Client, Column, Point, Settings, Target, Type};

static SENT: Point = Point {
    name: "sent",
    about: "a datagram was sent",
    columns: &[
        Column::new("number", Type::Uint64, "", "its number"),
        Column::new("to", Type::Text, "", "its destination"),
        Column::new("size", Type::Double, "B", "its octets"),
    ],
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers of the rows of `SENT` and the accounts in a session.
#[derive(Debug, Default, PartialEq)]
struct Session {
    numbers: Vec<u64>,
    sequences: Vec<i64>,
    accounts: Vec<Vec<String>>,
    metadata: Vec<Vec<String>>,
    refused: u64,
}

fn read(octets: &[u8]) -> Session {
    let mut decoder = Decoder::default();
    decoder.feed(octets).unwrap();
    decoder.finish();
    let batch = decoder.take();
    let mut session = Session {
        refused: batch.refused.total(),
        ..Session::default()
    };
    for row in batch.rows.iter() {
        let defined = batch.definitions.iter().find(|d| d.stream == row.stream);
        let texts = row.cells().map(|cell| match cell {
            Cell::Text(text) => text.to_owned(),
            other => format!("{other:?}"),
        });
        match (defined.unwrap().schema.name(), row.cells().next().unwrap()) {
            ("otg_sent", Cell::Uint(number)) => {
                session.numbers.push(number);
                session.sequences.push(row.sequence);
            }
            ("_dhow_client", _) => session.accounts.push(texts.collect()),
            ("_experiment_metadata", _) => session.metadata.push(texts.collect()),
            other => panic!("{other:?}"),
        }
    }
    session
}

fn settings(target: Target, spool: &Path) -> Settings {
    Settings::new(target, "run", "alpha", "otg").with_spool(spool.to_path_buf(), 64 << 20)
}

fn tcp(port: u16) -> Target {
    Target::Tcp(format!("127.0.0.1:{port}"))
}

fn all_of(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    octets
}

/// A port at which nobody listens.
fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_file_is_a_session_with_every_sample_and_the_account() {
    let directory = tempfile::tempdir().unwrap();
    for encoding in [Encoding::Text, Encoding::Binary] {
        let path = directory.path().join(format!("{encoding:?}.oml"));
        let settings =
            settings(Target::File(path.clone()), directory.path()).with_encoding(encoding);
        let client = Client::connect(settings).unwrap();
        let sent = client.stream(&SENT).unwrap();
        client.metadata(".", "purpose", "a test");
        for number in 1..=1000_u64 {
            sent.inject(&[number.into(), "2.0\t1".into(), 1470.0.into()]);
        }
        let summary = client.close();
        assert_eq!(
            (summary.injected, summary.sent, summary.dropped),
            (1000, 1000, 0)
        );
        let session = read(&std::fs::read(&path).unwrap());
        assert_eq!(session.refused, 0);
        assert_eq!(session.numbers, Vec::from_iter(1..=1000));
        assert_eq!(session.sequences, Vec::from_iter(1..=1000));
        assert_eq!(
            session.accounts,
            [["sent", "Uint(1000)", "Uint(1000)", "Uint(0)"]]
        );
        assert_eq!(
            session.metadata,
            [
                [".otg_sent.size", "unit", "B"],
                [".", "purpose", "a test"],
                [".otg_sent", "made", "1000"]
            ]
        );
    }
}

#[test]
fn what_is_measured_before_the_collector_comes_arrives_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let port = nobody();
    let client = Client::connect(settings(tcp(port), directory.path())).unwrap();
    let sent = client.stream(&SENT).unwrap();
    // More than fits into memory on its way, so that the disk is needed.
    let mut number = 0_u64;
    for _ in 0..40 {
        for _ in 0..1000 {
            number += 1;
            sent.inject(&[
                number.into(),
                "somewhere else".repeat(3).as_str().into(),
                1.5.into(),
            ]);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let reader = std::thread::spawn(move || all_of(&mut listener.accept().unwrap().0));
    let summary = client.close_within(PATIENCE);
    assert_eq!((summary.dropped, summary.left), (0, None));
    let session = read(&reader.join().unwrap());
    assert_eq!(session.numbers, Vec::from_iter(1..=number));
    assert_eq!(session.refused, 0);
}

#[test]
fn a_collector_that_comes_back_gets_a_header_and_whole_rows() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Client::connect(settings(tcp(port), directory.path())).unwrap();
    let sent = client.stream(&SENT).unwrap();
    sent.inject(&[1_u64.into(), "x".into(), 1.5.into()]);
    let (mut first, _) = listener.accept().unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\t1\tx\t1.5\n") {
        let mut octets = [0; 4096];
        let count = first.read(&mut octets).unwrap();
        seen.extend(&octets[..count]);
    }
    // It ends the session, as one does that the client said nothing to for long; nothing is written into that.
    first.shutdown(Shutdown::Both).unwrap();
    drop(first);
    std::thread::sleep(Duration::from_millis(100));
    let late = client.stream(&SENT).unwrap();
    for number in 2..=5_u64 {
        sent.inject(&[number.into(), "x".into(), 1.5.into()]);
    }
    late.inject(&[6_u64.into(), "x".into(), 1.5.into()]);
    let reader = std::thread::spawn(move || all_of(&mut listener.accept().unwrap().0));
    let summary = client.close_within(PATIENCE);
    assert_eq!((summary.sent, summary.dropped, summary.left), (6, 0, None));
    let session = read(&reader.join().unwrap());
    assert_eq!((session.numbers, session.refused), (vec![2, 3, 4, 5, 6], 0));
}

#[test]
fn what_nobody_takes_is_left_in_a_file_or_counted_as_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let port = nobody();
    let client = Client::connect(
        settings(tcp(port), directory.path())
            .with_spool(directory.path().to_path_buf(), 1 << 20)
            .with_token("secret"),
    )
    .unwrap();
    let sent = client.stream(&SENT).unwrap();
    let text = "y".repeat(1000);
    let mut injected = 0_u64;
    for _ in 0..100 {
        for _ in 0..100 {
            injected += 1;
            sent.inject(&[injected.into(), text.as_str().into(), 1.5.into()]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let summary = client.close_within(Duration::ZERO);
    assert_eq!(summary.injected, injected);
    assert_eq!(summary.sent + summary.dropped, injected);
    assert!(summary.dropped > injected / 2, "{summary:?}");
    let left = std::fs::read(summary.left.unwrap()).unwrap();
    let session = read(&left);
    assert_eq!(u64::try_from(session.numbers.len()).unwrap(), summary.sent);
    assert_eq!(session.numbers[..100], Vec::from_iter(1..=100));
    let [injected, sent, dropped] =
        [injected, summary.sent, summary.dropped].map(|count| format!("Uint({count})"));
    let account = ["sent".to_owned(), injected, sent, dropped];
    assert_eq!(session.accounts, [account]);
    assert!(!String::from_utf8_lossy(&left).contains("secret"));
}

/// Rows that are shorter than any other, where longer ones found no room; how many.
fn fill_the_rest(sent: &dhow_measure::Stream) -> u64 {
    const ROWS: u64 = 200;
    // The rows before have been written or dropped by then.
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..ROWS {
        sent.inject(&[99_999_u64.into(), "".into(), 1.0.into()]);
    }
    ROWS
}

#[test]
fn two_clients_leave_two_files() {
    let directory = tempfile::tempdir().unwrap();
    let port = nobody();
    let clients: Vec<Client> = (0..2)
        .map(|_| Client::connect(settings(tcp(port), directory.path())).unwrap())
        .collect();
    for client in clients {
        let sent = client.stream(&SENT).unwrap();
        sent.inject(&[1_u64.into(), "x".into(), 1.5.into()]);
        let left = client.close_within(Duration::ZERO).left.unwrap();
        assert_eq!(read(&std::fs::read(left).unwrap()).numbers, [1]);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn a_file_that_takes_nothing_takes_no_memory_either() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(Target::File("/dev/full".into()), directory.path())
        .with_spool(directory.path().to_path_buf(), 1 << 20);
    let client = Client::connect(settings).unwrap();
    let sent = client.stream(&SENT).unwrap();
    let text = "y".repeat(1000);
    let injected = 10_000_u64;
    for number in 1..=injected {
        sent.inject(&[number.into(), text.as_str().into(), 1.5.into()]);
        if number % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let injected = injected + fill_the_rest(&sent);
    let summary = client.close();
    assert_eq!(summary.sent + summary.dropped, injected);
    assert!(summary.dropped > injected / 2, "{summary:?}");
    assert!(summary.trouble.unwrap().contains("cannot write"));
    let session = read(&std::fs::read(summary.left.unwrap()).unwrap());
    assert_eq!(u64::try_from(session.numbers.len()).unwrap(), summary.sent);
    assert!(session.sequences.is_sorted_by(|one, next| one < next));
    assert_eq!(session.accounts.len(), 1);
}

#[test]
fn a_stream_that_is_opened_where_there_is_no_room_for_samples_is_understood_later() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings =
        settings(tcp(port), directory.path()).with_spool(directory.path().to_path_buf(), 100_000);
    let client = Client::connect(settings).unwrap();
    let sent = client.stream(&SENT).unwrap();
    // A collector that has taken the session, and reads nothing for now.
    let (mut stream, _) = listener.accept().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let text = "y".repeat(1000);
    for number in 1..=3000_u64 {
        sent.inject(&[number.into(), text.as_str().into(), 1.5.into()]);
    }
    fill_the_rest(&sent);
    std::thread::sleep(Duration::from_millis(100));
    let late = client.stream(&SENT).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    std::io::Write::write_all(&mut stream, b"accepted\n").unwrap();
    let reader = std::thread::spawn(move || all_of(&mut stream));
    std::thread::sleep(Duration::from_millis(300));
    late.inject(&[7777_u64.into(), "x".into(), 1.5.into()]);
    let summary = client.close_within(PATIENCE);
    assert!(summary.dropped > 0, "{summary:?}");
    let session = read(&reader.join().unwrap());
    assert_eq!((session.refused, session.numbers.last()), (0, Some(&7777)));
}
