//! Measurements in parcels, over a network that loses, doubles and reorders them, into a collector's database.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests say what fails by failing"
)]

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use dhow_measure::client::Carrier;
use dhow_measure::collector::{Collector, Kept, Notice, Place, StreamReport, Terms};
use dhow_measure::omsp::Decoder;
use dhow_measure::{Client, Column, Point, Settings, Target, Type};
use rusqlite::Connection;

static SENT: Point = Point {
    name: "sent",
    about: "a datagram was sent",
    columns: &[
        Column::new("number", Type::Uint64, "", "its number"),
        Column::new("text", Type::Text, "", "of it"),
    ],
};

static SILENT: Point = Point {
    name: "silent",
    about: "nothing ever happens",
    columns: &[Column::new("number", Type::Uint64, "", "its number")],
};

const ROWS: u64 = 3000;

/// Keeps parcels; every third attempt fails though the parcel is there.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<(u32, Vec<Vec<u8>>)>>);

impl Carrier for Keeper {
    fn carry(&mut self, parcel: &[u8]) -> io::Result<()> {
        let mut kept = self.0.lock().unwrap();
        kept.0 += 1;
        kept.1.push(parcel.to_vec());
        match kept.0 % 3 {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// The parcels that a client sent: each once or, where its carrier failed to answer, twice.
fn parcels() -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let keeper = Keeper::default();
    let target = Target::Bundles("ipn:9.3003".to_owned());
    let settings = Settings::new(target, "run", "alpha", "otg")
        .with_token("secret")
        .with_spool(directory.path().into(), 1 << 20);
    let client = Client::connect_over(Box::new(keeper.clone()), settings).unwrap();
    let sent = client.stream(&SENT).unwrap();
    let _silent = client.stream(&SILENT).unwrap();
    let text = "y".repeat(100);
    for number in 1..=ROWS {
        sent.inject(&[number.into(), text.as_str().into()]);
    }
    let summary = client.close_within(Duration::from_secs(60));
    assert_eq!(
        (summary.sent, summary.dropped, summary.left),
        (ROWS, 0, None)
    );
    let kept = std::mem::take(&mut keeper.0.lock().unwrap().1);
    assert!(kept.len() > 5, "{}", kept.len());
    kept
}

/// Rows of the point in a parcel, which is whole in itself.
fn rows_in(parcel: &[u8]) -> u64 {
    assert!(parcel.len() < 70 << 10);
    assert!(!String::from_utf8_lossy(parcel).contains("secret"));
    let mut decoder = Decoder::default();
    decoder.feed(parcel).unwrap();
    decoder.finish();
    let batch = decoder.take();
    assert!(batch.refused.is_empty());
    let defined = |row: &dhow_measure::omsp::Row<'_>| {
        let mut all = batch.definitions.iter();
        let defined = all.find(|it| it.stream == row.stream).unwrap();
        defined.schema.name() == "otg_sent"
    };
    u64::try_from(batch.rows.iter().filter(defined).count()).unwrap()
}

/// Has a collector take parcels, and says what it reports of the point.
fn collect(path: &Path, parcels: &[Vec<u8>]) -> StreamReport {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tell = Arc::new(|notice| panic!("{notice:?}"));
    let place = Place::File(path.to_path_buf());
    let collector = Collector::start(listener, place, Terms::default(), tell).unwrap();
    let intake = collector.intake();
    let pledges: Vec<_> = parcels.iter().map(|it| intake.take(it).unwrap()).collect();
    for pledge in pledges {
        assert_eq!(pledge.wait(), Kept::Stored);
    }
    // A parcel that is said to be stored can be read by others.
    assert!(count(path, "_dhow_parcels") > 0);
    drop(intake);
    let report = collector.stop().unwrap().report;
    let mut streams = report.into_iter();
    let found = streams.find(|(name, _)| name.stream == "otg_sent");
    found.unwrap().1
}

fn tables(path: &Path) -> Vec<String> {
    let tables =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'";
    let database = Connection::open(path).unwrap();
    let mut tables = database.prepare(tables).unwrap();
    let names = tables.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

fn count(path: &Path, table: &str) -> u64 {
    let count = format!("SELECT count(*) FROM {table}");
    let database = Connection::open(path).unwrap();
    database.query_row(&count, [], |row| row.get(0)).unwrap()
}

#[test]
fn parcels_in_any_order_and_again_are_stored_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let mut parcels = parcels();
    let carried: u64 = parcels.iter().map(|parcel| rows_in(parcel)).sum();
    assert!(carried > ROWS, "some came twice");
    parcels.reverse();
    let report = collect(&path, &parcels);
    assert_eq!((report.received, report.missing), (ROWS, 0));
    assert_eq!(report.repeated, carried - ROWS);
    assert_eq!(count(&path, "otg_sent"), ROWS);
    assert_eq!(count(&path, "_dhow_client"), 2);
    // The other point was never measured.
    assert_eq!(tables(&path), ["otg_sent"]);
    // A collector that was away knows what it has.
    let report = collect(&path, &parcels);
    assert_eq!((report.received, report.missing), (0, 0));
    assert_eq!(count(&path, "otg_sent"), ROWS);
}

#[test]
fn a_parcel_that_is_lost_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let mut parcels = parcels();
    // Not the first that come, and not the last.
    let mut lost = rows_in(&parcels.remove(0));
    let again = parcels[1].clone();
    parcels.retain(|parcel| *parcel != again);
    lost += rows_in(&again);
    parcels.swap(0, 1);
    let report = collect(&path, &parcels);
    assert_eq!((report.received, report.missing), (ROWS - lost, lost));
    let told = "_dhow_loss WHERE stream = 'otg_sent' AND what = 'missing' AND rows > 0";
    assert_eq!(count(&path, told), 1);
}

#[test]
fn a_parcel_whose_database_cannot_be_opened_now_is_not_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.sq3");
    std::fs::create_dir(&path).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tell = Arc::new(|notice| panic!("{notice:?}"));
    let place = Place::Directory(directory.path().to_path_buf());
    let collector = Collector::start(listener, place, Terms::default(), tell).unwrap();
    let intake = collector.intake();
    let parcel = &parcels()[0];
    let kept = intake.take(parcel).unwrap().wait();
    assert!(matches!(kept, Kept::Not(_)), "{kept:?}");
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(intake.take(parcel).unwrap().wait(), Kept::Stored);
    drop(intake);
    let report = collector.stop().unwrap().report;
    // A parcel that was given again counts once.
    let received: u64 = report.values().map(|it| it.received).sum();
    assert_eq!(received, rows_in(parcel));
    assert!(report.values().all(|it| it.rejected.is_empty()));
}

#[test]
fn who_waits_for_a_database_that_is_away_hears_of_it_when_the_collector_begins_to_stop() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (away, is_away) = mpsc::channel();
    let tell = Arc::new(move |notice| drop(away.send(notice)));
    let terms = Terms {
        end_patience: Duration::ZERO,
        ..Terms::default()
    };
    let place = Place::File(path.clone());
    let collector = Collector::start(listener, place, terms, tell).unwrap();
    let intake = collector.intake();
    let parcels = parcels();
    let [first, second] = [&parcels[0], &parcels[1]];
    assert_eq!(intake.take(first).unwrap().wait(), Kept::Stored);
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pledge = intake.take(second).unwrap();
    let notice = is_away.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(matches!(notice, Notice::Away { .. }));
    collector.begin_stop();
    let kept = pledge.wait();
    assert!(matches!(kept, Kept::Not(_)), "{kept:?}");
    drop((intake, other));
    // It comes again, so nothing of it is lost.
    let outcome = collector.stop().unwrap();
    assert!(outcome.lost.is_none());
    let received: u64 = outcome.report.values().map(|it| it.received).sum();
    assert_eq!(received, rows_in(first));
    assert!(outcome.report.values().all(|it| it.rejected.is_empty()));
}

#[test]
fn what_is_no_parcel_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::File(directory.path().join("all.sq3"));
    let tell = Arc::new(|notice| panic!("{notice:?}"));
    let collector = Collector::start(listener, place, Terms::default(), tell).unwrap();
    let intake = collector.intake();
    // The last could not be told from itself when it comes again.
    let unnumbered = "protocol: 5\ndomain: d\nsender-id: s\napp-name: a\nstart-time: 1\nschema: 1 a_x n:int32\ncontent: text\n\n0.5\t1\t1\t7\n";
    for octets in ["", "rubbish\n", "protocol: 5\n", unnumbered] {
        assert!(intake.take(octets.as_bytes()).is_err(), "{octets:?}");
    }
    drop(intake);
    assert!(collector.stop().unwrap().report.is_empty());
}
