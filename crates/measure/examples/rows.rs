//! Throughput, rows a second: samples injected, rows over a socket into SQLite, and rows into SQLite by a plain prepared
//! insert for comparison.
//!
//! `cargo run --release --example rows -p dhow-measure [ROWS]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench ends where something fails"
)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dhow_measure::collector::{Collector, Place, Terms};
use dhow_measure::omsp::text::write_row;
use dhow_measure::{Client, Column, Point, Settings, Target, Type, Value};
use rusqlite::{Connection, params};

const fn column(name: &'static str, kind: Type) -> Column {
    Column::new(name, kind, "", "")
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
    let inject = injected(directory.path());
    let session = session(rows);
    let plain = plain(&directory.path().join("plain.sq3"), rows);
    let collected = collected(&directory.path().join("collected.sq3"), rows, &session);
    let each_second = |took: Duration| f64::from(rows) / took.as_secs_f64();
    println!("{rows} rows of {} fields", UDP_OUT.columns.len());
    println!(
        "plain prepared insert    {:>9.0} rows/s",
        each_second(plain)
    );
    println!(
        "socket, collector, file  {:>9.0} rows/s ({:.2} of it)",
        each_second(collected),
        plain.as_secs_f64() / collected.as_secs_f64()
    );
    println!("inject                   {inject:>9.0} ns each");
}

/// One transaction, one statement, a row at a time.
fn plain(path: &Path, rows: u32) -> Duration {
    let mut connection = Connection::open(path).unwrap();
    // As durable as what the collector writes.
    connection
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        .unwrap();
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

/// A session with so many rows, as a client sends it.
fn session(rows: u32) -> Vec<u8> {
    let mut text = format!(
        "protocol: 5\ndomain: rows\nstart-time: 1\nsender-id: bench\napp-name: otg2\nschema: 1 {}\ncontent: text\n\n",
        UDP_OUT.schema("otg2").unwrap()
    );
    for row in 0..rows {
        let time_s = f64::from(row) / 1e6;
        let values = values(row);
        write_row(&mut text, time_s, 1, u64::from(row) + 1, &values);
    }
    text.into_bytes()
}

fn values(row: u32) -> [Value<'static>; 6] {
    [
        Value::Double(f64::from(row) / 1e6),
        Value::Guid(7),
        Value::Uint32(row),
        Value::Uint32(1470),
        Value::Text("127.0.0.1"),
        Value::Uint32(3000),
    ]
}

/// Until a session that was sent at once is committed.
fn collected(path: &Path, rows: u32, session: &[u8]) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tell = Arc::new(|notice| panic!("{notice:?}"));
    let place = Place::File(path.to_path_buf());
    let collector = Collector::start(listener, place, Terms::default(), tell).unwrap();
    let began = Instant::now();
    let mut stream = TcpStream::connect(collector.address()).unwrap();
    stream.write_all(session).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let outcome = collector.stop().unwrap();
    let took = began.elapsed();
    assert!(outcome.lost.is_none());
    let count = "SELECT count(*) FROM otg2_udp_out";
    let stored: u32 = Connection::open(path)
        .unwrap()
        .query_row(count, [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, rows);
    took
}

/// Nanoseconds that a sample takes of the thread that measures.
fn injected(directory: &Path) -> f64 {
    const SAMPLES: u32 = 20_000;
    let target = Target::File(directory.join("inject.oml"));
    let client = Client::connect(Settings::new(target, "rows", "bench", "otg2")).unwrap();
    let stream = client.stream(&UDP_OUT).unwrap();
    let began = Instant::now();
    for row in 0..SAMPLES {
        stream.inject(&values(row));
    }
    let took = began.elapsed();
    assert_eq!(client.close().dropped, 0);
    took.as_secs_f64() * 1e9 / f64::from(SAMPLES)
}
