//! How many rows a second: injected, over a socket into SQLite, and into SQLite by a plain prepared insert beside it.
//!
//! `cargo run --release --example rows -p dhow-measure [ROWS]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench ends where something fails"
)]

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dhow_measure::collector::{Collector, Place, Terms};
use dhow_measure::{Client, Column, Point, Settings, Target, Type, Value};
use rusqlite::{Connection, params};

const fn column(name: &'static str, kind: Type) -> Column {
    Column {
        name,
        kind,
        unit: "",
        about: "",
    }
}

/// As OTG's datagrams are measured.
static UDP_OUT: Point = Point {
    name: "udp_out",
    about: "a datagram was sent",
    columns: &[
        column("ts", Type::Double),
        column("flow_id", Type::Guid),
        column("seq_no", Type::Uint32),
        column("pkt_length", Type::Uint32),
        column("dst_host", Type::Text),
        column("dst_port", Type::Uint32),
    ],
};

fn main() {
    let rows: u32 = std::env::args()
        .nth(1)
        .map_or(1_000_000, |n| n.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let plain = plain(&directory.path().join("plain.sq3"), rows);
    let (inject, whole) = collected(directory.path(), rows);
    let each_second = |took: Duration| f64::from(rows) / took.as_secs_f64();
    println!("{rows} rows of {} fields", UDP_OUT.columns.len());
    println!(
        "plain prepared insert      {:>10.0} rows/s",
        each_second(plain)
    );
    println!(
        "client, socket, collector  {:>10.0} rows/s ({:.2} of it)",
        each_second(whole),
        plain.as_secs_f64() / whole.as_secs_f64()
    );
    println!(
        "inject                     {:>10.0} ns each",
        inject.as_secs_f64() * 1e9 / f64::from(rows)
    );
}

/// One transaction, one statement, a row at a time.
fn plain(path: &Path, rows: u32) -> Duration {
    let mut connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE udp_out (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL,
            oml_ts_server REAL, ts REAL, flow_id BIGINT, seq_no INTEGER, pkt_length INTEGER, dst_host TEXT, dst_port INTEGER)",
        )
        .unwrap();
    let began = Instant::now();
    let transaction = connection.transaction().unwrap();
    let insert = "INSERT INTO udp_out (oml_sender_id, oml_seq, oml_ts_client, oml_ts_server, ts, flow_id, seq_no, pkt_length,
        dst_host, dst_port) VALUES (?,?,?,?,?,?,?,?,?,?)";
    let mut statement = transaction.prepare(insert).unwrap();
    for row in 0..rows {
        let time = f64::from(row) / 1e6;
        statement
            .execute(params![
                1,
                row,
                time,
                time,
                time,
                7,
                row,
                1470,
                "127.0.0.1",
                3000
            ])
            .unwrap();
    }
    drop(statement);
    transaction.commit().unwrap();
    began.elapsed()
}

/// What the injection took of this thread, and everything until all is committed.
fn collected(directory: &Path, rows: u32) -> (Duration, Duration) {
    /// Samples between two rests, in which the thread that writes catches up.
    const BURST: u32 = 10_000;
    const REST: Duration = Duration::from_millis(15);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = directory.join("collected.sq3");
    let tell = Arc::new(|notice| panic!("{notice:?}"));
    let place = Place::File(path.clone());
    let collector = Collector::start(listener, place, Terms::default(), tell).unwrap();
    let target = Target::Tcp(collector.address().to_string());
    let settings =
        Settings::new(target, "rows", "bench", "otg2").with_spool(directory.into(), 4 << 30);
    let client = Client::connect(settings).unwrap();
    let stream = client.stream(&UDP_OUT).unwrap();
    let began = Instant::now();
    let mut injecting = Duration::ZERO;
    for start in (0..rows).step_by(10_000) {
        let burst = Instant::now();
        for row in start..rows.min(start + BURST) {
            stream.inject(&[
                Value::Double(f64::from(row) / 1e6),
                Value::Guid(7),
                Value::Uint32(row),
                Value::Uint32(1470),
                Value::Text("127.0.0.1"),
                Value::Uint32(3000),
            ]);
        }
        injecting += burst.elapsed();
        std::thread::sleep(REST);
    }
    let summary = client.close_within(Duration::from_secs(600));
    let outcome = collector.stop().unwrap();
    let whole = began.elapsed();
    assert_eq!(summary.dropped, 0, "{summary:?}");
    assert!(outcome.lost.is_none());
    let stored: u32 = Connection::open(path)
        .unwrap()
        .query_row("SELECT count(*) FROM otg2_udp_out", [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, rows);
    (injecting, whole)
}
