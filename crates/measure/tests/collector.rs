//! A collector with its databases: sessions go in over sockets, rows are read back by SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests say what fails by failing"
)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dhow_measure::collector::{Collector, Notice, Place, StreamReport, Terms};
use dhow_measure::omsp::Reason;
use dhow_measure::omsp::binary::write_row;
use dhow_measure::{Client, Column, Point, Settings, Target, Type, Value};
use rusqlite::Connection;

const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    collector: Collector,
    notices: Arc<Mutex<Vec<Notice>>>,
}

fn start(place: Place, terms: Terms) -> Running {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let tell = {
        let notices = Arc::clone(&notices);
        Arc::new(move |notice| notices.lock().unwrap().push(notice))
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = Collector::start(listener, place, terms, tell).unwrap();
    Running { collector, notices }
}

impl Running {
    /// Sends a session, and waits until the collector has closed it.
    fn send(&self, octets: &[u8]) {
        let mut stream = TcpStream::connect(self.collector.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A session that is refused may be cut while it is written.
        let _ = stream.write_all(octets);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }

    fn refusals(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap();
        notices
            .iter()
            .filter_map(|notice| match notice {
                Notice::Refused { reason, .. } => Some(reason.clone()),
                _ => None,
            })
            .collect()
    }

    fn wait_for(&self, is_there: impl Fn(&[Notice]) -> bool) {
        let began = Instant::now();
        while !is_there(&self.notices.lock().unwrap()) {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn texts(path: &Path, query: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(query).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| {
            let value: rusqlite::types::Value = row.get(column)?;
            Ok(match value {
                rusqlite::types::Value::Null => "null".to_owned(),
                rusqlite::types::Value::Integer(n) => n.to_string(),
                rusqlite::types::Value::Real(n) => format!("{n:?}"),
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Blob(octets) => format!("{octets:?}"),
            })
        });
        Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

const RECORDED: [(&str, &[u8]); 3] = [
    ("t1", include_bytes!("data/otg-text.omsp")),
    ("bx", include_bytes!("data/otg-binary.omsp")),
    ("t2", include_bytes!("data/otg-filters-text.omsp")),
];

#[test]
fn recorded_sessions_are_stored_in_the_layout_of_oml() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(Place::Directory(directory.path().into()), Terms::default());
    for (_, session) in RECORDED {
        running.send(session);
    }
    assert_eq!(running.refusals(), [""; 0]);
    let outcome = running.collector.stop().unwrap();
    assert!(outcome.lost.is_none());
    let path = |domain: &str| directory.path().join(format!("{domain}.sq3"));

    let t1 = path("t1");
    assert_eq!(texts(&t1, "SELECT name, id FROM _senders"), ["tx|1"]);
    assert_eq!(
        texts(
            &t1,
            "SELECT key, value FROM _experiment_metadata WHERE oml_sender_id IS NULL ORDER BY 1"
        ),
        [
            "start_time|1795177077",
            "table__client_instrumentation|1 _client_instrumentation measurements_injected:uint32 measurements_dropped:uint32 bytes_allocated:uint64 bytes_freed:uint64 bytes_in_use:uint64 bytes_max:uint64",
            "table_otg2_udp_out|2 otg2_udp_out ts:double flow_id:guid seq_no:uint32 pkt_length:uint32 dst_host:string dst_port:uint32",
        ]
    );
    assert_eq!(
        texts(
            &t1,
            "SELECT count(*), min(oml_seq), max(oml_seq), min(oml_ts_client) FROM _experiment_metadata WHERE oml_sender_id = 1"
        ),
        ["6|1|3|0.940081"]
    );
    // Row 17 has a NUL in its last value.
    assert_eq!(
        texts(
            &t1,
            "SELECT count(*), sum(seq_no), min(pkt_length), max(dst_port), min(dst_host) FROM otg2_udp_out"
        ),
        ["19|193|1470|3000|127.0.0.1"]
    );
    assert_eq!(
        texts(
            &t1,
            "SELECT oml_tuple_id, oml_sender_id, oml_seq, oml_ts_client, ts, printf('%u', flow_id) FROM otg2_udp_out LIMIT 1"
        ),
        ["1|1|1|1.044483|1795177078.043973|14832297068752520671"]
    );
    assert_eq!(
        texts(
            &t1,
            "SELECT stream, what, rows FROM _dhow_loss WHERE stream = 'otg2_udp_out' ORDER BY 2"
        ),
        [
            "otg2_udp_out|gaps|1",
            "otg2_udp_out|missing|1",
            "otg2_udp_out|received|19",
            "otg2_udp_out|rejected: nul|1"
        ]
    );
    assert_eq!(
        texts(
            &t1,
            "SELECT name || ' ' || type FROM pragma_table_info('otg2_udp_out')"
        ),
        [
            "oml_tuple_id INTEGER",
            "oml_sender_id INTEGER",
            "oml_seq INTEGER",
            "oml_ts_client REAL",
            "oml_ts_server REAL",
            "ts REAL",
            "flow_id UNSIGNED BIGINT",
            "seq_no UNSIGNED INTEGER",
            "pkt_length UNSIGNED INTEGER",
            "dst_host TEXT",
            "dst_port UNSIGNED INTEGER"
        ]
    );
    let counts = |domain: &str, table: &str| {
        texts(
            &path(domain),
            &format!("SELECT count(*) FROM {table} WHERE oml_sender_id = 1"),
        )
    };
    assert_eq!(counts("bx", "otg2_udp_out"), ["15"]);
    assert_eq!(counts("bx", "_experiment_metadata"), ["4"]);
    assert_eq!(counts("bx", "_client_instrumentation"), ["0"]);
    assert_eq!(counts("t2", "otg2_every10"), ["4"]);
    assert_eq!(counts("t2", "otg2_udp_out"), ["3"]);
}

fn session(domain: &str, start_s: u64, sender: &str, schema: &str, rows: &str) -> String {
    format!(
        "protocol: 4\ndomain: {domain}\nstart-time: {start_s}\nsender-id: {sender}\napp-name: a\nschema: 1 {schema}\ncontent: text\n\n{rows}"
    )
}

#[test]
fn domains_share_a_file_and_nothing_of_them_is_mixed_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    for round in 0..2 {
        let running = start(Place::File(path.clone()), Terms::default());
        running
            .send(session("one", 1000, "x", "a_p n:uint32", "0.5\t1\t1\t4000000000\n").as_bytes());
        running.send(session("two", 1010, "x", "a_p n:uint32", "0.5\t1\t1\t2\n").as_bytes());
        running.send(session("two", 1010, "y", "a_p n:double", "0.5\t1\t1\t3.5\n").as_bytes());
        let outcome = running.collector.stop().unwrap();
        assert_eq!(outcome.report.len(), 3, "{round}");
    }
    assert_eq!(
        texts(
            &path,
            "SELECT id, domain, _dhow_senders.name, _senders.name FROM _dhow_senders JOIN _senders USING (id)"
        ),
        ["1|one|x|x", "2|two|x|x@two", "3|two|y|y"]
    );
    assert_eq!(
        texts(&path, "SELECT oml_sender_id, oml_ts_client, n FROM a_p"),
        [
            "1|0.5|4000000000",
            "2|10.5|2",
            "1|0.5|4000000000",
            "2|10.5|2"
        ]
    );
    assert_eq!(
        texts(&path, "SELECT oml_sender_id, n FROM a_p_2"),
        ["3|3.5", "3|3.5"]
    );
    assert_eq!(
        texts(
            &path,
            "SELECT sum(rows) FROM _dhow_loss WHERE what = 'received'"
        ),
        ["6"]
    );
}

#[test]
fn what_a_client_may_not_do_ends_its_session_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let terms = Terms {
        token: Some("s3cret".into()),
        idle: Duration::from_millis(300),
        clients_max: 2,
        ..Terms::default()
    };
    let inside = directory.path().join("inside");
    let running = start(Place::Directory(inside.clone()), terms);
    let good = |domain: &str, rows: &str| {
        session(domain, 1, "x", "a_p n:int32", rows).replace("content", "token: s3cret\ncontent")
    };
    running.send(good("../escaped", "0.1\t1\t1\t5\n").as_bytes());
    running.send(session("d", 1, "x", "a_p n:int32", "0.1\t1\t1\t5\n").as_bytes());
    running.send(
        good("d", "0.1\t1\t1\t5\n")
            .replace("s3cret", "s3cre")
            .as_bytes(),
    );
    // Reserved tables are no streams.
    running.send(
        good("d", "0.1\t1\t1\t5\n")
            .replace("a_p", "_senders")
            .as_bytes(),
    );
    // A client of ours keeps what it measured, and knows why.
    let target = Target::Tcp(running.collector.address().to_string());
    let settings =
        Settings::new(target, "d", "x", "a").with_spool(directory.path().into(), 1 << 20);
    let client = Client::connect(settings).unwrap();
    client.stream(&SENT).unwrap().inject(&[1_u64.into()]);
    let summary = client.close_within(Duration::from_millis(500));
    assert!(
        summary
            .trouble
            .unwrap()
            .contains("its token is not the collector's")
    );
    let left = summary.left.unwrap();
    assert!(
        std::fs::read_to_string(&left)
            .unwrap()
            .contains("\t2\t1\t1\n")
    );
    std::fs::remove_file(left).unwrap();
    let mut silent = TcpStream::connect(running.collector.address()).unwrap();
    silent
        .write_all(good("d", "0.1\t1\t1\t6\n").as_bytes())
        .unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(
        silent.read(&mut [0; 1]).unwrap(),
        0,
        "ended, without a word to who does not read"
    );
    let two: Vec<TcpStream> = (0..2)
        .map(|_| TcpStream::connect(running.collector.address()).unwrap())
        .collect();
    running.wait_for(|notices| notices.len() >= 5);
    running.send(good("d", "").as_bytes());
    drop(two);
    let refusals = running.refusals();
    for words in [
        "domain '../escaped'",
        "token",
        "silent for",
        "2 clients are here",
    ] {
        assert!(
            refusals.iter().any(|r| r.contains(words)),
            "{words}: {refusals:?}"
        );
    }
    let outcome = running.collector.stop().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(texts(&inside.join("d.sq3"), "SELECT n FROM a_p"), ["6"]);
    let of = |stream: &str| {
        outcome
            .report
            .iter()
            .find(|(name, _)| name.stream == stream)
            .unwrap()
            .1
    };
    assert_eq!(
        (of("_senders").received, of("_senders").rejected_total()),
        (0, 1)
    );
}

static SENT: Point = Point {
    name: "sent",
    about: "a datagram was sent",
    columns: &[Column::new("number", Type::Uint64, "", "its number")],
};

/// Locks a file for itself.
fn lock(path: &Path) -> Connection {
    let other = Connection::open(path).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn is_away(notices: &[Notice]) -> bool {
    notices.iter().any(|n| matches!(n, Notice::Away { .. }))
}

#[test]
fn rows_that_a_database_refused_for_a_while_are_all_stored_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    let target = Target::Tcp(running.collector.address().to_string());
    let settings =
        Settings::new(target, "run", "x", "a").with_spool(directory.path().into(), 1 << 20);
    let client = Client::connect(settings).unwrap();
    let sent = client.stream(&SENT).unwrap();
    sent.inject(&[1_u64.into()]);
    let other = lock(&path);
    for number in 2..=1000_u64 {
        sent.inject(&[number.into()]);
    }
    running.wait_for(is_away);
    other.execute_batch("ROLLBACK").unwrap();
    running.wait_for(|notices| notices.contains(&Notice::Back));
    assert_eq!(client.close().dropped, 0);
    let outcome = running.collector.stop().unwrap();
    assert!(outcome.lost.is_none());
    assert_eq!(
        texts(
            &path,
            "SELECT count(*), count(DISTINCT number), sum(number) FROM a_sent"
        ),
        ["1000|1000|500500"]
    );
    assert_eq!(
        texts(
            &path,
            "SELECT point, injected, sent, dropped FROM _dhow_client"
        ),
        ["sent|1000|1000|0"]
    );
}

#[test]
fn who_sent_and_left_before_the_collector_looked_is_stored() {
    let place = tempfile::tempdir().unwrap();
    let running = start(Place::File(place.path().join("all.sq3")), Terms::default());
    for sender in 0..20 {
        let sender = format!("s{sender}");
        let text = session("d", 1, &sender, "a_x n:int32", "0.5\t1\t1\t7\n");
        let mut stream = TcpStream::connect(running.collector.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
    let outcome = running.collector.stop().unwrap();
    let received: u64 = outcome.report.values().map(|it| it.received).sum();
    assert_eq!(received, 20, "{:?}", outcome.report);
}

#[test]
fn rows_whose_database_never_comes_back_are_lost_and_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gone.sq3");
    let terms = Terms {
        end_patience: Duration::ZERO,
        ..Terms::default()
    };
    let running = start(Place::File(path.clone()), terms);
    running.send(session("d", 1, "x", "a_p n:int32", "").as_bytes());
    let other = lock(&path);
    // More than one batch, and the last of them when nothing is taken any more.
    let rows: String = (1..=9000).map(|n| format!("0.5\t1\t{n}\t7\n")).collect();
    let (address, text) = (
        running.collector.address(),
        session("d", 1, "x", "a_p n:int32", &rows),
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    running.wait_for(is_away);
    let outcome = running.collector.stop().unwrap();
    drop(other);
    let (_, report) = outcome.report.iter().next().unwrap();
    let lost = report.rejected.values().sum::<u64>();
    assert!(lost > 0 && report.received == 0, "{report:?}");
    assert_eq!(report.lines()[0], ("rejected: lost".to_owned(), lost));
    assert_eq!(outcome.lost.unwrap().0, lost);
}

#[test]
fn what_a_database_does_not_take_is_counted_and_holds_up_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    running.send(session("d", 1, "x", "a_p n:int32", "0.5\t1\t1\t1\n").as_bytes());
    let refuse = "CREATE TRIGGER odd BEFORE INSERT ON a_p WHEN new.n > 5 BEGIN SELECT raise(FAIL, 'odd'); END";
    let other = Connection::open(&path).unwrap();
    let began = Instant::now();
    while other.execute_batch(refuse).is_err() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let extremes = format!("0.5\t1\t{}\t1\n0.5\t1\t{}\t6\n", i64::MIN, i64::MAX);
    for _ in 0..3 {
        running.send(session("d", 1, "y", "a_p n:int32", &extremes).as_bytes());
        running.send(session("d", 1, "x", "a_q n:int32", "0.5\t1\t1\t1\n").as_bytes());
    }
    let outcome = running.collector.stop().unwrap();
    assert!(outcome.lost.is_none());
    assert_eq!(texts(&path, "SELECT count(*) FROM a_p"), ["1"]);
    assert_eq!(texts(&path, "SELECT count(*) FROM a_q"), ["3"]);
    assert_eq!(
        texts(
            &path,
            "SELECT what, rows FROM _dhow_loss WHERE oml_sender_id = 2 AND what LIKE 'rej%'"
        ),
        ["rejected: no-table|6"]
    );
    assert_eq!(
        texts(
            &path,
            "SELECT typeof(rows) FROM _dhow_loss WHERE what = 'missing'"
        ),
        ["integer"]
    );
}

#[test]
fn a_sender_that_cannot_be_told_from_another_is_refused_and_its_rows_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    for name in ["x", "x@two"] {
        running.send(session("one", 1, name, "a_p n:int32", "0.5\t1\t1\t1\n").as_bytes());
    }
    let text = session("two", 1, "x", "a_p n:int32", "0.5\t1\t1\t1\n")
        .replace("content", "answer: yes\ncontent");
    let mut stream = TcpStream::connect(running.collector.address()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("refused: "), "{answer}");
    assert!(running.refusals()[0].contains("'x@two'"));
    let outcome = running.collector.stop().unwrap();
    let two = outcome
        .report
        .iter()
        .find(|(name, _)| name.domain == "two")
        .unwrap()
        .1;
    assert_eq!((two.received, two.rejected_total()), (0, 1));
    assert_eq!(texts(&path, "SELECT id FROM _senders"), ["1", "2"]);
    assert_eq!(texts(&path, "SELECT count(*) FROM a_p"), ["2"]);
}

#[test]
fn programs_that_share_a_name_lose_nothing_and_one_that_comes_back_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path), Terms::default());
    let text = |rows: &str| session("d", 1, "x", "a_p n:int32", rows);
    let connect = |rows: &str| {
        let mut stream = TcpStream::connect(running.collector.address()).unwrap();
        stream.write_all(text(rows).as_bytes()).unwrap();
        stream
    };
    let wait = |rows: u64| {
        while running.collector.figures().rows() < rows {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let first = connect("0.5\t1\t1\t1\n0.5\t1\t2\t1\n");
    wait(2);
    let mut second = connect("0.5\t1\t100\t1\n");
    wait(3);
    running.send(text("").as_bytes());
    second.write_all(b"0.5\t1\t101\t1\n").unwrap();
    wait(4);
    for (stream, left) in [(first, 1), (second, 0)] {
        drop(stream);
        while running.collector.figures().clients() > left {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    running.send(text("0.5\t1\t105\t1\n").as_bytes());
    let report = report_of(running, "a_p");
    assert_eq!((report.missing, report.repeated), (3, 0));
}

/// Ends a collector; what it says of a stream.
fn report_of(running: Running, stream: &str) -> StreamReport {
    let outcome = running.collector.stop().unwrap();
    assert!(outcome.lost.is_none());
    let mut all = outcome.report.into_iter();
    all.find(|(name, _)| name.stream == stream).unwrap().1
}

/// Rows of the stream 1, of which nothing but their numbers matters.
fn rows(numbers: impl IntoIterator<Item = u32>) -> String {
    let row = |number| format!("0.5\t1\t{number}\t7\n");
    numbers.into_iter().map(row).collect()
}

#[test]
fn rows_that_are_lost_while_a_collector_is_away_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let schema = "a_p n:int32";
    // One that names its run, one of OML's, and one whose numbers a packet cannot hold.
    let named =
        |rows: &str| session("d", 1, "x", schema, rows).replace("content", "run: 1f\ncontent");
    let unnamed = |rows: &str| session("d", 1, "y", schema, rows);
    let mut missing: Vec<Vec<u64>> = Vec::new();
    for numbers in [3..=10, 15..=20, 11..=12] {
        let running = start(Place::File(path.clone()), Terms::default());
        let text = rows(numbers);
        running.send(named(&text).as_bytes());
        running.send(unnamed(&text).as_bytes());
        let outcome = running.collector.stop().unwrap();
        missing.push(outcome.report.values().map(|it| it.missing).collect());
    }
    // Rows 1 and 2 belong to a run that counts from 1, and what was late makes up for what an earlier collector missed.
    assert_eq!(missing, [vec![2, 0], vec![4, 4], vec![0, 0]]);
    let told = "SELECT name, what, rows FROM _dhow_loss JOIN _senders ON id = oml_sender_id WHERE what IN ('gaps', 'missing') ORDER BY 1, 2";
    assert_eq!(
        texts(&path, told),
        ["x|gaps|2", "x|missing|4", "y|gaps|1", "y|missing|2"]
    );
}

#[test]
fn rows_in_another_order_are_neither_missing_nor_there_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    let numbers = (0..100).flat_map(|chunk| {
        let first = (chunk ^ 1) * 30 + 1;
        first..first + 30
    });
    running.send(session("d", 1, "x", "a_p n:int32", &rows(numbers)).as_bytes());
    let report = report_of(running, "a_p");
    assert_eq!((report.received, report.repeated), (3000, 0));
    // The client of OML may begin with any number.
    assert_eq!((report.gaps, report.missing), (0, 0));
}

#[test]
fn rows_that_a_client_dropped_last_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    let target = Target::Tcp(running.collector.address().to_string());
    let settings = Settings::new(target, "run", "x", "a").with_spool(directory.path().into(), 0);
    let client = Client::connect(settings).unwrap();
    let sent = client.stream(&SENT).unwrap();
    // More than any memory on the way has room for.
    let other = lock(&path);
    let injected = 3_000_000;
    for number in 1..=injected {
        sent.inject(&[number.into()]);
    }
    other.execute_batch("ROLLBACK").unwrap();
    let summary = client.close_within(PATIENCE);
    assert!(summary.dropped > 0 && summary.left.is_none(), "{summary:?}");
    let report = report_of(running, "a_sent");
    assert_eq!(report.received, injected - summary.dropped);
    assert_eq!(report.missing, summary.dropped);
    let told = "SELECT rows FROM _dhow_loss WHERE stream = 'a_sent' AND what = 'missing'";
    assert_eq!(texts(&path, told), [summary.dropped.to_string()]);
}

#[test]
fn rows_of_a_mebibyte_are_stored_and_what_is_in_refused_ones_is_no_row() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.sq3");
    let running = start(Place::File(path.clone()), Terms::default());
    let mut row = Vec::new();
    let mut all = session("d", 1, "x", "a_p b:blob", "").replace("text", "binary");
    all = all.replace("protocol: 4", "protocol: 5");
    let mut all = all.into_bytes();
    // Each blob is full of packets of the same stream.
    write_row(&mut row, 0.5, 1, 7, &[Value::Blob(b"never sent")]);
    for (number, octets) in [
        (1, 276 << 10),
        (2, 1 << 20),
        (3, 17 << 20),
        (4, 15 << 20),
        (5, 10),
    ] {
        let blob = row.iter().copied().cycle().take(octets);
        let blob: Vec<u8> = blob.collect();
        write_row(&mut all, 0.5, 1, number, &[Value::Blob(&blob)]);
    }
    running.send(&all);
    let mut text = session("d", 1, "y", "a_q b:blob", "").into_bytes();
    for (number, octets) in [(1, 1 << 20), (2, 13 << 20), (3, 10)] {
        let mut row = String::new();
        let blob = vec![7; octets];
        dhow_measure::omsp::text::write_row(&mut row, 0.5, 1, number, &[Value::Blob(&blob)]);
        text.extend(row.as_bytes());
    }
    running.send(&text);
    let outcome = running.collector.stop().unwrap();
    for report in outcome.report.values() {
        assert_eq!(report.rejected, BTreeMap::from([(Reason::TooLong, 1)]));
        assert_eq!((report.gaps, report.missing), (1, 1));
    }
    let stored = |table| texts(&path, &format!("SELECT oml_seq, length(b) FROM {table}"));
    assert_eq!(
        stored("a_p"),
        ["1|282624", "2|1048576", "4|15728640", "5|10"]
    );
    assert_eq!(stored("a_q"), ["1|1048576", "3|10"]);
}

#[test]
fn a_domains_file_is_whole_when_its_last_client_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(Place::Directory(directory.path().into()), Terms::default());
    let path = directory.path().join("d.sq3");
    // The file alone, as one who copies it has it.
    let copy = directory.path().join("copy");
    let rows_in_copy = || {
        std::fs::copy(&path, &copy).ok()?;
        let copied = Connection::open(&copy).ok()?;
        let count = "SELECT count(*) FROM a_p";
        copied.query_row(count, [], |row| row.get(0)).ok()
    };
    let mut stream = TcpStream::connect(running.collector.address()).unwrap();
    let text = session("d", 1, "x", "a_p n:int32", &rows(1..=10));
    stream.write_all(text.as_bytes()).unwrap();
    let wait = |wanted: u64| {
        let began = Instant::now();
        while rows_in_copy() != Some(wanted) {
            assert!(began.elapsed() < PATIENCE, "{:?}", rows_in_copy());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait(10);
    stream.write_all(rows(11..=15).as_bytes()).unwrap();
    wait(15);
    drop(stream);
    let began = Instant::now();
    while directory.path().join("d.sq3-wal").exists() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    running.send(session("d", 1, "x", "a_p n:int32", &rows(18..=20)).as_bytes());
    assert_eq!(report_of(running, "a_p").missing, 2);
    assert_eq!(texts(&path, "SELECT count(*) FROM a_p"), ["18"]);
}
